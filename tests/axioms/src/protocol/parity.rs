//! Double buffering by the parity of the epoch: what keeps a staging bank, or a flag, from being overwritten two calls later.

use super::{Form, LOADS_DONE, ORDERS, PUBLISHES, RELEASE_ACQUIRE, SYS, Section, VOLATILE, at};
use crate::case::Case;
use crate::event::{Order, Until};
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Verdict::{Allowed, Forbidden, Race};

/// Rank 0 reads bank 0 of rank 1 in call `e`, and starts `e + 1`; rank 1 awaits that in `e + 1`, and then writes bank 0
/// for `e + 2`: in its kernel `rewritten_in`, by another block.
fn threads(form: Form, rewritten_in: u8) -> Vec<Thread> {
    vec![
        at(0, 1, 1, 1).read("r", "bank 0 of 1"),
        at(0, 2, 0, 0).announce(form.1, "start 0>1, odd", 2),
        at(1, 2, 0, 0).wait_for(form.2, "start 0>1, odd", 2),
        at(1, rewritten_in, 1, 0).write("bank 0 of 1", 3),
    ]
}

pub(super) fn section() -> Section {
    let case = |form: String, threads: Vec<Thread>, expected| {
        Case::new("Parity", form, threads, Outcome::of([("r", 3)]), expected)
    };
    let (sound, volatile) = (RELEASE_ACQUIRE, VOLATILE);
    let without = |form: Form| format!("one bank: rewritten for e + 1, {}", form.0);
    Section {
        title: "Staging banks by parity, no end barrier",
        asks: "Rank 0 reads rank 1's bank 0 in call e; its block 0 announces the start of e + 1. Rank 1 waits for that in e + 1; \
               bank 0 is written again for e + 2, by a copy before the kernel or by the kernel. Asked: rank 0 reads the data \
               of e + 2 in call e.",
        cases: vec![
            case(sound.0.into(), threads(sound, 3), Forbidden).mutated(&[]),
            case(volatile.0.into(), threads(volatile, 3), Race),
            case(volatile.0.into(), threads(volatile, 3), Race).assuming(&[PUBLISHES]),
            case(volatile.0.into(), threads(volatile, 3), Forbidden).assuming(&[PUBLISHES, ORDERS]),
            case(volatile.0.into(), threads(volatile, 3), Forbidden).assuming(&[LOADS_DONE]),
            case(without(sound), threads(sound, 2), Race),
            case(without(volatile), threads(volatile, 2), Race).assuming(&[PUBLISHES, ORDERS, LOADS_DONE]),
        ],
        answer: "Two banks replace the end barrier: the start barrier of the call between says that the peer's call before it \
                 has ended. That chain is made of stream order, one release and one acquire; the multi-GPU barrier will do. \
                 With volatile flags it rests on the same properties as a volatile start barrier, or on loads being done \
                 before later stores.",
    }
}

/// A flag of call `e` is stored again for a later call: may the poll of `e` find that value?
pub(super) fn flags() -> Section {
    let two_banks = |(_, announce, wait): Form, poll: Order| {
        vec![
            at(0, 1, 0, 0).poll_into(poll, "r", "start 1>0, odd", Until::IsNot(0)),
            at(0, 2, 0, 0).announce(announce, "start 0>1, even", 2),
            at(1, 1, 0, 0).announce(announce, "start 1>0, odd", 1),
            at(1, 2, 0, 0).wait_for(wait, "start 0>1, even", 2),
            at(1, 3, 0, 0).announce(announce, "start 1>0, odd", 3),
        ]
    };
    let one_bank = |(_, announce, wait): Form, poll: Order| {
        vec![
            at(0, 1, 0, 0).announce(announce, "start 0>1", 1).poll_into(poll, "r", "start 1>0", Until::IsNot(0)),
            at(1, 1, 0, 0).announce(announce, "start 1>0", 1).wait_for(wait, "start 0>1", 1),
            at(1, 2, 0, 0).announce(announce, "start 1>0", 2),
        ]
    };
    let case = |banks: &str, form: Form, threads: Vec<Thread>, later: u32, expected| {
        let name = format!("{banks}, {}", form.0);
        Case::new("Flag banks", name, threads, Outcome::of([("r", later)]), expected)
    };
    let (sound, volatile) = (RELEASE_ACQUIRE, VOLATILE);
    let (acquire, relaxed) = (Order::Acquire(SYS), Order::Volatile);
    let in_two = |expected| case("two banks", volatile, two_banks(volatile, relaxed), 3, expected);
    Section {
        title: "Flag banks by parity, compared for equality",
        asks: "Rank 1 announces call e, then in the same word a later call: e + 1 with one bank, e + 2 with two. Asked: rank 0's                poll for e finds the later value, which a test for equality would not take.",
        cases: vec![
            case("two banks", sound, two_banks(sound, acquire), 3, Forbidden).mutated(&EITHER),
            in_two(Allowed),
            in_two(Forbidden).assuming(&[PUBLISHES, ORDERS]),
            in_two(Forbidden).assuming(&[LOADS_DONE]),
            case("one bank", sound, one_bank(sound, acquire), 2, Allowed),
            case("one bank", volatile, one_bank(volatile, relaxed), 2, Allowed),
        ],
        answer: "With one word a peer may be a call ahead, so the test must be \"reached\". With two banks equality will do; but \
                 with volatile flags that too rests on the hardware, which \"reached\" does not.",
    }
}

const EITHER: [(&str, &str); 1] = [("[start", "one pair of release and acquire forbids it, and there are two")];
