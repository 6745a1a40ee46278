//! Spectral values and scale factors as Huffman codes: their length, and their bits.

use std::sync::LazyLock;

use super::bit_writer::BitWriter;
use crate::aac::codebooks::{Code, Codebook, SCALE_FACTORS};

/// Number of the codebook for bands whose values are all zero, which have no codes.
pub(super) const ZERO: u8 = 0;

/// Numbers of codebooks: none, and 1 to 11.
pub(super) const BOOKS: usize = 12;

/// Number of the codebook that escapes large values.
const ESCAPE: u8 = 11;

/// Largest difference of two scale factors.
pub(super) const DIFFERENCE_MAX: i32 = 60;

/// Largest quantized value (ISO/IEC 14496-3, §4.6.3.3).
pub(super) const VALUE_MAX: u16 = 8_191;

/// The codes of all codebooks by symbol.
static CODES: LazyLock<Codes> = LazyLock::new(Codes::new);

struct Codes {
    spectrum: Vec<(&'static Codebook, Vec<Code>)>,
    scale_factors: Vec<Code>,
}

impl Codes {
    fn new() -> Self {
        let books = (1..=ESCAPE).filter_map(Codebook::of_spectrum);
        Self {
            spectrum: books.map(|book| (book, book.codes())).collect(),
            scale_factors: SCALE_FACTORS.codes(),
        }
    }
}

/// Returns the number of bits that the values of a band take in codebook `number`; `None` if the
/// codebook lacks one of them. `largest`: largest absolute value of the band.
pub(super) fn bits_of(number: u8, values: &[i16], largest: u16) -> Option<u32> {
    if number == ZERO {
        return (largest == 0).then_some(0);
    }
    let (book, _) = CODES.spectrum.get(usize::from(number) - 1)?;
    if number != ESCAPE && largest > book.largest {
        return None;
    }
    let mut sum = 0;
    encode(number, values, |_, length| sum += length);
    Some(sum)
}

/// Writes the values of a band in codebook `number`, which has all of them.
pub(super) fn write(number: u8, values: &[i16], writer: &mut BitWriter) {
    if number != ZERO {
        encode(number, values, |bits, length| writer.put(bits, length));
    }
}

/// Returns the code for the difference of a scale factor to the one before, −60 to 60.
pub(super) fn scale_factor(difference: i32) -> Code {
    let index = difference.clamp(-DIFFERENCE_MAX, DIFFERENCE_MAX) + DIFFERENCE_MAX;
    CODES.scale_factors[index as usize]
}

/// Gives the fields of the values to `put`, each with its number of bits: codes, signs and escaped
/// values (§4.6.3.3).
fn encode(number: u8, values: &[i16], mut put: impl FnMut(u32, u32)) {
    let (book, codes) = &CODES.spectrum[usize::from(number) - 1];
    let radix = usize::from(book.radix());
    for group in values.chunks_exact(book.values) {
        let (mut symbol, mut signs, mut count) = (0, 0, 0);
        for value in group {
            let magnitude = value.unsigned_abs();
            symbol *= radix;
            if book.is_signed {
                symbol += (i32::from(*value) + i32::from(book.largest)) as usize;
            } else {
                symbol += usize::from(magnitude.min(book.largest));
                if magnitude > 0 {
                    signs = signs << 1 | u32::from(*value < 0);
                    count += 1;
                }
            }
        }
        let code = codes[symbol];
        put(code.bits << count | signs, u32::from(code.length) + count);
        if number == ESCAPE {
            let magnitudes = group.iter().map(|value| value.unsigned_abs());
            for magnitude in magnitudes.filter(|it| *it >= book.largest) {
                // A one for each bit beyond four, a zero, and the bits behind the highest one.
                let length = u32::from(magnitude).ilog2();
                let prefix = (1 << (length - 3)) - 2;
                let rest = u32::from(magnitude) - (1 << length);
                put(prefix << length | rest, length - 3 + length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use glassline_media::Bits;

    use super::*;

    #[test]
    fn codes_have_the_length_that_a_reader_finds() {
        let groups: [(u8, &[i16]); 8] = [
            (1, &[0, 1, -1, 0, -1, -1, -1, -1]),
            (2, &[1, 1, 0, -1]),
            (3, &[0, 0, 0, 1, 2, -2, 0, 1]),
            (4, &[-2, 0, 0, 0]),
            (6, &[-4, 4, 0, 3]),
            (8, &[7, -1, 0, 0]),
            (10, &[12, -12, 0, 5]),
            (11, &[16, -16, 8_191, 0, 15, 31, -32, 17]),
        ];
        for (number, values) in groups {
            let mut writer = BitWriter::default();
            write(number, values, &mut writer);
            let length = writer.bits();
            let largest = values.iter().map(|it| it.unsigned_abs()).max();
            let bits = bits_of(number, values, largest.expect("values"));
            assert_eq!(bits, Some(length as u32), "{number}");
            let bytes = writer.into_bytes();
            let mut reader = Bits::new(&bytes);
            let book = Codebook::of_spectrum(number).expect("1 to 11");
            for _ in 0..values.len() / book.values {
                book.skip_code(&mut reader).expect("a code");
            }
            assert_eq!(reader.position(), length, "{number}");
        }
    }

    /// Bits as the tables of the standard have them.
    #[test]
    fn an_escaped_value_is_a_prefix_and_its_lower_bits() {
        let mut writer = BitWriter::default();
        write(11, &[16, -35], &mut writer);
        // (16, 16) is 00100; signs 0 and 1; 16 is 0 0000; 35 is 10 00011.
        assert_eq!(writer.bits(), 5 + 2 + 5 + 7);
        assert_eq!(writer.into_bytes(), [0b0010_0010, 0b0000_1000, 0b0110_0000]);
    }

    #[test]
    fn a_codebook_without_a_value_is_named_by_none() {
        assert_eq!(bits_of(ZERO, &[0, 0, 0, 0], 0), Some(0));
        assert_eq!(bits_of(ZERO, &[0, 0, 0, 1], 1), None);
        assert_eq!(bits_of(1, &[0, 0, 0, 2], 2), None);
        assert_eq!(bits_of(10, &[0, 0, 0, 13], 13), None);
        assert!(bits_of(11, &[0, 0, 0, 13], 13).is_some());
    }

    #[test]
    fn differences_of_scale_factors_have_codes() {
        let code = scale_factor(0);
        assert_eq!((code.bits, code.length), (0, 1));
        assert_eq!(scale_factor(-60).length, 18);
        assert_eq!(scale_factor(60).length, 19);
    }
}
