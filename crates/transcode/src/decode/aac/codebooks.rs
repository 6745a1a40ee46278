//! The Huffman codebooks of AAC (ISO/IEC 14496-3, tables 4.A.1 to 4.A.12), as far as the end of a
//! frame's elements depends on them.
//!
//! All of them are canonical: among the codes sorted by value, shorter ones come first. So the
//! number of codes of each length gives the codes. What a code stands for matters only by the bits
//! that follow it: a sign for each value that is not zero, and escaped values.

use glassline_media::Bits;

/// Most bits that an escaped value has behind its prefix of ones: values have 13 bits (§4.6.3.3).
const ESCAPE_BITS_MAX: u32 = 12;

/// A codebook of scale factors or of spectral values.
#[derive(Debug)]
pub(super) struct Codebook {
    /// Spectral values that a code stands for: 2 or 4, and 1 for scale factors.
    pub(super) values: usize,
    /// Number of codes that are 1, 2, 3… bits long.
    lengths: &'static [u16],
    /// For each code in the order of their values, what follows it: so many signs (`0` to `4`), or
    /// signs and escaped values (`a`: one of each, `b`: two signs and one value, `c`: two of each).
    /// Empty if nothing follows any code.
    kinds: &'static [u8],
}

impl Codebook {
    /// Returns the codebook of a section of the spectrum, by its number from 1 to 11.
    pub(super) fn of_spectrum(number: u8) -> Option<&'static Self> {
        SPECTRUM.get(usize::from(number).checked_sub(1)?)
    }

    /// Reads past a code and what follows it. `None` if the bits end before or are no code.
    pub(super) fn skip_code(&self, bits: &mut Bits<'_>) -> Option<()> {
        let index = self.code(bits)?;
        let (signs, escapes) = match self.kinds.get(index) {
            None => return Some(()),
            Some(b'a') => (1, 1),
            Some(b'b') => (2, 1),
            Some(b'c') => (2, 2),
            Some(digit) => (u32::from(digit - b'0'), 0),
        };
        bits.take(signs)?;
        (0..escapes).try_for_each(|_| skip_escape(bits))
    }

    /// Reads a code. Returns its place among all codes in the order of their values.
    fn code(&self, bits: &mut Bits<'_>) -> Option<usize> {
        let (mut code, mut first, mut before) = (0u32, 0u32, 0usize);
        for count in self.lengths {
            code = code << 1 | u32::from(bits.bit()?);
            let offset = code.checked_sub(first)?;
            if offset < u32::from(*count) {
                return Some(before + offset as usize);
            }
            before += usize::from(*count);
            first = (first + u32::from(*count)) << 1;
        }
        None
    }
}

/// Reads past an escaped value: ones, a zero, and four bits more than there were ones.
fn skip_escape(bits: &mut Bits<'_>) -> Option<()> {
    let mut count = 4;
    while bits.bit()? {
        count += 1;
        if count > ESCAPE_BITS_MAX {
            return None;
        }
    }
    bits.take(count).map(|_| ())
}

/// Scale factors (table 4.A.1).
pub(super) const SCALE_FACTORS: Codebook = Codebook {
    values: 1,
    lengths: &[1, 0, 1, 3, 2, 4, 3, 5, 4, 6, 6, 6, 5, 8, 4, 7, 3, 7, 46],
    kinds: b"",
};

