//! Integers of 8, 32 and 64 bits. A signed type stands for the unsigned one of its size as well: a [`Reduction`] says which it is.

use core::array::from_fn;

use super::super::abi::Dtype;
use super::super::machine::{Machine, Pack};
use super::super::push::Flagged;
use super::super::reduction::{ReduceOp, Reduction};
use super::{Number, with_each_other};

/// Bits of an integer, as they are reduced; those of a narrow one are extended by its sign or by zeros.
trait Bits: Copy {
    /// What `by` makes of two, but for the division of an average.
    fn combine(self, other: Self, by: Reduction) -> Self;
    /// A `parts`-th, rounded towards 0.
    fn divided(self, parts: u32, unsigned: bool) -> Self;
}

macro_rules! bits {
    ($U:ty, $I:ty) => {
        impl Bits for $U {
            // All is computed and one is kept, as in `float`.
            #[inline(always)]
            fn combine(self, other: Self, by: Reduction) -> Self {
                // So that the order of integers with a sign is that of those without.
                let flip = if by.is_unsigned() { 0 } else { <$I>::MIN as $U };
                let (a, b) = (self ^ flip, other ^ flip);
                let ordered = if by.is(ReduceOp::Min) == (a < b) { self } else { other };
                let arithmetic =
                    if by.is(ReduceOp::Product) { self.wrapping_mul(other) } else { self.wrapping_add(other) };
                if by.is_order() { ordered } else { arithmetic }
            }
            #[inline(always)]
            fn divided(self, parts: u32, unsigned: bool) -> Self {
                let (with, without) = ((self as $I / parts as $I) as $U, self / parts as $U);
                if unsigned { without } else { with }
            }
        }
    };
}

bits!(u32, i32);
bits!(u64, i64);

/// What `by` makes of `term` of each rank.
#[inline(always)]
fn fold<B: Bits, const W: usize>(by: Reduction, term: impl Fn(usize) -> B) -> B {
    with_each_other::<_, W>(term(0), |all, rank| all.combine(term(rank), by))
}

/// `all`, or a `W`-th of it, if `by` is an average.
#[inline(always)]
fn mean<B: Bits, const W: usize>(by: Reduction, all: B) -> B {
    let mean = all.divided(W as u32, by.is_unsigned());
    if by.is(ReduceOp::Avg) { mean } else { all }
}

impl Number for i32 {
    const DTYPE: Dtype = Dtype::I32;
    type Wire = Flagged;
    #[inline(always)]
    fn reduce<M: Machine, const W: usize>(_: &M, by: Reduction, packs: [Pack; W]) -> Pack {
        let of = |word: usize| mean::<u32, W>(by, fold::<u32, W>(by, |rank| packs[rank].0[word]));
        Pack([of(0), of(1), of(2), of(3)])
    }
    #[inline(always)]
    fn sum<M: Machine, const W: usize>(_: &M, packs: [Pack; W]) -> Pack {
        Pack(from_fn(|word| {
            let mut sum = packs[0].0[word];
            for pack in packs.iter().skip(1) {
                sum = sum.wrapping_add(pack.0[word]);
            }
            sum
        }))
    }
    #[inline(always)]
    fn from_f32<M: Machine>(_: &M, value: f32) -> Pack {
        Pack([value as i32 as u32, 0, 0, 0])
    }
}

impl Number for i64 {
    const DTYPE: Dtype = Dtype::I64;
    type Wire = Flagged;
    #[inline(always)]
    fn reduce<M: Machine, const W: usize>(_: &M, by: Reduction, packs: [Pack; W]) -> Pack {
        let of = |index: usize| mean::<u64, W>(by, fold::<u64, W>(by, |rank| packs[rank].double(index)));
        Pack::of_doubles([of(0), of(1)])
    }
    #[inline(always)]
    fn from_f32<M: Machine>(_: &M, value: f32) -> Pack {
        Pack::of_doubles([value as i64 as u64, 0])
    }
}

/// Byte `index` of `word`, extended.
#[inline(always)]
fn byte(word: u32, index: usize, unsigned: bool) -> u32 {
    let high = word << (24 - 8 * index);
    let (with, without) = ((high as i32 >> 24) as u32, high >> 24);
    if unsigned { without } else { with }
}

impl Number for i8 {
    const DTYPE: Dtype = Dtype::I8;
    type Wire = Flagged;
    #[inline(always)]
    fn reduce<M: Machine, const W: usize>(_: &M, by: Reduction, packs: [Pack; W]) -> Pack {
        let unsigned = by.is_unsigned();
        let of = |word: usize, index: usize| {
            let all = fold::<u32, W>(by, |rank| byte(packs[rank].0[word], index, unsigned));
            // Wrapped before it is divided.
            mean::<u32, W>(by, byte(all, 0, unsigned)) & 0xff
        };
        let four = |word| of(word, 0) | of(word, 1) << 8 | of(word, 2) << 16 | of(word, 3) << 24;
        Pack([four(0), four(1), four(2), four(3)])
    }
    #[inline(always)]
    fn from_f32<M: Machine>(_: &M, value: f32) -> Pack {
        Pack([value as i32 as u32 & 0xff, 0, 0, 0])
    }
}
