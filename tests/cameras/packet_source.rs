//! The RTP and RTCP packets of the fake camera, frame by frame, with the quirks of its row.

use std::sync::Arc;
use std::time::Duration;

use super::media::{Frame, Media};
use super::quirk::{Quirk, Sound};
use super::row::{Row, Video};
use super::sound::SoundTrack;

/// A packet that is due.
#[derive(Clone, Debug)]
pub(crate) struct Wire {
    /// Number of the track, which is also the end of its control URL.
    pub(crate) track: usize,
    pub(crate) is_control: bool,
    pub(crate) bytes: Vec<u8>,
}

/// The packets of a camera after PLAY, from their beginning.
pub(crate) struct PacketSource {
    row: &'static Row,
    media: Arc<Media>,
    sound: Option<Arc<SoundTrack>>,
    /// Number of frames, and of packets of sound, so far.
    frame: u64,
    sounds: u64,
    keyframes: u32,
    /// Number of the frame with which the film began last.
    begun_at: u64,
    ssrc: u32,
    sequence: u16,
    sound_sequence: u16,
    wires: Vec<Wire>,
}

pub(crate) const VIDEO_TYPE: u8 = 96;
const VIDEO_CLOCK: u64 = 90_000;
const SSRC: u32 = 0x2222_2222;
const SOUND_SSRC: u32 = 0x3333_3333;

/// Payload of a packet, as cameras have it on Ethernet with room for tunnels.
const PAYLOAD_BYTES: usize = 1_200;

/// Interval of sender reports in frames.
const REPORT_FRAMES: u64 = 30;

/// Seconds from 1900 to a day of 2026.
const EPOCH_S: u64 = 3_990_000_000;

/// How a packet differs from its neighbours.
#[derive(Clone, Copy)]
struct Stamp {
    timestamp: u32,
    marker: bool,
    padding: bool,
}

impl PacketSource {
    pub(crate) fn new(
        row: &'static Row,
        media: Arc<Media>,
        sound: Option<Arc<SoundTrack>>,
    ) -> PacketSource {
        PacketSource {
            row,
            media,
            sound,
            frame: 0,
            sounds: 0,
            keyframes: 0,
            begun_at: 0,
            ssrc: SSRC,
            sequence: 65_500,
            sound_sequence: 0,
            wires: Vec::new(),
        }
    }

    /// Begins the film anew with its next frame, which is a keyframe.
    pub(crate) fn begin_film(&mut self) {
        self.begun_at = self.frame;
    }

    /// Time from the beginning at which the next packet is due.
    pub(crate) fn due(&self) -> Duration {
        let sound = self.sound.as_ref().map(|it| it.due(self.sounds));
        let frame = self.frame_due();
        sound.map_or(frame, |sound| sound.min(frame))
    }

    fn frame_due(&self) -> Duration {
        let rate = u64::from(self.media.frames_per_second);
        Duration::from_nanos(self.frame * 1_000_000_000 / rate)
    }

    /// Returns the packets that are due next, which are those of a frame or one of sound.
    pub(crate) fn next(&mut self) -> Vec<Wire> {
        match &self.sound {
            Some(sound) if sound.due(self.sounds) < self.frame_due() => self.push_sound(),
            _ => self.push_frame(),
        }
        let mut wires = std::mem::take(&mut self.wires);
        if self.row.has(Quirk::Overtaking) {
            let media = wires.iter().position(|wire| !wire.is_control);
            wires[media.unwrap_or_default()..]
                .chunks_exact_mut(2)
                .for_each(|pair| pair.swap(0, 1));
        }
        if self.row.has(Quirk::Twice) {
            wires = wires.into_iter().flat_map(|it| [it.clone(), it]).collect();
        }
        wires
    }

    fn push_sound(&mut self) {
        let Some(sound) = &self.sound else { return };
        let header = Header {
            payload_type: sound.payload_type,
            sequence: self.sound_sequence,
            timestamp: sound.timestamp(self.sounds),
            ssrc: SOUND_SSRC,
            marker: sound.marker(self.sounds),
            padding: false,
        };
        let bytes = header.with(&sound.payload(self.sounds));
        self.sounds += 1;
        self.sound_sequence = self.sound_sequence.wrapping_add(1);
        self.wires.push(Wire {
            track: 1,
            is_control: false,
            bytes,
        });
    }

