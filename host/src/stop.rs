//! Ranks that stop: what a host tells its ranks, what they leave word of, and the error that is made of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use allfold_kernels::protocol::abi::{MAX_RANKS, Rank};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::signature::{Call, Signature};
use allfold_kernels::protocol::status::{LongestWait, Ranks, Stop, Why};

use crate::error::{Error, Result};

/// Where a host tells ranks something while they wait. It lives as long as whoever may tell them something.
pub(crate) trait Boards: Send + Sync {
    /// All ranks, in whatever process, are to stop.
    fn stop(&self, stop: Stop);
    /// `rank` is gone: to be known by the ranks of this process.
    fn gone(&self, rank: u32);
    /// The ranks of this process are gone: to be known by the others.
    fn leave(&self);
}

/// Stops the calls of a communicator, from any thread and at any time.
///
/// ```
/// use std::time::Duration;
/// use allfold::{Communicator, Error, RankBuffers, ReduceOp, rendezvous};
///
/// std::thread::scope(|scope| {
///     let mut seats = rendezvous::local(2).expect("two ranks").into_iter();
///     let (first, second) = (seats.next().expect("rank 0"), seats.next().expect("rank 1"));
///     // Rank 1 is connected, and makes no call.
///     let idle = scope.spawn(move || Communicator::connect_cpu(&second));
///     let mut ranks = Communicator::connect_cpu(&first).expect("both come");
///     let aborter = ranks.aborter();
///     scope.spawn(move || {
///         std::thread::sleep(Duration::from_millis(10));
///         aborter.abort();
///     });
///     let mut data = [1.0_f32; 100];
///     let error = ranks.all_reduce(&[RankBuffers::in_place(&mut data)], ReduceOp::Sum).expect_err("nobody else calls");
///     assert!(matches!(error, Error::Aborted { by: 0 }), "{error}");
///     drop(idle.join());
/// });
/// ```
#[derive(Clone)]
pub struct Aborter {
    pub(crate) boards: Arc<dyn Boards>,
    pub(crate) by: u32,
}

impl fmt::Debug for Aborter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Aborter").field("by", &self.by).finish_non_exhaustive()
    }
}

impl Aborter {
    /// Stops all calls of the communicator, on all ranks: those that wait end within a few milliseconds, those to come at
    /// their start or at their first wait in vain.
    /// [`Communicator::check`](crate::Communicator::check) is [`Error::Aborted`] on every rank then, unless a rank had stopped before.
    /// Where this process has dropped the communicator, those of other processes still hear of it.
    ///
    /// Ranks of other processes with GPUs are told by a copy to their memory; on the way this may wait for the driver.
    pub fn abort(&self) {
        self.boards.stop(Stop::outside(Why::Aborted, Rank(self.by)));
    }
}

/// What a rank has left word of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Word {
    /// Why it stopped, if it has.
    pub(crate) stop: Option<Stop>,
    /// For whom it waited in vain.
    pub(crate) missing: Ranks,
    /// How long it has waited at most, in vain or not.
    pub(crate) wait: LongestWait,
}

/// The error of a communicator whose `rank` has stopped. `told` gives what each rank told it in the calls of an epoch's parity.
pub(crate) fn error(
    rank: u32,
    word: Word,
    timeout: Option<Duration>,
    told: impl FnOnce(Epoch) -> Result<[[u64; 2]; MAX_RANKS]>,
) -> Result<()> {
    let Some(stop) = word.stop else { return Ok(()) };
    let Stop { why, by: Rank(by), phase, block, ranks, epoch_low } = stop;
    Err(match why {
        Why::TimedOut => {
            // Several threads of this rank may have waited, and for others; of another rank only that one is known which said so.
            let (missing, waited) = match by == rank {
                true => (Ranks(word.missing.0 | ranks.0), Duration::from_nanos(word.wait.ns())),
                false => (ranks, timeout.unwrap_or_default()),
            };
            let missing = missing.iter().map(|Rank(rank)| rank).collect();
            Error::Timeout { waiting_rank: by, missing, phase, block, epoch: epoch_low, waited }
        }
        Why::Gone => Error::PeerGone { rank: ranks.iter().next().map_or(by, |Rank(rank)| rank) },
        Why::Differs => differs(epoch_low, told(Epoch(epoch_low))?, stop),
        Why::UnknownBuffers => Error::UnknownBuffers { rank: by },
        Why::Aborted => Error::Aborted { by },
        Why::Abandoned => Error::Ended("a call or a replay was launched on some ranks only"),
    })
}

