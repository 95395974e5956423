//! Random input, and what its sum may be: an f64 oracle with a bound, and the same bits on every rank.

use std::ops::Range;

use allfold::{Dtype, Element};
use half::{bf16, f16};

use crate::mix::mix;

/// What the oracle needs to know of an element type.
pub trait Real: Element {
    /// Bits of the significand, the hidden one counted.
    const SIGNIFICANT_BITS: i32;
    /// Exponent of the smallest normal number.
    const LEAST_EXPONENT: i32;
    /// Rounded, a floating-point number to nearest.
    fn from_f32(value: f32) -> Self;
    /// The number that 24 random bits, from -2^23 on, stand for.
    fn from_random(bits: i32) -> Self;
    /// Exact.
    fn to_f64(self) -> f64;
    /// For comparing bit by bit.
    fn bits(self) -> u32;
}

macro_rules! real {
    ($T:ty, $significant_bits:literal, $least_exponent:literal, $from:expr) => {
        impl Real for $T {
            const SIGNIFICANT_BITS: i32 = $significant_bits;
            const LEAST_EXPONENT: i32 = $least_exponent;
            fn from_f32(value: f32) -> Self {
                $from(value)
            }
            /// From -1 to 1, exact in f32.
            fn from_random(bits: i32) -> Self {
                Self::from_f32(bits as f32 / (1 << 23) as f32)
            }
            fn to_f64(self) -> f64 {
                f64::from(self)
            }
            fn bits(self) -> u32 {
                self.to_bits().into()
            }
        }
    };
}
real!(f32, 24, -126, std::convert::identity);
real!(f16, 11, -14, f16::from_f32);
real!(bf16, 8, -126, bf16::from_f32);

impl Real for i32 {
    const SIGNIFICANT_BITS: i32 = 32;
    const LEAST_EXPONENT: i32 = 0;
    fn from_f32(value: f32) -> Self {
        value as i32
    }
    /// As they are: eight of them do not overflow.
    fn from_random(bits: i32) -> Self {
        bits
    }
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn bits(self) -> u32 {
        self.cast_unsigned()
    }
}

/// Fills `data` with [`Real::from_random`].
pub fn randomise<T: Real>(data: &mut [T], seed: u64) {
    let piece = piece_elems(data.len());
    let fill = |first: usize, values: &mut [T]| {
        for (elem, value) in (first as u64..).zip(values) {
            let bits = (mix(seed, elem) >> 40) as i32;
            *value = T::from_random(bits - (1 << 23));
        }
    };
    if data.len() <= piece {
        return fill(0, data);
    }
    std::thread::scope(|scope| {
        for (at, values) in data.chunks_mut(piece).enumerate() {
            scope.spawn(move || fill(at * piece, values));
        }
    });
}

/// What a library says of its sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// Taken in f32 and rounded once, with the same bits on every rank.
    RoundedOnce,
    /// Taken in any order, on each rank in its own, and rounded at every step.
    AnyOrder,
}

impl Sums {
    /// Whether all ranks have the same bits.
    pub fn agree(self) -> bool {
        self == Sums::RoundedOnce
    }
}

/// How far from `sum`, the exact sum of `world` terms whose absolute values add up to `sum_abs`, a result may be.
///
/// `world` roundings to f32 of partial sums, none larger than `sum_abs`; then, in a 16-bit type, one more to that type. Where
/// each partial sum is rounded to that type: `world` of these, of sums that the roundings before have enlarged.
pub fn bound<T: Real>(sum: f64, sum_abs: f64, world: usize, sums: Sums) -> f64 {
    let in_f32 = world as f64 * sum_abs * 2f64.powi(-<f32 as Real>::SIGNIFICANT_BITS);
    let in_16_bits = || match sums {
        Sums::RoundedOnce => half_ulp::<T>(sum.abs() + in_f32),
        Sums::AnyOrder => {
            let enlarged = (1.0 + 2f64.powi(-T::SIGNIFICANT_BITS)).powi(world as i32);
            world as f64 * half_ulp::<T>(sum_abs * enlarged + in_f32)
        }
    };
    match T::DTYPE {
        Dtype::F32 => in_f32,
        Dtype::I32 => 0.0,
        Dtype::F16 | Dtype::Bf16 => in_f32 + in_16_bits(),
    }
}

/// Half the distance of two neighbours in `T` at the magnitude of `x`, which is not negative.
fn half_ulp<T: Real>(x: f64) -> f64 {
    // The largest power of two that x is not below.
    let power = f64::from_bits(x.to_bits() & 0x7ff0_0000_0000_0000);
    power.max(2f64.powi(T::LEAST_EXPONENT)) * 2f64.powi(-T::SIGNIFICANT_BITS)
}

/// Elements of `got` that are too far from the sum of `inputs`, or differ in a bit from `first`, rank 0's result, where none
/// may.
pub fn wrong_elems<T: Real>(inputs: &[&[T]], got: &[T], first: &[T], sums: Sums) -> u64 {
    count_in_pieces(got.len(), |elems| {
        let wrong = elems.filter(|&elem| {
            let terms = || inputs.iter().map(|input| input[elem].to_f64());
            let (sum, sum_abs) = (terms().sum::<f64>(), terms().map(f64::abs).sum());
            let near = (got[elem].to_f64() - sum).abs() <= bound::<T>(sum, sum_abs, inputs.len(), sums);
            // A NaN is near nothing.
            !near || (sums.agree() && got[elem].bits() != first[elem].bits())
        });
        wrong.count() as u64
    })
}

/// Elements of `a` that differ in a bit from those of `b`.
pub fn differing_elems<T: Real>(a: &[T], b: &[T]) -> u64 {
    count_in_pieces(a.len(), |elems| elems.filter(|&elem| a[elem].bits() != b[elem].bits()).count() as u64)
}

/// Threads are worth it from here.
const PIECE_ELEMS: usize = 1 << 16;

/// Elements of one of the equal pieces that `elems` are cut into, one for each thread.
fn piece_elems(elems: usize) -> usize {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    elems.div_ceil(threads).max(PIECE_ELEMS)
}

/// The sum of `count` over ranges that make up `0..elems`, each on a thread.
fn count_in_pieces(elems: usize, count: impl Fn(Range<usize>) -> u64 + Sync) -> u64 {
    let piece = piece_elems(elems);
    if elems <= piece {
        return count(0..elems);
    }
    std::thread::scope(|scope| {
        let count = &count;
        let starts = (0..elems).step_by(piece);
        let threads: Vec<_> = starts.map(|start| scope.spawn(move || count(start..elems.min(start + piece)))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
    })
}

#[cfg(test)]
#[path = "oracle_tests.rs"]
mod tests;
