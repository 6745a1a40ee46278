//! A pass through a program stream from any keyframe: pictures and frames of audio with their
//! times.

use std::collections::VecDeque;
use std::sync::Arc;

use super::audio::{AudioFormat, AudioStream, Frames};
use super::packets::{Chunk, Packets, Piece};
use super::pictures::{Kind, Origin, Picture, Pictures, Sequence, Stamps};
use super::timing::{PictureTimes, Timing};
use crate::error::{Fault, WarningReason, Warnings};
use crate::system_clock::stamp::{CLOCK_PER_STAMP, CLOCK_RATE, STAMP_MODULUS, ahead};
use crate::system_clock::{self, Clock, Segment};

/// Longest distance of stamps and clock, in ticks of 27 MHz: buffers hold one second, slide
/// shows ten.
const AHEAD_MAX: i64 = 10 * CLOCK_RATE;

/// Most units of one track, and most of their bytes, that wait for a unit of the other track.
const HELD_UNITS_MAX: usize = 256;
const HELD_BYTES_MAX: usize = 8 << 20;

/// Bytes that are read at once from a file of video without packets.
const BARE_BYTES: usize = 32 * 1024;

/// Where the bytes of the file come from.
pub(super) enum DemuxInput {
    Program(Packets),
    /// Video without packets: the window, and the offset of the next byte.
    Video(crate::window::Window, u64),
}

impl DemuxInput {
    /// Returns another reader of the same file.
    pub(super) fn fork(&self) -> Self {
        match self {
            Self::Program(packets) => Self::Program(packets.fork()),
            Self::Video(window, _) => Self::Video(window.fork(), 0),
        }
    }
}

/// The clock that time stamps refer to.
pub(super) enum Reference {
    /// The first pass collects the clock's segments.
    Learning(Clock),
    /// Known segments, and the last reference: as in the file, and on the track's time.
    Known(Arc<[Segment]>, Option<(i64, i64)>),
}

/// A unit with its times, in ticks of 27 MHz.
#[derive(Debug)]
pub(super) struct TimedUnit {
    pub(super) video: bool,
    pub(super) start: i64,
    pub(super) duration: i64,
    pub(super) decoded: i64,
    pub(super) keyframe: bool,
    pub(super) origin: Origin,
    pub(super) bytes: Vec<u8>,
}

/// State in which a pass begins.
#[derive(Default)]
pub(super) struct Start {
    pub(super) origin: Origin,
    /// Presentation time of the first picture; `None` at the start of the file.
    pub(super) presented: Option<i64>,
    pub(super) sequence: Option<Sequence>,
    /// The audio stream, once known.
    pub(super) audio: Option<AudioStream>,
}

pub(super) struct ProgramDemuxer {
    input: DemuxInput,
    reference: Reference,
    video: Option<u8>,
    pictures: Pictures,
    timing: Timing,
    /// Presentation time of the keyframe at which the pass begins, until that picture comes.
    presented: Option<i64>,
    /// Number of fields of reference pictures since the pass began.
    anchors: u8,
    /// Offset and number of the pictures before the first keyframe.
    skipped: Option<(u64, u64)>,
    /// Whether the clock jumped since the last stamps of pictures.
    joins: bool,
    audio_stream: Option<AudioStream>,
    /// Whether the current packet belongs to the audio stream.
    is_audio_packet: bool,
    frames: Option<Frames>,
    held: [VecDeque<TimedUnit>; 2],
    ended: bool,
    pub(super) warnings: Warnings,
}

impl ProgramDemuxer {
    pub(super) fn new(mut input: DemuxInput, reference: Reference, start: Start) -> Self {
        match &mut input {
            DemuxInput::Program(packets) => packets.go_to(start.origin.offset),
            DemuxInput::Video(_, next) => *next = start.origin.offset,
        }
        Self {
            input,
            reference,
            video: None,
            pictures: Pictures::begin(start.origin, start.sequence),
            timing: Timing::default(),
            presented: start.presented,
            anchors: 0,
            skipped: None,
            joins: false,
            audio_stream: start.audio,
            is_audio_packet: false,
            frames: start
                .audio
                .map(|audio_stream| Frames::new(audio_stream.coding)),
            held: [VecDeque::new(), VecDeque::new()],
            ended: false,
            warnings: Warnings::default(),
        }
    }

    pub(super) fn into_parts(self) -> (DemuxInput, Reference) {
        (self.input, self.reference)
    }

