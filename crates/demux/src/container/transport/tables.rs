//! Parses the program association and the program map (ISO/IEC 13818-1 §2.4.4), and stores
//! their packets.

use crc::{CRC_32_MPEG_2, Crc};

use super::content::Content;
use super::packet::{PACKET_BYTES, PAT_PID, Packet};

/// Longest section in bytes; both tables have short ones.
const SECTION_BYTES_MAX: usize = 1024;

const PAT: u8 = 0x00;
const PMT: u8 = 0x02;

/// Offset of the body, behind table, length, number, version and section numbers.
const BODY_AT: usize = 8;
const CHECKSUM_BYTES: usize = 4;

/// Coding of an elementary stream, as far as its keyframes can be recognized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// MPEG-1 or MPEG-2 video.
    Mpeg,
    /// Video of MPEG-4 Part 2.
    Mpeg4,
    H264,
    H265,
    /// Video whose keyframes only the random access indicator marks.
    OtherVideo,
    Audio,
    Other,
}

impl Coding {
    /// Returns the coding of a stream type (ISO/IEC 13818-1 table 2-34, and additions of ATSC,
    /// Blu-ray and SMPTE).
    fn of(stream_type: u8) -> Self {
        match stream_type {
            0x01 | 0x02 => Self::Mpeg,
            0x10 => Self::Mpeg4,
            0x1b => Self::H264,
            0x24 => Self::H265,
            0x1e..=0x21 | 0x32..=0x33 | 0x42 | 0xd1..=0xd4 | 0xea => Self::OtherVideo,
            0x03 | 0x04 | 0x0f | 0x11 | 0x1c | 0x80..=0x87 => Self::Audio,
            _ => Self::Other,
        }
    }

    pub(super) fn is_video(self) -> bool {
        !matches!(self, Self::Audio | Self::Other)
    }
}

/// The first program of the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Program {
    /// Packet identifier of the clock references.
    pub(super) clock_pid: u16,
    pub(super) streams: Vec<(u16, Coding)>,
    /// The streams with all that is needed to play them apart from each other.
    pub(super) contents: Vec<(u16, Content)>,
}

impl Program {
    /// Returns the stream whose entry points count: the first video stream, else the first
    /// audio stream.
    pub(super) fn leading(&self) -> Option<(u16, Coding)> {
        let of = |wanted: fn(Coding) -> bool| {
            let mut streams = self.streams.iter();
            streams.find(|(_, coding)| wanted(*coding)).copied()
        };
        of(Coding::is_video)
            .or_else(|| of(|coding| coding == Coding::Audio))
            .or_else(|| self.streams.first().copied())
    }
}

/// Keeps track of both tables.
#[derive(Debug, Default)]
pub(super) struct Tables {
    association: Section,
    map: Section,
    /// Packet identifier of the map, and number of the program.
    map_pid: Option<(u16, u16)>,
    program: Option<Program>,
    association_packets: Vec<u8>,
    map_packets: Vec<u8>,
}

impl Tables {
    /// Reads the next packet. Returns true if a table has changed.
    pub(super) fn push(&mut self, packet: &Packet) -> bool {
        if packet.pid() == PAT_PID {
            let Some(section) = self.association.push(packet) else {
                return false;
            };
            let Some(found) = first_program(section).filter(|_| section[0] == PAT) else {
                return false;
            };
            if self.map_pid != Some(found) {
                self.map_pid = Some(found);
                self.map = Section::default();
            }
            return replace(&mut self.association_packets, &self.association.packets);
        }
        let Some((map_pid, number)) = self.map_pid.filter(|(pid, _)| *pid == packet.pid()) else {
            return false;
        };
        debug_assert_eq!(map_pid, packet.pid());
        let Some(section) = self.map.push(packet) else {
            return false;
        };
        if section[0] != PMT || section[3..5] != number.to_be_bytes() {
            return false;
        }
        self.program = program(section).or(self.program.take());
        replace(&mut self.map_packets, &self.map.packets)
    }

    pub(super) fn program(&self) -> Option<&Program> {
        self.program.as_ref()
    }

    /// Returns the packets of both tables, once both are known.
    pub(super) fn packets(&self) -> Option<Vec<u8>> {
        let known = !self.association_packets.is_empty() && !self.map_packets.is_empty();
        known.then(|| [&self.association_packets[..], &self.map_packets].concat())
    }
}

/// Replaces `old` by `new`. Returns true if they differ in more than counters.
fn replace(old: &mut Vec<u8>, new: &[u8]) -> bool {
    let without_counter = |packets: &[u8]| -> Vec<u8> {
        let mut packets = packets.to_vec();
        let counters = packets.chunks_exact_mut(PACKET_BYTES);
        counters.for_each(|packet| packet[3] &= 0xf0);
        packets
    };
    let changed = without_counter(old) != without_counter(new);
    new.clone_into(old);
    changed
}

/// Assembles the sections of one packet identifier.
#[derive(Debug, Default)]
struct Section {
    bytes: Vec<u8>,
    /// The packets that contain the section.
    packets: Vec<u8>,
    open: bool,
}

