//! Marker-in-data: no barrier; the data are their own flag. 0 is the marker.

use super::{LOADS_DONE, ORDERS, PUBLISHES, SYS, Section, at};
use crate::assumption::Assumption;
use crate::case::Case;
use crate::event::{FenceKind, Order, Scope, Until};
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use FenceKind::AcqRel;
use Order::{Acquire, Relaxed, Release, Volatile, Weak};
use Verdict::{Allowed, Forbidden, Race};

/// Two words of one pack, and the width and strength of the accesses.
pub(super) fn words() -> Section {
    let pack = |st: Order, first: &str, ld: Order| {
        [
            at(0, 1, 0, 0).st(st, "word 0", 1).st(st, "word 1", 1),
            if first == "word 0" {
                at(1, 1, 0, 0).ld(ld, "r0", "word 0").ld(ld, "r1", "word 1")
            } else {
                at(1, 1, 0, 0).ld(ld, "r1", "word 1").ld(ld, "r0", "word 0")
            },
        ]
    };
    let polled = |st: Order| {
        let until = Until::IsNot(0);
        [
            at(0, 1, 0, 0).st(st, "word 0", 1).st(st, "word 1", 2),
            at(1, 1, 0, 0).poll_into(Relaxed(SYS), "r0", "word 0", until).poll_into(
                Relaxed(SYS),
                "r1",
                "word 1",
                until,
            ),
        ]
    };
    let torn = || Outcome::of([("r0", 1), ("r1", 0)]);
    let other = || Outcome::of([("r1", 0)]);
    let case = |form: &str, threads, outcome, expected| Case::new("Words of a pack", form, threads, outcome, expected);
    Section {
        title: "Marker in data: the words of a pack",
        asks: "Rank 0 pushes a pack as a set of scalar stores, rank 1 loads its words. Asked: the first word is there and the second is \
               still the marker.",
        cases: vec![
            case("relaxed.sys, loaded in order", pack(Relaxed(SYS), "word 0", Relaxed(SYS)), torn(), Allowed),
            case("relaxed.sys, loaded in the other order", pack(Relaxed(SYS), "word 1", Relaxed(SYS)), torn(), Allowed),
            case("volatile, loaded in order", pack(Volatile, "word 0", Volatile), torn(), Allowed),
            case("every word polled until it is no marker", polled(Relaxed(SYS)), other(), Forbidden),
            case("relaxed.gpu stores", pack(Relaxed(Scope::Gpu), "word 0", Relaxed(SYS)), torn(), Race),
            case("ordinary stores", pack(Weak, "word 0", Relaxed(SYS)), torn(), Race),
            case("ordinary loads", pack(Relaxed(SYS), "word 0", Weak), torn(), Race),
        ],
        answer: "Words of a pack are seen apart, whatever the order of loading, so each word must be tested. Both sides must be strong \
                 at system scope; ordinary stores, or stores at device scope, race with the poll.",
    }
}

/// How the pusher and the poller of a generation do it.
#[derive(Clone, Copy)]
struct Push {
    name: &'static str,
    push: fn(Thread, &str, u32) -> Thread,
    poll: fn(Thread, &str) -> Thread,
}

const PLAIN: Push = Push {
    name: "relaxed",
    push: |t, slot, value| t.st(Relaxed(SYS), slot, value),
    poll: |t, slot| t.poll(Relaxed(SYS), slot, Until::IsNot(0)),
};
const FENCED: Push = Push {
    name: "fence.acq_rel before the push and after the poll",
    push: |t, slot, value| t.fence(AcqRel, SYS).st(Relaxed(SYS), slot, value),
    poll: |t, slot| t.poll(Relaxed(SYS), slot, Until::IsNot(0)).fence(AcqRel, SYS),
};
const ORDERED: Push = Push {
    name: "release / acquire",
    push: |t, slot, value| t.st(Release(SYS), slot, value),
    poll: |t, slot| t.poll(Acquire(SYS), slot, Until::IsNot(0)),
};

/// Rank 0 consumes generation 0 and puts the marker back, in kernel `clear_in`; rank 1 pushes to it again `generations`
/// calls later, after the push of rank 0 that it needs for the call before.
fn clearing_threads(how: Push, generations: u8, clear_in: u8, clear: Order) -> Vec<Thread> {
    let last = 1 + generations;
    let mut threads = vec![
        at(1, 1, 0, 0).st(Relaxed(SYS), "slot 0 of 0", 1),
        // Another thread of the kernel pushes, as when the grid has changed.
        (how.push)(at(0, last - 1, 0, 1), "last slot of 1", 2),
        (how.poll)(at(1, last - 1, 0, 1), "last slot of 1"),
        (how.push)(at(1, last, 0, 0), "slot 0 of 0", 3),
    ];
    let poll = at(0, 1, 0, 0).poll(Relaxed(SYS), "slot 0 of 0", Until::IsNot(0));
    if clear_in == 1 {
        threads.push(poll.st(clear, "slot 0 of 0", 0));
    } else {
        threads.push(poll);
        threads.push(at(0, clear_in, 0, 0).st(clear, "slot 0 of 0", 0));
    }
    threads
}

