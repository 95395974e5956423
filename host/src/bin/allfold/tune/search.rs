//! Which candidates are measured at which size: those that may be the fastest there, the likeliest first.

use allfold::Plan;
use anyhow::Result;

use super::candidates::Candidate;

/// A candidate is left out where it took this many times the best at the last two sizes at which it was measured, and
/// nothing says that it has caught up.
const BEHIND: f64 = 1.3;
/// Nothing says so while it would take this many times the best if its time went on growing as it did.
const STILL_BEHIND: f64 = 1.1;
/// After so many sizes it is measured again in any case, unless it took longer for a smaller call than the best takes now.
const FRESH: usize = 2;

/// Where there is time, those within this many times the best are measured once more, so that a disturbance decides nothing.
const CLOSE: f64 = 1.1;

/// What can be measured.
pub trait Subject {
    /// A new size begins.
    fn begin(&mut self, bytes: u64);
    /// How a candidate would do a call, or the built-in rows; none where it cannot be done so.
    fn plan(&self, bytes: u64, candidate: Option<&Candidate>) -> Option<Plan>;
    /// Verifies and times calls, in microseconds.
    ///
    /// # Errors
    /// Where a call failed, or its result was wrong.
    fn time(&mut self, bytes: u64, plan: &Plan) -> Result<f64>;
    /// Whether the time for this size is over.
    fn late(&self) -> bool;
}

/// What was measured.
#[derive(Debug, Default)]
pub struct Times {
    /// `[size][candidate]`, microseconds; none where it was left out or is not possible.
    pub micros: Vec<Vec<Option<f64>>>,
    /// `[size]`: what the built-in rows choose, and its microseconds.
    pub built_in: Vec<Option<(Plan, f64)>>,
}

/// Measures at each of `sizes`, which rise.
///
/// # Errors
/// Those of [`Subject::time`].
pub fn search(sizes: &[u64], candidates: &[Candidate], subject: &mut impl Subject) -> Result<Times> {
    let mut times = Times::default();
    let mut pasts: Vec<Past> = candidates.iter().map(|_| Past::default()).collect();
    for (at, &bytes) in sizes.iter().enumerate() {
        subject.begin(bytes);
        // Small calls leave several candidates with one plan.
        let mut known: Vec<(Plan, f64)> = Vec::new();
        let mut best = f64::INFINITY;
        let built_in = subject.plan(bytes, None);
        if let Some(plan) = built_in {
            best = subject.time(bytes, &plan)?;
            known.push((plan, best));
        }
        let plans: Vec<_> = candidates.iter().map(|candidate| subject.plan(bytes, Some(candidate))).collect();
        let mut order: Vec<usize> = (0..candidates.len()).collect();
        order.sort_by(|&a, &b| pasts[a].expected(bytes).total_cmp(&pasts[b].expected(bytes)));
        let mut any = false;
        for candidate in order {
            let Some(plan) = plans[candidate] else { continue };
            if known.iter().any(|(other, _)| *other == plan) {
                any = true;
                continue;
            }
            if any && (subject.late() || pasts[candidate].rules_out(at, bytes, best)) {
                continue;
            }
            let micros = subject.time(bytes, &plan)?;
            known.push((plan, micros));
            best = best.min(micros);
            any = true;
        }
        for (plan, micros) in &mut known {
            if *micros <= CLOSE * best && !subject.late() {
                *micros = micros.min(subject.time(bytes, plan)?);
                best = best.min(*micros);
            }
        }
        times.built_in.push(built_in.zip(known.first().map(|&(_, micros)| micros)));
        let of_plan = |plan: &Plan| known.iter().find(|(other, _)| other == plan).map(|&(_, micros)| micros);
        let row: Vec<_> = plans.iter().map(|plan| plan.as_ref().and_then(of_plan)).collect();
        for (past, micros) in pasts.iter_mut().zip(&row) {
            past.last.extend(micros.map(|micros| Seen { at, bytes, micros, behind: micros > BEHIND * best }));
        }
        times.micros.push(row);
    }
    Ok(times)
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    at: usize,
    bytes: u64,
    micros: f64,
    behind: bool,
}

/// What is known of a candidate from smaller sizes.
#[derive(Debug, Default)]
struct Past {
    last: Vec<Seen>,
}

