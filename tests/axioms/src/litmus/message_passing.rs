//! MP: data, then a flag; is the data there when the flag is?

use super::{Apart, CTA, GPU, SYS, everywhere};
use crate::case::Case;
use crate::event::{FenceKind, Order, Scope};
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use FenceKind::AcqRel;
use Order::{Acquire, Relaxed, Release, Volatile, Weak};

/// How a flag is stored or loaded, next to what.
type Step = fn(Thread, Scope) -> Thread;

const RELEASE: Step = |t, scope| t.st(Release(scope), "flag", 1);
const FENCE_RELAXED: Step = |t, scope| t.fence(AcqRel, scope).st(Relaxed(scope), "flag", 1);
const RELEASE_RELAXED: Step = |t, scope| t.st(Release(scope), "flag", 2).st(Relaxed(scope), "flag", 1);
const ACQUIRE: Step = |t, scope| t.ld(Acquire(scope), "r0", "flag");
const RELAXED_FENCE: Step = |t, scope| t.ld(Relaxed(scope), "r0", "flag").fence(AcqRel, scope);
const RELAXED_ACQUIRE: Step = |t, scope| t.ld(Relaxed(scope), "r0", "flag").ld(Acquire(scope), "r2", "flag");

const WEAK_ST: Step = |t, _| t.st(Weak, "flag", 1);
const VOLATILE_ST: Step = |t, _| t.st(Volatile, "flag", 1);
const RELAXED_ST: Step = |t, scope| t.st(Relaxed(scope), "flag", 1);
const RELAXED_FENCE_ST: Step = |t, scope| t.st(Relaxed(scope), "flag", 1).fence(AcqRel, scope);
const FENCE_WEAK_ST: Step = |t, scope| t.fence(AcqRel, scope).st(Weak, "flag", 1);
const WEAK_LD: Step = |t, _| t.ld(Weak, "r0", "flag");
const VOLATILE_LD: Step = |t, _| t.ld(Volatile, "r0", "flag");
const RELAXED_LD: Step = |t, scope| t.ld(Relaxed(scope), "r0", "flag");
const FENCE_RELAXED_LD: Step = |t, scope| t.fence(AcqRel, scope).ld(Relaxed(scope), "r0", "flag");

/// Enough where both scopes bridge the distance.
const ENOUGH: [(&str, Step, Step, &str); 6] = [
    ("release / acquire", RELEASE, ACQUIRE, "ASPLOS'19, fig. 5"),
    ("fence; relaxed / relaxed; fence", FENCE_RELAXED, RELAXED_FENCE, "PTX ISA, Causality"),
    ("release / relaxed; fence", RELEASE, RELAXED_FENCE, "PTX ISA, patterns"),
    ("fence; relaxed / acquire", FENCE_RELAXED, ACQUIRE, "PTX ISA, patterns"),
    ("release; relaxed / acquire", RELEASE_RELAXED, ACQUIRE, "PTX ISA, patterns"),
    ("release / relaxed; acquire", RELEASE, RELAXED_ACQUIRE, "PTX ISA, patterns"),
];

/// Enough nowhere.
const TOO_LITTLE: [(&str, Step, Step); 9] = [
    ("weak / weak", WEAK_ST, WEAK_LD),
    ("volatile / volatile", VOLATILE_ST, VOLATILE_LD),
    ("relaxed / relaxed", RELAXED_ST, RELAXED_LD),
    ("release / relaxed", RELEASE, RELAXED_LD),
    ("relaxed / acquire", RELAXED_ST, ACQUIRE),
    ("release / weak", RELEASE, WEAK_LD),
    ("fence; weak / acquire", FENCE_WEAK_ST, ACQUIRE),
    ("relaxed; fence / acquire", RELAXED_FENCE_ST, ACQUIRE),
    ("release / fence; relaxed", RELEASE, FENCE_RELAXED_LD),
];

