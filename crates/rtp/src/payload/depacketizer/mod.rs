//! Payloads back into the units that they were cut from.
//!
//! ```text
//! packets in order ─► Frames (many packets a unit) ─┬► Unit
//!                 └─► AudioUnits (many a packet) ─────┘
//! ```
//!
//! Each format says how its payloads go together ([`FrameFormat`], [`AudioFormat`]); what
//! gaps, timestamps and markers mean is the same for all of a kind.

mod audio;
mod frames;

use std::collections::VecDeque;

use glassline_media::{Codec, Track};

use super::{
    aac, ac3, amr, av1, dv, h265, jpeg, mpeg_audio, mpeg_ts, mpeg_video, mpeg4_visual, vp8, vp9,
    xiph,
};
use crate::h264::{self, Counters};

use super::assembly::{AudioFormat, Fault, FrameFormat, Unreceivable, Whole};
use audio::AudioUnits;
use frames::Frames;

/// An access unit that came in over RTP, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    /// Its RTP timestamp: the wire's, or for a further unit of one packet what
    /// follows from the units before it. Wraps.
    pub timestamp: u32,
    /// A decoder can start here; always true for audio. Parameter sets may be
    /// missing, if the session description has them.
    pub keyframe: bool,
    /// Something between the unit delivered before and this one was lost.
    pub after_loss: bool,
    /// What [`Packetizer::packetize`](super::Packetizer::packetize) takes.
    pub data: Vec<u8>,
}

/// Puts the units of one track together again from packets in sequence order.
///
/// A unit of which anything is missing or malformed is dropped and counted, and
/// the next that is whole is delivered with `after_loss`. Memory: the unit under
/// way, of at most `unit_bytes_max` bytes, and those ready but not polled, of
/// which the oldest go.
#[derive(Debug)]
pub struct Depacketizer {
    way: Way,
}

#[derive(Debug)]
enum Way {
    H264(Box<h264::Depacketizer>),
    Frames(Box<Frames>),
    Audio(Box<AudioUnits>),
}

/// A frame of 8 MiB is 2 Gbit/s at 30 frames/s: no camera's, but an attacker's.
const UNIT_BYTES_MAX: usize = 8 << 20;

impl Depacketizer {
    /// For packets of `track`, whose format parameters say how they are made; a
    /// unit may have 8 MiB.
    ///
    /// # Errors
    /// [`Unreceivable`] if the track's format or its mode is not known here.
    pub fn new(track: &Track) -> Result<Self, Unreceivable> {
        Self::bounded(track, UNIT_BYTES_MAX)
    }

