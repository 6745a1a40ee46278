//! A span of time out of recorded files, as one MP4 file made of slices of these.
//!
//! ```text
//! ftyp moov mdat │ slice of file 0 │ slice of file 0 │ slice of file 1 │ …
//! └── Span::head ┘
//! ```
//!
//! The head and the length of the whole are known before the first byte of media is read, so that
//! ranges of bytes can be served. Memory grows with the number of samples, not with their bytes.

mod clock;
mod error;
mod out_track;

use std::ops::Range;
use std::time::Duration;

use bytes::{BufMut as _, Bytes};
use glassline_media::Kind;

use crate::file::FragmentEntry;
use crate::header::Header;
use crate::movie::{MOVIE_TIMESCALE, MovieTrack, put_file_type, put_movie};
use crate::reader::{ReadAt, RecordedFile, RecordedFragment, RecordedSample, RecordedTrack};
use clock::OutClock;
pub use error::SpanError;
use out_track::{OutSample, OutTrack, shift_chunks};

/// Most samples of a span: a day of video and audio has six million.
const SAMPLES_MAX: u64 = 1 << 25;

/// Difference in nanoseconds between the end of a sample and the time of the next one that is no overlap.
const ROUNDING: i128 = 1_000_000;

/// Bytes of the head of the media.
const MEDIA_HEAD_BYTES: u64 = 16;

/// Where a span begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanCut {
    /// The span begins at the last keyframe before the time that was asked for, so that every player
    /// shows the same.
    Keyframe,
    /// The span begins and ends at the times that were asked for, by an edit list. The frames from the
    /// keyframe before are in the file, too.
    Exact,
}

/// A range of bytes of one of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Number of the file, in the order in which the files were added, from zero.
    pub file: usize,
    /// Offset of the first byte in the file.
    pub offset: u64,
    /// Length in bytes, from the offset on.
    pub bytes: u64,
}

/// One MP4 file: a head, and slices of other files behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Bytes that the file begins with.
    pub head: Bytes,
    /// Slices that follow, in order.
    pub slices: Vec<Slice>,
    /// Wall-clock time at which the presentation begins, since 1970-01-01 UTC.
    pub wall_clock: Duration,
    /// Duration of the presentation.
    pub duration: Duration,
    /// Times without media that are left out, by the wall clock. Gaps of up to two seconds are kept.
    pub gaps: Vec<Range<Duration>>,
}

impl Span {
    /// Returns the number of bytes of the whole file.
    pub fn byte_count(&self) -> u64 {
        let media: u64 = self.slices.iter().map(|slice| slice.bytes).sum();
        self.head.len() as u64 + media
    }
}

/// Collects the samples of a span, file by file.
#[derive(Debug)]
pub struct SpanBuilder {
    range: Range<Duration>,
    cut: SpanCut,
    tracks: Vec<OutTrack>,
    slices: Vec<Slice>,
    media_bytes: u64,
    files: usize,
    samples: u64,
    begun: Option<Begun>,
}

/// A span that has media.
#[derive(Debug)]
struct Begun {
    clock: OutClock,
    /// Decode time of the keyframe that the span begins with, in nanoseconds of the first file.
    keyframe: i128,
    /// Time of the first presentation, in nanoseconds of the span, which are those of the first file.
    start: i128,
    wall_clock: Duration,
}

/// A file that is being added.
struct Adding<'a> {
    number: usize,
    header: &'a Header,
    /// For each track of the file, its position in the span.
    places: Vec<usize>,
    is_first: bool,
}

impl SpanBuilder {
    /// Begins a span of wall-clock time, since 1970-01-01 UTC.
    pub fn new(range: Range<Duration>, cut: SpanCut) -> Self {
        Self {
            range,
            cut,
            tracks: Vec::new(),
            slices: Vec::new(),
            media_bytes: 0,
            files: 0,
            samples: 0,
            begun: None,
        }
    }

    /// Adds the next file in the order of time. Only descriptions of fragments within the span are
    /// read.
    ///
    /// # Errors
    /// [`SpanError`] if a description cannot be read, or if the span has too many samples.
    pub fn add<S: ReadAt>(&mut self, file: &RecordedFile<S>) -> Result<(), SpanError> {
        self.add_part(file, 0, false)
    }

