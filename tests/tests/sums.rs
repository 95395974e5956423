//! What kernels do to numbers: sums of two words at once have the bits of the way over f32, whichever rank comes first; and 8 bits are rounded to
//! as their values say.

mod lone;

use std::array::from_fn;

use allfold_kernels::protocol::element::{Any, E4m3, E5m2, Element, Number, Sum, Wide, Words};
use allfold_kernels::protocol::epoch::Epoch;
use allfold_kernels::protocol::machine::{Machine, Pack};
use allfold_tests::data::Data;
use allfold_tests::numbers::{decode, encode};
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

fn at_once_as_over_f32<T: Words>(nan: u32) {
    let m = Lone::new(2, 1, T::DTYPE.lanes() as u64, Epoch(0));
    let words = words();
    for (i, &a) in words.iter().enumerate() {
        for &b in words.iter().skip(i % 7).step_by(7) {
            let over_f32 = T::narrow(&m, T::widen(&m, a).zip(T::widen(&m, b), |a, b| m.add_f32(a, b)));
            assert_eq!(T::add(&m, a, b), over_f32, "{a:#x} + {b:#x}");
            assert_eq!(T::add(&m, b, a), over_f32, "{b:#x} + {a:#x}");
            assert_eq!(Sum::<T>::reduce::<_, 2>(&m, [Pack([a; 4]), Pack([b; 4])]), Pack([over_f32; 4]));
        }
    }
    // The NaN that a GPU gives, and not one of those that went in.
    assert_eq!(T::add(&m, u32::MAX, 0), nan);
    assert_eq!(T::add(&m, 0, u32::MAX - 1), nan);
}

#[test]
fn two_words_are_added_as_over_f32() {
    at_once_as_over_f32::<f32>(0x7fff_ffff);
    at_once_as_over_f32::<half::f16>(0x7fff_7fff);
    at_once_as_over_f32::<half::bf16>(0x7fff_7fff);
}

/// Every number of 8 bits, its neighbours in f32, and what lies half-way between two: as the oracle has it, which knows no bit tricks.
#[test]
fn numbers_of_8_bits_are_widened_and_rounded_as_their_values_say() {
    fn of<T: Words<Wide = [f32; 4]>>() {
        let m = Lone::new(2, 1, T::DTYPE.lanes() as u64, Epoch(0));
        let numbers: Vec<f32> = (0..=u8::MAX)
            .map(|bits| {
                let [first, .., last] = T::widen(&m, u32::from(bits) << 24 | u32::from(bits));
                let value = decode(T::DTYPE, bits.into());
                assert!(
                    f64::from(first) == value || first.is_nan() && value.is_nan(),
                    "{bits:#x}: {first}, not {value}"
                );
                assert!(
                    first.to_bits() == last.to_bits() && (first.is_nan() || first.is_sign_negative() == (bits > 0x7f))
                );
                first
            })
            .collect();
        let pairs = numbers.iter().zip(numbers.iter().skip(1)).map(|(&a, &b)| f32::midpoint(a, b));
        let others =
            [0.0, f32::MIN_POSITIVE, 1e-9, 449.0, 480.0, 57345.0, 65536.0, 1e30, f32::MAX, f32::INFINITY, f32::NAN];
        for value in numbers.iter().copied().chain(pairs).chain(others) {
            for value in [value, value.next_up(), value.next_down()] {
                for value in [value, -value] {
                    let (got, want) = (T::narrow(&m, [value; 4]), encode(T::DTYPE, value.into()) as u32);
                    assert_eq!(got, want * 0x0101_0101, "{value:e}");
                }
            }
        }
    }
    of::<E4m3>();
    of::<E5m2>();
}

/// The shortest way of a sum has the bits of the way that kernels of any operation go. (One rank alone keeps its NaNs, or makes them the one.)
#[test]
fn a_sum_that_is_known_before_has_the_bits_of_one_that_the_call_asks_for() {
    fn of<T: Number>() {
        fn over<T: Number, const W: usize>(seed: u64) {
            let m = Lone::new(W as u32, 1, T::DTYPE.lanes() as u64, Epoch(0));
            let edges = |rank: usize, word: usize| {
                let data = if seed.is_multiple_of(3) { Data::Edges(seed) } else { Data::Bits(seed) };
                let lanes = 4 / T::DTYPE.bytes().min(4);
                let elem = |lane| data.bits(T::DTYPE, rank, (seed as usize * 4 + word) * lanes + lane);
                (0..lanes).fold(0, |bits, lane| bits | elem(lane) << (32 / lanes * lane)) as u32
            };
            let packs: [Pack; W] = from_fn(|rank| Pack(from_fn(|word| edges(rank, word))));
            let (known, asked) = (Sum::<T>::reduce(&m, packs), Any::<T>::reduce(&m, packs));
            assert_eq!(known, asked, "{:?}, {W} ranks: {packs:x?}", T::DTYPE);
        }
        for seed in 0..500 {
            over::<T, 2>(seed);
            over::<T, 3>(seed);
            over::<T, 5>(seed);
            over::<T, 8>(seed);
        }
    }
    of::<f32>();
    of::<half::f16>();
    of::<half::bf16>();
    of::<i32>();
}
