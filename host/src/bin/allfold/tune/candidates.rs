//! The rows that a table could have: few, and sensible.

use allfold::tuning::{Row, Source};
use allfold::{Algorithm, CallOptions, InputMode, Limits, Options, Plan, Request};

/// Threads of a block.
const THREADS: [u32; 4] = [128, 256, 512, 1024];

/// An algorithm, and the grid that a row would give it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub algorithm: Algorithm,
    /// Most blocks.
    pub blocks: u32,
    pub threads: u32,
}

/// What is measured: each algorithm with each number of threads, over all blocks that there are and over half of them, and with
/// each grid of the built-in rows for so many ranks or more.
pub fn candidates(limits: &Limits, rows: &[Row]) -> Vec<Candidate> {
    let built_in = rows.iter().filter(|row| limits.world <= row.up_to_ranks);
    let built_in = built_in.map(|row| Candidate { algorithm: row.algorithm, blocks: row.blocks, threads: row.threads });
    // CPU ranks have the one grid that they were made with, and the built-in rows leave it as it is.
    let grids = THREADS
        .into_iter()
        .flat_map(|threads| [(limits.max_blocks, threads), (limits.max_blocks.div_ceil(2), threads)]);
    let with = |(blocks, threads)| Algorithm::ALL.map(|algorithm| Candidate { algorithm, blocks, threads });
    let possible = |candidate: &Candidate| candidate.threads <= limits.threads_of(candidate.algorithm);
    let grids = grids.flat_map(with).filter(possible);
    let all = built_in.clone().chain(grids).chain(built_in.flat_map(|c| with((c.blocks, c.threads))));
    let mut unique: Vec<Candidate> = Vec::new();
    for candidate in all.filter(|candidate| candidate.algorithm.takes(limits.world)) {
        if !unique.contains(&candidate) {
            unique.push(candidate);
        }
    }
    unique
}

/// A row for everything.
const PLAIN: Row = Row {
    up_to_ranks: u32::MAX,
    up_to_bytes: u64::MAX,
    algorithm: Algorithm::OneShot,
    blocks: 1,
    threads: 1,
    source: Source::Reasoned("to be measured"),
};

impl Candidate {
    /// How a call would be done if a row said so; none where it cannot be.
    pub fn plan(&self, request: &Request, input: InputMode, options: &Options, limits: &Limits) -> Option<Plan> {
        let call = CallOptions { algorithm: Some(self.algorithm), input: Some(input), ..CallOptions::default() };
        let row = Row { algorithm: self.algorithm, blocks: self.blocks, threads: self.threads, ..PLAIN };
        Plan::choose(request, &call, options, limits, &[row]).ok()
    }
}

#[cfg(test)]
mod tests {
    use allfold::Dtype;
    use allfold::tuning::{CPU_ROWS, ROWS};

    use super::*;

    const LIMITS: Limits = Limits {
        world: 2,
        max_blocks: 132,
        max_threads: [1024; Algorithm::ALL.len()],
        staging_bytes: 1 << 26,
        scratch_bytes: 1 << 26,
        landing_bytes: 1 << 24,
        reaches_buffers: true,
    };

    #[test]
    fn there_are_few_and_the_built_in_ones_are_among_them() {
        for world in 2..=8 {
            let all = candidates(&Limits { world, ..LIMITS }, ROWS);
            assert!((40..=60).contains(&all.len()), "{world} ranks: {}", all.len());
            assert_eq!(all.iter().any(|c| c.algorithm == Algorithm::Exchange), world == 2);
            for row in ROWS.iter().filter(|row| row.up_to_ranks == world) {
                let Row { algorithm, blocks, threads, .. } = *row;
                assert!(all.contains(&Candidate { algorithm, blocks, threads }), "{row:?}");
            }
        }
        let limits = Limits { max_blocks: 1, max_threads: [1; Algorithm::ALL.len()], ..LIMITS };
        let on_cpu = candidates(&limits, CPU_ROWS);
        assert_eq!(on_cpu.len(), Algorithm::ALL.len(), "{on_cpu:?}");
        assert!(on_cpu.iter().all(|c| (c.blocks, c.threads) == (CPU_ROWS[0].blocks, CPU_ROWS[0].threads)));
    }

    #[test]
    fn small_calls_leave_one_plan_of_an_algorithm_and_large_ones_all() {
        let options = Options { inputs: InputMode::ALL.to_vec(), ..Options::default() };
        let plans = |bytes| {
            let request = Request {
                dtype: Dtype::F32,
                op: allfold::ReduceOp::Sum,
                elems: bytes / 4,
                bytes,
                in_place: false,
                aligned: true,
            };
            let all = candidates(&LIMITS, ROWS).into_iter();
            let mut plans: Vec<Plan> = Vec::new();
            for plan in all.filter_map(|c| c.plan(&request, InputMode::Registered, &options, &LIMITS)) {
                if !plans.contains(&plan) {
                    plans.push(plan);
                }
            }
            plans.len()
        };
        assert_eq!(plans(1 << 10), Algorithm::ALL.len());
        assert_eq!(plans(8 << 20), candidates(&LIMITS, ROWS).len());
    }
}
