//! The start barrier under programmatic dependent launch: the kernel starts before the one that writes its input has ended.

use super::{Form, RELEASE_ACQUIRE, Section, at};
use crate::case::Case;
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Verdict::{Forbidden, Race};

/// As `start`, each thread with a wait; the announcement before it or after.
fn threads(announce_early: bool) -> [Thread; 4] {
    let (_, announce, wait): Form = RELEASE_ACQUIRE;
    let announcer = at(0, 1, 0, 0);
    [
        at(0, 0, 0, 1).write("input of 0", 1),
        if announce_early {
            announcer.announce(announce, "start 0>1", 1).grid_wait()
        } else {
            announcer.grid_wait().announce(announce, "start 0>1", 1)
        },
        at(1, 1, 1, 0).grid_wait().wait_for(wait, "start 0>1", 1).bar(),
        at(1, 1, 1, 1).grid_wait().bar().read("r", "input of 0"),
    ]
}

/// The reader polls before its own wait: that wait is for its own stream only.
fn poll_early() -> [Thread; 4] {
    let [writer, announcer, _, reader] = threads(false);
    let poller = at(1, 1, 1, 0).wait_for(RELEASE_ACQUIRE.2, "start 0>1", 1).grid_wait().bar();
    [writer, announcer, poller, reader]
}

/// The chain of parity double buffering: the start of `e + 1` announced before or after the wait for `e`'s kernel.
fn parity(announce_early: bool) -> [Thread; 4] {
    let (_, announce, wait): Form = RELEASE_ACQUIRE;
    let announcer = at(0, 2, 0, 0);
    [
        at(0, 1, 1, 1).read("r", "bank 0 of 1"),
        if announce_early {
            announcer.announce(announce, "start 0>1, odd", 2).grid_wait()
        } else {
            announcer.grid_wait().announce(announce, "start 0>1, odd", 2)
        },
        at(1, 2, 0, 0).grid_wait().wait_for(wait, "start 0>1, odd", 2),
        at(1, 3, 1, 0).grid_wait().write("bank 0 of 1", 3),
    ]
}

fn own(early: bool) -> [Thread; 2] {
    let reader = at(0, 1, 0, 0);
    let reader =
        if early { reader.read("r", "input of 0").grid_wait() } else { reader.grid_wait().read("r", "input of 0") };
    [at(0, 0, 0, 1).write("input of 0", 1), reader]
}

pub(super) fn section() -> Section {
    let case = |form, threads: Vec<Thread>, expected| {
        Case::new("Start barrier, dependent launch", form, threads, Outcome::of([("r", 0)]), expected)
    };
    let banks = |form, threads: [Thread; 4], expected| {
        Case::new("Parity, dependent launch", form, threads, Outcome::of([("r", 3)]), expected)
    };
    let poll_spare = [("gpu 1 kernel 2", "the poll may come before its own wait")];
    let spare = [("gpu 1", "the reader's own stream has nothing to do with rank 0's input")];
    Section {
        title: "Start barrier under programmatic dependent launch",
        asks: "As above, but each kernel may start before the one before it has ended; what follows `griddepcontrol.wait` is \
               ordered after that one. Asked: a read returns what was there before, or (last rows) \
               what is written two calls later.",
        cases: vec![
            case("wait, then release", threads(false).into(), Forbidden).mutated(&spare),
            case("release, then wait", threads(true).into(), Race),
            case("the peer polls before its own wait", poll_early().into(), Forbidden),
            case("own input, read after the wait", own(false).into(), Forbidden).mutated(&[]),
            case("own input, read before the wait", own(true).into(), Race),
            banks("bank of e rewritten for e + 2: wait, then release", parity(false), Forbidden).mutated(&poll_spare),
            banks("bank of e rewritten for e + 2: release, then wait", parity(true), Race),
        ],
        answer: "The release must come after `griddepcontrol.wait`; before it, it publishes nothing of the kernel before, and \
                 does not say that that kernel has ended. The \
                 poll may come before the peer's own wait.",
    }
}
