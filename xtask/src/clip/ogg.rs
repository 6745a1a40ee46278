//! The subset of Ogg (RFC 3533) that is needed to move Opus packets from one file to another. The
//! product reads Ogg with code of its own, so that the clip tests both.

/// Opus packets, and the header of their file.
pub(super) struct Audio {
    /// The identification packet, as the encoder wrote it.
    pub(super) head: Vec<u8>,
    /// Opus packets in order.
    pub(super) packets: Vec<Vec<u8>>,
}

/// Samples of one packet at 48 kHz.
pub(super) const PACKET_SAMPLES: u64 = 960;
/// Packets of one page: a second of audio.
const PAGE_PACKETS: usize = 50;
/// Serial number of the stream, which is constant so that files compare equal.
const SERIAL: u32 = 0x676c_6173;

impl Audio {
    /// Reads a file with one Opus stream.
    pub(super) fn read(file: &[u8]) -> Result<Self, String> {
        let mut packets = Vec::new();
        let mut open = Vec::new();
        let mut rest = file;
        while !rest.is_empty() {
            let header = rest.get(..27).filter(|header| header.starts_with(b"OggS"));
            let segments = usize::from(header.ok_or("the encoder wrote a damaged Ogg page")?[26]);
            let lacing = rest
                .get(27..27 + segments)
                .ok_or("an Ogg page without its lacing")?;
            let mut at = 27 + segments;
            for &length in lacing {
                let end = at + usize::from(length);
                open.extend_from_slice(rest.get(at..end).ok_or("an Ogg page is cut")?);
                at = end;
                if length < 255 {
                    packets.push(std::mem::take(&mut open));
                }
            }
            rest = &rest[at..];
        }
        if packets.len() < 3 || !packets[0].starts_with(b"OpusHead") {
            return Err("the encoder wrote no Opus stream".into());
        }
        let head = packets.remove(0);
        packets.remove(0);
        Ok(Self { head, packets })
    }

    /// The whole file: headers, then pages of a second each, the last marked as the end.
    pub(super) fn write(&self) -> Vec<u8> {
        let mut tags = b"OpusTags".to_vec();
        tags.extend(9u32.to_le_bytes());
        tags.extend(b"glassline");
        tags.extend(0u32.to_le_bytes());
        let mut out = Vec::new();
        page(&mut out, 0, 2, 0, &[&self.head]);
        page(&mut out, 1, 0, 0, &[&tags]);
        let count = self.packets.len().div_ceil(PAGE_PACKETS);
        for (index, packets) in self.packets.chunks(PAGE_PACKETS).enumerate() {
            let flags = if index + 1 == count { 4 } else { 0 };
            let granule = (index * PAGE_PACKETS + packets.len()) as u64 * PACKET_SAMPLES;
            let packets: Vec<&[u8]> = packets.iter().map(Vec::as_slice).collect();
            page(&mut out, index as u32 + 2, flags, granule, &packets);
        }
        out
    }
}

fn page(out: &mut Vec<u8>, sequence: u32, flags: u8, granule: u64, packets: &[&[u8]]) {
    let start = out.len();
    let mut lacing = Vec::new();
    for packet in packets {
        lacing.extend(std::iter::repeat_n(255, packet.len() / 255));
        lacing.push((packet.len() % 255) as u8);
    }
    assert!(lacing.len() <= 255, "a second of audio fits one page");
    out.extend(b"OggS\0");
    out.push(flags);
    out.extend(granule.to_le_bytes());
    out.extend(SERIAL.to_le_bytes());
    out.extend(sequence.to_le_bytes());
    out.extend([0; 4]);
    out.push(lacing.len() as u8);
    out.extend(lacing);
    out.extend(packets.concat());
    let checksum = crc(&out[start..]);
    out[start + 22..start + 26].copy_from_slice(&checksum.to_le_bytes());
}

/// CRC-32 with the polynomial 0x04c11db7, not reflected, starting at zero (RFC 3533 §6).
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte) << 24, |sum, _| {
            let carry = sum >> 31;
            (sum << 1) ^ (carry * 0x04c1_1db7)
        })
    })
}
