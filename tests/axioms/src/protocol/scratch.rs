//! Reuse of the two-shot's scratch area: it is written again in the next call, after that call's start barrier.

use super::{Form, LOADS_DONE, ORDERS, PUBLISHES, RELEASE_ACQUIRE, Section, VOLATILE, at};
use crate::case::Case;
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Verdict::{Forbidden, Race};

/// Rank 0 gathers in `e`, and starts `e + 1`; rank 1 awaits that and writes its scratch again.
fn threads(form: Form, sync: bool) -> [Thread; 4] {
    let synced = |thread: Thread| if sync { thread.bar() } else { thread };
    [
        at(0, 1, 1, 1).read("r", "scratch of 1"),
        at(0, 2, 0, 0).announce(form.1, "start 0>1", 2),
        synced(at(1, 2, 1, 0).wait_for(form.2, "start 0>1", 2)),
        synced(at(1, 2, 1, 1)).write("scratch of 1", 2),
    ]
}

/// No start barrier stands between: written again before it.
fn before_the_barrier() -> [Thread; 2] {
    [at(0, 1, 1, 1).read("r", "scratch of 1"), at(1, 2, 1, 1).write("scratch of 1", 2)]
}

pub(super) fn section() -> Section {
    let case = |form: String, threads: Vec<Thread>, expected| {
        Case::new("Scratch reuse", form, threads, Outcome::of([("r", 2)]), expected)
    };
    let (sound, volatile) = (RELEASE_ACQUIRE, VOLATILE);
    let loosely = |expected| case(volatile.0.into(), threads(volatile, true).into(), expected);
    Section {
        title: "Reuse of the scratch area",
        asks: "Rank 0 gathers from rank 1's scratch area in call e; its block 0 announces the start of e + 1. On rank 1 thread 0 of \
               block 1 waits for that, the block synchronises, thread 1 stores the next part to scratch. Asked: rank 0 gathers \
               the part of e + 1 in call e.",
        cases: vec![
            case(sound.0.into(), threads(sound, true).into(), Forbidden).mutated(&[]),
            case(format!("{}, no block sync after it", sound.0), threads(sound, false).into(), Race),
            case(format!("{}, written before the barrier", sound.0), before_the_barrier().into(), Race),
            loosely(Race),
            loosely(Race).assuming(&[PUBLISHES]),
            loosely(Forbidden).assuming(&[PUBLISHES, ORDERS]),
            loosely(Forbidden).assuming(&[LOADS_DONE]),
        ],
        answer: "The start barrier of the next call is enough, block or multi-GPU, with its block sync; one scratch area will do. \
                 A volatile one (vLLM's two-shot) rests on the hardware.",
    }
}
