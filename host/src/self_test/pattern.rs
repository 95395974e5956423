//! The numbers that ranks put into a call of the self-test. Rank `r` gives `2^r` or 0, from element to element as a hash says: so the
//! bits of a sum say who gave what. Where a dtype has not a bit for each rank, one rank alone gives a number to each element; so every sum is
//! exact.

use allfold_kernels::protocol::abi::{Dtype, MAX_RANKS, PACK_BYTES};
use half::{bf16, f16};

use crate::element::{E4m3, E5m2};
use crate::hash::fnv1a;

// A sum has a bit for each rank, and bf16 has eight.
const _: () = assert!(MAX_RANKS <= 8);

/// Packs of a call for each rank: in a two-shot each has so many to sum up.
const PACKS_OF_RANK: u64 = 4;

/// One call's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pattern {
    pub(crate) dtype: Dtype,
    pub(crate) world: u32,
    /// Other numbers in each call, so that what an earlier one has left is seen.
    pub(crate) call: u32,
}

impl Pattern {
    pub(crate) fn packs(self) -> u64 {
        PACKS_OF_RANK * u64::from(self.world)
    }

    pub(crate) fn elems(self) -> usize {
        self.packs() as usize * self.dtype.lanes()
    }

    /// Bytes of a buffer: whole packs.
    pub(crate) fn bytes(self) -> usize {
        self.packs() as usize * PACK_BYTES
    }

    /// Whether `rank`'s number is not 0.
    fn gives(self, rank: u32, elem: usize) -> bool {
        let hash =
            |by: u32| fnv1a(&[self.call.to_le_bytes(), by.to_le_bytes(), (elem as u32).to_le_bytes()].concat()) >> 32;
        match self.has_all_bits() {
            true => hash(rank) & 1 == 1,
            false => hash(u32::MAX) % u64::from(self.world) == u64::from(rank),
        }
    }

    /// What `rank` puts in.
    pub(crate) fn input(self, rank: u32) -> Vec<u8> {
        (0..self.elems()).flat_map(|elem| self.word(u8::from(self.gives(rank, elem)) << rank)).collect()
    }

    /// Who gives a number to the sum of an element: a bit for each.
    pub(crate) fn sum(self, elem: usize) -> u8 {
        (0..self.world).fold(0, |bits, rank| bits | u8::from(self.gives(rank, elem)) << rank)
    }

    /// Whether a sum of any ranks' numbers is exact. Of 8-bit floating-point numbers it is not: there one rank gives a number to each.
    fn has_all_bits(self) -> bool {
        !matches!(self.dtype, Dtype::E4m3 | Dtype::E5m2)
    }

    /// Whose numbers make up an element of `output`; `None`: it is no sum of any, or not there.
    pub(crate) fn read(self, output: &[u8], elem: usize) -> Option<u8> {
        let bytes = self.dtype.bytes();
        let word = output.get(elem * bytes..(elem + 1) * bytes)?;
        let most = u8::MAX >> (MAX_RANKS as u32 - self.world);
        let mut sums = (0..=most).filter(|bits| self.has_all_bits() || bits.count_ones() <= 1);
        sums.find(|&bits| self.word(bits).eq(word.iter().copied()))
    }

    /// A number as an element has it.
    pub(crate) fn word(self, number: u8) -> impl Iterator<Item = u8> {
        let word: [u8; 8] = match self.dtype {
            Dtype::F64 => f64::from(number).to_le_bytes(),
            Dtype::F32 => low(f32::from(number).to_bits()),
            Dtype::F16 => low(f16::from_f32(number.into()).to_bits().into()),
            Dtype::Bf16 => low(bf16::from_f32(number.into()).to_bits().into()),
            Dtype::E4m3 => low(E4m3::from_f32(number.into()).0.into()),
            Dtype::E5m2 => low(E5m2::from_f32(number.into()).0.into()),
            Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64 => low(number.into()),
        };
        word.into_iter().take(self.dtype.bytes())
    }
}

