//! Sections: runs of bands that share a codebook (ISO/IEC 14496-3, §4.6.3.2).

use super::bit_writer::BitWriter;
use super::codes::BOOKS;

/// Bits of a codebook's number.
const NUMBER_BITS: u32 = 4;

/// Bits of a length, for long windows; its largest value says that another one follows.
const LENGTH_BITS: u32 = 5;
const GOES_ON: usize = (1 << LENGTH_BITS) - 1;

/// Cost of a band in each codebook, in bits; `None` where the codebook lacks one of its values.
pub(super) type Costs = [Option<u32>; BOOKS];

/// The codebook of each band, and the bits of both sections and values.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Sections {
    pub(super) books: Vec<u8>,
    pub(super) bits: u32,
}

impl Sections {
    /// Chooses the codebooks that take the fewest bits.
    ///
    /// Each band either goes on with a codebook or begins a section with it, so the cheapest way to
    /// each codebook of a band follows from those of the band before.
    pub(super) fn choose(bands: &[Costs]) -> Self {
        let header = NUMBER_BITS + LENGTH_BITS;
        let mut cheapest: [Option<u32>; BOOKS] = [None; BOOKS];
        let mut ways = Vec::with_capacity(bands.len());
        for (band, costs) in bands.iter().enumerate() {
            let best = lowest(&cheapest);
            let mut way = [0; BOOKS];
            let before = cheapest;
            for (number, cost) in costs.iter().enumerate() {
                let begun = match best {
                    Some((from, bits)) => Some((from, bits + header)),
                    None => (band == 0).then_some((number, header)),
                };
                let goes_on = before[number].map(|bits| (number, bits));
                let reached = [goes_on, begun].into_iter().flatten();
                let reached = reached.min_by_key(|(_, bits)| *bits);
                let total = cost.zip(reached);
                cheapest[number] = total.map(|(cost, (from, bits))| {
                    way[number] = from;
                    bits + cost
                });
            }
            ways.push(way);
        }
        let Some((mut number, _)) = lowest(&cheapest) else {
            return Self::default();
        };
        let mut books = vec![0; bands.len()];
        for (book, way) in books.iter_mut().zip(&ways).rev() {
            *book = number as u8;
            number = way[number];
        }
        let values = bands.iter().zip(&books);
        let values = values.filter_map(|(costs, book)| costs[usize::from(*book)]);
        let bits = values.sum::<u32>() + header_bits(&books);
        Self { books, bits }
    }

    /// Writes the sections, without the values.
    pub(super) fn write(books: &[u8], writer: &mut BitWriter) {
        for section in books.chunk_by(|one, other| one == other) {
            writer.put(u32::from(section[0]), NUMBER_BITS);
            let mut left = section.len();
            while left >= GOES_ON {
                writer.put(GOES_ON as u32, LENGTH_BITS);
                left -= GOES_ON;
            }
            writer.put(left as u32, LENGTH_BITS);
        }
    }
}

/// Returns the bits of the sections themselves.
pub(super) fn header_bits(books: &[u8]) -> u32 {
    let sections = books.chunk_by(|one, other| one == other);
    let bits = sections.map(|it| NUMBER_BITS + LENGTH_BITS * (1 + (it.len() / GOES_ON) as u32));
    bits.sum()
}

/// Returns the codebook with the fewest bits, and the bits.
fn lowest(cheapest: &[Option<u32>; BOOKS]) -> Option<(usize, u32)> {
    let known = cheapest.iter().enumerate();
    let known = known.filter_map(|(number, bits)| Some((number, (*bits)?)));
    known.min_by_key(|(_, bits)| *bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(of: &[(usize, u32)]) -> Costs {
        let mut costs = [None; BOOKS];
        for (number, bits) in of {
            costs[*number] = Some(*bits);
        }
        costs
    }

    #[test]
    fn a_section_begins_where_another_codebook_saves_more_than_its_header() {
        let bands = [
            costs(&[(1, 10), (5, 15)]),
            costs(&[(1, 10), (5, 12)]),
            costs(&[(5, 30)]),
        ];
        let sections = Sections::choose(&bands);
        assert_eq!(sections.books, [5, 5, 5]);
        assert_eq!(sections.bits, 9 + 15 + 12 + 30);
        let bands = [
            costs(&[(1, 10), (5, 15)]),
            costs(&[(1, 10), (5, 15)]),
            costs(&[(5, 30)]),
        ];
        let sections = Sections::choose(&bands);
        assert_eq!(sections.books, [1, 1, 5]);
        assert_eq!(sections.bits, 9 + 20 + 9 + 30);
        assert_eq!(Sections::choose(&[]), Sections::default());
    }

    #[test]
    fn long_sections_take_another_length() {
        for (bands, bits) in [(1, 9), (30, 9), (31, 14), (51, 14), (62, 19)] {
            let books = vec![11; bands];
            let mut writer = BitWriter::default();
            Sections::write(&books, &mut writer);
            assert_eq!(writer.bits(), bits, "{bands}");
            assert_eq!(header_bits(&books), bits as u32, "{bands}");
        }
    }
}
