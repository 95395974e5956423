//! A story that one thread tells on all GPUs, from the making of a communicator to its end: in which a driver call may fail.

use std::time::Duration;

use allfold::cuda::{DriverError, RawStream, Stream};
use allfold::{
    Algorithm, Communicator, Dtype, Error, InputMode, Options, RankBuffers, ReduceOp, Registration, SelfTest,
};
use anyhow::anyhow;

use super::rank::{BYTES, Call};
use super::{Ground, RankMemory};

/// How long ranks wait in a story.
pub const TIMEOUT: Duration = Duration::from_secs(1);

/// How a story ends before its end.
pub enum Cut {
    /// By an error of the library.
    Said(Error),
    /// By something that must not be.
    Wrong(anyhow::Error),
}

impl From<Error> for Cut {
    fn from(error: Error) -> Cut {
        Cut::Said(error)
    }
}

impl From<DriverError> for Cut {
    fn from(error: DriverError) -> Cut {
        Cut::Said(error.into())
    }
}

/// What comes of a story.
pub type Told = Result<(), Cut>;

/// A call by this form.
pub fn call(algorithm: Algorithm, input: InputMode) -> Call {
    Call { dtype: Dtype::F32, elems: 500, algorithm, input, grid: None }
}

/// What communicators of stories are made for.
pub fn options(inputs: Vec<InputMode>, algorithms: Vec<Algorithm>) -> Options {
    Options {
        timeout: Some(TIMEOUT),
        dtypes: vec![Dtype::F32],
        inputs,
        algorithms,
        capacity_bytes: BYTES as u64,
        landing_bytes: Some(2 * BYTES as u64),
        max_blocks: Some(4),
        connect_timeout: Duration::from_secs(5),
        // Its driver calls can fail, too.
        self_test: SelfTest::Always,
        ..Options::default()
    }
}

/// Ranks on all GPUs, and what is known of them.
struct Ranks<'a> {
    comm: Communicator,
    memories: &'a mut [RankMemory],
    calls: u64,
}

impl Ranks<'_> {
    fn write(&mut self, call: Call, number: u32) -> Told {
        for (rank, memory) in (0..).zip(self.memories.iter_mut()) {
            memory.write(&call.input(rank, number), &call.poison())?;
        }
        Ok(())
    }

    fn launch(&mut self, call: Call, name: Option<Registration>, streams: Option<&[Stream]>) -> allfold::Result<()> {
        let buffers: Vec<RankBuffers<'_, f32>> = self
            .memories
            .iter_mut()
            .enumerate()
            .map(|(rank, memory)| memory.buffers(call.elems, streams.map(|streams| &streams[rank])))
            .collect();
        self.comm.all_reduce_with(&buffers, ReduceOp::Sum, &call.options(name))?;
        self.calls += 1;
        Ok(())
    }

    /// Waits, and looks at what is there of call `number`.
    fn look(&self, call: Call, number: u32, streams: Option<&[Stream]>) -> Told {
        match streams {
            Some(streams) => streams.iter().try_for_each(Stream::synchronize)?,
            None => self.memories.iter().try_for_each(RankMemory::synchronize)?,
        }
        self.comm.check()?;
        for memory in self.memories.iter() {
            let got = memory.output(4 * call.elems)?;
            call.check(&got, self.memories.len() as u32, number).map_err(Cut::Wrong)?;
        }
        Ok(())
    }

    fn tell(&mut self, call: Call, number: u32, name: Option<Registration>) -> Told {
        self.write(call, number)?;
        self.launch(call, name, None)?;
        self.look(call, number, None)
    }
}

