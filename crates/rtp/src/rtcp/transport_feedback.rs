use glassline_media::Ssrc;

use super::{RawPacket, feedback_format, packet_type, put_u16, put_u32, write_packet};
use crate::ParseError;

/// Feedback about the arrivals of packets on a transport
/// (draft-holmer-rmcat-transport-wide-cc-extensions-01 §3.1).
///
/// Statuses are decoded while they are iterated over, so that a short packet cannot make the
/// receiver allocate memory for the 65,535 statuses that it may describe; by
/// [`runs`](Self::runs), it costs no time for them either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransportFeedback<'a> {
    /// SSRC of the receiver that reports.
    pub sender: Ssrc,
    /// Any SSRC of the transport; its value has no meaning.
    pub media: Ssrc,
    /// Transport sequence number of the first status.
    pub base_sequence: u16,
    /// Number of packets that are described.
    pub status_count: u16,
    /// Reference of the arrival times by the receiver's clock, in units of 64 ms; 24 bits,
    /// signed, wrapping.
    pub reference_time: i32,
    /// Sequence number of this feedback packet, wrapping.
    pub feedback_count: u8,
    /// Status chunks, which describe exactly `status_count` packets; checked by the parser.
    chunks: &'a [u8],
    /// Receive deltas, exactly one for each packet received; checked by the parser.
    deltas: &'a [u8],
}

/// Number of 250 µs ticks of arrival times in a second.
pub(crate) const TICKS_PER_SECOND: i64 = 4000;
/// Number of ticks in one unit of `reference_time`.
pub(crate) const TICKS_PER_REFERENCE: i64 = 256;

impl<'a> TransportFeedback<'a> {
    /// Iterates over (transport sequence number, arrival) of each packet, in order. The arrival
    /// is in ticks of 250 µs after `reference_time`; `None` for a packet that was not received.
    ///
    /// A few bytes can claim 65,535 packets. A reader that must not spend time on claims takes
    /// [`runs`](Self::runs).
    pub fn statuses(&self) -> impl Iterator<Item = (u16, Option<i32>)> + use<'a> {
        let statuses = self.runs().flat_map(|run| match run {
            StatusRun::Missing(count) => std::iter::repeat_n(None, usize::from(count)),
            StatusRun::Arrived(ticks) => std::iter::repeat_n(Some(ticks), 1),
        });
        let base = self.base_sequence;
        let numbered = statuses.zip(0..);
        numbered.map(move |(status, place)| (base.wrapping_add(place), status))
    }

    /// Iterates over the statuses in order, with missing packets of a run length chunk as one
    /// item: the number of items follows the bytes of the feedback, not what it claims.
    pub fn runs(&self) -> StatusRuns<'a> {
        StatusRuns {
            remaining: self.status_count,
            chunk: StatusChunk::Run {
                symbol: NOT_RECEIVED,
                len: 0,
            },
            chunks: self.chunks,
            deltas: self.deltas,
            arrival: 0,
        }
    }

    pub(super) fn parse(raw: RawPacket<'a>) -> Result<Self, ParseError> {
        raw.need("transport feedback", 0, FIXED_BYTES)?;
        let status_count = raw.u16(10);
        let last = raw.u32(12);
        let (chunks_end, deltas_end) = Self::check(raw, status_count)?;
        Ok(Self {
            sender: raw.ssrc(0),
            media: raw.ssrc(4),
            base_sequence: raw.u16(8),
            status_count,
            // The shift extends the sign of the upper 24 bits.
            reference_time: last as i32 >> 8,
            feedback_count: last as u8,
            chunks: &raw.body[FIXED_BYTES..chunks_end],
            deltas: &raw.body[chunks_end..deltas_end],
        })
    }

    /// Checks that chunks and deltas suffice for the status count. Returns the offsets behind
    /// both.
    fn check(raw: RawPacket<'_>, status_count: u16) -> Result<(usize, usize), ParseError> {
        let mut remaining = status_count;
        let mut at = FIXED_BYTES;
        let mut delta_bytes = 0;
        while remaining > 0 {
            raw.need("transport feedback chunk", at, 2)?;
            let chunk = StatusChunk::new(raw.u16(at));
            let len = chunk.len().min(remaining);
            delta_bytes += chunk.delta_bytes(len).ok_or_else(|| ParseError::Value {
                what: "transport feedback status symbol",
                offset: raw.offset + at,
                value: u32::from(RESERVED),
            })?;
            remaining -= len;
            at += 2;
        }
        raw.need("transport feedback deltas", at, delta_bytes)?;
        Ok((at, at + delta_bytes))
    }

    /// Appends the packet to `out`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let fixed = FixedFields {
            sender: self.sender,
            media: self.media,
            base_sequence: self.base_sequence,
            status_count: self.status_count,
            reference_time: self.reference_time,
            feedback_count: self.feedback_count,
        };
        fixed.write(out, |out| {
            out.extend_from_slice(self.chunks);
            out.extend_from_slice(self.deltas);
        });
    }
}

