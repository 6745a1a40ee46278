//! Makes the bytes of a unit's packets, once for all clients.
//!
//! ```text
//! interleaved   $ channel length │ RTP header │ payload │ $ channel …    (RFC 2326 §10.12)
//! datagrams     RTP header │ payload │ RTP header │ payload …   cut by the kernel
//! ```
//!
//! No packet is padded: a client that records the stream stores what the source sent.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use glassline_media::{MediaUnit, Track, TrackIndex};
use glassline_rtp::{HEADER_BYTES, Header, write_header};
use glassline_rtsp::{interleaved, sdp};
use smallvec::SmallVec;

use super::numbers::Numbers;
use super::replay_extension::{self, EXTENSION_BIT, REPLAY_EXTENSION_BYTES};

/// Most packets of a [`PacketRun`]. At the 1,200 bytes that packets have at most they are just
/// below 48 KiB, which a client by UDP gets at a time.
const RUN_PACKETS_MAX: usize = 40;

/// Consecutive packets of a unit: all of most units, a part of a large keyframe.
#[derive(Clone, Debug)]
pub struct PacketRun {
    pub unit: Arc<MediaUnit>,
    packets: Range<usize>,
    payload_bytes: usize,
}

impl PacketRun {
    /// Divides a unit into runs of at most [`RUN_PACKETS_MAX`] packets, in order.
    pub fn divide(unit: &Arc<MediaUnit>) -> impl Iterator<Item = Self> {
        let count = unit.packet_count();
        let starts = (0..count).step_by(RUN_PACKETS_MAX);
        starts.map(move |start| {
            let packets = start..count.min(start + RUN_PACKETS_MAX);
            let payloads = packets.clone().filter_map(|place| unit.payload(place));
            Self {
                unit: Arc::clone(unit),
                payload_bytes: payloads.map(<[u8]>::len).sum(),
                packets,
            }
        })
    }

    /// Returns whether the run begins its unit.
    pub fn is_first(&self) -> bool {
        self.packets.start == 0
    }

    /// Returns the number of packets, at least one.
    pub fn packet_count(&self) -> usize {
        self.packets.len()
    }

    /// Returns the number of payload bytes in all packets.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Iterates over the payloads, each with the place of its packet in the unit.
    fn payloads(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let places = self.packets.clone();
        places.filter_map(|place| Some((place, self.unit.payload(place)?)))
    }
}

/// The fields of RTP headers that all packets of a track have in common.
#[derive(Clone, Copy, Debug)]
pub struct HeaderTemplate {
    /// SSRC, first sequence number and first timestamp of the track.
    pub numbers: Numbers,
    /// Payload type that SDP names for the track.
    pub payload_type: u8,
    /// Clock rate of timestamps in Hz.
    pub clock_rate: u32,
    /// Whether the marker bit marks the last packet of a frame; for other codecs no packet has it.
    pub marks_frames: bool,
    /// Low byte of the `CSeq` of PLAY, for a client that wants to know when each frame was recorded.
    pub replay: Option<u8>,
}

impl HeaderTemplate {
    /// Returns the fields of the packets of `track`, which stands at `index` in the stream.
    pub fn new(track: &Track, index: TrackIndex, numbers: Numbers) -> Self {
        Self {
            numbers,
            payload_type: sdp::payload_type(track, index),
            clock_rate: track.clock_rate,
            marks_frames: track.codec.marks_frames(),
            replay: None,
        }
    }

    /// Returns the RTP header of packet `place` of `unit`.
    fn header(&self, unit: &MediaUnit, place: usize, timestamp: u32) -> Header {
        Header {
            marker: self.marks_frames && unit.marker(place),
            payload_type: self.payload_type,
            sequence: self.numbers.sequence(unit.first_packet + place as u64),
            timestamp,
            ssrc: self.numbers.ssrc,
        }
    }

