//! Parts that all containers share: an index of 24 bytes per unit, built in one pass through
//! the file, and the reader that fetches units by it.
//!
//! ```text
//! matroska ─┐                             ┌─ IndexedTrack: Track, Coding, [Entry] ─┐
//! mp4, flv ─┤                             │                                        │
//! avi      ─┼─ Sample ─► IndexedTrackBuilder                                       ├─ Container (Reader)
//! ogg      ─┘                             └─ IndexedTrack …                        ┘
//! ```

pub(crate) mod avi;
pub(crate) mod coding;
pub(crate) mod describe;
pub(crate) mod flv;
pub(crate) mod growing;
pub(crate) mod indexed_track;
pub(crate) mod ivf;
pub(crate) mod matroska;
pub(crate) mod mp4;
pub(crate) mod nals;
pub(crate) mod ogg;
pub(crate) mod pcm;
pub(crate) mod transport;
pub(crate) mod wav;

use std::sync::Arc;

use bytes::Bytes;
use glassline_media::{Kind, Track, TrackIndex};

use crate::error::{Fault, Reason};
use crate::length::Length;
use crate::reader::{Reader, Unit};
use crate::window::read_unit;
use crate::{Data, FrameRate};
use indexed_track::{Entry, IndexedTrack};

/// Reads the bytes of an indexed unit.
pub(crate) trait Fetch: Send {
    /// Reads the bytes of `entry` as they are in the file; [`Coding`](coding::Coding) converts
    /// them to a unit.
    fn fetch(&mut self, entry: &Entry) -> Result<Vec<u8>, Fault>;

    /// Returns another reader of the same file.
    fn fork(&self) -> Box<dyn Fetch>;
}

/// Units whose bytes are contiguous in the file.
pub(crate) struct InOnePiece(pub(crate) Box<dyn Data>);

impl Fetch for InOnePiece {
    fn fetch(&mut self, entry: &Entry) -> Result<Vec<u8>, Fault> {
        read_unit(self.0.as_mut(), entry.offset, entry.length())
    }

    fn fork(&self) -> Box<dyn Fetch> {
        Box::new(Self(self.0.fork()))
    }
}

/// A reader of a file with several tracks, in decoding order.
pub(crate) struct Container {
    fetch: Box<dyn Fetch>,
    index: Arc<Index>,
    /// Position of the next unit of each track.
    next: Vec<usize>,
}

struct Index {
    indexed_tracks: Vec<IndexedTrack>,
    tracks: Vec<Track>,
    length_ns: i64,
    rate: Option<FrameRate>,
}

/// A track, and how much of its start only primes a decoder, in ns.
pub(crate) struct Primed {
    pub(crate) indexed: IndexedTrack,
    pub(crate) priming_ns: i64,
}

impl Container {
    /// Combines tracks to a file, video first.
    pub(crate) fn new(fetch: Box<dyn Fetch>, indexed_tracks: Vec<Primed>) -> Result<Self, Fault> {
        let zero = time_zero(&indexed_tracks);
        let Some(zero) = zero else {
            let reason = Reason::NothingToPlay("it has no video and no audio".to_owned());
            return Err(Fault::whole(reason));
        };
        let mut indexed_tracks: Vec<IndexedTrack> = indexed_tracks
            .into_iter()
            .map(|primed| primed.indexed)
            .collect();
        indexed_tracks.sort_by_key(|indexed| match indexed.track.kind() {
            Kind::Video => 0,
            Kind::Audio => 1,
            Kind::Text => 2,
        });
        for indexed in &mut indexed_tracks {
            indexed.shift(zero);
            indexed.drop_priming();
        }
        indexed_tracks.retain(|indexed| !indexed.entries.is_empty());
        let Some(first) = indexed_tracks.first() else {
            let reason = Reason::NothingToPlay("all of it lies before its start".to_owned());
            return Err(Fault::whole(reason));
        };
        let index = Index {
            length_ns: first.length_ns().max(1),
            rate: first
                .frame_rate
                .filter(|_| first.track.kind() == Kind::Video),
            tracks: indexed_tracks
                .iter()
                .map(|indexed| indexed.track.clone())
                .collect(),
            indexed_tracks,
        };
        Ok(Self {
            fetch,
            next: vec![0; index.indexed_tracks.len()],
            index: Arc::new(index),
        })
    }

