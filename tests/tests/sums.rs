//! Sums of two words, which kernels take at once: the bits of the way over f32, whichever rank comes first.

mod lone;

use allfold_kernels::protocol::element::{Bf16, Element, F16, F32, sum};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::Pack;
use lone::Lone;

/// Zeros, subnormals, ordinary numbers, the largest, infinities and NaNs of each 16-bit type, with both signs; some of them are
/// half-way cases of one another's sums.
const HALVES: [u16; 17] = [
    0, 1, 0x007f, 0x0080, 0x03ff, 0x0400, 0x3c00, 0x3c01, 0x3f80, 0x3f81, 0x4b80, 0x7bff, 0x7c00, 0x7c01, 0x7f7f,
    0x7f80, 0x7fff,
];

fn words() -> Vec<u32> {
    let signed: Vec<u16> = HALVES.into_iter().flat_map(|half| [half, half | 0x8000]).collect();
    signed.iter().flat_map(|&high| signed.iter().map(move |&low| u32::from(high) << 16 | u32::from(low))).collect()
}

fn at_once_as_over_f32<T: Element>(nan: u32) {
    let m = Lone::new(2, 1, T::DTYPE.lanes() as u64, Epoch(0));
    let words = words();
    for (i, &a) in words.iter().enumerate() {
        for &b in words.iter().skip(i % 7).step_by(7) {
            let over_f32 = T::narrow(&m, T::add(&m, T::widen(&m, a), T::widen(&m, b)));
            assert_eq!(T::add_words(&m, a, b), over_f32, "{a:#x} + {b:#x}");
            assert_eq!(T::add_words(&m, b, a), over_f32, "{b:#x} + {a:#x}");
            assert_eq!(sum::<_, T, 2>(&m, [Pack([a; 4]), Pack([b; 4])]), Pack([over_f32; 4]));
        }
    }
    // The NaN that a GPU gives, and not one of those that went in.
    assert_eq!(T::add_words(&m, u32::MAX, 0), nan);
    assert_eq!(T::add_words(&m, 0, u32::MAX - 1), nan);
}

#[test]
fn two_words_are_added_as_over_f32() {
    at_once_as_over_f32::<F32>(0x7fff_ffff);
    at_once_as_over_f32::<F16>(0x7fff_7fff);
    at_once_as_over_f32::<Bf16>(0x7fff_7fff);
}
