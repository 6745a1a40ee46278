//! What is published in place of a source that is away.

use std::sync::Arc;
use std::time::Instant;

use glassline_media::{Kind, MediaUnit, Track, TrackIndex};

use super::{Begin, Inner, Stream};
use crate::error::PublishError;
use crate::publisher::Publisher;

/// The latest keyframe of a source that ended.
#[derive(Clone, Debug)]
pub struct PartingKeyframe {
    /// Index of the first video track, which the keyframe is of.
    pub track: TrackIndex,
    /// The keyframe as it was published.
    pub unit: Arc<MediaUnit>,
    /// The tracks of the source.
    pub tracks: Arc<[Track]>,
    /// When the latest frame of the track was published.
    pub ended: Instant,
}

impl Inner {
    /// Returns the newest keyframe of the first video track, if the ring still has it.
    pub(super) fn parting_keyframe(&self) -> Option<PartingKeyframe> {
        let video = self.tracks.iter().position(|it| it.kind() == Kind::Video);
        let track = TrackIndex(video?);
        let ring = self.ring(track.into())?;
        let ended = ring.latest_published()?;
        let mut units = Vec::new();
        ring.since_keyframe(&mut units);
        let unit = units.into_iter().next()?;
        Some(PartingKeyframe {
            track,
            unit,
            tracks: Arc::clone(&self.tracks),
            ended,
        })
    }
}

impl Stream {
    /// Begins to publish `tracks` in place of a source that is away, continuing the stream's
    /// timeline. `what` says what is published, for the API. The state of the stream stays that of
    /// its source, and a source takes over with [`publish`](Self::publish).
    ///
    /// # Errors
    /// [`PublishError::Busy`] while a source publishes, [`PublishError::NoTracks`] without tracks.
    pub fn stand_in(
        self: &Arc<Self>,
        tracks: Vec<Track>,
        what: String,
        now: Instant,
    ) -> Result<Publisher, PublishError> {
        let generation = self.begin_publishing(tracks, Begin::StandIn(what), now)?;
        Ok(Publisher::of(self, generation))
    }

    /// Returns what is published in place of the source; `None` if nothing is.
    pub fn standing_in(&self) -> Option<Arc<str>> {
        self.lock().stand_in.clone()
    }

    /// Returns whether no source publishes, whatever is published in its place.
    pub fn is_source_away(&self) -> bool {
        let inner = self.lock();
        !inner.publishing || inner.stand_in.is_some()
    }

    /// Returns whether units are published, by a source or in its place.
    pub fn is_published(&self) -> bool {
        self.lock().publishing
    }

    /// Returns the latest keyframe of the source that ended last; `None` while a source publishes,
    /// or if it had no video.
    pub fn parting_keyframe(&self) -> Option<PartingKeyframe> {
        self.lock().parting.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use glassline_media::{Codec, MediaTime, Stamps, UnitBuilder};

    use super::*;
    use crate::{Limits, PublishError, State, StreamName};

    fn stream() -> Arc<Stream> {
        let name = StreamName::parse("cam").expect("good");
        Stream::unlisted(name, Limits::default())
    }

    fn tracks() -> Vec<Track> {
        vec![Track::audio(Codec::Opus, 2), Track::new(Codec::Vp8)]
    }

    fn unit(track: usize, keyframe: bool, at: Instant) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        builder.push(b"payload");
        let stamps = Stamps::arrived(at);
        let unit = builder.build(TrackIndex(track), MediaTime::ZERO, keyframe, stamps);
        unit.expect("has a packet")
    }

    fn down() -> State {
        State::Down {
            detail: "no route".to_owned(),
        }
    }

    #[test]
    fn a_source_takes_over_from_what_stands_in_and_not_the_other_way() {
        let (stream, start) = (stream(), Instant::now());
        let what = || "placeholder".to_owned();
        let source = stream.publish(tracks(), start).expect("free");
        assert!(!stream.is_source_away());
        let busy = stream.stand_in(tracks(), what(), start);
        assert!(matches!(busy, Err(PublishError::Busy { .. })), "{busy:?}");
        source.finish(down());
        assert!(stream.is_source_away() && !stream.is_published());

        let mut stand_in = stream.stand_in(tracks(), what(), start).expect("away");
        assert!(stream.is_source_away() && stream.is_published());
        assert_eq!(stream.standing_in().as_deref(), Some("placeholder"));
        assert_eq!(stream.state(), down(), "the source's own");
        let pushed = stand_in.push(unit(1, true, start), start);
        pushed.expect("in place of the source");
        let other = stream.stand_in(tracks(), "fallback".to_owned(), start);
        let other = other.expect("one takes over from another");
        assert!(stand_in.push(unit(1, true, start), start).is_err());
        drop(stand_in);
        assert_eq!(stream.standing_in().as_deref(), Some("fallback"));

        let layout = stream.layout();
        let source = stream.publish(tracks(), start).expect("it is back");
        assert_eq!(stream.standing_in(), None);
        assert_eq!(stream.state(), State::Live { since: start });
        drop(other);
        assert_eq!(stream.state(), State::Live { since: start });
        assert_eq!((stream.totals().sources, stream.layout()), (2, layout));
        drop(source);
    }

    #[test]
    fn the_latest_keyframe_stays_known_while_the_source_is_away() {
        let (stream, start) = (stream(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut source = stream.publish(tracks(), start).expect("free");
        for (track, keyframe, ms) in [(1, true, 0), (1, true, 40), (1, false, 80), (0, true, 90)] {
            let pushed = source.push(unit(track, keyframe, at(ms)), at(ms));
            pushed.expect("announced");
        }
        assert!(stream.parting_keyframe().is_none(), "it is there");
        source.finish(State::Idle);
        let parting = stream.parting_keyframe().expect("it had video");
        assert_eq!((parting.track, parting.unit.index), (TrackIndex(1), 1));
        assert_eq!(parting.ended, at(80));
        assert!(stream.since_keyframe(TrackIndex(1)).is_empty(), "idle");
        // What stands in is no source.
        let stand_in = stream.stand_in(tracks(), String::new(), start);
        drop(stand_in.expect("away"));
        assert!(stream.parting_keyframe().is_some());
        drop(stream.publish(tracks(), start).expect("back"));
        assert!(stream.parting_keyframe().is_none(), "without video");
    }

    #[test]
    fn failures_are_counted_and_told() {
        let stream = stream();
        assert_eq!(stream.failures(), 0);
        stream.set_state(State::Idle);
        stream.set_state(down());
        let source = stream.publish(tracks(), Instant::now()).expect("free");
        source.finish(down());
        assert_eq!(stream.failures(), 2);
    }
}
