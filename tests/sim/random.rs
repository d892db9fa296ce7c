//! Choices that follow from a seed.

/// A generator (`SplitMix64`, Steele and others 2014).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of the `number`-th case of a seed.
    pub fn of(seed: u64, number: u64) -> Self {
        let mut first = Self(seed);
        let own = first.next() ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Self(own);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `count`, which is not 0.
    pub fn below(&mut self, count: usize) -> usize {
        usize::try_from(self.next() % count as u64).unwrap()
    }

    /// True in `times` of `of` cases.
    pub fn is_one_in(&mut self, times: usize, of: usize) -> bool {
        self.below(of) < times
    }
}

/// The seed that the environment gives, or a fixed one.
pub fn seed() -> u64 {
    std::env::var("RONDO_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x0072_6f6e_646f)
}
