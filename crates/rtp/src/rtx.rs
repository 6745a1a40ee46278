//! Retransmission payloads: the original sequence number in front of the original payload (RFC
//! 4588 §4). The session assigns SSRCs and sequence numbers of the retransmission stream.

/// Number of bytes that a retransmission adds to the original payload.
pub const OVERHEAD_BYTES: usize = 2;

/// Writes the retransmission payload of packet `original_sequence` to the front of `out`.
/// Returns the number of bytes written.
///
/// # Panics
/// If `out` is shorter than `payload.len() + OVERHEAD_BYTES`.
pub fn wrap(original_sequence: u16, payload: &[u8], out: &mut [u8]) -> usize {
    let len = OVERHEAD_BYTES + payload.len();
    let out = &mut out[..len];
    out[..OVERHEAD_BYTES].copy_from_slice(&original_sequence.to_be_bytes());
    out[OVERHEAD_BYTES..].copy_from_slice(payload);
    len
}

/// Splits a retransmission payload into original sequence number and original payload. `None`
/// if it is too short: an empty payload is padding of a bandwidth probe.
pub fn unwrap(payload: &[u8]) -> Option<(u16, &[u8])> {
    let (sequence, rest) = payload.split_first_chunk()?;
    Some((u16::from_be_bytes(*sequence), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unwrapping_gives_back_what_was_wrapped() {
        let mut out = [0u8; 16];
        let len = wrap(0xfffe, b"payload", &mut out);
        assert_eq!(unwrap(&out[..len]), Some((0xfffe, b"payload".as_slice())));
    }

    #[test]
    fn a_payload_shorter_than_its_number_is_none() {
        assert_eq!(unwrap(&[]), None);
        assert_eq!(unwrap(&[1]), None);
        assert_eq!(unwrap(&[1, 2]), Some((0x0102, [].as_slice())));
    }
}
