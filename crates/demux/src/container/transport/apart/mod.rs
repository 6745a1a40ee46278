//! A transport stream taken apart into its video and its audio, so that every receiver plays it.
//!
//! ```text
//! packets ─► tables: which streams ─┐        ┌► VideoStream (access units) ─┐
//!    │                              ▼        │                              ├► FoundUnit
//!    └─► packets of each stream ─► Pes ──────┴► AudioStream (frames) ───────┘    │   │
//!                                    └► Places: where the bytes lie              │   │
//!             file: IndexedTrackBuilder, whose units Scattered fetches later ◄───┘   │
//!    pipe, pushed bytes: PipeUnit, handed out as it arrives ◄────────────────────────┘
//! ```
//!
//! The first program's first stream of H.264 or H.265 and its first stream of AAC, MPEG audio,
//! AC-3 or Opus are played. A file with other video, or with nothing of these, is sent as a whole.
//!
//! Sources: ISO/IEC 13818-1 §2.4.3 (packets, PES), §2.4.4 (tables), §2.7 (stamps).

mod audio;
mod file;
mod pes;
mod pipe;
mod places;
mod pushed;
mod scattered;
mod stamps;
#[cfg(test)]
mod tests;
mod units;
mod video;

use std::collections::VecDeque;

use super::content::Content;
use super::packet::Packet;
use super::tables::{Program, Tables};
use crate::audio::ac3::Ac3;
use crate::audio::adts::Adts;
use crate::audio::mpeg_audio::MpegAudio;
use crate::audio::opus_control::OpusControl;
use crate::container::coding::Described;
use crate::error::{NotApart, WarningReason, Warnings};
use audio::AudioStream;
use pes::{Part, Pes};
use places::{ByteLocation, Places};
use stamps::{StampClock, Stamps};
use units::FoundUnit;
use video::VideoStream;

pub(super) use file::open;
pub(crate) use pipe::TransportPipe;
pub(crate) use pushed::PushedTransport;

/// The streams of a program that are played.
#[derive(Default)]
struct Streams {
    tables: Tables,
    /// At most one of video and one of audio, once the program is known.
    chosen: Option<Vec<Stream>>,
    clock: StampClock,
    /// Units that were found, and the number of their stream among the chosen ones.
    found: VecDeque<(usize, FoundUnit)>,
    warnings: Warnings,
    /// Whether packets may be lost on their way.
    may_lose: bool,
}

struct Stream {
    pid: u16,
    content: Content,
    pes: Pes,
    elementary: Elementary,
}

enum Elementary {
    Video(Box<VideoStream>),
    Audio(AudioStream),
}

impl Streams {
    /// Reads the next packet, which lies at `offset`.
    fn push(&mut self, offset: u64, packet: &Packet) {
        if self.tables.push(packet)
            && let Some(program) = self.tables.program()
        {
            match &mut self.chosen {
                None => {
                    let chosen = choose(program, self.may_lose, &mut self.warnings);
                    self.chosen = Some(chosen);
                }
                Some(chosen) => follow(chosen, program, self.may_lose),
            }
        }
        let chosen = self.chosen.iter_mut().flatten();
        let numbered = chosen.enumerate().find(|(_, it)| it.pid == packet.pid());
        let Some((number, stream)) = numbered else {
            return;
        };
        let part = stream.pes.push(packet);
        if stream.pes.take_loss() {
            stream.elementary.lose();
        }
        let Some(part) = part else {
            return;
        };
        let jumps = self.clock.jumps;
        let stamps = part.stamps.map(|raw| self.clock.convert(raw));
        if self.clock.jumps > jumps {
            self.warnings.add(Some(offset), WarningReason::ClockJump);
        }
        stream.take(offset, &part, stamps);
        stream.move_units(number, &mut self.found);
    }

