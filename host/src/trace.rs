//! What blocks have left word of: when they came where.

use allfold_kernels::protocol::abi::{MAX_BLOCKS, Phase};
use allfold_kernels::protocol::mark::{MARK_WORDS, MARKED_CALLS, Mark};

/// When one block of a rank came where in one call: see [`Communicator::trace`](crate::Communicator::trace).
///
/// Times are nanoseconds of the clock of the rank's GPU, which counts from whenever; CPU ranks of one process have one clock. Of a
/// block's threads the last one is meant, on GPUs of the first eight and one in each warp. A place to which the block did not come, or
/// at which nothing is told or waited for, has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTrace {
    /// The rank.
    pub rank: u32,
    /// The block.
    pub block: u32,
    /// The number of the call.
    pub epoch: u64,
    /// It began.
    pub began_ns: u64,
    /// What it told peers and waited for, by [`Phase`].
    pub phases: [PhaseTrace; Phase::COUNT],
    /// It was done.
    pub ended_ns: Option<u64>,
}

/// When a block came to a phase of a call, and when it left it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PhaseTrace {
    /// Before it told its peers that it is there; of a push, before it stored the last of its packs for them.
    pub told_ns: Option<u64>,
    /// After it found that they are there; of a push, after it had added all that landed.
    pub came_ns: Option<u64>,
}

/// Calls that a trace tells of: the last ones. Fewer than there are marks of: the call before shows what in a block's words is older.
pub const TRACED_CALLS: usize = 100;
const _: () = assert!(TRACED_CALLS < MARKED_CALLS);

/// The last calls that the marks of `rank` tell of, the earliest first, and in each the blocks in order.
pub(crate) fn decode(rank: u32, words: &[u64]) -> Vec<BlockTrace> {
    let blocks = words.chunks_exact(MARK_WORDS).enumerate();
    let begun =
        blocks.filter_map(|(index, marks)| Some((marks[0].checked_sub(1)?, (index % MAX_BLOCKS) as u32, marks)));
    let mut begun: Vec<_> = begun.collect();
    begun.sort_by_key(|&(epoch, block, _)| (epoch, block));
    let last = begun.last().map_or(0, |&(epoch, ..)| epoch);
    let mut traced = Vec::new();
    // When all marks of the call before had been left.
    let mut before = 0;
    for call in begun.chunk_by(|(one, ..), (other, ..)| one == other) {
        let newest = call.iter().flat_map(|(.., marks)| &marks[1..]).copied().max().unwrap_or(0);
        if call[0].0 + TRACED_CALLS as u64 > last {
            traced.extend(call.iter().map(|&(epoch, block, marks)| of_block(rank, block, epoch, marks, before)));
        }
        before = newest;
    }
    traced
}

/// `before`: what was left until then is of earlier calls.
fn of_block(rank: u32, block: u32, epoch: u64, marks: &[u64], before: u64) -> BlockTrace {
    let of = |mark: Mark| marks.get(mark.word()).copied().filter(|&ns| ns > before);
    let phases = Phase::ALL.map(|phase| PhaseTrace { told_ns: of(Mark::Told(phase)), came_ns: of(Mark::Came(phase)) });
    BlockTrace { rank, block, epoch, began_ns: marks[Mark::Begin.word()], phases, ended_ns: of(Mark::End) }
}

#[cfg(test)]
mod tests {
    use allfold_kernels::protocol::epoch::Epoch;
    use allfold_kernels::protocol::mark::marks_offset_bytes;

    use super::*;

    /// The words after calls of these epochs and blocks, each of which leaves these marks.
    fn words<'a>(calls: impl IntoIterator<Item = (u64, u32, &'a [(Mark, u64)])>) -> Vec<u64> {
        let mut words = vec![0; MARKED_CALLS * MAX_BLOCKS * MARK_WORDS];
        for (epoch, block, marks) in calls {
            let at = marks_offset_bytes(Epoch(epoch), block) / size_of::<u64>();
            words[at] = epoch + 1;
            marks.iter().for_each(|&(mark, ns)| words[at + mark.word()] = ns);
        }
        words
    }

    #[test]
    fn what_is_left_of_an_earlier_call_is_not_taken_for_this_one() {
        let left = [(Mark::Told(Phase::Start), 90), (Mark::Begin, 200), (Mark::Told(Phase::End), 190)];
        let call = [(Mark::Begin, 100), (Mark::End, 180)];
        let words = words([(6, 0, &call[..]), (6, 1, &call), (7, 0, &left)]);
        let [_, _, block] = &decode(1, &words)[..] else { panic!("three blocks") };
        assert_eq!((block.rank, block.block, block.epoch, block.began_ns, block.ended_ns), (1, 0, 7, 200, None));
        assert_eq!(block.phases[Phase::Start as usize], PhaseTrace::default());
        // One thread may tell before another has begun.
        assert_eq!(block.phases[Phase::End as usize], PhaseTrace { told_ns: Some(190), came_ns: None });
    }

    #[test]
    fn the_last_calls_are_told_of_and_blocks_of_no_others() {
        let begun = |epoch: u64| [(Mark::Begin, 1000 + epoch)];
        let last = 3 + MARKED_CALLS as u64;
        let marks: Vec<_> = (3..=last).map(|epoch| (epoch, begun(epoch))).collect();
        let mut calls: Vec<_> = marks.iter().map(|(epoch, marks)| (*epoch, 0, &marks[..])).collect();
        // Nobody has overwritten what block 9 has left.
        calls.insert(0, (3, 9, &[(Mark::Begin, 1003)]));
        let told: Vec<_> = decode(0, &words(calls)).iter().map(|block| (block.epoch, block.block)).collect();
        assert_eq!(told, (last + 1 - TRACED_CALLS as u64..=last).map(|epoch| (epoch, 0)).collect::<Vec<_>>());
        assert_eq!(decode(0, &words([])), []);
    }
}
