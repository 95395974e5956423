//! How far the ranks' clocks are apart, by what came from one to the other.
//!
//! What rank `a` told came to `b` after it was told: so `a`'s clock is at most so far ahead of `b`'s as it showed less then. The other
//! way round it is the same, and both together leave room for as long as a message takes there and back. The middle of that is taken. What
//! clocks drift apart afterwards is not seen; nor, of three ranks or more, what lies between the threads of a block that tell them, which
//! is nothing where those are of one warp.

use std::collections::BTreeMap;

use allfold::{BlockTrace, PhaseTrace};

/// How far each rank's clock is behind that of rank 0.
#[derive(Debug, PartialEq, Eq)]
pub struct Clocks {
    /// Of each rank, to be added to its times.
    behind_ns: Vec<i64>,
    /// How wrong the distance of two of them may be.
    pub within_ns: u64,
}

/// No bound that anything has shown.
const UNKNOWN: i64 = i64::MAX / 4;

impl Clocks {
    /// Sets clocks by `traces`; `clocks[rank]` says which clock a rank has.
    pub fn set(traces: &[BlockTrace], clocks: &[u32]) -> Clocks {
        let mut of_calls = BTreeMap::<_, Vec<&BlockTrace>>::new();
        for trace in traces {
            of_calls.entry(trace.epoch).or_default().push(trace);
        }
        let ranks = clocks.len();
        // `ahead[a][b]`: how far, at most, the clock of `a` is ahead of that of `b`.
        let mut ahead = vec![vec![UNKNOWN; ranks]; ranks];
        for (a, b) in pairs(ranks) {
            if a == b || clocks[a] == clocks[b] {
                ahead[a][b] = 0;
                continue;
            }
            for blocks in of_calls.values() {
                for phase in 0..allfold::Phase::COUNT {
                    let earliest = |rank: usize, of: fn(&PhaseTrace) -> Option<u64>| {
                        let blocks = blocks.iter().filter(|block| block.rank as usize == rank);
                        blocks.filter_map(|block| of(&block.phases[phase])).min()
                    };
                    // Whichever block of `b` it was to which something came first, some block of `a` had told it.
                    let (told, came) = (earliest(a, |at| at.told_ns), earliest(b, |at| at.came_ns));
                    if let (Some(told), Some(came)) = (told, came) {
                        // The clock of `b` showed `came` later than that of `a` showed `told`.
                        ahead[b][a] = ahead[b][a].min(told_before(told, came));
                    }
                }
            }
        }
        // What is known of two by way of a third.
        for (through, a, b) in (0..ranks).flat_map(|through| pairs(ranks).map(move |(a, b)| (through, a, b))) {
            ahead[a][b] = ahead[a][b].min(ahead[a][through].saturating_add(ahead[through][b]));
        }
        let known = |a: usize, b: usize| ahead[a][b].max(ahead[b][a]) < UNKNOWN / 2;
        let behind = |rank: usize| if known(0, rank) { (ahead[0][rank] - ahead[rank][0]) / 2 } else { 0 };
        let behind_ns: Vec<_> = (0..ranks).map(behind).collect();
        // How far what is taken for the distance of two clocks may be from it, either way.
        let within = |(a, b): (usize, usize)| {
            let taken = behind_ns[b] - behind_ns[a];
            if known(a, b) { (ahead[a][b] - taken).max(ahead[b][a] + taken).max(0) as u64 } else { u64::MAX }
        };
        Clocks { within_ns: pairs(ranks).map(within).max().unwrap_or(0), behind_ns }
    }

    /// The same traces by the clock of rank 0.
    pub fn apply(&self, traces: &[BlockTrace]) -> Vec<BlockTrace> {
        let set = |trace: &BlockTrace| {
            let by = self.behind_ns.get(trace.rank as usize).copied().unwrap_or(0);
            let set = |ns: u64| ns.saturating_add_signed(by);
            let phases =
                trace.phases.map(|at| PhaseTrace { told_ns: at.told_ns.map(set), came_ns: at.came_ns.map(set) });
            BlockTrace { began_ns: set(trace.began_ns), ended_ns: trace.ended_ns.map(set), phases, ..trace.clone() }
        };
        traces.iter().map(set).collect()
    }
}

fn pairs(ranks: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..ranks).flat_map(move |a| (0..ranks).map(move |b| (a, b)))
}

/// By how much `told` is before `came`, on clocks that may be far apart.
fn told_before(told: u64, came: u64) -> i64 {
    came.wrapping_sub(told) as i64
}

#[cfg(test)]
mod tests {
    use allfold::Phase;

    use super::*;

    /// A call in which each rank tells at a time of its own and hears of the last `flight` later, by clocks that are `ahead`.
    fn call(epoch: u64, told: &[i64], ahead: &[i64], flight: i64) -> Vec<BlockTrace> {
        let of_rank = |rank: usize| {
            let shows = |ns: i64| (1_000_000_000 + ns + ahead[rank]) as u64;
            let others = told.iter().enumerate().filter(|&(other, _)| other != rank);
            let came = others.map(|(_, ns)| ns + flight).max().expect("there are others").max(told[rank]);
            let mut phases = [PhaseTrace::default(); Phase::COUNT];
            phases[0] = PhaseTrace { told_ns: Some(shows(told[rank])), came_ns: Some(shows(came)) };
            let (rank, began_ns) = (rank as u32, shows(told[rank] - 10));
            BlockTrace { rank, block: 0, epoch, began_ns, phases, ended_ns: Some(shows(came + 5)) }
        };
        (0..told.len()).map(of_rank).collect()
    }

    #[test]
    fn clocks_far_apart_are_set_to_a_flight() {
        let ahead = [0, -7_000_000, 123_456_789];
        let rounds: [[i64; 3]; 3] = [[0, 0, 900], [2000, 2900, 2000], [5900, 5000, 5000]];
        let traces: Vec<_> =
            rounds.iter().enumerate().flat_map(|(epoch, told)| call(epoch as u64, told, &ahead, 700)).collect();
        let clocks = Clocks::set(&traces, &[0, 1, 2]);
        assert_eq!(clocks.within_ns, 700);
        for (behind, ahead) in clocks.behind_ns.iter().zip(ahead) {
            assert!((behind + ahead).unsigned_abs() <= clocks.within_ns, "{clocks:?}");
        }
        let told: Vec<_> = clocks.apply(&traces).iter().map(|trace| trace.phases[0].told_ns).collect();
        let late = told[2].expect("told") - told[0].expect("told");
        assert!((200..=1600).contains(&late), "rank 2 was late by 900 ns in the first call: {late}");
    }

    #[test]
    fn one_clock_is_not_set_and_one_of_which_nothing_came_is_not_known() {
        let traces = call(0, &[0, 500], &[0, 40], 10);
        assert_eq!(Clocks::set(&traces, &[3, 3]), Clocks { behind_ns: vec![0, 0], within_ns: 0 });
        let alone = Clocks::set(&traces[..1], &[0, 1]);
        assert_eq!(alone, Clocks { behind_ns: vec![0, 0], within_ns: u64::MAX });
    }
}
