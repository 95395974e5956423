//! Floating-point numbers: those of a word or less are reduced in f32, word by word; f64 in itself.

use core::array::from_fn;

use super::super::abi::Dtype;
use super::super::machine::{Machine, Pack};
use super::super::push::{Flagged, Marked};
use super::super::reduction::{ReduceOp, Reduction};
use super::{Number, with_each_other};

/// Numbers that a word has one or several of, reduced in f32 and rounded once.
pub trait Words: Number {
    /// The numbers of a word.
    type Wide: Wide;
    /// Widens the elements of a word.
    fn widen<M: Machine>(m: &M, word: u32) -> Self::Wide;
    /// Rounds back to a word.
    fn narrow<M: Machine>(m: &M, wide: Self::Wide) -> u32;
    /// The sum of two words, rounded once; `a` and `b` may change places. It has the bits that [`Words::narrow`] gives for the sum of the
    /// widened words.
    #[inline(always)]
    fn add<M: Machine>(m: &M, a: u32, b: u32) -> u32 {
        Self::narrow(m, Self::widen(m, a).zip(Self::widen(m, b), |a, b| m.add_f32(a, b)))
    }
}

/// Some f32, each for itself.
pub trait Wide: Copy {
    /// `f` of each two.
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self;
}

impl<const N: usize> Wide for [f32; N] {
    #[inline(always)]
    fn zip(self, other: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        from_fn(|i| f(self[i], other[i]))
    }
}

/// A word of each of `packs`.
#[inline(always)]
fn words<const W: usize>(packs: [Pack; W], word: usize) -> [u32; W] {
    packs.map(|pack| pack.0[word])
}

/// The words of all ranks made one by `f`, in rank order.
#[inline(always)]
fn fold<M: Machine, T: Words, const W: usize>(m: &M, words: [u32; W], f: impl Fn(f32, f32) -> f32) -> T::Wide {
    with_each_other::<_, W>(T::widen(m, words[0]), |all, rank| all.zip(T::widen(m, words[rank]), &f))
}

/// The one of what all operations make of two numbers that `by` makes of them.
///
/// All are computed and one is kept, without a branch: kernels of any operation would else be five times as long.
#[inline(always)]
fn keep<T: Copy>(by: Reduction, sum: T, product: T, min: T, max: T) -> T {
    let arithmetic = if by.is(ReduceOp::Product) { product } else { sum };
    let order = if by.is(ReduceOp::Min) { min } else { max };
    if by.is_order() { order } else { arithmetic }
}

/// [`Number::reduce`] for all [`Words`]. Functions and no closures: LLVM would call one that is long.
#[inline(always)]
pub(super) fn reduce<M: Machine, T: Words, const W: usize>(m: &M, by: Reduction, packs: [Pack; W]) -> Pack {
    Pack([
        reduce_words::<M, T, W>(m, by, words(packs, 0)),
        reduce_words::<M, T, W>(m, by, words(packs, 1)),
        reduce_words::<M, T, W>(m, by, words(packs, 2)),
        reduce_words::<M, T, W>(m, by, words(packs, 3)),
    ])
}

#[inline(always)]
fn reduce_words<M: Machine, T: Words, const W: usize>(m: &M, by: Reduction, words: [u32; W]) -> u32 {
    let all =
        fold::<M, T, W>(m, words, |a, b| keep(by, m.add_f32(a, b), m.mul_f32(a, b), m.min_f32(a, b), m.max_f32(a, b)));
    let scale = if by.is(ReduceOp::Avg) { 1.0 / W as f32 } else { 1.0 };
    T::narrow(m, all.zip(all, |all, _| m.mul_f32(all, scale)))
}

/// [`Number::sum`] for all [`Words`].
#[inline(always)]
pub(super) fn sum<M: Machine, T: Words, const W: usize>(m: &M, packs: [Pack; W]) -> Pack {
    let of = |word: usize| match words(packs, word) {
        words if W == 2 => T::add(m, words[0], words[1]),
        words => T::narrow(m, fold::<M, T, W>(m, words, |a, b| m.add_f32(a, b))),
    };
    Pack([of(0), of(1), of(2), of(3)])
}

