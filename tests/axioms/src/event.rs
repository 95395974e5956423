//! What one thread of a litmus program does, and where it runs. Uses nothing.

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;

/// The threads that a strong operation speaks to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// The same block of the same kernel.
    Cta,
    /// The same device.
    Gpu,
    /// All devices and the host.
    Sys,
}

/// Where a thread runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// Device; a rank where the program is one of ours.
    pub gpu: u8,
    /// Kernel, by its place in the device's stream.
    pub grid: u8,
    /// Block of the kernel.
    pub block: u8,
    /// Thread of the block.
    pub thread: u8,
}

impl Place {
    /// Whether `scope` as seen from here takes in `other`.
    pub fn reaches(self, scope: Scope, other: Place) -> bool {
        match scope {
            Scope::Cta => self.same_block(other),
            Scope::Gpu => self.gpu == other.gpu,
            Scope::Sys => true,
        }
    }

    /// Whether both are in one block of one kernel.
    pub fn same_block(self, other: Place) -> bool {
        (self.gpu, self.grid, self.block) == (other.gpu, other.grid, other.block)
    }
}

/// A memory location: one scalar of at most 64 bits, always accessed whole and through one virtual address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Loc(pub(crate) Arc<str>);

/// A register that an outcome may speak of, unique in its program.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Reg(pub(crate) Arc<str>);

impl<T: Into<Arc<str>>> From<T> for Loc {
    fn from(name: T) -> Loc {
        Loc(name.into())
    }
}

impl<T: Into<Arc<str>>> From<T> for Reg {
    fn from(name: T) -> Reg {
        Reg(name.into())
    }
}

/// The order of a memory operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// Not strong: an ordinary load or store.
    Weak,
    /// Relaxed at system scope, as the manual defines it.
    Volatile,
    /// Strong, orders nothing else.
    Relaxed(Scope),
    /// Of loads and atomics.
    Acquire(Scope),
    /// Of stores and atomics.
    Release(Scope),
    /// Of atomics.
    AcqRel(Scope),
}

impl Order {
    /// Its scope, where it is strong.
    pub fn scope(self) -> Option<Scope> {
        match self {
            Order::Weak => None,
            Order::Volatile => Some(Scope::Sys),
            Order::Relaxed(scope) | Order::Acquire(scope) | Order::Release(scope) | Order::AcqRel(scope) => Some(scope),
        }
    }

    /// Whether it acquires.
    pub fn acquires(self) -> bool {
        match self {
            Order::Acquire(_) | Order::AcqRel(_) => true,
            Order::Weak | Order::Volatile | Order::Relaxed(_) | Order::Release(_) => false,
        }
    }

    /// Whether it releases.
    pub fn releases(self) -> bool {
        match self {
            Order::Release(_) | Order::AcqRel(_) => true,
            Order::Weak | Order::Volatile | Order::Relaxed(_) | Order::Acquire(_) => false,
        }
    }
}

/// The kind of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FenceKind {
    /// `fence.acquire`: the acquire half of `fence.acq_rel`.
    Acquire,
    /// `fence.release`: the release half.
    Release,
    /// `fence.acq_rel`.
    AcqRel,
    /// `fence.sc`; also does what `fence.acq_rel` does.
    Sc,
}

/// What a store stores.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// A number.
    Const(u32),
    /// What an earlier load of the same thread returned: a data dependency.
    Of(Reg),
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::Const(value)
    }
}

/// When a poll ends. Only its last load is an event; all later writes of the thread depend on it (control dependency).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Until {
    /// The value is this one.
    Is(u32),
    /// The value is this one or greater.
    AtLeast(u32),
    /// The value is not this one.
    IsNot(u32),
}

impl Until {
    /// Whether `value` ends the poll.
    pub fn ends_with(self, value: u32) -> bool {
        match self {
            Until::Is(wanted) => value == wanted,
            Until::AtLeast(least) => value >= least,
            Until::IsNot(marker) => value != marker,
        }
    }
}

/// One operation of a thread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// `ld`, or the last load of a poll.
    Load {
        /// Its order.
        order: Order,
        /// Where.
        loc: Loc,
        /// What gets the value.
        into: Reg,
        /// For a poll: when it ends.
        until: Option<Until>,
    },
    /// `st`.
    Store {
        /// Its order.
        order: Order,
        /// Where.
        loc: Loc,
        /// What.
        value: Value,
    },
    /// `atom.add`, or `red.add` where no register gets the old value.
    Add {
        /// Its order.
        order: Order,
        /// Where.
        loc: Loc,
        /// How much.
        value: u32,
        /// What gets the old value.
        into: Option<Reg>,
    },
    /// `fence`.
    Fence(FenceKind, Scope),
    /// `bar.sync 0` by all threads of the block.
    BarSync,
    /// `griddepcontrol.wait`: what of this thread comes before it is not ordered after the previous kernel.
    GridWait,
}

impl Op {
    /// The location, of a memory operation.
    pub fn loc(&self) -> Option<&Loc> {
        match self {
            Op::Load { loc, .. } | Op::Store { loc, .. } | Op::Add { loc, .. } => Some(loc),
            Op::Fence(..) | Op::BarSync | Op::GridWait => None,
        }
    }

    /// The order, of a memory operation.
    pub fn order(&self) -> Option<Order> {
        match self {
            Op::Load { order, .. } | Op::Store { order, .. } | Op::Add { order, .. } => Some(*order),
            Op::Fence(..) | Op::BarSync | Op::GridWait => None,
        }
    }

    /// The scope, of a strong operation.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            Op::Load { order, .. } | Op::Store { order, .. } | Op::Add { order, .. } => order.scope(),
            Op::Fence(_, scope) => Some(*scope),
            Op::BarSync | Op::GridWait => None,
        }
    }

    /// Whether it reads memory.
    pub fn reads(&self) -> bool {
        match self {
            Op::Load { .. } | Op::Add { .. } => true,
            Op::Store { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => false,
        }
    }

    /// Whether it writes memory.
    pub fn writes(&self) -> bool {
        match self {
            Op::Store { .. } | Op::Add { .. } => true,
            Op::Load { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => false,
        }
    }

    /// The register that gets a value.
    pub fn register(&self) -> Option<&Reg> {
        match self {
            Op::Load { into, .. } => Some(into),
            Op::Add { into, .. } => into.as_ref(),
            Op::Store { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => None,
        }
    }

    /// Whether it is the end of a poll.
    pub fn is_poll(&self) -> bool {
        match self {
            Op::Load { until, .. } => until.is_some(),
            Op::Store { .. } | Op::Add { .. } | Op::Fence(..) | Op::BarSync | Op::GridWait => false,
        }
    }
}

impl Display for Scope {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Scope::Cta => "cta",
            Scope::Gpu => "gpu",
            Scope::Sys => "sys",
        })
    }
}
