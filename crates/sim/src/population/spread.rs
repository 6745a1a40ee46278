//! Evenly spread points, so that few sessions already hold the whole of each
//! parameter's distribution.
//!
//! Each parameter is a dimension of its own: the van der Corput sequence with Owen's
//! nested scrambling of its values, and of the order in which they come so that
//! parameters are independent of each other (hashed as in Burley, "Practical
//! Hash-based Owen Scrambling", JCGT 9(4), 2020). The first 2^k points of a dimension,
//! and each 2^k after them, fall one into each 2^k-th part of it: a Latin hypercube
//! that need not know how many will be asked for. A new parameter moves no other.

use glassline_random::mix;

/// A point of the sequence of one stratum of one sample.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spread {
    /// Key that decides the sequence of numbers.
    key: u64,
    /// Number of the point in the sequence.
    rank: u32,
}

impl Spread {
    /// Returns the `rank`-th point of the sequence that `key` decides.
    pub(super) fn new(key: u64, rank: u32) -> Self {
        Self { key, rank }
    }

    /// Returns the point's coordinate in the dimension of this name, in 0..1 without the
    /// ends.
    pub(super) fn along(self, dimension: &str) -> f64 {
        let seed = mix(self.key ^ hash(dimension));
        let [order, value] = [seed as u32, (seed >> 32) as u32];
        // Upper bits are moved as one, so each block of 2^k is visited whole, in another
        // order; mirrored, its k lower bits say which 2^k-th part of the dimension is.
        let place = scramble(self.rank, order);
        let point = scramble(place.reverse_bits(), value);
        (f64::from(point) + 0.5) / (u64::from(u32::MAX) + 1) as f64
    }
}

/// Permutes 32 bits such that each bit is flipped or not depending on those above it.
fn scramble(bits: u32, seed: u32) -> u32 {
    // The hash of Laine and Karras (2011) goes from the lower to the upper bits.
    let mut x = bits.reverse_bits().wrapping_add(seed);
    for factor in [0x6c50_b47c, 0xb82f_1e52, 0xc7af_e638, 0x8d22_f6e6_u32] {
        x ^= x.wrapping_mul(factor);
    }
    x.reverse_bits()
}

/// Returns the FNV-1a hash of a name, mixed.
pub(super) fn hash(name: &str) -> u64 {
    let fnv = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(name.bytes().fold(0xcbf2_9ce4_8422_2325, fnv))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_of_points_falls_one_into_each_part() {
        for (key, first, points) in [(1, 0, 64u32), (2, 64, 64), (3, 1024, 256)] {
            for dimension in ["rate", "delay"] {
                let mut parts = vec![0; points as usize];
                for rank in first..first + points {
                    let at = Spread::new(key, rank).along(dimension);
                    parts[(at * f64::from(points)) as usize] += 1;
                }
                assert!(parts.iter().all(|&count| count == 1), "{key} {dimension}");
            }
        }
    }

    #[test]
    fn dimensions_are_independent_of_each_other() {
        let points = 4096;
        let mut quarters = [0u32; 16];
        for rank in 0..points {
            let spread = Spread::new(9, rank);
            let [x, y] = ["rate", "delay"].map(|name| (spread.along(name) * 4.0) as usize);
            quarters[4 * x + y] += 1;
        }
        let expected = points / 16;
        assert!(
            quarters
                .iter()
                .all(|count| count.abs_diff(expected) < expected / 3),
            "{quarters:?}"
        );
    }

    #[test]
    fn other_keys_give_other_points() {
        let point = |key| Spread::new(key, 0).along("rate");
        assert_eq!(point(1).to_bits(), point(1).to_bits());
        assert_ne!(point(1).to_bits(), point(2).to_bits());
    }
}