    fn push_frame(&mut self) {
        let number = self.frame;
        self.frame += 1;
        if self.row.has(Quirk::NoVideo) {
            return;
        }
        let frames = &self.media.frames;
        let (length, in_film) = (frames.len() as u64, number - self.begun_at);
        let at = (in_film % length) as usize;
        let frame = frames[at].clone();
        let shown = number.wrapping_add_signed(self.media.shown_at(at) - at as i64);
        let true_stamp = self.stamp(shown);
        if frame.is_keyframe {
            self.keyframes += 1;
            if self.row.has(Quirk::NumbersBeginAgain) {
                self.sequence = 100;
            }
            if self.row.has(Quirk::NewSourceAtKeyframes) {
                self.ssrc = self.ssrc.wrapping_add(0x1111);
                self.sequence = (self.sequence ^ 0x5555).wrapping_mul(31);
            }
        }
        if number.is_multiple_of(REPORT_FRAMES) {
            self.push_report(number, true_stamp);
        }
        let timestamp = self.bent(number, true_stamp);
        self.push_nals(&frame, timestamp, self.stamp(shown.wrapping_sub(1)));
        self.push_strays(number, timestamp);
    }

    /// The true timestamp of the frame that is shown as number `shown`.
    fn stamp(&self, shown: u64) -> u32 {
        let rate = u64::from(self.media.frames_per_second);
        let first = match self.row.has(Quirk::StampsWrap) {
            true => (1 << 32) - VIDEO_CLOCK,
            false => 10_000_000,
        };
        // Frames before the first one are stamped before its timestamp.
        (first + shown.wrapping_add(8) * (VIDEO_CLOCK / rate)) as u32
    }

    /// The timestamp that the camera writes in server of the true one.
    fn bent(&self, number: u64, timestamp: u32) -> u32 {
        let rate = u64::from(self.media.frames_per_second);
        if self.row.has(Quirk::StepsBack) && number % 20 == 19 {
            timestamp.wrapping_sub(27_000)
        } else if self.row.has(Quirk::StampedHoursOff) && number % (2 * rate) == 5 {
            timestamp.wrapping_sub(9_800 * VIDEO_CLOCK as u32)
        } else if self.row.has(Quirk::StampsLeap) {
            let leaps = (number / (2 * rate)) as u32;
            timestamp.wrapping_add(leaps.wrapping_mul(10_800 * VIDEO_CLOCK as u32))
        } else {
            timestamp
        }
    }

    fn push_nals(&mut self, frame: &Frame, timestamp: u32, before: u32) {
        let (row, video) = (self.row, self.media.video);
        let is_sent = |nal: &&Vec<u8>| {
            let is_left_out = (row.has(Quirk::NoSetsSent) && video.is_set(nal))
                || (row.has(Quirk::NoMessages) && video.is_message(nal));
            !is_left_out
        };
        let mut nals: Vec<Vec<u8>> = frame.nals.iter().filter(is_sent).cloned().collect();
        for quirk in row.quirks {
            if let Quirk::BehindSets(bytes) = quirk {
                let sets = nals.iter_mut().filter(|nal| video.is_sequence_set(nal));
                sets.for_each(|set| set.extend_from_slice(bytes));
            }
        }
        if frame.is_keyframe && row.has(Quirk::StartCodesWithin) {
            nals = vec![nals.join([0, 0, 0, 1].as_slice())];
        }
        for quirk in row.quirks {
            match quirk {
                Quirk::AggregatedSets(tail) if frame.is_keyframe => {
                    let sets = nals
                        .extract_if(.., |nal| video.is_set(nal))
                        .collect::<Vec<_>>();
                    nals.insert(
                        0,
                        aggregate(video, &sets, tail, row.has(Quirk::OrderNumbers)),
                    );
                }
                Quirk::UnitInFront(unit) => nals.insert(0, unit.to_vec()),
                Quirk::UnitBehind(unit) => nals.push(unit.to_vec()),
                _ => {}
            }
        }
        let last = nals.len().saturating_sub(1);
        for (index, nal) in nals.iter().enumerate() {
            let is_early_set = row.has(Quirk::SetsOfFramesBefore) && video.is_set(nal);
            self.push_nal(
                nal,
                Stamp {
                    timestamp: if is_early_set { before } else { timestamp },
                    marker: index == last || is_early_set || row.has(Quirk::MarkerAtEveryNal),
                    padding: index == last && row.has(Quirk::PaddingOfZero),
                },
            );
        }
    }

