//! Inputs: what each rank gives as each element, a pure function of rank and index.

use allfold::Dtype;

use crate::numbers::encode;

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
    PerRank([f32; 8]),
    /// Rank 0 gives the first value as element 0; everything else is the second.
    First(f32, f32),
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
    pub fn bits(self, dtype: Dtype, rank: usize, elem: usize) -> u32 {
        let (rank64, elem64) = (rank as u64, elem as u64);
        match self {
            Data::Random(seed) => {
                let word = mix(seed, rank64, elem64);
                if dtype == Dtype::I32 {
                    return ((word as i32) >> 4 | 1).cast_unsigned();
                }
                let sign = (word >> 63) as u32;
                let exponent = 127 - 9 + (word >> 32) as u32 % 16;
                encode(dtype, f32::from_bits(sign << 31 | exponent << 23 | word as u32 & 0x7f_ffff))
            }
            Data::Bits(seed) => {
                let word = mix(seed, rank64, elem64) as u32;
                match dtype {
                    Dtype::F32 | Dtype::I32 => word,
                    Dtype::F16 | Dtype::Bf16 => word & 0xffff,
                }
            }
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
            Data::Ramp(call) => encode(dtype, (rank + 1 + elem % 7) as f32 + (call % 3) as f32),
            Data::PerRank(values) => encode(dtype, values[rank]),
            Data::First(first, rest) => encode(dtype, if rank == 0 && elem == 0 { first } else { rest }),
        }
    }
}

/// How many values [`Data::Edges`] has: its square is the length at which every pair has come.
pub const EDGES: usize = 18;

/// Zeros and ones, words of one kind of bit, the ends of the range, what marks a place where nothing has landed and its
/// neighbours, and what those are of other types.
const INTEGER_EDGES: [u32; EDGES] = [
    0,
    1,
    2,
    u32::MAX,
    u32::MAX - 1,
    u32::MAX - 2,
    0x7fff_ffff,
    0x7fff_fffe,
    0x8000_0000,
    0x8000_0001,
    0xffff,
    0x1_0000,
    0xffff_0000,
    0xfffe_ffff,
    0x5555_5555,
    0xaaaa_aaaa,
    0x7fc0_0000,
    0xff,
];

fn edges(dtype: Dtype) -> [u32; EDGES] {
    let (sign, infinity) = (encode(dtype, -0.0), encode(dtype, f32::INFINITY));
    let smallest_normal = match dtype {
        Dtype::F32 => 1 << 23,
        Dtype::F16 => 1 << 10,
        Dtype::Bf16 => 1 << 7,
        Dtype::I32 => return INTEGER_EDGES,
    };
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
                let value = f64::from(decode(dtype, Data::Random(1).bits(dtype, elem % 8, elem)));
                let largest = format(dtype).map_or(f64::from(i32::MAX), |format| format.largest);
                assert!(value != 0.0 && value.abs() * 8.0 < largest, "{dtype:?} {value}");
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
            let nans = if format(dtype).is_some() { 4 } else { 0 };
            assert_eq!(edges.iter().filter(|&&edge| decode(dtype, edge).is_nan()).count(), nans);
        }
    }
}
