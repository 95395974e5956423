//! What a pack of each dtype is made of, and how packs of all ranks become one.
//!
//! Terms are taken in rank order, 0, 1, … N-1 (of two ranks in any, which is the same), whatever the algorithm, the size or the rank that
//! does it, so that every rank gets the same bits and so does every run. A reduction starts from rank 0's value and not from a neutral one:
//! a sum of -0.0 stays -0.0. Floating-point types narrower than f32 are reduced in f32, with one rounding at the end.
//!
//! A [`Number`] knows every operation; an [`Element`] is a number with what is done to it: by [`Sum`] it is known before the kernel
//! begins, by [`Any`] the call says it.

use core::marker::PhantomData;

use super::abi::Dtype;
use super::machine::{Machine, Pack};
use super::push::Wire;
use super::reduction::Reduction;

mod eight;
mod float;
mod integer;
pub mod portable;

pub use eight::{E4m3, E5m2};
pub use float::{Wide, Words};

/// The elements of a call, as marker: what they are, and what is done to them.
pub trait Element: Copy + 'static {
    /// The dtype as a value; a signed one stands for the unsigned one as well.
    const DTYPE: Dtype;
    /// How packs of them are pushed.
    type Wire: Wire;
    /// Whether reducing a pack is long: LLVM would call it where it is written twice.
    const IS_LONG: bool;
    /// One pack of each rank, in rank order, made one. Of two ranks, either may come first.
    fn reduce<M: Machine, const W: usize>(m: &M, packs: [Pack; W]) -> Pack;
    /// The element that is `value` rounded, of an integer type towards 0, in the low bits of a pack whose other bits are 0.
    fn from_f32<M: Machine>(m: &M, value: f32) -> Pack;
}

/// An element type, as marker.
pub trait Number: Copy + 'static {
    /// The dtype as a value; a signed one stands for the unsigned one as well.
    const DTYPE: Dtype;
    /// How packs of them are pushed.
    type Wire: Wire;
    /// [`Element::reduce`], by `by`.
    fn reduce<M: Machine, const W: usize>(m: &M, by: Reduction, packs: [Pack; W]) -> Pack;
    /// [`Element::reduce`], by the sum: the same bits, in the shortest way.
    #[inline(always)]
    fn sum<M: Machine, const W: usize>(m: &M, packs: [Pack; W]) -> Pack {
        Self::reduce(m, Reduction::SUM, packs)
    }
    /// [`Element::from_f32`].
    fn from_f32<M: Machine>(m: &M, value: f32) -> Pack;
}

/// What `with` makes of `first`, which is rank 0's, and each other rank, one after the other. Written out: what LLVM left as a loop would put packs
/// into memory.
#[inline(always)]
fn with_each_other<T, const W: usize>(first: T, with: impl Fn(T, usize) -> T) -> T {
    const { assert!(0 < W && W <= 8) };
    let mut all = first;
    macro_rules! ranks {
        ($($rank:literal)*) => { $(
            if $rank < W {
                all = with(all, $rank);
            }
        )* };
    }
    ranks!(1 2 3 4 5 6 7);
    all
}

/// Sums of `T`, and nothing else.
#[derive(Clone, Copy)]
pub struct Sum<T>(PhantomData<T>);
/// Whatever the call says is done to `T`.
#[derive(Clone, Copy)]
pub struct Any<T>(PhantomData<T>);

/// Sums of f32.
pub type F32 = Sum<f32>;
/// Sums of f16.
pub type F16 = Sum<half::f16>;
/// Sums of bf16.
pub type Bf16 = Sum<half::bf16>;
/// Sums of i32.
pub type I32 = Sum<i32>;

impl<T: Number> Element for Sum<T> {
    const IS_LONG: bool = false;
    const DTYPE: Dtype = T::DTYPE;
    type Wire = T::Wire;
    #[inline(always)]
    fn reduce<M: Machine, const W: usize>(m: &M, packs: [Pack; W]) -> Pack {
        T::sum(m, packs)
    }
    #[inline(always)]
    fn from_f32<M: Machine>(m: &M, value: f32) -> Pack {
        T::from_f32(m, value)
    }
}

impl<T: Number> Element for Any<T> {
    const IS_LONG: bool = T::DTYPE.bytes() < 4;
    const DTYPE: Dtype = T::DTYPE;
    type Wire = T::Wire;
    #[inline(always)]
    fn reduce<M: Machine, const W: usize>(m: &M, packs: [Pack; W]) -> Pack {
        T::reduce(m, m.reduction(), packs)
    }
    #[inline(always)]
    fn from_f32<M: Machine>(m: &M, value: f32) -> Pack {
        T::from_f32(m, value)
    }
}
