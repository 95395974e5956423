//! All candidate executions of a program: every choice of reads-from, Fence-SC order and coherence order.
//!
//! Uses `axioms`, `execution`, `relation`. Each candidate is given to the caller with the axioms that it breaks.

use crate::axioms::{Axiom, Wording, causality, observation};
use crate::event::{Op, Value};
use crate::execution::{Execution, Skeleton};
use crate::relation::{Relation, Set, members};

/// The model that candidates are held against.
#[derive(Clone, Copy, Debug, Default)]
pub struct Model {
    /// Whose definition of causality.
    pub wording: Wording,
    /// Also forbid that a store is seen before an earlier load of its block or stream has its value.
    pub no_load_buffering: bool,
    /// Axioms to do without.
    pub without: &'static [Axiom],
    /// Leave out, for speed, candidates that the Coherence axiom would forbid.
    pub only_coherent: bool,
}

impl Model {
    /// The axioms that `execution` breaks.
    pub fn broken(&self, execution: &Execution<'_>) -> Vec<Axiom> {
        let keeps = |axiom| self.without.contains(&axiom) || execution.keeps(axiom, self.no_load_buffering);
        Axiom::ALL.into_iter().filter(|&axiom| !keeps(axiom)).collect()
    }
}

/// Calls `visit` with each candidate execution in which every poll ended.
pub fn explore(s: &Skeleton, model: Model, visit: &mut impl FnMut(&Execution<'_>)) {
    let reads: Vec<usize> = members(s.reads).collect();
    let mut sources = vec![None; s.len()];
    choose_sources(s, model, &reads, &mut sources, visit);
}

/// Chooses the write that each of `reads` reads from; `sources` has the choices made so far.
fn choose_sources(
    s: &Skeleton,
    model: Model,
    reads: &[usize],
    sources: &mut Vec<Option<usize>>,
    visit: &mut impl FnMut(&Execution<'_>),
) {
    let Some((&read, rest)) = reads.split_first() else {
        return choose_fences(s, model, sources, visit);
    };
    for write in members(s.same_loc.after(read) & s.writes) {
        if may_end_poll(s, read, write) {
            sources[read] = Some(write);
            choose_sources(s, model, rest, sources, visit);
        }
    }
}

/// Whether `read` is no poll, or `write` writes a number that ends it.
fn may_end_poll(s: &Skeleton, read: usize, write: usize) -> bool {
    match (&s.events[read].op, &s.events[write].op) {
        (Op::Load { until: Some(until), .. }, Op::Store { value: Value::Const(value), .. }) => until.ends_with(*value),
        (_, _) => true,
    }
}

fn choose_fences(s: &Skeleton, model: Model, sources: &[Option<usize>], visit: &mut impl FnMut(&Execution<'_>)) {
    let values = values(s, sources);
    if values.as_ref().is_some_and(|values| !polls_end(s, values)) {
        return;
    }
    let rf = Relation::of(s.len(), |w, r| sources[r] == Some(w));
    let obs = observation(s, &rf);
    let pairs = s.strong.between(s.fences_sc, s.fences_sc);
    orders(&pairs, Relation::empty(s.len()), &mut |sc| {
        let causality = causality(s, model.wording, &obs, sc);
        let execution = Execution {
            skeleton: s,
            rf: rf.clone(),
            fr: Relation::empty(s.len()),
            co: Relation::empty(s.len()),
            sc: sc.clone(),
            obs: obs.clone(),
            base: causality.base,
            cause: causality.cause,
            values: values.clone(),
        };
        choose_coherence(execution, model, visit);
    });
}

/// Two writes of one location are ordered if they are morally strong or ordered by causality, and no others.
fn choose_coherence(mut execution: Execution<'_>, model: Model, visit: &mut impl FnMut(&Execution<'_>)) {
    let s = execution.skeleton;
    let ordered = s.strong.or(&execution.cause).or(&execution.cause.inverse());
    let pairs = ordered.and(&s.same_loc).between(s.writes & !s.initial, s.writes & !s.initial);
    let mut at_least = s.same_loc.between(s.initial, s.writes);
    if model.only_coherent {
        at_least = at_least.or(&execution.cause.and(&s.same_loc).between(s.writes, s.writes)).closure();
        if !at_least.is_irreflexive() {
            return;
        }
    }
    orders(&pairs, at_least, &mut |co| {
        execution.co = co.clone();
        let overwritten = execution.rf.inverse().then(co);
        execution.fr = overwritten.minus(&Relation::of(s.len(), |a, b| a == b));
        visit(&execution);
    });
}

/// Calls `visit` with each transitive order that has `order` in it and relates every one of `pairs`.
fn orders(pairs: &Relation, order: Relation, visit: &mut impl FnMut(&Relation)) {
    let Some((a, b)) = pairs.pairs().find(|&(a, b)| a != b && !order.relates(a, b)) else {
        return visit(&order);
    };
    for (first, second) in [(a, b), (b, a)] {
        let mut order = order.clone();
        order.insert(first, second);
        orders(pairs, order.closure(), visit);
    }
}

fn polls_end(s: &Skeleton, values: &[u32]) -> bool {
    s.events.iter().zip(values).all(|(event, &value)| match &event.op {
        Op::Load { until: Some(until), .. } => until.ends_with(value),
        Op::Load { until: None, .. }
        | Op::Store { .. }
        | Op::Add { .. }
        | Op::Fence(..)
        | Op::BarSync
        | Op::GridWait => true,
    })
}

/// What each event read or stored; none if a value would follow from itself.
fn values(s: &Skeleton, sources: &[Option<usize>]) -> Option<Vec<u32>> {
    let mut values = vec![None; s.len()];
    (0..s.len()).map(|event| value(s, sources, event, 0, &mut values)).collect()
}

fn value(
    s: &Skeleton,
    sources: &[Option<usize>],
    event: usize,
    open: Set,
    known: &mut Vec<Option<u32>>,
) -> Option<u32> {
    if open >> event & 1 == 1 {
        return None;
    }
    if known[event].is_none() {
        let open = open | 1 << event;
        known[event] = match &s.events[event].op {
            Op::Store { value: Value::Const(value), .. } => Some(*value),
            Op::Store { value: Value::Of(reg), .. } => value(s, sources, s.set_by[reg], open, known),
            Op::Load { .. } | Op::Add { .. } => {
                let source = sources[event]?;
                let read = value(s, sources, source, open, known)?;
                match &s.events[source].op {
                    Op::Add { value: added, .. } => Some(read + added),
                    Op::Store { .. } | Op::Load { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => Some(read),
                }
            }
            Op::Fence(..) | Op::BarSync | Op::GridWait => Some(0),
        };
    }
    known[event]
}
