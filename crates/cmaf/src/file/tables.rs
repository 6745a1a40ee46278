//! Sample tables (ISO/IEC 14496-12 §8.6, §8.7) and edits of a finished file.

use bytes::BufMut as _;

use super::log::{Chunk, TrackLog};
use crate::boxes::{BoxKind, put_full_box};
use crate::movie::{Edit, MOVIE_TIMESCALE, MovieTrack};
use crate::track::CmafTrack;

/// A time in ticks of any rate, ordered by time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instant {
    ticks: u64,
    rate: u32,
}

impl Instant {
    pub(crate) fn new(ticks: u64, rate: u32) -> Self {
        Self {
            ticks,
            rate: rate.max(1),
        }
    }

    /// Returns the nearest tick of another rate.
    pub(crate) fn ticks(self, rate: u32) -> u64 {
        let (from, to) = (u128::from(self.rate), u128::from(rate));
        let ticks = (u128::from(self.ticks) * to + from / 2) / from;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

impl PartialEq for Instant {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Instant {}

impl PartialOrd for Instant {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Instant {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        let scaled = |it: &Self, by: u32| u128::from(it.ticks) * u128::from(by);
        scaled(self, other.rate).cmp(&scaled(other, self.rate))
    }
}

/// Returns the tables of a track whose movie begins at `start`.
pub(super) fn movie_track(log: &TrackLog, track: &CmafTrack, start: Option<Instant>) -> MovieTrack {
    let mut tables = Tables::default();
    let mut samples = log.samples();
    let first = log.chunks.first().map_or(0, |chunk| chunk.decode_ticks);
    for (place, chunk) in log.chunks.iter().enumerate() {
        let next = log.chunks.get(place + 1).map(|next| next.decode_ticks);
        tables.begin_chunk(chunk);
        let mut decode = chunk.decode_ticks;
        for left in (0..chunk.samples).rev() {
            let Some(sample) = samples.next() else {
                break;
            };
            let mut duration = sample.duration;
            // A sample table has no gaps: the sample before one lasts until it ends.
            if let Some(next) = next
                && left == 0
            {
                duration = u32::try_from(next.saturating_sub(decode))
                    .unwrap_or(u32::MAX)
                    .max(1);
            }
            tables.push(&sample, duration);
            decode += u64::from(duration);
        }
    }
    let edits = log.first_presentation().map(|presented| {
        let rate = track.timescale();
        let skipped = presented.saturating_sub(first);
        let movie = |ticks: u64| Instant::new(ticks, rate).ticks(MOVIE_TIMESCALE);
        let start = start.map_or(presented, |start| start.ticks(rate));
        let pause = movie(presented.saturating_sub(start));
        let pause = (pause > 0).then_some(Edit {
            duration: pause,
            media_time: None,
        });
        let whole = Edit {
            duration: movie(tables.presented.saturating_sub(skipped)),
            media_time: Some(skipped),
        };
        pause.into_iter().chain([whole]).collect()
    });
    MovieTrack {
        entries: vec![track.entry.clone()],
        duration: tables.decode,
        edits: edits.unwrap_or_default(),
        tables: Some(tables.boxes()),
    }
}

/// The tables of a track, as far as they are filled.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    durations: Runs,
    compositions: Runs,
    sizes: Vec<u8>,
    count: u32,
    syncs: Vec<u8>,
    offsets: Vec<u8>,
    /// Entries of `stsc`, and the number of samples in the last one.
    per_chunk: Vec<u8>,
    last_per_chunk: Option<(u32, u32)>,
    /// Decode time of the next sample in ticks since the first one.
    decode: u64,
    /// End of the presentation in ticks since the first sample is decoded.
    presented: u64,
}

impl Tables {
    fn begin_chunk(&mut self, chunk: &Chunk) {
        self.chunk(chunk.offset, chunk.samples, 1);
    }

    /// Begins a chunk of samples that stand back to back from `offset` on, with the number of their
    /// sample entry.
    pub(crate) fn chunk(&mut self, offset: u64, samples: u32, entry: u32) {
        self.offsets.put_u64(offset);
        if self.last_per_chunk != Some((samples, entry)) {
            self.last_per_chunk = Some((samples, entry));
            self.per_chunk.put_u32((self.offsets.len() / 8) as u32);
            self.per_chunk.put_u32(samples);
            self.per_chunk.put_u32(entry);
        }
    }

    /// Adds a sample that is decoded for `duration` ticks.
    pub(crate) fn push(&mut self, sample: &crate::Sample, duration: u32) {
        self.count += 1;
        self.durations.push(duration);
        self.compositions.push(sample.composition.cast_unsigned());
        self.sizes.put_u32(sample.size);
        if sample.sync {
            self.syncs.put_u32(self.count);
        }
        let shown = self.decode.saturating_add_signed(sample.composition.into());
        self.presented = self.presented.max(shown + u64::from(sample.duration));
        self.decode += u64::from(duration);
    }

    /// Returns the ticks from the decoding of the first sample to the end of the last one.
    pub(crate) fn decoded_end(&self) -> u64 {
        self.decode
    }

    /// Returns the ticks from the decoding of the first sample to the end of the presentation.
    pub(crate) fn presented_end(&self) -> u64 {
        self.presented
    }

    /// Writes the boxes.
    pub(crate) fn boxes(mut self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.sizes.len() * 2);
        self.durations.end();
        self.compositions.end();
        put_list(&mut out, b"stts", 0, &self.durations.entries, 8);
        if self.compositions.entries.len() > 8 || self.compositions.value != 0 {
            let version = u8::from(self.compositions.is_negative);
            put_list(&mut out, b"ctts", version, &self.compositions.entries, 8);
        }
        if self.syncs.len() < self.sizes.len() {
            put_list(&mut out, b"stss", 0, &self.syncs, 4);
        }
        put_list(&mut out, b"stsc", 0, &self.per_chunk, 12);
        put_full_box(&mut out, b"stsz", 0, 0, |out| {
            out.put_u32(0);
            out.put_u32(self.count);
            out.put_slice(&self.sizes);
        });
        put_list(&mut out, b"co64", 0, &self.offsets, 8);
        out
    }
}

fn put_list(out: &mut Vec<u8>, kind: &BoxKind, version: u8, entries: &[u8], bytes_each: usize) {
    put_full_box(out, kind, version, 0, |out| {
        out.put_u32((entries.len() / bytes_each) as u32);
        out.put_slice(entries);
    });
}

/// Values of samples as runs of equal values.
#[derive(Debug, Default)]
struct Runs {
    entries: Vec<u8>,
    value: u32,
    count: u32,
    is_negative: bool,
}

impl Runs {
    fn push(&mut self, value: u32) {
        if self.count > 0 && value != self.value {
            self.end();
        }
        self.value = value;
        self.count += 1;
        self.is_negative |= value.cast_signed() < 0;
    }

    fn end(&mut self) {
        if self.count > 0 {
            self.entries.put_u32(self.count);
            self.entries.put_u32(self.value);
            self.count = 0;
        }
    }
}
