//! Random numbers that a seed and an index give, in every build the same.

/// A number that is far from those of other seeds and indices.
pub fn mix(seed: u64, index: u64) -> u64 {
    // The steps of SplitMix64.
    let x = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    #[test]
    fn it_is_the_published_one() {
        // The first numbers of SplitMix64 from 0 and from 1234567.
        assert_eq!(super::mix(0, 0), 0xe220_a839_7b1d_cdaf);
        assert_eq!(
            [0, 1].map(|index| super::mix(1_234_567, index)),
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973]
        );
    }
}
