//! Takes elementary streams out of packets (ISO/IEC 13818-1 §2.4.3.6).

use crate::container::transport::packet::Packet;
use crate::system_clock::stamp::{self, STAMP_BYTES};

/// Longest header of a PES packet: nine bytes and at most 255 more.
const HEADER_BYTES_MAX: usize = 9 + 255;

/// Bytes of the header that every PES packet of video and audio has.
const FIXED_BYTES: usize = 9;

/// Time stamps of a PES packet, at 90 kHz and modulo 2^33.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RawStamps {
    pub(super) presented: i64,
    /// Equal to `presented` where the packet states none.
    pub(super) decoded: i64,
}

/// Bytes of an elementary stream within one packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part<'a> {
    /// Offset of the bytes in the packet.
    pub(super) within: usize,
    pub(super) bytes: &'a [u8],
    /// Whether these are the first bytes of a PES packet, and its stamps.
    pub(super) begins: bool,
    pub(super) stamps: Option<RawStamps>,
}

/// Follows the PES packets of one packet identifier.
#[derive(Debug, Default)]
pub(super) struct Pes {
    counter: Option<u8>,
    state: State,
    /// Number of times at which packets were missing.
    pub(super) gaps: u64,
    /// Number of packets that are scrambled.
    pub(super) scrambled: u64,
    /// Whether missing packets were lost on their way. In a file, the counter is wrong as often.
    gaps_are_losses: bool,
    lost: bool,
}

#[derive(Debug, Default)]
enum State {
    /// Waits for the beginning of a PES packet.
    #[default]
    Waiting,
    /// The header so far.
    Header(Vec<u8>),
    Body,
}

impl Pes {
    /// Continues within a PES packet, behind a packet with this counter.
    pub(super) fn within(counter: u8) -> Self {
        Self {
            counter: Some(counter),
            state: State::Body,
            ..Self::default()
        }
    }

    /// Follows PES packets of which parts may be lost on their way. What follows a gap is left out, up to
    /// the next PES packet.
    pub(super) fn with_losses() -> Self {
        Self {
            gaps_are_losses: true,
            ..Self::default()
        }
    }

    /// Returns whether packets were lost since the last call.
    pub(super) fn take_loss(&mut self) -> bool {
        std::mem::take(&mut self.lost)
    }

    /// Returns the bytes that the next packet of the stream adds.
    pub(super) fn push<'a>(&mut self, packet: &'a Packet) -> Option<Part<'a>> {
        if !packet.has_payload() {
            return None;
        }
        let counter = packet.counter();
        if let Some(last) = self.counter.replace(counter)
            && !packet.is_discontinuous()
        {
            // A packet may be sent twice.
            if counter == last {
                return None;
            }
            if counter != (last + 1) & 0x0f {
                self.gaps += 1;
                self.lost |= self.gaps_are_losses;
                if self.gaps_are_losses || matches!(self.state, State::Header(_)) {
                    self.state = State::Waiting;
                }
            }
        }
        if packet.is_scrambled() {
            self.scrambled += 1;
            self.state = State::Waiting;
            return None;
        }
        let (at, payload) = (packet.payload_at(), packet.payload());
        if packet.begins_unit() {
            self.state = State::Header(Vec::new());
        }
        match &mut self.state {
            State::Waiting => None,
            State::Body => Some(Part {
                within: at,
                bytes: payload,
                begins: false,
                stamps: None,
            }),
            State::Header(header) => {
                let before = header.len();
                let room = HEADER_BYTES_MAX - before;
                header.extend_from_slice(&payload[..payload.len().min(room)]);
                let length = match header_bytes(header) {
                    Length::Unknown => return None,
                    Length::None => {
                        self.state = State::Waiting;
                        return None;
                    }
                    Length::Known(length) if header.len() < length => return None,
                    Length::Known(length) => length,
                };
                let stamps = stamps(header);
                self.state = State::Body;
                let skip = length - before;
                Some(Part {
                    within: at + skip,
                    bytes: &payload[skip..],
                    begins: true,
                    stamps,
                })
            }
        }
    }
}

/// Length of a header.
enum Length {
    /// More bytes are needed.
    Unknown,
    /// The bytes are no PES packet of video or audio.
    None,
    Known(usize),
}

fn header_bytes(header: &[u8]) -> Length {
    let prefix = &header[..header.len().min(3)];
    if !b"\0\0\x01".starts_with(prefix) {
        return Length::None;
    }
    let Some(&[_, _, _, stream, _, _, flags, _, more]) = header.first_chunk::<FIXED_BYTES>() else {
        return Length::Unknown;
    };
    // Maps, padding and private data without these fields (§2.4.3.7).
    let has_fields = !matches!(stream, 0xbc | 0xbe | 0xbf | 0xf0..=0xf2 | 0xf8 | 0xff);
    match has_fields && flags & 0xc0 == 0x80 {
        true => Length::Known(FIXED_BYTES + usize::from(more)),
        false => Length::None,
    }
}

