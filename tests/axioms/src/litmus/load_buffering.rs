//! LB: each thread loads, then stores what the other loads.

use super::{Apart, SYS, everywhere};
use crate::case::Case;
use crate::event::{Order, Reg, Until, Value};
use crate::program::Thread;
use crate::verdict::{Outcome, Verdict};

use Order::{Acquire, Relaxed, Release, Weak};
use Verdict::{Allowed, Forbidden, Race};

/// What a thread stores after its load: the value that it read (a data dependency), or 1.
fn stored(copies: bool, reg: &str) -> Value {
    if copies { Value::Of(Reg::from(reg)) } else { Value::Const(1) }
}

fn program(apart: Apart, ld: [Order; 2], st: [Order; 2], copies: [bool; 2]) -> [Thread; 2] {
    [
        apart.thread(0).ld(ld[0], "r0", "x").st(st[0], "y", stored(copies[0], "r0")),
        apart.thread(1).ld(ld[1], "r1", "y").st(st[1], "x", stored(copies[1], "r1")),
    ]
}

pub(super) fn cases() -> Vec<Case> {
    let both = || Outcome::of([("r0", 1), ("r1", 1)]);
    let mut cases = Vec::new();
    for spot in everywhere() {
        let (scope, apart) = (spot.scope, spot.apart);
        let mut push = |form, threads: [Thread; 2], expected, source| {
            cases.push(Case::new("LB", form, threads, both(), expected).at(&spot).from(source));
        };
        let (strong, ordered) = if apart.within(scope) { (Allowed, Forbidden) } else { (Race, Race) };
        let relaxed = [Relaxed(scope); 2];
        push("relaxed", program(apart, relaxed, relaxed, [false; 2]), strong, "PTX ISA, No-Thin-Air");
        // One release that is acquired is enough: a thread's load precedes the other's store in causality.
        let one = program(apart, [Relaxed(scope), Acquire(scope)], [Release(scope), Relaxed(scope)], [false; 2]);
        push("one release, acquired", one, ordered, "PTX ISA, Causality");
        let neither = program(apart, [Relaxed(scope); 2], [Release(scope); 2], [false; 2]);
        push("release / relaxed", neither, strong, "PTX ISA, Causality");
    }
    for apart in Apart::ALL {
        let mut push = |form, threads: [Thread; 2], expected, source| {
            cases.push(Case::new("LB", form, threads, both(), expected).variant(apart.name()).from(source));
        };
        push("weak", program(apart, [Weak; 2], [Weak; 2], [false; 2]), Race, "PTX ISA, No-Thin-Air");
        push(
            "weak, data dependency",
            program(apart, [Weak; 2], [Weak; 2], [true; 2]),
            Forbidden,
            "PTX ISA, No-Thin-Air",
        );
        let relaxed = [Relaxed(SYS); 2];
        push("relaxed, data dependency", program(apart, relaxed, relaxed, [true; 2]), Forbidden, "ASPLOS'19, fig. 8");
        let one_sided = program(apart, relaxed, relaxed, [true, false]);
        push("relaxed, one dependency", one_sided, Allowed, "PTX ISA, No-Thin-Air");
    }
    for apart in Apart::ALL {
        let polls = [
            apart.thread(0).poll(Relaxed(SYS), "x", Until::Is(1)).st(Relaxed(SYS), "y", 1),
            apart.thread(1).poll(Relaxed(SYS), "y", Until::Is(1)).st(Relaxed(SYS), "x", 1),
        ];
        cases.push(
            Case::new("LB", "relaxed, control dependency", polls, Outcome::default(), Forbidden)
                .variant(apart.name())
                .from("PTX ISA, No-Thin-Air"),
        );
    }
    cases
}
