//! The packets of a program stream, MPEG-2 (ISO/IEC 13818-1 §2.5) and MPEG-1 (ISO/IEC 11172-1
//! §2.4), and the elementary streams in them.

use crate::error::{Fault, Reason};
use crate::system_clock::stamp::{self, CLOCK_PER_STAMP, STAMP_BYTES};
use crate::window::Window;

pub(super) const PACK: u8 = 0xba;
const SYSTEM: u8 = 0xbb;
const END: u8 = 0xb9;
const MAP: u8 = 0xbc;
pub(super) const PRIVATE_1: u8 = 0xbd;
const PADDING: u8 = 0xbe;
const PRIVATE_2: u8 = 0xbf;

/// Most bytes in a row that may belong to no packet.
const SEARCH_BYTES_MAX: u64 = 1 << 20;

/// Bytes that are searched at once for the next packet.
const SEARCH_STEP: usize = 16 * 1024;

/// Bytes of a payload that are handed out at once.
const CHUNK_BYTES: usize = 16 * 1024;

/// Longest header: start code, length, flags and at most 255 bytes; headers of MPEG-1 are
/// shorter.
const HEADER_BYTES_MAX: usize = 9 + 255;

/// The next part of the file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A pack header with its clock reference, in ticks of 27 MHz.
    Pack { offset: u64, clock: i64 },
    /// Bytes of an elementary stream.
    Chunk(Chunk),
}

/// Bytes of an elementary stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) stream: u8,
    /// Offset of the packet's first byte, which is the same for all chunks of a packet.
    pub(super) packet: u64,
    /// The packet's time stamps (90 kHz), with its first chunk only.
    pub(super) presented: Option<i64>,
    pub(super) decoded: Option<i64>,
    /// Whether this is the first chunk of its packet.
    pub(super) first: bool,
    pub(super) bytes: Vec<u8>,
}

/// Reads the packets in order.
pub(super) struct Packets {
    window: Window,
    next: u64,
    /// The rest of the current packet.
    open: Option<Open>,
    /// Offset and number of bytes that were skipped since the last call of `skipped`.
    skipped: Option<(u64, u64)>,
}

#[derive(Clone, Copy)]
struct Open {
    stream: u8,
    packet: u64,
    end: u64,
    header: Header,
    first: bool,
}

/// Fields of a PES header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Header {
    /// Length of the header in bytes, with start code and length field.
    bytes: usize,
    presented: Option<i64>,
    decoded: Option<i64>,
}

impl Packets {
    pub(super) fn new(window: Window) -> Self {
        Self {
            window,
            next: 0,
            open: None,
            skipped: None,
        }
    }

    pub(super) fn fork(&self) -> Self {
        Self::new(self.window.fork())
    }

    /// Continues at a packet or pack at `offset`.
    pub(super) fn go_to(&mut self, offset: u64) {
        self.next = offset;
        self.open = None;
        self.skipped = None;
    }

    /// Returns where bytes were skipped since the last call, and how many.
    pub(super) fn skipped(&mut self) -> Option<(u64, u64)> {
        self.skipped.take()
    }

    /// Returns the next piece; `None` at the end of the file. An incomplete last packet is
    /// handed out as far as it goes.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, Fault> {
        loop {
            if let Some(chunk) = self.next_chunk()? {
                return Ok(Some(Piece::Chunk(chunk)));
            }
            let at = self.next;
            let head = self.window.peek(at, HEADER_BYTES_MAX)?;
            let &[0, 0, 1, code, ref rest @ ..] = head else {
                if head.len() < 4 {
                    return Ok(None);
                }
                self.search()?;
                continue;
            };
            match code {
                PACK => match pack(rest) {
                    Some((bytes, clock)) => {
                        self.next += 4 + bytes as u64;
                        let offset = at;
                        return Ok(Some(Piece::Pack { offset, clock }));
                    }
                    None => self.search()?,
                },
                END => self.next += 4,
                SYSTEM.. if rest.len() >= 2 => {
                    let length = usize::from(u16::from_be_bytes([rest[0], rest[1]]));
                    match packet(code, head, length) {
                        Some(header) => self.begin(code, header, length),
                        None => self.search()?,
                    }
                }
                _ => self.search()?,
            }
        }
    }

    fn begin(&mut self, stream: u8, header: Header, length: usize) {
        let packet = self.next;
        let end = packet + 6 + length as u64;
        let carries = !matches!(stream, SYSTEM | MAP | PADDING | PRIVATE_2);
        self.next = if carries {
            packet + header.bytes as u64
        } else {
            end
        };
        self.open = carries.then_some(Open {
            stream,
            packet,
            end,
            header,
            first: true,
        });
    }

    fn next_chunk(&mut self) -> Result<Option<Chunk>, Fault> {
        let Some(open) = &mut self.open else {
            return Ok(None);
        };
        let left = usize::try_from(open.end.saturating_sub(self.next)).unwrap_or(0);
        let bytes = self.window.peek(self.next, left.min(CHUNK_BYTES))?.to_vec();
        if bytes.is_empty() {
            self.open = None;
            return Ok(None);
        }
        self.next += bytes.len() as u64;
        let first = std::mem::replace(&mut open.first, false);
        Ok(Some(Chunk {
            stream: open.stream,
            packet: open.packet,
            presented: open.header.presented.filter(|_| first),
            decoded: open.header.decoded.filter(|_| first),
            first,
            bytes,
        }))
    }

    /// Skips bytes up to what may be the next packet.
    fn search(&mut self) -> Result<(), Fault> {
        let begun = self.next;
        self.next += 1;
        loop {
            let bytes = self.window.peek(self.next, SEARCH_STEP)?;
            let packs = |code: &[u8]| code[..3] == [0, 0, 1] && code[3] >= END;
            if let Some(found) = bytes.windows(4).position(packs) {
                self.next += found as u64;
                break;
            }
            if bytes.len() < SEARCH_STEP {
                self.next += bytes.len() as u64;
                break;
            }
            self.next += (SEARCH_STEP - 3) as u64;
            if self.next - begun > SEARCH_BYTES_MAX {
                let searched = SEARCH_BYTES_MAX;
                return Err(Fault::at(begun, no_packet(searched)));
            }
        }
        let (_, count) = self.skipped.get_or_insert((begun, 0));
        *count += self.next - begun;
        Ok(())
    }
}