impl Past {
    /// Its time if that went on growing as it did; what was never measured comes first.
    fn expected(&self, bytes: u64) -> f64 {
        match self.last[..] {
            [.., a, b] => {
                let growth = ((b.micros - a.micros) / (b.bytes - a.bytes) as f64).max(0.0);
                b.micros + growth * (bytes - b.bytes) as f64
            }
            [only] => only.micros,
            [] => 0.0,
        }
    }

    /// Whether it need not be measured at this size, where `best` is the best so far.
    fn rules_out(&self, at: usize, bytes: u64, best: f64) -> bool {
        match self.last[..] {
            [.., a, b] if a.behind && b.behind => {
                // No call is faster than a smaller one.
                b.micros > best || at - b.at <= FRESH && self.expected(bytes) > STILL_BEHIND * best
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use allfold::{Algorithm, InputMode, Preset};

    use super::*;

    const THREADS: [u32; 4] = [128, 256, 512, 1024];

    /// Calls that take a start-up and a time a byte, both by algorithm and threads, more or less.
    struct Synthetic {
        noise: u64,
        measured: usize,
        most: usize,
    }

    fn plan(algorithm: Algorithm, threads: u32) -> Plan {
        let protocol = Preset::Allfold.protocol(algorithm, InputMode::Registered).expect("a form");
        Plan { algorithm, input: InputMode::Registered, protocol, blocks: 132, threads }
    }

    fn exact(plan: &Plan, bytes: u64) -> f64 {
        let (start, bytes_a_micro) = match plan.algorithm {
            Algorithm::OneShotPush => (2.4, 335e3),
            Algorithm::TwoShotPush => (3.6, 340e3),
            Algorithm::OneShot => (4.8, 330e3),
            Algorithm::TwoShot => (6.5, 320e3),
            Algorithm::OnePass => (7.0, 350e3),
            Algorithm::Exchange => (7.2, 380e3),
        };
        // Few threads start sooner, and many have more loads under way.
        let threads = f64::from(plan.threads);
        start + threads / 1e3 + bytes as f64 / bytes_a_micro * (1.0 + 40.0 / threads)
    }

    impl Subject for Synthetic {
        fn begin(&mut self, _: u64) {}
        fn plan(&self, _: u64, candidate: Option<&Candidate>) -> Option<Plan> {
            Some(candidate.map_or(plan(Algorithm::OneShotPush, 512), |c| plan(c.algorithm, c.threads)))
        }
        fn time(&mut self, bytes: u64, plan: &Plan) -> Result<f64> {
            self.measured += 1;
            self.noise = self.noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            Ok(exact(plan, bytes) * (1.0 + (self.noise >> 40) as f64 / (1 << 24) as f64 * 0.02))
        }
        fn late(&self) -> bool {
            self.measured >= self.most
        }
    }

    fn all() -> Vec<Candidate> {
        let of = |algorithm| THREADS.map(|threads| Candidate { algorithm, blocks: 132, threads });
        Algorithm::ALL.into_iter().flat_map(of).collect()
    }

    #[test]
    fn a_third_is_left_out_and_the_best_never_is() {
        let sizes: Vec<u64> = (10..=26).map(|power| 1 << power).collect();
        for seed in 0..20 {
            let mut subject = Synthetic { noise: seed, measured: 0, most: usize::MAX };
            let times = search(&sizes, &all(), &mut subject).expect("runs");
            let measured: usize = times.micros.iter().map(|row| row.iter().flatten().count()).sum();
            assert!(measured < sizes.len() * all().len() * 2 / 3, "{measured} measured");
            for (&bytes, row) in sizes.iter().zip(&times.micros) {
                let best = THREADS.iter().flat_map(|&t| Algorithm::ALL.map(|a| exact(&plan(a, t), bytes)));
                let best = best.fold(f64::INFINITY, f64::min);
                let chosen = row.iter().flatten().copied().fold(f64::INFINITY, f64::min);
                assert!(chosen <= best * 1.021, "{bytes} bytes: {chosen} where {best} is possible");
            }
        }
    }

    #[test]
    fn where_time_is_over_every_size_has_one_still() {
        let sizes = [1 << 10, 1 << 20, 1 << 25];
        let times = search(&sizes, &all(), &mut Synthetic { noise: 1, measured: 0, most: 0 }).expect("runs");
        for (row, built_in) in times.micros.iter().zip(&times.built_in) {
            assert!(row.iter().any(Option::is_some) && built_in.is_some());
        }
    }
}
