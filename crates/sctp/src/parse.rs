use thiserror::Error;

/// Bytes of the peer that are not what their place demands.
///
/// The peer's (or the network's) fault; the packet is to be counted and dropped.
/// Offsets count from the first byte of the SCTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The bytes end before the thing does.
    #[error("{what} at byte {offset} needs {needed} bytes, {available} are there")]
    Truncated {
        /// What was being read.
        what: &'static str,
        /// Where it begins.
        offset: usize,
        /// Bytes it needs.
        needed: usize,
        /// Bytes that are there.
        available: usize,
    },
    /// A length field counts its own header and is smaller than that.
    #[error("{what} at byte {offset} says it is {length} bytes long, header included")]
    Length {
        /// The thing whose length it is.
        what: &'static str,
        /// Where the thing begins.
        offset: usize,
        /// What the field says.
        length: u16,
    },
    /// The CRC32c does not match, and zero was not agreed on or not there
    /// (RFC 9260 §6.8, RFC 9653 §5.3).
    #[error("checksum is {found:#010x}, the packet's bytes give {computed:#010x}")]
    Checksum {
        /// What the packet says.
        found: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// A field has a value that its RFC rules out.
    #[error("{what} at byte {offset} is {value}, which is not allowed")]
    Value {
        /// The field.
        what: &'static str,
        /// Where it is.
        offset: usize,
        /// What it says.
        value: u32,
    },
}

/// Checks that `needed` bytes follow `offset` in a buffer of `len` bytes.
pub(crate) fn need(
    what: &'static str,
    len: usize,
    offset: usize,
    needed: usize,
) -> Result<(), ParseError> {
    let available = len.saturating_sub(offset);
    if available < needed {
        return Err(ParseError::Truncated {
            what,
            offset,
            needed,
            available,
        });
    }
    Ok(())
}

/// The big-endian 16 bits at `offset`, zero past the end: call [`need`] first.
pub(crate) fn u16_at(bytes: &[u8], offset: usize) -> u16 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u16::from_be_bytes(*chunk))
}

/// The big-endian 32 bits at `offset`, zero past the end: call [`need`] first.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> u32 {
    bytes
        .get(offset..)
        .and_then(|rest| rest.first_chunk())
        .map_or(0, |chunk| u32::from_be_bytes(*chunk))
}
