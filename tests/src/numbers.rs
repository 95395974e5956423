//! Elements as bits: what a dtype's patterns mean. Uses the `half` crate and knows nothing of the kernels.

use std::sync::OnceLock;

use allfold::Dtype;
use half::{bf16, f16};

/// The element nearest to `value`, as bits. What is too large for a type without infinity, or for an 8-bit one, is its largest number.
#[inline]
pub fn encode(dtype: Dtype, value: f64) -> u64 {
    match dtype {
        Dtype::F64 => value.to_bits(),
        Dtype::F32 => (value as f32).to_bits().into(),
        Dtype::F16 => f16::from_f32(value as f32).to_bits().into(),
        Dtype::Bf16 => bf16::from_f32(value as f32).to_bits().into(),
        Dtype::E4m3 | Dtype::E5m2 => encode8(dtype, value),
        Dtype::I8 => (value.round_ties_even() as i8 as u8).into(),
        Dtype::U8 => (value.round_ties_even() as u8).into(),
        Dtype::I32 => (value.round_ties_even() as i32).cast_unsigned().into(),
        Dtype::U32 => (value.round_ties_even() as u32).into(),
        Dtype::I64 => (value.round_ties_even() as i64).cast_unsigned(),
        Dtype::U64 => value.round_ties_even() as u64,
    }
}

/// The value of an element, of a large integer the nearest; the high bits of narrower types are not looked at.
#[inline]
pub fn decode(dtype: Dtype, bits: u64) -> f64 {
    match dtype {
        Dtype::F64 => f64::from_bits(bits),
        Dtype::F32 => f32::from_bits(bits as u32).into(),
        Dtype::F16 => f16::from_bits(bits as u16).into(),
        Dtype::Bf16 => f32::from_bits((bits as u32) << 16).into(),
        Dtype::E4m3 | Dtype::E5m2 => {
            let value = table8(dtype)[bits as usize & 0x7f];
            if bits & 0x80 == 0 { value } else { -value }
        }
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64 => integer(dtype, bits) as f64,
    }
}

/// The value of an integer.
///
/// # Panics
/// When `dtype` is none of integers.
#[inline]
pub fn integer(dtype: Dtype, bits: u64) -> i128 {
    match dtype {
        Dtype::I8 => (bits as i8).into(),
        Dtype::U8 => (bits as u8).into(),
        Dtype::I32 => (bits as i32).into(),
        Dtype::U32 => (bits as u32).into(),
        Dtype::I64 => bits.cast_signed().into(),
        Dtype::U64 => bits.into(),
        Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::E4m3 | Dtype::E5m2 => panic!("{dtype:?}"),
    }
}

/// The bits that an element of `dtype` has.
pub const fn mask(dtype: Dtype) -> u64 {
    u64::MAX >> (64 - 8 * dtype.bytes())
}

/// The values of all numbers of 8 bits without a sign, in order of their bits; NaN above them.
fn table8(dtype: Dtype) -> &'static [f64; 128] {
    static E4M3: OnceLock<[f64; 128]> = OnceLock::new();
    static E5M2: OnceLock<[f64; 128]> = OnceLock::new();
    let fill = |fraction_bits: i32, bias: i32| {
        std::array::from_fn(|bits| {
            let (exponent, fraction) = (bits as i32 >> fraction_bits, f64::from(bits as i32 % (1 << fraction_bits)));
            let unit = 2f64.powi(-fraction_bits);
            let value = match exponent {
                0 => fraction * unit * 2f64.powi(1 - bias),
                _ => (1.0 + fraction * unit) * 2f64.powi(exponent - bias),
            };
            match (fraction_bits, bits) {
                (3, 0x7f) | (2, 0x7d..) => f64::NAN,
                (2, 0x7c) => f64::INFINITY,
                _ => value,
            }
        })
    };
    if dtype == Dtype::E4m3 { E4M3.get_or_init(|| fill(3, 7)) } else { E5M2.get_or_init(|| fill(2, 15)) }
}

fn encode8(dtype: Dtype, value: f64) -> u64 {
    if value.is_nan() {
        return 0x7f;
    }
    let table = table8(dtype);
    let finite = table.iter().filter(|value| value.is_finite()).count();
    let size = value.abs();
    let above = table[..finite].partition_point(|&number| number < size);
    let nearest = match above {
        0 => 0,
        above if above == finite => finite - 1,
        above => {
            let (under, over) = (size - table[above - 1], table[above] - size);
            // Of two that are as near, the one whose last bit is 0.
            if under < over || (under == over && above % 2 == 1) { above - 1 } else { above }
        }
    };
    nearest as u64 | if value.is_sign_negative() { 0x80 } else { 0 }
}

/// Whether two elements are the same: bit for bit, or both not a number.
#[inline]
pub fn same(dtype: Dtype, a: u64, b: u64) -> bool {
    a == b || decode(dtype, a).is_nan() && decode(dtype, b).is_nan()
}

