//! What every algorithm does at the start and at the end of a call.

use super::abi::Phase;
use super::barrier::Barrier;
use super::epoch::{self, Epoch};
use super::machine::Machine;
use super::signature;
use super::spec::{Protocol, Reuse, Scope};
use super::wait::Left;

/// The start barrier and a block-wide sync. After it every peer is in the same call: nothing of a peer's is read or stored to
/// before.
///
/// # Errors
/// Some thread of this block left its wait: all of the block leave.
#[inline(always)]
pub fn start<M: Machine, const W: usize>(m: &M, protocol: Protocol, epoch: Epoch) -> Result<(), Left> {
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
    signature::tell::<M, W>(m, epoch);
    let same = signature::compare::<M, W>(m, Phase::Start, epoch);
    sync_all(m, same.and_then(|()| barrier.wait::<M, W>(m)))
}

/// A block-wide sync of threads that have waited, or left their waits.
///
/// # Errors
/// Some thread of this block left.
#[inline(always)]
pub fn sync_all<M: Machine>(m: &M, waited: Result<(), Left>) -> Result<(), Left> {
    if m.sync_block_all(waited.is_ok()) { Ok(()) } else { waited.and(Err(Left::with_others(Phase::Start))) }
}

/// What the protocol does after the last access to a peer's data; and the epoch words move on.
///
/// # Errors
/// This thread left its wait; with `sync_after`, some thread of the block.
#[inline(always)]
pub fn end<M: Machine, const W: usize>(m: &M, protocol: Protocol, epoch: Epoch) -> Result<(), Left> {
    match protocol.reuse {
        Reuse::Parity | Reuse::Nothing => {
            epoch::advance(m, epoch);
            Ok(())
        }
        Reuse::EndBarrier { order, sync_after } => {
            let barrier = Barrier { phase: Phase::End, scope: Scope::Block, order, check: protocol.check, epoch };
            m.sync_block();
            barrier.arrive::<M, W>(m);
            // While the flags are under way, and not before: a release would wait for these stores.
            epoch::advance(m, epoch);
            let ended = barrier.wait::<M, W>(m);
            if sync_after { sync_all(m, ended) } else { ended }
        }
    }
}