    /// Returns the video track, if there is one.
    fn video(&self) -> Option<&IndexedTrack> {
        let first = self.index.indexed_tracks.first()?;
        (first.track.kind() == Kind::Video).then_some(first)
    }
}

/// Audio that begins earlier than the video by no more than this, in ns, is cut, so that video
/// has no gap where a loop begins anew.
const AHEAD_NS_MAX: i64 = 100_000_000;

/// Returns the presentation time at which the first of video and audio begins; `None` without
/// any track.
fn time_zero(indexed_tracks: &[Primed]) -> Option<i64> {
    let begins = |kind| {
        let indexed_tracks = indexed_tracks
            .iter()
            .filter(move |it| it.indexed.track.kind() == kind);
        let starts = indexed_tracks.map(|it| it.indexed.first_ns().saturating_add(it.priming_ns));
        starts.min()
    };
    match (begins(Kind::Video), begins(Kind::Audio)) {
        (Some(video), Some(audio)) if audio < video - AHEAD_NS_MAX => Some(audio),
        (Some(video), _) => Some(video),
        (None, audio) => audio.or_else(|| begins(Kind::Text)),
    }
}

impl Reader for Container {
    fn tracks(&self) -> &[Track] {
        &self.index.tracks
    }

    fn length(&self) -> Length {
        Length::from_nanos(self.index.length_ns)
    }

    fn frame_rate(&self) -> Option<FrameRate> {
        self.index.rate
    }

    fn next_unit(&mut self) -> Result<Option<Unit>, Fault> {
        let waiting = TrackIndex::enumerate(self.index.indexed_tracks.iter().zip(&self.next));
        let waiting = waiting.filter_map(|(track, (indexed, &place))| {
            let entry = indexed.entries.get(place)?;
            Some((indexed.decode_ns(entry), track, place, *entry))
        });
        let first = waiting.min_by_key(|(decode_ns, track, ..)| (*decode_ns, *track));
        let Some((decode_ns, track, place, entry)) = first else {
            return Ok(None);
        };
        let indexed = &self.index.indexed_tracks[track];
        let bytes = self.fetch.fetch(&entry)?;
        let data: Bytes = indexed.codings.of(place).unit(bytes, entry.bare());
        let (end_ns, busy_ns) = indexed.ends_ns(place);
        self.next[track] += 1;
        Ok(Some(Unit {
            track,
            start_ns: entry.start_ns,
            end_ns,
            busy_ns,
            decode_ns,
            keyframe: entry.keyframe() || indexed.track.kind() != Kind::Video,
            data,
        }))
    }

    fn seek(&mut self, to_ns: i64) -> Result<(), Fault> {
        if to_ns <= 0 {
            self.next.fill(0);
            return Ok(());
        }
        let keyframe = self
            .video()
            .map(|indexed| indexed.keyframe_at_or_before(to_ns).unwrap_or(0));
        for (indexed, next) in self.index.indexed_tracks.iter().zip(&mut self.next) {
            *next = match (indexed.track.kind(), keyframe) {
                (Kind::Video, Some(place)) => place,
                _ => indexed.presented_at(to_ns),
            };
        }
        Ok(())
    }

    fn keyframe_at_or_before(&self, at_ns: i64) -> Option<i64> {
        let indexed = self.video()?;
        let place = indexed.keyframe_at_or_before(at_ns)?;
        Some(indexed.entries[place].start_ns)
    }

    fn keyframe_after(&self, at_ns: i64) -> Option<i64> {
        let indexed = self.video()?;
        let place = indexed.keyframe_after(at_ns)?;
        Some(indexed.entries[place].start_ns)
    }

    fn fork(&self) -> Box<dyn Reader> {
        Box::new(Self {
            fetch: self.fetch.fork(),
            index: Arc::clone(&self.index),
            next: vec![0; self.next.len()],
        })
    }
}
