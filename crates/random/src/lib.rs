//! Random numbers of a seed, for cores and simulations: the same on every machine, and not for
//! secrets.

/// A small seeded random number generator: xoshiro256++ (Blackman and Vigna, 2019), its
/// state filled by SplitMix64. The same seed gives the same numbers on every machine and in
/// every version. Not for secrets.
#[derive(Clone, Debug)]
pub struct Rng {
    /// State of the generator.
    state: [u64; 4],
}

impl Rng {
    /// Returns the generator of `seed`; every seed is valid, including 0.
    pub fn new(seed: u64) -> Self {
        let mut x = seed;
        Self {
            state: std::array::from_fn(|_| {
                x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
                mix(x)
            }),
        }
    }

    /// Returns a generator that is independent of this one and of other `label`s, so that
    /// drawing more numbers from one does not change another.
    #[must_use]
    pub fn fork(&self, label: u64) -> Self {
        let [a, b, c, d] = self.state;
        let seed = a ^ b.rotate_left(13) ^ c.rotate_left(29) ^ d.rotate_left(47);
        Self::new(mix(seed ^ mix(label.wrapping_add(1))))
    }

    /// Returns 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.state;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let shifted = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= shifted;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// Returns a number below `bound`, evenly distributed (by multiplication: the bias is
    /// below `bound` ÷ 2⁶⁴). 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let wide = u128::from(self.next_u64()) * u128::from(bound);
        u64::try_from(wide >> 64).expect("below the bound")
    }

    /// Returns a number in 0.0..1.0, in steps of 2⁻⁵³.
    pub fn unit(&mut self) -> f64 {
        unit(self.next_u64())
    }

    /// Returns true with `probability`; never for 0 or less, always for 1 or more. Draws a
    /// number in every case, so that changing a probability does not shift later numbers.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// Fills `bytes` with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            let random = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&random[..chunk.len()]);
        }
    }
}

/// Returns a number in 0.0..1.0 from the upper 53 of random bits.
// 53 bits fit an f64 exactly.
pub fn unit(random: u64) -> f64 {
    (random >> 11) as f64 / (1u64 << 53) as f64
}

/// Mixes 64 bits by SplitMix64's output function (Steele, Lea and Flood, 2014).
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First outputs of SplitMix64 for seed 1234567, as its authors' reference
    /// program prints them, seed the state.
    #[test]
    fn the_state_is_filled_by_splitmix64() {
        assert_eq!(
            Rng::new(1_234_567).state,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
            ]
        );
    }

    /// First outputs for the state 1, 2, 3, 4; the first is (1 + 4) << 23 plus 1.
    #[test]
    fn the_numbers_are_xoshiro256_plus_plus() {
        let mut rng = Rng {
            state: [1, 2, 3, 4],
        };
        let first: Vec<_> = (0..3).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223]);
    }

    #[test]
    fn numbers_spread_evenly() {
        let mut rng = Rng::new(7);
        let mut counts = [0u32; 10];
        for _ in 0..100_000 {
            counts[usize::try_from(rng.below(10)).expect("below 10")] += 1;
        }
        assert!(
            counts.iter().all(|n| (9_500..10_500).contains(n)),
            "{counts:?}"
        );
        let hits = (0..100_000).filter(|_| rng.chance(0.05)).count();
        assert!((4_700..5_300).contains(&hits), "{hits}");
        assert!((0..1000).all(|_| !rng.chance(0.0)));
        assert!((0..1000).all(|_| rng.chance(1.0)));
        assert_eq!(rng.below(0), 0);
    }

    #[test]
    fn forks_differ_from_each_other_and_leave_the_parent_alone() {
        let mut rng = Rng::new(1);
        let (mut a, mut b) = (rng.fork(0), rng.fork(1));
        let mut again = rng.fork(0);
        assert_ne!(a.next_u64(), b.next_u64());
        again.next_u64();
        assert_eq!(a.next_u64(), again.next_u64());
        assert_eq!(rng.next_u64(), Rng::new(1).next_u64());
        let mut bytes = [0; 11];
        a.fill(&mut bytes);
        assert!(bytes.iter().any(|&byte| byte != 0));
    }
}
