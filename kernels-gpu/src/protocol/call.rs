//! What every algorithm does at the start and at the end of a call.

use super::abi::Phase;
use super::barrier::Barrier;
use super::epoch::{self, Epoch};
use super::machine::Machine;
use super::spec::{Protocol, Reuse, Scope};

/// The start barrier and a block-wide sync; false: a peer was given up, leave.
#[inline(always)]
pub fn start<M: Machine, const W: usize>(m: &M, protocol: Protocol, epoch: Epoch) -> bool {
    let barrier = Barrier {
        phase: Phase::Start,
        scope: protocol.start.scope,
        order: protocol.start.order,
        check: protocol.check,
        epoch,
    };
    if protocol.start.sync_before {
        m.sync_block();
    }
    barrier.arrive::<M, W>(m);
    m.sync_block_all(barrier.wait::<M, W>(m))
}

/// What the protocol does after the last access to a peer's data; and the epoch words move on. False: a peer was given up. With
/// `sync_after`, the answer is that of the whole block.
#[inline(always)]
pub fn end<M: Machine, const W: usize>(m: &M, protocol: Protocol, epoch: Epoch) -> bool {
    match protocol.reuse {
        Reuse::Parity | Reuse::Nothing => {
            epoch::advance(m, epoch);
            true
        }
        Reuse::EndBarrier { order, sync_after } => {
            let barrier = Barrier { phase: Phase::End, scope: Scope::Block, order, check: protocol.check, epoch };
            m.sync_block();
            barrier.arrive::<M, W>(m);
            // While the flags are under way, and not before: a release would wait for these stores.
            epoch::advance(m, epoch);
            let ended = barrier.wait::<M, W>(m);
            if sync_after { m.sync_block_all(ended) } else { ended }
        }
    }
}
