//! Sound in frames of one length in time, each with a header that says its length
//! in bytes: AAC with ADTS headers, AC-3, AMR, MPEG audio.
//!
//! Opening a file goes from header to header. Where a frame should begin and none
//! does, the next one is looked for, and taken for true only if others follow it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use glassline_media::{Codec, MediaTime, Track};

use crate::audio::ac3;
use crate::audio::adts;
use crate::audio::mpeg_audio;
use crate::audio::tags;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::legacy::amr;
use crate::reader::{Length, Reader, Unit};
use crate::window::{Window, read_unit};
use crate::{Data, parameters, sniff};

/// Frames of one file: 4 to 6 days of most codings; their index has 128 MB.
const FRAMES_MAX: usize = 1 << 24;

/// Bytes in a row that may belong to no frame.
const JUNK_BYTES_MAX: u64 = 1 << 20;

/// The frames of a file of sound, in order, as often as asked.
pub(crate) struct Frames {
    data: Box<dyn Data>,
    index: Arc<[Entry]>,
    form: Form,
    tracks: [Track; 1],
    next: usize,
}

/// How a file's bytes make frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Syntax {
    Adts,
    Ac3,
    Amr,
    AmrWb,
    MpegAudio,
}

/// Where the bytes of a unit lie: an offset of 48 bits and a length of 16.
#[derive(Clone, Copy)]
struct Entry(u64);

/// What a header says.
#[derive(Clone, Copy)]
struct Frame {
    /// Bytes of the header that are no part of the unit.
    header_bytes: u16,
    /// Bytes in all, above zero.
    bytes: u16,
    form: Form,
}

/// What a track says once for all its frames.
#[derive(Clone, Copy)]
struct Form {
    /// Samples per second.
    rate: u32,
    /// Samples of each frame.
    samples: u32,
    channels: u8,
    /// Whatever else a decoder is set up with.
    setup: [u8; 2],
}

impl Frames {
    /// Reads the file through once and remembers where its frames lie.
    pub(crate) fn open(
        syntax: Syntax,
        data: Box<dyn Data>,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let mut window = Window::new(data)?;
        let mut range = tags::sound_within(&mut window)?;
        let head = window.peek(range.start, sniff::SNIFF_BYTES)?;
        let (is, expected) = syntax.names();
        sniff::check_bytes(head, range.start, is, expected)?;
        let syntax = match syntax {
            Syntax::Amr | Syntax::AmrWb if head.starts_with(amr::MAGIC_WB) => Syntax::AmrWb,
            Syntax::Amr | Syntax::AmrWb if head.starts_with(amr::MAGIC) => Syntax::Amr,
            Syntax::Amr | Syntax::AmrWb => {
                return Err(Fault::at(range.start, Reason::Damaged(NO_AMR_MAGIC)));
            }
            _ => syntax,
        };
        if let Some(reason) = syntax.refusal(head) {
            return Err(Fault::at(range.start, reason));
        }
        range.start += syntax.magic_bytes();
        let indexer = Indexer::new(syntax, window, range, warnings);
        let (form, index, window) = indexer.run()?;
        Ok(Self {
            data: window.into_data(),
            index: index.into(),
            tracks: [syntax.track(&form)],
            form,
            next: 0,
        })
    }

    /// Samples before a frame.
    fn samples(&self, frame: usize) -> i64 {
        let samples = frame as u64 * u64::from(self.form.samples);
        i64::try_from(samples).unwrap_or(i64::MAX)
    }

    fn start_ns(&self, frame: usize) -> i64 {
        MediaTime::from_ticks(self.samples(frame), self.form.rate).nanos()
    }
}

impl Reader for Frames {
    fn tracks(&self) -> &[Track] {
        &self.tracks
    }

    fn length_ns(&self) -> i64 {
        self.start_ns(self.index.len())
    }

