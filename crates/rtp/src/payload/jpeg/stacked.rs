//! MCUs of 4:2:2 that are two of the payload's, one above the other.
//!
//! ```text
//! in the frame   Y00 Y01 Y10 Y11 Cb0 Cb1 Cr0 Cr1     16 × 16 pixels
//! in a payload   Y00 Y01 Cb0 Cr0 │ Y10 Y11 Cb1 Cr1   each 16 × 8, a row of them before the next row
//! ```
//!
//! The blocks change their order only. Each DC coefficient is coded as the difference to the block
//! before it (ITU-T T.81 §F.1.2.1), so the differences are computed anew.

use super::recode::{BitReader, BitWriter, Decoder, Encoder, Scan, standard_encoders};

/// Largest number of bits of a DC difference that the standard tables have a code for.
const DC_BITS_MAX: u8 = 11;

/// Component of each block of an MCU, and whether the block lies in the lower half.
const BLOCKS: [(usize, bool); 8] = [
    (0, false),
    (0, false),
    (0, true),
    (0, true),
    (1, false),
    (1, true),
    (2, false),
    (2, true),
];

impl Scan<'_> {
    /// Returns a scan whose MCUs are two of the payload's, one above the other, with the standard
    /// tables, in `rows` rows of MCUs and without restart markers; `None` if it is damaged.
    pub(super) fn unstacked(&self, mcus_across: usize, rows: usize) -> Option<Vec<u8>> {
        let decoders = self.tables.map(|tables| tables.map(Decoder::new));
        let encoders = standard_encoders();
        let mut input = BitReader::new(self.bytes);
        let mut out = BitWriter::new(self.bytes.len() + self.bytes.len() / 8 + 64);
        let mut stack = Rows::new(rows);
        for mcu in 0..self.mcus {
            if self.restart_interval > 0 && mcu > 0 && mcu % self.restart_interval == 0 {
                input.restart()?;
                stack.restart();
            }
            stack.push(StackedMcu::read(&mut input, &decoders)?);
            if (mcu + 1) % mcus_across == 0 {
                stack.write(&encoders, &mut out)?;
            }
        }
        Some(out.finish())
    }
}

/// The coefficients of a block: the DC difference, then the symbols of AC with their bits.
struct Block {
    dc: i32,
    ac: Vec<(u8, u16)>,
}

/// The blocks of an MCU, in the order of the frame.
struct StackedMcu([Block; 8]);

impl StackedMcu {
    /// Reads the next MCU; `None` if it is damaged.
    fn read(input: &mut BitReader<'_>, decoders: &[[Decoder<'_>; 2]; 3]) -> Option<Self> {
        let mut blocks = [const { None }; 8];
        for (block, (component, _)) in blocks.iter_mut().zip(BLOCKS) {
            *block = Some(Block::read(input, &decoders[component])?);
        }
        let [
            Some(a),
            Some(b),
            Some(c),
            Some(d),
            Some(e),
            Some(f),
            Some(g),
            Some(h),
        ] = blocks
        else {
            return None;
        };
        Some(Self([a, b, c, d, e, f, g, h]))
    }
}

/// A row of MCUs of the frame, which are two rows of the payload.
struct Rows {
    upper: Vec<(usize, Block)>,
    lower: Vec<(usize, Block)>,
    /// DC coefficients of the latest block of each component, in the frame and in the payload.
    read: [i32; 3],
    written: [i32; 3],
    /// Number of rows of the payload that are still to be written.
    left: usize,
}

impl Rows {
    fn new(rows: usize) -> Self {
        Self {
            upper: Vec::new(),
            lower: Vec::new(),
            read: [0; 3],
            written: [0; 3],
            left: rows,
        }
    }

    /// Notes a restart marker, behind which differences count from zero.
    fn restart(&mut self) {
        self.read = [0; 3];
    }

    fn push(&mut self, mcu: StackedMcu) {
        for (mut block, (component, is_lower)) in mcu.0.into_iter().zip(BLOCKS) {
            let dc = &mut self.read[component];
            *dc = dc.saturating_add(block.dc);
            block.dc = *dc;
            let row = match is_lower {
                false => &mut self.upper,
                true => &mut self.lower,
            };
            row.push((component, block));
        }
    }

    /// Writes both rows, unless the frame ends with the upper one; `None` if a coefficient is out of
    /// range.
    fn write(&mut self, [luma, chroma]: &[[Encoder; 2]; 2], out: &mut BitWriter) -> Option<()> {
        for row in [&mut self.upper, &mut self.lower] {
            let is_wanted = self.left > 0;
            self.left = self.left.saturating_sub(1);
            for (component, block) in row.drain(..).filter(|_| is_wanted) {
                let before = std::mem::replace(&mut self.written[component], block.dc);
                let encoders = if component == 0 { luma } else { chroma };
                block.write(block.dc.checked_sub(before)?, encoders, out)?;
            }
        }
        Some(())
    }
}

impl Block {
    fn read(input: &mut BitReader<'_>, [dc, ac]: &[Decoder<'_>; 2]) -> Option<Self> {
        let bits = dc.symbol(input).filter(|bits| *bits <= DC_BITS_MAX)?;
        let dc = extended(input.bits(bits)?, bits);
        let mut symbols = Vec::new();
        let mut place = 1;
        while place < 64 {
            let symbol = ac.symbol(input)?;
            let (zeros, bits) = (symbol >> 4, symbol & 0x0f);
            symbols.push((symbol, u16::try_from(input.bits(bits)?).ok()?));
            match (zeros, bits) {
                (15, 0) => place += 16,
                (_, 0) => break,
                (zeros, _) => place += usize::from(zeros) + 1,
            }
        }
        // A run that leads out of the block is damage.
        (place <= 64).then_some(Self { dc, ac: symbols })
    }

    fn write(&self, difference: i32, [dc, ac]: &[Encoder; 2], out: &mut BitWriter) -> Option<()> {
        let bits = 32 - difference.unsigned_abs().leading_zeros();
        let bits = u8::try_from(bits)
            .ok()
            .filter(|bits| *bits <= DC_BITS_MAX)?;
        dc.write(bits, out)?;
        out.write(shortened(difference, bits), bits);
        for (symbol, bits) in &self.ac {
            ac.write(*symbol, out)?;
            out.write((*bits).into(), symbol & 0x0f);
        }
        Some(())
    }
}

/// Returns the difference that `count` bits stand for (§F.2.2.1, EXTEND).
fn extended(bits: u32, count: u8) -> i32 {
    let bits = i32::try_from(bits).unwrap_or(0);
    match count {
        0 => 0,
        _ if bits >> (count - 1) == 0 => bits - (1 << count) + 1,
        _ => bits,
    }
}

/// Returns the bits that stand for a difference that needs `count` of them.
fn shortened(difference: i32, count: u8) -> u32 {
    let bits = match difference {
        ..0 => difference + (1 << count) - 1,
        _ => difference,
    };
    bits.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_become_bits_and_differences_again() {
        for difference in -2047..=2047_i32 {
            let count = 32 - difference.unsigned_abs().leading_zeros();
            let count = u8::try_from(count).expect("few");
            assert!(count <= DC_BITS_MAX);
            let bits = shortened(difference, count);
            assert!(bits < 1 << count || difference == 0);
            assert_eq!(extended(bits, count), difference);
        }
    }
}