    /// Sends a NAL unit as a packet of its own or in fragments (RFC 6184 §5.8, RFC 7798 §4.4.3).
    fn push_nal(&mut self, nal: &[u8], stamp: Stamp) {
        let video = self.media.video;
        let pieces = self.row.quirks.iter().find_map(|quirk| match quirk {
            Quirk::FragmentBytes(bytes) => Some(*bytes),
            _ => None,
        });
        let whole = self.row.has(Quirk::WholeFragments);
        let in_front: &[u8] = match self.row.has(Quirk::StartCodesInFront) {
            true => &[0, 0, 0, 1],
            false => &[],
        };
        let nal = &[in_front, nal].concat()[..];
        if nal.len() <= pieces.unwrap_or(PAYLOAD_BYTES) && !whole {
            let mut payload = nal.to_vec();
            if self.row.has(Quirk::OrderNumbers) && video.nal_type(nal) != 48 {
                payload.splice(2..2, [0, 0]);
            }
            return self.push_packet(&payload, stamp);
        }
        let (head, body) = nal.split_at(video.header_bytes());
        let reserved = match self.row.has(Quirk::ReservedBit) && video == Video::H264 {
            true => 0x20,
            false => 0,
        };
        // A fragment is smaller than what fits, so that no unit becomes a single one.
        let size = pieces.unwrap_or(PAYLOAD_BYTES) - video.header_bytes();
        let count = body.chunks(size).count();
        for (index, piece) in body.chunks(size).enumerate() {
            let is_last = index + 1 == count;
            let is_marked = is_last && !self.row.has(Quirk::EndlessFragments);
            let ends = u8::from(index == 0) << 7 | u8::from(is_marked) << 6 | reserved;
            let mut payload = match video {
                Video::H264 => vec![head[0] & 0xe0 | 28, ends | head[0] & 0x1f],
                Video::H265 => vec![
                    head[0] & 0x81 | 49 << 1,
                    head[1],
                    ends | head[0] >> 1 & 0x3f,
                ],
            };
            if self.row.has(Quirk::OrderNumbers) && index == 0 {
                payload.extend([0, 0]);
            }
            payload.extend_from_slice(piece);
            let stamp = Stamp {
                marker: stamp.marker && is_last,
                padding: stamp.padding && is_last,
                ..stamp
            };
            self.push_packet(&payload, stamp);
        }
    }

