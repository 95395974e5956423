//! Candidate executions: what the program fixes, and what one run chooses. Uses `event`, `program`, `relation`.

use std::collections::BTreeMap;

use crate::event::{FenceKind, Loc, Op, Order, Place, Reg, Value};
use crate::program::Program;
use crate::relation::{MAX_EVENTS, Relation, Set, members};

/// One event: an operation of a thread, or the write that sets a location to 0 before any thread starts.
#[derive(Clone, Debug)]
pub struct Event {
    /// Where it happens; nowhere, for an initial write.
    pub place: Option<Place>,
    /// What it is.
    pub op: Op,
}

/// What a program fixes for all its executions.
#[derive(Clone, Debug)]
pub struct Skeleton {
    /// The initial writes, then the operations of each thread.
    pub events: Vec<Event>,
    /// Events that read memory.
    pub reads: Set,
    /// Events that write memory.
    pub writes: Set,
    /// Initial writes.
    pub initial: Set,
    /// `fence.sc` events.
    pub fences_sc: Set,
    /// Program order.
    pub po: Relation,
    /// Two memory operations on one location.
    pub same_loc: Relation,
    /// Morally strong pairs.
    pub strong: Relation,
    /// `bar.sync` with its partners, both ways.
    pub barrier: Relation,
    /// From the end of a kernel's threads to the start of those of a later kernel of the stream.
    pub stream: Relation,
    /// From initial writes to everything else.
    pub before_all: Relation,
    /// Data and control dependencies.
    pub dep: Relation,
    /// From the first event of a release pattern to its write.
    pub release_pattern: Relation,
    /// From the read of an acquire pattern to its last event.
    pub acquire_pattern: Relation,
    /// Which event sets a register.
    pub set_by: BTreeMap<Reg, usize>,
}

impl Skeleton {
    /// The skeleton of `program`.
    ///
    /// # Panics
    /// If it is none (see [`Program::fault`]), or has more than [`MAX_EVENTS`] events.
    pub fn new(program: &Program) -> Skeleton {
        assert_eq!(program.fault(), None);
        let mut events: Vec<Event> = Vec::new();
        let mut locs: Vec<&Loc> = program.threads.iter().flat_map(|t| &t.ops).filter_map(Op::loc).collect();
        locs.sort();
        locs.dedup();
        for loc in locs {
            let op = Op::Store { order: Order::Weak, loc: loc.clone(), value: Value::Const(0) };
            events.push(Event { place: None, op });
        }
        let initial = (1 << events.len()) - 1;
        for thread in &program.threads {
            events.extend(thread.ops.iter().map(|op| Event { place: Some(thread.place), op: op.clone() }));
        }
        let len = events.len();
        assert!(len <= MAX_EVENTS, "{len} events");

        let set = |holds: &dyn Fn(&Event) -> bool| {
            (0..len).filter(|&a| holds(&events[a])).fold(0, |set: Set, a| set | 1 << a)
        };
        let relation = |holds: &dyn Fn(&Event, &Event) -> bool| Relation::of(len, |a, b| holds(&events[a], &events[b]));
        let reads = set(&|e| e.op.reads());
        let writes = set(&|e| e.op.writes());
        let po = Relation::of(len, |a, b| a < b && events[a].place.is_some() && events[a].place == events[b].place);
        let same_loc = Relation::of(len, |a, b| {
            a != b && events[a].op.loc().is_some() && events[a].op.loc() == events[b].op.loc()
        });
        let strong = Relation::of(len, |a, b| {
            let both_memory = (reads | writes) >> a & (reads | writes) >> b & 1 == 1;
            a != b
                && (po.relates(a, b) || reaches(&events[a], &events[b]) && reaches(&events[b], &events[a]))
                && (!both_memory || same_loc.has(a, b))
        });

        let strong_op = set(&|e| e.op.scope().is_some());
        let releases = set(&|e| e.op.order().is_some_and(Order::releases));
        let acquires = set(&|e| e.op.order().is_some_and(Order::acquires));
        // A red reads, but what it reads makes no acquire pattern.
        let returns = set(&|e| e.op.register().is_some());
        let fence = |kinds: &[FenceKind]| set(&|e| matches!(&e.op, Op::Fence(kind, _) if kinds.contains(kind)));
        let release_fences = fence(&[FenceKind::Release, FenceKind::AcqRel, FenceKind::Sc]);
        let acquire_fences = fence(&[FenceKind::Acquire, FenceKind::AcqRel, FenceKind::Sc]);
        let po_loc_or_same = po.and(&same_loc).or_same();
        let release_pattern =
            po_loc_or_same.between(releases, writes & strong_op).or(&po.between(release_fences, writes & strong_op));
        let acquire_pattern = po_loc_or_same
            .between(reads & strong_op & returns, acquires)
            .or(&po.between(reads & strong_op & returns, acquire_fences));

        let before_all = Relation::of(len, |a, b| initial >> a & 1 == 1 && initial >> b & 1 == 0);
        let set_by = events.iter().enumerate().filter_map(|(a, e)| Some((e.op.register()?.clone(), a))).collect();
        Skeleton {
            reads,
            writes,
            initial,
            fences_sc: fence(&[FenceKind::Sc]),
            barrier: Relation::of(len, |a, b| a != b && meets(&events, &po, a, b)),
            stream: relation(&|a, b| a.place.zip(b.place).is_some_and(|(a, b)| program.in_stream_order(a, b)))
                .and(&Relation::of(len, |_, b| waits_for_stream(&events, &po, b))),
            before_all,
            dep: dependencies(&events, &po),
            release_pattern,
            acquire_pattern,
            set_by,
            po,
            same_loc,
            strong,
            events,
        }
    }

