//! Calls that follow each other by other algorithms and in graphs, whose inputs kernels make just before: the library chooses.

use std::collections::BTreeSet;

use allfold::cuda::RawStream;
use allfold::{CallOptions, Options, Preset, Registered};
use anyhow::{Result, ensure};

use super::stamps::{MOST_ELEMS, OUTPUT_OFFSET_BYTES, Stamped, call, memories, settle};
use crate::data::mix;
use crate::suite::{Bench, Outcome, in_place};

/// What pushes have room for: more of them is done otherwise.
const LANDING_BYTES: u64 = 8 << 10;
/// Calls of a graph.
const CAPTURED: usize = 10;

/// A call by what the library chooses, of a size about that at which it chooses another algorithm.
fn about_the_switch(rows_bytes: &[u64], number: u64, registered: Registered) -> Stamped {
    let any = |what: u64, below: usize| mix(9, what, number) as usize % below;
    let dtype = Options::DTYPES[any(0, Options::DTYPES.len())];
    let edges = [LANDING_BYTES, LANDING_BYTES / 2, LANDING_BYTES / u64::from(dtype.landing_packs()), 4096, 256];
    let edges: Vec<_> = edges.iter().chain(rows_bytes).map(|&bytes| bytes as usize / dtype.bytes()).collect();
    let elems = (edges[any(1, edges.len())] + any(2, 17)).saturating_sub(8).clamp(1, MOST_ELEMS);
    Stamped { dtype, elems, in_place: any(3, 3) == 0, options: CallOptions { registered, ..CallOptions::default() } }
}

pub(super) fn b09_b31_b52_sizes_about_the_switch(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        let options = Options {
            stamps: true,
            landing_bytes: Some(LANDING_BYTES),
            captured_calls: 4 * CAPTURED as u32,
            cpu_shape: (2, 1),
            ..bench.options(Preset::Allfold, OUTPUT_OFFSET_BYTES)
        };
        let mut comm = bench.communicator(world, options)?;
        let memories = memories(bench, &comm)?;
        let streams: Vec<RawStream<'_>> =
            memories.iter().filter_map(|memory| memory.stream()).map(Into::into).collect();
        let spans: Vec<_> = memories.iter().map(|memory| memory.span()).collect();
        // SAFETY: the memories live longer than the communicator's calls.
        let name = unsafe { comm.register(&spans) }?;
        let (named, later) = (Registered::By { input: name, output: name }, Registered::Later);
        let rows_bytes: Vec<_> = comm.rows().iter().map(|row| row.up_to_bytes).filter(|&it| it <= 1 << 17).collect();
        let (mut number, mut chosen) = (0, BTreeSet::new());
        for round in 0..if bench.quick { 8 } else { 200 } {
            for _ in 0..20 {
                number += 1;
                let plan = call(&mut comm, &memories, about_the_switch(&rows_bytes, number, named))?;
                chosen.insert(plan.algorithm.name());
            }
            // The graph's calls begin with either bank, and so do those that follow it.
            let calls = (0..CAPTURED as u64 - round % 2).map(|it| about_the_switch(&rows_bytes, number + it, later));
            let calls: Vec<_> = calls.collect();
            let graph =
                comm.capture(&streams, |comm| calls.iter().try_for_each(|&it| call(comm, &memories, it).map(drop)))?;
            comm.finish_capture()?;
            for _ in 0..3 {
                // SAFETY: memories and communicator live until the streams have been waited for.
                unsafe { comm.replay(&graph, &streams) }?;
            }
            let wrong = settle(&comm, &memories)?;
            ensure!(wrong.iter().all(|&wrong| wrong == 0), "{world} ranks, round {round}: wrong by rank {wrong:?}");
            bench.count(20 + 3 * calls.len() as u64);
        }
        ensure!(world == 1 || chosen.len() > 1, "{world} ranks: all of it was done by {chosen:?}");
        comm.release(name)?;
    }
    Ok(Outcome::Holds)
}

pub(super) fn b06_b14_b76_b81_b82_made_and_summed_in_a_graph(bench: &Bench) -> Result<Outcome> {
    // A NaN in each dtype that has them, and no stamp's sum.
    const UNTOUCHED: u8 = 0xff;
    for world in bench.worlds() {
        let options = Options {
            stamps: true,
            captured_calls: 2 * CAPTURED as u32,
            ..bench.options(Preset::Allfold, OUTPUT_OFFSET_BYTES)
        };
        let mut comm = bench.communicator(world, options)?;
        let mut memories = memories(bench, &comm)?;
        let spans: Vec<_> = memories.iter().map(|memory| memory.span()).collect();
        // SAFETY: the memories live longer than the communicator's calls.
        let name = unsafe { comm.register(&spans) }?;
        let forms = bench.forms(Preset::Allfold, world);
        let kinds = |round: u64, registered: Registered| -> Vec<_> {
            let kind = |number: u64| {
                let any = |what: u64, below: usize| mix(6 + round, what, number) as usize % below;
                let form = forms[any(0, forms.len())];
                let (algorithm, input) = (Some(form.0), Some(form.1));
                let options = CallOptions { algorithm, input, registered, ..CallOptions::default() };
                let elems = 1 + (any(1, 16_000) >> any(2, 12));
                Stamped {
                    dtype: Options::DTYPES[any(3, Options::DTYPES.len())],
                    elems,
                    in_place: in_place(form) && any(4, 2) == 0,
                    options,
                }
            };
            (0..CAPTURED as u64).map(kind).collect()
        };
        for round in 0..if bench.quick { 2 } else { 10 } {
            // To warm up, as users do.
            let eager = kinds(round, Registered::By { input: name, output: name });
            eager.iter().try_for_each(|&it| call(&mut comm, &memories, it).map(drop))?;
            settle(&comm, &memories)?;
            memories.iter_mut().try_for_each(|memory| memory.upload(&vec![UNTOUCHED; 2 * OUTPUT_OFFSET_BYTES]))?;
            let calls = kinds(round, Registered::Later);
            let streams: Vec<_> = memories.iter().filter_map(|memory| memory.stream()).map(Into::into).collect();
            let graph =
                comm.capture(&streams, |comm| calls.iter().try_for_each(|&it| call(comm, &memories, it).map(drop)))?;
            comm.finish_capture()?;
            settle(&comm, &memories)?;
            for memory in &memories {
                let mut bytes = vec![0; memory.bytes()];
                memory.download(&mut bytes)?;
                ensure!(bytes.iter().all(|&byte| byte == UNTOUCHED), "what was only captured has written something");
            }
            // An odd number: the calls after it have the other bank.
            for _ in 0..if bench.quick { 21 } else { 1001 } {
                // SAFETY: memories and communicator live until the streams have been waited for.
                unsafe { comm.replay(&graph, &streams) }?;
            }
            let wrong = settle(&comm, &memories)?;
            ensure!(wrong.iter().all(|&wrong| wrong == 0), "{world} ranks, replayed: wrong by rank {wrong:?}");
            eager.iter().try_for_each(|&it| call(&mut comm, &memories, it).map(drop))?;
            let wrong = settle(&comm, &memories)?;
            ensure!(wrong.iter().all(|&wrong| wrong == 0), "{world} ranks, after replays: wrong by rank {wrong:?}");
            bench.count(22 * CAPTURED as u64);
        }
        comm.release(name)?;
    }
    Ok(Outcome::Holds)
}
