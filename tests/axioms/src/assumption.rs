//! What one may assume of the hardware beyond the memory model: what each named assumption is to the checker.

pub use allfold_kernels::protocol::soundness::Assumption;

use crate::event::{FenceKind, Op, Order, Place, Scope};
use crate::program::Program;

/// An assumption that the checker can take.
pub trait Assumed {
    /// What it is to the checker.
    fn means(self) -> &'static str;
    /// `program` with what stands for the assumption. [`Assumption::LoadsDoneBeforeBarrier`] has nothing: it is a
    /// stronger No-Thin-Air.
    fn applied_to(self, program: Program) -> Program;
}

impl Assumed for Assumption {
    fn means(self) -> &'static str {
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

    fn applied_to(self, mut program: Program) -> Program {
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
