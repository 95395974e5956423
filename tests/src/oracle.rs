//! What a reduction has to be, computed twice over and without the kernels' code: in rank order in f32 (of f64 in f64) with one rounding, which
//! gives the bits; and of sums in f64, which bounds how far any may be from the exact one. Of integers, what wraps.

use allfold::{Dtype, ReduceOp};

use crate::numbers::{decode, encode, format, integer, mask, power_of_2};

/// [`reduce`] by the sum.
#[inline]
pub fn sum(dtype: Dtype, terms: &[u64]) -> u64 {
    reduce(dtype, ReduceOp::Sum, terms)
}

/// The bits that every rank must end with: the terms of the ranks in order, reduced in f32, or in f64 if they are f64, and rounded once.
///
/// # Panics
/// When there is no rank.
#[inline]
pub fn reduce(dtype: Dtype, op: ReduceOp, terms: &[u64]) -> u64 {
    if format(dtype).is_none() {
        return reduce_integers(dtype, op, terms);
    }
    let values = terms.iter().map(|&term| decode(dtype, term));
    let in_f32 = |value: f64| if dtype == Dtype::F64 { value } else { f64::from(value as f32) };
    // A product or a sum of two f32 that is rounded to f64 and then to f32 is the one rounded to f32 at once.
    let all = values.reduce(|a, b| match op {
        ReduceOp::Sum | ReduceOp::Avg => in_f32(a + b),
        ReduceOp::Product => in_f32(a * b),
        ReduceOp::Min | ReduceOp::Max if a.is_nan() || b.is_nan() => f64::NAN,
        // -0.0 is less than 0.0.
        ReduceOp::Min => {
            if a.total_cmp(&b).is_le() {
                a
            } else {
                b
            }
        }
        ReduceOp::Max => {
            if a.total_cmp(&b).is_ge() {
                a
            } else {
                b
            }
        }
    });
    let all = all.expect("a rank");
    let all = match op {
        ReduceOp::Avg => in_f32(all * in_f32(1.0 / terms.len() as f64)),
        ReduceOp::Sum | ReduceOp::Product | ReduceOp::Min | ReduceOp::Max => all,
    };
    encode(dtype, all)
}

fn reduce_integers(dtype: Dtype, op: ReduceOp, terms: &[u64]) -> u64 {
    let wrapped = |value: i128| integer(dtype, value as u64 & mask(dtype));
    let all = terms.iter().map(|&term| integer(dtype, term)).reduce(|a, b| match op {
        ReduceOp::Sum | ReduceOp::Avg => wrapped(a + b),
        ReduceOp::Product => wrapped(a.wrapping_mul(b)),
        ReduceOp::Min => a.min(b),
        ReduceOp::Max => a.max(b),
    });
    let all = all.expect("a rank");
    let all = if op == ReduceOp::Avg { all / terms.len() as i128 } else { all };
    all as u64 & mask(dtype)
}

