//! What one may assume of the hardware beyond the memory model, by name. Uses `program`.

use std::fmt::{self, Display, Formatter};

use crate::event::{FenceKind, Op, Order, Place, Scope};
use crate::program::Program;

/// An assumption that the model does not grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Assumption {
    /// What came before a kernel in its stream is published by every flag that the kernel stores.
    KernelEndPublishes,
    /// What follows a poll, in its thread and after `bar.sync` in its block, comes after the flag that ended it.
    PollOrdersLoads,
    /// A store is not seen before the loads that come before it have their values.
    LoadsDoneBeforeBarrier,
}

impl Assumption {
    /// All assumptions.
    pub const ALL: [Assumption; 3] =
        [Assumption::KernelEndPublishes, Assumption::PollOrdersLoads, Assumption::LoadsDoneBeforeBarrier];

    /// What it is to the checker.
    pub const fn means(self) -> &'static str {
        match self {
            Assumption::KernelEndPublishes => {
                "each thread of a kernel that is not the stream's first starts with a `fence.release.sys`"
            }
            Assumption::PollOrdersLoads => "each poll is an acquire load",
            Assumption::LoadsDoneBeforeBarrier => {
                "No-Thin-Air takes every store to depend on the loads that program order, `bar.sync` and the stream put \
                 before it"
            }
        }
    }

    /// `program` with what stands for the assumption. [`Assumption::LoadsDoneBeforeBarrier`] has nothing: it is a
    /// stronger No-Thin-Air.
    pub fn applied_to(self, mut program: Program) -> Program {
        match self {
            Assumption::LoadsDoneBeforeBarrier => {}
            Assumption::PollOrdersLoads => {
                for op in program.threads.iter_mut().flat_map(|thread| &mut thread.ops) {
                    if let Op::Load { order, until: Some(_), .. } = op {
                        *order = match *order {
                            Order::Volatile => Order::Acquire(Scope::Sys),
                            Order::Relaxed(scope) => Order::Acquire(scope),
                            other @ (Order::Weak | Order::Acquire(_) | Order::Release(_) | Order::AcqRel(_)) => other,
                        };
                    }
                }
            }
            Assumption::KernelEndPublishes => {
                let kernels: Vec<Place> = program.threads.iter().map(|thread| thread.place).collect();
                for thread in &mut program.threads {
                    let announces = thread.ops.iter().any(|op| op.writes() && op.scope().is_some());
                    if announces && kernels.iter().any(|k| k.gpu == thread.place.gpu && k.grid < thread.place.grid) {
                        // With programmatic dependent launch, the boundary is where the wait is.
                        let start = thread.ops.iter().position(|op| *op == Op::GridWait).map_or(0, |wait| wait + 1);
                        thread.ops.insert(start, Op::Fence(FenceKind::Release, Scope::Sys));
                    }
                }
            }
        }
        program
    }
}

impl Display for Assumption {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Assumption::KernelEndPublishes => "KernelEndPublishes",
            Assumption::PollOrdersLoads => "PollOrdersLoads",
            Assumption::LoadsDoneBeforeBarrier => "LoadsDoneBeforeBarrier",
        })
    }
}
