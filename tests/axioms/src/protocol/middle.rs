//! The two-shot's middle barrier: the reduced part is there when it is gathered, and the input is read when it is overwritten.

use super::{Form, LOADS_DONE, ORDERS, PUBLISHES, RELEASE_ACQUIRE, Section, TOO_WEAK, VOLATILE, at};
use crate::case::Case;
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Verdict::{Forbidden, Race};

fn synced(on: bool, thread: Thread) -> Thread {
    if on { thread.bar() } else { thread }
}

/// Thread 1 reduces, thread 0 announces; on the peer thread 0 waits, thread 1 gathers.
fn threads(form: Form, before: bool, after: bool) -> [Thread; 4] {
    [
        synced(before, at(0, 1, 0, 1).write("scratch of 0", 1)),
        synced(before, at(0, 1, 0, 0)).announce(form.1, "middle 0>1", 1),
        synced(after, at(1, 1, 0, 0).wait_for(form.2, "middle 0>1", 1)),
        synced(after, at(1, 1, 0, 1)).read("r", "scratch of 0"),
    ]
}

/// The thread that reduces also announces, the thread that waits also gathers: no other thread is in it.
fn same_thread(form: Form) -> [Thread; 2] {
    [
        at(0, 1, 0, 0).write("scratch of 0", 1).announce(form.1, "middle 0>1", 1),
        at(1, 1, 0, 0).wait_for(form.2, "middle 0>1", 1).read("r", "scratch of 0"),
    ]
}

/// Another block of the peer gathers: it has its own barrier, with its namesake.
fn other_block(form: Form) -> [Thread; 4] {
    [
        at(0, 1, 1, 0).write("scratch of 0", 1).announce(form.1, "middle 0>1 of block 1", 1),
        at(0, 1, 0, 0).announce(form.1, "middle 0>1 of block 0", 1),
        at(1, 1, 0, 0).wait_for(form.2, "middle 0>1 of block 0", 1).read("r", "scratch of 0"),
        at(1, 1, 1, 0).wait_for(form.2, "middle 0>1 of block 1", 1),
    ]
}

pub(super) fn section() -> Section {
    let case = |form: String, threads: Vec<Thread>, expected| {
        Case::new("Middle barrier", form, threads, Outcome::of([("r", 0)]), expected)
    };
    let sound = RELEASE_ACQUIRE;
    let mut cases = vec![case(sound.0.into(), threads(sound, true, true).into(), Forbidden).mutated(&[])];
    cases.extend(TOO_WEAK.map(|form| case(form.0.into(), threads(form, true, true).into(), Race)));
    cases.extend([
        case(VOLATILE.0.into(), threads(VOLATILE, true, true).into(), Race).assuming(&[PUBLISHES, ORDERS, LOADS_DONE]),
        case(format!("{}, no block sync before it", sound.0), threads(sound, false, true).into(), Race),
        case(format!("{}, no block sync after it", sound.0), threads(sound, true, false).into(), Race),
        case(format!("{}, no block sync, one thread does all", sound.0), same_thread(sound).into(), Forbidden)
            .mutated(&[]),
        case(format!("{}, one thread does all", VOLATILE.0), same_thread(VOLATILE).into(), Race),
        case(format!("{}, gathered by another block", sound.0), other_block(sound).into(), Race),
    ]);
    Section {
        title: "Middle barrier of the two-shot",
        asks: "On rank 0 thread 1 of a block stores its part of the sums to scratch, the block synchronises, thread 0 announces; \
               on rank 1 thread 0 waits, the block synchronises, thread 1 gathers. Asked: it gathers what was there before.",
        cases,
        answer: "Release / acquire, with a block sync on both sides: cumulativity carries the stores of all threads into one \
                 release and out of one acquire. No assumption saves volatile flags: the sums are written by the same kernel. \
                 That a thread gathers only what the thread of its index reduced helps nobody, unless that very thread \
                 also stores and awaits the flag.",
    }
}

pub(super) fn in_place() -> Section {
    // Rank 0 reduces an element of rank 1's input, then rank 1 overwrites it.
    let threads = |form: Form, before: bool, after: bool| {
        [
            synced(before, at(0, 1, 0, 1).read("r", "input of 1")),
            synced(before, at(0, 1, 0, 0)).announce(form.1, "middle 0>1", 1),
            synced(after, at(1, 1, 0, 0).wait_for(form.2, "middle 0>1", 1)),
            synced(after, at(1, 1, 0, 1)).write("input of 1", 1),
        ]
    };
    let case = |form: String, threads: [Thread; 4], expected| {
        Case::new("Two-shot in place", form, threads, Outcome::of([("r", 1)]), expected)
    };
    let (sound, volatile) = (RELEASE_ACQUIRE, VOLATILE);
    Section {
        title: "Two-shot in place",
        asks: "On rank 0 thread 1 reads an element of rank 1's input, the block synchronises, thread 0 announces the middle \
               barrier; on rank 1 thread 0 waits, the block synchronises, thread 1 overwrites that element with the gathered \
               sum. Asked: rank 0 reads the sum.",
        cases: vec![
            case(sound.0.into(), threads(sound, true, true), Forbidden).mutated(&[]),
            case(format!("{}, no block sync before it", sound.0), threads(sound, false, true), Race),
            case(format!("{}, no block sync after it", sound.0), threads(sound, true, false), Race),
            case(volatile.0.into(), threads(volatile, true, true), Race),
            case(volatile.0.into(), threads(volatile, true, true), Forbidden).assuming(&[LOADS_DONE]),
        ],
        answer: "The same release / acquire also makes the two-shot sound in place.",
    }
}
