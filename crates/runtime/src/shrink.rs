//! Tables that give memory back after a peak.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash};

/// Entries for which a table keeps room in any case.
const KEPT: usize = 64;

/// Gives memory back if `table` has room for eight times as many entries as it holds. Call it after
/// a removal. Room for twice as many entries remains, so that the next call that does something is
/// far away.
pub fn shrink<K: Eq + Hash, V, S: BuildHasher>(table: &mut HashMap<K, V, S>) {
    if table.capacity() > 8 * (table.len() + KEPT) {
        table.shrink_to(2 * (table.len() + KEPT));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_small_again_after_a_peak() {
        let mut table: HashMap<u32, [u8; 32]> = (0..20_000).map(|key| (key, [0; 32])).collect();
        let mut changes = 0;
        for key in 0..20_000 {
            table.remove(&key);
            let before = table.capacity();
            shrink(&mut table);
            changes += usize::from(table.capacity() != before);
            assert!(table.capacity() <= 16 * (table.len() + KEPT));
        }
        assert!(table.capacity() <= 8 * KEPT, "{}", table.capacity());
        assert!(changes <= 8, "{changes} times");
    }
}
