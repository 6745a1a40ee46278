//! Readers for byte-aligned fields of binary headers, in network byte order. A parser checks
//! the length with [`need`] once and then reads the fields without checking again.
//!
//! [`Bits`](crate::Bits) reads fields that are not byte-aligned.

use thiserror::Error;

/// The input ends before the field or structure that should be in it.
///
/// The peer or the network is at fault: the parser rejects the message. Offsets count from the
/// first byte that the parser was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{what} at byte {offset} needs {needed} bytes, {available} are there")]
pub struct Truncated {
    /// Name of the field or structure that was being read.
    pub what: &'static str,
    /// Offset of its first byte.
    pub offset: usize,
    /// Number of bytes that it needs.
    pub needed: usize,
    /// Number of bytes that follow `offset` in the input.
    pub available: usize,
}

/// Checks that at least `needed` bytes follow `offset` in a buffer of `len` bytes. `what` names
/// the field or structure for the error text.
///
/// # Errors
/// [`Truncated`] if fewer bytes follow.
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

/// Returns the big-endian 16-bit number at `offset`, or 0 if the field does not lie within
/// `bytes`. Callers check the length with [`need`] first.
#[inline]
pub fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u16::from_be_bytes(*chunk))
}

/// Returns the big-endian 32-bit number at `offset`, or 0 if the field does not lie within
/// `bytes`. Callers check the length with [`need`] first.
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
