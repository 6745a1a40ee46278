//! Writes fields that are not byte-aligned, most significant bit first.

/// Bytes that are filled bit by bit.
#[derive(Debug, Default)]
pub(super) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits of the last byte that are not written yet, 0 to 7.
    free: u32,
}

impl BitWriter {
    /// Appends the lowest `length` bits of `bits`, at most 32.
    pub(super) fn put(&mut self, bits: u32, length: u32) {
        let mut left = length;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let count = left.min(self.free);
            left -= count;
            self.free -= count;
            let part = (bits >> left) & ((1 << count) - 1);
            if let Some(last) = self.bytes.last_mut() {
                *last |= (part << self.free) as u8;
            }
        }
    }

    /// Returns the number of bits so far.
    #[cfg(test)]
    pub(super) const fn bits(&self) -> usize {
        8 * self.bytes.len() - self.free as usize
    }

    /// Returns the bytes. The free bits of the last one are zero.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_across_bytes() {
        let mut writer = BitWriter::default();
        assert_eq!(writer.bits(), 0);
        writer.put(0b101, 3);
        writer.put(0xffff_ff00, 9);
        writer.put(0, 0);
        writer.put(0x8000_0001, 32);
        assert_eq!(writer.bits(), 44);
        let expected = [0b1011_0000, 0b0000_1000, 0, 0, 0, 0b0001_0000];
        assert_eq!(writer.into_bytes(), expected);
    }
}