/// A [`Number`] whose packs travel by `$Wire` and are reduced in f32, with `$first` for the word of one element.
macro_rules! in_f32 {
    ($T:ty, $dtype:ident, $Wire:ty, |$m:ident, $value:ident| $first:expr) => {
        impl Number for $T {
            const DTYPE: Dtype = Dtype::$dtype;
            type Wire = $Wire;
            #[inline(always)]
            fn reduce<M: Machine, const W: usize>(m: &M, by: Reduction, packs: [Pack; W]) -> Pack {
                $crate::protocol::element::float::reduce::<M, $T, W>(m, by, packs)
            }
            #[inline(always)]
            fn sum<M: Machine, const W: usize>(m: &M, packs: [Pack; W]) -> Pack {
                $crate::protocol::element::float::sum::<M, $T, W>(m, packs)
            }
            #[inline(always)]
            fn from_f32<M: Machine>($m: &M, $value: f32) -> Pack {
                Pack([$first, 0, 0, 0])
            }
        }
    };
}
pub(super) use in_f32;

in_f32!(f32, F32, Marked, |_m, value| value.to_bits());
in_f32!(half::f16, F16, Marked, |m, value| m.f16x2_from_f32([value, 0.0]));
in_f32!(half::bf16, Bf16, Marked, |m, value| m.bf16x2_from_f32([value, 0.0]));

impl Words for f32 {
    type Wide = [f32; 1];
    #[inline(always)]
    fn widen<M: Machine>(_: &M, word: u32) -> [f32; 1] {
        [f32::from_bits(word)]
    }
    #[inline(always)]
    fn narrow<M: Machine>(_: &M, [wide]: [f32; 1]) -> u32 {
        wide.to_bits()
    }
}

/// Sums of two are taken at once: a sum of two numbers of `p` bits that is rounded to `2p + 2` bits or more, and then to `p`, is the same as
/// rounded to `p` at once (S. A. Figueroa, "When is double rounding innocuous?", 1995). f32 has 24; bf16 has 8, and f16 has 11.
impl Words for half::f16 {
    type Wide = [f32; 2];
    #[inline(always)]
    fn widen<M: Machine>(m: &M, word: u32) -> [f32; 2] {
        m.f32_from_f16x2(word)
    }
    #[inline(always)]
    fn narrow<M: Machine>(m: &M, wide: [f32; 2]) -> u32 {
        m.f16x2_from_f32(wide)
    }
    #[inline(always)]
    fn add<M: Machine>(m: &M, a: u32, b: u32) -> u32 {
        m.add_f16x2(a, b)
    }
}

impl Words for half::bf16 {
    type Wide = [f32; 2];
    #[inline(always)]
    fn widen<M: Machine>(_: &M, word: u32) -> [f32; 2] {
        super::portable::f32_from_bf16x2(word)
    }
    #[inline(always)]
    fn narrow<M: Machine>(m: &M, wide: [f32; 2]) -> u32 {
        m.bf16x2_from_f32(wide)
    }
    #[inline(always)]
    fn add<M: Machine>(m: &M, a: u32, b: u32) -> u32 {
        m.add_bf16x2(a, b)
    }
}

/// The NaN that every NaN becomes: machines differ in theirs.
const NAN64: f64 = f64::from_bits(u64::MAX >> 1);

/// The one that `first` picks of two; NaN if one is; of two that are equal the one of the bits `equal`.
#[inline(always)]
fn pick(a: f64, b: f64, first: bool, equal: u64) -> f64 {
    let picked = if first { a } else { b };
    let picked = if a == b { f64::from_bits(equal) } else { picked };
    if a.is_nan() || b.is_nan() { NAN64 } else { picked }
}

impl Number for f64 {
    const DTYPE: Dtype = Dtype::F64;
    type Wire = Flagged;
    #[inline(always)]
    fn reduce<M: Machine, const W: usize>(_: &M, by: Reduction, packs: [Pack; W]) -> Pack {
        let scale = if by.is(ReduceOp::Avg) { 1.0 / W as f64 } else { 1.0 };
        let of = |index: usize| {
            let term = |rank: usize| f64::from_bits(packs[rank].double(index));
            let all = with_each_other::<_, W>(term(0), |all, rank| {
                let term = term(rank);
                // Of zeros, -0.0 is the less.
                let (both, either) = (all.to_bits() & term.to_bits(), all.to_bits() | term.to_bits());
                let (min, max) = (pick(all, term, all < term, either), pick(all, term, all > term, both));
                keep(by, all + term, all * term, min, max)
            });
            let all = all * scale;
            if all.is_nan() { NAN64.to_bits() } else { all.to_bits() }
        };
        Pack::of_doubles([of(0), of(1)])
    }
    #[inline(always)]
    fn from_f32<M: Machine>(_: &M, value: f32) -> Pack {
        Pack::of_doubles([(value as f64).to_bits(), 0])
    }
}
