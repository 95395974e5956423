//! The element types that users have buffers of.

use allfold_kernels::protocol::abi::Dtype;
use cust::memory::DeviceCopy;

mod sealed {
    pub trait Sealed {}
}

/// An element type of an all-reduce: `f32`, [`half::f16`], [`half::bf16`] or `i32`.
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
