//! Reductions: every operation on every element type, by every form.

use allfold::{Dtype, Options, Preset, ReduceOp};
use anyhow::{Result, ensure};

use crate::call::Call;
use crate::data::{Data, EDGES, mix};
use crate::suite::{Bench, Outcome, in_place};

/// Most elements of a call here, but for those of all edges.
const MOST_ELEMS: u64 = 3000;

pub(super) fn b34_b106_b107_ops_and_types(bench: &Bench) -> Result<Outcome> {
    for world in bench.worlds() {
        // A communicator for each, as a GPU has kernels of its own for each.
        for dtype in Dtype::ALL {
            let capacity_bytes = dtype.bytes() * (MOST_ELEMS as usize).max(EDGES * EDGES);
            let options = Options {
                dtypes: vec![dtype],
                ops: ReduceOp::ALL.to_vec(),
                cpu_shape: (2, 1),
                ..bench.options(Preset::Allfold, capacity_bytes)
            };
            let mut comm = bench.communicator(world, options)?;
            for op in ReduceOp::ALL {
                let calls = calls(bench, world, dtype, op);
                for (call, outputs) in calls.iter().zip(bench.run_one(&mut comm, &calls)?) {
                    // NaN is one of many for the oracle: of ranks it is the same.
                    let same = outputs.iter().all(|output| *output == outputs[0]);
                    ensure!(same, "{world} ranks have different bits after {call:?}");
                }
            }
        }
    }
    Ok(Outcome::Holds)
}

/// Calls in every form: numbers, any bits and all pairs of edges; lengths, places and alignments as a seed says.
fn calls(bench: &Bench, world: usize, dtype: Dtype, op: ReduceOp) -> Vec<Call> {
    let mut calls = Vec::new();
    for (number, form) in bench.forms(Preset::Allfold, world).into_iter().enumerate() {
        let seed = mix((op as u64) << 8 | dtype as u64, world as u64, number as u64);
        let call = Call { op, in_place: in_place(form) && seed.is_multiple_of(2), ..Call::new(dtype, 0).by(form) };
        let elems = |by: u64| (1 + (seed >> by) % MOST_ELEMS) as usize;
        let drawn = [
            Call { data: Data::Random(seed), elems: elems(8), ..call },
            Call { data: Data::Bits(seed), elems: elems(24), skew: (seed >> 4) as usize % 8, ..call },
            Call { data: Data::Edges(seed), elems: EDGES * EDGES, ..call },
        ];
        // Quick: one of them for each form.
        calls.extend(if bench.quick { &drawn[number % 3..][..1] } else { &drawn });
    }
    calls
}