pub(super) fn no_packet(searched: u64) -> Reason {
    Reason::NoFrame {
        expected: "MPEG program stream packet",
        searched,
    }
}

/// Returns the length of a pack header behind its start code in bytes, and its clock in ticks
/// of 27 MHz.
fn pack(rest: &[u8]) -> Option<(usize, i64)> {
    if rest.first()? >> 4 == 2 {
        let clock = stamp::read(rest.get(..STAMP_BYTES)?.try_into().ok()?);
        return (rest.len() >= 8).then_some((8, clock * CLOCK_PER_STAMP));
    }
    if rest[0] >> 6 != 1 {
        return None;
    }
    let &[a, b, c, d, e, f, _, _, _, stuffing] = rest.get(..10)?.first_chunk()?;
    let [a, b, c, d, e, f] = [a, b, c, d, e, f].map(i64::from);
    // Three, 15 and 15 bits have a marker bit behind each; 9 bits of extension follow.
    let base = (a >> 3 & 7) << 30
        | (a & 3) << 28
        | b << 20
        | (c >> 3) << 15
        | (c & 3) << 13
        | d << 5
        | e >> 3;
    let extension = (e & 3) << 7 | f >> 1;
    let bytes = 10 + usize::from(stuffing & 7);
    Some((bytes, base * CLOCK_PER_STAMP + extension))
}

/// Parses the packet header at the start of `head`; `None` if it is invalid.
fn packet(stream: u8, head: &[u8], length: usize) -> Option<Header> {
    if matches!(stream, SYSTEM | MAP | PADDING | PRIVATE_2 | 0xf0..) {
        return Some(Header {
            bytes: 6,
            ..Header::default()
        });
    }
    let body = head.get(6..)?;
    let body = &body[..body.len().min(length)];
    let header = match body.first()? >> 6 {
        2 => mpeg2(body)?,
        _ => mpeg1(body)?,
    };
    (header.bytes <= length).then_some(Header {
        bytes: 6 + header.bytes,
        ..header
    })
}

fn stamp_at(body: &[u8], at: usize) -> Option<i64> {
    let bytes = body.get(at..at + STAMP_BYTES)?;
    Some(stamp::read(bytes.try_into().ok()?))
}

/// Parses an MPEG-2 header behind the length field (ISO/IEC 13818-1 §2.4.3.6).
fn mpeg2(body: &[u8]) -> Option<Header> {
    let &[_, flags, length, ..] = body else {
        return None;
    };
    let fields = 3 + usize::from(length);
    let within = body.get(..fields)?;
    let presented = (flags & 0x80 != 0).then(|| stamp_at(within, 3)).flatten();
    let decoded = (flags >> 6 == 3).then(|| stamp_at(within, 8)).flatten();
    Some(Header {
        bytes: fields,
        presented,
        decoded,
    })
}

/// Parses an MPEG-1 header behind the length field (ISO/IEC 11172-1 §2.4.3.3).
fn mpeg1(body: &[u8]) -> Option<Header> {
    const STUFFING_MAX: usize = 16;
    let mut at = body.iter().take_while(|&&byte| byte == 0xff).count();
    if at > STUFFING_MAX {
        return None;
    }
    // This field is the size of the decoder's buffer.
    if body.get(at)? >> 6 == 1 {
        at += 2;
    }
    let (presented, decoded, bytes) = match body.get(at)? >> 4 {
        2 => (stamp_at(body, at), None, 5),
        3 => (stamp_at(body, at), stamp_at(body, at + 5), 10),
        _ if body[at] == 0x0f => (None, None, 1),
        _ => return None,
    };
    Some(Header {
        bytes: at + bytes,
        presented,
        decoded,
    })
}