    pub(super) fn input(&self) -> &DemuxInput {
        &self.input
    }

    pub(super) fn sequence(&self) -> Option<&Sequence> {
        self.pictures.sequence()
    }

    pub(super) fn audio(&self) -> Option<(AudioStream, AudioFormat)> {
        self.audio_stream.zip(self.frames.as_ref()?.format())
    }

    /// Returns the next unit, in decoding order as far as the file interleaves audio and
    /// pictures.
    pub(super) fn next(&mut self) -> Result<Option<TimedUnit>, Fault> {
        loop {
            let [video, audio] = &self.held;
            let next_track = match (video.front(), audio.front()) {
                (Some(video), Some(audio)) => Some(usize::from(audio.decoded < video.decoded)),
                (Some(_), None) if self.ended || is_full(video) => Some(0),
                (None, Some(_)) if self.ended || is_full(audio) => Some(1),
                (None, None) if self.ended => return Ok(None),
                _ => None,
            };
            match next_track {
                Some(next_track) => return Ok(self.held[next_track].pop_front()),
                None => self.read_on()?,
            }
        }
    }

    fn read_on(&mut self) -> Result<(), Fault> {
        let piece = match &mut self.input {
            DemuxInput::Program(packets) => {
                let piece = packets.next()?;
                if let Some((offset, bytes)) = packets.skipped() {
                    let reason = WarningReason::Skipped(bytes);
                    self.warnings.add(Some(offset), reason);
                }
                piece
            }
            DemuxInput::Video(window, next) => {
                let (offset, bytes) = (*next, window.peek(*next, BARE_BYTES)?.to_vec());
                *next += bytes.len() as u64;
                (!bytes.is_empty()).then(|| {
                    Piece::Chunk(Chunk {
                        stream: 0xe0,
                        packet: offset,
                        bytes,
                        ..Chunk::default()
                    })
                })
            }
        };
        match piece {
            Some(Piece::Pack { offset, clock }) => {
                self.take_clock(offset, clock);
                self.pictures.enter_pack(offset);
            }
            Some(Piece::Chunk(chunk)) => self.take_chunk(&chunk)?,
            None => {
                self.ended = true;
                self.take_pictures(true);
                if let Some((offset, pictures)) = self.skipped.take() {
                    let reason = WarningReason::BeforeKeyframe(pictures);
                    self.warnings.add(Some(offset), reason);
                }
            }
        }
        Ok(())
    }

    fn take_clock(&mut self, offset: u64, raw: i64) {
        match &mut self.reference {
            Reference::Learning(clock) => {
                if clock.push(offset, raw, false).jumped {
                    self.joins = true;
                    self.warnings.add(Some(offset), WarningReason::ClockJump);
                }
            }
            Reference::Known(segments, last) => {
                *last = Some((raw, raw + system_clock::correction_at(segments, offset)));
            }
        }
    }

    /// Converts a stamp of 90 kHz to the track's time.
    fn map(&self, stamp: i64) -> Option<i64> {
        let (raw, time) = match &self.reference {
            Reference::Learning(clock) => clock.last()?,
            Reference::Known(_, last) => (*last)?,
        };
        let ahead = ahead(raw / CLOCK_PER_STAMP, stamp, STAMP_MODULUS) * CLOCK_PER_STAMP;
        (ahead.abs() <= AHEAD_MAX).then_some(time + ahead)
    }

    fn take_chunk(&mut self, chunk: &Chunk) -> Result<(), Fault> {
        let presented = chunk.presented.and_then(|stamp| self.map(stamp));
        if (0xe0..=0xef).contains(&chunk.stream) {
            if *self.video.get_or_insert(chunk.stream) != chunk.stream {
                let reason = WarningReason::OtherStream("more pictures");
                self.warnings.add(Some(chunk.packet), reason);
                return Ok(());
            }
            if matches!(self.input, DemuxInput::Video(..)) {
                self.pictures.enter_pack(chunk.packet);
            }
            let stamps = presented.map(|presented| Stamps {
                presented,
                decoded: chunk.decoded.and_then(|stamp| self.map(stamp)),
                joins: std::mem::take(&mut self.joins),
            });
            self.pictures.push(&chunk.bytes, stamps);
            self.take_pictures(false);
            if self.pictures.is_overfull() {
                let limit = super::pictures::PICTURE_BYTES_MAX as u64;
                let expected = "MPEG-1 or MPEG-2 video";
                let fault = Fault::too_large(chunk.packet, expected, "a picture", limit, "bytes");
                return Err(fault);
            }
            return Ok(());
        }
        self.take_audio(chunk, presented);
        Ok(())
    }