    /// Iterates over the packets of `run`, each as header and payload.
    pub fn packets<'a>(&'a self, run: &'a PacketRun) -> impl Iterator<Item = (Header, &'a [u8])> {
        let unit = &run.unit;
        let timestamp = self.numbers.timestamp(unit.time, self.clock_rate);
        let payloads = run.payloads();
        payloads.map(move |(place, payload)| (self.header(unit, place, timestamp), payload))
    }

    /// Returns the packets as interleaved frames on `channel` of an RTSP connection.
    pub fn interleave(&self, run: &PacketRun, channel: u8) -> Bytes {
        let overhead = interleaved::HEADER_BYTES + HEADER_BYTES;
        let size = run.payload_bytes() + run.packet_count() * overhead;
        let mut out = Vec::with_capacity(size + REPLAY_EXTENSION_BYTES);
        let mut extension = self.extension(run);
        for (header, payload) in self.packets(run) {
            let extension = extension.take();
            let head = HEADER_BYTES + extension.map_or(0, |it| it.len());
            let length =
                u16::try_from(head + payload.len()).expect("ingest cuts payloads far below 64 KiB");
            out.extend_from_slice(&interleaved::header(channel, length));
            append(&mut out, &header, extension, payload);
        }
        out.into()
    }

    /// Returns the packets as datagrams.
    pub fn datagrams(&self, run: &PacketRun) -> Datagrams {
        let size = run.payload_bytes() + run.packet_count() * HEADER_BYTES;
        let mut datagrams = Datagrams::builder(size + REPLAY_EXTENSION_BYTES);
        let mut extension = self.extension(run);
        for (header, payload) in self.packets(run) {
            let extension = extension.take();
            datagrams.add(|out| append(out, &header, extension, payload));
        }
        datagrams.build()
    }

    /// Returns the header extension of the first packet of `run`, if it has one.
    fn extension(&self, run: &PacketRun) -> Option<[u8; REPLAY_EXTENSION_BYTES]> {
        replay_extension::of_packet(&run.unit, run.packets.start, self.replay?)
    }
}

fn append(
    out: &mut Vec<u8>,
    header: &Header,
    extension: Option<[u8; REPLAY_EXTENSION_BYTES]>,
    payload: &[u8],
) {
    let mut head = [0; HEADER_BYTES];
    write_header(&mut head, header, &[]);
    if let Some(extension) = extension {
        head[0] |= EXTENSION_BIT;
        out.extend_from_slice(&head);
        out.extend_from_slice(&extension);
    } else {
        out.extend_from_slice(&head);
    }
    out.extend_from_slice(payload);
}

/// Datagrams, back to back.
#[derive(Clone, Debug)]
pub struct Datagrams {
    bytes: Bytes,
    count: u64,
    runs: SmallVec<[Run; 2]>,
}

/// Datagrams that the kernel can take in one message: all of one size, except that the last may be
/// shorter.
#[derive(Clone, Copy, Debug)]
struct Run {
    segment_size: usize,
    /// Position in the bytes where the run ends; it begins where the run before it ends.
    end: usize,
    /// Whether the last datagram is shorter, so that none may follow.
    closed: bool,
}

/// Collects datagrams for [`Datagrams`].
#[derive(Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    count: u64,
    runs: SmallVec<[Run; 2]>,
}

impl Builder {
    /// Adds the datagram that `write` appends to the buffer.
    pub fn add(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.bytes.len();
        write(&mut self.bytes);
        let end = self.bytes.len();
        let size = end - start;
        self.count += 1;
        match self.runs.last_mut() {
            Some(run) if !run.closed && size <= run.segment_size => {
                run.end = end;
                run.closed = size < run.segment_size;
            }
            _ => self.runs.push(Run {
                segment_size: size,
                end,
                closed: false,
            }),
        }
    }

    pub fn build(self) -> Datagrams {
        Datagrams {
            bytes: self.bytes.into(),
            count: self.count,
            runs: self.runs,
        }
    }
}

impl Datagrams {
    /// Creates a builder with room for `bytes` bytes.
    pub fn builder(bytes: usize) -> Builder {
        Builder {
            bytes: Vec::with_capacity(bytes),
            count: 0,
            runs: SmallVec::new(),
        }
    }

    /// Returns one RTCP packet as a datagram.
    pub fn single(packet: Bytes) -> Self {
        let run = Run {
            segment_size: packet.len(),
            end: packet.len(),
            closed: true,
        };
        Self {
            bytes: packet,
            count: 1,
            runs: smallvec::smallvec![run],
        }
    }

