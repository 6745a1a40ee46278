//! An MPEG program stream, such as .mpg and .vob files, or MPEG video without a container.
//!
//! ```text
//! file ─ packets ─┬─ pictures ─ timing ─┐
//!                 └─ audio ─────────────┴─ demux ─► Unit, video and audio by turns
//! ```
//!
//! The first video stream (MPEG-1 or MPEG-2 video) and the first audio stream (MPEG audio,
//! AC-3) are played. The bytes of units are interleaved, so an index could not state their
//! location. Therefore every pass demultiplexes the stream in the same way, and the first pass
//! stores where the keyframes begin.

mod audio;
mod demux;
mod packets;
mod pictures;
#[cfg(test)]
mod tests;
mod timing;

use std::sync::Arc;

use bytes::Bytes;
use glassline_media::{Codec, Track, TrackIndex};

use crate::error::{Fault, Reason, Warnings};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::system_clock::stamp::clock_ns;
use crate::system_clock::{Clock, Segment};
use crate::window::Window;
use crate::{Data, FrameRate};

use audio::AudioStream;
use demux::{DemuxInput, ProgramDemuxer, Reference, Start, TimedUnit};
use packets::Packets;
use pictures::{Origin, Sequence};

/// Most keyframes of one file: 97 days at two per second. Their index takes 400 MB.
const ENTRIES_MAX: usize = 1 << 24;

/// Most changes of the clock or of the pictures' headers.
const CHANGES_MAX: usize = 1 << 12;

/// A reader of the video and audio of a program stream.
pub(crate) struct Program {
    demux: ProgramDemuxer,
    index: Arc<Index>,
    /// Audio that ends before this time (27 MHz) is dropped after a seek to a keyframe.
    audio_from: i64,
}

/// The index that opening the file found. Times are in ticks of 27 MHz.
struct Index {
    tracks: Vec<Track>,
    entries: Vec<Entry>,
    sequences: Vec<Sequence>,
    segments: Arc<[Segment]>,
    audio: Option<AudioStream>,
    /// Time at which the first picture or audio is presented.
    zero: i64,
    /// Time at which the last presentation ends.
    end: i64,
    has_video: bool,
}

/// Location and time of a keyframe, in 24 bytes.
#[derive(Clone, Copy, Debug)]
struct Entry {
    offset: u64,
    presented: i64,
    skip: u32,
    /// Index of the sequence header that holds.
    sequence: u16,
}

impl Program {
    /// Reads and indexes a program stream.
    pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Self, Fault> {
        Self::read_through(
            DemuxInput::Program(Packets::new(Window::new(data)?)),
            warnings,
        )
    }

    /// Reads and indexes MPEG-1 or MPEG-2 video without a container.
    pub(crate) fn open_bare(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Self, Fault> {
        Self::read_through(DemuxInput::Video(Window::new(data)?, 0), warnings)
    }

    fn read_through(input: DemuxInput, warnings: &mut Warnings) -> Result<Self, Fault> {
        let reference = Reference::Learning(Clock::default());
        let mut demux = ProgramDemuxer::new(input, reference, Start::default());
        let mut pass = FirstPass::default();
        while let Some(unit) = demux.next()? {
            pass.take(&unit, &demux)?;
        }
        warnings.append(&mut demux.warnings);
        let audio = demux.audio();
        let sequence = demux.sequence().cloned();
        let (input, reference) = demux.into_parts();
        let Reference::Learning(clock) = reference else {
            unreachable!("the first pass learns the clock");
        };
        let mut tracks = Vec::new();
        if let (Some(sequence), true) = (&sequence, pass.video.is_some()) {
            tracks.push(video_track(sequence));
        }
        tracks.extend(audio.map(|(_, format)| format.track()));
        let Some((zero, end)) = pass.video.or(pass.audio) else {
            let what = "neither MPEG-1 or MPEG-2 video nor MPEG audio or AC-3".to_owned();
            return Err(Fault::whole(Reason::NothingToPlay(what)));
        };
        let index = Arc::new(Index {
            tracks,
            entries: pass.entries,
            sequences: pass.sequences,
            segments: clock.segments().into(),
            audio: audio.map(|(stream, _)| stream),
            zero,
            end,
            has_video: pass.video.is_some(),
        });
        let demux = index.demux(input, None);
        Ok(Self {
            demux,
            index,
            audio_from: i64::MIN,
        })
    }
}

fn video_track(sequence: &Sequence) -> Track {
    let mut track = Track::new(Codec::MpegVideo);
    track.video.width = sequence.width;
    track.video.height = sequence.height;
    track
}

/// The collection of the first pass.
#[derive(Default)]
struct FirstPass {
    entries: Vec<Entry>,
    sequences: Vec<Sequence>,
    /// First and last presentation time of pictures, and of audio.
    video: Option<(i64, i64)>,
    audio: Option<(i64, i64)>,
}

impl FirstPass {
    fn take(&mut self, unit: &TimedUnit, demux: &ProgramDemuxer) -> Result<(), Fault> {
        let span = if unit.video {
            &mut self.video
        } else {
            &mut self.audio
        };
        let (from, until) = span.get_or_insert((unit.start, unit.start));
        *from = (*from).min(unit.start);
        *until = (*until).max(unit.start + unit.duration);
        if !unit.video || !unit.keyframe {
            return Ok(());
        }
        let Origin { offset, skip } = unit.origin;
        let too_many = |what, limit: usize| {
            Fault::too_large(offset, "an MPEG program stream", what, limit as u64, "")
        };
        let Some(sequence) = demux.sequence() else {
            return Ok(());
        };
        let known = self.sequences.iter().position(|known| known == sequence);
        let place = known.unwrap_or_else(|| {
            self.sequences.push(sequence.clone());
            self.sequences.len() - 1
        });
        if place >= CHANGES_MAX {
            return Err(too_many("the number of sequence headers", CHANGES_MAX));
        }
        if self.entries.len() == ENTRIES_MAX {
            return Err(too_many("the number of keyframes", ENTRIES_MAX));
        }
        // The second field of a keyframe is not an entry, and neither is a picture whose time
        // goes back.
        let later = |last: &Entry| unit.start > last.presented;
        if self.entries.last().is_none_or(later) {
            self.entries.push(Entry {
                offset,
                presented: unit.start,
                skip,
                sequence: u16::try_from(place).expect("CHANGES_MAX fits"),
            });
        }
        Ok(())
    }
}

impl Index {
    /// Starts a pass through the file at an entry, or at the start.
    fn demux(&self, input: DemuxInput, entry: Option<&Entry>) -> ProgramDemuxer {
        let origin = entry.map_or(Origin::default(), |entry| Origin {
            offset: entry.offset,
            skip: entry.skip,
        });
        let sequence = entry.and_then(|entry| self.sequences.get(usize::from(entry.sequence)));
        let start = Start {
            origin,
            presented: entry.map(|entry| entry.presented),
            sequence: sequence.cloned(),
            audio: self.audio,
        };
        let reference = Reference::Known(Arc::clone(&self.segments), None);
        ProgramDemuxer::new(input, reference, start)
    }

