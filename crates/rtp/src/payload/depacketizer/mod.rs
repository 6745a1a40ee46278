//! Depacketizers: RTP payloads back into the access units from which they were made.
//!
//! ```text
//! packets in order ─┬► Frames (many packets per unit) ──────┬► Unit
//!                   └► AudioUnits (many units per packet) ──┘
//! ```
//!
//! Each format implements how its payloads are joined ([`FrameFormat`], [`AudioFormat`]). Gaps,
//! timestamps and markers are handled here, in the same way for all formats of a kind.

mod audio;
mod frames;
mod markers;

use std::collections::VecDeque;

use glassline_media::{Codec, Temporal, Track};

use super::{
    aac, ac3, amr, av1, dv, h265, jpeg, latm, mpeg_audio, mpeg_ts, mpeg_video, mpeg4_visual,
    multiopus, vp8, vp9, xiph,
};
use crate::h264::H264;

use super::assembly::{
    AudioFormat, DropReason, Entry, FrameFormat, OneUnitPerPacket, UnsupportedFormat,
};
use super::nal_units;
use audio::AudioUnits;
use frames::Frames;

/// A complete access unit that was received over RTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// RTP timestamp of the unit, wrapping. It is the timestamp of the packet, except for
    /// further units of one packet, whose timestamps follow from the durations of those before.
    pub timestamp: u32,
    /// How a decoder can start here. Parameter sets may be missing if the session description
    /// has them.
    pub entry: Entry,
    /// True if something was lost between the unit delivered before and this one.
    pub after_loss: bool,
    /// Place among the temporal layers, as the payloads say it.
    pub temporal: Temporal,
    /// The bytes in the form that [`Packetizer::packetize`](super::Packetizer::packetize)
    /// takes.
    pub data: Vec<u8>,
}

impl Unit {
    /// Returns whether the unit is a keyframe; always true for audio.
    pub fn is_keyframe(&self) -> bool {
        self.entry == Entry::Keyframe
    }
}

/// Default size limit of an access unit that is received, in bytes. Frames of 8 MiB at 30 frames/s
/// are 2 Gbit/s, which no camera sends, but an attacker may.
pub const UNIT_BYTES_MAX: usize = 8 << 20;

/// Counts of packets and access units in a depacketizer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Units that were delivered.
    pub delivered: u64,
    /// Units dropped because packets were lost.
    pub damaged: u64,
    /// Units dropped because a payload was malformed or of an unsupported type, or because their
    /// markers were wrong.
    pub malformed: u64,
    /// Units dropped because they exceeded the size limit.
    pub oversized: u64,
    /// Packets of types that are specified, but not implemented.
    pub unsupported: u64,
    /// Packets with a sequence number that is not above the last one: duplicates, or too late.
    pub late: u64,
    /// Packets that never arrived.
    pub lost: u64,
    /// Units dropped because they were not polled.
    pub overrun: u64,
}

/// Reassembles the units of one track from packets in sequence order.
///
/// A unit of which any part is missing or malformed is dropped and counted, and the next
/// complete unit is delivered with `after_loss`. Memory is bounded by the incomplete unit, of
/// at most `unit_bytes_max` bytes, and by the complete units that were not polled, of which the
/// oldest are dropped.
#[derive(Debug)]
pub struct Depacketizer {
    format: Format,
}

/// Depacketizer of the track's format.
#[derive(Debug)]
enum Format {
    // Nearly all cameras send H.264, which is worth a copy of the code without indirect calls.
    H264(Box<Frames<nal_units::Assembly<H264>>>),
    Frames(Box<Frames<dyn FrameFormat>>),
    Audio(Box<AudioUnits>),
}

impl Depacketizer {
    /// Creates a depacketizer for `track`, whose format parameters state how its packets are
    /// made. A unit may have up to 8 MiB.
    ///
    /// # Errors
    /// [`UnsupportedFormat`] if the track's format, or its mode, is not implemented.
    pub fn new(track: &Track) -> Result<Self, UnsupportedFormat> {
        Self::bounded(track, UNIT_BYTES_MAX)
    }

