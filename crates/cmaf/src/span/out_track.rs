use std::ops::Range;

use bytes::Bytes;

use crate::Sample;
use crate::boxes::{BoxKind, BoxView, HEAD_BYTES};
use crate::file::{Instant, Tables};
use crate::movie::{Edit, MOVIE_TIMESCALE, MovieTrack};
use crate::track::CmafTrack;

/// One track of a span.
#[derive(Debug)]
pub(super) struct OutTrack {
    /// Description of the track in the first file that has it.
    pub(super) track: CmafTrack,
    entries: Vec<Bytes>,
    /// Number of the sample entry of the current file, from one.
    entry: u32,
    tables: Tables,
    /// Newest sample, whose duration the next one tells, and the tick at which it is decoded.
    pending: Option<(Sample, i64)>,
    /// Ticks at which the first sample is decoded, and the earliest one is presented.
    first: Option<First>,
}

#[derive(Clone, Copy, Debug)]
struct First {
    decoded: i64,
    shown: i64,
}

/// A sample with its time in its file.
pub(super) struct OutSample {
    pub(super) sample: Sample,
    pub(super) decode_ticks: u64,
    /// Ticks of a second in the file.
    pub(super) rate: u32,
    /// Time of the span less that of the file in nanoseconds.
    pub(super) offset: i128,
}

impl OutTrack {
    pub(super) fn new(track: &CmafTrack) -> Self {
        Self {
            track: track.clone(),
            entries: vec![track.entry.clone()],
            entry: 1,
            tables: Tables::default(),
            pending: None,
            first: None,
        }
    }

    /// Goes on with the samples of `track` of another file.
    pub(super) fn enter(&mut self, track: &CmafTrack) {
        let known = self.entries.iter().position(|it| *it == track.entry);
        let place = known.unwrap_or_else(|| {
            self.entries.push(track.entry.clone());
            self.entries.len() - 1
        });
        self.entry = place as u32 + 1;
    }

    pub(super) fn has_samples(&self) -> bool {
        self.first.is_some()
    }

    /// Returns the time of the span in nanoseconds at which the newest sample ends.
    pub(super) fn end(&self) -> Option<i128> {
        let (sample, decoded) = self.pending.as_ref()?;
        let ticks = i128::from(*decoded) + i128::from(sample.duration);
        Some(ticks * 1_000_000_000 / i128::from(self.track.timescale()))
    }

    /// Begins samples that stand back to back at `offset` of the media.
    pub(super) fn begin_chunk(&mut self, offset: u64, samples: usize) {
        self.tables.chunk(offset, samples as u32, self.entry);
    }

    /// Adds a sample of the chunk.
    pub(super) fn push(&mut self, out: &OutSample) {
        let rate = self.track.timescale();
        let offset = ticks_of(out.offset, rate);
        let scaled = Instant::new(out.decode_ticks, out.rate).ticks(rate);
        let mut decoded = scaled.cast_signed().saturating_add(offset);
        let mut sample = out.sample;
        if out.rate != rate {
            let scale = |value: i128| value * i128::from(rate) / i128::from(out.rate);
            sample.composition = i32::try_from(scale(sample.composition.into())).unwrap_or(0);
            sample.duration = u32::try_from(scale(sample.duration.into())).unwrap_or(u32::MAX);
        }
        if let Some((before, at)) = self.pending.take() {
            decoded = decoded.max(at.saturating_add(1));
            let duration = u32::try_from(decoded.saturating_sub(at)).unwrap_or(u32::MAX);
            self.tables.push(&before, duration);
        }
        let shown = decoded.saturating_add(sample.composition.into());
        let first = self.first.get_or_insert(First { decoded, shown });
        first.shown = first.shown.min(shown);
        self.pending = Some((sample, decoded));
    }

    /// Returns the track of a movie that is presented from `start` on, and up to `end` if there is
    /// one; both are nanoseconds of the span.
    pub(super) fn finish(mut self, start: i128, end: Option<i128>) -> MovieTrack {
        if let Some((last, _)) = self.pending.take() {
            self.tables.push(&last, last.duration.max(1));
        }
        let rate = self.track.timescale();
        let first = self.first.unwrap_or(First {
            decoded: 0,
            shown: 0,
        });
        let start = ticks_of(start, rate);
        // Ticks since the first sample is decoded, at which the presentation begins and ends.
        let skipped = start.max(first.shown).saturating_sub(first.decoded);
        let skipped = u64::try_from(skipped).unwrap_or(0);
        let mut presented_end = self.tables.presented_end();
        if let Some(end) = end {
            let end = ticks_of(end, rate).saturating_sub(first.decoded);
            presented_end = presented_end.min(u64::try_from(end).unwrap_or(0));
        }
        let movie = |ticks: u64| Instant::new(ticks, rate).ticks(MOVIE_TIMESCALE);
        let pause = movie(u64::try_from(first.shown.saturating_sub(start)).unwrap_or(0));
        let pause = (pause > 0).then_some(Edit {
            duration: pause,
            media_time: None,
        });
        let shown = Edit {
            duration: movie(presented_end.saturating_sub(skipped)),
            media_time: Some(skipped),
        };
        MovieTrack {
            entries: self.entries,
            duration: self.tables.decoded_end(),
            edits: pause.into_iter().chain([shown]).collect(),
            tables: Some(self.tables.boxes()),
        }
    }
}

/// Returns the nearest tick of `rate` Hz to a time in nanoseconds.
fn ticks_of(nanos: i128, rate: u32) -> i64 {
    let ticks = (nanos * i128::from(rate) + 500_000_000).div_euclid(1_000_000_000);
    i64::try_from(ticks).unwrap_or(0)
}

/// Moves the offsets of all chunks of a `moov` box behind the head of the file, whose length is known
/// only when the box is.
pub(super) fn shift_chunks(movie: &mut [u8], by: u64) {
    let whole = 0..movie.len();
    let movies = bodies(movie, whole, b"moov");
    let within =
        |kind: &'static BoxKind| move |bytes: &[u8], at: Range<usize>| bodies(bytes, at, kind);
    let path = [b"trak", b"mdia", b"minf", b"stbl", b"co64"].map(within);
    let lists = path.iter().fold(movies, |found, step| {
        let deeper = found.into_iter().flat_map(|at| step(movie, at));
        deeper.collect()
    });
    for list in lists {
        // Version, flags and the number of entries precede them.
        let (offsets, _) = movie[list][8..].as_chunks_mut::<8>();
        for offset in offsets {
            *offset = (u64::from_be_bytes(*offset) + by).to_be_bytes();
        }
    }
}

/// Returns where the bodies of the boxes named `kind` stand in `within` of `bytes`.
fn bodies(bytes: &[u8], within: Range<usize>, kind: &BoxKind) -> Vec<Range<usize>> {
    let mut end = within.start;
    let all = BoxView::all(&bytes[within]).filter_map(|found| {
        let start = end + HEAD_BYTES;
        end += found.whole.len();
        (found.kind == *kind).then_some(start..end)
    });
    all.collect()
}