/// Consecutive packets of which a feedback says the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusRun {
    /// So many packets were not received; never zero.
    Missing(u16),
    /// One packet arrived, in ticks of 250 µs after the reference time.
    Arrived(i32),
}

impl StatusRun {
    /// Returns the number of packets that the run describes.
    pub const fn count(self) -> u16 {
        match self {
            Self::Missing(count) => count,
            Self::Arrived(_) => 1,
        }
    }
}

/// Iterator over the statuses of a [`TransportFeedback`], by runs.
#[derive(Clone, Debug)]
pub struct StatusRuns<'a> {
    remaining: u16,
    chunk: StatusChunk,
    chunks: &'a [u8],
    deltas: &'a [u8],
    /// Arrival of the last packet in ticks. 65,535 deltas of 16 bits cannot exceed 32 bits.
    arrival: i32,
}

impl StatusRuns<'_> {
    /// Reads the next receive delta, of `bytes` bytes.
    fn take_delta(&mut self, bytes: usize) -> Option<i32> {
        let (delta, rest) = self.deltas.split_at_checked(bytes)?;
        self.deltas = rest;
        Some(match *delta {
            [small] => i32::from(small),
            [high, low] => i32::from(i16::from_be_bytes([high, low])),
            _ => 0,
        })
    }
}

impl Iterator for StatusRuns<'_> {
    type Item = StatusRun;

    fn next(&mut self) -> Option<StatusRun> {
        if self.remaining == 0 {
            return None;
        }
        // A run may have length zero; `check` skips such chunks as well.
        while self.chunk.len() == 0 {
            let (word, rest) = self.chunks.split_first_chunk()?;
            self.chunks = rest;
            self.chunk = StatusChunk::new(u16::from_be_bytes(*word));
        }
        if let StatusChunk::Run { symbol, len } = &mut self.chunk
            && *symbol == NOT_RECEIVED
        {
            let missing = std::mem::take(len).min(self.remaining);
            self.remaining -= missing;
            return Some(StatusRun::Missing(missing));
        }
        let symbol = self.chunk.take_first();
        self.remaining -= 1;
        if symbol == NOT_RECEIVED {
            return Some(StatusRun::Missing(1));
        }
        let delta = self.take_delta(usize::from(symbol))?;
        self.arrival = self.arrival.saturating_add(delta);
        Some(StatusRun::Arrived(self.arrival))
    }
}

/// Builds a feedback packet of bounded size, status by status.
#[derive(Clone, Debug)]
pub struct TransportFeedbackBuilder {
    base_sequence: u16,
    reference: i64,
    last_arrival: i64,
    symbols: Vec<u8>,
    deltas: Vec<u8>,
    bytes_max: usize,
}

impl TransportFeedbackBuilder {
    /// Creates a builder. The first status will describe packet `base_sequence`; the first
    /// packet that is not missing arrived at `first_arrival`, in ticks of 250 µs by the
    /// receiver's clock. The feedback packet will have at most `bytes_max` bytes.
    pub fn new(base_sequence: u16, first_arrival: i64, bytes_max: usize) -> Self {
        // Rounding down makes the first delta smaller than one unit, so that it fits a small
        // delta.
        let reference = first_arrival.div_euclid(TICKS_PER_REFERENCE);
        Self {
            base_sequence,
            reference,
            last_arrival: reference * TICKS_PER_REFERENCE,
            symbols: Vec::new(),
            deltas: Vec::new(),
            bytes_max,
        }
    }

    /// Adds the next packet in sequence, by its arrival in ticks; `None` if it is missing.
    /// Returns false, and adds nothing, if the status no longer fits.
    pub fn push(&mut self, arrival: Option<i64>) -> bool {
        let delta = arrival.map(|arrival| arrival.saturating_sub(self.last_arrival));
        let (symbol, bytes) = match delta {
            None => (NOT_RECEIVED, 0),
            Some(0..=255) => (SMALL, 1),
            Some(delta) if i16::try_from(delta).is_ok() => (LARGE, 2),
            Some(_) => return false,
        };
        let count = self.symbols.len() + 1;
        // Vectors of seven statuses are the largest encoding that `write_chunks` may choose.
        let chunk_bytes = 2 * count.div_ceil(7);
        let size = super::HEADER_BYTES + FIXED_BYTES + chunk_bytes + self.deltas.len() + bytes;
        if count > usize::from(u16::MAX) || size.next_multiple_of(4) > self.bytes_max {
            return false;
        }
        self.symbols.push(symbol);
        if let (Some(arrival), Some(delta)) = (arrival, delta) {
            let delta = (delta as i16).to_be_bytes();
            self.deltas.extend_from_slice(&delta[2 - bytes..]);
            self.last_arrival = arrival;
        }
        true
    }

    /// Number of packets added so far.
    pub fn status_count(&self) -> usize {
        self.symbols.len()
    }

