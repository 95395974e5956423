//! Captured graphs: what is recorded does nothing, what is replayed does it each time, on the input of that time.

use allfold::cuda::{Graph, RawStream};
use allfold::{CallOptions, Communicator, Dtype, Preset, ReduceOp};
use anyhow::{Result, ensure};
use cust::memory::mem_get_info;

use crate::batch::POISON;
use crate::data::Data;
use crate::machine::{Memory, raw_buffers};
use crate::numbers::{read, write};
use crate::oracle;
use crate::suite::{Bench, Outcome};

const DTYPE: Dtype = Dtype::Bf16;
const ELEMS: usize = 3001;
const OUTPUT_OFFSET_BYTES: usize = 8192;
const BYTES: usize = OUTPUT_OFFSET_BYTES + 8192;

/// Bytes that the driver may keep of what graphs took.
const KEPT_BYTES: usize = 2 << 20;

fn call(comm: &mut Communicator, memories: &[Box<dyn Memory>], options: &CallOptions) -> allfold::Result<()> {
    let buffers: Vec<_> = memories
        .iter()
        // SAFETY: used in each rank's one stream, and the memories live longer.
        .map(|memory| unsafe { raw_buffers(DTYPE, &**memory, 0, OUTPUT_OFFSET_BYTES, ELEMS) })
        .collect();
    // SAFETY: as above.
    unsafe { comm.all_reduce_raw(DTYPE, &buffers, ReduceOp::Sum, options) }.map(drop)
}

/// Gives every rank new input and poisons the outputs.
fn renew(memories: &mut [Box<dyn Memory>], number: u64) -> Result<()> {
    for (rank, memory) in memories.iter_mut().enumerate() {
        let mut image = vec![POISON; BYTES];
        (0..ELEMS).for_each(|elem| write(DTYPE, &mut image, elem, Data::Ramp(number).bits(DTYPE, rank, elem)));
        memory.upload(&image)?;
    }
    Ok(())
}

/// Whether every rank has the sum of input `number`, or where that is `None` an untouched output.
fn look(comm: &Communicator, memories: &[Box<dyn Memory>], number: Option<u64>) -> Result<()> {
    memories.iter().try_for_each(|memory| memory.synchronize())?;
    comm.check()?;
    for (rank, memory) in memories.iter().enumerate() {
        let mut got = vec![0; BYTES];
        memory.download(&mut got)?;
        for elem in 0..ELEMS {
            let want = match number {
                None => read(DTYPE, &[POISON; 4], 0),
                Some(number) => {
                    let term = |rank| Data::Ramp(number).bits(DTYPE, rank, elem);
                    oracle::sum(DTYPE, &(0..memories.len()).map(term).collect::<Vec<_>>())
                }
            };
            let got = read(DTYPE, &got[OUTPUT_OFFSET_BYTES..], elem);
            ensure!(got == want, "input {number:?}, rank {rank}, element {elem}: {got:#x}, not {want:#x}");
        }
    }
    Ok(())
}

pub(super) fn b14_b76_b81_b82_b83_graphs(bench: &Bench) -> Result<Outcome> {
    if bench.on_cpu() {
        return Ok(Outcome::Skipped("CPU ranks have no graphs".into()));
    }
    for world in bench.worlds() {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, 1 << 14))?;
        let mut memories = (0..world).map(|rank| bench.machine.memory(rank, BYTES)).collect::<Result<Vec<_>>>()?;
        for (algorithm, input) in bench.forms(Preset::Allfold, world) {
            let options = CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
            renew(&mut memories, 0)?;
            let graphs = capture(&mut comm, &memories, &options)?;
            look(&comm, &memories, None)?;
            // The number of replays is odd: the call after them uses the other bank.
            for number in 1..if bench.quick { 6 } else { 52 } {
                renew(&mut memories, number)?;
                launch(&graphs, &memories)?;
                look(&comm, &memories, Some(number))?;
            }
            renew(&mut memories, 100)?;
            call(&mut comm, &memories, &options)?;
            look(&comm, &memories, Some(100))?;
        }
        leaves_nothing(&mut comm, &memories)?;
        bench.count(world as u64);
    }
    Ok(Outcome::Holds)
}

fn capture(comm: &mut Communicator, memories: &[Box<dyn Memory>], options: &CallOptions) -> Result<Vec<Graph>> {
    let streams: Vec<RawStream<'_>> = memories.iter().filter_map(|memory| memory.stream()).map(Into::into).collect();
    Ok(Graph::capture_all(&streams, || call(comm, memories, options))?)
}

fn launch(graphs: &[Graph], memories: &[Box<dyn Memory>]) -> Result<()> {
    for (graph, stream) in graphs.iter().zip(memories.iter().filter_map(|memory| memory.stream())) {
        // SAFETY: whoever calls this waits for the streams while the memories and the communicator live.
        unsafe { graph.launch(stream) }?;
    }
    Ok(())
}

/// Graphs that are captured, replayed and dropped leave no memory behind.
fn leaves_nothing(comm: &mut Communicator, memories: &[Box<dyn Memory>]) -> Result<()> {
    let mut free_bytes = [0; 2];
    for free in &mut free_bytes {
        for _ in 0..50 {
            let graphs = capture(comm, memories, &CallOptions::default())?;
            launch(&graphs, memories)?;
            memories.iter().try_for_each(|memory| memory.synchronize())?;
        }
        *free = mem_get_info()?.0;
    }
    let [before, after] = free_bytes;
    ensure!(after + KEPT_BYTES >= before, "50 graphs took {} bytes and did not give them back", before - after);
    Ok(())
}
