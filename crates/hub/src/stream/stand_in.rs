//! The media that is published in place of a source that is away.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Kind, MediaUnit, Track, TrackIndex};

use super::{Begin, Inner, Stream};
use crate::error::PublishError;
use crate::publisher::Publisher;

/// The latest keyframe of a source that ended or hangs.
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
    /// Begins to publish `tracks` in place of a source that is away, or that has sent nothing for
    /// `silence`, continuing the stream's timeline. `what` says what is published, for the API. The
    /// state of the stream stays that of its source. A source takes over with
    /// [`publish`](Self::publish), and one that hung by its next keyframe.
    ///
    /// # Errors
    /// [`PublishError::Busy`] while a source publishes, [`PublishError::NoTracks`] without tracks.
    pub fn stand_in(
        self: &Arc<Self>,
        tracks: Vec<Track>,
        what: String,
        silence: Duration,
        now: Instant,
    ) -> Result<Publisher, PublishError> {
        let begin = Begin::StandIn { what, silence };
        let number = self.begin_publishing(tracks, begin, now)?;
        Ok(Publisher::of(self, number))
    }

    /// Returns the name of the media that is published in place of the source; `None` without any.
    pub fn standing_in(&self) -> Option<Arc<str>> {
        self.inner
            .lock()
            .stand_in
            .as_ref()
            .map(|it| Arc::clone(&it.what))
    }

    /// Returns when something began to be published in place of the source; `None` while nothing is. All
    /// units from then on are of that, until the source goes on.
    pub fn stands_in_since(&self) -> Option<Instant> {
        self.inner.lock().stand_in.as_ref().map(|it| it.since)
    }

    /// Returns whether no units of a source are published, whatever is published in their place.
    pub fn is_source_away(&self) -> bool {
        let inner = self.inner.lock();
        inner.source.is_none() || inner.stand_in.is_some()
    }

    /// Returns whether units are published, by a source or in its place.
    pub fn is_published(&self) -> bool {
        self.inner.lock().is_published()
    }

    /// Returns the latest keyframe of the present source, or of the one that ended last; `None` if it
    /// had no video.
    pub fn parting_keyframe(&self) -> Option<PartingKeyframe> {
        let inner = self.inner.lock();
        match (&inner.source, &inner.stand_in) {
            (Some(_), None) => inner.parting_keyframe(),
            _ => inner.parting.clone(),
        }
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

    const SILENCE: Duration = Duration::from_secs(8);

    fn stand_in(stream: &Arc<Stream>, tracks: Vec<Track>, at: Instant) -> Publisher {
        let begun = stream.stand_in(tracks, "placeholder".to_owned(), SILENCE, at);
        begun.expect("the source is away, or hangs")
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
        let busy = stream.stand_in(tracks(), what(), SILENCE, start);
        assert!(matches!(busy, Err(PublishError::Busy { .. })), "{busy:?}");
        source.finish(down());
        assert!(stream.is_source_away() && !stream.is_published());

        let mut stand_in = stand_in(&stream, tracks(), start);
        assert!(stream.is_source_away() && stream.is_published());
        assert_eq!(stream.standing_in().as_deref(), Some("placeholder"));
        assert_eq!(stream.state(), down(), "the source's own");
        let pushed = stand_in.push(unit(1, true, start), start);
        pushed.expect("in place of the source");
        let other = stream.stand_in(tracks(), "fallback".to_owned(), SILENCE, start);
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
        let present = stream.parting_keyframe().expect("it has video");
        assert_eq!(present.unit.index, 1);
        source.finish(State::Idle);
        let parting = stream.parting_keyframe().expect("it had video");
        assert_eq!((parting.track, parting.unit.index), (TrackIndex(1), 1));
        assert_eq!(parting.ended, at(80));
        assert!(stream.since_keyframe(TrackIndex(1)).is_empty(), "idle");
        // What stands in is no source.
        drop(stand_in(&stream, tracks(), start));
        assert!(stream.parting_keyframe().is_some());
        drop(stream.publish(tracks(), start).expect("back"));
        assert!(stream.parting_keyframe().is_none(), "without video");
    }

    #[test]
    fn a_source_that_hangs_goes_on_with_its_next_keyframe() {
        let (stream, start) = (stream(), Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        let mut source = stream.publish(tracks(), start).expect("free");
        let first = source.push(unit(1, true, at(10)), at(10));
        assert!(first.expect("announced").is_some());
        let early = stream.stand_in(tracks(), String::new(), SILENCE, at(8009));
        assert!(matches!(early, Err(PublishError::Busy { .. })), "{early:?}");
        let (layout, state) = (stream.layout(), stream.state());
        let mut shown = stand_in(&stream, tracks(), at(8010));
        assert!(stream.is_source_away() && stream.is_published());
        assert_eq!((stream.state(), stream.layout()), (state, layout));
        let parting = stream.parting_keyframe().expect("it had video");
        assert_eq!((parting.unit.index, parting.ended), (0, at(10)));
        let pushed = shown.push(unit(1, true, at(8010)), at(8010));
        assert!(pushed.expect("in place of the source").is_some());
        assert_eq!(stream.silent_for(at(9010)), Some(Duration::from_secs(9)));
        let busy = stream.publish(tracks(), at(9010));
        assert!(busy.is_err(), "the source still holds the stream");

        // Without a keyframe, nobody could see anything of it.
        stream.request_keyframe();
        assert!(!source.keyframe_wanted(), "that is for what stands in");
        for (track, keyframe, ms) in [(1, false, 9500), (0, true, 9510)] {
            let dropped = source.push(unit(track, keyframe, at(ms)), at(ms));
            assert_eq!(dropped.expect("announced").map(|it| it.index), None);
        }
        assert_eq!(stream.silent_for(at(9520)), Some(Duration::from_millis(10)));
        assert!(source.keyframe_wanted(), "so that it can go on");
        assert!(!source.keyframe_wanted() && shown.keyframe_wanted());
        let dropped = source.push(unit(1, false, at(10_500)), at(10_500));
        assert!(dropped.expect("announced").is_none());
        assert!(source.keyframe_wanted(), "again, a second later");
        let goes_on = source.push(unit(1, true, at(10_600)), at(10_600));
        let goes_on = goes_on.expect("announced").expect("published");
        assert_eq!(goes_on.index, 2, "the numbers go on");
        assert!(!stream.is_source_away());
        assert_eq!((stream.standing_in(), stream.layout()), (None, layout));
        let refused = shown.push(unit(1, true, at(10_610)), at(10_610));
        assert!(matches!(refused, Err(PublishError::Replaced { .. })));
        drop(shown);
        let next = source.push(unit(1, false, at(10_640)), at(10_640));
        assert!(next.expect("announced").is_some());
        assert_eq!(stream.totals().sources, 1, "it is the same source");
    }

    #[test]
    fn a_source_without_video_goes_on_with_any_unit() {
        let (stream, start) = (stream(), Instant::now());
        let audio = || vec![Track::audio(Codec::Opus, 2)];
        let mut source = stream.publish(audio(), start).expect("free");
        let shown = stand_in(&stream, audio(), start + SILENCE);
        let goes_on = source.push(unit(0, false, start), start + SILENCE);
        assert!(goes_on.expect("announced").is_some());
        assert_eq!(stream.standing_in(), None);
        drop(shown);
    }

    #[test]
    fn a_source_that_hangs_has_its_tracks_back_when_nothing_stands_in_any_more() {
        let (stream, start) = (stream(), Instant::now());
        let mut source = stream.publish(tracks(), start).expect("free");
        let pushed = source.push(unit(1, true, start), start);
        pushed.expect("announced");
        let other = vec![Track::new(Codec::Jpeg)];
        let mut shown = stand_in(&stream, other, start + SILENCE);
        let pushed = shown.push(unit(0, true, start), start + SILENCE);
        pushed.expect("announced");
        let described = source.describe(&tracks());
        described.expect("they are its own, whatever is shown");
        assert_eq!(stream.tracks()[0].codec, Codec::Jpeg);
        drop(shown);
        assert_eq!(stream.tracks()[0].codec, Codec::Opus);
        assert!(!stream.is_source_away());
        assert!(stream.since_keyframe(TrackIndex(1)).is_empty());
        let pushed = source.push(unit(1, false, start), start + SILENCE * 2);
        assert!(pushed.expect("announced").is_some());
        // The source ends while something stands in for it: that goes on.
        let shown = stand_in(&stream, tracks(), start + SILENCE * 3);
        source.finish(down());
        assert_eq!(stream.state(), down());
        assert!(stream.is_published() && stream.standing_in().is_some());
        drop(shown);
        assert!(!stream.is_published());
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