fn stamps(header: &[u8]) -> Option<RawStamps> {
    let at = |place: usize| {
        let bytes = header.get(place..place + STAMP_BYTES)?;
        let end = FIXED_BYTES + usize::from(header[8]);
        (place + STAMP_BYTES <= end).then(|| stamp::read(bytes.try_into().unwrap_or_default()))
    };
    let flags = header.get(7)? >> 6;
    let presented = (flags & 2 != 0).then(|| at(FIXED_BYTES)).flatten()?;
    let decoded = (flags == 3)
        .then(|| at(FIXED_BYTES + STAMP_BYTES))
        .flatten();
    Some(RawStamps {
        presented,
        decoded: decoded.unwrap_or(presented),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::container::transport::packet::PACKET_BYTES;
    use proptest::prelude::*;

    /// A packet of stream 256 whose payload ends with these bytes.
    fn packet(counter: u8, begins: bool, payload: &[u8]) -> Packet {
        let mut bytes = [0xff; PACKET_BYTES];
        bytes[..4].copy_from_slice(&[0x47, 1 | u8::from(begins) << 6, 0, 0x30 | counter]);
        let stuffing = PACKET_BYTES - 5 - payload.len();
        bytes[4] = stuffing as u8;
        if stuffing > 0 {
            bytes[5] = 0;
        }
        bytes[PACKET_BYTES - payload.len()..].copy_from_slice(payload);
        Packet(bytes)
    }

    /// A header whose stamps are 90,000 and 86,400, of a whole number of bytes.
    fn header(stuffing: u8) -> Vec<u8> {
        let mut header = vec![0, 0, 1, 0xe0, 0, 0, 0x80, 0xc0, 10 + stuffing];
        for (marker, value) in [(0x31, 90_000), (0x11, 86_400)] {
            let mut stamp = [marker, 0, 1, 0, 1];
            stamp::write(&mut stamp, value);
            header.extend(stamp);
        }
        header.resize(header.len() + usize::from(stuffing), 0xff);
        header
    }

    #[test]
    fn the_body_follows_the_header_also_over_packets() {
        let whole = [&header(0)[..], b"abc"].concat();
        let mut pes = Pes::default();
        assert_eq!(pes.push(&packet(0, false, b"the rest of another")), None);
        let first = packet(1, true, &whole);
        let part = pes.push(&first).expect("a body");
        assert_eq!((part.bytes, part.begins), (&b"abc"[..], true));
        assert_eq!(&first.0[part.within..], b"abc");
        let stamps = part.stamps.expect("stamps");
        assert_eq!((stamps.presented, stamps.decoded), (90_000, 86_400));
        let again = packet(1, false, b"def");
        assert_eq!(pes.push(&again), None, "the same counter");
        let next = packet(2, false, b"def");
        assert_eq!(pes.push(&next).expect("a body").bytes, b"def");

        let long = [&header(200)[..], b"xyz"].concat();
        assert_eq!(pes.push(&packet(3, true, &long[..100])), None);
        assert_eq!(pes.push(&packet(4, false, &long[100..150])), None);
        let last = packet(5, false, &long[150..]);
        let part = pes.push(&last).expect("a body");
        assert_eq!((part.bytes, part.begins), (&b"xyz"[..], true));
        assert_eq!(part.stamps, Some(stamps));
        assert_eq!(pes.gaps, 0);
    }

    #[test]
    fn a_lost_packet_is_counted_and_ends_a_header() {
        let long = [&header(200)[..], b"xyz"].concat();
        let mut pes = Pes::default();
        assert_eq!(pes.push(&packet(0, true, &long[..100])), None);
        assert_eq!(pes.push(&packet(2, false, &long[150..])), None);
        assert_eq!(pes.gaps, 1);
        let mut scrambled = packet(3, true, &header(0));
        scrambled.0[3] |= 0x80;
        assert_eq!(pes.push(&scrambled), None);
        assert_eq!(pes.scrambled, 1);
    }

    proptest! {
        #[test]
        fn any_packets_give_parts_of_themselves(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 20), 1..8),
        ) {
            let mut pes = Pes::default();
            for start in packets {
                let mut bytes = [0xff; PACKET_BYTES];
                bytes[..start.len()].copy_from_slice(&start);
                let packet = Packet(bytes);
                if let Some(part) = pes.push(&packet) {
                    prop_assert_eq!(&packet.0[part.within..], part.bytes);
                }
            }
        }
    }
}
