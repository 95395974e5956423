//! 16-byte packs of each dtype and their sum: of floating-point numbers the bits of a sum in rank order, in f32, with one
//! rounding at the end; of integers the sum that wraps.
//!
//! The order of a sum is 0, 1, … N-1 (of two ranks any, which is the same), whatever the algorithm, the size or the rank that
//! adds, so that every rank gets the same bits and so does every run. A sum starts from rank 0's value and not from zero: -0.0
//! stays -0.0.

use core::array::from_fn;

use super::abi::Dtype;
use super::machine::{Machine, Pack};
use super::push::{Flagged, Marked, Wire};

/// An element type, as marker: how one 32-bit word of a pack is widened, added and narrowed.
pub trait Element: Copy + 'static {
    /// The dtype as a value.
    const DTYPE: Dtype;
    /// The elements of one word, as they are added.
    type Wide: Copy;
    /// How packs of them are pushed.
    type Wire: Wire;
    /// Widens the elements of a word.
    fn widen<M: Machine>(m: &M, word: u32) -> Self::Wide;
    /// Adds, `a` being the sum so far.
    fn add<M: Machine>(m: &M, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// The sum of two words, rounded once; `a` and `b` may change places.
    ///
    /// It has the bits that [`Element::narrow`] gives for the sum of the widened words: a sum of two numbers of `p` bits that is
    /// rounded to `2p + 2` bits or more, and then to `p`, is the same as rounded to `p` at once (S. A. Figueroa, "When is double
    /// rounding innocuous?", 1995). f32 has 24; bf16 has 8, and f16 has 11.
    fn add_words<M: Machine>(m: &M, a: u32, b: u32) -> u32;
    /// Rounds back to a word.
    fn narrow<M: Machine>(m: &M, wide: Self::Wide) -> u32;
    /// The word whose first element is `value` rounded, of an integer type towards 0, the other bits 0.
    fn from_f32<M: Machine>(m: &M, value: f32) -> u32;
}

/// Marks f32.
#[derive(Clone, Copy)]
pub struct F32;
/// Marks f16.
#[derive(Clone, Copy)]
pub struct F16;
/// Marks bf16.
#[derive(Clone, Copy)]
pub struct Bf16;
/// Marks i32.
#[derive(Clone, Copy)]
pub struct I32;

impl Element for F32 {
    const DTYPE: Dtype = Dtype::F32;
    type Wide = f32;
    type Wire = Marked;
    #[inline(always)]
    fn widen<M: Machine>(_: &M, word: u32) -> f32 {
        f32::from_bits(word)
    }
    #[inline(always)]
    fn add<M: Machine>(m: &M, a: f32, b: f32) -> f32 {
        m.add_f32(a, b)
    }
    #[inline(always)]
    fn add_words<M: Machine>(m: &M, a: u32, b: u32) -> u32 {
        m.add_f32(f32::from_bits(a), f32::from_bits(b)).to_bits()
    }
    #[inline(always)]
    fn narrow<M: Machine>(_: &M, wide: f32) -> u32 {
        wide.to_bits()
    }
    #[inline(always)]
    fn from_f32<M: Machine>(_: &M, value: f32) -> u32 {
        value.to_bits()
    }
}

impl Element for F16 {
    const DTYPE: Dtype = Dtype::F16;
    type Wide = [f32; 2];
    type Wire = Marked;
    #[inline(always)]
    fn widen<M: Machine>(m: &M, word: u32) -> [f32; 2] {
        m.f32_from_f16x2(word)
    }
    #[inline(always)]
    fn add<M: Machine>(m: &M, a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
        [m.add_f32(a[0], b[0]), m.add_f32(a[1], b[1])]
    }
    #[inline(always)]
    fn add_words<M: Machine>(m: &M, a: u32, b: u32) -> u32 {
        m.add_f16x2(a, b)
    }
    #[inline(always)]
    fn narrow<M: Machine>(m: &M, wide: [f32; 2]) -> u32 {
        m.f16x2_from_f32(wide)
    }
    #[inline(always)]
    fn from_f32<M: Machine>(m: &M, value: f32) -> u32 {
        m.f16x2_from_f32([value, 0.0])
    }
}

