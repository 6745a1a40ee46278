//! Codes the scan of a frame anew with the standard Huffman tables, which payloads imply.
//!
//! The symbols of the scan and the bits behind them stay as they are (ITU-T T.81 §F.1.2), so the
//! picture is the same bit by bit. Only the codes of the symbols change.

use super::huffman::{self, Table};

/// The scan of a frame whose tables are not the standard ones.
pub(super) struct Scan<'a> {
    pub(super) bytes: &'a [u8],
    /// Blocks of luminance in an MCU: 2 or 4. One block of each chrominance follows them.
    pub(super) luma_blocks: usize,
    pub(super) mcus: usize,
    /// Number of MCUs between restart markers; 0 without restart markers.
    pub(super) restart_interval: usize,
    /// DC and AC tables of Y, Cb and Cr.
    pub(super) tables: [[Table<'a>; 2]; 3],
}

impl Scan<'_> {
    /// Returns the scan with the standard tables; `None` if it is damaged.
    pub(super) fn with_standard_tables(&self) -> Option<Vec<u8>> {
        let decoders = self.tables.map(|tables| tables.map(Decoder::new));
        let [luma, chroma] = standard_encoders();
        let mut input = BitReader::new(self.bytes);
        // Standard tables make a scan longer by a few percent.
        let mut out = BitWriter::new(self.bytes.len() + self.bytes.len() / 8 + 64);
        for mcu in 0..self.mcus {
            if self.restart_interval > 0 && mcu > 0 && mcu % self.restart_interval == 0 {
                out.restart(input.restart()?);
            }
            for _ in 0..self.luma_blocks {
                block(&mut input, &decoders[0], &luma, &mut out)?;
            }
            for of_component in &decoders[1..] {
                block(&mut input, of_component, &chroma, &mut out)?;
            }
        }
        Some(out.finish())
    }
}

/// Returns the encoders of DC and AC of luminance and of chrominance.
pub(super) fn standard_encoders() -> [[Encoder; 2]; 2] {
    [
        [huffman::DC_LUMA, huffman::AC_LUMA],
        [huffman::DC_CHROMA, huffman::AC_CHROMA],
    ]
    .map(|tables| tables.map(Encoder::standard))
}

/// Codes one block of 64 coefficients anew.
fn block(
    input: &mut BitReader<'_>,
    [dc, ac]: &[Decoder<'_>; 2],
    [dc_out, ac_out]: &[Encoder; 2],
    out: &mut BitWriter,
) -> Option<()> {
    let bits = dc.symbol(input)?;
    dc_out.write(bits, out)?;
    out.write(input.bits(bits)?, bits);
    let mut place = 1;
    while place < 64 {
        let symbol = ac.symbol(input)?;
        ac_out.write(symbol, out)?;
        let (zeros, bits) = (symbol >> 4, symbol & 0x0f);
        match (zeros, bits) {
            (15, 0) => place += 16,
            (_, 0) => break,
            (zeros, bits) => {
                place += usize::from(zeros) + 1;
                out.write(input.bits(bits)?, bits);
            }
        }
    }
    // A run that leads out of the block is damage.
    (place <= 64).then_some(())
}

/// Finds the symbols of codes (§F.2.2.3).
pub(super) struct Decoder<'a> {
    values: &'a [u8],
    /// For each length: the first code, the number of codes, and the place of the first value.
    lengths: [(u32, u32, usize); 16],
}

impl<'a> Decoder<'a> {
    pub(super) fn new((counts, values): Table<'a>) -> Self {
        let mut lengths = [(0, 0, 0); 16];
        let (mut code, mut place) = (0, 0);
        for (length, &count) in lengths.iter_mut().zip(counts) {
            *length = (code, count.into(), place);
            code = (code + u32::from(count)) << 1;
            place += usize::from(count);
        }
        Self { values, lengths }
    }

    pub(super) fn symbol(&self, input: &mut BitReader<'_>) -> Option<u8> {
        let mut code = 0;
        for (first, count, place) in self.lengths {
            code = code << 1 | input.bit()?;
            if let Some(number) = code.checked_sub(first)
                && number < count
            {
                return self.values.get(place + number as usize).copied();
            }
        }
        None
    }
}

/// Codes and their lengths in bits, by symbol; a length of 0 stands for no code.
pub(super) struct Encoder([(u16, u8); 256]);

impl Encoder {
    /// Makes the codes of a standard table (§C.2).
    fn standard(table: u8) -> Self {
        let mut codes = [(0, 0); 256];
        let mut tables = huffman::TABLES.iter();
        if let Some((_, counts, values)) = tables.find(|(it, ..)| *it == table) {
            let (mut code, mut values) = (0, values.iter());
            for (length, &count) in (1..).zip(counts.iter()) {
                for &value in values.by_ref().take(count.into()) {
                    codes[usize::from(value)] = (code, length);
                    code += 1;
                }
                code <<= 1;
            }
        }
        Self(codes)
    }

