//! The plain part of the first packet of a connection (RFC 8999 §5.1, RFC 9000 §17.2.2).

/// Version number of QUIC version 1 (RFC 9000 §15).
pub(super) const VERSION_1: u32 = 1;

/// Versions that noq accepts: version 1, and its drafts 29 to 34.
const DRAFTS: std::ops::RangeInclusive<u32> = 0xff00_001d..=0xff00_0022;

/// Least size in bytes of a datagram with the first packet of a client (RFC 9000 §14.1).
const DATAGRAM_MIN: usize = 1200;

/// Longest connection ID of the versions here, in bytes (RFC 9000 §17.2).
pub(super) const CONNECTION_ID_MAX: usize = 20;

const LONG_HEADER: u8 = 0x80;
/// Bits of the type of a packet with a long header; zero for an Initial packet.
const TYPE: u8 = 0x30;

/// A datagram, as far as it may begin a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstPacket<'a> {
    Initial(InitialHeader<'a>),
    /// A packet of a version that noq answers with those that it has (RFC 9000 §6.1).
    OtherVersion,
    /// The first packet of a connection, in a datagram that is too short to begin one. An answer would
    /// be longer than what a forger sent (RFC 9000 §5.2.2).
    TooShort,
    /// Anything else: noq needs no keys to find that it belongs to no connection.
    Other,
}

/// Fields of an Initial packet that are not encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InitialHeader<'a> {
    pub(super) version: u32,
    /// Destination connection ID, of up to 20 bytes.
    pub(super) destination: &'a [u8],
    /// Source connection ID, of up to 20 bytes.
    pub(super) source: &'a [u8],
    /// Token of an earlier Retry packet; empty without one.
    pub(super) token: &'a [u8],
}

/// Reads the beginning of a datagram.
pub(super) fn parse(datagram: &[u8]) -> FirstPacket<'_> {
    match datagram {
        [first, rest @ ..] if first & LONG_HEADER != 0 => {
            long_header(*first, rest, datagram.len()).unwrap_or(FirstPacket::Other)
        }
        _ => FirstPacket::Other,
    }
}

/// Reads what follows the first byte of a long header. `None` if it is malformed.
fn long_header(first: u8, rest: &[u8], datagram_bytes: usize) -> Option<FirstPacket<'_>> {
    let (version, rest) = rest.split_first_chunk()?;
    let version = u32::from_be_bytes(*version);
    // Version 0 is the answer of a server, which a server does not read.
    if version == 0 {
        return Some(FirstPacket::Other);
    }
    let (destination, rest) = connection_id(rest)?;
    let (source, rest) = connection_id(rest)?;
    let is_short = datagram_bytes < DATAGRAM_MIN;
    if version != VERSION_1 && !DRAFTS.contains(&version) {
        return Some(match is_short {
            true => FirstPacket::TooShort,
            false => FirstPacket::OtherVersion,
        });
    }
    if first & TYPE != 0 || is_short {
        return Some(FirstPacket::Other);
    }
    let (token_bytes, rest) = variable_length_integer(rest)?;
    let token = rest.get(..usize::try_from(token_bytes).ok()?)?;
    Some(FirstPacket::Initial(InitialHeader {
        version,
        destination,
        source,
        token,
    }))
}

/// Splits off a connection ID behind its length in one byte.
fn connection_id(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first()?;
    let length = usize::from(*length);
    if length > CONNECTION_ID_MAX {
        return None;
    }
    rest.split_at_checked(length)
}

/// Splits off an integer whose first two bits tell its length (RFC 9000 §16).
fn variable_length_integer(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let first = *bytes.first()?;
    let (integer, rest) = bytes.split_at_checked(1 << (first >> 6))?;
    let value = integer[1..]
        .iter()
        .fold(u64::from(first & 0x3f), |value, byte| {
            value << 8 | u64::from(*byte)
        });
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The beginning of the client's Initial packet in RFC 9001 §A.2, padded.
    fn initial_of_rfc_9001() -> Vec<u8> {
        let mut packet = vec![0xc0, 0, 0, 0, 1, 8];
        packet.extend([0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08]);
        packet.extend([0, 0, 0x44, 0x9e]);
        packet.resize(1200, 0);
        packet
    }

    #[test]
    fn the_header_of_rfc_9001_is_read() {
        let expected = InitialHeader {
            version: VERSION_1,
            destination: &[0x83, 0x94, 0xc8, 0xf0, 0x3e, 0x51, 0x57, 0x08],
            source: &[],
            token: &[],
        };
        let packet = initial_of_rfc_9001();
        assert_eq!(parse(&packet), FirstPacket::Initial(expected));
    }

    #[test]
    fn a_token_of_any_length_is_found() {
        for (length, prefix) in [
            (5, vec![5]),
            (100, vec![0x40, 100]),
            (600, vec![0x80, 0, 2, 88]),
        ] {
            let mut packet = initial_of_rfc_9001()[..14].to_vec();
            packet.push(0);
            packet.extend(prefix);
            packet.resize(packet.len() + length, 7);
            packet.resize(1200, 0);
            let FirstPacket::Initial(header) = parse(&packet) else {
                panic!("an Initial packet");
            };
            assert_eq!(header.token, vec![7; length]);
            packet.truncate(1199);
            assert_eq!(parse(&packet), FirstPacket::Other, "too short for noq");
        }
    }

    #[test]
    fn packets_of_connections_are_no_first_packets() {
        let mut packet = initial_of_rfc_9001();
        for first in [0x40, 0x7f, 0xd0, 0xe3, 0xf0] {
            packet[0] = first;
            assert_eq!(parse(&packet), FirstPacket::Other, "{first:#x}");
        }
    }

    #[test]
    fn other_versions_are_told_by_length() {
        let mut packet = initial_of_rfc_9001();
        packet[1..5].copy_from_slice(&0x6b33_43cf_u32.to_be_bytes());
        assert_eq!(parse(&packet), FirstPacket::OtherVersion, "version 2");
        assert_eq!(parse(&packet[..1199]), FirstPacket::TooShort);
        packet[1..5].copy_from_slice(&[0; 4]);
        assert_eq!(parse(&packet), FirstPacket::Other, "version negotiation");
        packet[1..5].copy_from_slice(&0xff00_001d_u32.to_be_bytes());
        assert!(
            matches!(parse(&packet), FirstPacket::Initial(_)),
            "draft 29"
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_within_themselves(
            mut bytes in prop::collection::vec(any::<u8>(), 0..64),
            is_initial in any::<bool>(),
            len in 0usize..1400,
        ) {
            if is_initial && bytes.len() >= 5 {
                bytes[0] = 0xc0 | bytes[0] & 0x0f;
                bytes[1..5].copy_from_slice(&VERSION_1.to_be_bytes());
            }
            bytes.resize(len, 0);
            if let FirstPacket::Initial(header) = parse(&bytes) {
                prop_assert!(bytes.len() >= DATAGRAM_MIN);
                prop_assert!(header.destination.len() <= CONNECTION_ID_MAX);
                prop_assert!(header.source.len() <= CONNECTION_ID_MAX);
                let fields = header.destination.len() + header.source.len() + header.token.len();
                prop_assert!(fields + 8 <= bytes.len());
            }
        }
    }
}
