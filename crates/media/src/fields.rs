//! Reads the fields of binary headers that are whole bytes, at the places where a
//! standard has them: check with [`need`] once, then read without checking again.
//!
//! [`Bits`](crate::Bits) reads fields that are not whole bytes.

use thiserror::Error;

/// Bytes of a peer end before the thing that they should hold does.
///
/// The peer's (or the network's) fault; offsets count from the first byte handed to the
/// parser.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} at byte {offset} needs {needed} bytes, {available} are there")]
pub struct Truncated {
    /// What was being read.
    pub what: &'static str,
    /// Where it begins.
    pub offset: usize,
    /// Bytes it needs.
    pub needed: usize,
    /// Bytes that are there.
    pub available: usize,
}

/// Checks that `needed` bytes follow `offset` in a buffer of `len` bytes, for the field
/// or structure called `what`.
///
/// # Errors
/// [`Truncated`] if there are fewer.
#[inline]
pub const fn need(
    what: &'static str,
    len: usize,
    offset: usize,
    needed: usize,
) -> Result<(), Truncated> {
    let available = len.saturating_sub(offset);
    if available < needed {
        return Err(Truncated {
            what,
            offset,
            needed,
            available,
        });
    }
    Ok(())
}

/// The big-endian 16 bits at `offset`, zero past the end: call [`need`] first.
#[inline]
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u16::from_be_bytes(*chunk))
}

/// The big-endian 32 bits at `offset`, zero past the end: call [`need`] first.
#[inline]
pub fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u32::from_be_bytes(*chunk))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_read_whole_or_is_zero() {
        let bytes = [1, 2, 3, 4, 5];
        assert_eq!(u16_at(&bytes, 1), 0x0203);
        assert_eq!(u32_at(&bytes, 1), 0x0203_0405);
        assert_eq!((u16_at(&bytes, 4), u32_at(&bytes, 2)), (0, 0));
        assert_eq!((u16_at(&bytes, 9), u32_at(&bytes, usize::MAX)), (0, 0));
    }

    #[test]
    fn what_is_missing_is_told() {
        assert_eq!(need("header", 12, 4, 8), Ok(()));
        let error = need("header", 12, 13, 1).expect_err("beyond the end");
        assert_eq!(
            error.to_string(),
            "header at byte 13 needs 1 bytes, 0 are there"
        );
    }
}
