//! Memory, by address and length.

/// Memory of one rank: `bytes` bytes from `address` on, on the host or on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Span {
    /// Address of the first byte.
    pub address: u64,
    /// Its length.
    pub bytes: u64,
}

impl Span {
    /// The memory of a slice.
    pub fn of<T>(slice: &[T]) -> Span {
        Span { address: slice.as_ptr() as u64, bytes: size_of_val(slice) as u64 }
    }

    /// How far `inner` starts behind this one's start, if it lies in it as a whole.
    pub(crate) fn offset_of(&self, inner: Span) -> Option<u64> {
        let offset = inner.address.checked_sub(self.address)?;
        let end = offset.checked_add(inner.bytes)?;
        (end <= self.bytes).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_inside_has_an_offset_and_nothing_else_has() {
        let outer = Span { address: 1000, bytes: 100 };
        let at = |address, bytes| outer.offset_of(Span { address, bytes });
        assert_eq!(at(1000, 100), Some(0));
        assert_eq!(at(1099, 1), Some(99));
        assert_eq!(at(1100, 0), Some(100));
        for (address, bytes) in [(999, 1), (1099, 2), (1101, 0), (1000, u64::MAX), (u64::MAX, 2)] {
            assert_eq!(at(address, bytes), None, "{address} {bytes}");
        }
    }
}
