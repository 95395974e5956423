//! WRC and ISA2: what a thread has seen, it passes on.

use super::{CTA, GPU, SYS, everywhere};
use crate::case::Case;
use crate::event::Order;
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Order::{Acquire, Relaxed, Release, Weak};
use Verdict::{Allowed, Forbidden, Race};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for spot in everywhere() {
        let (scope, apart) = (spot.scope, spot.apart);
        let mut push = |test, form, threads: [Thread; 3], outcome: Outcome, expected| {
            cases.push(Case::new(test, form, threads, outcome, expected).at(&spot).from("folklore"));
        };
        let (ordered, strong) = if apart.within(scope) { (Forbidden, Allowed) } else { (Race, Race) };

        let wrc = |write, read, release, acquire, last| {
            [
                apart.thread(0).st(write, "x", 1),
                apart.thread(1).ld(read, "r0", "x").st(release, "y", 1),
                apart.thread(2).ld(acquire, "r1", "y").ld(last, "r2", "x"),
            ]
        };
        let (relaxed, release, acquire) = (Relaxed(scope), Release(scope), Acquire(scope));
        let seen = || Outcome::of([("r0", 1), ("r1", 1), ("r2", 0)]);
        push(
            "WRC",
            "relaxed data, release / acquire",
            wrc(relaxed, relaxed, release, acquire, relaxed),
            seen(),
            ordered,
        );
        push("WRC", "weak data, release / acquire", wrc(Weak, Weak, release, acquire, Weak), seen(), Race);
        push("WRC", "relaxed", wrc(relaxed, relaxed, relaxed, relaxed, relaxed), seen(), strong);

        let isa2 = |release, acquire| {
            [
                apart.thread(0).st(Weak, "x", 1).st(Release(scope), "y", 1),
                apart.thread(1).ld(acquire, "r0", "y").st(release, "z", 1),
                apart.thread(2).ld(Acquire(scope), "r1", "z").ld(Weak, "r2", "x"),
            ]
        };
        push("ISA2", "release / acquire twice", isa2(release, acquire), seen(), ordered);
        push("ISA2", "relaxed in the middle", isa2(relaxed, relaxed), seen(), Race);
        push("ISA2", "release / relaxed, then release / acquire", isa2(release, relaxed), seen(), Race);
    }

    // A narrow scope is enough for each hop that it bridges.
    let hops = |first, second| {
        [
            Thread::new(0, 0, 0).st(Weak, "x", 1).st(Release(first), "y", 1),
            Thread::new(0, 0, 1).ld(Acquire(first), "r0", "y").st(Release(second), "z", 1),
            Thread::new(0, 1, 0).ld(Acquire(second), "r1", "z").ld(Weak, "r2", "x"),
        ]
    };
    let seen = Outcome::of([("r0", 1), ("r1", 1), ("r2", 0)]);
    for (first, second, expected) in [(CTA, GPU, Forbidden), (CTA, CTA, Race), (GPU, SYS, Forbidden)] {
        cases.push(
            Case::new("ISA2", "a scope for each hop", hops(first, second), seen.clone(), expected)
                .variant(format!(".{first} in the block, .{second} to the next"))
                .reaching(expected == Forbidden)
                .from("ISCA'22, ISA2"),
        );
    }
    cases
}