    /// Appends the packet to `out`.
    pub fn write(&self, sender: Ssrc, media: Ssrc, feedback_count: u8, out: &mut Vec<u8>) {
        let fixed = FixedFields {
            sender,
            media,
            base_sequence: self.base_sequence,
            status_count: self.symbols.len() as u16,
            reference_time: self.reference as i32,
            feedback_count,
        };
        fixed.write(out, |out| {
            write_chunks(&self.symbols, out);
            out.extend_from_slice(&self.deltas);
        });
    }
}

/// Status symbols (draft §3.1.1). Except for the reserved one, a symbol is also the number of
/// bytes of the packet's delta.
const NOT_RECEIVED: u8 = 0;
/// Symbol of a packet received with a small delta, of one byte.
const SMALL: u8 = 1;
/// Symbol of a packet received with a large or negative delta, of two bytes.
const LARGE: u8 = 2;
/// Symbol that the draft reserves.
const RESERVED: u8 = 3;

/// Length from the sender's SSRC to the feedback count, in bytes.
const FIXED_BYTES: usize = 16;
/// Longest run of a run length chunk, a field of 13 bits.
const RUN_LEN_MAX: usize = 0x1fff;

/// Fields in front of the status chunks.
struct FixedFields {
    sender: Ssrc,
    media: Ssrc,
    base_sequence: u16,
    status_count: u16,
    reference_time: i32,
    feedback_count: u8,
}

impl FixedFields {
    fn write(&self, out: &mut Vec<u8>, rest: impl FnOnce(&mut Vec<u8>)) {
        let format = feedback_format::TRANSPORT_WIDE;
        write_packet(out, format, packet_type::TRANSPORT_FEEDBACK, |out| {
            put_u32(out, self.sender.0);
            put_u32(out, self.media.0);
            put_u16(out, self.base_sequence);
            put_u16(out, self.status_count);
            let reference = (self.reference_time as u32) << 8;
            put_u32(out, reference | u32::from(self.feedback_count));
            rest(out);
        });
    }
}

/// The statuses of one packet status chunk that were not read yet (draft §3.1.2 to §3.1.4).
#[derive(Clone, Copy, Debug)]
enum StatusChunk {
    Run {
        symbol: u8,
        len: u16,
    },
    /// Symbols of `bits` bits; the next one is in the highest bits of `word`.
    Vector {
        word: u16,
        bits: u16,
        len: u16,
    },
}

impl StatusChunk {
    fn new(word: u16) -> Self {
        if word & 0x8000 == 0 {
            return Self::Run {
                symbol: (word >> 13 & 3) as u8,
                len: word & 0x1fff,
            };
        }
        let bits = if word & 0x4000 == 0 { 1 } else { 2 };
        Self::Vector {
            word: word << 2,
            bits,
            len: 14 / bits,
        }
    }

    fn len(&self) -> u16 {
        match *self {
            Self::Run { len, .. } | Self::Vector { len, .. } => len,
        }
    }

    fn take_first(&mut self) -> u8 {
        match self {
            Self::Run { symbol, len } => {
                *len = len.saturating_sub(1);
                *symbol
            }
            Self::Vector { word, bits, len } => {
                let symbol = (*word >> (16 - *bits)) as u8;
                *word <<= *bits;
                *len = len.saturating_sub(1);
                symbol
            }
        }
    }

    /// Number of bytes of the deltas of the first `count` statuses; `None` for the reserved
    /// symbol.
    fn delta_bytes(mut self, count: u16) -> Option<usize> {
        if let Self::Run { symbol, .. } = self {
            return (symbol != RESERVED || count == 0)
                .then_some(usize::from(symbol) * usize::from(count));
        }
        let mut bytes = 0;
        for _ in 0..count {
            match self.take_first() {
                RESERVED => return None,
                symbol => bytes += usize::from(symbol),
            }
        }
        Some(bytes)
    }
}

/// Encodes `symbols` greedily: as a run where that is at least as short as a vector, otherwise
/// as fourteen one-bit or seven two-bit symbols. The last vector is filled with zeros.
fn write_chunks(mut symbols: &[u8], out: &mut Vec<u8>) {
    while let Some(&first) = symbols.first() {
        let run = symbols
            .iter()
            .take(RUN_LEN_MAX)
            .take_while(|&&symbol| symbol == first)
            .count();
        let one_bit = symbols
            .iter()
            .take(14)
            .take_while(|&&symbol| symbol != LARGE)
            .count();
        let ends = |len: usize| len == symbols.len();
        let fits_one_bit = one_bit == 14 || ends(one_bit);
        let (word, len) = if run >= 14 || ends(run) || (run >= 7 && !fits_one_bit) {
            (u16::from(first) << 13 | run as u16, run)
        } else if fits_one_bit {
            (0x8000 | vector(&symbols[..one_bit], 1), one_bit)
        } else {
            let len = symbols.len().min(7);
            (0xc000 | vector(&symbols[..len], 2), len)
        };
        put_u16(out, word);
        symbols = &symbols[len..];
    }
}

/// Returns the lower fourteen bits of a vector chunk.
fn vector(symbols: &[u8], bits: u32) -> u16 {
    (1u32..).zip(symbols).fold(0, |word, (place, &symbol)| {
        word | u16::from(symbol) << (14 - place * bits)
    })
}
