//! Random input, and what its sum may be: an f64 oracle with a bound, and the same bits on every rank.

use std::ops::Range;

use allfold::{Dtype, E4m3, E5m2, Element, ReduceOp, bf16, f16};

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
    /// Exact, or of a large integer the nearest.
    fn to_f64(self) -> f64;
    /// For comparing bit by bit.
    fn bits(self) -> u64;
    /// What `op` makes of the terms of `world` ranks; `None`: there is a bound, and no one right answer.
    fn exactly(op: ReduceOp, world: usize, terms: impl Iterator<Item = Self>) -> Option<Self>;
}

macro_rules! real {
    ($T:ty, $significant_bits:literal, $least_exponent:literal, |$value:ident| $from:expr, |$number:ident| $to:expr, |$own:ident| $bits:expr) => {
        impl Real for $T {
            const SIGNIFICANT_BITS: i32 = $significant_bits;
            const LEAST_EXPONENT: i32 = $least_exponent;
            fn from_f32($value: f32) -> Self {
                $from
            }
            /// From -1 to 1, exact in f32.
            fn from_random(bits: i32) -> Self {
                Self::from_f32(bits as f32 / (1 << 23) as f32)
            }
            fn to_f64(self) -> f64 {
                let $number = self;
                $to
            }
            fn bits(self) -> u64 {
                let $own = self;
                $bits.into()
            }
            fn exactly(op: ReduceOp, _: usize, terms: impl Iterator<Item = Self>) -> Option<Self> {
                match op {
                    ReduceOp::Min => terms.min_by(|a, b| a.to_f64().total_cmp(&b.to_f64())),
                    ReduceOp::Max => terms.max_by(|a, b| a.to_f64().total_cmp(&b.to_f64())),
                    ReduceOp::Sum | ReduceOp::Product | ReduceOp::Avg => None,
                }
            }
        }
    };
}
real!(f32, 24, -126, |value| value, |it| it.into(), |it| it.to_bits());
real!(f16, 11, -14, |value| f16::from_f32(value), |it| it.into(), |it| it.to_bits());
real!(bf16, 8, -126, |value| bf16::from_f32(value), |it| it.into(), |it| it.to_bits());
real!(f64, 53, -1022, |value| value.into(), |it| it, |it| it.to_bits());
real!(E4m3, 4, -6, |value| E4m3::from_f32(value), |it| it.to_f32().into(), |it| it.0);
real!(E5m2, 3, -14, |value| E5m2::from_f32(value), |it| it.to_f32().into(), |it| it.0);

macro_rules! integer {
    ($T:ty, $Bits:ty, |$random:ident| $from_random:expr) => {
        impl Real for $T {
            const SIGNIFICANT_BITS: i32 = <$T>::BITS as i32;
            const LEAST_EXPONENT: i32 = 0;
            fn from_f32(value: f32) -> Self {
                value as $T
            }
            /// Eight of them do not overflow.
            fn from_random($random: i32) -> Self {
                $from_random
            }
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn bits(self) -> u64 {
                (self as $Bits).into()
            }
            fn exactly(op: ReduceOp, world: usize, terms: impl Iterator<Item = Self>) -> Option<Self> {
                match op {
                    ReduceOp::Sum => terms.reduce(Self::wrapping_add),
                    ReduceOp::Product => terms.reduce(Self::wrapping_mul),
                    ReduceOp::Min => terms.min(),
                    ReduceOp::Max => terms.max(),
                    ReduceOp::Avg => terms.reduce(Self::wrapping_add).map(|sum| sum / world as $T),
                }
            }
        }
    };
}
integer!(i8, u8, |bits| (bits >> 20) as i8);
integer!(u8, u8, |bits| ((bits + (1 << 23)) >> 20) as u8);
integer!(i32, u32, |bits| bits);
integer!(u32, u32, |bits| (bits + (1 << 23)) as u32);
integer!(i64, u64, |bits| bits.into());
integer!(u64, u64, |bits| (bits + (1 << 23)) as u64);

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

/// How far from `exact` a result may be, which `op` makes of `world` terms; `size`: of a sum that of their absolute values, of a product its own.
///
/// `world` roundings to f32, or to f64 where `T` is, of partial results, none larger than `size`, and one more of an average; then, in a narrower
/// type, one more to that type. Where each partial result is rounded to that type: `world` of these, or twice as many of an average, whose terms
/// may each be divided, of results that the roundings before have enlarged.
pub fn bound<T: Real>(op: ReduceOp, exact: f64, size: f64, world: usize, sums: Sums) -> f64 {
    let bits = T::SIGNIFICANT_BITS.max(<f32 as Real>::SIGNIFICANT_BITS);
    let steps = world + usize::from(op == ReduceOp::Avg);
    // Where a product is subnormal, its distance from the next one counts.
    let least = if op == ReduceOp::Product { 2f64.powi(-149) } else { 0.0 };
    let wide = steps as f64 * (size * 2f64.powi(-bits)).max(least);
    let narrow = || match sums {
        Sums::RoundedOnce => half_ulp::<T>(exact.abs() + wide),
        Sums::AnyOrder => {
            let enlarged = (1.0 + 2f64.powi(-T::SIGNIFICANT_BITS)).powi(world as i32);
            let times = if op == ReduceOp::Avg { 2 * world } else { world };
            times as f64 * half_ulp::<T>(size * enlarged + wide)
        }
    };
    match T::DTYPE {
        Dtype::F32 | Dtype::F64 => wide,
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64 => 0.0,
        Dtype::F16 | Dtype::Bf16 | Dtype::E4m3 | Dtype::E5m2 => wide + narrow(),
    }
}

/// What `op` makes of `terms`, as far as f64 can tell, and the size that [`bound`] wants.
fn in_f64(op: ReduceOp, world: usize, terms: impl Iterator<Item = f64>) -> (f64, f64) {
    match op {
        ReduceOp::Product => {
            let product = terms.product::<f64>();
            (product, product.abs())
        }
        ReduceOp::Sum | ReduceOp::Avg | ReduceOp::Min | ReduceOp::Max => {
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            let parts = if op == ReduceOp::Avg { world as f64 } else { 1.0 };
            (sum / parts, size / parts)
        }
    }
}

/// Half the distance of two neighbours in `T` at the magnitude of `x`, which is not negative.
fn half_ulp<T: Real>(x: f64) -> f64 {
    // The largest power of two that x is not below.
    let power = f64::from_bits(x.to_bits() & 0x7ff0_0000_0000_0000);
    power.max(2f64.powi(T::LEAST_EXPONENT)) * 2f64.powi(-T::SIGNIFICANT_BITS)
}

/// Elements of `got` that are too far from what `op` makes of `inputs`, or differ in a bit from `first`, rank 0's result, where none
/// may.
pub fn wrong_elems<T: Real>(op: ReduceOp, inputs: &[&[T]], got: &[T], first: &[T], sums: Sums) -> u64 {
    let world = inputs.len();
    count_in_pieces(got.len(), |elems| {
        let wrong = elems.filter(|&elem| {
            let terms = || inputs.iter().map(|input| input[elem]);
            let near = match T::exactly(op, world, terms()) {
                Some(right) => got[elem].bits() == right.bits(),
                None => {
                    let (exact, size) = in_f64(op, world, terms().map(T::to_f64));
                    (got[elem].to_f64() - exact).abs() <= bound::<T>(op, exact, size, world, sums)
                }
            };
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