    fn length(&self) -> Length {
        Length::from_ticks(self.samples(self.index.len()), self.form.rate)
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let Some(entry) = self.index.get(self.next) else {
            return Ok(None);
        };
        let data = read_unit(&mut self.data, entry.offset(), entry.length())?;
        let start_ns = self.start_ns(self.next);
        self.next += 1;
        let end_ns = self.start_ns(self.next);
        Ok(Some(Unit::in_turn(start_ns..end_ns, true, data)))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let samples = MediaTime::from_nanos(to_ns.max(0)).ticks(self.form.rate);
        let frame = samples / i64::from(self.form.samples);
        self.next = usize::try_from(frame).map_or(0, |frame| frame.min(self.index.len()));
        Ok(())
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            data: self.data.fork(),
            index: Arc::clone(&self.index),
            form: self.form,
            tracks: self.tracks.clone(),
            next: 0,
        })
    }
}

impl Entry {
    /// `None` if `offset` is beyond any file system.
    fn new(offset: u64, length: u16) -> Option<Self> {
        (offset < 1 << 48).then_some(Self(offset << 16 | u64::from(length)))
    }

    fn offset(self) -> u64 {
        self.0 >> 16
    }

    fn length(self) -> usize {
        (self.0 & 0xffff) as usize
    }
}

const NO_AMR_MAGIC: &str = "it does not begin with #!AMR or #!AMR-WB and a line feed";

impl Syntax {
    /// What [`sniff`] calls it, and what the file should be.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Adts => (sniff::AAC, "AAC with ADTS headers"),
            Self::Ac3 => (sniff::AC3, "AC-3"),
            Self::Amr | Self::AmrWb => (sniff::AMR, "AMR"),
            Self::MpegAudio => (sniff::MPEG_AUDIO, "MPEG audio"),
        }
    }

    fn magic_bytes(self) -> u64 {
        match self {
            Self::Amr => amr::MAGIC.len() as u64,
            Self::AmrWb => amr::MAGIC_WB.len() as u64,
            _ => 0,
        }
    }

    fn head_bytes(self) -> usize {
        match self {
            Self::Adts => adts::HEADER_BYTES,
            Self::Ac3 => ac3::HEADER_BYTES,
            Self::Amr | Self::AmrWb => 1,
            Self::MpegAudio => mpeg_audio::HEADER_BYTES,
        }
    }

    /// Frames that must follow one that was looked for: headers of a byte are
    /// found everywhere.
    fn witnesses(self) -> usize {
        match self {
            Self::Amr | Self::AmrWb => 25,
            _ => 2,
        }
    }

    /// The frame whose header begins `head`.
    fn frame(self, head: &[u8]) -> Option<Frame> {
        match self {
            Self::Adts => {
                let header = adts::Header::parse(head).filter(|header| header.blocks == 1)?;
                Some(Frame {
                    header_bytes: header.header_bytes,
                    bytes: header.frame_bytes,
                    form: Form {
                        rate: header.rate,
                        samples: adts::SAMPLES,
                        channels: header.channels()?,
                        setup: header.audio_specific_config(),
                    },
                })
            }
            Self::Ac3 => {
                let header = ac3::Header::parse(head)?;
                let form = Form::new(header.rate, ac3::SAMPLES, header.channels);
                Some(Frame::whole(header.frame_bytes, form))
            }
            Self::Amr | Self::AmrWb => {
                let wideband = self == Self::AmrWb;
                let bytes = amr::frame_bytes(*head.first()?, wideband)?;
                let form = match wideband {
                    true => Form::new(16_000, amr::SAMPLES_WB, 1),
                    false => Form::new(8_000, amr::SAMPLES, 1),
                };
                Some(Frame::whole(bytes, form))
            }
            Self::MpegAudio => {
                let header = mpeg_audio::Header::parse(head)?;
                let form = Form {
                    setup: [header.version as u8, header.layer],
                    ..Form::new(header.rate, header.samples.into(), header.channels)
                };
                Some(Frame::whole(header.frame_bytes, form))
            }
        }
    }

    /// Why a file that begins with `head` is not served, though it is of the format.
    fn refusal(self, head: &[u8]) -> Option<Reason> {
        let refused = |found, instead| Some(Reason::Refused { found, instead });
        match self {
            Self::Adts => {
                let header = adts::Header::parse(head)?;
                if header.blocks > 1 {
                    return refused(
                        "AAC with several access units behind each header",
                        "write it anew (ffmpeg: -c:a copy -f adts)",
                    );
                }
                let instead = "encode it anew with a usual number of channels (ffmpeg: -ac 2)";
                match header.channels() {
                    Some(_) => None,
                    None => refused("AAC whose channels only its frames say", instead),
                }
            }
            Self::MpegAudio if mpeg_audio::is_free_format(head) => refused(
                "MPEG audio of free bit rate",
                "encode it with one of the usual bit rates",
            ),
            _ => None,
        }
    }

    fn track(self, form: &Form) -> Track {
        let track = |codec| Track::audio(codec, form.channels).with_clock_rate(form.rate);
        match self {
            Self::Adts => track(Codec::Aac).with_format_parameters(parameters::aac(&form.setup)),
            Self::Ac3 => track(Codec::Ac3),
            Self::Amr => track(Codec::Amr).with_format_parameters(parameters::AMR),
            Self::AmrWb => track(Codec::AmrWb).with_format_parameters(parameters::AMR),
            // Whatever its sampling rate, its RTP clock is 90 kHz (RFC 2250 §3.5).
            Self::MpegAudio => Track::audio(Codec::MpegAudio, form.channels),
        }
    }
}

