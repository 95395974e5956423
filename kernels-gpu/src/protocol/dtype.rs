//! The element types, as values.

use super::abi::PACK_BYTES;

/// Element type of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u32)]
pub enum Dtype {
    /// IEEE binary32.
    F32,
    /// IEEE binary16, reduced in f32.
    F16,
    /// bfloat16, reduced in f32.
    Bf16,
    /// 32-bit integer.
    I32,
    /// IEEE binary64.
    F64,
    /// OFP8 with 4 bits of exponent, reduced in f32.
    E4m3,
    /// OFP8 with 5 bits of exponent, reduced in f32.
    E5m2,
    /// 8-bit integer.
    I8,
    /// 8-bit integer without a sign.
    U8,
    /// 32-bit integer without a sign.
    U32,
    /// 64-bit integer.
    I64,
    /// 64-bit integer without a sign.
    U64,
}

impl Dtype {
    /// Every dtype there is.
    pub const ALL: [Dtype; 12] = [
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::I32,
        Dtype::F64,
        Dtype::E4m3,
        Dtype::E5m2,
        Dtype::I8,
        Dtype::U8,
        Dtype::U32,
        Dtype::I64,
        Dtype::U64,
    ];

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Dtype::F64 | Dtype::I64 | Dtype::U64 => 8,
            Dtype::F32 | Dtype::I32 | Dtype::U32 => 4,
            Dtype::F16 | Dtype::Bf16 => 2,
            Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 => 1,
        }
    }

    /// Elements of one pack.
    pub const fn lanes(self) -> usize {
        PACK_BYTES / self.bytes()
    }

    /// The name that users and entry points have for it.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::F32 => "f32",
            Dtype::F16 => "f16",
            Dtype::Bf16 => "bf16",
            Dtype::I32 => "i32",
            Dtype::F64 => "f64",
            Dtype::E4m3 => "e4m3",
            Dtype::E5m2 => "e5m2",
            Dtype::I8 => "i8",
            Dtype::U8 => "u8",
            Dtype::U32 => "u32",
            Dtype::I64 => "i64",
            Dtype::U64 => "u64",
        }
    }

    /// The dtype whose kernels serve it: those of a signed integer serve the unsigned one of its size as well.
    #[inline]
    pub const fn kernels(self) -> Dtype {
        match self {
            Dtype::U8 => Dtype::I8,
            Dtype::U32 => Dtype::I32,
            Dtype::U64 => Dtype::I64,
            Dtype::F32
            | Dtype::F16
            | Dtype::Bf16
            | Dtype::I32
            | Dtype::F64
            | Dtype::E4m3
            | Dtype::E5m2
            | Dtype::I8
            | Dtype::I64 => self,
        }
    }

    /// Whether it is an integer without a sign.
    pub const fn is_unsigned(self) -> bool {
        matches!(self, Dtype::U8 | Dtype::U32 | Dtype::U64)
    }

    /// Whether there are kernels that do nothing but sum it: those of the types that models are trained and served in.
    #[inline]
    pub const fn has_sums(self) -> bool {
        match self.kernels() {
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 | Dtype::I32 => true,
            Dtype::F64 | Dtype::E4m3 | Dtype::E5m2 | Dtype::I8 | Dtype::U8 | Dtype::U32 | Dtype::I64 | Dtype::U64 => {
                false
            }
        }
    }

    /// Packs of a landing slot that a pack of data takes: two where each word has a flag beside it.
    pub const fn landing_packs(self) -> u32 {
        match self {
            Dtype::F32 | Dtype::F16 | Dtype::Bf16 => 1,
            Dtype::I32
            | Dtype::F64
            | Dtype::E4m3
            | Dtype::E5m2
            | Dtype::I8
            | Dtype::U8
            | Dtype::U32
            | Dtype::I64
            | Dtype::U64 => 2,
        }
    }
}
