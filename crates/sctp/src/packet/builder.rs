use thiserror::Error;

use crate::chunk::frame::CHUNK_HEADER_BYTES;

/// Bytes of the common header (RFC 9260 §3.1).
pub const HEADER_BYTES: usize = 12;

/// The common header of a packet, without the checksum (RFC 9260 §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// SCTP port of the sender.
    pub source_port: u16,
    /// SCTP port of the receiver.
    pub destination_port: u16,
    /// The tag that the receiver chose for this association; 0 with an INIT.
    pub verification_tag: u32,
}

/// How the integrity of a written packet is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// The packet carries the CRC32c of RFC 9260 §6.8.
    Crc32c,
    /// The layer below protects the packet, and the checksum field is zero (RFC 9653 §5.2).
    /// Allowed only after the peer has sent the Zero Checksum Acceptable parameter for that
    /// layer, and never with an INIT, a COOKIE ECHO, or an answer to a packet of no
    /// association.
    Zero,
}

/// Writes one packet, chunk after chunk, into a buffer of the caller.
///
/// The length of the buffer bounds the packet (the path MTU without the headers of lower
/// layers). Each type of chunk has a `write` that takes the builder.
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

    /// Whether the packet has no chunk yet, so that there is nothing to send.
    pub fn is_empty(&self) -> bool {
        self.len == HEADER_BYTES
    }

    /// Returns the bytes that the next chunk may have, its own header of four bytes
    /// included.
    pub fn room(&self) -> usize {
        (self.out.len() - self.len) & !3
    }

    /// Sets the checksum and returns the packet's length, in bytes from the start of the
    /// buffer.
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

/// Largest multiple of four that the length field of a chunk can express.
pub(crate) const CHUNK_BYTES_MAX: usize = 0xfffc;

/// The body of a chunk that is being written. If anything does not fit, the whole chunk is
/// discarded.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    out: &'a mut [u8],
    len: usize,
    overflowed: bool,
}

impl Body<'_> {
    /// Returns the bytes that still fit.
    pub(crate) fn room(&self) -> usize {
        self.out.len() - self.len
    }

    /// Returns the bytes written so far.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends bytes to the chunk's value.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        match self.out.get_mut(self.len..self.len + bytes.len()) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.len += bytes.len();
            }
            None => self.overflowed = true,
        }
    }

    /// Appends 16 bits, most significant byte first.
    pub(crate) fn put_u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    /// Appends 32 bits, most significant byte first.
    pub(crate) fn put_u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    /// Appends `count` zero bytes.
    pub(crate) fn put_zeros(&mut self, count: usize) {
        match self.out.get_mut(self.len..self.len + count) {
            Some(place) => {
                place.fill(0);
                self.len += count;
            }
            None => self.overflowed = true,
        }
    }

    /// Overwrites 16 bits at offset `at`, which were written before.
    pub(crate) fn set_u16(&mut self, at: usize, value: u16) {
        if let Some(place) = self.out.get_mut(at..at + 2) {
            place.copy_from_slice(&value.to_be_bytes());
        }
    }
}

/// Returns the CRC32c of a packet of at least twelve bytes, with zero in place of its
/// checksum field.
pub(crate) fn crc32c(packet: &[u8]) -> u32 {
    let (header, chunks) = packet.split_at(HEADER_BYTES);
    let mut zeroed = [0; HEADER_BYTES];
    zeroed[..8].copy_from_slice(&header[..8]);
    crc32c::crc32c_append(crc32c::crc32c(&zeroed), chunks)
}
