//! Of each call, who came last and who waited for it.

use allfold::{BlockTrace, Phase};

/// One call, on all ranks.
#[derive(Debug, PartialEq, Eq)]
pub struct Call {
    /// Its number.
    pub epoch: u64,
    /// From the first block's first step to the last block's last one; none where a rank did not come to its end.
    pub took_ns: Option<u64>,
    /// What ranks told each other, in the order in which they came to it.
    pub phases: Vec<At>,
}

/// A phase of a call.
#[derive(Debug, PartialEq, Eq)]
pub struct At {
    /// Which.
    pub phase: Phase,
    /// The rank that came last, with its last block.
    pub last: u32,
    /// How long after the first one.
    pub late_ns: u64,
    /// The rank one of whose blocks waited the longest.
    pub waiting: u32,
    /// How long; none where nothing came.
    pub waited_ns: Option<u64>,
}

impl Call {
    /// Each call of `traces`, the earliest first.
    pub fn all(traces: &[BlockTrace]) -> Vec<Call> {
        let mut epochs: Vec<_> = traces.iter().map(|block| block.epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        let of = |&epoch: &u64| Call::of(epoch, &traces.iter().filter(|b| b.epoch == epoch).collect::<Vec<_>>());
        epochs.iter().map(of).collect()
    }

    fn of(epoch: u64, blocks: &[&BlockTrace]) -> Call {
        let begin = blocks.iter().map(|block| block.began_ns).min();
        let ends: Option<Vec<_>> = blocks.iter().map(|block| block.ended_ns).collect();
        let end = ends.and_then(|ends| ends.into_iter().max());
        let took_ns = begin.zip(end).map(|(begin, end)| end.saturating_sub(begin));
        // A push begins with what lands.
        let phases = [Phase::Landing, Phase::Start, Phase::Middle, Phase::End];
        Call { epoch, took_ns, phases: phases.into_iter().filter_map(|phase| At::of(phase, blocks)).collect() }
    }

    /// Where somebody was the latest.
    pub fn latest(&self) -> Option<&At> {
        self.phases.iter().max_by_key(|at| at.late_ns)
    }
}

impl At {
    fn of(phase: Phase, blocks: &[&BlockTrace]) -> Option<At> {
        let at = |block: &BlockTrace| block.phases[phase as usize];
        let mut told: Vec<(u32, u64)> = Vec::new();
        for (rank, ns) in blocks.iter().filter_map(|block| Some((block.rank, at(block).told_ns?))) {
            match told.iter_mut().find(|(of, _)| *of == rank) {
                Some((_, last)) => *last = ns.max(*last),
                None => told.push((rank, ns)),
            }
        }
        let &(last, last_ns) = told.iter().max_by_key(|(_, ns)| *ns)?;
        let first_ns = told.iter().map(|(_, ns)| *ns).min()?;
        let waits =
            blocks.iter().filter_map(|block| Some((block.rank, at(block).came_ns?.saturating_sub(at(block).told_ns?))));
        let longest = waits.max_by_key(|(_, ns)| *ns);
        let (waiting, waited_ns) = longest.map_or((last, None), |(rank, ns)| (rank, Some(ns)));
        Some(At { phase, last, late_ns: last_ns - first_ns, waiting, waited_ns })
    }
}

#[cfg(test)]
mod tests {
    use allfold::PhaseTrace;

    use super::*;

    fn block(rank: u32, block: u32, told: u64, came: Option<u64>) -> BlockTrace {
        let mut phases = [PhaseTrace::default(); Phase::COUNT];
        phases[Phase::Middle as usize] = PhaseTrace { told_ns: Some(told), came_ns: came };
        BlockTrace { rank, block, epoch: 5, began_ns: told - 1, phases, ended_ns: came.map(|ns| ns + 1) }
    }

    #[test]
    fn the_last_block_of_a_rank_counts_and_the_longest_wait() {
        let blocks = [
            block(0, 0, 10, Some(95)),
            block(0, 1, 12, Some(99)),
            block(1, 0, 90, Some(91)),
            block(1, 1, 40, Some(42)),
        ];
        let [call] = &Call::all(&blocks)[..] else { panic!("one call") };
        assert_eq!((call.epoch, call.took_ns), (5, Some(91)));
        let at = At { phase: Phase::Middle, last: 1, late_ns: 78, waiting: 0, waited_ns: Some(87) };
        assert_eq!(call.phases, [at]);
    }

    #[test]
    fn of_a_call_that_did_not_end_the_last_that_told_is_named() {
        let blocks = [block(0, 0, 10, None), block(1, 0, 20, None)];
        let [call] = &Call::all(&blocks)[..] else { panic!("one call") };
        assert_eq!(call.took_ns, None);
        let at = call.latest().expect("a phase");
        assert_eq!((at.last, at.late_ns, at.waited_ns), (1, 10, None));
    }
}