    /// Creates a depacketizer whose units may have up to `unit_bytes_max` bytes.
    ///
    /// # Errors
    /// As for [`Self::new`].
    pub fn bounded(track: &Track, unit_bytes_max: usize) -> Result<Self, UnsupportedFormat> {
        let max = unit_bytes_max;
        let audio = |format: Box<dyn AudioFormat>| {
            Format::Audio(Box::new(AudioUnits::new(format, unit_bytes_max)))
        };
        let format = match track.codec {
            Codec::H264 => Format::H264(Box::new(Frames::new(nal_units::Assembly::default(), max))),
            Codec::H265 if h265::is_numbered(track) => {
                frames(h265::NumberedAssembly::default(), max)
            }
            Codec::H265 => frames(nal_units::Assembly::<h265::H265>::default(), max),
            Codec::Vp8 => frames(vp8::Assembly::default(), max),
            Codec::Vp9 => frames(vp9::Assembly::default(), max),
            Codec::Av1 => frames(av1::Assembly::default(), max),
            Codec::Mpeg4Visual => frames(mpeg4_visual::Assembly, max),
            Codec::MpegVideo => frames(mpeg_video::Assembly, max),
            Codec::Jpeg => frames(jpeg::Assembly::default(), max),
            Codec::Dv => frames(dv::Assembly, max),
            Codec::Theora => frames(xiph::Assembly::default(), max),
            Codec::MpegTs => audio(Box::new(mpeg_ts::Assembly)),
            Codec::Aac if latm::is_mode_of(track) => audio(Box::<latm::Assembly>::default()),
            Codec::Aac => audio(Box::new(aac::Assembly::new(track)?)),
            Codec::Ac3 => audio(Box::<ac3::Assembly>::default()),
            Codec::Amr | Codec::AmrWb => audio(Box::new(amr::Assembly::new(track)?)),
            Codec::MpegAudio => audio(Box::<mpeg_audio::Assembly>::default()),
            Codec::MultiOpus => frames(multiopus::Assembly::default(), max),
            Codec::Opus | Codec::Pcmu | Codec::Pcma | Codec::L16 | Codec::T140 => {
                audio(Box::new(OneUnitPerPacket))
            }
            codec => return Err(UnsupportedFormat::Codec(codec)),
        };
        Ok(Self { format })
    }

    /// Takes the next packet: extended sequence number, RTP timestamp, marker, payload without
    /// padding.
    ///
    /// Skipped numbers count as lost packets; a number that is not above the last one is
    /// ignored. Reorder packets before, for example with [`ReorderBuffer`](crate::reorder::ReorderBuffer).
    pub fn push(&mut self, sequence: u64, timestamp: u32, marker: bool, payload: &[u8]) {
        match &mut self.format {
            Format::H264(h264) => h264.push(sequence, timestamp, marker, payload),
            Format::Frames(frames) => frames.push(sequence, timestamp, marker, payload),
            Format::Audio(audio) => audio.push(sequence, timestamp, payload),
        }
    }

    /// Returns the next complete unit. Call until `None` after each push.
    pub fn poll(&mut self) -> Option<Unit> {
        match &mut self.format {
            Format::H264(frames) => frames.out.poll(),
            Format::Frames(frames) => frames.out.poll(),
            Format::Audio(audio) => audio.out.poll(),
        }
    }

    /// Returns the counts of packets and units so far.
    pub fn counters(&self) -> Counters {
        match &self.format {
            Format::H264(frames) => frames.out.counters,
            Format::Frames(frames) => frames.out.counters,
            Format::Audio(audio) => audio.out.counters,
        }
    }
}

fn frames(format: impl FrameFormat + 'static, unit_bytes_max: usize) -> Format {
    Format::Frames(Box::new(Frames::new(format, unit_bytes_max)))
}

/// Complete units that were not polled yet, and counters.
#[derive(Debug)]
struct Output {
    ready: VecDeque<Unit>,
    ready_max: usize,
    /// Whether something was lost since the last unit that was delivered.
    loss: bool,
    counters: Counters,
    next_sequence: Option<u64>,
}

/// How the sequence number of a packet relates to the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SequenceStep {
    /// The packet is the first one.
    First,
    Next,
    /// Packets between the previous one and this one are lost.
    Gap,
    /// The packet is a duplicate, or too late.
    Late,
}

impl Output {
    fn new(ready_max: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            ready_max,
            loss: false,
            counters: Counters::default(),
            next_sequence: None,
        }
    }

    fn step(&mut self, sequence: u64) -> SequenceStep {
        let order = match self.next_sequence {
            None => SequenceStep::First,
            Some(next) if sequence == next => SequenceStep::Next,
            Some(next) if sequence > next => {
                self.counters.lost += sequence - next;
                self.loss = true;
                SequenceStep::Gap
            }
            Some(_) => {
                self.counters.late += 1;
                return SequenceStep::Late;
            }
        };
        self.next_sequence = Some(sequence.saturating_add(1));
        order
    }

    fn deliver(&mut self, timestamp: u32, entry: Entry, temporal: Temporal, data: Vec<u8>) {
        let after_loss = std::mem::take(&mut self.loss);
        self.counters.delivered += 1;
        self.ready.push_back(Unit {
            timestamp,
            entry,
            after_loss,
            temporal,
            data,
        });
        if self.ready.len() > self.ready_max {
            self.ready.pop_front();
            self.counters.overrun += 1;
            if let Some(next) = self.ready.front_mut() {
                next.after_loss = true;
            }
        }
    }

    fn count(&mut self, reason: DropReason) {
        self.loss = true;
        match reason {
            DropReason::Loss => self.counters.damaged += 1,
            DropReason::Malformed => self.counters.malformed += 1,
            DropReason::Oversized => self.counters.oversized += 1,
            DropReason::Unsupported => {
                self.counters.unsupported += 1;
                self.counters.malformed += 1;
            }
        }
    }

    fn poll(&mut self) -> Option<Unit> {
        self.ready.pop_front()
    }
}
