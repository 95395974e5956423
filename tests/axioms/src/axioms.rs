//! The axioms of the PTX memory consistency model, and the orders that they speak of. Uses `execution`, `relation`.
//!
//! Two wordings of causality are there: that of the current manual, and that of the paper "A Formal Analysis of the
//! NVIDIA PTX Memory Consistency Model" (Lustig, Sahasrabuddhe, Giroux; ASPLOS 2019). They give the same verdicts.

use std::fmt::{self, Display, Formatter};

use crate::execution::{Execution, Skeleton};
use crate::relation::Relation;

/// An axiom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Axiom {
    /// Writes ordered by causality are ordered alike by coherence.
    Coherence,
    /// Fence-SC order does not contradict causality.
    FenceSc,
    /// No morally strong write comes between an atomic's read and its write.
    Atomicity,
    /// No value justifies itself through reads and dependencies.
    NoThinAir,
    /// Morally strong communication does not contradict program order on one location.
    ScPerLocation,
    /// No read returns what causality puts after it, or what causality says is overwritten.
    Causality,
}

impl Axiom {
    /// All axioms.
    pub const ALL: [Axiom; 6] =
        [Axiom::Coherence, Axiom::FenceSc, Axiom::Atomicity, Axiom::NoThinAir, Axiom::ScPerLocation, Axiom::Causality];
}

impl Display for Axiom {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Axiom::Coherence => "Coherence",
            Axiom::FenceSc => "Fence-SC",
            Axiom::Atomicity => "Atomicity",
            Axiom::NoThinAir => "No-Thin-Air",
            Axiom::ScPerLocation => "SC-per-Location",
            Axiom::Causality => "Causality",
        })
    }
}

/// Whose words define causality order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wording {
    /// The PTX ISA, as of 7.5 and later, with only the generic proxy.
    #[default]
    Manual,
    /// The paper of 2019, after PTX ISA 6.0.
    Paper,
}

/// Base causality order and causality order.
pub struct Causality {
    /// The first.
    pub base: Relation,
    /// The second.
    pub cause: Relation,
}

/// Observation order: a morally strong write is read, or read through a chain of atomics.
pub fn observation(s: &Skeleton, rf: &Relation) -> Relation {
    // An atomic is one event, so a chain of reads-from passes through atomics only.
    rf.and(&s.strong).closure()
}

/// What causality is, given observation and Fence-SC order.
pub fn causality(s: &Skeleton, wording: Wording, obs: &Relation, sc: &Relation) -> Causality {
    let patterns = s.release_pattern.then(obs).then(&s.acquire_pattern).and(&s.strong);
    let synchronizes = patterns.or(sc).or(&s.barrier).or(&s.stream).or(&s.before_all);
    let po_loc = s.po.and(&s.same_loc);
    match wording {
        Wording::Manual => {
            let base = s.po.or(&synchronizes).closure();
            let same = base.and(&s.same_loc);
            Causality { cause: same.or(&obs.then(&same)), base }
        }
        Wording::Paper => {
            let po = s.po.or_same();
            let base = po.then(&synchronizes).then(&po).closure();
            Causality { cause: base.or(&obs.then(&base.or(&po_loc))), base }
        }
    }
}

impl Execution<'_> {
    /// Whether the execution keeps to `axiom`.
    pub fn keeps(&self, axiom: Axiom, no_load_buffering: bool) -> bool {
        let s = self.skeleton;
        match axiom {
            Axiom::Coherence => self.cause.between(s.writes, s.writes).and(&s.same_loc).is_within(&self.co),
            Axiom::FenceSc => {
                let ordered = self.base.between(s.fences_sc, s.fences_sc).and(&s.strong);
                ordered.is_within(&self.sc)
            }
            Axiom::Atomicity => {
                let between = self.fr.and(&s.strong).then(&self.co.and(&s.strong));
                between.is_irreflexive()
            }
            Axiom::NoThinAir => {
                let depends = if no_load_buffering { s.dep.or(&self.loads_before_stores()) } else { s.dep.clone() };
                self.rf.or(&depends).is_acyclic()
            }
            Axiom::ScPerLocation => {
                let communication = self.rf.or(&self.co).or(&self.fr).and(&s.strong);
                communication.or(&s.po.and(&s.same_loc)).is_acyclic()
            }
            Axiom::Causality => self.rf.or(&self.fr).then(&self.cause).is_irreflexive(),
        }
    }

    /// From a load to the stores that program order, `bar.sync` and the stream put after it.
    fn loads_before_stores(&self) -> Relation {
        let s = self.skeleton;
        s.po.or(&s.barrier).or(&s.stream).closure().between(s.reads, s.writes)
    }
}