    fn take_audio(&mut self, chunk: &Chunk, presented: Option<i64>) {
        if chunk.first {
            match (
                self.audio_stream,
                AudioStream::of(chunk.stream, &chunk.bytes),
            ) {
                (None, Ok(audio_stream)) => {
                    self.frames = Some(Frames::new(audio_stream.coding));
                    self.audio_stream = Some(audio_stream);
                }
                (Some(known), Ok(other)) if known != other => {
                    let reason = WarningReason::OtherStream("more audio");
                    self.warnings.add(Some(chunk.packet), reason);
                }
                (_, Err(Some(name))) => {
                    let reason = WarningReason::OtherStream(name);
                    self.warnings.add(Some(chunk.packet), reason);
                }
                _ => {}
            }
            self.is_audio_packet = self.audio_stream.is_some_and(|audio_stream| {
                audio_stream.header_of(chunk.stream, &chunk.bytes).is_some()
            });
        }
        let (Some(audio_stream), Some(frames), true) =
            (self.audio_stream, &mut self.frames, self.is_audio_packet)
        else {
            return;
        };
        let header = match chunk.first {
            true => audio_stream
                .header_of(chunk.stream, &chunk.bytes)
                .unwrap_or(0),
            false => 0,
        };
        frames.push(chunk.bytes.get(header..).unwrap_or_default(), presented);
        while let Some(frame) = frames.next() {
            self.held[1].push_back(TimedUnit {
                video: false,
                start: frame.start,
                duration: frame.duration,
                decoded: frame.start,
                keyframe: true,
                origin: Origin::default(),
                bytes: frame.bytes,
            });
        }
    }

    fn take_pictures(&mut self, last: bool) {
        while let Some(picture) = self.pictures.next(last) {
            self.take_picture(picture);
        }
    }

    fn take_picture(&mut self, picture: Picture) {
        let Some(sequence) = self.pictures.sequence() else {
            return;
        };
        let frame = sequence.frame();
        if let Some(presented) = self.presented.take() {
            self.timing = Timing::begin(&picture, presented, frame);
        }
        let (times, drift) = self.timing.times_of(&picture, frame);
        if let (Some(by), Reference::Learning(clock)) = (drift, &mut self.reference) {
            clock.shift_last_segment(by);
            self.pictures.shift_stamps(by);
        }
        if self.can_decode(&picture) {
            self.hold(picture, times);
        }
    }

    /// Returns whether all pictures that `picture` refers to have come since the pass began.
    fn can_decode(&mut self, picture: &Picture) -> bool {
        /// Fields of two frames, between which the B-pictures behind the second one are
        /// presented.
        const ENOUGH: u8 = 4;
        let fields = if picture.field { 1 } else { 2 };
        match picture.kind {
            Kind::Bidirectional => self.anchors >= ENOUGH,
            Kind::Predicted if self.anchors == 0 => {
                let skipped = self.skipped.get_or_insert((picture.origin.offset, 0));
                skipped.1 += 1;
                false
            }
            // A closed group needs no picture before its first one.
            Kind::Intra if self.anchors == 0 && picture.group == Some(true) => {
                self.anchors = ENOUGH;
                true
            }
            Kind::Intra | Kind::Predicted => {
                self.anchors = ENOUGH.min(self.anchors + fields);
                true
            }
        }
    }

    fn hold(&mut self, picture: Picture, times: PictureTimes) {
        let keyframe = picture.kind == Kind::Intra;
        let mut bytes = picture.bytes;
        if let Some(sequence) = self.pictures.sequence()
            && keyframe
            && !picture.has_sequence
        {
            bytes.splice(0..0, sequence.bytes.iter().copied());
        }
        self.held[0].push_back(TimedUnit {
            video: true,
            start: times.presented,
            duration: times.duration,
            decoded: times.decoded,
            keyframe,
            origin: picture.origin,
            bytes,
        });
    }
}

fn is_full(held: &VecDeque<TimedUnit>) -> bool {
    held.len() >= HELD_UNITS_MAX
        || held.iter().map(|unit| unit.bytes.len()).sum::<usize>() > HELD_BYTES_MAX
}
