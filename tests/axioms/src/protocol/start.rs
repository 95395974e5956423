//! The multi-GPU start barrier: a rank's input was written before its kernel, in stream order.

use super::{Announce, Await, Form, ORDERS, PUBLISHES, RELEASE_ACQUIRE, SYS, Section, TOO_WEAK, VOLATILE, at};
use crate::case::Case;
use crate::event::Order;
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Verdict::{Forbidden, Race};

fn threads((_, announce, wait): Form) -> [Thread; 4] {
    [
        at(0, 0, 0, 1).write("input of 0", 1),
        at(0, 1, 0, 0).announce(announce, "start 0>1", 1),
        at(1, 1, 1, 0).wait_for(wait, "start 0>1", 1).bar(),
        at(1, 1, 1, 1).bar().read("r", "input of 0"),
    ]
}

fn case(form: Form, expected: Verdict) -> Case {
    Case::new("Start barrier", form.0, threads(form), Outcome::of([("r", 0)]), expected)
}

pub(super) fn section() -> Section {
    let mut cases = vec![case(RELEASE_ACQUIRE, Forbidden).mutated(&[])];
    cases.extend(TOO_WEAK.map(|form| case(form, Race)));
    let acquired = ("volatile / acquire", Announce::As(Order::Volatile), Await::As(Order::Acquire(SYS)));
    let released = ("release / volatile", Announce::As(Order::Release(SYS)), Await::As(Order::Volatile));
    cases.extend([
        case(VOLATILE, Race).assuming(&[PUBLISHES]),
        case(VOLATILE, Race).assuming(&[ORDERS]),
        case(VOLATILE, Forbidden).assuming(&[PUBLISHES, ORDERS]),
        case(acquired, Forbidden).assuming(&[PUBLISHES]),
        case(released, Forbidden).assuming(&[ORDERS]),
    ]);
    Section {
        title: "Start barrier, input written before the kernel",
        asks: "Rank 0's input is written by an earlier kernel or copy of its stream. Block 0 of its next kernel announces. On \
               rank 1, thread 0 of block 1 waits, the block synchronises, thread 1 reads the input. Asked: it reads what was \
               there before.",
        cases,
        answer: "Release / acquire is enough, with no block sync before the store: the stream carries the input into the \
                 release. Volatile flags leave it to two properties of the hardware, one on each side; either half alone is \
                 not enough.",
    }
}