    /// Returns the number of datagrams.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of bytes of all datagrams.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Iterates over the runs: the bytes of each, and the size of one datagram in it.
    pub fn runs(&self) -> impl Iterator<Item = (&[u8], usize)> {
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

    use glassline_media::{Codec, MediaTime, Stamps, UnitBuilder, VideoParameters};
    use glassline_rtp::Packet;

    use super::super::numbers::NumberKeys;

    fn unit(sizes: &[usize]) -> Arc<MediaUnit> {
        let mut builder = UnitBuilder::default();
        for (place, size) in sizes.iter().enumerate() {
            builder.push(&vec![u8::try_from(place).expect("few"); *size]);
        }
        let time = MediaTime::from_nanos(2_000_000_000);
        let unit = builder.build(TrackIndex(0), time, true, Stamps::arrived(Instant::now()));
        let mut unit = unit.expect("packets");
        unit.first_packet = 65_530;
        Arc::new(unit)
    }

    /// Returns the only run of a unit.
    fn run(unit: &Arc<MediaUnit>) -> PacketRun {
        let mut runs = PacketRun::divide(unit);
        let run = runs.next().expect("packets");
        assert!(runs.next().is_none());
        run
    }

    fn template(track: &Track) -> HeaderTemplate {
        let index = TrackIndex(0);
        HeaderTemplate::new(track, index, NumberKeys::default().track("cam", index))
    }

    #[test]
    fn frames_follow_each_other_on_their_channel() {
        let template = template(&Track::h264(VideoParameters::default()));
        let unit = unit(&[1000, 1000, 300]);
        let bytes = template.interleave(&run(&unit), 4);
        let mut rest = &bytes[..];
        for place in 0..3 {
            let (head, behind) = rest.split_at(4);
            let length = usize::from(u16::from_be_bytes([head[2], head[3]]));
            assert_eq!(head[..2], [b'$', 4]);
            let packet = Packet::parse(&behind[..length]).expect("RTP");
            assert_eq!(
                packet.header,
                template.header(&unit, place, packet.header.timestamp)
            );
            assert_eq!(packet.header.marker, place == 2);
            assert_eq!(Some(packet.payload), unit.payload(place));
            rest = &behind[length..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn the_first_packet_of_a_recorded_frame_has_its_time() {
        let mut template = template(&Track::h264(VideoParameters::default()));
        let mut unit = unit(&[1000, 1000, 300]);
        let recorded = glassline_media::RecordedPlace {
            wall_clock: std::time::Duration::from_secs(1_700_000_000),
            is_discontinuous: false,
            ends_section: false,
            is_last: false,
        };
        Arc::get_mut(&mut unit).expect("one owner").recorded = Some(recorded);
        let plain = template.interleave(&run(&unit), 0);
        template.replay = Some(9);
        let bytes = template.interleave(&run(&unit), 0);
        assert_eq!(bytes.len(), plain.len() + REPLAY_EXTENSION_BYTES);
        let first = usize::from(u16::from_be_bytes([bytes[2], bytes[3]]));
        assert_eq!((first, bytes[4]), (1000 + 12 + 16, 0x90));
        assert_eq!(bytes[16..20], [0xab, 0xac, 0, 3]);
        assert_eq!(bytes[28..32], [0x80, 9, 0, 0]);
        let packet = Packet::parse(&bytes[4..4 + first]).expect("RTP");
        assert_eq!(Some(packet.payload), unit.payload(0));
        // The other packets are as they were.
        assert_eq!(bytes[4 + first..], plain[4 + 12 + 1000..]);
        let datagrams = template.datagrams(&run(&unit));
        let sizes: Vec<_> = datagrams
            .runs()
            .map(|(it, size)| (it.len(), size))
            .collect();
        assert_eq!(sizes, [(1028 + 1012, 1028), (312, 312)]);
    }

    #[test]
    fn the_runs_of_a_large_frame_are_its_packets_in_order() {
        let template = template(&Track::h264(VideoParameters::default()));
        let unit = unit(&[1000; 2 * RUN_PACKETS_MAX + 1]);
        let runs: Vec<_> = PacketRun::divide(&unit).collect();
        let sizes: Vec<_> = runs
            .iter()
            .map(|run| (run.packet_count(), run.is_first()))
            .collect();
        let most = RUN_PACKETS_MAX;
        assert_eq!(sizes, [(most, true), (most, false), (1, false)]);
        let packets = runs.iter().flat_map(|run| template.packets(run));
        let packets: Vec<_> = packets.collect();
        assert_eq!(packets.len(), unit.packet_count());
        for (place, (header, payload)) in packets.iter().enumerate() {
            assert_eq!(*header, template.header(&unit, place, header.timestamp));
            assert_eq!(Some(*payload), unit.payload(place));
        }
        let bytes: usize = runs.iter().map(PacketRun::payload_bytes).sum();
        assert_eq!(bytes, unit.payload_bytes());
    }

    #[test]
    fn audio_without_frames_has_no_marker() {
        let template = template(&Track::audio(Codec::Opus, 2));
        let datagrams = template.datagrams(&run(&unit(&[80])));
        let (bytes, _) = datagrams.runs().next().expect("one");
        assert!(!Packet::parse(bytes).expect("RTP").header.marker);
    }

    #[test]
    fn the_kernel_can_cut_every_run() {
        let template = template(&Track::h264(VideoParameters::default()));
        let runs = |sizes: &[usize]| {
            let datagrams = template.datagrams(&run(&unit(sizes)));
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
