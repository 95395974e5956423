//! Inputs: what each rank gives as each element, a pure function of rank and index.

use allfold::Dtype;

use crate::numbers::{encode, format, mask};

/// Where the inputs of a call come from.
#[derive(Clone, Copy, Debug)]
pub enum Data {
    /// Finite values of mixed size and sign; eight of them overflow in no dtype.
    Random(u64),
    /// Any bit pattern there is: infinities, subnormals and NaNs of every payload among them.
    Bits(u64),
    /// The values at the edges of a dtype, every pair of them on ranks 0 and 1.
    Edges(u64),
    /// `(rank + 1) + (elem mod 7) + (call mod 3)`: exact in every dtype, and old data shows.
    Ramp(u64),
    /// The same value in all elements of a rank.
    PerRank([f64; 8]),
    /// Rank 0 gives the first value as element 0; everything else is the second.
    First(f64, f64),
}

/// A well-mixed function of three numbers.
#[inline]
pub fn mix(seed: u64, rank: u64, elem: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ rank.wrapping_mul(0xd1b5_4a32_d192_ed03);
    x = (x ^ elem).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 29).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 32
}

impl Data {
    /// The element that `rank` gives, as bits.
    #[inline]
    pub fn bits(self, dtype: Dtype, rank: usize, elem: usize) -> u64 {
        let (rank64, elem64) = (rank as u64, elem as u64);
        match self {
            Data::Random(seed) => {
                let word = mix(seed, rank64, elem64);
                if format(dtype).is_none() {
                    // An eighth of the range.
                    let bits = word & mask(dtype);
                    let (shift, signed) = (64 - 8 * dtype.bytes() as u32, !dtype.is_unsigned());
                    let eighth =
                        if signed { ((bits << shift).cast_signed() >> 4).cast_unsigned() } else { bits << shift >> 4 };
                    return eighth >> shift & mask(dtype) | 1;
                }
                let sign = (word >> 63) as u32;
                // Of 8 bits, numbers up to 32.
                let sizes = if dtype.bytes() == 1 { 14 } else { 16 };
                let exponent = 127 - 9 + (word >> 32) as u32 % sizes;
                encode(dtype, f32::from_bits(sign << 31 | exponent << 23 | word as u32 & 0x7f_ffff).into())
            }
            Data::Bits(seed) => mix(seed, rank64, elem64) & mask(dtype),
            Data::Edges(seed) => {
                let edges = edges(dtype);
                let count = edges.len();
                let index = match rank {
                    0 => elem % count,
                    1 => elem / count % count,
                    _ => mix(seed, rank64, elem64) as usize % count,
                };
                edges[index]
            }
            Data::Ramp(call) => encode(dtype, (rank + 1 + elem % 7) as f64 + (call % 3) as f64),
            Data::PerRank(values) => encode(dtype, values[rank]),
            Data::First(first, rest) => encode(dtype, if rank == 0 && elem == 0 { first } else { rest }),
        }
    }
}

/// How many values [`Data::Edges`] has: its square is the length at which every pair has come.
pub const EDGES: usize = 18;

/// Zeros and ones, words of one kind of bit, the ends of the range, what marks a place where nothing has landed and its
/// neighbours, and what those are of other types.
const INTEGER_EDGES: [u64; EDGES] = [
    0,
    1,
    2,
    u64::MAX,
    u64::MAX - 1,
    u64::MAX - 2,
    0x7fff_ffff_7fff_ff7f,
    0x7fff_ffff_7fff_ff7e,
    0x8000_0000_8000_0080,
    0x8000_0000_8000_0081,
    0xffff_0010,
    0xffff_ffff_0000_000f,
    0xffff_ffff_ffff_00f0,
    0xfffe_ffff_fffe_ffef,
    0x5555_5555_5555_5555,
    0xaaaa_aaaa_aaaa_aaaa,
    0x7fc0_0000_7fc0_0020,
    0xff40,
];

/// Of e4m3 and of e5m2: zeros, subnormal and normal numbers, ones, the largest, and NaN; of e5m2 infinities as well.
const EIGHT_BITS_EDGES: [(u64, u64); EDGES] = [
    (0x00, 0x00),
    (0x80, 0x80),
    (0x01, 0x01),
    (0x81, 0x81),
    (0x07, 0x03),
    (0x87, 0x83),
    (0x08, 0x04),
    (0x88, 0x84),
    (0x38, 0x3c),
    (0xb8, 0xbc),
    (0x7e, 0x7b),
    (0xfe, 0xfb),
    (0x7d, 0x7c),
    (0xfd, 0xfc),
    (0x7f, 0x7d),
    (0xff, 0x7f),
    (0x39, 0xfe),
    (0x55, 0xff),
];

fn edges(dtype: Dtype) -> [u64; EDGES] {
    let sign = encode(dtype, -0.0);
    let smallest_normal = match dtype {
        Dtype::F64 => 1 << 52,
        Dtype::F32 => 1 << 23,
        Dtype::F16 => 1 << 10,
        Dtype::Bf16 => 1 << 7,
        Dtype::E4m3 => return EIGHT_BITS_EDGES.map(|(e4m3, _)| e4m3),
        Dtype::E5m2 => return EIGHT_BITS_EDGES.map(|(_, e5m2)| e5m2),
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64 => {
            return INTEGER_EDGES.map(|edge| edge & mask(dtype));
        }
    };
    let infinity = encode(dtype, f64::INFINITY);
    let one = encode(dtype, 1.0);
    [
        0,
        sign,
        1,
        sign | 1,
        smallest_normal - 1,
        sign | (smallest_normal - 1),
        smallest_normal,
        sign | smallest_normal,
        one,
        sign | one,
        infinity - 1,
        sign | (infinity - 1),
        infinity,
        sign | infinity,
        // Quiet, signalling, and odd payloads.
        infinity | smallest_normal >> 1,
        infinity | 1,
        sign | infinity | 3,
        sign | (infinity | (smallest_normal - 1)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbers::{decode, format};

    #[test]
    fn eight_random_values_overflow_nowhere() {
        for dtype in Dtype::ALL {
            for elem in 0..20_000 {
                let value = decode(dtype, Data::Random(1).bits(dtype, elem % 8, elem));
                let least_sign = if dtype.is_unsigned() { 0 } else { 1 };
                let largest = format(dtype).map_or((mask(dtype) >> least_sign) as f64, |format| format.largest);
                assert!(value != 0.0 && value.abs() * 8.0 <= largest, "{dtype:?} {value}");
            }
        }
    }

    #[test]
    fn edges_are_all_different_and_four_are_nans_where_there_are_such() {
        for dtype in Dtype::ALL {
            let edges = edges(dtype);
            for (index, edge) in edges.iter().enumerate() {
                assert!(!edges[..index].contains(edge), "{dtype:?} {edge:#x}");
            }
            let nans = if dtype == Dtype::E4m3 { 2 } else { 4 };
            let nans = if format(dtype).is_some() { nans } else { 0 };
            assert_eq!(edges.iter().filter(|&&edge| decode(dtype, edge).is_nan()).count(), nans);
        }
    }
}
