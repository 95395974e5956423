//! The numbers that ranks put into a call of the self-test. Rank `r` gives `2^r` or 0, from element to element as a hash says: so the
//! bits of a sum say who gave what, and every sum is exact in every dtype.

use std::array::from_fn;

use allfold_kernels::protocol::abi::{Dtype, MAX_RANKS, PACK_BYTES};
use half::{bf16, f16};

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
        let hash = fnv1a(&[self.call.to_le_bytes(), rank.to_le_bytes(), (elem as u32).to_le_bytes()].concat());
        hash >> 32 & 1 == 1
    }

    /// What `rank` puts in.
    pub(crate) fn input(self, rank: u32) -> Vec<u8> {
        (0..self.elems()).flat_map(|elem| self.word(u8::from(self.gives(rank, elem)) << rank)).collect()
    }

    /// Who gives a number to the sum of an element: a bit for each.
    pub(crate) fn sum(self, elem: usize) -> u8 {
        (0..self.world).fold(0, |bits, rank| bits | u8::from(self.gives(rank, elem)) << rank)
    }

    /// Whose numbers make up an element of `output`; `None`: it is no sum of any, or not there.
    pub(crate) fn read(self, output: &[u8], elem: usize) -> Option<u8> {
        let bytes = self.dtype.bytes();
        let word = output.get(elem * bytes..(elem + 1) * bytes)?;
        let most = u8::MAX >> (MAX_RANKS as u32 - self.world);
        (0..=most).find(|&bits| self.word(bits).eq(word.iter().copied()))
    }

    /// A number as an element has it.
    pub(crate) fn word(self, number: u8) -> impl Iterator<Item = u8> {
        let word: [u8; 4] = match self.dtype {
            Dtype::F32 => f32::from(number).to_ne_bytes(),
            Dtype::I32 => i32::from(number).to_ne_bytes(),
            Dtype::F16 => low(f16::from_f32(number.into()).to_ne_bytes()),
            Dtype::Bf16 => low(bf16::from_f32(number.into()).to_ne_bytes()),
        };
        word.into_iter().take(self.dtype.bytes())
    }
}

fn low([one, two]: [u8; 2]) -> [u8; 4] {
    from_fn(|byte| [one, two, 0, 0][byte])
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
                assert_eq!(pattern.read(&word, 0), (bits <= most).then_some(bits), "{pattern:?}");
            }
            assert_eq!(pattern.read(&[0xff; 4], 0), None);
            assert_eq!(pattern.read(&[], 0), None);
            let value: fn(&[u8]) -> f64 = match pattern.dtype {
                Dtype::F32 => |word| f32::from_ne_bytes(word.try_into().expect("4 bytes")).into(),
                Dtype::I32 => |word| i32::from_ne_bytes(word.try_into().expect("4 bytes")).into(),
                Dtype::F16 => |word| f16::from_ne_bytes(word.try_into().expect("2 bytes")).into(),
                Dtype::Bf16 => |word| bf16::from_ne_bytes(word.try_into().expect("2 bytes")).into(),
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
