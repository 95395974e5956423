//! One location: CoRR, CoRW, CoWR, CoWW; and 2+2W on two.

use super::{CTA, GPU, SYS, everywhere};
use crate::case::Case;
use crate::event::{FenceKind, Order};
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use FenceKind::Sc;
use Order::{Acquire, Relaxed, Release, Weak};
use Verdict::{Allowed, Forbidden, Race};

pub(super) fn cases() -> Vec<Case> {
    let mut cases = one_location();
    cases.extend(racing_writes());
    for spot in everywhere() {
        let (scope, apart) = (spot.scope, spot.apart);
        let mut push = |form, st: [Order; 2], between: fn(Thread, _) -> Thread, expected| {
            let threads = [
                between(apart.thread(0).st(st[0], "x", 1), scope).st(st[1], "y", 2),
                between(apart.thread(1).st(st[0], "y", 1), scope).st(st[1], "x", 2),
            ];
            let outcome = Outcome::finals([("x", 1), ("y", 1)]);
            cases.push(Case::new("2+2W", form, threads, outcome, expected).at(&spot).from("folklore"));
        };
        let (strong, fenced) = if apart.within(scope) { (Allowed, Forbidden) } else { (Race, Race) };
        push("relaxed", [Relaxed(scope); 2], |t, _| t, strong);
        push("release", [Release(scope); 2], |t, _| t, strong);
        push("relaxed, fence.sc", [Relaxed(scope); 2], |t, scope| t.fence(Sc, scope), fenced);
        push(
            "weak, fence.sc",
            [Weak; 2],
            |t, scope| t.fence(Sc, scope),
            if fenced == Forbidden { Forbidden } else { Race },
        );
    }
    cases
}

fn one_location() -> Vec<Case> {
    let mut cases = Vec::new();
    for spot in everywhere() {
        let (scope, apart) = (spot.scope, spot.apart);
        let mut push = |test, form, threads: [Thread; 2], outcome: Outcome, expected, source| {
            cases.push(Case::new(test, form, threads, outcome, expected).at(&spot).from(source));
        };
        let (relaxed, acquire, release) = (Relaxed(scope), Acquire(scope), Release(scope));
        let expected = if apart.within(scope) { Forbidden } else { Race };
        let reads = |st, first, second| {
            [apart.thread(0).st(st, "x", 1), apart.thread(1).ld(first, "r0", "x").ld(second, "r1", "x")]
        };
        let back = || Outcome::of([("r0", 1), ("r1", 0)]);
        push("CoRR", "relaxed", reads(relaxed, relaxed, relaxed), back(), expected, "PTX ISA, SC-per-Location");
        push("CoRR", "strong, then weak", reads(relaxed, relaxed, Weak), back(), expected, "ASPLOS'19, fig. 9a");
        push(
            "CoRR",
            "acquire, then weak",
            reads(release, acquire, Weak),
            back(),
            expected,
            "ISCA'22, CoRR-acquire-weak",
        );
        push("CoRR", "weak", reads(Weak, Weak, Weak), back(), Race, "PTX ISA, SC-per-Location");

        let two = [
            apart.thread(0).st(Weak, "x", 1).st(Weak, "x", 2),
            apart.thread(1).ld(Weak, "r0", "x").ld(Weak, "r1", "x"),
        ];
        push("CoWW, CoRR", "weak", two, Outcome::of([("r0", 2), ("r1", 1)]), Race, "ISCA'22, CoWW-RR");

        let corw = [apart.thread(0).st(relaxed, "x", 1), apart.thread(1).ld(relaxed, "r0", "x").st(Weak, "x", 2)];
        let outcome = Outcome::of([("r0", 1)]).and(Outcome::finals([("x", 1)]));
        push("CoRW", "strong, then weak", corw, outcome, expected, "ASPLOS'19, fig. 9b");
        let cowr = [apart.thread(0).st(relaxed, "x", 1), apart.thread(1).st(relaxed, "x", 2).ld(Weak, "r0", "x")];
        let outcome = Outcome::of([("r0", 1)]).and(Outcome::finals([("x", 2)]));
        push("CoWR", "strong, then weak", cowr, outcome, expected, "ASPLOS'19, fig. 9c");
    }
    let coww = [Thread::new(0, 0, 0).st(Weak, "x", 1).st(Weak, "x", 2)];
    cases.push(Case::new("CoWW", "weak", coww, Outcome::finals([("x", 1)]), Forbidden).from("ASPLOS'19, fig. 9d"));
    let own = [Thread::new(0, 0, 0).ld(Weak, "r0", "x").st(Weak, "x", 1)];
    cases.push(Case::new("CoRW", "weak, one thread", own, Outcome::of([("r0", 1)]), Forbidden).from("folklore"));
    cases
}