/// Makes a communicator over `gpus`, and sums once.
pub fn short(gpus: &[u32]) -> Told {
    let mut memories =
        gpus.iter().map(|&gpu| Ground::Gpu(gpu).memory(4 * BYTES)).collect::<allfold::Result<Vec<_>>>()?;
    let options = options(vec![InputMode::Registered], vec![Algorithm::OneShotPush]);
    let comm = Communicator::cuda_with(gpus, options)?;
    let mut ranks = Ranks { comm, memories: &mut memories, calls: 0 };
    ranks.tell(call(Algorithm::OneShotPush, InputMode::Registered), 1, None)
}

/// Only the making of a communicator.
pub fn making(gpus: &[u32]) -> Told {
    let options = options(vec![InputMode::Registered], vec![Algorithm::OneShotPush]);
    Communicator::cuda_with(gpus, options)?;
    Ok(())
}

/// The whole story.
pub fn long(gpus: &[u32]) -> Told {
    // The communicator, which waits for all work, goes before memories and streams do.
    let mut memories =
        gpus.iter().map(|&gpu| Ground::Gpu(gpu).memory(4 * BYTES)).collect::<allfold::Result<Vec<_>>>()?;
    let others = memories
        .iter()
        .filter_map(RankMemory::stream)
        .map(|stream| Ok(Stream::new(stream.context())?))
        .collect::<allfold::Result<Vec<_>>>()?;
    let options =
        options(vec![InputMode::Registered, InputMode::Memcpy], vec![Algorithm::OneShot, Algorithm::OneShotPush]);
    let comm = Communicator::cuda_with(gpus, options)?;
    let mut ranks = Ranks { comm, memories: &mut memories, calls: 0 };
    let spans: Vec<_> = ranks.memories.iter().map(RankMemory::span).collect();
    // SAFETY: the memories live as long as the communicator.
    let name = unsafe { ranks.comm.register(&spans) }?;
    let push = call(Algorithm::OneShotPush, InputMode::Registered);
    let read = call(Algorithm::OneShot, InputMode::Registered);
    ranks.tell(push, 1, None)?;
    ranks.tell(read, 2, Some(name))?;
    ranks.tell(call(Algorithm::OneShot, InputMode::Memcpy), 3, None)?;

    // On other streams, and back.
    let back: Vec<_> =
        ranks.memories.iter().filter_map(RankMemory::stream).map(|stream| stream.raw().as_ptr()).collect();
    // SAFETY: the memories keep their streams.
    let own: Vec<RawStream<'_>> = back.into_iter().map(|stream| unsafe { RawStream::from_ptr(stream) }).collect();
    let to: Vec<_> = others.iter().map(Stream::raw).collect();
    ranks.comm.change_streams(&own, &to)?;
    ranks.write(push, 4)?;
    ranks.launch(push, None, Some(&others))?;
    ranks.look(push, 4, Some(&others))?;
    ranks.comm.change_streams(&to, &own)?;

    ranks.write(push, 5)?;
    let memories = &mut *ranks.memories;
    let mut record = |comm: &mut Communicator| {
        for (call, name) in [(push, None), (read, Some(name))] {
            let buffers: Vec<RankBuffers<'_, f32>> =
                memories.iter_mut().map(|memory| memory.buffers(call.elems, None)).collect();
            comm.all_reduce_with(&buffers, ReduceOp::Sum, &call.options(name))?;
        }
        Ok(())
    };
    let captured = ranks.comm.capture(&own, &mut record)?;
    for _ in 0..2 {
        // SAFETY: memories and communicator live until the streams have been waited for, or the communicator is gone.
        unsafe { ranks.comm.replay(&captured, &own) }?;
    }
    ranks.look(push, 5, None)?;
    let counters = ranks.comm.counters();
    let counts = [counters.launched, counters.captured, counters.replayed].map(|count| count.calls);
    if counts != [ranks.calls, 2, 4] || counters.refused + counters.failed != 0 {
        return Err(Cut::Wrong(anyhow!("{counters:?} after {} calls", ranks.calls)));
    }
    ranks.comm.release(name)?;
    ranks.comm.finish()?;
    drop(captured);
    ranks.tell(push, 6, None)
}
