//! The bytes of a burst as they go out, made once for all clients.
//!
//! ```text
//! interleaved   $ channel length │ RTP header │ payload │ $ channel …    (RFC 2326 §10.12)
//! datagrams     RTP header │ payload │ RTP header │ payload …   cut by the kernel
//! ```
//!
//! No packet is padded: what a client stores is what the source sent.

use bytes::Bytes;
use glassline_media::{Burst, Track};
use glassline_rtp::{HEADER_BYTES, Header, write_header};
use glassline_rtsp::{interleaved, sdp};
use smallvec::SmallVec;

use super::numbers::Numbers;

/// A track as packets name it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Label {
    pub(super) numbers: Numbers,
    pub(super) payload_type: u8,
    pub(super) clock_rate: u32,
    /// The marker ends frames; without it no packet has one.
    pub(super) marks_frames: bool,
}

impl Label {
    pub(super) fn new(track: &Track, index: usize, numbers: Numbers) -> Self {
        Self {
            numbers,
            payload_type: sdp::payload_type(track, index),
            clock_rate: track.clock_rate,
            marks_frames: track.codec.marks_frames(),
        }
    }

    /// The header of packet `place` of `burst`.
    fn header(&self, burst: &Burst, place: usize, timestamp: u32) -> Header {
        Header {
            marker: self.marks_frames && burst.marker(place),
            payload_type: self.payload_type,
            sequence: self.numbers.sequence(burst.first_packet + place as u64),
            timestamp,
            ssrc: self.numbers.ssrc,
        }
    }

    fn append(
        &self,
        out: &mut Vec<u8>,
        burst: &Burst,
        place: usize,
        payload: &[u8],
        timestamp: u32,
    ) {
        let mut header = [0; HEADER_BYTES];
        write_header(&mut header, &self.header(burst, place, timestamp), &[]);
        out.extend_from_slice(&header);
        out.extend_from_slice(payload);
    }

    /// The burst within an RTSP connection, on `channel`.
    pub(super) fn interleave(&self, burst: &Burst, channel: u8) -> Bytes {
        let overhead = interleaved::HEADER_BYTES + HEADER_BYTES;
        let size = burst.payload_bytes() + burst.packet_count() * overhead;
        let mut out = Vec::with_capacity(size);
        let timestamp = self.numbers.timestamp(burst.time, self.clock_rate);
        for (place, payload) in burst.payloads().enumerate() {
            let length = u16::try_from(HEADER_BYTES + payload.len())
                .expect("ingest cuts payloads far below 64 KiB");
            out.extend_from_slice(&interleaved::header(channel, length));
            self.append(&mut out, burst, place, payload, timestamp);
        }
        out.into()
    }

    /// The burst as datagrams.
    pub(super) fn datagrams(&self, burst: &Burst) -> Datagrams {
        let size = burst.payload_bytes() + burst.packet_count() * HEADER_BYTES;
        let mut bytes = Vec::with_capacity(size);
        let mut runs = SmallVec::<[Run; 2]>::new();
        let timestamp = self.numbers.timestamp(burst.time, self.clock_rate);
        for (place, payload) in burst.payloads().enumerate() {
            let size = HEADER_BYTES + payload.len();
            self.append(&mut bytes, burst, place, payload, timestamp);
            match runs.last_mut() {
                Some(run) if !run.closed && size <= run.segment_size => {
                    run.end = bytes.len();
                    run.closed = size < run.segment_size;
                }
                _ => runs.push(Run {
                    segment_size: size,
                    end: bytes.len(),
                    closed: false,
                }),
            }
        }
        Datagrams {
            bytes: bytes.into(),
            runs,
        }
    }
}

/// A burst's datagrams back to back.
#[derive(Clone, Debug)]
pub(super) struct Datagrams {
    bytes: Bytes,
    runs: SmallVec<[Run; 2]>,
}

/// Datagrams that the kernel can take as one: all equal but the last, which may be
/// shorter.
#[derive(Clone, Copy, Debug)]
struct Run {
    segment_size: usize,
    /// Where it ends in the bytes; it begins where the one before it ends.
    end: usize,
    /// Its last datagram is shorter, so none may follow.
    closed: bool,
}

impl Datagrams {
    /// What one RTCP packet is.
    pub(super) fn single(packet: Bytes) -> Self {
        let run = Run {
            segment_size: packet.len(),
            end: packet.len(),
            closed: true,
        };
        Self {
            bytes: packet,
            runs: smallvec::smallvec![run],
        }
    }

    /// Bytes of all of them.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Each run: its bytes, and the size that they are cut to.
    pub(super) fn runs(&self) -> impl Iterator<Item = (&[u8], usize)> {
        let ends = self.runs.iter().map(|run| run.end);
        let starts = std::iter::once(0).chain(ends);
        let runs = self.runs.iter().zip(starts);
        runs.map(|(run, start)| (&self.bytes[start..run.end], run.segment_size))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    use glassline_hub::StreamName;
    use glassline_media::{BurstBuilder, Codec, MediaTime, Stamps, VideoParameters};
    use glassline_rtp::Packet;

    use super::super::numbers::Keys;

    fn burst(sizes: &[usize]) -> Burst {
        let mut builder = BurstBuilder::default();
        for (place, size) in sizes.iter().enumerate() {
            builder.push(&vec![u8::try_from(place).expect("few"); *size]);
        }
        let time = MediaTime::from_nanos(2_000_000_000);
        let burst = builder.build(0, time, true, Stamps::arrived(Instant::now()));
        let mut burst = burst.expect("packets");
        burst.first_packet = 65_530;
        burst
    }

    fn label(track: &Track) -> Label {
        let name = StreamName::parse("cam").expect("a good name");
        Label::new(track, 0, Keys::default().track(&name, 0))
    }

    #[test]
    fn frames_follow_each_other_on_their_channel() {
        let label = label(&Track::h264(VideoParameters::default()));
        let burst = burst(&[1000, 1000, 300]);
        let bytes = label.interleave(&burst, 4);
        let mut rest = &bytes[..];
        for place in 0..3 {
            let (head, behind) = rest.split_at(4);
            let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
            assert_eq!(head[..2], [b'$', 4]);
            let packet = Packet::parse(&behind[..length]).expect("RTP");
            assert_eq!(
                packet.header,
                label.header(&burst, place, packet.header.timestamp)
            );
            assert_eq!(packet.header.marker, place == 2);
            assert_eq!(Some(packet.payload), burst.payload(place));
            rest = &behind[length..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn sound_without_frames_has_no_marker() {
        let label = label(&Track::audio(Codec::Opus, 2));
        let datagrams = label.datagrams(&burst(&[80]));
        let (bytes, _) = datagrams.runs().next().expect("one");
        assert!(!Packet::parse(bytes).expect("RTP").header.marker);
    }

    #[test]
    fn the_kernel_can_cut_every_run() {
        let label = label(&Track::h264(VideoParameters::default()));
        let runs = |sizes: &[usize]| {
            let datagrams = label.datagrams(&burst(sizes));
            let runs = datagrams.runs();
            runs.map(|(bytes, size)| (bytes.len(), size))
                .collect::<Vec<_>>()
        };
        assert_eq!(runs(&[100, 100, 40]), [(276, 112)]);
        assert_eq!(
            runs(&[30, 8, 100, 100, 90, 90]),
            [(62, 42), (326, 112), (102, 102)]
        );
    }
}
