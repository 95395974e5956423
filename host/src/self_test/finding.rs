//! What one rank finds in one call of the self-test, and the words by which it tells the others.

use allfold_kernels::protocol::abi::{Bank, FlagRow, Phase, Rank};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::status::{Ranks, Stop};

use crate::stop::Word;

/// What a rank finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Finding {
    /// Why the call came to a bad end, if it did.
    pub(crate) stop: Option<Stop>,
    /// For whom this rank waited in vain.
    pub(crate) missing: Ranks,
    /// Whose flags of the start barrier have come to it; looked at where the call came to a bad end.
    pub(crate) started: Ranks,
    /// Its output, as long as it is: nothing where the call came to a bad end.
    pub(crate) output: Vec<u8>,
}

impl Finding {
    /// Of a call that came to its end.
    pub(crate) fn ended(output: Vec<u8>) -> Finding {
        Finding { output, ..Finding::default() }
    }

    /// Of a call that `rank` had to leave, by the word that it left.
    pub(crate) fn left(rank: u32, stop: Stop, word: Word, started: Ranks) -> Finding {
        // Who stopped first has said it there.
        let own = if stop.by == Rank(rank) { stop.ranks } else { Ranks::NONE };
        Finding { stop: Some(stop), missing: Ranks(word.missing.0 | own.0), started, output: Vec::new() }
    }

    /// Where a rank finds the flags of the start barrier: whatever the scope, those of block 0.
    pub(crate) fn start_row(epoch: Epoch) -> FlagRow {
        let bank: Bank = epoch.bank();
        FlagRow { phase: Phase::Start, bank, block: 0 }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let stop = self.stop.map_or(0, Stop::encode);
        [&stop.to_le_bytes()[..], &[self.missing.0, self.started.0], &self.output].concat()
    }

    pub(crate) fn decode(word: &[u8]) -> Option<Finding> {
        let (&stop, rest) = word.split_first_chunk()?;
        let (&[missing, started], output) = rest.split_first_chunk()?;
        let stop = match u64::from_le_bytes(stop) {
            0 => None,
            word => Some(Stop::decode(word)?),
        };
        Some(Finding { stop, missing: Ranks(missing), started: Ranks(started), output: output.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use allfold_kernels::protocol::status::{LongestWait, Why};

    use super::*;

    #[test]
    fn what_is_found_is_told_and_anything_else_is_refused() {
        let stop = Stop { block: 3, ranks: Ranks(2), ..Stop::outside(Why::TimedOut, Rank(1)) };
        let word = Word { stop: Some(stop), missing: Ranks(8), wait: LongestWait { ticks: 7, ranks: Ranks(8) } };
        let left = Finding::left(1, stop, word, Ranks(5));
        assert_eq!((left.missing, Finding::left(2, stop, word, Ranks(5)).missing), (Ranks(10), Ranks(8)));
        for finding in [left, Finding::ended(vec![1, 2, 3]), Finding::default()] {
            assert_eq!(Finding::decode(&finding.encode()), Some(finding));
        }
        for word in [&[0; 9][..], &[], &[1, 0, 0, 0, 0, 0, 0, 0, 0, 0]] {
            assert_eq!(Finding::decode(word), None);
        }
    }
}
