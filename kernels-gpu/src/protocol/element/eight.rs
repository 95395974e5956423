//! Floating-point numbers of 8 bits, as the Open Compute Project's OFP8 has them. A number too large for the type, infinity included, is rounded
//! to the largest finite one, as GPUs round them.

use super::super::abi::Dtype;
use super::super::machine::{Machine, Pack};
use super::super::push::Flagged;
use super::super::reduction::Reduction;
use super::Number;
use super::float::{Words, in_f32};

/// Marks e4m3: 4 bits of exponent and 3 of fraction, up to 448, NaN and no infinity.
#[derive(Clone, Copy)]
pub struct E4m3;
/// Marks e5m2: 5 bits of exponent and 2 of fraction, up to 57344, infinity and NaN.
#[derive(Clone, Copy)]
pub struct E5m2;

in_f32!(E4m3, E4m3, Flagged, |m, value| m.e4m3x4_from_f32([value, 0.0, 0.0, 0.0]));
in_f32!(E5m2, E5m2, Flagged, |m, value| m.e5m2x4_from_f32([value, 0.0, 0.0, 0.0]));

impl Words for E4m3 {
    type Wide = [f32; 4];
    #[inline(always)]
    fn widen<M: Machine>(m: &M, word: u32) -> [f32; 4] {
        m.f32_from_e4m3x4(word)
    }
    #[inline(always)]
    fn narrow<M: Machine>(m: &M, wide: [f32; 4]) -> u32 {
        m.e4m3x4_from_f32(wide)
    }
}

impl Words for E5m2 {
    type Wide = [f32; 4];
    #[inline(always)]
    fn widen<M: Machine>(m: &M, word: u32) -> [f32; 4] {
        m.f32_from_e5m2x4(word)
    }
    #[inline(always)]
    fn narrow<M: Machine>(m: &M, wide: [f32; 4]) -> u32 {
        m.e5m2x4_from_f32(wide)
    }
}
