//! Statistics of timings, and bandwidths.

/// The median of `samples`: the mean of the two in the middle where their number is even. NaN of none.
pub fn median(samples: &[f64]) -> f64 {
    let sorted = sorted(samples);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        n if n.is_multiple_of(2) => (sorted[middle - 1] + sorted[middle]) / 2.0,
        _ => sorted[middle],
    }
}

/// The smallest sample that at least 99 % of `samples` do not exceed. NaN of none.
pub fn p99(samples: &[f64]) -> f64 {
    let sorted = sorted(samples);
    let rank = (sorted.len() * 99).div_ceil(100);
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(f64::NAN)
}

fn sorted(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// `statistic` of the rank for which it is worst. `samples[rank]` are that rank's.
pub fn slowest_rank(samples: &[Vec<f64>], statistic: fn(&[f64]) -> f64) -> f64 {
    samples.iter().map(|of_rank| statistic(of_rank)).fold(f64::NAN, f64::max)
}

/// Bytes of a call over its time, in GB/s (10^9 bytes).
pub fn algorithm_bandwidth(bytes: u64, micros: f64) -> f64 {
    if bytes == 0 { 0.0 } else { bytes as f64 / (micros * 1e3) }
}

/// What each rank's link must have carried, in GB/s: an all-reduce can do with 2 (N-1)/N of its bytes each way.
pub fn bus_bandwidth(algorithm_bandwidth: f64, world: usize) -> f64 {
    algorithm_bandwidth * 2.0 * (world as f64 - 1.0) / world as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn the_p99_is_a_sample() {
        let hundred: Vec<f64> = (1..=100).map(f64::from).rev().collect();
        assert_eq!(p99(&hundred), 99.0);
        let thousand: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(p99(&thousand), 990.0);
        assert_eq!(p99(&[5.0, 9.0, 1.0]), 9.0);
        assert!(p99(&[]).is_nan());
    }

    #[test]
    fn the_slowest_rank_counts() {
        let samples = [vec![1.0, 1.0, 50.0], vec![2.0, 2.0, 3.0]];
        assert_eq!(slowest_rank(&samples, median), 2.0);
        assert_eq!(slowest_rank(&samples, p99), 50.0);
    }

    #[test]
    fn bandwidths_are_those_of_nccl_tests() {
        assert_eq!(algorithm_bandwidth(1_000_000, 10.0), 100.0);
        assert_eq!(algorithm_bandwidth(0, 0.0), 0.0);
        assert_eq!(bus_bandwidth(100.0, 1), 0.0);
        assert_eq!(bus_bandwidth(100.0, 2), 100.0);
        assert_eq!(bus_bandwidth(100.0, 4), 150.0);
        assert_eq!(bus_bandwidth(100.0, 8), 175.0);
    }
}
