//! Numbers that look random and are the same in every run: splitmix64; and bytes with something wrong.

/// Where the numbers are.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }

    /// These bytes with something wrong: a bit turned, an end missing, something more, or all of them others.
    pub(crate) fn spoil(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut spoiled = bytes.to_vec();
        match self.below(4) {
            0 if !bytes.is_empty() => spoiled[self.below(bytes.len())] ^= 1 << self.below(8),
            1 => spoiled.truncate(self.below(bytes.len())),
            2 => {
                let count = 1 + self.below(64);
                spoiled.extend(self.bytes(count));
            }
            _ => {
                let count = self.below(2 * bytes.len() + 2);
                spoiled = self.bytes(count);
            }
        }
        spoiled
    }
}
