//! Conversions and arithmetic without machine instructions, with the results that the GPU's have.

/// The NaN that a GPU's conversion to a 16-bit float gives, whatever NaN went in.
const NAN16: u16 = 0x7fff;
/// The NaN that a GPU's arithmetic gives, whatever NaN went in.
const NAN32: f32 = f32::from_bits(0x7fff_ffff);

#[inline(always)]
fn one_nan(value: f32) -> f32 {
    if value.is_nan() { NAN32 } else { value }
}

/// The sum of two f32.
#[inline]
pub fn add_f32(a: f32, b: f32) -> f32 {
    one_nan(a + b)
}

/// The product of two f32.
#[inline]
pub fn mul_f32(a: f32, b: f32) -> f32 {
    one_nan(a * b)
}

/// The smaller of two f32; NaN if one is; -0.0 is less than 0.0.
#[inline]
pub fn min_f32(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        NAN32
    } else if a == b {
        f32::from_bits(a.to_bits() | b.to_bits())
    } else if a < b {
        a
    } else {
        b
    }
}

/// The larger of two f32; NaN if one is; -0.0 is less than 0.0.
#[inline]
pub fn max_f32(a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        NAN32
    } else if a == b {
        f32::from_bits(a.to_bits() & b.to_bits())
    } else if a > b {
        a
    } else {
        b
    }
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

/// Four e4m3 (low bits first) as f32.
#[inline(always)]
pub fn f32_from_e4m3x4(word: u32) -> [f32; 4] {
    word.to_le_bytes().map(widen8::<E4M3_BIAS, E4M3_FRACTION>)
}

/// Four f32 rounded to e4m3, nearest even; what is too large, to the largest.
#[inline(always)]
pub fn e4m3x4_from_f32(value: [f32; 4]) -> u32 {
    u32::from_le_bytes(value.map(narrow8::<E4M3_BIAS, E4M3_FRACTION, 0x7e>))
}

/// Four e5m2 (low bits first) as f32.
#[inline(always)]
pub fn f32_from_e5m2x4(word: u32) -> [f32; 4] {
    word.to_le_bytes().map(widen8::<E5M2_BIAS, E5M2_FRACTION>)
}

/// Four f32 rounded to e5m2, nearest even; what is too large, infinity included, to the largest finite number.
#[inline(always)]
pub fn e5m2x4_from_f32(value: [f32; 4]) -> u32 {
    u32::from_le_bytes(value.map(narrow8::<E5M2_BIAS, E5M2_FRACTION, 0x7b>))
}

const E4M3_BIAS: u32 = 7;
const E4M3_FRACTION: u32 = 3;
const E5M2_BIAS: u32 = 15;
const E5M2_FRACTION: u32 = 2;

/// Bits of an f32's fraction, and its bias.
const FRACTION: u32 = 23;
const BIAS: u32 = 127;
const INFINITY: u32 = 0xff << FRACTION;

/// The value of a number of 8 bits. One of 4 bits of exponent has no infinity.
#[inline(always)]
fn widen8<const B: u32, const F: u32>(bits: u8) -> f32 {
    let (sign, rest) = ((bits as u32 & 0x80) << 24, bits as u32 & 0x7f);
    // With the exponent of the type, and then times a power of 2: so what is subnormal there comes out right.
    let scale = f32::from_bits((2 * BIAS - B) << FRACTION);
    let value = (f32::from_bits(rest << (FRACTION - F)) * scale).to_bits();
    let value = match F {
        E4M3_FRACTION if rest == 0x7f => NAN32.to_bits(),
        E5M2_FRACTION if rest > 0x7c => NAN32.to_bits(),
        E5M2_FRACTION if rest == 0x7c => INFINITY,
        _ => value,
    };
    f32::from_bits(sign | value)
}

/// `value` rounded to 8 bits, of which `MOST` is the largest finite number.
#[inline(always)]
fn narrow8<const B: u32, const F: u32, const MOST: u32>(value: f32) -> u8 {
    let (sign, rest) = (value.to_bits() >> 24 & 0x80, value.to_bits() & (u32::MAX >> 1));
    if rest > INFINITY {
        return 0x7f;
    }
    let cut = FRACTION - F;
    let smallest_normal = (BIAS + 1 - B) << FRACTION;
    let rounded = if rest < smallest_normal {
        // Next to this number, f32 are as far apart as the subnormal ones of the type.
        let beside = f32::from_bits((BIAS + 1 - B + cut) << FRACTION);
        (f32::from_bits(rest) + beside).to_bits() - beside.to_bits()
    } else {
        let nearest = rest + (1 << (cut - 1)) - 1 + (rest >> cut & 1);
        (nearest >> cut) - ((BIAS - B) << F)
    };
    (sign | if rounded < MOST { rounded } else { MOST }) as u8
}