/// What differs between the calls that ranks told each other in call `epoch`.
fn differs(epoch: u64, told: [[u64; 2]; MAX_RANKS], stop: Stop) -> Error {
    let calls: Vec<(u32, Call)> = (0..)
        .zip(told)
        .filter_map(|(rank, words)| Some((rank, Call::of(Signature::heard(words, Epoch(epoch))?)?)))
        .collect();
    let mut fields = Vec::new();
    for (name, of) in FIELDS {
        if calls.iter().any(|(_, call)| of(call) != of(&calls[0].1)) {
            fields.push((name, of));
        }
    }
    let what: Vec<_> = fields.iter().map(|(name, _)| *name).collect();
    let mut values = Vec::<(String, Vec<u32>)>::new();
    for (rank, call) in &calls {
        let value = fields.iter().map(|(_, of)| of(call)).collect::<Vec<_>>().join(", ");
        match values.iter_mut().find(|(known, _)| *known == value) {
            Some((_, ranks)) => ranks.push(*rank),
            None => values.push((value, vec![*rank])),
        }
    }
    if fields.is_empty() {
        // A word has been lost to a later call: the two ranks are known all the same.
        let ranks = stop.ranks.iter().map(|Rank(rank)| rank).collect();
        values = vec![("the call of one rank".to_owned(), vec![stop.by.0]), ("that of others".to_owned(), ranks)];
    }
    let what = if what.is_empty() { "what it is".to_owned() } else { what.join(" and ") };
    Error::Disagreement { what: format!("call {epoch}: {what}"), values }
}

/// What a user has for each part of a call.
type Field = (&'static str, fn(&Call) -> String);

const FIELDS: [Field; 7] = [
    ("its length", |call| format!("{} elements", call.elems)),
    ("its dtype", |call| call.dtype.name().to_owned()),
    ("its operation", |call| call.op.name().to_owned()),
    ("its algorithm", |call| call.algorithm.name().to_owned()),
    ("its input mode", |call| call.input.name().to_owned()),
    ("its grid", |call| format!("{} blocks of {}", call.blocks, call.threads)),
    ("its protocol", |call| format!("{:#x}", call.protocol)),
];

#[cfg(test)]
mod tests {
    use allfold_kernels::protocol::abi::{Algorithm, Dtype, InputMode, Phase, ReduceOp};
    use allfold_kernels::protocol::signature::Collective;
    use allfold_kernels::protocol::wait::TICK_NS;

    use super::*;

    const CALL: Call = Call {
        collective: Collective::AllReduce,
        elems: 100,
        dtype: Dtype::Bf16,
        op: ReduceOp::Sum,
        algorithm: Algorithm::OneShotPush,
        input: InputMode::Registered,
        blocks: 256,
        threads: 1024,
        protocol: 0x1ff,
    };

    fn told(calls: [Option<Call>; 3]) -> [[u64; 2]; MAX_RANKS] {
        let mut told = [[7; 2]; MAX_RANKS];
        for (words, call) in told.iter_mut().zip(calls) {
            if let Some(call) = call {
                *words = call.signature().0.map(|word| word | 9 << 48);
            }
        }
        told
    }

    #[test]
    fn what_differs_is_named_with_the_ranks_that_have_each_value() {
        let stop =
            Stop { why: Why::Differs, by: Rank(2), phase: Phase::Start, block: 0, ranks: Ranks(1), epoch_low: 9 };
        let other = Call { elems: 99, dtype: Dtype::I32, ..CALL };
        let error = differs(9, told([Some(CALL), Some(other), Some(CALL)]), stop);
        assert_eq!(
            error.to_string(),
            "ranks disagree on call 9: its length and its dtype: 100 elements, bf16 on ranks [0, 2], 99 elements, i32 on ranks [1]"
        );
        let other = Call { op: ReduceOp::Max, ..CALL };
        let error = differs(9, told([Some(CALL), Some(other), Some(CALL)]), stop).to_string();
        assert!(error.contains("its operation: sum on ranks [0, 2], max on ranks [1]"), "{error}");
        // Of a rank that has told nothing yet, nothing is said.
        let error = differs(9, told([Some(CALL), None, Some(Call { blocks: 1, ..CALL })]), stop).to_string();
        assert!(error.contains("its grid: 256 blocks of 1024 on ranks [0], 1 blocks of 1024 on ranks [2]"), "{error}");
    }

    #[test]
    fn a_rank_that_stopped_first_says_all_that_it_waited_for_and_any_other_what_it_was_told() {
        let stop = Stop { why: Why::TimedOut, by: Rank(0), phase: Phase::End, block: 3, ranks: Ranks(2), epoch_low: 9 };
        let of = |rank, missing, ticks| {
            let word = Word { stop: Some(stop), missing: Ranks(missing), wait: LongestWait { ticks, ranks: Ranks(2) } };
            let error = error(rank, word, Some(Duration::from_secs(30)), |_| unreachable!("nothing differs"));
            let Err(Error::Timeout { waiting_rank, missing, block, epoch, waited, .. }) = error else { panic!() };
            assert_eq!((block, epoch), (3, 9));
            (waiting_rank, missing, waited)
        };
        assert_eq!(of(0, 0b1010, 7), (0, vec![1, 3], Duration::from_nanos(7 * TICK_NS)));
        assert_eq!(of(2, 0b1000, 8), (0, vec![1], Duration::from_secs(30)));
        assert_eq!(of(2, 0, 0), (0, vec![1], Duration::from_secs(30)));
    }

    #[test]
    fn a_communicator_that_goes_on_has_no_error() {
        error(0, Word::default(), None, |_| unreachable!("nothing differs")).expect("nothing happened");
    }
}
