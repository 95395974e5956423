//! What a sum has to be, computed twice over and without the kernels' code: in rank order in f32 with one rounding, which
//! gives the bits; and in f64, which bounds how far any sum may be from the exact one. Of integers, the sum that wraps.

use allfold::Dtype;

use crate::numbers::{decode, encode, format, power_of_2};

/// The bits that every rank must end with: ranks added in order in f32, rounded once.
///
/// # Panics
/// When there is no rank.
#[inline]
pub fn sum(dtype: Dtype, terms: &[u32]) -> u32 {
    let Some(_) = format(dtype) else {
        let sum: i64 = terms.iter().map(|&term| i64::from(term.cast_signed())).sum();
        return sum as u32;
    };
    let mut sum = decode(dtype, terms[0]);
    for &term in &terms[1..] {
        sum += decode(dtype, term);
    }
    encode(dtype, sum)
}

/// Whether `got` can be the f32 sum of `terms` at all, in whatever order: an error bound around the f64 sum. True where
/// the bound says nothing, that is where a term or the sum is not finite or near the largest number.
#[inline]
pub fn plausible(dtype: Dtype, terms: &[u32], got: u32) -> bool {
    let Some(format) = format(dtype) else { return got == sum(dtype, terms) };
    let values = terms.iter().map(|&term| f64::from(decode(dtype, term)));
    let (exact, size) = values.fold((0.0, 0.0), |(sum, size), value| (sum + value, size + value.abs()));
    if !size.is_finite() || size > format.largest / 2.0 {
        return true;
    }
    // Each addition in f32 rounds a partial sum that is at most `size`; then one rounding to the dtype.
    let additions = (terms.len() - 1) as f64 * size * power_of_2(-24);
    let rounding = (size * format.epsilon + format.smallest) / 2.0;
    // A little room for the f64 sum's own error.
    (f64::from(decode(dtype, got)) - exact).abs() <= (additions + rounding) * 1.001
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum_of(dtype: Dtype, values: &[f32]) -> f32 {
        let terms: Vec<_> = values.iter().map(|&value| encode(dtype, value)).collect();
        let sum = sum(dtype, &terms);
        assert!(plausible(dtype, &terms, sum), "{values:?}");
        decode(dtype, sum)
    }

    #[test]
    fn sums_are_in_rank_order_in_f32_and_rounded_once() {
        assert_eq!(sum_of(Dtype::F32, &[1e8, 1.0, -1e8, 1.0]), 1.0);
        assert_eq!(sum_of(Dtype::F32, &[1.0, -1e8, 1.0, 1e8]), 0.0);
        assert_eq!(sum_of(Dtype::Bf16, &[256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 264.0);
        assert_eq!(sum_of(Dtype::Bf16, &[-0.0, -0.0]).to_bits(), (-0.0f32).to_bits());
    }

    #[test]
    fn integer_sums_wrap() {
        assert_eq!(sum(Dtype::I32, &[0x7fff_ffff, 1, 5]), 0x8000_0005);
        assert_eq!(sum(Dtype::I32, &[0x8000_0000, u32::MAX]), 0x7fff_ffff);
    }

    #[test]
    fn a_wrong_sum_is_not_plausible() {
        for dtype in Dtype::ALL {
            let terms = [1.0, 2.0, 4.0].map(|value| encode(dtype, value));
            assert!(plausible(dtype, &terms, encode(dtype, 7.0)));
            assert!(!plausible(dtype, &terms, encode(dtype, 7.0) + 8));
            assert!(!plausible(dtype, &terms, encode(dtype, 6.0)));
            assert!(format(dtype).is_none() || !plausible(dtype, &terms, encode(dtype, f32::NAN)));
        }
    }
}