impl Frame {
    fn whole(bytes: u16, form: Form) -> Self {
        Self {
            header_bytes: 0,
            bytes,
            form,
        }
    }
}

impl Form {
    fn new(rate: u32, samples: u32, channels: u8) -> Self {
        Self {
            rate,
            samples,
            channels,
            setup: [0; 2],
        }
    }

    /// Whether frames of both can be on one track. Decoders take it from each
    /// frame how many channels there are, unless `setup` says it.
    fn fits(&self, other: &Self) -> bool {
        (self.rate, self.samples, self.setup) == (other.rate, other.samples, other.setup)
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rate,
            samples,
            channels,
            ..
        } = self;
        write!(
            f,
            "sound of {rate} Hz, {channels} channels and {samples} samples a frame"
        )
    }
}

/// Collects the index while the file is read through.
struct Indexer<'w> {
    syntax: Syntax,
    window: Window,
    range: Range<u64>,
    warnings: &'w mut Warnings,
    form: Option<Form>,
    index: Vec<Entry>,
}

impl<'w> Indexer<'w> {
    fn new(syntax: Syntax, window: Window, range: Range<u64>, warnings: &'w mut Warnings) -> Self {
        Self {
            syntax,
            window,
            range,
            warnings,
            form: None,
            index: Vec::new(),
        }
    }

    fn run(mut self) -> Result<(Form, Vec<Entry>, Window), Fault> {
        let start = self.range.start;
        // A magic number was there, or the frame has to show itself by others.
        let mut in_step = self.syntax.magic_bytes() > 0;
        let mut at = start;
        while at < self.range.end {
            match self.frame_to_take(at, in_step)? {
                Some(frame) => {
                    self.take(at, frame)?;
                    at += u64::from(frame.bytes);
                    in_step = true;
                }
                None => {
                    at = self.skip(at)?;
                    in_step = false;
                }
            }
        }
        match self.form {
            Some(form) if !self.index.is_empty() => Ok((form, self.index, self.window)),
            _ => {
                let what = format!("it has no frame of {}", self.syntax.names().1);
                Err(Fault::at(start, Reason::NothingToPlay(what)))
            }
        }
    }

    fn frame_at(&mut self, at: u64) -> Result<Option<Frame>, Fault> {
        if at >= self.range.end {
            return Ok(None);
        }
        let head = self.window.peek(at, self.syntax.head_bytes())?;
        Ok(self.syntax.frame(head))
    }

    /// The frame at `at`, if it belongs to the track.
    fn frame_to_take(&mut self, at: u64, in_step: bool) -> Result<Option<Frame>, Fault> {
        let Some(frame) = self.frame_at(at)? else {
            return Ok(None);
        };
        let Some(form) = self.form else {
            let taken = in_step || self.is_followed(at, frame)?;
            return Ok(taken.then_some(frame));
        };
        if form.fits(&frame.form) {
            let taken = in_step || self.is_followed(at, frame)?;
            return Ok(taken.then_some(frame));
        }
        if in_step && self.frames_behind(at, frame)? >= self.syntax.witnesses() {
            let (from, to) = (form.to_string(), frame.form.to_string());
            return Err(Fault::at(at, Reason::Changes { from, to }));
        }
        Ok(None)
    }

