//! SB: each thread stores, then loads what the other stored. And IRIW: two readers see two writes in two orders.

use super::{GPU, SYS, everywhere};
use crate::case::Case;
use crate::event::{FenceKind, Order};
use crate::program::Thread;
use crate::verdict::{Outcome, Term, Verdict};

use FenceKind::{AcqRel, Sc};
use Order::{Acquire, Relaxed, Release, Weak};
use Verdict::{Allowed, Forbidden, Race};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = store_buffering();
    cases.extend(independent_reads());
    cases
}

fn store_buffering() -> Vec<Case> {
    let neither = || Outcome::of([("r0", 0), ("r1", 0)]);
    let mut cases = Vec::new();
    for spot in everywhere() {
        let (scope, apart) = (spot.scope, spot.apart);
        let program = |first: fn(Thread, _) -> Thread, st, ld| {
            [
                first(apart.thread(0).st(st, "x", 1), scope).ld(ld, "r0", "y"),
                first(apart.thread(1).st(st, "y", 1), scope).ld(ld, "r1", "x"),
            ]
        };
        let mut push = |form, threads: [Thread; 2], expected, source| {
            cases.push(Case::new("SB", form, threads, neither(), expected).at(&spot).from(source));
        };
        let expected = if apart.within(scope) { Forbidden } else { Race };
        push("fence.sc", program(|t, scope| t.fence(Sc, scope), Weak, Weak), expected, "PTX ISA, Causality");
        push("fence.acq_rel", program(|t, scope| t.fence(AcqRel, scope), Weak, Weak), Race, "PTX ISA, Causality");
        push("weak", program(|t, _| t, Weak, Weak), Race, "ISCA'22, SB-weak");
        // Too narrow a scope makes even these a race.
        let strong = if apart.within(scope) { Allowed } else { Race };
        let plain = program(|t, _| t, Release(scope), Acquire(scope));
        push("release / acquire", plain, strong, "PTX ISA, Causality");
    }
    let scopes = [
        Thread::new(0, 0, 0).st(Weak, "x", 1).fence(Sc, SYS).ld(Weak, "r0", "y"),
        Thread::new(0, 1, 0).st(Weak, "y", 1).fence(Sc, GPU).ld(Weak, "r1", "x"),
    ];
    cases.push(
        Case::new("SB", "fence.sc of two scopes", scopes, neither(), Forbidden)
            .variant(".sys and .gpu in one device")
            .from("ISCA'22, SB+sc-sys-gpu"),
    );
    let twice = |thread: u8, own: &str, other: &str, reg: &str| {
        Thread::new(0, thread, 0).st(Weak, own, 1).fence(Sc, GPU).st(Weak, own, 2).fence(Sc, GPU).ld(Weak, reg, other)
    };
    let twice = || [twice(0, "x", "y", "r0"), twice(1, "y", "x", "r1")];
    let neither_two = Outcome(vec![Term::IsNot("r0".into(), 2), Term::IsNot("r1".into(), 2)]);
    let source = "ISCA'22, SB+sc-gpu-multipleFence";
    cases.push(Case::new("SB", "two fence.sc each", twice(), neither_two, Forbidden).from(source));
    cases.push(Case::new("SB", "two fence.sc each", twice(), Outcome::of([("r0", 2)]), Race).from(source));
    cases
}

fn independent_reads() -> Vec<Case> {
    let mut cases = Vec::new();
    for spot in everywhere() {
        let (scope, apart) = (spot.scope, spot.apart);
        let program = |between: fn(Thread, _) -> Thread, st, ld: fn(_) -> Order| {
            [
                apart.thread(0).st(st, "x", 1),
                apart.thread(1).st(st, "y", 1),
                between(apart.thread(2).ld(ld(scope), "r0", "x"), scope).ld(ld(scope), "r1", "y"),
                between(apart.thread(3).ld(ld(scope), "r2", "y"), scope).ld(ld(scope), "r3", "x"),
            ]
        };
        let mut push = |form, threads: [Thread; 4], expected| {
            let outcome = Outcome::of([("r0", 1), ("r1", 0), ("r2", 1), ("r3", 0)]);
            cases.push(Case::new("IRIW", form, threads, outcome, expected).at(&spot).from("folklore"));
        };
        let (strong, fenced) = if apart.within(scope) { (Allowed, Forbidden) } else { (Race, Race) };
        push("relaxed / relaxed", program(|t, _| t, Relaxed(scope), Relaxed), strong);
        push("release / acquire", program(|t, _| t, Release(scope), Acquire), strong);
        push("relaxed / fence.acq_rel", program(|t, scope| t.fence(AcqRel, scope), Relaxed(scope), Relaxed), strong);
        push("relaxed / fence.sc", program(|t, scope| t.fence(Sc, scope), Relaxed(scope), Relaxed), fenced);
        // A weak write that is read without synchronisation is not observed, so fences cannot order what it was.
        push("weak / fence.sc", program(|t, scope| t.fence(Sc, scope), Weak, |_| Weak), Race);
    }
    cases
}
