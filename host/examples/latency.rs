//! What a call takes where each rank is a process of its own with a GPU: `allfold launch -n 2 -- latency 1024 65536`.
//!
//! Calls on bf16 are captured into a graph, which is replayed; microseconds a call, the median of the slowest rank. After the word
//! `registered` the buffers are registered before, after `captured` when the capture is finished; else they are copied or pushed.

use std::error::Error;
use std::time::{Duration, Instant};

use allfold::cuda::{Context, Device, DeviceMemory, Event, Graph, Stream};
use allfold::rendezvous::{Environment, Rendezvous};
use allfold::{CallOptions, Communicator, Dtype, Options, RankBuffers, ReduceOp, Registered, Span};
use half::bf16;

/// Replays, of which the first two are not counted.
const REPLAYS: usize = 52;
/// Bytes of the call before each replay. It ends on all ranks at the same time, and takes longer than to launch the graph:
/// then it counts little how far apart processes are.
const GATE_BYTES: usize = 64 << 20;

fn deadline() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// Calls in a graph.
fn chain(bytes: usize) -> usize {
    if bytes <= 1 << 20 { 1000 } else { 100 }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments: Vec<_> = std::env::args().skip(1).collect();
    let how = arguments.first().filter(|word| word.parse::<usize>().is_err()).cloned().unwrap_or_default();
    let sizes = arguments.drain(usize::from(!how.is_empty())..).map(|size| size.parse());
    let sizes = sizes.collect::<Result<Vec<usize>, _>>()?;
    let environment = Environment::read()?;
    let rendezvous = environment.join(deadline())?;
    // Each process may see its own GPU alone.
    let ordinal = environment.local_rank.min(Device::count()?.saturating_sub(1));
    let device = Device::get(ordinal)?;
    let context: Context = device.context()?;
    let stream = Stream::new(&context)?;
    let begun = Instant::now();
    // What is not declared is not loaded.
    let options = Options {
        dtypes: vec![Dtype::Bf16],
        max_blocks: Some(device.multiprocessors),
        captured_calls: if how == "captured" { 4096 } else { 0 },
        ..Options::for_processes()
    };
    let mut comm = Communicator::connect_cuda_with(ordinal, &rendezvous, options)?;
    let connected = begun.elapsed();
    let gate = DeviceMemory::alloc(&context, GATE_BYTES)?;
    for bytes in sizes {
        let (input, output) = (DeviceMemory::alloc(&context, bytes)?, DeviceMemory::alloc(&context, bytes)?);
        let elems = (bytes / size_of::<bf16>()) as u64;
        let span = |memory: &DeviceMemory| [Span { address: memory.address(), bytes: memory.bytes() as u64 }];
        // SAFETY: the memory lives until the names are given back.
        let names = unsafe { [comm.register(&span(&input))?, comm.register(&span(&output))?] };
        let registered = match how.as_str() {
            "registered" => Registered::By { input: names[0], output: names[1] },
            "captured" => Registered::Later,
            _ => Registered::No,
        };
        let call = |comm: &mut Communicator, input: u64, output: u64, elems: u64, registered| {
            // SAFETY: the memory lives until the stream has been waited for, and nothing else touches it.
            let buffers =
                unsafe { RankBuffers::<bf16>::device_raw(input, output, elems, stream.raw().as_ptr().cast()) };
            let options = CallOptions { registered, ..CallOptions::default() };
            comm.all_reduce_with(&[buffers], ReduceOp::Sum, &options)
        };
        let (chain, mut how_done) = (chain(bytes), None);
        let mut one = |comm: &mut Communicator| {
            call(comm, input.address(), output.address(), elems, registered).map(|plan| how_done = Some(plan))
        };
        let graph = Graph::capture(&stream, |_| (0..chain).try_for_each(|_| one(&mut comm)))?;
        comm.finish_capture()?;
        let (start, end) = (Event::new(&context, true)?, Event::new(&context, true)?);
        let mut micros = Vec::new();
        for _ in 0..REPLAYS {
            rendezvous.barrier(deadline())?;
            call(&mut comm, gate.address(), gate.address(), (GATE_BYTES / size_of::<bf16>()) as u64, Registered::No)?;
            start.record(stream.raw())?;
            // SAFETY: as above.
            unsafe { graph.launch(&stream) }?;
            end.record(stream.raw())?;
            stream.synchronize()?;
            micros.push(end.micros_since(&start)? / chain as f64);
        }
        micros.drain(..2);
        micros.sort_by(f64::total_cmp);
        let of_all = rendezvous.all_gather(&micros[micros.len() / 2].to_le_bytes(), deadline())?;
        let medians = of_all.iter().map(|word| word.as_slice().try_into().map_or(f64::NAN, f64::from_le_bytes));
        if environment.rank == 0 {
            let plan = how_done.map_or("none", |plan| plan.algorithm.name());
            println!("{bytes} {:.3} {plan}", medians.fold(0.0, f64::max));
        }
        names.into_iter().try_for_each(|name| comm.release(name))?;
    }
    comm.check()?;
    if environment.rank == 0 {
        println!("connected in {} ms", connected.as_millis());
    }
    Ok(())
}
