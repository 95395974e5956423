//! The element types that users have buffers of.

use std::fmt;

use allfold_kernels::protocol::abi::Dtype;
use allfold_kernels::protocol::element::portable;
use cust::memory::DeviceCopy;

mod sealed {
    pub trait Sealed {}
}

/// An element type of an all-reduce: `f32`, [`half::f16`], [`half::bf16`], `f64`, [`E4m3`], [`E5m2`], `i8`, `u8`, `i32`, `u32`, `i64` or
/// `u64`.
pub trait Element: bytemuck::Pod + Send + Sync + sealed::Sealed {
    /// The dtype as a value.
    const DTYPE: Dtype;
    /// What a `cust` device buffer of such elements holds: the elements' bits.
    type Stored: DeviceCopy;
}

macro_rules! element {
    ($T:ty, $dtype:ident, $Stored:ty) => {
        impl sealed::Sealed for $T {}
        impl Element for $T {
            const DTYPE: Dtype = Dtype::$dtype;
            type Stored = $Stored;
        }
        const _: () = assert!(size_of::<$T>() == Dtype::$dtype.bytes() && size_of::<$Stored>() == size_of::<$T>());
    };
}

element!(f32, F32, f32);
element!(half::f16, F16, u16);
element!(half::bf16, Bf16, u16);
element!(i32, I32, i32);
element!(f64, F64, f64);
element!(E4m3, E4m3, u8);
element!(E5m2, E5m2, u8);
element!(i8, I8, i8);
element!(u8, U8, u8);
element!(u32, U32, u32);
element!(i64, I64, i64);
element!(u64, U64, u64);

/// An expression for the element type of a dtype that is known at run time: `of_dtype!(dtype, T => size_of::<T>())`.
///
/// ```
/// use allfold::{Dtype, of_dtype};
///
/// assert_eq!(of_dtype!(Dtype::Bf16, T => size_of::<T>()), 2);
/// ```
#[macro_export]
macro_rules! of_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::of_dtype!(@ $dtype, $T => $body;
            F32 f32, F16 $crate::f16, Bf16 $crate::bf16, I32 i32, F64 f64, E4m3 $crate::E4m3, E5m2 $crate::E5m2, I8 i8, U8 u8, U32 u32,
            I64 i64, U64 u64)
    };
    (@ $dtype:expr, $T:ident => $body:expr; $($name:ident $type:ty),*) => {
        match $dtype {
            $($crate::Dtype::$name => {
                type $T = $type;
                $body
            })*
        }
    };
}

macro_rules! float8 {
    ($(#[$doc:meta])* $T:ident, $widen:path, $narrow:path) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $T(pub u8);

        impl $T {
            /// Rounded to the nearest, of two the even one. What is too large, infinity included, is rounded to the largest finite number.
            pub fn from_f32(value: f32) -> $T {
                $T($narrow([value, 0.0, 0.0, 0.0]) as u8)
            }

            /// The same number.
            pub fn to_f32(self) -> f32 {
                $widen(self.0.into())[0]
            }
        }

        /// As a number.
        impl fmt::Debug for $T {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.to_f32().fmt(f)
            }
        }

        // SAFETY: a byte, of which every value is one of the type's.
        unsafe impl bytemuck::Zeroable for $T {}
        // SAFETY: as above; transparent, so there is no padding.
        unsafe impl bytemuck::Pod for $T {}
    };
}

float8!(
    /// A number of 8 bits by its bits: 4 of exponent and 3 of fraction, up to 448, NaN and no infinity. Other names are `float8_e4m3fn` and
    /// `__nv_fp8_e4m3`. Equal are equal bits.
    E4m3, portable::f32_from_e4m3x4, portable::e4m3x4_from_f32
);
float8!(
    /// A number of 8 bits by its bits: 5 of exponent and 2 of fraction, up to 57344, infinity and NaN. Other names are `float8_e5m2` and
    /// `__nv_fp8_e5m2`. Equal are equal bits.
    E5m2, portable::f32_from_e5m2x4, portable::e5m2x4_from_f32
);