    fn push_packet(&mut self, payload: &[u8], stamp: Stamp) {
        let header = Header {
            payload_type: VIDEO_TYPE,
            sequence: self.sequence,
            timestamp: stamp.timestamp,
            ssrc: self.ssrc,
            marker: match () {
                () if self.row.has(Quirk::NoMarkers) => false,
                () if self.row.has(Quirk::OnlyMarkers) => true,
                () => stamp.marker,
            },
            padding: stamp.padding,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let mut bytes = header.with(payload);
        if stamp.padding {
            bytes.push(0);
        }
        if self.row.has(Quirk::FullHeaders) {
            bytes[0] |= 0x31;
            // A contributing source, an extension of one word, and five bytes of padding.
            bytes.splice(12..12, [0, 0, 0, 9, 0xab, 0xac, 0, 1, 1, 2, 3, 4]);
            bytes.extend([0, 0, 0, 0, 5]);
        }
        self.push_video(bytes);
    }

    /// Sends what does not belong to the stream.
    fn push_strays(&mut self, number: u64, timestamp: u32) {
        let rate = u64::from(self.media.frames_per_second);
        let mut header = Header {
            payload_type: VIDEO_TYPE,
            sequence: 7,
            timestamp,
            ssrc: 0,
            marker: false,
            padding: false,
        };
        if self.row.has(Quirk::StrayPacket) && number % rate == 7 {
            self.push_video(header.with(&[0x41, 0x9a, 0, 0]));
        }
        if self.row.has(Quirk::OtherPayloadType) {
            (header.payload_type, header.ssrc) = (127, self.ssrc);
            header.sequence = self.sequence;
            self.sequence = self.sequence.wrapping_add(1);
            self.push_video(header.with(b"private data"));
        }
        if self.row.has(Quirk::SaysBye) && number % rate == 3 {
            let mut bytes = self.report(number, timestamp);
            bytes.extend([0x81, 203, 0, 1]);
            bytes.extend(self.ssrc.to_be_bytes());
            self.wires.push(Wire {
                track: 0,
                is_control: true,
                bytes,
            });
        }
        if self.row.has(Quirk::ReportsAmongMedia) && number % rate == 3 {
            let report = self.report(number, timestamp);
            self.push_video(report);
        }
    }

    fn push_video(&mut self, bytes: Vec<u8>) {
        self.wires.push(Wire {
            track: 0,
            is_control: false,
            bytes,
        });
    }

    fn push_report(&mut self, number: u64, timestamp: u32) {
        let bytes = self.report(number, timestamp);
        self.wires.push(Wire {
            track: 0,
            is_control: true,
            bytes,
        });
    }

    /// A sender report (RFC 3550 §6.4.1) of the frame `number`.
    fn report(&self, number: u64, timestamp: u32) -> Vec<u8> {
        let rate = u64::from(self.media.frames_per_second);
        let seconds = (EPOCH_S + number / rate) as u32;
        let fraction = (((number % rate) << 32) / rate) as u32;
        let words = [self.ssrc, seconds, fraction, timestamp, number as u32, 0];
        let mut bytes = vec![0x80, 200, 0, 6];
        bytes.extend(words.into_iter().flat_map(u32::to_be_bytes));
        bytes
    }
}

/// An aggregate of NAL units (RFC 6184 §5.7.1, RFC 7798 §4.4.2) that ends in `tail`.
fn aggregate(video: Video, units: &[Vec<u8>], tail: &[u8], is_numbered: bool) -> Vec<u8> {
    let mut payload = match video {
        Video::H264 => vec![0x78],
        Video::H265 => vec![48 << 1, 1],
    };
    for (index, unit) in units.iter().enumerate() {
        if is_numbered {
            payload.extend(std::iter::repeat_n(0, if index == 0 { 2 } else { 1 }));
        }
        payload.extend((unit.len() as u16).to_be_bytes());
        payload.extend_from_slice(unit);
    }
    payload.extend_from_slice(tail);
    payload
}

/// The fixed header of an RTP packet (RFC 3550 §5.1).
struct Header {
    payload_type: u8,
    sequence: u16,
    timestamp: u32,
    ssrc: u32,
    marker: bool,
    padding: bool,
}

impl Header {
    fn with(&self, payload: &[u8]) -> Vec<u8> {
        let first = 0x80 | u8::from(self.padding) << 5;
        let mut bytes = vec![first, u8::from(self.marker) << 7 | self.payload_type];
        bytes.extend(self.sequence.to_be_bytes());
        bytes.extend(self.timestamp.to_be_bytes());
        bytes.extend(self.ssrc.to_be_bytes());
        bytes.extend_from_slice(payload);
        bytes
    }
}

/// The sound of a row, if it has any.
pub(crate) fn sound_of(row: &Row) -> Option<Sound> {
    row.quirks.iter().find_map(|quirk| match quirk {
        Quirk::Sound(sound) => Some(*sound),
        _ => None,
    })
}