/// Writes that race are in no coherence order: two readers, or one, may see them either way round.
fn racing_writes() -> Vec<Case> {
    let both_ways = |order: Order| {
        [
            Thread::new(0, 0, 0).st(order, "x", 1),
            Thread::new(0, 0, 1).st(order, "x", 2),
            Thread::new(0, 0, 2).ld(Acquire(SYS), "r0", "x").ld(Acquire(SYS), "r1", "x"),
            Thread::new(0, 0, 3).ld(Acquire(SYS), "r2", "x").ld(Acquire(SYS), "r3", "x"),
        ]
    };
    let outcome = || Outcome::of([("r0", 1), ("r1", 2), ("r2", 2), ("r3", 1)]);
    let released = |writes: [Order; 2], reader: &[(&str, &str)]| {
        let mut threads = vec![
            Thread::new(0, 0, 0).st(writes[0], "x", 1).st(Release(SYS), "f", 1),
            Thread::new(0, 0, 1).st(writes[1], "x", 2).st(Release(SYS), "g", 1),
        ];
        for (n, (first, second)) in (2..).zip(reader) {
            let names: [String; 2] = [format!("f{n}"), format!("g{n}")];
            let [f, g] = names;
            let thread = Thread::new(0, 0, n).ld(Acquire(SYS), f, "f").ld(Acquire(SYS), g, "g").ld(Weak, *first, "x");
            threads.push(if second.is_empty() { thread } else { thread.ld(Weak, *second, "x") });
        }
        threads
    };
    let seen = |n: u8| [(if n == 2 { "f2" } else { "f3" }, 1), (if n == 2 { "g2" } else { "g3" }, 1)];
    let one = Outcome::of(seen(2)).and(Outcome::of([("r0", 1), ("r1", 2)]));
    let two = Outcome::of(seen(2)).and(Outcome::of(seen(3))).and(Outcome::of([("r0", 1), ("r1", 2)]));
    let [weak, strong] = [[Weak; 2], [Relaxed(CTA); 2]];

    // What a strong read observed is passed on with what follows it; a weak write is not observed.
    let hidden = |st| {
        [
            Thread::new(0, 0, 0).st(st, "x", 1),
            Thread::new(0, 1, 0).ld(Acquire(GPU), "r0", "x").st(Weak, "x", 2).st(Release(SYS), "f", 1),
            Thread::new(0, 2, 0).ld(Acquire(SYS), "r1", "f").ld(Weak, "r2", "x"),
        ]
    };
    let back = || Outcome::of([("r0", 1), ("r1", 1), ("r2", 1)]);
    vec![
        Case::new("Two writers", "weak", both_ways(Weak), outcome(), Race).from("ISCA'22, Coherence-weak"),
        Case::new("Two writers", "relaxed.sys", both_ways(Relaxed(SYS)), outcome(), Forbidden)
            .from("ISCA'22, Coherence"),
        Case::new("Two writers, released", "weak, one reader", released(weak, &[("r0", "r1")]), one, Race)
            .from("ISCA'22, Co-Total-3-threads"),
        Case::new(
            "Two writers, released",
            "weak, two readers",
            released(weak, &[("r0", ""), ("r1", "")]),
            two.clone(),
            Race,
        )
        .from("ISCA'22, Co-Total-4-threads"),
        Case::new("Two writers, released", "relaxed", released(strong, &[("r0", ""), ("r1", "")]), two, Forbidden)
            .from("PTX ISA, Coherence order"),
        Case::new("Read, then overwrite", "weak", hidden(Weak), back(), Race).from("ISCA'22, Cause-base-weak"),
        Case::new("Read, then overwrite", "release", hidden(Release(GPU)), back(), Forbidden)
            .from("ISCA'22, Cause-base-strong"),
    ]
}