impl Section {
    /// Returns the section if it ends in this packet and is undamaged. A second section in the
    /// same packet is ignored: neither table needs one.
    fn push(&mut self, packet: &Packet) -> Option<&[u8]> {
        let mut payload = packet.payload();
        if packet.begins_unit() {
            let (&pointer, rest) = payload.split_first()?;
            payload = rest.get(usize::from(pointer)..)?;
            self.bytes.clear();
            self.packets.clear();
            self.open = true;
        } else if !self.open {
            return None;
        }
        let room = SECTION_BYTES_MAX - self.bytes.len();
        self.bytes.extend(&payload[..payload.len().min(room)]);
        self.packets.extend(packet.0);
        let length = self.bytes.get(1..3)?;
        let length = 3 + usize::from(u16::from_be_bytes([length[0], length[1]]) & 0xfff);
        if length > SECTION_BYTES_MAX {
            self.open = false;
        }
        if !self.open || self.bytes.len() < length {
            return None;
        }
        self.open = false;
        self.bytes.truncate(length);
        let whole = length >= BODY_AT + CHECKSUM_BYTES && CRC.checksum(&self.bytes) == 0;
        whole.then_some(&self.bytes[..])
    }
}

/// Returns the map's packet identifier and the number of the first program.
fn first_program(section: &[u8]) -> Option<(u16, u16)> {
    let body = section.get(BODY_AT..section.len() - CHECKSUM_BYTES)?;
    let entries = body.chunks_exact(4).map(|entry| {
        let number = u16::from_be_bytes([entry[0], entry[1]]);
        (u16::from_be_bytes([entry[2] & 0x1f, entry[3]]), number)
    });
    // Number 0 denotes the network information.
    entries.into_iter().find(|(_, number)| *number != 0)
}

fn program(section: &[u8]) -> Option<Program> {
    let body = section.get(BODY_AT..section.len() - CHECKSUM_BYTES)?;
    let (&[clock_high, clock_low, info_high, info_low], rest) = body.split_first_chunk()?;
    let info = usize::from(u16::from_be_bytes([info_high & 0x0f, info_low]));
    let mut rest = rest.get(info..)?;
    let (mut streams, mut contents) = (Vec::new(), Vec::new());
    while let Some((&[kind, pid_high, pid_low, info_high, info_low], after)) =
        rest.split_first_chunk()
    {
        let pid = u16::from_be_bytes([pid_high & 0x1f, pid_low]);
        streams.push((pid, Coding::of(kind)));
        let info = usize::from(u16::from_be_bytes([info_high & 0x0f, info_low]));
        let descriptors = after.get(..info).unwrap_or_default();
        contents.push((pid, Content::of(kind, descriptors)));
        rest = after.get(info..).unwrap_or_default();
    }
    Some(Program {
        clock_pid: u16::from_be_bytes([clock_high & 0x1f, clock_low]),
        streams,
        contents,
    })
}

/// The checksum of ISO/IEC 13818-1 annex A; 0 over an undamaged section.
static CRC: Crc<u32> = Crc::<u32>::new(&CRC_32_MPEG_2);

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pid: u16, begins: bool, payload: &[u8]) -> Packet {
        let mut bytes = [0xff; PACKET_BYTES];
        let [high, low] = pid.to_be_bytes();
        bytes[..4].copy_from_slice(&[0x47, high | u8::from(begins) << 6, low, 0x10]);
        bytes[4..4 + payload.len()].copy_from_slice(payload);
        Packet(bytes)
    }

    fn section(table: u8, number: u16, body: &[u8]) -> Vec<u8> {
        let length = (5 + body.len() + 4) as u16 | 0xb000;
        let mut bytes = vec![table];
        bytes.extend(length.to_be_bytes());
        bytes.extend(number.to_be_bytes());
        bytes.extend([0xc1, 0, 0]);
        bytes.extend(body);
        let sum = CRC.checksum(&bytes);
        bytes.extend(sum.to_be_bytes());
        bytes
    }

    #[test]
    fn a_map_over_two_packets_is_read() {
        let mut tables = Tables::default();
        let association = section(PAT, 1, &[0, 0, 0xe0, 0x10, 0, 7, 0xe1, 0]);
        let whole = [&[0], &association[..]].concat();
        assert!(tables.push(&packet(0, true, &whole)));
        assert_eq!(tables.packets(), None);
        let mut body = vec![0xe1, 1, 0xf0, 200];
        body.extend([0x55; 200]);
        body.extend([0x0f, 0xe1, 2, 0xf0, 0, 0x1b, 0xe1, 1, 0xf0, 0]);
        let map = [&[0], &section(PMT, 7, &body)[..]].concat();
        assert!(!tables.push(&packet(256, true, &map[..184])));
        assert!(tables.push(&packet(256, false, &map[184..])));
        let program = tables.program().expect("both tables were given");
        assert_eq!(program.clock_pid, 257);
        assert_eq!(program.leading(), Some((257, Coding::H264)));
        assert_eq!(tables.packets().map(|all| all.len()), Some(3 * 188));
        assert!(!tables.push(&packet(0, true, &whole)), "the same again");
    }

    #[test]
    fn a_damaged_table_is_passed_over() {
        let mut tables = Tables::default();
        let mut association = section(PAT, 1, &[0, 7, 0xe1, 0]);
        association[9] ^= 1;
        assert!(!tables.push(&packet(0, true, &[&[0], &association[..]].concat())));
        assert_eq!(tables.map_pid, None);
    }
}
