//! Read-modify-writes: atomicity, release sequences, and `red`, which acquires nothing.

use super::{CTA, GPU, SYS};
use crate::case::Case;
use crate::event::{FenceKind, Order};
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Order::{AcqRel, Acquire, Relaxed, Release, Weak};
use Verdict::{Allowed, Forbidden, Race};

pub(super) fn cases() -> Vec<Case> {
    let twice =
        |first, second| [Thread::new(0, 0, 0).atom(first, "r0", "x"), Thread::new(0, 1, 0).atom(second, "r1", "x")];
    let lost = || Outcome::finals([("x", 1)]);
    let kept = || Outcome::finals([("x", 2)]);
    let strong = || twice(Relaxed(SYS), Relaxed(SYS));
    let narrow = || twice(Relaxed(CTA), Relaxed(GPU));

    let reduced = |atom: bool| {
        let receiver = Thread::new(0, 1, 0);
        let receiver =
            if atom { receiver.atom(Relaxed(SYS), "r0", "flag") } else { receiver.red(Relaxed(SYS), "flag") };
        [
            Thread::new(0, 0, 0).st(Weak, "x", 1).st(Release(GPU), "flag", 1),
            receiver.fence(FenceKind::Acquire, GPU).ld(Weak, "r1", "x"),
        ]
    };
    let unseen = || Outcome::of([("r1", 0)]).and(Outcome::finals([("flag", 2)]));

    // The reader acquires through an atomic of a third thread, which need not order anything itself.
    let chained = |scope| {
        [
            Thread::new(0, 0, 0).st(Weak, "x", 1).st(Release(GPU), "flag", 1),
            Thread::new(0, 1, 0).atom(Relaxed(scope), "r2", "flag"),
            Thread::new(0, 2, 0).ld(Acquire(GPU), "r0", "flag").ld(Weak, "r1", "x"),
        ]
    };
    let through = || Outcome::of([("r2", 1), ("r0", 2), ("r1", 0)]);

    let buffered = [
        Thread::new(0, 0, 0).atom(AcqRel(GPU), "r0", "x").atom(AcqRel(GPU), "r1", "y"),
        Thread::new(0, 1, 0).atom(AcqRel(GPU), "r2", "y").atom(AcqRel(GPU), "r3", "x"),
    ];
    let half = [
        Thread::new(0, 0, 0).atom(AcqRel(GPU), "r0", "x").atom(AcqRel(GPU), "r1", "y"),
        Thread::new(0, 1, 0).st(Relaxed(GPU), "y", 1).ld(Relaxed(GPU), "r2", "x"),
    ];
    vec![
        Case::new("Two increments", "atom.sys", strong(), lost(), Forbidden).from("PTX ISA, Atomicity, test 1"),
        Case::new("Two increments", "atom.sys", strong(), kept(), Allowed).from("PTX ISA, Atomicity, test 1"),
        Case::new("Two increments", "atom.cta and atom.gpu in two blocks", narrow(), lost(), Race)
            .from("PTX ISA, Atomicity, test 2"),
        Case::new("Two increments", "atom.cta and atom.gpu in two blocks", narrow(), kept(), Race)
            .from("PTX ISA, Atomicity, test 2"),
        Case::new("MP with an atomic", "red; fence.acquire", reduced(false), unseen(), Race)
            .from("PTX ISA, Reductions"),
        Case::new("MP with an atomic", "atom; fence.acquire", reduced(true), unseen(), Forbidden)
            .from("PTX ISA, Reductions"),
        Case::new("Release sequence", "through atom.relaxed.gpu", chained(GPU), through(), Forbidden)
            .from("PTX ISA, Observation order"),
        Case::new("Release sequence", "through atom.relaxed.cta", chained(CTA), through(), Race)
            .from("PTX ISA, Observation order"),
        Case::new("SB of atomics", "acq_rel", buffered, Outcome::of([("r1", 0), ("r3", 0)]), Forbidden)
            .from("ISCA'22, SB_rmw"),
        Case::new("SB of atomics", "acq_rel / relaxed", half, Outcome::of([("r1", 0), ("r2", 0)]), Allowed)
            .from("ISCA'22, SB_rmw_2"),
    ]
}
