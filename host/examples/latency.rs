//! What a call takes where each rank is a process of its own with a GPU: `allfold launch -n 2 -- latency 1024 65536`.
//!
//! Calls on bf16 are captured into a graph, which is replayed; microseconds a call, the median of the slowest rank.

use std::error::Error;
use std::time::{Duration, Instant};

use allfold::cuda::{Context, Device, DeviceMemory, Event, Graph, Stream};
use allfold::rendezvous::{Environment, Rendezvous};
use allfold::{Communicator, Options, RankBuffers, ReduceOp};
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
    let sizes = std::env::args().skip(1).map(|size| size.parse()).collect::<Result<Vec<usize>, _>>()?;
    let environment = Environment::read()?;
    let rendezvous = environment.join(deadline())?;
    // Each process may see its own GPU alone.
    let ordinal = environment.local_rank.min(Device::count()?.saturating_sub(1));
    let device = Device::get(ordinal)?;
    let context: Context = device.context()?;
    let stream = Stream::new(&context)?;
    let begun = Instant::now();
    let options = Options { max_blocks: Some(device.multiprocessors), ..Options::for_processes() };
    let mut comm = Communicator::connect_cuda_with(ordinal, &rendezvous, options)?;
    let connected = begun.elapsed();
    let gate = DeviceMemory::alloc(&context, GATE_BYTES)?;
    for bytes in sizes {
        let (input, output) = (DeviceMemory::alloc(&context, bytes)?, DeviceMemory::alloc(&context, bytes)?);
        let elems = (bytes / size_of::<bf16>()) as u64;
        let mut call = |input: u64, output: u64, elems: u64| {
            // SAFETY: the memory lives until the stream has been waited for, and nothing else touches it.
            let buffers =
                unsafe { RankBuffers::<bf16>::device_raw(input, output, elems, stream.raw().as_ptr().cast()) };
            comm.all_reduce(&[buffers], ReduceOp::Sum)
        };
        let chain = chain(bytes);
        let graph =
            Graph::capture(&stream, |_| (0..chain).try_for_each(|_| call(input.address(), output.address(), elems)))?;
        let (start, end) = (Event::new(&context, true)?, Event::new(&context, true)?);
        let mut micros = Vec::new();
        for _ in 0..REPLAYS {
            rendezvous.barrier(deadline())?;
            call(gate.address(), gate.address(), (GATE_BYTES / size_of::<bf16>()) as u64)?;
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
            println!("{bytes} {:.3}", medians.fold(0.0, f64::max));
        }
    }
    comm.check()?;
    if environment.rank == 0 {
        println!("connected in {} ms", connected.as_millis());
    }
    Ok(())
}