/// Two generations, cleared by the next kernel; its block synchronises between the marker and the fenced push.
fn clear_then_push() -> Vec<Thread> {
    vec![
        at(0, 1, 0, 0).poll(Relaxed(SYS), "slot 0 of 0", Until::IsNot(0)),
        at(0, 2, 0, 0).st(Weak, "slot 0 of 0", 0).bar(),
        (FENCED.push)(at(0, 2, 0, 1).bar(), "last slot of 1", 2),
        at(1, 1, 0, 0).st(Relaxed(SYS), "slot 0 of 0", 1),
        (FENCED.poll)(at(1, 2, 0, 1), "last slot of 1"),
        (FENCED.push)(at(1, 3, 0, 0), "slot 0 of 0", 3),
    ]
}

/// The same in one kernel and one thread a rank, two generations.
fn persistent(how: Push) -> Vec<Thread> {
    let rank0 = at(0, 1, 0, 0).poll(Relaxed(SYS), "slot 0 of 0", Until::IsNot(0)).st(Relaxed(SYS), "slot 0 of 0", 0);
    let rank1 = at(1, 1, 0, 0).st(Relaxed(SYS), "slot 0 of 0", 1);
    let rank1 = (how.poll)(rank1, "last slot of 1");
    vec![(how.push)(rank0, "last slot of 1", 2), (how.push)(rank1, "slot 0 of 0", 3)]
}

/// The marker that is put back must come before the next push, or the push is lost.
pub(super) fn clearing() -> Section {
    let lost = || Outcome::finals([("slot 0 of 0", 0)]);
    let case = |form: String, threads, expected| Case::new("Clearing", form, threads, lost(), expected);
    let both: &[Assumption] = &[PUBLISHES, ORDERS];
    let same = |n: u8, how: Push| format!("{n} generations, cleared by the kernel that read, {}", how.name);
    let next = |n: u8, how: Push| format!("{n} generations, cleared by the next kernel, {}", how.name);
    let stale = |clear| {
        let mut threads = clearing_threads(PLAIN, 2, 1, clear);
        threads.push(at(0, 3, 0, 0).poll_into(Relaxed(SYS), "r", "slot 0 of 0", Until::IsNot(0)));
        threads
    };
    let strong = Relaxed(SYS);
    Section {
        title: "Marker in data: putting the marker back",
        asks: "Rank 0 takes a slot's data in call e and stores the marker again. Rank 1 pushes to that slot 2 or 3 calls later, once it \
               has rank 0's push of the call before. Asked: the marker ends up over the later push, which is then lost, and rank 0 \
               waits for ever. (Stale: rank 0's poll in the later call takes the data of e again.)",
        cases: vec![
            Case::new("Clearing", "2 generations, stale", stale(strong), Outcome::of([("r", 1)]), Forbidden),
            case(same(2, PLAIN), clearing_threads(PLAIN, 2, 1, strong), Allowed),
            case(same(2, PLAIN), clearing_threads(PLAIN, 2, 1, strong), Allowed).assuming(&[PUBLISHES]),
            case(same(2, PLAIN), clearing_threads(PLAIN, 2, 1, strong), Allowed).assuming(&[LOADS_DONE]),
            case(same(2, PLAIN), clearing_threads(PLAIN, 2, 1, strong), Forbidden).assuming(both),
            case(next(2, PLAIN), clearing_threads(PLAIN, 2, 2, strong), Allowed).assuming(both),
            case(next(3, PLAIN), clearing_threads(PLAIN, 3, 2, strong), Allowed),
            case(next(3, PLAIN), clearing_threads(PLAIN, 3, 2, strong), Forbidden).assuming(both),
            case(same(2, FENCED), clearing_threads(FENCED, 2, 1, strong), Forbidden).mutated(&SPARE_IN_3),
            case(same(2, ORDERED), clearing_threads(ORDERED, 2, 1, strong), Forbidden).mutated(&SPARE),
            case(next(3, FENCED), clearing_threads(FENCED, 3, 2, strong), Forbidden).mutated(&SPARE_IN_4),
            case(next(2, FENCED), clearing_threads(FENCED, 2, 2, strong), Allowed),
            case("one kernel, 2 generations, relaxed".into(), persistent(PLAIN), Allowed),
            case("one kernel, 2 generations, relaxed".into(), persistent(PLAIN), Allowed).assuming(&Assumption::ALL),
            case(format!("one kernel, 2 generations, {}", FENCED.name), persistent(FENCED), Forbidden),
            case(same(2, PLAIN) + ", ordinary store of the marker", clearing_threads(PLAIN, 2, 1, Weak), Race),
            case(same(2, FENCED) + ", ordinary store of the marker", clearing_threads(FENCED, 2, 1, Weak), Forbidden),
            case(next(2, FENCED) + ", cleared before it pushes", clear_then_push(), Forbidden),
        ],
        answer: "That data are taken once, and never stale, needs no order. That the marker comes before the next push does, and \
                 relaxed pushes carry nothing but themselves. Across kernels it rests on the boundary publishing the marker and \
                 on the poll ordering what follows it. To be sound by the model alone: a `fence.acq_rel.sys` before a call's \
                 first push and one after its last poll, each in the thread that pushes or polls; then even an ordinary store \
                 may put the marker back. Two generations will do if the kernel that read also clears, or if the next one \
                 clears, synchronises and only then pushes; if that one clears while it pushes, three are needed.",
    }
}

