/// Reads fields of a header that are not whole bytes, highest bit first.
#[derive(Clone, Debug)]
pub struct Bits<'a> {
    bytes: &'a [u8],
    /// The next bit.
    at: usize,
}

impl<'a> Bits<'a> {
    /// From the first bit of `bytes` on.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// The next bit; `None` at the end.
    pub fn bit(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1 == 1;
        self.at += 1;
        Some(bit)
    }

    /// The next `count` bits, at most 32, as a number; `None` if fewer are left.
    pub fn take(&mut self, count: u32) -> Option<u32> {
        (0..count).try_fold(0, |sum, _| Some(sum << 1 | u32::from(self.bit()?)))
    }

    /// Leaves out `count` bits, which need not be there.
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
        bits.skip(usize::MAX);
        assert_eq!(bits.take(32), None);
        assert_eq!(Bits::new(&[255; 4]).take(32), Some(u32::MAX));
    }
}
