//! Binary relations over the events of one execution, as bit rows. Uses nothing.

/// The most events that an execution may have.
pub const MAX_EVENTS: usize = u128::BITS as usize;

/// A set of events.
pub type Set = u128;

/// A binary relation over events `0..len`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    rows: Vec<Set>,
}

/// The events of `set`, ascending.
pub fn members(mut set: Set) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let next = (set != 0).then(|| set.trailing_zeros() as usize)?;
        set &= set - 1;
        Some(next)
    })
}

impl Relation {
    /// The empty relation over `len` events.
    pub fn empty(len: usize) -> Relation {
        Relation { rows: vec![0; len] }
    }

    /// The pairs for which `holds`.
    pub fn of(len: usize, holds: impl Fn(usize, usize) -> bool) -> Relation {
        let row = |a| (0..len).filter(|&b| holds(a, b)).fold(0, |row, b| row | 1 << b);
        Relation { rows: (0..len).map(row).collect() }
    }

    /// Adds the pair.
    pub fn insert(&mut self, a: usize, b: usize) {
        self.rows[a] |= 1 << b;
    }

    /// Whether the pair is in it.
    pub fn has(&self, a: usize, b: usize) -> bool {
        self.rows[a] >> b & 1 == 1
    }

    /// Whether the two are related, in either direction.
    pub fn relates(&self, a: usize, b: usize) -> bool {
        self.has(a, b) || self.has(b, a)
    }

    /// What `a` is related to.
    pub fn after(&self, a: usize) -> Set {
        self.rows[a]
    }

    /// All pairs.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.rows.iter().enumerate().flat_map(|(a, &row)| members(row).map(move |b| (a, b)))
    }

    fn zip(&self, other: &Relation, f: impl Fn(Set, Set) -> Set) -> Relation {
        Relation { rows: self.rows.iter().zip(&other.rows).map(|(&a, &b)| f(a, b)).collect() }
    }

    /// In one of the two.
    pub fn or(&self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a | b)
    }

    /// In both.
    pub fn and(&self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a & b)
    }

    /// In this one and not in the other.
    pub fn minus(&self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a & !b)
    }

    /// The identity added.
    pub fn or_same(&self) -> Relation {
        let row = |(a, &row): (usize, &Set)| row | 1 << a;
        Relation { rows: self.rows.iter().enumerate().map(row).collect() }
    }

    /// The pairs that start in `from` and end in `to`.
    pub fn between(&self, from: Set, to: Set) -> Relation {
        let row = |(a, &row): (usize, &Set)| if from >> a & 1 == 1 { row & to } else { 0 };
        Relation { rows: self.rows.iter().enumerate().map(row).collect() }
    }

    /// First this one, then `next`.
    pub fn then(&self, next: &Relation) -> Relation {
        let row = |&row: &Set| members(row).fold(0, |to, b| to | next.rows[b]);
        Relation { rows: self.rows.iter().map(row).collect() }
    }

    /// Turned round.
    pub fn inverse(&self) -> Relation {
        let mut inverse = Relation::empty(self.rows.len());
        for (a, b) in self.pairs() {
            inverse.insert(b, a);
        }
        inverse
    }

    /// One or more steps of it.
    pub fn closure(mut self) -> Relation {
        for via in 0..self.rows.len() {
            let through = self.rows[via];
            for row in &mut self.rows {
                if *row >> via & 1 == 1 {
                    *row |= through;
                }
            }
        }
        self
    }

    /// Whether it relates no event to itself.
    pub fn is_irreflexive(&self) -> bool {
        self.rows.iter().enumerate().all(|(a, row)| row >> a & 1 == 0)
    }

    /// Whether no number of steps leads back to where it began.
    pub fn is_acyclic(&self) -> bool {
        self.clone().closure().is_irreflexive()
    }

    /// Whether every pair of this one is in `other`.
    pub fn is_within(&self, other: &Relation) -> bool {
        self.rows.iter().zip(&other.rows).all(|(a, b)| a & !b == 0)
    }
}