/// What a question about the marker and the last push does not depend on.
const SPARE: [(&str, &str); 4] = [
    ("[slot 0 of 0], 1", "the first push: see the words of a pack"),
    ("poll ld.relaxed.sys [slot 0 of 0]", "the first take: see the words of a pack"),
    ("[slot 0 of 0], 0", "the marker may go back with an ordinary store: causality orders it"),
    ("[slot 0 of 0], 3", "the last push need not publish, only come after the marker"),
];
/// The same, with the fence before the last push, in kernel 3 or 4.
const SPARE_IN_3: [(&str, &str); 5] = with_fence("gpu 1 kernel 3 block 0 thread 0: fence");
const SPARE_IN_4: [(&str, &str); 5] = with_fence("gpu 1 kernel 4 block 0 thread 0: fence");

const fn with_fence(fence: &'static str) -> [(&'static str, &'static str); 5] {
    let [first, take, marker, last] = SPARE;
    [first, take, marker, last, (fence, "the last push need not publish, only come after the marker")]
}

/// Data and epoch in one 64-bit word: nothing is put back.
pub(super) fn epochs() -> Section {
    let poll = |t: Thread, slot: &str, epoch| t.poll(Relaxed(SYS), slot, Until::AtLeast(epoch));
    let read = |t: Thread| t.poll_into(Relaxed(SYS), "r", "slot 0 of 0", Until::AtLeast(1));
    let push = |t: Thread, slot: &str, epoch: u32| t.st(Relaxed(SYS), slot, epoch);
    let persistent = vec![
        push(read(at(0, 1, 0, 0)), "slot 1 of 1", 2),
        push(poll(push(at(1, 1, 0, 0), "slot 0 of 0", 1), "slot 1 of 1", 2), "slot 0 of 0", 3),
    ];
    let kernels = || {
        vec![
            read(at(0, 1, 0, 0)),
            push(at(0, 2, 0, 0), "slot 1 of 1", 2),
            push(at(1, 1, 0, 0), "slot 0 of 0", 1),
            poll(at(1, 2, 0, 0), "slot 1 of 1", 2),
            push(at(1, 3, 0, 0), "slot 0 of 0", 3),
        ]
    };
    let case = |form: &str, threads, expected| {
        Case::new("Epoch in the word", form, threads, Outcome::of([("r", 3)]), expected)
    };
    Section {
        title: "Data and epoch in one 64-bit word",
        asks: "Two generations; rank 1 pushes e, and e + 2 to the same word once it has rank 0's push of e + 1. Asked: rank 0, waiting for \
               e, finds e + 2, and the data of e are lost.",
        cases: vec![
            case("one kernel, one thread", persistent, Forbidden),
            case("a kernel a call", kernels(), Allowed),
            case("a kernel a call", kernels(), Forbidden).assuming(&[LOADS_DONE]),
            case("a kernel a call", kernels(), Forbidden).assuming(&[PUBLISHES, ORDERS]),
        ],
        answer: "Nothing is put back, so no fence is needed where the thread that polls is the one that pushes next: its push depends on \
                 the poll, and a cycle of dependencies is thin air. Across kernels the model knows no such dependency, and it \
                 rests on loads being done before later stores.",
    }
}
