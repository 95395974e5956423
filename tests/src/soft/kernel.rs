//! Kernels by name, and how they are run: a thread for each block of those that wait for others.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use allfold::{Algorithm, Dtype, InputMode};
use allfold_kernels::protocol::abi::{KernelArgs, MAX_RANKS};
use allfold_kernels::protocol::entry_point::{Does, EntryPoint, Form};

/// All that there may be, by name. Where several have a name they do the same.
static ENTRY_POINTS: LazyLock<HashMap<String, EntryPoint>> = LazyLock::new(|| {
    let mut all = HashMap::new();
    let mut add = |entry_point: EntryPoint| {
        all.insert(entry_point.to_string(), entry_point);
    };
    let forms = InputMode::ALL.into_iter().map(Form::Own).chain([Form::Captured, Form::Any, Form::Stress]);
    let forms: Vec<_> = forms.collect();
    for dtype in Dtype::ALL.into_iter().filter(|&dtype| dtype.kernels() == dtype) {
        add(EntryPoint::Stage(dtype));
        add(EntryPoint::FillStamps(dtype));
        add(EntryPoint::CheckStamps(dtype));
        for algorithm in Algorithm::ALL {
            for (&form, does) in forms.iter().flat_map(|form| [(form, Does::Sums), (form, Does::AnyOp)]) {
                for world in (1..=MAX_RANKS as u32).filter(|&world| algorithm.takes(world)) {
                    add(EntryPoint::AllReduce { dtype, does, algorithm, form, world });
                }
            }
        }
    }
    all
});

/// The kernel of this name.
pub(super) fn named(name: &str) -> Option<EntryPoint> {
    ENTRY_POINTS.get(name).copied()
}

/// The names of the entry points in PTX.
pub(super) fn names(ptx: &str) -> HashSet<String> {
    let entries = ptx.split(".visible .entry ").skip(1);
    entries.filter_map(|rest| rest.split_once('(')).map(|(name, _)| name.to_owned()).collect()
}

/// Runs `blocks` blocks to their end.
///
/// # Safety
/// As for [`allfold::driver_faults::run_block`].
pub(super) unsafe fn run(entry_point: EntryPoint, args: &KernelArgs, blocks: u32) {
    // SAFETY: the caller's promise.
    let block = |block| unsafe { allfold::driver_faults::run_block(entry_point, args, block, blocks) };
    match entry_point {
        EntryPoint::AllReduce { world: 2.., .. } => std::thread::scope(|scope| {
            (1..blocks).for_each(|number| drop(scope.spawn(move || block(number))));
            block(0);
        }),
        // They wait for nobody.
        EntryPoint::AllReduce { .. }
        | EntryPoint::Stage(_)
        | EntryPoint::FillStamps(_)
        | EntryPoint::CheckStamps(_) => (0..blocks).for_each(block),
    }
}
