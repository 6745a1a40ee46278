//! The SCTP packet: common header, checksum, and the chunks in it (RFC 9260 §3, RFC 9653).
//!
//! ```text
//! bytes ─► Packet::parse ─► chunks() ─► Chunk views into the bytes
//! &mut [u8] ─► PacketBuilder::new ─► chunk.write(&mut builder) … ─► finish ─► length
//! ```
//!
//! Parsing copies nothing and writing allocates nothing. The association decides which
//! packets go without a checksum; [`Checksum::Zero`] says where that is forbidden.

pub(crate) mod builder;

use builder::crc32c;
pub use builder::{Checksum, HEADER_BYTES, Header, NoRoom, PacketBuilder};

use glassline_media::fields::{need, u16_at, u32_at};

use crate::ParseError;
use crate::chunk::Chunks;

/// One packet whose checksum is right, or zero where that was agreed.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Ports and verification tag, not checked against an association.
    pub header: Header,
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Parses the header and checks the checksum.
    ///
    /// `zero_acceptable`: we sent Zero Checksum Acceptable for the layer that this packet
    /// came over, so that a checksum of zero is accepted (RFC 9653 §5.3), whatever else the
    /// packet carries.
    ///
    /// # Errors
    /// `Truncated` below twelve bytes, `Checksum` if it is wrong; the packet is to be
    /// dropped silently.
    pub fn parse(bytes: &'a [u8], zero_acceptable: bool) -> Result<Self, ParseError> {
        need("SCTP header", bytes.len(), 0, HEADER_BYTES)?;
        let found = checksum_at(bytes);
        if found != 0 || !zero_acceptable {
            let computed = crc32c(bytes);
            if computed != found {
                return Err(ParseError::Checksum { found, computed });
            }
        }
        Ok(Self {
            header: Header {
                source_port: u16_at(bytes, 0),
                destination_port: u16_at(bytes, 2),
                verification_tag: u32_at(bytes, 4),
            },
            bytes,
        })
    }

    /// Returns the chunks in order; see [`Chunks`] for what ends them early.
    pub fn chunks(&self) -> Chunks<'a> {
        Chunks::new(self.bytes, HEADER_BYTES)
    }
}

/// Returns the value of the checksum field.
fn checksum_at(bytes: &[u8]) -> u32 {
    // The least significant byte comes first, unlike in every other field (RFC 9260
    // appendix A).
    u32_at(bytes, 8).swap_bytes()
}

#[cfg(test)]
mod tests {
    use super::builder::CHUNK_BYTES_MAX;
    use super::*;
    use crate::Tsn;
    use crate::chunk::{Chunk, CookieAck, CookieEcho, List, Pad, Sack};

    const HEADER: Header = Header {
        source_port: 5000,
        destination_port: 5000,
        verification_tag: 0x0edd_ca08,
    };

    /// A captured SACK of usrsctp, whose checksum we did not compute.
    const CAPTURED: [u8; 28] = [
        0x13, 0x88, 0x13, 0x88, 0x0e, 0xdd, 0xca, 0x08, 0x2a, 0x81, 0xf5, 0x32, 0x03, 0x00, 0x00,
        0x10, 0x55, 0x08, 0x36, 0x40, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    ];

    const SACK: Sack<'_> = Sack {
        cumulative_tsn: Tsn(0x5508_3640),
        a_rwnd: 0x2_0000,
        gaps: List::EMPTY,
        duplicates: List::EMPTY,
    };

    #[test]
    fn the_checksum_is_crc32c_as_in_rfc_3720_b_4() {
        let counting: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c::crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c::crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c::crc32c(&counting), 0x46dd_794e);
    }

    #[test]
    fn a_captured_packet_is_read_and_written_to_the_bit() {
        let packet = Packet::parse(&CAPTURED, false).expect("a valid packet");
        assert_eq!(packet.header, HEADER);
        let chunks: Vec<_> = packet.chunks().collect();
        assert_eq!(chunks, [Ok(Chunk::Sack(SACK))]);

        let mut out = [0xaa; 40];
        let mut builder = PacketBuilder::new(&mut out, HEADER).expect("room");
        assert!(builder.is_empty());
        SACK.write(&mut builder).expect("room");
        assert_eq!((builder.len(), builder.room()), (28, 12));
        let len = builder.finish(Checksum::Crc32c);
        assert_eq!(out[..len], CAPTURED);
    }

    #[test]
    fn zero_passes_for_a_checksum_only_where_it_was_agreed_on() {
        let mut bytes = CAPTURED;
        bytes[8..12].fill(0);
        assert!(Packet::parse(&bytes, true).is_ok());
        assert_eq!(
            Packet::parse(&bytes, false).map(|_| ()).unwrap_err(),
            ParseError::Checksum {
                found: 0,
                computed: 0x32f5_812a
            }
        );
        // A checksum that is there must be right even then (RFC 9653 §5.3).
        assert!(Packet::parse(&CAPTURED, true).is_ok());
        bytes[8] = 1;
        assert!(Packet::parse(&bytes, true).is_err());
    }

    #[test]
    fn every_damaged_bit_is_noticed() {
        for bit in 0..CAPTURED.len() * 8 {
            let mut bytes = CAPTURED;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(Packet::parse(&bytes, false).is_err(), "bit {bit}");
        }
        for len in 0..CAPTURED.len() {
            assert!(Packet::parse(&CAPTURED[..len], false).is_err());
        }
    }

    #[test]
    fn a_chunk_that_does_not_fit_leaves_the_packet_as_it_was() {
        let mut out = [0; HEADER_BYTES + 11];
        let mut builder = PacketBuilder::new(&mut out, HEADER).expect("room");
        // Eleven bytes are two words: a padded chunk must not reach past them.
        assert_eq!(builder.room(), 8);
        let cookie = [7; 5];
        assert_eq!(
            CookieEcho { cookie: &cookie }.write(&mut builder),
            Err(NoRoom)
        );
        assert!(builder.is_empty());
        CookieEcho {
            cookie: &cookie[..3],
        }
        .write(&mut builder)
        .expect("room for a padded one");
        assert_eq!(builder.room(), 0);
        assert_eq!(CookieAck.write(&mut builder), Err(NoRoom));
        assert_eq!(builder.finish(Checksum::Zero), HEADER_BYTES + 8);
        assert_eq!(out[HEADER_BYTES..], [10, 0, 0, 7, 7, 7, 7, 0, 0, 0, 0]);
        assert!(PacketBuilder::new(&mut [0; 11], HEADER).is_err());
    }

    #[test]
    fn padding_fills_a_probe_to_its_size() {
        for size in [HEADER_BYTES + 4, 1200, 1203, 70_000] {
            let mut out = vec![0xaa; size];
            let mut builder = PacketBuilder::new(&mut out, HEADER).expect("room");
            let pad = Pad::filling(&builder).expect("room for a chunk header");
            pad.write(&mut builder).expect("it fits by its making");
            let len = builder.finish(Checksum::Crc32c);
            assert_eq!(len, (size & !3).min(HEADER_BYTES + CHUNK_BYTES_MAX));
            let packet = Packet::parse(&out[..len], false).expect("a valid packet");
            assert_eq!(packet.chunks().next(), Some(Ok(Chunk::Pad(pad))));
        }
    }
}