    /// The number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }
}

/// Whether `a` is strong, with a scope that takes in the thread of `b`.
fn reaches(a: &Event, b: &Event) -> bool {
    match (a.place, b.place, a.op.scope()) {
        (Some(from), Some(to), Some(scope)) => from.reaches(scope, to),
        (_, _, _) => false,
    }
}

/// Whether both are `bar.sync` of one block, with as many others before them in their threads.
fn meets(events: &[Event], po: &Relation, a: usize, b: usize) -> bool {
    let is_bar = |a: usize| events[a].op == Op::BarSync;
    let ordinal = |b: usize| (0..b).filter(|&a| is_bar(a) && po.has(a, b)).count();
    let same_block = events[a].place.zip(events[b].place).is_some_and(|(a, b)| a.same_block(b));
    is_bar(a) && is_bar(b) && same_block && ordinal(a) == ordinal(b)
}

/// Whether the event comes after the kernels before its own: all do, but for those before a `griddepcontrol.wait`.
fn waits_for_stream(events: &[Event], po: &Relation, b: usize) -> bool {
    !members(po.after(b)).any(|c| events[c].op == Op::GridWait)
}

fn dependencies(events: &[Event], po: &Relation) -> Relation {
    Relation::of(events.len(), |a, b| {
        let data = match &events[b].op {
            Op::Store { value: Value::Of(reg), .. } => events[a].op.register() == Some(reg),
            Op::Store { .. } | Op::Load { .. } | Op::Add { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => false,
        };
        po.has(a, b) && (data || events[a].op.is_poll() && events[b].op.writes())
    })
}

/// One candidate: what a run chose, and what follows from it.
#[derive(Clone, Debug)]
pub struct Execution<'a> {
    /// What it shares with all others.
    pub skeleton: &'a Skeleton,
    /// From a write to the reads that return its value.
    pub rf: Relation,
    /// From a read to the writes that are later in coherence order than the one it reads.
    pub fr: Relation,
    /// Coherence order: transitive, partial.
    pub co: Relation,
    /// Fence-SC order.
    pub sc: Relation,
    /// Observation order.
    pub obs: Relation,
    /// Base causality order.
    pub base: Relation,
    /// Causality order.
    pub cause: Relation,
    /// What each event read or wrote; `None` where a cycle of reads and dependencies leaves that open.
    pub values: Option<Vec<u32>>,
}

impl Execution<'_> {
    /// Pairs in a data race: conflicting, not morally strong, unordered by causality.
    pub fn races(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let s = self.skeleton;
        s.same_loc
            .minus(&s.strong)
            .pairs()
            .collect::<Vec<_>>()
            .into_iter()
            .filter(|&(a, b)| a < b && (s.writes >> a | s.writes >> b) & 1 == 1 && !self.cause.relates(a, b))
    }

    /// What `reg` holds in the end.
    pub fn register(&self, reg: &Reg) -> Option<u32> {
        // An atomic's event has its old value here and its new one in memory; see `wrote`.
        Some(self.values.as_ref()?[*self.skeleton.set_by.get(reg)?])
    }

    /// What `event` wrote.
    pub fn wrote(&self, event: usize) -> Option<u32> {
        let value = self.values.as_ref()?[event];
        match self.skeleton.events[event].op {
            Op::Add { value: added, .. } => Some(value + added),
            Op::Store { .. } => Some(value),
            Op::Load { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => None,
        }
    }

    /// The values that `loc` may hold in the end: more than one where the last writes race.
    pub fn finals<'b>(&'b self, loc: &'b Loc) -> impl Iterator<Item = u32> + 'b {
        let s = self.skeleton;
        members(s.writes)
            .filter(|&w| s.events[w].op.loc() == Some(loc) && self.co.after(w) == 0)
            .filter_map(|w| self.wrote(w))
    }
}