    /// Ends all streams: what waits is complete.
    fn finish(&mut self) {
        for (number, stream) in self.chosen.iter_mut().flatten().enumerate() {
            match &mut stream.elementary {
                Elementary::Video(video) => video.push(&[]),
                Elementary::Audio(audio) => audio.push(&[]),
            }
            stream.move_units(number, &mut self.found);
        }
    }

    /// Describes the stream of this number; `None` before its first unit.
    fn describe(&self, number: usize) -> Option<Described> {
        self.chosen.as_ref()?.get(number)?.describe()
    }

    /// Returns how many streams are played; `None` until the program is known.
    fn count(&self) -> Option<usize> {
        self.chosen.as_ref().map(Vec::len)
    }

    /// Returns the numbers of the streams of video that can be read.
    fn video_numbers(&self) -> impl Iterator<Item = usize> {
        let numbered = self.chosen.iter().flatten().enumerate();
        let is_video = |stream: &Stream| match &stream.elementary {
            Elementary::Video(video) => video.failure().is_none(),
            Elementary::Audio(_) => false,
        };
        numbered.filter_map(move |(number, stream)| is_video(stream).then_some(number))
    }

    /// Returns the number of scrambled packets of the streams that are played.
    fn scrambled(&self) -> u64 {
        let chosen = self.chosen.iter().flatten();
        chosen.map(|stream| stream.pes.scrambled).sum()
    }

    /// Returns why nothing, or no video, is taken out of the streams.
    fn not_apart(&self) -> NotApart {
        let Some(program) = self.tables.program() else {
            return NotApart::NoTables;
        };
        let contents = || program.contents.iter().map(|(_, content)| *content);
        let is_playable = contents().any(|it| it.is_video() || it.is_audio());
        let other = contents().find(|it| matches!(it, Content::OtherVideo(_)));
        match other.or_else(|| contents().find(|it| matches!(it, Content::OtherAudio(_)))) {
            _ if self.scrambled() > 0 => NotApart::Scrambled,
            Some(Content::OtherVideo(name)) if !contents().any(Content::is_video) => {
                NotApart::OtherVideo(name)
            }
            Some(Content::OtherAudio(name)) if !is_playable => NotApart::OtherAudio(name),
            _ => NotApart::NoFrames,
        }
    }

    /// Takes the warnings so far.
    fn take_warnings(&mut self) -> Warnings {
        let mut warnings = std::mem::take(&mut self.warnings);
        for stream in self.chosen.iter_mut().flatten() {
            stream.warn(&mut warnings);
        }
        warnings
    }
}

impl Elementary {
    /// Notes that bytes were lost here.
    fn lose(&mut self) {
        match self {
            Self::Video(video) => video.lose(),
            Self::Audio(audio) => audio.lose(),
        }
    }
}

impl Stream {
    fn new(pid: u16, content: Content, may_lose: bool) -> Option<Self> {
        let audio = |syntax| Some(Elementary::Audio(AudioStream::new(syntax)));
        let elementary = match content {
            Content::H264 => Some(Elementary::Video(Box::new(VideoStream::new(false)))),
            Content::H265 => Some(Elementary::Video(Box::new(VideoStream::new(true)))),
            Content::Aac | Content::Unnamed => audio(Box::new(Adts)),
            Content::MpegAudio => audio(Box::new(MpegAudio)),
            Content::Ac3 => audio(Box::new(Ac3)),
            Content::Opus(layout) => audio(Box::new(OpusControl(layout))),
            Content::OtherVideo(_) | Content::OtherAudio(_) | Content::Other => None,
        };
        Some(Self {
            pid,
            content,
            pes: pes(may_lose),
            elementary: elementary?,
        })
    }

    fn take(&mut self, offset: u64, part: &Part<'_>, stamps: Option<Stamps>) {
        let place = ByteLocation {
            packet: offset,
            within: part.within,
        };
        let note = |places: &mut Places| {
            places.push(place, part.bytes.len(), part.begins, stamps);
        };
        // No bytes would end a stream.
        match &mut self.elementary {
            Elementary::Video(video) => {
                note(video.places());
                if !part.bytes.is_empty() {
                    video.push(part.bytes);
                }
            }
            Elementary::Audio(audio) => {
                note(audio.places());
                if !part.bytes.is_empty() {
                    audio.push(part.bytes);
                }
            }
        }
    }

