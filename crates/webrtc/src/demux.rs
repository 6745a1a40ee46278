//! Sorts the datagrams of a socket by protocol, and finds the session of a STUN request, before
//! any session is looked at.
//!
//! Nothing here allocates or keeps state, so datagrams from strangers cost a thread no more than
//! this inspection.

pub use glassline_rtp::rtcp::is_rtcp;

/// The protocols that share one UDP port (RFC 7983 §7).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DatagramKind {
    /// STUN: the first byte is 0–3.
    Stun,
    /// DTLS: the first byte is 20–63.
    Dtls,
    /// SRTP or SRTCP: the first byte is 128–191.
    Rtp,
    /// ZRTP, TURN channels, QUIC or noise, none of which a session uses.
    Other,
}

/// Returns the protocol of a datagram by its first byte (RFC 7983 §7).
pub const fn classify(first: u8) -> DatagramKind {
    match first {
        0..=3 => DatagramKind::Stun,
        20..=63 => DatagramKind::Dtls,
        128..=191 => DatagramKind::Rtp,
        _ => DatagramKind::Other,
    }
}

/// Length of STUN's fixed header in bytes (RFC 8489 §5).
const HEADER_BYTES: usize = 20;
/// Message type of a STUN binding request.
const BINDING_REQUEST: u16 = 0x0001;
/// Magic cookie in the header of every STUN message.
const MAGIC_COOKIE: u32 = 0x2112_a442;
/// Type of the USERNAME attribute.
const USERNAME: u16 = 0x0006;
/// Maximum length of a user name in bytes: it has fewer than 509 (RFC 8489 §14.3).
const USERNAME_BYTES_MAX: usize = 508;
/// Most attributes that are read; ICE uses fewer in a request.
const ATTRIBUTES_MAX: usize = 32;

/// Returns the user fragments of an incoming STUN binding request: the local one, then the
/// remote one (RFC 8445 §7.2.2).
///
/// `None` for everything else: responses, malformed requests, other protocols. The request is
/// not authenticated; the session does that.
pub fn stun_username(datagram: &[u8]) -> Option<(&str, &str)> {
    let message_type = read_u16(datagram, 0)?;
    let length = usize::from(read_u16(datagram, 2)?);
    let cookie = u32::from_be_bytes(datagram.get(4..8)?.try_into().ok()?);
    if message_type != BINDING_REQUEST || cookie != MAGIC_COOKIE || length % 4 != 0 {
        return None;
    }
    let mut attributes = datagram.get(HEADER_BYTES..HEADER_BYTES + length)?;
    for _ in 0..ATTRIBUTES_MAX {
        let kind = read_u16(attributes, 0)?;
        let bytes = usize::from(read_u16(attributes, 2)?);
        let value = attributes.get(4..4 + bytes)?;
        if kind == USERNAME {
            return split(value);
        }
        attributes = attributes.get(4 + bytes.next_multiple_of(4)..)?;
    }
    None
}

fn split(username: &[u8]) -> Option<(&str, &str)> {
    if username.len() > USERNAME_BYTES_MAX {
        return None;
    }
    std::str::from_utf8(username).ok()?.split_once(':')
}

fn read_u16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The sample request of RFC 5769 §2.1, whose user name is `evtj:h6vY`.
    const RFC_5769_REQUEST: &[u8] = b"\x00\x01\x00\x58\x21\x12\xa4\x42\
        \xb7\xe7\xa7\x01\xbc\x34\xd6\x86\xfa\x87\xdf\xae\
        \x80\x22\x00\x10STUN test client\
        \x00\x24\x00\x04\x6e\x00\x01\xff\
        \x80\x29\x00\x08\x93\x2f\xf9\xb1\x51\x26\x3b\x36\
        \x00\x06\x00\x09\x65\x76\x74\x6a\x3a\x68\x36\x76\x59\x20\x20\x20\
        \x00\x08\x00\x14\x9a\xea\xa7\x0c\xbf\xd8\xcb\x56\x78\x1e\xf2\xb5\
        \xb2\xd3\xf2\x49\xc1\xb5\x71\xa2\
        \x80\x28\x00\x04\xe5\x7a\x3b\xcf";

    #[test]
    fn finds_the_user_name_of_rfc_5769() {
        assert_eq!(stun_username(RFC_5769_REQUEST), Some(("evtj", "h6vY")));
        let mut answer = RFC_5769_REQUEST.to_vec();
        answer[0] = 1;
        assert_eq!(stun_username(&answer), None);
    }

    #[test]
    fn kinds_follow_rfc_7983() {
        for (first, kind) in [
            (0, DatagramKind::Stun),
            (3, DatagramKind::Stun),
            (4, DatagramKind::Other),
            (19, DatagramKind::Other),
            (20, DatagramKind::Dtls),
            (63, DatagramKind::Dtls),
            (64, DatagramKind::Other),
            (127, DatagramKind::Other),
            (128, DatagramKind::Rtp),
            (191, DatagramKind::Rtp),
            (192, DatagramKind::Other),
        ] {
            assert_eq!(classify(first), kind, "first byte {first}");
        }
        assert!(is_rtcp(&[0x80, 200]) && !is_rtcp(&[0x80, 0xe0]) && !is_rtcp(&[0x80]));
    }

    proptest! {
        #[test]
        fn damage_never_panics(
            at in 0usize..108, value: u8, cut in 0usize..109,
            noise in prop::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut request = RFC_5769_REQUEST.to_vec();
            request[at] = value;
            let _ = stun_username(&request[..cut.min(request.len())]);
            let _ = stun_username(&noise);
        }
    }
}
