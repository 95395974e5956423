//! A rank's buffer between two guard zones, as bytes on the host.

use allfold::Element;
use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};

/// Bytes of each guard zone, and the alignment of the data between them.
pub const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0xa5;
/// Every word of this is a NaN, in every dtype.
const POISON: u8 = 0xff;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(256))]
struct Line([u8; GUARD_BYTES]);

/// `bytes` bytes of data; a guard zone before them, and one of 256 bytes or a little more behind them.
#[derive(Clone)]
pub struct Guarded {
    lines: Vec<Line>,
    bytes: usize,
}

impl Guarded {
    /// Bytes of data and guard zones together.
    pub const fn all_bytes(bytes: usize) -> usize {
        bytes.next_multiple_of(GUARD_BYTES) + 2 * GUARD_BYTES
    }

    /// Intact guard zones round data that are NaN.
    pub fn poisoned(bytes: usize) -> Guarded {
        let lines = Guarded::all_bytes(bytes) / GUARD_BYTES;
        let mut guarded = Guarded { lines: vec![Line([GUARD; GUARD_BYTES]); lines], bytes };
        guarded.all_mut()[GUARD_BYTES..GUARD_BYTES + bytes].fill(POISON);
        guarded
    }

    /// Guard zones and data.
    pub fn all(&self) -> &[u8] {
        cast_slice(&self.lines)
    }

    /// Guard zones and data.
    pub fn all_mut(&mut self) -> &mut [u8] {
        cast_slice_mut(&mut self.lines)
    }

    /// The data.
    pub fn data<T: Element>(&self) -> &[T] {
        cast_slice(&self.all()[GUARD_BYTES..GUARD_BYTES + self.bytes])
    }

    /// The data.
    pub fn data_mut<T: Element>(&mut self) -> &mut [T] {
        let data = GUARD_BYTES..GUARD_BYTES + self.bytes;
        cast_slice_mut(&mut self.all_mut()[data])
    }

    /// Elements' worth of guard zone that somebody has written to.
    pub fn damaged<T: Element>(&self) -> u64 {
        let (before, rest) = self.all().split_at(GUARD_BYTES);
        let behind = &rest[self.bytes..];
        let elems = before.chunks(size_of::<T>()).chain(behind.chunks(size_of::<T>()));
        elems.filter(|elem| elem.iter().any(|&byte| byte != GUARD)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_aligned_and_poisoned_and_zones_intact() {
        for bytes in [0, 4, 252, 256, 260, 1000] {
            let guarded = Guarded::poisoned(bytes);
            assert_eq!(guarded.all().len(), Guarded::all_bytes(bytes));
            assert!(guarded.all().len() >= 2 * GUARD_BYTES + bytes);
            assert!(guarded.data::<f32>().as_ptr().addr().is_multiple_of(GUARD_BYTES));
            assert_eq!(guarded.data::<f32>().len() * 4, bytes);
            assert!(guarded.data::<f32>().iter().all(|x| x.is_nan()));
            assert!(guarded.data::<half::f16>().iter().all(|x| x.is_nan()));
            assert!(guarded.data::<half::bf16>().iter().all(|x| x.is_nan()));
            assert_eq!(guarded.damaged::<f32>(), 0);
        }
    }

    #[test]
    fn one_byte_outside_the_data_is_seen() {
        let mut guarded = Guarded::poisoned(12);
        for (at, damaged) in [(255, 1), (268, 2), (252, 2), (0, 3)] {
            guarded.all_mut()[at] = 0;
            assert_eq!(guarded.damaged::<f32>(), damaged, "byte {at}");
        }
        guarded.data_mut::<f32>().fill(0.0);
        assert_eq!(guarded.damaged::<f32>(), 3);
    }
}