    /// Writes a symbol; `None` if the table has no code for it.
    pub(super) fn write(&self, symbol: u8, out: &mut BitWriter) -> Option<()> {
        let (code, length) = self.0[usize::from(symbol)];
        out.write(code.into(), length);
        (length > 0).then_some(())
    }
}

/// Reads bits from the highest on, without the zeros that are stuffed behind 0xff.
pub(super) struct BitReader<'a> {
    rest: &'a [u8],
    byte: u8,
    left: u8,
}

impl<'a> BitReader<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            byte: 0,
            left: 0,
        }
    }

    fn bit(&mut self) -> Option<u32> {
        if self.left == 0 {
            let (&byte, rest) = self.rest.split_first()?;
            self.rest = match byte {
                0xff => rest.strip_prefix(&[0])?,
                _ => rest,
            };
            (self.byte, self.left) = (byte, 8);
        }
        self.left -= 1;
        Some(u32::from(self.byte >> self.left & 1))
    }

    /// Reads up to 15 bits.
    pub(super) fn bits(&mut self, count: u8) -> Option<u32> {
        (0..count).try_fold(0, |value, _| Some(value << 1 | self.bit()?))
    }

    /// Reads a restart marker, before which the last byte is filled; returns its number.
    pub(super) fn restart(&mut self) -> Option<u8> {
        self.left = 0;
        let fill = self.rest.iter().take_while(|byte| **byte == 0xff).count();
        let (&marker, rest) = self.rest.get(fill..)?.split_first()?;
        self.rest = rest;
        (fill > 0 && (0xd0..=0xd7).contains(&marker)).then_some(marker)
    }
}

/// Writes bits from the highest on, and stuffs a zero behind each 0xff.
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that do not fill a byte yet, and their number.
    bits: u32,
    count: u8,
}

impl BitWriter {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            bytes: Vec::with_capacity(capacity),
            bits: 0,
            count: 0,
        }
    }

    /// Writes the lowest `count` bits of `bits`, at most 16.
    pub(super) fn write(&mut self, bits: u32, count: u8) {
        self.bits = self.bits << count | bits;
        self.count += count;
        while self.count >= 8 {
            self.count -= 8;
            let byte = (self.bits >> self.count & 0xff) as u8;
            self.bytes.push(byte);
            if byte == 0xff {
                self.bytes.push(0);
            }
        }
        self.bits &= (1 << self.count) - 1;
    }

    /// Fills the last byte with ones.
    fn fill(&mut self) {
        if self.count > 0 {
            let missing = 8 - self.count;
            self.write((1 << missing) - 1, missing);
        }
    }

    fn restart(&mut self, marker: u8) {
        self.fill();
        self.bytes.extend([0xff, marker]);
    }

    pub(super) fn finish(mut self) -> Vec<u8> {
        self.fill();
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two gray MCUs of 4:2:2 with this restart interval, in standard tables.
    fn recoded(bytes: &[u8], restart_interval: usize) -> Option<Vec<u8>> {
        let of = |[dc, ac]: [u8; 2]| {
            [dc, ac].map(|table| huffman::standard(table).expect("a standard table"))
        };
        let chroma = [huffman::DC_CHROMA, huffman::AC_CHROMA];
        let scan = Scan {
            bytes,
            luma_blocks: 2,
            mcus: 2,
            restart_interval,
            tables: [[huffman::DC_LUMA, huffman::AC_LUMA], chroma, chroma].map(of),
        };
        scan.with_standard_tables()
    }

    #[test]
    fn restart_markers_stay_between_filled_bytes() {
        let marked = [0x28, 0xa0, 0x0f, 0xff, 0xd0, 0x28, 0xa0, 0x0f];
        assert_eq!(recoded(&marked, 1).as_deref(), Some(&marked[..]));
        let plain = [0x28, 0xa0, 0x02, 0x8a, 0x00];
        assert_eq!(recoded(&plain, 0).as_deref(), Some(&plain[..]));
        assert_eq!(recoded(&plain, 1), None, "a marker is missing");
        for cut in 0..plain.len() {
            assert_eq!(recoded(&plain[..cut], 0), None, "{cut} bytes");
        }
    }

    #[test]
    fn bytes_of_ones_are_stuffed_and_read_without_the_zero() {
        let mut out = BitWriter::new(8);
        out.write(0x3ff, 10);
        out.write(0, 3);
        let bytes = out.finish();
        assert_eq!(bytes, [0xff, 0x00, 0b1100_0111]);
        let mut input = BitReader::new(&bytes);
        assert_eq!(input.bits(10), Some(0x3ff));
        assert_eq!(input.bits(3), Some(0));
        assert_eq!(BitReader::new(&[0xff, 0xd9]).bit(), None, "a marker");
    }
}
