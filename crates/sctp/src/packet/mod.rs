//! The SCTP packet: common header, checksum, and the chunks in it
//! (RFC 9260 §3, RFC 9653).
//!
//! ```text
//! bytes ─► Packet::parse ─► chunks() ─► Chunk views into the bytes
//! &mut [u8] ─► PacketBuilder::new ─► chunk.write(&mut builder) … ─► finish ─► length
//! ```
//!
//! Nothing is copied on reading and nothing is allocated on writing. Which packets
//! go without a checksum is the association's decision; what it must not be is
//! said at [`Checksum::Zero`].

use glassline_media::fields::{need, u16_at, u32_at};
use thiserror::Error;

use crate::ParseError;
use crate::chunk::{CHUNK_HEADER_BYTES, Chunks};

/// Bytes of the common header (RFC 9260 §3.1).
pub const HEADER_BYTES: usize = 12;

/// What precedes the chunks of a packet, but for the checksum (RFC 9260 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// The tag that the receiver chose for this association; 0 with an INIT.
    pub verification_tag: u32,
}

/// How a packet that is written is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// By the CRC32c of RFC 9260 §6.8.
    Crc32c,
    /// By the layer below (RFC 9653 §5.2): the field is zero. Only once the peer
    /// has sent the Zero Checksum Acceptable parameter for that layer, and never
    /// with an INIT, a COOKIE ECHO, or an answer to a packet of no association.
    Zero,
}

/// One packet whose checksum was right, or zero where that was agreed on.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Ports and tag, not compared with anything yet.
    pub header: Header,
    bytes: &'a [u8],
}

impl<'a> Packet<'a> {
    /// Reads the header and checks the checksum.
    ///
    /// `zero_acceptable`: we sent Zero Checksum Acceptable with the layer that this
    /// packet came over, so that a checksum of zero stands in for a right one
    /// (RFC 9653 §5.3). It matters not what else the packet carries.
    ///
    /// # Errors
    /// `Truncated` below twelve bytes, `Checksum`; the packet is to be dropped silently.
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

    /// The chunks in order; see [`Chunks`] for what ends them early.
    pub fn chunks(&self) -> Chunks<'a> {
        Chunks::new(self.bytes, HEADER_BYTES)
    }
}

/// Writes one packet, chunk after chunk, into a buffer of the caller's.
///
/// The buffer's length is the packet's limit (the path MTU less what is around it).
/// Each kind of chunk has a `write` that takes the builder.
#[derive(Debug)]
pub struct PacketBuilder<'a> {
    out: &'a mut [u8],
    len: usize,
}

/// The chunk does not fit into what is left of the packet, which is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the chunk does not fit into what is left of the packet")]
pub struct NoRoom;

impl<'a> PacketBuilder<'a> {
    /// Begins a packet at the start of `out`.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` does not hold even the header.
    pub fn new(out: &'a mut [u8], header: Header) -> Result<Self, NoRoom> {
        let start = out.first_chunk_mut::<HEADER_BYTES>().ok_or(NoRoom)?;
        start[..2].copy_from_slice(&header.source_port.to_be_bytes());
        start[2..4].copy_from_slice(&header.destination_port.to_be_bytes());
        start[4..8].copy_from_slice(&header.verification_tag.to_be_bytes());
        start[8..].fill(0);
        Ok(Self {
            out,
            len: HEADER_BYTES,
        })
    }

    /// Bytes of the packet so far, header included: a multiple of four.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no chunk yet, so that there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == HEADER_BYTES
    }

    /// Bytes that the next chunk may have, its own header of four included.
    pub fn room(&self) -> usize {
        (self.out.len() - self.len) & !3
    }

    /// Sets the checksum; the packet is the first so many bytes of the buffer.
    pub fn finish(self, checksum: Checksum) -> usize {
        if checksum == Checksum::Crc32c {
            let crc = crc32c(&self.out[..self.len]);
            self.out[8..HEADER_BYTES].copy_from_slice(&crc.to_le_bytes());
        }
        self.len
    }

    /// Appends one chunk: its header, what `write` puts into the body, and padding.
    pub(crate) fn chunk(
        &mut self,
        kind: u8,
        flags: u8,
        write: impl FnOnce(&mut Body<'_>),
    ) -> Result<(), NoRoom> {
        let room = self.room().min(CHUNK_BYTES_MAX);
        let chunk = &mut self.out[self.len..self.len + room];
        let (header, rest) = chunk
            .split_first_chunk_mut::<CHUNK_HEADER_BYTES>()
            .ok_or(NoRoom)?;
        let mut body = Body {
            out: rest,
            len: 0,
            overflowed: false,
        };
        write(&mut body);
        if body.overflowed {
            return Err(NoRoom);
        }
        let body_len = body.len;
        let length = (CHUNK_HEADER_BYTES + body_len) as u16;
        let [high, low] = length.to_be_bytes();
        *header = [kind, flags, high, low];
        // `room` is whole words, so the padding fits wherever the body did.
        let padded = body_len.next_multiple_of(4);
        rest[body_len..padded].fill(0);
        self.len += CHUNK_HEADER_BYTES + padded;
        Ok(())
    }
}

/// The largest multiple of four that a chunk's length field can say.
pub(crate) const CHUNK_BYTES_MAX: usize = 0xfffc;

/// The body of a chunk that is being written. What does not fit is not written,
/// and the chunk is then taken back as a whole.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    out: &'a mut [u8],
    len: usize,
    overflowed: bool,
}

impl Body<'_> {
    /// Bytes that still fit.
    pub(crate) fn room(&self) -> usize {
        self.out.len() - self.len
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        match self.out.get_mut(self.len..self.len + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.overflowed = true,
        }
    }

    pub(crate) fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    pub(crate) fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    pub(crate) fn put_zeros(&mut self, count: usize) {
        match self.out.get_mut(self.len..self.len + count) {
            Some(place) => {
                place.fill(0);
                self.len += count;
            }
            None => self.overflowed = true,
        }
    }

    /// Sets 16 bits that were put at `at` before.
    pub(crate) fn set_u16(&mut self, at: usize, value: u16) {
        if let Some(place) = self.out.get_mut(at..at + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
}

fn checksum_at(bytes: &[u8]) -> u32 {
    // Least significant byte first, unlike every other field (RFC 9260 appendix A).
    u32_at(bytes, 8).swap_bytes()
}

/// The CRC32c of a packet of at least twelve bytes, its own field counted as zero.
fn crc32c(packet: &[u8]) -> u32 {
    let (header, chunks) = packet.split_at(HEADER_BYTES);
    let mut zeroed = [0; HEADER_BYTES];
    zeroed[..8].copy_from_slice(&header[..8]);
    crc32c::crc32c_append(crc32c::crc32c(&zeroed), chunks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tsn;
    use crate::chunk::{Chunk, CookieAck, CookieEcho, List, Pad, Sack};

    const HEADER: Header = Header {
        source_port: 5000,
        destination_port: 5000,
        verification_tag: 0x0edd_ca08,
    };

    /// A SACK of usrsctp's, captured: its checksum is not of our making.
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
        let packet = Packet::parse(&CAPTURED, false).expect("a sound packet");
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
            let packet = Packet::parse(&out[..len], false).expect("a sound packet");
            assert_eq!(packet.chunks().next(), Some(Ok(Chunk::Pad(pad))));
        }
    }
}
