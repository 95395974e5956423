//! Numbers and strings in little-endian bytes, one after the other, with an end.

/// Bytes that are read from the front. A read past the end is `None`.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(count)?;
        self.0 = left;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A text with its length before it.
    pub(crate) fn text(&mut self) -> Option<String> {
        let count = self.u8()?;
        String::from_utf8(self.bytes(usize::from(count))?.to_vec()).ok()
    }

    /// `value`, if all has been read.
    pub(crate) fn end<T>(&self, value: T) -> Option<T> {
        self.0.is_empty().then_some(value)
    }
}

/// Bytes that are written at the end.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn bytes(mut self, bytes: &[u8]) -> Writer {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(self, value: u8) -> Writer {
        self.bytes(&[value])
    }

    pub(crate) fn u32(self, value: u32) -> Writer {
        self.bytes(&value.to_le_bytes())
    }

    pub(crate) fn u64(self, value: u64) -> Writer {
        self.bytes(&value.to_le_bytes())
    }

    /// A text of at most 255 bytes; the rest is cut off.
    pub(crate) fn text(self, text: &str) -> Writer {
        let end = text.floor_char_boundary(text.len().min(usize::from(u8::MAX)));
        self.u8(end as u8).bytes(&text.as_bytes()[..end])
    }
}