/// Whether `got` can be the sum of `terms` in f32, or in f64 if they are f64, at all, in whatever order: an error bound around the f64 sum. True
/// where the bound says nothing, that is where a term or the sum is not finite or near the largest number.
#[inline]
pub fn plausible(dtype: Dtype, terms: &[u64], got: u64) -> bool {
    let Some(format) = format(dtype) else { return got == sum(dtype, terms) };
    let values = terms.iter().map(|&term| decode(dtype, term));
    let (exact, size) = values.fold((0.0, 0.0), |(sum, size), value| (sum + value, size + value.abs()));
    if !size.is_finite() || size > format.largest / 2.0 {
        return true;
    }
    // Each addition rounds a partial sum that is at most `size`; then one rounding to the dtype.
    let bits = if dtype == Dtype::F64 { -52 } else { -24 };
    let additions = (terms.len() - 1) as f64 * size * power_of_2(bits);
    let rounding = (size * format.epsilon + format.smallest) / 2.0;
    // A little room for the f64 sum's own error.
    (decode(dtype, got) - exact).abs() <= (additions + rounding) * 1.001
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(dtype: Dtype, op: ReduceOp, values: &[f64]) -> f64 {
        let terms: Vec<_> = values.iter().map(|&value| encode(dtype, value)).collect();
        let bits = reduce(dtype, op, &terms);
        assert!(op != ReduceOp::Sum || plausible(dtype, &terms, bits), "{values:?}");
        decode(dtype, bits)
    }

    #[test]
    fn sums_are_in_rank_order_in_f32_and_rounded_once() {
        let sum_of = |dtype, values: &[f64]| of(dtype, ReduceOp::Sum, values);
        assert_eq!(sum_of(Dtype::F32, &[1e8, 1.0, -1e8, 1.0]), 1.0);
        assert_eq!(sum_of(Dtype::F32, &[1.0, -1e8, 1.0, 1e8]), 0.0);
        assert_eq!(sum_of(Dtype::F64, &[1e8, 1.0, -1e8, 1.0]), 2.0);
        assert_eq!(sum_of(Dtype::Bf16, &[256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 264.0);
        assert_eq!(sum_of(Dtype::E4m3, &[16.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]), 24.0);
        assert_eq!(sum_of(Dtype::E4m3, &[448.0, 448.0]), 448.0);
        assert_eq!(sum_of(Dtype::Bf16, &[-0.0, -0.0]).to_bits(), (-0.0f64).to_bits());
    }

    #[test]
    fn other_operations_do_what_they_are_called() {
        for dtype in Dtype::ALL {
            assert_eq!(of(dtype, ReduceOp::Product, &[3.0, 2.0, 4.0]), 24.0, "{dtype:?}");
            assert_eq!(of(dtype, ReduceOp::Min, &[3.0, 2.0, 4.0]), 2.0, "{dtype:?}");
            assert_eq!(of(dtype, ReduceOp::Max, &[3.0, 2.0, 4.0]), 4.0, "{dtype:?}");
            assert_eq!(of(dtype, ReduceOp::Avg, &[6.0, 2.0, 4.0, 4.0]), 4.0, "{dtype:?}");
        }
        assert_eq!(of(Dtype::F32, ReduceOp::Min, &[0.0, -0.0]).to_bits(), (-0.0f64).to_bits());
        assert_eq!(of(Dtype::F32, ReduceOp::Max, &[-0.0, 0.0]).to_bits(), 0);
        assert!(of(Dtype::F16, ReduceOp::Max, &[f64::NAN, 1.0]).is_nan());
        assert_eq!(of(Dtype::I8, ReduceOp::Avg, &[-3.0, -4.0]), -3.0);
        assert_eq!(of(Dtype::I8, ReduceOp::Avg, &[127.0, 1.0]), -64.0);
        assert_eq!(of(Dtype::U8, ReduceOp::Avg, &[127.0, 1.0]), 64.0);
        assert_eq!(of(Dtype::U8, ReduceOp::Max, &[255.0, 1.0]), 255.0);
    }

    #[test]
    fn integers_wrap() {
        assert_eq!(sum(Dtype::I32, &[0x7fff_ffff, 1, 5]), 0x8000_0005);
        assert_eq!(sum(Dtype::U32, &[0x8000_0000, 0xffff_ffff]), 0x7fff_ffff);
        assert_eq!(sum(Dtype::I64, &[u64::MAX >> 1, 1]), 1 << 63);
        assert_eq!(reduce(Dtype::U64, ReduceOp::Product, &[u64::MAX; 8]), 1);
        assert_eq!(reduce(Dtype::I8, ReduceOp::Product, &[16, 16]), 0);
    }

    #[test]
    fn a_wrong_sum_is_not_plausible() {
        for dtype in Dtype::ALL {
            let terms = [1.0, 2.0, 4.0].map(|value| encode(dtype, value));
            assert!(plausible(dtype, &terms, encode(dtype, 7.0)));
            assert!(!plausible(dtype, &terms, encode(dtype, 7.0) + 8));
            assert!(!plausible(dtype, &terms, encode(dtype, 4.0)));
            assert!(format(dtype).is_none() || !plausible(dtype, &terms, encode(dtype, f64::NAN)));
        }
    }
}
