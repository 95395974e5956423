//! Operations and places as text, near to how PTX spells them. Uses `event`.

use std::fmt::{self, Display, Formatter};

use crate::event::{FenceKind, Loc, Op, Order, Place, Reg, Until, Value};

impl Display for Place {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Place { gpu, grid, block, thread } = self;
        write!(f, "gpu {gpu} kernel {grid} block {block} thread {thread}")
    }
}

impl Display for Loc {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Display for Reg {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Display for Order {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Order::Weak => f.write_str("weak"),
            Order::Volatile => f.write_str("volatile"),
            Order::Relaxed(scope) => write!(f, "relaxed.{scope}"),
            Order::Acquire(scope) => write!(f, "acquire.{scope}"),
            Order::Release(scope) => write!(f, "release.{scope}"),
            Order::AcqRel(scope) => write!(f, "acq_rel.{scope}"),
        }
    }
}

impl Display for FenceKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FenceKind::Acquire => "acquire",
            FenceKind::Release => "release",
            FenceKind::AcqRel => "acq_rel",
            FenceKind::Sc => "sc",
        })
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Value::Const(value) => write!(f, "{value}"),
            Value::Of(reg) => write!(f, "{reg}"),
        }
    }
}

impl Display for Until {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Until::Is(value) => write!(f, "= {value}"),
            Until::AtLeast(value) => write!(f, ">= {value}"),
            Until::IsNot(value) => write!(f, "!= {value}"),
        }
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Op::Load { order, loc, into, until: None } => write!(f, "ld.{order} {into}, [{loc}]"),
            Op::Load { order, loc, until: Some(until), .. } => write!(f, "poll ld.{order} [{loc}] until {until}"),
            Op::Store { order, loc, value } => write!(f, "st.{order} [{loc}], {value}"),
            Op::Add { order, loc, value, into: Some(into) } => write!(f, "atom.add.{order} {into}, [{loc}], {value}"),
            Op::Add { order, loc, value, into: None } => write!(f, "red.add.{order} [{loc}], {value}"),
            Op::Fence(kind, scope) => write!(f, "fence.{kind}.{scope}"),
            Op::BarSync => f.write_str("bar.sync"),
            Op::GridWait => f.write_str("griddepcontrol.wait"),
        }
    }
}