/// Spectral values: the codebooks 1 to 11 (tables 4.A.2 to 4.A.12).
const SPECTRUM: [Codebook; 11] = [
    Codebook {
        values: 4,
        lengths: &[1, 0, 0, 0, 8, 0, 24, 0, 24, 8, 16],
        kinds: b"",
    },
    Codebook {
        values: 4,
        lengths: &[0, 0, 1, 1, 7, 24, 15, 19, 14],
        kinds: b"",
    },
    Codebook {
        values: 4,
        lengths: &[1, 0, 0, 4, 2, 6, 3, 5, 15, 15, 8, 9, 3, 3, 5, 2],
        kinds: b"\
            01111222223234331122323233122122433432324433233322324334423333334444223343444323\
            3",
    },
    Codebook {
        values: 4,
        lengths: &[0, 0, 0, 10, 6, 0, 9, 21, 8, 14, 11, 2],
        kinds: b"\
            43333120222212114444333333333333222222222222111144444433333333343334442222224333\
            3",
    },
    Codebook {
        values: 2,
        lengths: &[1, 0, 0, 4, 4, 0, 4, 12, 12, 12, 18, 10, 4],
        kinds: b"",
    },
    Codebook {
        values: 2,
        lengths: &[0, 0, 0, 9, 0, 16, 13, 8, 23, 8, 4],
        kinds: b"",
    },
    Codebook {
        values: 2,
        lengths: &[1, 0, 2, 1, 0, 4, 5, 10, 14, 15, 8, 4],
        kinds: b"0112221122211222222221122212122222222211222222222222112222222222",
    },
    Codebook {
        values: 2,
        lengths: &[0, 0, 1, 5, 7, 10, 14, 15, 8, 4],
        kinds: b"2212120112222222221122222222221212222222121222222222221212222112",
    },
    Codebook {
        values: 2,
        lengths: &[1, 0, 2, 1, 0, 4, 3, 8, 11, 20, 31, 38, 32, 14, 4],
        kinds: b"\
            01122211222112222222211222222212122222222122222222122212222122221122222222222221\
            22212222222222222222222212212222222122222222222222212212222122222222222222222222\
            222222222",
    },
    Codebook {
        values: 2,
        lengths: &[0, 0, 0, 3, 8, 14, 17, 25, 31, 41, 22, 8],
        kinds: b"\
            22221122222112222022112222222222221212222222222221212222222222222222221222221222\
            22222222222222121222222212222221222222222222222221212122222222222222212122212221\
            222222122",
    },
    Codebook {
        values: 2,
        lengths: &[0, 0, 0, 2, 6, 7, 16, 59, 55, 95, 43, 6],
        kinds: b"\
            02c11222222121222222211222222222222222bbbbb2b121b2bbbb22222bb22bbb22b2bbb2b22bb2\
            221bb222212bb22b2b2222222b221222222122222222222222122222222222a222222a2122222222\
            22222222222222222222221222222222222222222122222222222222222222222222211222222222\
            2222222222222222212212122212222211222212212112112",
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_codebook_is_complete_and_knows_each_of_its_codes() {
        let codes = [81, 81, 81, 81, 81, 81, 64, 64, 169, 169, 289];
        let books = SPECTRUM.iter().zip(codes).chain([(&SCALE_FACTORS, 121)]);
        for (book, expected) in books {
            let mut share = 0.0;
            let mut count = 0;
            for (length, codes) in (1..).zip(book.lengths) {
                share += f64::from(*codes) / f64::from(1u32 << length);
                count += usize::from(*codes);
            }
            assert_eq!((share, count), (1.0, expected), "{book:?}");
            assert!(book.kinds.is_empty() || book.kinds.len() == count);
        }
    }

    /// Codes of the tables in the standard with what they stand for.
    #[test]
    fn codes_are_followed_by_signs_and_escaped_values() {
        let read = |number: u8, bytes: &[u8]| {
            let mut bits = Bits::new(bytes);
            let book = Codebook::of_spectrum(number).expect("1 to 11");
            book.skip_code(&mut bits).map(|()| bits.position())
        };
        // (0, 0, 0, 0) of book 3 is the code 0.
        assert_eq!(read(3, &[0b0000_0000]), Some(1));
        // (0, 0, 0, 1) of book 3 is 1001 or a neighbour of it: four bits and a sign.
        assert_eq!(read(3, &[0b1001_0000]), Some(5));
        // (16, 16) of book 11 is 00100: five bits, two signs, and twice 0 and four bits.
        assert_eq!(read(11, &[0b0010_0000, 0, 0]), Some(5 + 2 + 10));
        // The same with the longest escaped values: eight ones, a zero, twelve bits.
        let longest = [0b0010_0001, 0xfe, 0, 0x0f, 0xf0, 0, 0];
        assert_eq!(read(11, &longest), Some(5 + 2 + 2 * 21));
        assert_eq!(read(11, &[0b0010_0001, 0xff, 0, 0, 0]), None, "nine ones");
        assert_eq!(read(11, &[0b0010_0000, 0]), None, "cut off");
        assert_eq!(read(1, &[]), None);
    }

    #[test]
    fn numbers_of_no_codebook() {
        for number in [0, 12, 255] {
            assert!(Codebook::of_spectrum(number).is_none(), "{number}");
        }
    }
}
