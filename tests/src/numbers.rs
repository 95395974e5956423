//! Elements as bits: what a dtype's patterns mean. Uses the `half` crate and knows nothing of the kernels.

use allfold::Dtype;
use half::{bf16, f16};

/// The element nearest to `value`, as bits.
#[inline]
pub fn encode(dtype: Dtype, value: f32) -> u32 {
    match dtype {
        Dtype::F32 => value.to_bits(),
        Dtype::F16 => f16::from_f32(value).to_bits().into(),
        Dtype::Bf16 => bf16::from_f32(value).to_bits().into(),
        Dtype::I32 => (value.round_ties_even() as i32).cast_unsigned(),
    }
}

/// The value of an element, of a large integer the nearest; the high bits of 16-bit types are not looked at.
#[inline]
pub fn decode(dtype: Dtype, bits: u32) -> f32 {
    match dtype {
        Dtype::F32 => f32::from_bits(bits),
        Dtype::F16 => f16::from_bits(bits as u16).to_f32(),
        Dtype::Bf16 => f32::from_bits(bits << 16),
        Dtype::I32 => bits.cast_signed() as f32,
    }
}

/// Whether two elements are the same: bit for bit, or both not a number.
#[inline]
pub fn same(dtype: Dtype, a: u32, b: u32) -> bool {
    a == b || decode(dtype, a).is_nan() && decode(dtype, b).is_nan()
}

/// Element `elem` of a buffer.
///
/// # Panics
/// When the buffer is shorter.
#[inline]
pub fn read(dtype: Dtype, bytes: &[u8], elem: usize) -> u32 {
    let at = elem * dtype.bytes();
    match dtype {
        Dtype::F32 | Dtype::I32 => u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]),
        Dtype::F16 | Dtype::Bf16 => u16::from_ne_bytes([bytes[at], bytes[at + 1]]).into(),
    }
}

/// Sets element `elem` of a buffer.
///
/// # Panics
/// When the buffer is shorter.
#[inline]
pub fn write(dtype: Dtype, bytes: &mut [u8], elem: usize, bits: u32) {
    let at = elem * dtype.bytes();
    match dtype {
        Dtype::F32 | Dtype::I32 => bytes[at..at + 4].copy_from_slice(&bits.to_ne_bytes()),
        Dtype::F16 | Dtype::Bf16 => bytes[at..at + 2].copy_from_slice(&(bits as u16).to_ne_bytes()),
    }
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
        Dtype::F32 => Format { epsilon: power_of_2(-23), smallest: power_of_2(-149), largest: f32::MAX as f64 },
        Dtype::F16 => Format { epsilon: power_of_2(-10), smallest: power_of_2(-24), largest: 65504.0 },
        Dtype::Bf16 => Format {
            epsilon: power_of_2(-7),
            smallest: power_of_2(-133),
            largest: (2.0 - power_of_2(-7)) * power_of_2(127),
        },
        Dtype::I32 => return None,
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
            assert_eq!(f64::from(decode(dtype, 1)), smallest, "{dtype:?}");
            let infinity = encode(dtype, f32::INFINITY);
            assert_eq!(f64::from(decode(dtype, infinity - 1)), largest, "{dtype:?}");
            let one = encode(dtype, 1.0);
            assert_eq!(f64::from(decode(dtype, one + 1)), 1.0 + epsilon, "{dtype:?}");
        }
    }

    #[test]
    fn elements_are_read_where_they_were_written() {
        for dtype in Dtype::ALL {
            let mut bytes = [0; 32];
            let value = if format(dtype).is_some() { -2.5 } else { -3.0 };
            write(dtype, &mut bytes, 3, encode(dtype, value));
            assert_eq!(decode(dtype, read(dtype, &bytes, 3)), value);
            let bytes_of = match dtype {
                Dtype::F16 => 1,
                Dtype::F32 | Dtype::Bf16 => 2,
                Dtype::I32 => 4,
            };
            assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), bytes_of, "{dtype:?}");
        }
    }
}
