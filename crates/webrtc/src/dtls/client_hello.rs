//! What a ClientHello offers for SRTP, to say why nothing was agreed on. `dimpl` reads the message for
//! the handshake, and tells only what both ends have.

/// Type of the message (RFC 6347 §4.2.2).
const CLIENT_HELLO: u8 = 1;
/// Type of the extension (RFC 5764 §4.1.1).
const USE_SRTP: u16 = 14;
/// Bytes of the client's version and of its random number, which come first.
const VERSION_AND_RANDOM: usize = 2 + 32;
/// Most profiles that are kept; IANA has ten.
const PROFILES_MAX: usize = 16;

/// Returns the profiles of `use_srtp` in the handshake message `message`; none if it has no such
/// extension. `None` if the message is no ClientHello, is one fragment of several, or is malformed.
pub(super) fn srtp_profiles(message: &[u8]) -> Option<Box<[u16]>> {
    // RFC 6347 §4.2.2: type, length, message_seq, fragment_offset, fragment_length.
    let (header, body) = message.split_at_checked(12)?;
    let whole = header[1..4] == header[9..12] && header[6..9] == [0, 0, 0];
    if header[0] != CLIENT_HELLO || !whole {
        return None;
    }
    // RFC 5246 §7.4.1.2, with the cookie of RFC 6347 §4.2.1.
    let mut rest = body.get(VERSION_AND_RANDOM..)?;
    let _session_id = take_vector(&mut rest, 1)?;
    let _cookie = take_vector(&mut rest, 1)?;
    let _cipher_suites = take_vector(&mut rest, 2)?;
    let _compression_methods = take_vector(&mut rest, 1)?;
    if rest.is_empty() {
        return Some(Box::default());
    }
    let mut extensions = take_vector(&mut rest, 2)?;
    while !extensions.is_empty() {
        let kind = take_u16(&mut extensions)?;
        let mut data = take_vector(&mut extensions, 2)?;
        if kind == USE_SRTP {
            let profiles = take_vector(&mut data, 2)?;
            let profiles = profiles.chunks_exact(2).take(PROFILES_MAX);
            let profiles = profiles.map(|it| u16::from_be_bytes([it[0], it[1]]));
            return Some(profiles.collect());
        }
    }
    Some(Box::default())
}

/// Takes a vector off `rest` whose length stands before it, in `length_bytes` bytes (RFC 5246 §4.3).
fn take_vector<'a>(rest: &mut &'a [u8], length_bytes: usize) -> Option<&'a [u8]> {
    let (length, after) = rest.split_at_checked(length_bytes)?;
    let length = length
        .iter()
        .fold(0, |length, byte| length << 8 | usize::from(*byte));
    let (vector, after) = after.split_at_checked(length)?;
    *rest = after;
    Some(vector)
}

fn take_u16(rest: &mut &[u8]) -> Option<u16> {
    let (number, after) = rest.split_at_checked(2)?;
    *rest = after;
    Some(u16::from_be_bytes([number[0], number[1]]))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ClientHello with these extensions; `None` writes none at all.
    fn hello(extensions: Option<&[u8]>) -> Vec<u8> {
        let mut body = vec![254, 253];
        body.extend([7; 32]);
        // A session of 2 bytes, a cookie of 3, two ciphers, no compression.
        body.extend([2, 9, 9, 3, 8, 8, 8, 0, 4, 0xc0, 0x2b, 0xc0, 0x2c, 1, 0]);
        if let Some(extensions) = extensions {
            body.extend(
                u16::try_from(extensions.len())
                    .expect("short")
                    .to_be_bytes(),
            );
            body.extend(extensions);
        }
        let length = u32::try_from(body.len()).expect("short").to_be_bytes();
        let mut message = vec![CLIENT_HELLO];
        message.extend(&length[1..]);
        message.extend([0, 0, 0, 0, 0]);
        message.extend(&length[1..]);
        message.extend(body);
        message
    }

    #[test]
    fn the_profiles_of_use_srtp_are_read() {
        // Extended master secret, then three profiles and no MKI.
        let extensions = [
            &[0, 23, 0, 0][..],
            &[0, 14, 0, 9, 0, 6, 0, 2, 0, 5, 0x12, 0x34, 0],
        ];
        let found = srtp_profiles(&hello(Some(&extensions.concat())));
        assert_eq!(found.as_deref(), Some(&[2, 5, 0x1234][..]));
        let none = srtp_profiles(&hello(Some(&[0, 23, 0, 0])));
        assert_eq!(none.as_deref(), Some(&[][..]));
        assert_eq!(srtp_profiles(&hello(None)).as_deref(), Some(&[][..]));
    }

    #[test]
    fn what_is_not_a_whole_client_hello_tells_nothing() {
        let whole = hello(Some(&[0, 14, 0, 5, 0, 2, 0, 2, 0]));
        assert!(srtp_profiles(&whole).is_some());
        for length in 0..whole.len() {
            // An extension that is cut off is malformed, and without the extensions there are none.
            let cut = srtp_profiles(&whole[..length]);
            assert!(cut.is_none_or(|it| it.is_empty()), "{length}");
        }
        let mut other = whole.clone();
        other[0] = 2;
        assert_eq!(srtp_profiles(&other), None);
        let mut fragment = whole;
        fragment[8] = 1;
        assert_eq!(srtp_profiles(&fragment), None);
    }
}