    fn move_units(&mut self, number: usize, out: &mut VecDeque<(usize, FoundUnit)>) {
        let next = || match &mut self.elementary {
            Elementary::Video(video) => video.next_unit(),
            Elementary::Audio(audio) => audio.next_unit(),
        };
        out.extend(std::iter::from_fn(next).map(|unit| (number, unit)));
    }

    fn describe(&self) -> Option<Described> {
        match &self.elementary {
            Elementary::Video(video) => video.describe(),
            Elementary::Audio(audio) => audio.describe(),
        }
    }

    fn warn(&mut self, warnings: &mut Warnings) {
        let gaps = std::mem::take(&mut self.pes.gaps);
        if gaps > 0 {
            warnings.add(None, WarningReason::MissingPackets(gaps));
        }
        if self.pes.scrambled > 0 {
            warnings.add(None, WarningReason::Scrambled { pid: self.pid });
        }
        match &mut self.elementary {
            Elementary::Video(video) => {
                if let Some(why) = video.failure().filter(|_| self.pes.scrambled == 0) {
                    let why = format!("video: {why}");
                    warnings.add(None, WarningReason::OtherTrack(why));
                }
                if video.before_keyframe() > 0 {
                    let reason = WarningReason::BeforeKeyframe(video.before_keyframe());
                    warnings.add(None, reason);
                }
            }
            Elementary::Audio(audio) => {
                // A recording begins and ends within a frame.
                let skipped = std::mem::take(&mut audio.skipped);
                if skipped > u64::from(u16::MAX) {
                    warnings.add(None, WarningReason::Skipped(skipped));
                }
            }
        }
    }
}

/// Chooses the streams to play, and warns of those that are not.
fn choose(program: &Program, may_lose: bool, warnings: &mut Warnings) -> Vec<Stream> {
    let first = |wanted: fn(Content) -> bool| {
        let mut contents = program.contents.iter().copied();
        contents.find(|(_, content)| wanted(*content))
    };
    let audio = first(Content::is_audio).or_else(|| first(|it| it == Content::Unnamed));
    let chosen = [first(Content::is_video), audio];
    let chosen: Vec<Stream> = chosen
        .into_iter()
        .flatten()
        .filter_map(|(pid, content)| Stream::new(pid, content, may_lose))
        .collect();
    let left_out: Vec<String> = program
        .contents
        .iter()
        .filter(|(pid, _)| chosen.iter().all(|stream| stream.pid != *pid))
        .filter_map(|(_, content)| match content.left_out() {
            Some(name) => Some(format!("{name} is not taken out of transport streams")),
            None if content.is_audio() => Some("a second stream of audio".to_owned()),
            None if content.is_video() => Some("a second stream of video".to_owned()),
            None => None,
        })
        .collect();
    if !left_out.is_empty() {
        let reason = WarningReason::OtherTrack(left_out.join(", "));
        warnings.add(None, reason);
    }
    chosen
}

fn pes(may_lose: bool) -> Pes {
    match may_lose {
        true => Pes::with_losses(),
        false => Pes::default(),
    }
}

/// Moves streams to the packet identifiers that a new map gives them.
fn follow(chosen: &mut [Stream], program: &Program, may_lose: bool) {
    for stream in chosen {
        let has = |pid: u16| program.contents.contains(&(pid, stream.content));
        if has(stream.pid) {
            continue;
        }
        let mut contents = program.contents.iter();
        if let Some((pid, _)) = contents.find(|(_, content)| *content == stream.content) {
            stream.pid = *pid;
            stream.pes = pes(may_lose);
        }
    }
}