fn low(bits: u32) -> [u8; 8] {
    u64::from(bits).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use allfold_kernels::protocol::abi::Rank;
    use allfold_kernels::protocol::share::part;

    use super::*;

    fn all() -> impl Iterator<Item = Pattern> {
        let worlds = (2..=MAX_RANKS as u32).flat_map(|world| (0..6).map(move |call| (world, call)));
        worlds.flat_map(|(world, call)| Dtype::ALL.map(|dtype| Pattern { dtype, world, call }))
    }

    #[test]
    fn every_sum_is_exact_and_says_who_gave_what() {
        for pattern in all() {
            let most = u8::MAX >> (MAX_RANKS as u32 - pattern.world);
            for bits in 0..=u8::MAX {
                let word: Vec<_> = pattern.word(bits).collect();
                assert_eq!(word.len(), pattern.dtype.bytes());
                // Another sum of numbers of 8 bits may be rounded to one of these.
                if pattern.has_all_bits() || bits.count_ones() <= 1 {
                    assert_eq!(pattern.read(&word, 0), (bits <= most).then_some(bits), "{pattern:?}");
                }
            }
            // Of 8 ranks, every integer of a byte is a sum.
            if pattern.dtype.bytes() > 1 {
                assert_eq!(pattern.read(&[0x55; 8], 0), None);
            }
            assert_eq!(pattern.read(&[], 0), None);
            let value = |word: &[u8]| -> f64 {
                let bits = word.iter().rev().fold(0_u64, |bits, &byte| bits << 8 | u64::from(byte));
                match pattern.dtype {
                    Dtype::F64 => f64::from_bits(bits),
                    Dtype::F32 => f32::from_bits(bits as u32).into(),
                    Dtype::F16 => f16::from_bits(bits as u16).into(),
                    Dtype::Bf16 => bf16::from_bits(bits as u16).into(),
                    Dtype::E4m3 => E4m3(bits as u8).to_f32().into(),
                    Dtype::E5m2 => E5m2(bits as u8).to_f32().into(),
                    // Whatever has a sign: no sum is larger than a byte.
                    Dtype::I8 | Dtype::U8 | Dtype::I32 | Dtype::U32 | Dtype::I64 | Dtype::U64 => bits as f64,
                }
            };
            let inputs: Vec<_> = (0..pattern.world).map(|rank| pattern.input(rank)).collect();
            for elem in 0..pattern.elems() {
                let at = elem * pattern.dtype.bytes();
                let sum: f64 = inputs.iter().map(|input| value(&input[at..at + pattern.dtype.bytes()])).sum();
                assert_eq!(sum, f64::from(pattern.sum(elem)), "{pattern:?}, element {elem}");
            }
        }
    }

    #[test]
    fn each_rank_gives_numbers_and_none_to_each_part_and_no_two_ranks_or_calls_the_same() {
        for pattern in all() {
            assert_eq!(pattern.input(0).len(), pattern.bytes());
            for rank in 0..pattern.world {
                for owner in 0..pattern.world {
                    let part = part(pattern.packs(), pattern.world, Rank(owner));
                    let lanes = pattern.dtype.lanes();
                    let given: Vec<_> = (part.start as usize * lanes..part.end as usize * lanes)
                        .map(|elem| pattern.gives(rank, elem))
                        .collect();
                    assert!(given.contains(&true) && given.contains(&false), "{pattern:?}, {rank} in part {owner}");
                }
                let given = |pattern: Pattern, rank| -> Vec<_> {
                    (0..pattern.elems()).map(|elem| pattern.gives(rank, elem)).collect()
                };
                let next = Pattern { call: pattern.call + 1, ..pattern };
                assert_ne!(given(pattern, rank), given(next, rank));
                assert_ne!(given(pattern, rank), given(pattern, (rank + 1) % pattern.world));
            }
        }
    }
}
