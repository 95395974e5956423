//! Times made into rows: few of them, and limits where the next row becomes the better one.

/// Times that differ by less are taken for the same: then a row goes on to the next size rather than end.
const SAME: f64 = 1.02;
/// Limits are whole packs.
const PACK_BYTES: u64 = 16;

/// A row: a candidate, and the sizes that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Which candidate.
    pub candidate: usize,
    /// The first of its sizes.
    pub first: usize,
    /// The last of its sizes.
    pub last: usize,
    /// Largest call, in bytes.
    pub up_to_bytes: u64,
}

/// The rows for `micros[size][candidate]`; none for a size at which nothing was measured, and none after it.
pub fn pieces(sizes: &[u64], micros: &[Vec<Option<f64>>]) -> Vec<Piece> {
    let ratios: Vec<Vec<Option<f64>>> = micros
        .iter()
        .map(|row| {
            let best = row.iter().flatten().copied().fold(f64::INFINITY, f64::min);
            row.iter().map(|micros| micros.map(|micros| micros / best)).collect()
        })
        .collect();
    let mut pieces: Vec<Piece> = Vec::new();
    let mut first = 0;
    while let Some(row) = ratios.get(first) {
        // Of the candidates that are as good as the best at the most sizes from here on, the best one.
        let run = |candidate: usize| {
            let ratios = ratios[first..].iter().map_while(|row| row[candidate].filter(|&ratio| ratio <= SAME));
            ratios.fold((0, 0.0), |(sizes, sum), ratio| (sizes + 1, sum + ratio))
        };
        let better = |a: &(usize, (usize, f64)), b: &(usize, (usize, f64))| {
            let ((_, (a_sizes, a_sum)), (_, (b_sizes, b_sum))) = (a, b);
            a_sizes.cmp(b_sizes).then(b_sum.total_cmp(a_sum))
        };
        let best = (0..row.len()).map(|candidate| (candidate, run(candidate))).max_by(better);
        let Some((candidate, (count, _))) = best.filter(|&(_, (count, _))| count > 0) else { break };
        pieces.push(Piece { candidate, first, last: first + count - 1, up_to_bytes: u64::MAX });
        first += count;
    }
    for index in 1..pieces.len() {
        let (before, next) = (pieces[index - 1], pieces[index]);
        let (a, b) = (before.last, next.first);
        // Both were measured where they were chosen.
        let of = |candidate: usize| (micros[a][candidate], micros[b][candidate]);
        pieces[index - 1].up_to_bytes = limit((sizes[a], sizes[b]), of(before.candidate), of(next.candidate));
    }
    pieces
}

/// Up to how many bytes the row before is used, between two sizes: its times at both, and those of the row after it.
///
/// Where both rows were measured at both sizes, up to where their times meet, which grow evenly in between. Else up to the
/// geometric mean: wherever they meet, the wrong row is then used over less than half of the way, in factors. But in no case
/// for a call that would take longer than one of the larger size does.
fn limit((small, large): (u64, u64), before: (Option<f64>, Option<f64>), after: (Option<f64>, Option<f64>)) -> u64 {
    let (a, b) = (small as f64, large as f64);
    let way = |share: f64| a + share * (b - a);
    let meet = match (before, after) {
        ((Some(before_a), Some(before_b)), (Some(after_a), Some(after_b))) => {
            // How much longer the row before takes than the row after.
            let (early, late) = (before_a - after_a, before_b - after_b);
            if early >= 0.0 {
                a
            } else if late <= 0.0 {
                b
            } else {
                way(early / (early - late))
            }
        }
        _ => (a * b).sqrt(),
    };
    let no_slower = match (before, after.1) {
        ((Some(before_a), Some(before_b)), Some(after_b)) if before_b > before_a => {
            way((after_b - before_a) / (before_b - before_a))
        }
        // Not measured at the larger size: at the most it grows as the bytes do.
        ((Some(before_a), None), Some(after_b)) => a * after_b / before_a,
        _ => b,
    };
    let bytes = (meet.min(no_slower) as u64).clamp(small, large.saturating_sub(1).max(small));
    (bytes / PACK_BYTES * PACK_BYTES).max(small)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [u64; 5] = [1 << 10, 1 << 11, 1 << 12, 1 << 13, 1 << 14];

    fn rows(micros: [[f64; 3]; 5]) -> Vec<(usize, u64)> {
        // A negative time stands for none.
        let of_size = |row: [f64; 3]| row.iter().map(|&t| Some(t).filter(|&t| t > 0.0)).collect();
        let micros: Vec<Vec<_>> = micros.into_iter().map(of_size).collect();
        let pieces = pieces(&SIZES, &micros);
        let mut next = 0;
        for piece in &pieces {
            assert!(piece.first == next && piece.last >= piece.first, "{pieces:?}");
            next = piece.last + 1;
        }
        assert_eq!(next, SIZES.len());
        pieces.iter().map(|piece| (piece.candidate, piece.up_to_bytes)).collect()
    }

    #[test]
    fn neighbours_that_are_alike_are_one_row() {
        let rows = rows([[2.0, 3.0, 9.0], [2.02, 3.0, 2.0], [2.2, 3.0, 9.0], [4.0, 3.0, 9.0], [8.0, 3.01, 3.0]]);
        // One hundredth more is the same, and the third candidate is the best twice for nothing. Times meet at 2.2 + 1.8 x = 3.
        assert_eq!(rows, [(0, (4096.0 + 4096.0 * 0.8 / 1.8) as u64 / 16 * 16), (1, u64::MAX)]);
    }

    #[test]
    fn what_was_not_measured_on_both_sides_ends_at_the_geometric_mean_or_before() {
        let rows_of = |before_last, after_first| {
            let [x, y] = [before_last, after_first];
            rows([[2.0, 9.0, -1.0], [x, 9.0, -1.0], [-1.0, y, 9.0], [-1.0, y, 9.0], [-1.0, y, 9.0]])
        };
        assert_eq!(rows_of(2.0, 4.0), [(0, 2896), (1, u64::MAX)]);
        // From 2.0 on it may double where the other one takes 2.2: no call may take longer than a larger one.
        assert_eq!(rows_of(2.0, 2.2), [(0, 2240), (1, u64::MAX)]);
        assert_eq!(rows_of(2.3, 2.2), [(0, 2048), (1, u64::MAX)]);
    }

    #[test]
    fn no_size_between_is_slower_than_the_next_larger_row() {
        let time = |(start, slope): (f64, f64), bytes: f64| start + slope * bytes / 1024.0;
        let (mut seed, mut ends) = (1_u64, 0);
        let mut random = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 40) as f64 / (1 << 24) as f64
        };
        for _ in 0..500 {
            let lines: [(f64, f64); 3] = std::array::from_fn(|i| (1.0 + 3.0 * random() * (i + 1) as f64, random()));
            let micros = SIZES.map(|bytes| lines.map(|line| time(line, bytes as f64)));
            let mut from = SIZES[0];
            let rows = rows(micros);
            ends += rows.len() - 1;
            for pair in rows.windows(2) {
                let (a, limit) = pair[0];
                let larger = *SIZES.iter().find(|&&bytes| bytes > limit).expect("the next row has a size");
                for bytes in (from..=limit).step_by(16) {
                    let (here, next) = (time(lines[a], bytes as f64), time(lines[pair[1].0], larger as f64));
                    assert!(here <= next * 1.000_001, "{bytes} bytes: {here} by {a}, {larger} bytes: {next}");
                }
                from = limit + 1;
            }
        }
        assert!(ends > 200, "{ends}");
    }
}