impl Element for Bf16 {
    const DTYPE: Dtype = Dtype::Bf16;
    type Wide = [f32; 2];
    type Wire = Marked;
    #[inline(always)]
    fn widen<M: Machine>(_: &M, word: u32) -> [f32; 2] {
        portable::f32_from_bf16x2(word)
    }
    #[inline(always)]
    fn add<M: Machine>(m: &M, a: [f32; 2], b: [f32; 2]) -> [f32; 2] {
        [m.add_f32(a[0], b[0]), m.add_f32(a[1], b[1])]
    }
    #[inline(always)]
    fn add_words<M: Machine>(m: &M, a: u32, b: u32) -> u32 {
        m.add_bf16x2(a, b)
    }
    #[inline(always)]
    fn narrow<M: Machine>(m: &M, wide: [f32; 2]) -> u32 {
        m.bf16x2_from_f32(wide)
    }
    #[inline(always)]
    fn from_f32<M: Machine>(m: &M, value: f32) -> u32 {
        m.bf16x2_from_f32([value, 0.0])
    }
}

impl Element for I32 {
    const DTYPE: Dtype = Dtype::I32;
    type Wide = u32;
    type Wire = Flagged;
    #[inline(always)]
    fn widen<M: Machine>(_: &M, word: u32) -> u32 {
        word
    }
    #[inline(always)]
    fn add<M: Machine>(_: &M, a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn add_words<M: Machine>(_: &M, a: u32, b: u32) -> u32 {
        a.wrapping_add(b)
    }
    #[inline(always)]
    fn narrow<M: Machine>(_: &M, wide: u32) -> u32 {
        wide
    }
    #[inline(always)]
    fn from_f32<M: Machine>(_: &M, value: f32) -> u32 {
        value as i32 as u32
    }
}

/// The sum of one pack of each rank, in rank order. Of two ranks, either may come first.
#[inline(always)]
pub fn sum<M: Machine, T: Element, const W: usize>(m: &M, packs: [Pack; W]) -> Pack {
    Pack(from_fn(|word| {
        if W == 2 {
            return T::add_words(m, packs[0].0[word], packs[1].0[word]);
        }
        let mut sum = T::widen(m, packs[0].0[word]);
        for pack in packs.iter().skip(1) {
            sum = T::add(m, sum, T::widen(m, pack.0[word]));
        }
        T::narrow(m, sum)
    }))
}

/// Conversions and sums without machine instructions, with the results that the GPU's have.
pub mod portable {
    /// The NaN that a GPU's conversion to a 16-bit float gives, whatever NaN went in.
    const NAN16: u16 = 0x7fff;
    /// The NaN that a GPU's sum is, whatever NaN went in.
    const NAN32: f32 = f32::from_bits(0x7fff_ffff);

    /// The sum of two f32.
    #[inline]
    pub fn add_f32(a: f32, b: f32) -> f32 {
        let sum = a + b;
        if sum.is_nan() { NAN32 } else { sum }
    }

    /// Two f16 (low bits first) as f32.
    #[inline]
    pub fn f32_from_f16x2(word: u32) -> [f32; 2] {
        [word as u16, (word >> 16) as u16].map(|bits| half::f16::from_bits(bits).to_f32())
    }

    /// Two f32 rounded to f16, nearest even.
    #[inline]
    pub fn f16x2_from_f32(value: [f32; 2]) -> u32 {
        pair(value.map(|v| if v.is_nan() { NAN16 } else { half::f16::from_f32(v).to_bits() }))
    }

    /// Two f32 rounded to bf16, nearest even.
    #[inline]
    pub fn bf16x2_from_f32(value: [f32; 2]) -> u32 {
        pair(value.map(|v| if v.is_nan() { NAN16 } else { half::bf16::from_f32(v).to_bits() }))
    }

    /// Two bf16 as f32: each is the upper half of the f32 of the same value.
    #[inline(always)]
    pub fn f32_from_bf16x2(word: u32) -> [f32; 2] {
        [f32::from_bits(word << 16), f32::from_bits(word & 0xffff_0000)]
    }

    #[inline]
    fn pair([low, high]: [u16; 2]) -> u32 {
        low as u32 | (high as u32) << 16
    }
}