    /// Adds the next file like [`Self::add`], of another recorder of the same stream than the file before:
    /// what that one has already is left out, up to a keyframe.
    ///
    /// # Errors
    /// See [`Self::add`].
    pub fn add_of_another<S: ReadAt>(&mut self, file: &RecordedFile<S>) -> Result<(), SpanError> {
        let Some(begun) = &mut self.begun else {
            return self.add(file);
        };
        let all = file.fragments();
        let end = begun.clock.wall_end();
        let begins = |it: &FragmentEntry| it.wall_clock;
        let Some(first) = FragmentEntry::taking_over(all, end, begins) else {
            self.files += 1;
            return Ok(());
        };
        begun.clock.begin_run(&all[first]);
        self.add_part(file, first, true)
    }

    /// Adds the next file from the fragment at the position `first` on, with which it `takes_over` from
    /// another recorder, or goes on.
    fn add_part<S: ReadAt>(
        &mut self,
        file: &RecordedFile<S>,
        first: usize,
        takes_over: bool,
    ) -> Result<(), SpanError> {
        let number = self.files;
        self.files += 1;
        let all = file.fragments();
        let end = all.partition_point(|it| it.wall_clock < self.range.end);
        let begin = all.partition_point(|it| it.wall_clock_end() <= self.range.start);
        let mut begin = begin.max(first);
        if begin >= end {
            return Ok(());
        }
        let is_first = self.begun.is_none();
        if is_first {
            // A decoder starts with the keyframe before the span.
            while begin > 0 && !all[begin].starts_with_sync {
                begin -= 1;
            }
            self.begun = self.begin(file, &all[begin..end])?;
        }
        let adding = Adding {
            number,
            header: file.header(),
            places: self.places(file.header()),
            is_first,
        };
        for (place, entry) in all[begin..end].iter().enumerate() {
            let fragment = file.fragment(entry)?;
            let Some(begun) = &mut self.begun else {
                break;
            };
            if !is_first || place > 0 {
                begun.clock.advance(entry, place == 0);
            }
            self.include(&adding, &fragment, takes_over && place == 0)?;
        }
        Ok(())
    }

    /// Returns the span.
    ///
    /// # Errors
    /// [`SpanError::Empty`] if no file has media within the span.
    pub fn finish(self) -> Result<Span, SpanError> {
        let tracks = self.tracks.into_iter().filter(OutTrack::has_samples);
        let tracks: Vec<_> = tracks.collect();
        let Some(begun) = self.begun.filter(|_| !tracks.is_empty()) else {
            return Err(SpanError::Empty { range: self.range });
        };
        let end = match self.cut {
            SpanCut::Keyframe => None,
            SpanCut::Exact => Some(begun.clock.out_of_wall(self.range.end)),
        };
        let descriptions: Vec<_> = tracks.iter().map(|it| it.track.clone()).collect();
        let movies = tracks.into_iter().map(|it| it.finish(begun.start, end));
        let movie: Vec<_> = descriptions.iter().zip(movies).collect();
        let ticks = movie.iter().map(|(_, movie)| MovieTrack::presented(movie));
        let ticks = u128::from(ticks.max().unwrap_or(0));
        let duration = ticks * 1_000_000_000 / u128::from(MOVIE_TIMESCALE);
        let mut head = Vec::new();
        put_file_type(&mut head, descriptions.len() + 1);
        let movie_at = head.len();
        put_movie(&mut head, &movie, begun.wall_clock);
        let media_at = head.len() as u64 + MEDIA_HEAD_BYTES;
        shift_chunks(&mut head[movie_at..], media_at);
        head.put_u32(1);
        head.put_slice(b"mdat");
        head.put_u64(self.media_bytes + MEDIA_HEAD_BYTES);
        Ok(Span {
            head: head.into(),
            slices: self.slices,
            wall_clock: begun.wall_clock,
            duration: Duration::from_nanos(u64::try_from(duration).unwrap_or(u64::MAX)),
            gaps: begun.clock.into_gaps(),
        })
    }

    /// Finds where a span begins in its first file, whose fragments from the keyframe before it are
    /// `entries`.
    fn begin<S: ReadAt>(
        &self,
        file: &RecordedFile<S>,
        entries: &[FragmentEntry],
    ) -> Result<Option<Begun>, SpanError> {
        let Some(first) = entries.first() else {
            return Ok(None);
        };
        let clock = OutClock::new(first);
        let from = clock.out_of_wall(self.range.start);
        let mut found: Option<Presented> = None;
        for entry in entries {
            let is_behind = clock.time_of(entry) > from;
            if is_behind && found.is_some() {
                break;
            }
            let fragment = file.fragment(entry)?;
            let Some(track) = ruling(&fragment, file.header()) else {
                continue;
            };
            let rate = file.header().tracks()[track.track.position].timescale();
            let syncs = track.samples().filter(|it| it.sample.sync);
            for sync in syncs.map(|it| Presented::new(&it, rate)) {
                if found.is_none() || sync.shown <= from {
                    found = Some(sync);
                }
            }
        }
        Ok(found.map(|keyframe| {
            let start = match self.cut {
                SpanCut::Keyframe => keyframe.shown,
                SpanCut::Exact => keyframe.shown.max(from),
            };
            Begun {
                keyframe: keyframe.decoded,
                start,
                wall_clock: clock.wall_of_out(start),
                clock,
            }
        }))
    }

