//! Quantization tables as in DQT segments: 64 bytes in zigzag order.

/// Length of one table in bytes.
pub(super) const TABLE_BYTES: usize = 64;

/// The table of luminance, then the table of both chrominances.
pub(super) type Tables = [u8; 2 * TABLE_BYTES];

/// Joins two tables of 64 bytes each; `None` if one has another length.
pub(super) fn join(luma: &[u8], chroma: &[u8]) -> Option<Tables> {
    let mut tables = [0; 2 * TABLE_BYTES];
    let (first, second) = tables.split_at_mut(TABLE_BYTES);
    if luma.len() != TABLE_BYTES || chroma.len() != TABLE_BYTES {
        return None;
    }
    first.copy_from_slice(luma);
    second.copy_from_slice(chroma);
    Some(tables)
}

/// Returns the tables of a Q of 1–99, scaled from those of ITU-T T.81 annex K.1 (RFC 2435
/// §4.2); `None` for other values, which are reserved.
pub(super) fn by_factor(q: u8) -> Option<Tables> {
    let scale = match u32::from(q) {
        q @ 1..50 => 5000 / q,
        q @ 50..=99 => 200 - 2 * q,
        _ => return None,
    };
    let mut tables = [0; 2 * TABLE_BYTES];
    for (table, base) in tables.chunks_mut(TABLE_BYTES).zip([&LUMA, &CHROMA]) {
        for (entry, place) in table.iter_mut().zip(ZIGZAG) {
            let value = (u32::from(base[usize::from(place)]) * scale + 50) / 100;
            *entry = value.clamp(1, 255) as u8;
        }
    }
    Some(tables)
}

/// Luminance table, row by row (ITU-T T.81 table K.1).
#[rustfmt::skip]
const LUMA: [u8; TABLE_BYTES] = [
    16, 11, 10, 16, 24, 40, 51, 61,
    12, 12, 14, 19, 26, 58, 60, 55,
    14, 13, 16, 24, 40, 57, 69, 56,
    14, 17, 22, 29, 51, 87, 80, 62,
    18, 22, 37, 56, 68, 109, 103, 77,
    24, 35, 55, 64, 81, 104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101,
    72, 92, 95, 98, 112, 100, 103, 99,
];

/// Chrominance table, row by row (ITU-T T.81 table K.2).
#[rustfmt::skip]
const CHROMA: [u8; TABLE_BYTES] = [
    17, 18, 24, 47, 99, 99, 99, 99,
    18, 21, 26, 66, 99, 99, 99, 99,
    24, 26, 56, 99, 99, 99, 99, 99,
    47, 66, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99,
];

/// Index in row order for each position in zigzag order (ITU-T T.81 figure A.6).
#[rustfmt::skip]
const ZIGZAG: [u8; TABLE_BYTES] = [
    0, 1, 8, 16, 9, 2, 3, 10,
    17, 24, 32, 25, 18, 11, 4, 5,
    12, 19, 26, 33, 40, 48, 41, 34,
    27, 20, 13, 6, 7, 14, 21, 28,
    35, 42, 49, 56, 57, 50, 43, 36,
    29, 22, 15, 23, 30, 37, 44, 51,
    58, 59, 52, 45, 38, 31, 39, 46,
    53, 60, 61, 54, 47, 55, 62, 63,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_scale_the_tables_of_the_standard() {
        let tables = by_factor(50).expect("the tables as they are");
        assert_eq!(tables[..8], [16, 11, 12, 14, 12, 10, 16, 14]);
        assert_eq!(tables[64..72], [17, 18, 18, 24, 21, 24, 47, 26]);
        assert_eq!(
            by_factor(99).map(|it| it[0]),
            Some(1),
            "(16 * 2 + 50) / 100 is 0"
        );
        assert_eq!(by_factor(1).map(|it| it[0]), Some(255));
        assert_eq!(by_factor(25).map(|it| it[1]), Some(22));
        assert!([0, 100, 127].into_iter().all(|q| by_factor(q).is_none()));
    }
}