    /// Converts ticks of 27 MHz to the track's time in ns.
    fn ns(&self, ticks: i64) -> i64 {
        clock_ns(ticks.saturating_sub(self.zero))
    }

    /// Returns the number of entries that are presented at or before `at_ns`.
    fn entries_until(&self, at_ns: i64) -> usize {
        self.entries
            .partition_point(|entry| self.ns(entry.presented) <= at_ns)
    }

    fn entry_ns(&self, place: usize) -> Option<i64> {
        let entry = self.entries.get(place)?;
        Some(self.ns(entry.presented))
    }
}

impl Reader for Program {
    fn tracks(&self) -> &[Track] {
        &self.index.tracks
    }

    fn length(&self) -> Length {
        Length::from_nanos(self.index.ns(self.index.end))
    }

    fn frame_rate(&self) -> Option<FrameRate> {
        self.index.sequences.first()?.frame_rate()
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        while let Some(unit) = self.demux.next()? {
            let end = unit.start + unit.duration;
            if !unit.video && end <= self.audio_from {
                continue;
            }
            let start_ns = self.index.ns(unit.start);
            let end_ns = self.index.ns(end).max(start_ns + 1);
            return Ok(Some(Unit {
                track: TrackIndex(usize::from(!unit.video && self.index.has_video)),
                start_ns,
                end_ns,
                busy_ns: end_ns,
                decode_ns: self.index.ns(unit.decoded),
                keyframe: unit.keyframe,
                data: Bytes::from(unit.bytes),
            }));
        }
        Ok(None)
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        let behind = match to_ns {
            ..=0 => 0,
            _ => self.index.entries_until(to_ns),
        };
        let entry = behind.checked_sub(1).map(|at| self.index.entries[at]);
        // Without video, the seek leads to audio.
        self.audio_from = match (entry, to_ns) {
            (Some(entry), _) => entry.presented,
            (None, 1..) if !self.index.has_video => self.index.zero + to_ns / 1000 * 27,
            _ => i64::MIN,
        };
        let input = self.demux.input().fork();
        self.demux = self.index.demux(input, entry.as_ref());
        Ok(())
    }

    fn keyframe_at_or_before(&self, at_ns: i64) -> Option<i64> {
        let behind = self.index.entries_until(at_ns);
        self.index.entry_ns(behind.checked_sub(1)?)
    }

    fn keyframe_after(&self, at_ns: i64) -> Option<i64> {
        self.index.entry_ns(self.index.entries_until(at_ns))
    }

    fn fork(&self) -> Box<dyn Reader> {
        let input = self.demux.input().fork();
        Box::new(Self {
            demux: self.index.demux(input, None),
            index: Arc::clone(&self.index),
            audio_from: i64::MIN,
        })
    }
}
