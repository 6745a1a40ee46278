//! Reads fields of any number of bits, the highest bit first.

/// A reader of bits.
#[derive(Clone, Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits that were read.
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the number of bytes of which a bit was read.
    pub(super) const fn bytes_read(&self) -> usize {
        self.at.div_ceil(8)
    }

    fn bit(&mut self) -> Option<u64> {
        let byte = *self.bytes.get(self.at / 8)?;
        let bit = byte >> (7 - self.at % 8) & 1;
        self.at += 1;
        Some(bit.into())
    }

    /// Reads an unsigned number of at most 57 bits.
    pub(super) fn unsigned(&mut self, count: u32) -> Option<u64> {
        let mut value = 0;
        let mut left = count as usize;
        while left > 0 {
            let byte = u64::from(*self.bytes.get(self.at / 8)?);
            let (begin, free) = (self.at % 8, 8 - self.at % 8);
            let take = free.min(left);
            let part = byte >> (free - take) & ((1 << take) - 1);
            debug_assert!(begin + take <= 8, "within one byte");
            value = value << take | part;
            self.at += take;
            left -= take;
        }
        Some(value)
    }

    /// Reads a number of at most 57 bits in two's complement.
    pub(super) fn signed(&mut self, count: u32) -> Option<i64> {
        let value = self.unsigned(count)?;
        let unused = 64 - count;
        Some(match count {
            0 => 0,
            _ => (value << unused).cast_signed() >> unused,
        })
    }

    /// Counts zeros up to the next one, which is read, too.
    pub(super) fn zeros(&mut self) -> Option<u64> {
        let mut count = 0;
        while self.bit()? == 0 {
            count += 1;
        }
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_lie_across_bytes() {
        let mut bits = Bits::new(&[0b1010_0001, 0b1000_0000, 0xff]);
        assert_eq!(bits.unsigned(3), Some(5));
        assert_eq!(bits.zeros(), Some(4));
        assert_eq!(bits.signed(3), Some(-4));
        assert_eq!(bits.bytes_read(), 2);
        assert_eq!(bits.unsigned(0), Some(0));
        assert_eq!(bits.unsigned(13), Some(0xff));
        assert_eq!(bits.unsigned(1), None);
        assert_eq!(bits.zeros(), None);
    }
}