pub(super) fn cases() -> Vec<Case> {
    let stale = || Outcome::of([("r0", 1), ("r1", 0)]);
    let program = |send: Step, receive: Step, scope, apart: Apart| {
        let sender = send(apart.thread(0).st(Weak, "x", 1), scope);
        vec![sender, receive(apart.thread(1), scope).ld(Weak, "r1", "x")]
    };
    let mut cases = Vec::new();
    for (form, send, receive, source) in ENOUGH {
        for spot in everywhere() {
            let (scope, apart) = (spot.scope, spot.apart);
            let expected = if apart.within(scope) { Verdict::Forbidden } else { Verdict::Race };
            let threads = program(send, receive, scope, apart);
            cases.push(Case::new("MP", form, threads, stale(), expected).at(&spot).from(source));
        }
    }
    for (form, send, receive) in TOO_LITTLE {
        for spot in everywhere() {
            let (scope, apart) = (spot.scope, spot.apart);
            let threads = program(send, receive, scope, apart);
            cases.push(Case::new("MP", form, threads, stale(), Verdict::Race).at(&spot).from("PTX ISA, patterns"));
        }
    }
    let mixed = |apart: Apart, release, acquire, expected| {
        let sender = apart.thread(0).st(Weak, "x", 1).st(Release(release), "flag", 1);
        let receiver = apart.thread(1).ld(Acquire(acquire), "r0", "flag").ld(Weak, "r1", "x");
        Case::new("MP", "release and acquire of two scopes", [sender, receiver], stale(), expected)
            .variant(format!(".{release} / .{acquire} in {}", apart.name()))
            .reaching(apart.within(release) && apart.within(acquire))
            .from("ISCA'22, MP-cta-gpu")
    };
    cases.extend([
        mixed(Apart::Threads, CTA, GPU, Verdict::Forbidden),
        mixed(Apart::Blocks, CTA, GPU, Verdict::Race),
        mixed(Apart::Blocks, GPU, SYS, Verdict::Forbidden),
        mixed(Apart::Devices, SYS, GPU, Verdict::Race),
        mixed(Apart::Devices, GPU, SYS, Verdict::Race),
    ]);

    let relaxed = |apart: Apart| {
        let sender = apart.thread(0).st(Release(SYS), "x", 1).st(Release(SYS), "flag", 1);
        let receiver = apart.thread(1).ld(Relaxed(SYS), "r0", "flag").ld(Acquire(SYS), "r1", "x");
        Case::new("MP", "release / relaxed, data acquired", [sender, receiver], stale(), Verdict::Allowed)
            .variant(format!(".sys in {}", apart.name()))
            .from("ISCA'22, MP-relaxed")
    };
    cases.extend(Apart::ALL.map(relaxed));

    // The block barrier carries both ways: into the release, and out of the acquire.
    let by_block = |first: bool, second: bool| {
        let bar_if = |on: bool, t: Thread| if on { t.bar() } else { t };
        let threads = [
            bar_if(first, Thread::new(0, 0, 0).st(Weak, "x", 1)),
            bar_if(first, Thread::new(0, 0, 1)).st(Release(SYS), "flag", 1),
            bar_if(second, Thread::new(1, 0, 0).ld(Acquire(SYS), "r0", "flag")),
            bar_if(second, Thread::new(1, 0, 1)).ld(Weak, "r1", "x"),
        ];
        let expected = if first && second { Verdict::Forbidden } else { Verdict::Race };
        let form = match (first, second) {
            (true, true) => "bar.sync; release / acquire; bar.sync",
            (true, false) => "bar.sync; release / acquire",
            (false, true) => "release / acquire; bar.sync",
            (false, false) => "release / acquire, in other threads",
        };
        Case::new("MP of a block", form, threads, stale(), expected).from("PTX ISA, cumulativity")
    };
    cases.extend([(true, true), (true, false), (false, true), (false, false)].map(|(a, b)| by_block(a, b)));

    let in_block = |bar: bool| {
        let with = |t: Thread| if bar { t.bar() } else { t };
        let threads = [with(Thread::new(0, 0, 0).st(Weak, "x", 1)), with(Thread::new(0, 0, 1)).ld(Weak, "r1", "x")];
        let expected = if bar { Verdict::Forbidden } else { Verdict::Race };
        let form = if bar { "bar.sync" } else { "nothing" };
        Case::new("MP in a block", form, threads, Outcome::of([("r1", 0)]), expected).from("ASPLOS'19, 3.4.2")
    };
    cases.extend([in_block(true), in_block(false)]);
    cases
}
