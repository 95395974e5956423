//! What a communicator counts of its calls is what was called.

use allfold::cuda::RawStream;
use allfold::{Algorithm, CallOptions, Communicator, Count, Dtype, Error, InputMode, Preset, ReduceOp};
use anyhow::{Result, ensure};

use crate::machine::{Memory, raw_buffers};
use crate::suite::{Bench, Outcome};

const DTYPE: Dtype = Dtype::F16;
const BYTES: usize = 4096;
/// Replays of what was captured.
const REPLAYS: u64 = 3;

fn call(
    comm: &mut Communicator,
    memories: &[Box<dyn Memory>],
    elems: usize,
    options: &CallOptions,
) -> allfold::Result<()> {
    let buffers: Vec<_> = memories
        .iter()
        // SAFETY: used in each rank's one stream, and the memories live longer.
        .map(|memory| unsafe { raw_buffers(DTYPE, &**memory, 0, BYTES, elems) })
        .collect();
    // SAFETY: as above.
    unsafe { comm.all_reduce_raw(DTYPE, &buffers, ReduceOp::Sum, options) }.map(drop)
}

/// Forms that need nothing of the others' buffers, wherever those are; the calls of each algorithm are of lengths of their own.
fn forms(bench: &Bench, world: usize) -> Vec<(Algorithm, CallOptions)> {
    let own = |&(algorithm, input): &(Algorithm, InputMode)| algorithm.pushes() || input.staged();
    let forms = bench.forms(Preset::Allfold, world).into_iter().filter(own);
    let options =
        |(algorithm, input)| CallOptions { algorithm: Some(algorithm), input: Some(input), ..CallOptions::default() };
    forms.map(|form| (form.0, options(form))).collect()
}

pub(super) fn counted(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let mut comm = bench.communicator(world, bench.options(Preset::Allfold, BYTES))?;
        let memories = comm.local_ranks().map(|rank| bench.machine.memory(rank, 2 * BYTES));
        let memories = memories.collect::<Result<Vec<_>>>()?;
        let forms = forms(bench, world);
        let mut expected = comm.counters();
        ensure!(expected == Default::default(), "a new communicator counts {expected:?}");

        let mut by_algorithm = [Count::default(); Algorithm::ALL.len()];
        let one = |elems: usize| Count { calls: 1, bytes: (elems * DTYPE.bytes()) as u64 };
        let algorithms = |comm: &Communicator| Algorithm::ALL.map(|algorithm| comm.counters().by_algorithm(algorithm));
        // One rank alone has one algorithm, whatever was asked for.
        let of = |algorithm| if world == 1 { Algorithm::OneShot } else { algorithm };
        for (number, (algorithm, options)) in forms.iter().enumerate() {
            for elems in [100 + number, 0] {
                call(&mut comm, &memories, elems, options)?;
                expected.launched += one(elems);
                by_algorithm[of(*algorithm) as usize] += one(elems);
            }
        }
        ensure!(comm.counters().launched == expected.launched, "{:?}, not {expected:?}", comm.counters());
        ensure!(algorithms(&comm) == by_algorithm, "{:?}, not {by_algorithm:?}", comm.counters());

        let refused = CallOptions { blocks: Some(0), ..forms[0].1 };
        for _ in 0..2 {
            let error = call(&mut comm, &memories, 100, &refused);
            ensure!(matches!(error, Err(Error::Grid { .. })), "{error:?}");
        }
        let error = comm.all_reduce::<f32>(&[], ReduceOp::Sum);
        ensure!(matches!(error, Err(Error::RankCount { .. })), "{error:?}");
        expected.refused = 3;

        let streams: Vec<RawStream<'_>> =
            memories.iter().filter_map(|memory| memory.stream()).map(Into::into).collect();
        let lengths = || forms.iter().zip(50..);
        let captured = comm
            .capture(&streams, |comm| lengths().try_for_each(|(form, elems)| call(comm, &memories, elems, &form.1)))?;
        lengths().for_each(|(_, elems)| expected.captured += one(elems));
        ensure!(algorithms(&comm) == by_algorithm, "{:?}: captured calls were not launched", comm.counters());
        for _ in 0..REPLAYS {
            // SAFETY: the memories live as long as the communicator.
            unsafe { comm.replay(&captured, &streams) }?;
            for ((algorithm, _), elems) in lengths() {
                expected.replayed += one(elems);
                by_algorithm[of(*algorithm) as usize] += one(elems);
            }
        }
        expected.replays = REPLAYS;
        call(&mut comm, &memories, 7, &forms[0].1)?;
        expected.launched += one(7);
        by_algorithm[of(forms[0].0) as usize] += one(7);
        memories.iter().try_for_each(|memory| memory.synchronize())?;
        comm.check()?;

        let counters = comm.counters();
        ensure!(algorithms(&comm) == by_algorithm, "{counters:?}, not {by_algorithm:?}");
        let numbers = |c: &allfold::Counters| (c.launched, c.captured, c.replayed, c.replays, c.refused, c.failed);
        ensure!(numbers(&counters) == numbers(&expected), "{counters:?}, not {expected:?}");
        let mut total = Count::default();
        by_algorithm.into_iter().for_each(|count| total += count);
        ensure!(counters.total() == total, "{counters:?}: in all not {total:?}");
        bench.count(by_algorithm.len() as u64);
    }
    Ok(Outcome::Holds)
}