/// Element `elem` of a buffer.
///
/// # Panics
/// When the buffer is shorter.
#[inline]
pub fn read(dtype: Dtype, bytes: &[u8], elem: usize) -> u64 {
    let (at, size) = (elem * dtype.bytes(), dtype.bytes());
    let mut bits = [0; 8];
    bits[..size].copy_from_slice(&bytes[at..at + size]);
    u64::from_le_bytes(bits)
}

/// Sets element `elem` of a buffer.
///
/// # Panics
/// When the buffer is shorter.
#[inline]
pub fn write(dtype: Dtype, bytes: &mut [u8], elem: usize, bits: u64) {
    let (at, size) = (elem * dtype.bytes(), dtype.bytes());
    bytes[at..at + size].copy_from_slice(&bits.to_le_bytes()[..size]);
}

/// How fine and how large the numbers of a dtype are.
#[derive(Clone, Copy)]
pub struct Format {
    /// The distance from 1 to the next number.
    pub epsilon: f64,
    /// The smallest positive number.
    pub smallest: f64,
    /// The largest finite number.
    pub largest: f64,
}

/// The format of a dtype; `None`: its numbers are integers.
pub const fn format(dtype: Dtype) -> Option<Format> {
    Some(match dtype {
        Dtype::F64 => Format { epsilon: f64::EPSILON, smallest: f64::from_bits(1), largest: f64::MAX },
        Dtype::F32 => Format { epsilon: power_of_2(-23), smallest: power_of_2(-149), largest: f32::MAX as f64 },
        Dtype::F16 => Format { epsilon: power_of_2(-10), smallest: power_of_2(-24), largest: 65504.0 },
        Dtype::Bf16 => Format {
            epsilon: power_of_2(-7),
            smallest: power_of_2(-133),
            largest: (2.0 - power_of_2(-7)) * power_of_2(127),
        },
        Dtype::E4m3 => Format { epsilon: power_of_2(-3), smallest: power_of_2(-9), largest: 448.0 },
        Dtype::E5m2 => Format { epsilon: power_of_2(-2), smallest: power_of_2(-16), largest: 57344.0 },
        Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64 => return None,
    })
}

/// 2 to the power of `exponent`, which is one of a normal f64.
pub const fn power_of_2(exponent: i64) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_say_what_the_types_do() {
        for dtype in Dtype::ALL {
            let Some(Format { epsilon, smallest, largest }) = format(dtype) else { continue };
            assert_eq!(decode(dtype, 1), smallest, "{dtype:?}");
            assert_eq!(decode(dtype, encode(dtype, largest)), largest, "{dtype:?}");
            let next = decode(dtype, encode(dtype, largest) + 1);
            assert_eq!(next.is_infinite(), dtype != Dtype::E4m3, "{dtype:?}");
            assert!(!next.is_finite(), "{dtype:?}");
            let one = encode(dtype, 1.0);
            assert_eq!(decode(dtype, one + 1), 1.0 + epsilon, "{dtype:?}");
        }
    }

    #[test]
    fn numbers_of_8_bits_come_back_and_what_is_between_goes_to_the_nearest() {
        for dtype in [Dtype::E4m3, Dtype::E5m2] {
            let mut last = None;
            for bits in 0..0x7f {
                let value = decode(dtype, bits);
                if !value.is_finite() {
                    continue;
                }
                assert_eq!((encode(dtype, value), encode(dtype, -value)), (bits, bits | 0x80), "{dtype:?} {value}");
                if let Some((low, below)) = last.replace((bits, value)) {
                    let half = f64::midpoint(below, value);
                    assert_eq!(encode(dtype, half), bits - bits % 2, "{dtype:?} between {low:#x} and {bits:#x}");
                    assert_eq!(encode(dtype, f64::midpoint(half, value)), bits);
                    assert_eq!(encode(dtype, f64::midpoint(half, below)), low);
                }
            }
            assert_eq!(decode(dtype, encode(dtype, f64::INFINITY)), format(dtype).expect("a float").largest);
            assert!(decode(dtype, encode(dtype, f64::NAN)).is_nan());
        }
    }

    #[test]
    fn elements_are_read_where_they_were_written() {
        for dtype in Dtype::ALL {
            let mut bytes = [0; 64];
            let value = if format(dtype).is_some() || !dtype.is_unsigned() { -2.0 } else { 254.0 };
            write(dtype, &mut bytes, 3, encode(dtype, value));
            assert_eq!(decode(dtype, read(dtype, &bytes, 3)), value);
            let elsewhere = bytes.iter().enumerate().filter(|(at, byte)| at / dtype.bytes() != 3 && **byte != 0);
            assert_eq!(elsewhere.count(), 0, "{dtype:?}");
        }
    }
}
