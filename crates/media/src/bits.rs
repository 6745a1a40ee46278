/// Reads header fields that are not byte-aligned, most significant bit first.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// Position of the next bit, counted from the first bit of `bytes`.
    at: usize,
}

impl<'a> Bits<'a> {
    /// Creates a reader at the first bit of `bytes`.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the position of the next bit, counted from the first one.
    pub const fn position(&self) -> usize {
        self.at
    }

    /// Skips the bits up to the next whole byte.
    pub const fn align(&mut self) {
        self.at = self.at.next_multiple_of(8);
    }

    /// Reads the next bit; `None` at the end.
    pub fn bit(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        Some(bit)
    }

    /// Reads the next `count` bits, at most 32, as an unsigned number; `None` if fewer are
    /// left.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0, |sum, _| Some(sum << 1 | u32::from(self.bit()?)))
    }

    /// Reads an Exp-Golomb code (H.264 §9.1), an unsigned number below 2³² - 1; `None` if the code is
    /// longer or cut off.
    pub fn exp_golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.bit()? {
            zeros += 1;
        }
        if zeros > 31 {
            return None;
        }
        let rest = self.take(zeros)?;
        Some((1 << zeros) - 1 + rest)
    }

    /// Skips `count` bits. Skipping beyond the end is allowed: later reads return `None`.
    pub fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_across_bytes_and_not_beyond_the_end() {
        let mut bits = Bits::new(&[0b1010_0110, 0b1100_0001]);
        assert_eq!(bits.take(3), Some(0b101));
        assert_eq!(bits.bit(), Some(false));
        assert_eq!(bits.take(6), Some(0b01_1011));
        bits.skip(5);
        assert_eq!(bits.bit(), Some(true));
        assert_eq!(bits.take(0), Some(0));
        assert_eq!(bits.bit(), None);
        assert_eq!(bits.position(), 16);
        let mut aligned = Bits::new(&[0, 0x80]);
        aligned.align();
        assert_eq!((aligned.take(1), aligned.position()), (Some(0), 1));
        aligned.align();
        assert_eq!((aligned.bit(), aligned.position()), (Some(true), 9));
        bits.skip(usize::MAX);
        assert_eq!(bits.take(32), None);
        assert_eq!(Bits::new(&[255; 4]).take(32), Some(u32::MAX));
    }
}