    /// Whether enough frames of its form follow, or as many as the file still has.
    fn is_followed(&mut self, at: u64, frame: Frame) -> Result<bool, Fault> {
        let behind = self.frames_behind(at, frame)?;
        let mut end = at + u64::from(frame.bytes);
        for _ in 0..behind {
            end += self.frame_at(end)?.map_or(0, |next| next.bytes.into());
        }
        let at_end = end == self.range.end || behind > 0 && end > self.range.end;
        // Anything ends with what looks like a frame whose header is one byte.
        let weak = self.syntax.head_bytes() == 1;
        // Less is asked of a frame that lies where the first one must.
        let needed = match at == self.range.start {
            true => 1,
            false => self.syntax.witnesses(),
        };
        Ok(behind >= needed || at_end && !weak)
    }

    /// How many frames of its form follow without a gap, counted up to the witnesses.
    fn frames_behind(&mut self, at: u64, frame: Frame) -> Result<usize, Fault> {
        let mut at = at + u64::from(frame.bytes);
        for count in 0..self.syntax.witnesses() {
            match self.frame_at(at)? {
                Some(next) if next.form.fits(&frame.form) => at += u64::from(next.bytes),
                _ => return Ok(count),
            }
        }
        Ok(self.syntax.witnesses())
    }

    fn take(&mut self, at: u64, frame: Frame) -> Result<(), Fault> {
        self.form.get_or_insert(frame.form);
        let end = at + u64::from(frame.bytes);
        if end > self.range.end {
            self.warnings.add(Some(at), WarningReason::TruncatedFrame);
            return Ok(());
        }
        if self.index.is_empty() && self.is_directory(at)? {
            return Ok(());
        }
        let length = frame.bytes - frame.header_bytes;
        let entry = Entry::new(at + u64::from(frame.header_bytes), length);
        match entry {
            Some(entry) if self.index.len() < FRAMES_MAX => self.index.push(entry),
            _ => {
                let (expected, limit) = (self.syntax.names().1, FRAMES_MAX as u64);
                return Err(Fault::too_large(at, expected, "the file", limit, "frames"));
            }
        }
        Ok(())
    }

    /// Whether the frame is a directory of the file instead of sound.
    fn is_directory(&mut self, at: u64) -> Result<bool, Fault> {
        if self.syntax != Syntax::MpegAudio {
            return Ok(false);
        }
        let bytes = self.window.peek(at, mpeg_audio::DIRECTORY_BYTES)?;
        let header = mpeg_audio::Header::parse(bytes);
        Ok(header.is_some_and(|header| header.is_directory(bytes)))
    }

    /// Where sound goes on behind bytes that are no frame: a tag, which says its
    /// length, or anything.
    fn skip(&mut self, from: u64) -> Result<u64, Fault> {
        if let Some(bytes) = tags::bytes_of(self.window.peek(from, tags::HEAD_BYTES)?) {
            let behind = from.saturating_add(bytes);
            if behind <= self.range.end {
                return Ok(behind);
            }
        }
        let limit = self.range.end.min(from + JUNK_BYTES_MAX);
        for at in from + 1..limit {
            if self.frame_to_take(at, false)?.is_some() {
                self.warnings
                    .add(Some(from), WarningReason::Skipped(at - from));
                return Ok(at);
            }
        }
        if limit < self.range.end || self.index.is_empty() {
            let (expected, searched) = (self.syntax.frame_name(), limit - from);
            return Err(Fault::at(from, Reason::NoFrame { expected, searched }));
        }
        self.warnings
            .add(Some(from), WarningReason::Skipped(limit - from));
        Ok(limit)
    }
}

impl Syntax {
    fn frame_name(self) -> &'static str {
        match self {
            Self::Adts => "AAC frame with an ADTS header",
            Self::Ac3 => "AC-3 frame",
            Self::Amr => "AMR frame",
            Self::AmrWb => "AMR-WB frame",
            Self::MpegAudio => "MPEG audio frame",
        }
    }
}