    /// Returns for each track of a file its position in the span: the tracks of a codec go on in their
    /// order. Players take one codec from a track, and leave out the samples of another one.
    fn places(&mut self, header: &Header) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for track in header.tracks() {
            let is_free = |place: &usize| !places.contains(place);
            let alike =
                |place: &usize| self.tracks[*place].track.entry_kind() == track.entry_kind();
            let known = (0..self.tracks.len()).filter(is_free).find(alike);
            let place = known.unwrap_or(self.tracks.len());
            match self.tracks.get_mut(place) {
                Some(known) => known.enter(track),
                None => self.tracks.push(OutTrack::new(track)),
            }
            places.push(place);
        }
        places
    }

    /// Includes the samples of a fragment that belong to the span. Of a fragment that `takes_over` from another
    /// recorder, that leaves out the audio that the other one has, which ends behind its video.
    fn include(
        &mut self,
        file: &Adding<'_>,
        fragment: &RecordedFragment,
        takes_over: bool,
    ) -> Result<(), SpanError> {
        let Some(begun) = &self.begun else {
            return Ok(());
        };
        let end = begun.clock.time_of_wall(self.range.end);
        for track in &fragment.tracks {
            let description = &file.header.tracks()[track.track.position];
            let rate = description.timescale();
            let is_video = description.kind() == Kind::Video;
            let out = &self.tracks[file.places[track.track.position]];
            let shown = out.end().filter(|_| takes_over && !is_video);
            let belongs = |sample: &RecordedSample| {
                let times = Presented::new(sample, rate);
                let is_new = |shown: i128| times.decoded + begun.clock.offset() + ROUNDING >= shown;
                let has_begun = match file.is_first {
                    true if is_video => times.decoded >= begun.keyframe,
                    true => times.ends > begun.start,
                    false => shown.is_none_or(is_new),
                };
                has_begun && times.decoded < end
            };
            let included: Vec<_> = track.samples().filter(belongs).collect();
            let Some(first) = included.first() else {
                continue;
            };
            self.samples += included.len() as u64;
            if self.samples > SAMPLES_MAX {
                return Err(SpanError::TooLong {
                    samples: SAMPLES_MAX,
                });
            }
            let out = &mut self.tracks[file.places[track.track.position]];
            out.begin_chunk(self.media_bytes, included.len());
            for sample in &included {
                out.push(&OutSample {
                    sample: sample.sample,
                    decode_ticks: sample.decode_ticks,
                    rate,
                    offset: begun.clock.offset(),
                });
            }
            let bytes = included.iter().map(|it| u64::from(it.sample.size)).sum();
            self.media_bytes += bytes;
            push_slice(
                &mut self.slices,
                Slice {
                    file: file.number,
                    offset: first.offset,
                    bytes,
                },
            );
        }
        Ok(())
    }
}

/// Adds a slice, or makes the last one longer.
fn push_slice(slices: &mut Vec<Slice>, slice: Slice) {
    match slices.last_mut() {
        Some(last) if last.file == slice.file && last.offset + last.bytes == slice.offset => {
            last.bytes += slice.bytes;
        }
        _ => slices.push(slice),
    }
}

/// Returns the track whose keyframes spans begin at.
fn ruling<'a>(fragment: &'a RecordedFragment, header: &Header) -> Option<&'a RecordedTrack> {
    let is_video = |it: &&RecordedTrack| header.tracks()[it.track.position].kind() == Kind::Video;
    let has_video = header.tracks().iter().any(|it| it.kind() == Kind::Video);
    match has_video {
        true => fragment.tracks.iter().find(is_video),
        false => fragment.tracks.first(),
    }
}

/// Times of a sample in nanoseconds since the origin of its run.
#[derive(Clone, Copy, Debug)]
struct Presented {
    decoded: i128,
    shown: i128,
    ends: i128,
}

impl Presented {
    fn new(sample: &RecordedSample, rate: u32) -> Self {
        let time = |ticks: u64| i128::from(ticks) * 1_000_000_000 / i128::from(rate);
        let shown = sample.presentation_ticks();
        Self {
            decoded: time(sample.decode_ticks),
            shown: time(shown),
            ends: time(shown + u64::from(sample.sample.duration)),
        }
    }
}
