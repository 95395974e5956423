//! The end barrier of the one-shot: an input is not overwritten while a peer still reads it.

use super::{Form, LOADS_DONE, ORDERS, PUBLISHES, RELEASE_ACQUIRE, Section, TOO_WEAK, VOLATILE, at};
use crate::case::Case;
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Verdict::{Forbidden, Race};

/// Rank 0, block 1, reads rank 1's input; the next kernel of rank 1, in whichever block, overwrites it.
fn threads(form: Form, sync_before: bool) -> [Thread; 4] {
    let sync = |thread: Thread| if sync_before { thread.bar() } else { thread };
    [
        sync(at(0, 1, 1, 1).read("r", "input of 1")),
        sync(at(0, 1, 1, 0)).announce(form.1, "end 0>1 of block 1", 1),
        at(1, 1, 1, 0).wait_for(form.2, "end 0>1 of block 1", 1),
        at(1, 2, 0, 0).write("input of 1", 1),
    ]
}

/// The thread that reads announces: program order alone.
fn same_thread(form: Form) -> [Thread; 3] {
    [
        at(0, 1, 1, 0).read("r", "input of 1").announce(form.1, "end 0>1 of block 1", 1),
        at(1, 1, 1, 0).wait_for(form.2, "end 0>1 of block 1", 1),
        at(1, 2, 0, 0).write("input of 1", 1),
    ]
}

/// No barrier at the end at all.
fn none() -> [Thread; 2] {
    [at(0, 1, 1, 1).read("r", "input of 1"), at(1, 2, 0, 0).write("input of 1", 1)]
}

pub(super) fn section() -> Section {
    let case = |form: String, threads: Vec<Thread>, expected| {
        Case::new("End barrier", form, threads, Outcome::of([("r", 1)]), expected)
    };
    let sound = RELEASE_ACQUIRE;
    let mut cases = vec![case(sound.0.into(), threads(sound, true).into(), Forbidden).mutated(&[])];
    cases.extend(TOO_WEAK.map(|form| case(form.0.into(), threads(form, true).into(), Race)));
    cases.extend([
        case(VOLATILE.0.into(), threads(VOLATILE, true).into(), Race).assuming(&[PUBLISHES, ORDERS]),
        case(VOLATILE.0.into(), threads(VOLATILE, true).into(), Forbidden).assuming(&[LOADS_DONE]),
        case(format!("{}, the reader announces", VOLATILE.0), same_thread(VOLATILE).into(), Race),
        case(format!("{}, no block sync before it", sound.0), threads(sound, false).into(), Race),
        case(format!("{}, no block sync before it", VOLATILE.0), threads(VOLATILE, false).into(), Race)
            .assuming(&[LOADS_DONE]),
        case("none".into(), none().into(), Race),
        case("none".into(), none().into(), Race).assuming(&[PUBLISHES, ORDERS, LOADS_DONE]),
    ]);
    Section {
        title: "End barrier of the one-shot, registered input",
        asks: "On rank 0 thread 1 of block 1 reads rank 1's input, the block synchronises, thread 0 announces the end; on rank 1 \
               thread 0 of block 1 waits, with no block sync after, and the kernel ends; the next kernel of its stream \
               overwrites the input. Asked: rank 0 reads the new value.",
        cases,
        answer: "With volatile flags the model lets the peer's load return what is stored after the barrier: a load may take \
                 effect after a later store of its thread (load buffering), since the flag does not depend on it. It is \
                 forbidden once loads are taken to be done before a later store is seen; that one property of the hardware, \
                 and nothing about kernel ends, is what a volatile end barrier rests on. With release / acquire nothing is \
                 assumed, and no block sync is needed after it: the end of the kernel joins all blocks.",
    }
}