    /// The same with another bound on a unit, in bytes.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn bounded(track: &Track, unit_bytes_max: usize) -> Result<Self, Unreceivable> {
        let frames = |format: Box<dyn FrameFormat>| {
            Way::Frames(Box::new(Frames::new(format, unit_bytes_max)))
        };
        let audio = |format: Box<dyn AudioFormat>| {
            Way::Audio(Box::new(AudioUnits::new(format, unit_bytes_max)))
        };
        let way = match track.codec {
            Codec::H264 => Way::H264(Box::new(h264::Depacketizer::new(unit_bytes_max))),
            Codec::H265 => frames(Box::new(h265::Assembly::new(track)?)),
            Codec::Vp8 => frames(Box::new(vp8::Assembly)),
            Codec::Vp9 => frames(Box::<vp9::Assembly>::default()),
            Codec::Av1 => frames(Box::<av1::Assembly>::default()),
            Codec::Mpeg4Visual => frames(Box::new(mpeg4_visual::Assembly)),
            Codec::MpegVideo => frames(Box::new(mpeg_video::Assembly)),
            Codec::Jpeg => frames(Box::<jpeg::Assembly>::default()),
            Codec::Dv => frames(Box::new(dv::Assembly)),
            Codec::Theora => frames(Box::<xiph::Assembly>::default()),
            Codec::MpegTs => audio(Box::new(mpeg_ts::Assembly)),
            Codec::Aac => audio(Box::new(aac::Assembly::new(track)?)),
            Codec::Ac3 => audio(Box::<ac3::Assembly>::default()),
            Codec::Amr | Codec::AmrWb => audio(Box::new(amr::Assembly::new(track)?)),
            Codec::MpegAudio => audio(Box::<mpeg_audio::Assembly>::default()),
            Codec::Opus | Codec::Pcmu | Codec::Pcma | Codec::L16 | Codec::T140 => {
                audio(Box::new(Whole))
            }
            codec => return Err(Unreceivable::NoFormat(codec)),
        };
        Ok(Self { way })
    }

    /// Takes the next packet: wide sequence number, RTP timestamp, marker, payload
    /// without padding.
    ///
    /// A number that skips some means that they are lost; one that is not above
    /// the last is ignored. Put packets in order before.
    pub fn push(&mut self, sequence: u64, timestamp: u32, marker: bool, payload: &[u8]) {
        match &mut self.way {
            Way::H264(h264) => h264.push(sequence, timestamp, marker, payload),
            Way::Frames(frames) => frames.push(sequence, timestamp, marker, payload),
            Way::Audio(audio) => audio.push(sequence, timestamp, marker, payload),
        }
    }

    /// The next whole unit; poll until `None` after each push.
    pub fn poll(&mut self) -> Option<Unit> {
        match &mut self.way {
            Way::H264(h264) => h264.poll().map(|unit| Unit {
                timestamp: unit.timestamp,
                keyframe: unit.keyframe,
                after_loss: unit.after_loss,
                data: unit.data,
            }),
            Way::Frames(frames) => frames.out.poll(),
            Way::Audio(audio) => audio.out.poll(),
        }
    }

    /// What became of packets and units so far.
    pub fn counters(&self) -> Counters {
        match &self.way {
            Way::H264(h264) => h264.counters(),
            Way::Frames(frames) => frames.out.counters,
            Way::Audio(audio) => audio.out.counters,
        }
    }
}

/// Whole units on their way out, and the accounts.
#[derive(Debug)]
struct Out {
    ready: VecDeque<Unit>,
    ready_max: usize,
    /// Something was lost since the last unit that was delivered.
    loss: bool,
    counters: Counters,
    next_sequence: Option<u64>,
}

/// How a packet follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// The very first.
    First,
    Next,
    /// Packets between them are lost.
    Gap,
    /// A duplicate, or too late.
    Late,
}

impl Out {
    fn new(ready_max: usize) -> Self {
        Self {
            ready: VecDeque::new(),
            ready_max,
            loss: false,
            counters: Counters::default(),
            next_sequence: None,
        }
    }

    fn follow(&mut self, sequence: u64) -> Order {
        let order = match self.next_sequence {
            None => Order::First,
            Some(next) if sequence == next => Order::Next,
            Some(next) if sequence > next => {
                self.counters.lost += sequence - next;
                self.loss = true;
                Order::Gap
            }
            Some(_) => {
                self.counters.late += 1;
                return Order::Late;
            }
        };
        self.next_sequence = Some(sequence.saturating_add(1));
        order
    }

    fn deliver(&mut self, timestamp: u32, keyframe: bool, data: Vec<u8>) {
        let after_loss = std::mem::take(&mut self.loss);
        self.counters.delivered += 1;
        self.ready.push_back(Unit {
            timestamp,
            keyframe,
            after_loss,
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

    fn count(&mut self, fault: Fault) {
        self.loss = true;
        match fault {
            Fault::Loss => self.counters.damaged += 1,
            Fault::Malformed => self.counters.malformed += 1,
            Fault::Oversized => self.counters.oversized += 1,
            Fault::Unsupported => {
                self.counters.unsupported += 1;
                self.counters.malformed += 1;
            }
        }
    }

    fn poll(&mut self) -> Option<Unit> {
        self.ready.pop_front()
    }
}
