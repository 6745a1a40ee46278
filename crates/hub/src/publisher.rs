use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{MediaUnit, Stage, Track, TrackLayer};

use crate::error::PublishError;
use crate::stream::{Begin, SourceNote, State, Stream, WantedKeyframes};

/// The right to publish units into a stream, held by one source at a time.
///
/// Dropping a publisher leaves the stream listed, in [`State::Down`] unless
/// [`finish`](Self::finish) named another state.
#[derive(Debug)]
pub struct Publisher {
    stream: Arc<Stream>,
    /// Number of the publisher among those of the stream, from 1.
    number: u64,
    /// State that the stream shall have afterwards, if the source named one.
    final_state: Option<State>,
}

impl Stream {
    /// Begins publishing `tracks`, continuing the stream's timeline.
    ///
    /// A track that continues must keep its index. A new source may change parameters that
    /// keyframes repeat, such as the resolution, and append or leave out tracks; receivers then
    /// stay. A source with other codecs begins a new [`TrackLayout`](crate::TrackLayout).
    ///
    /// # Errors
    /// [`PublishError::Busy`] while there is another publisher, [`PublishError::NoTracks`]
    /// without tracks.
    pub fn publish(
        self: &Arc<Self>,
        tracks: Vec<Track>,
        now: Instant,
    ) -> Result<Publisher, PublishError> {
        self.begin(tracks, Begin::Source(None), now)
    }

    /// Begins publishing `tracks` as [`publish`](Self::publish) does, for a source that `note` describes.
    ///
    /// # Errors
    /// The errors are those of [`publish`](Self::publish).
    pub fn publish_as(
        self: &Arc<Self>,
        note: SourceNote,
        tracks: Vec<Track>,
        now: Instant,
    ) -> Result<Publisher, PublishError> {
        self.begin(tracks, Begin::Source(Some(note)), now)
    }

    /// Begins publishing `tracks` as [`publish_as`](Self::publish_as) does, in place of the present
    /// publisher, if there is one: its next unit is refused.
    ///
    /// # Errors
    /// [`PublishError::NoTracks`] without tracks.
    pub fn take_over(
        self: &Arc<Self>,
        note: SourceNote,
        tracks: Vec<Track>,
        now: Instant,
    ) -> Result<Publisher, PublishError> {
        self.begin(tracks, Begin::Replace(note), now)
    }

    fn begin(
        self: &Arc<Self>,
        tracks: Vec<Track>,
        begin: Begin,
        now: Instant,
    ) -> Result<Publisher, PublishError> {
        let number = self.begin_publishing(tracks, begin, now)?;
        Ok(Publisher::of(self, number))
    }
}

impl Publisher {
    /// Creates the publisher of `stream` that has this number.
    pub(crate) fn of(stream: &Arc<Stream>, number: u64) -> Self {
        Self {
            stream: Arc::clone(stream),
            number,
            final_state: None,
        }
    }

    /// Returns the stream that is being published.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Publishes one unit at `now` and returns it as subscribers get it. The `time` of `unit`
    /// counts on the source's own clock; its time on the stream, its numbers and its other
    /// stamps are filled in here.
    ///
    /// Returns `None` if something stands in for this source, because it was silent for long, and
    /// the unit is none that a decoder can begin with: the unit is dropped, and the source's next
    /// keyframe, or any unit of a source without video, ends what stands in.
    ///
    /// # Errors
    /// [`PublishError::NoSuchTrack`] or [`PublishError::NoSuchLayer`] if the unit names a track
    /// or a layer that was not announced, [`PublishError::Replaced`] if another publisher took
    /// the stream over.
    pub fn push(
        &mut self,
        unit: MediaUnit,
        now: Instant,
    ) -> Result<Option<Arc<MediaUnit>>, PublishError> {
        self.stream.accept(self.number, unit, now)
    }

    /// Records the delay of a stage before the hub, measured at `now`. The ingest stage is
    /// recorded with every unit and needs no call.
    pub fn record_stage(&self, stage: Stage, delay: Duration, now: Instant) {
        self.stream.record_stage(stage, delay, now);
    }

    /// Replaces the description of the tracks once the source knows more about them. Their
    /// number and codecs must stay.
    ///
    /// # Errors
    /// [`PublishError::TrackChanged`] if a codec differs, [`PublishError::NoSuchTrack`] if the
    /// number of tracks differs.
    pub fn describe(&mut self, tracks: &[Track]) -> Result<(), PublishError> {
        self.stream.describe(self.number, tracks)
    }

    /// Counts frames that the source sent and that were dropped because they were too large.
    pub fn count_oversized(&self, frames: u64) {
        self.stream.count_oversized(self.number, frames);
    }

    /// Returns whether a keyframe of any layer was requested of this publisher since the last call.
    pub fn keyframe_wanted(&self) -> bool {
        !self.wanted_keyframes().is_empty()
    }

    /// Returns the layers of which a keyframe was requested of this publisher since the last call.
    pub fn wanted_keyframes(&self) -> WantedKeyframes {
        self.stream.take_keyframe_requests(self.number)
    }

    /// States which encoding of a track with several [`layers`](Track::layers) is the best that is
    /// alive. Receivers that can move from layer to layer take it from its next keyframe on.
    pub fn prefer(&self, layer: TrackLayer) {
        self.stream.prefer(self.number, layer);
    }

    /// Ends publishing and leaves the stream in `state`.
    pub fn finish(mut self, state: State) {
        self.final_state = Some(state);
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let state = self.final_state.take().unwrap_or_else(|| State::Down {
            detail: "the source stopped".to_owned(),
        });
        self.stream.end_publishing(self.number, state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Hub, Limits, PublishError, StreamLifetime, StreamName, Totals, Wake};
    use glassline_media::{Codec, MediaTime, Stamps, TrackIndex, UnitBuilder, VideoParameters};

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    const MS: Duration = Duration::from_millis(1);

    fn stream() -> Arc<Stream> {
        let name = StreamName::parse("cam").expect("good");
        Hub::default().create(name).expect("room")
    }

    fn tracks() -> Vec<Track> {
        vec![
            Track::audio(Codec::Opus, 2),
            Track::h264(VideoParameters::default()),
        ]
    }

    fn unit(track: usize, payloads: &[&[u8]], at: Instant) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        for payload in payloads {
            builder.push(payload);
        }
        let stamps = Stamps::arrived(at);
        builder
            .build(TrackIndex(track), MediaTime::ZERO, true, stamps)
            .expect("has packets")
    }

    #[test]
    fn one_request_is_answered_by_one_keyframe() {
        let stream = stream();
        let publisher = stream.publish(tracks(), Instant::now()).expect("free");
        assert!(!publisher.keyframe_wanted(), "nobody asked");
        stream.request_keyframe();
        stream.request_keyframe();
        assert!(publisher.keyframe_wanted());
        assert!(!publisher.keyframe_wanted(), "it was told");
        stream.request_keyframe();
        assert!(publisher.keyframe_wanted(), "another asks");
    }

    #[test]
    fn oversized_frames_are_counted_for_the_stream_and_for_its_present_source() {
        let stream = stream();
        let first = stream.publish(tracks(), Instant::now()).expect("free");
        first.count_oversized(2);
        assert_eq!(
            (stream.source_oversized(), stream.totals().oversized),
            (2, 2)
        );
        let second = stream
            .take_over(SourceNote::default(), tracks(), Instant::now())
            .expect("free");
        assert_eq!(
            (stream.source_oversized(), stream.totals().oversized),
            (0, 2)
        );
        first.count_oversized(5);
        second.count_oversized(1);
        assert_eq!(
            (stream.source_oversized(), stream.totals().oversized),
            (1, 3)
        );
    }

    #[test]
    fn units_are_counted_stamped_and_kept() {
        let (stream, start) = (stream(), Instant::now());
        let mut publisher = stream.publish(tracks(), start).expect("free");
        assert!(Arc::ptr_eq(publisher.stream(), &stream));
        assert_eq!(stream.state(), State::Live { since: start });
        assert_eq!(stream.tracks().len(), 2);
        assert_eq!(stream.memory_bytes(), 0);
        let mut bytes = 0;
        for payloads in [&[&b"one"[..], b"two"][..], &[b"three"]] {
            let now = start + 3 * MS;
            let unit = publisher.push(unit(1, payloads, start), now);
            let unit = unit.expect("track 1").expect("nothing stands in");
            assert_eq!(unit.stamps.published, now);
            bytes += unit.memory_bytes();
        }
        assert_eq!(stream.memory_bytes(), bytes);
        let totals = Totals {
            units: 2,
            packets: 3,
            bytes: 11,
            sources: 1,
            oversized: 0,
        };
        assert_eq!(stream.totals(), totals);
        let found = stream.find(TrackIndex(1), 2).expect("kept");
        assert_eq!(
            (found.0.payload(found.1), found.1),
            (Some(&b"three"[..]), 0)
        );
        assert!(stream.find(TrackIndex(0), 0).is_none(), "the other track");
        assert!(stream.find(TrackIndex(2), 0).is_none(), "no such track");
    }

    #[test]
    fn a_source_is_described_by_itself_until_the_next_one_begins() {
        let (stream, start) = (stream(), Instant::now());
        assert_eq!(stream.source_note(), None);
        let note = |protocol| SourceNote {
            protocol,
            left_out: Vec::new(),
        };
        let first = stream.publish_as(note("rtsp"), tracks(), start);
        let first = first.expect("free");
        assert_eq!(stream.source_note().as_deref(), Some(&note("rtsp")));
        let second = stream.take_over(note("whip"), tracks(), start);
        assert_eq!(stream.source_note().as_deref(), Some(&note("whip")));
        drop((first, second));
        assert_eq!(stream.source_note().as_deref(), Some(&note("whip")));
        drop(stream.publish(tracks(), start).expect("free again"));
        assert_eq!(stream.source_note(), None);
    }

    #[test]
    fn the_ingest_stage_is_that_of_the_first_video_track() {
        let (stream, start) = (stream(), Instant::now());
        let mut publisher = stream.publish(tracks(), start).expect("free");
        assert_eq!(stream.latency_track(), TrackIndex(1));
        let mut push = |track, delay| {
            let pushed = publisher.push(unit(track, &[b"p"], start), start + delay);
            pushed.expect("announced");
        };
        push(0, 50 * MS);
        push(1, 7 * MS);
        publisher.record_stage(Stage::Uplink, 20 * MS, start);
        let mut table = stream.ingest_stage();
        let rows = table.summaries(start + 100 * MS);
        let counts: Vec<_> = rows.iter().map(|(stage, it)| (*stage, it.count)).collect();
        assert_eq!(counts, [(Stage::Uplink, 1), (Stage::Ingest, 1)]);
        let delays = [rows[0].1.max, rows[1].1.max].map(|it| it.as_millis());
        assert_eq!(delays, [20, 7]);
    }

    #[test]
    fn without_video_the_ingest_stage_is_that_of_the_audio() {
        let (stream, start) = (stream(), Instant::now());
        let audio = vec![Track::audio(Codec::Opus, 2); 2];
        let mut publisher = stream.publish(audio, start).expect("free");
        assert_eq!(stream.latency_track(), TrackIndex(0));
        for track in [0, 1] {
            let pushed = publisher.push(unit(track, &[b"p"], start), start + MS);
            pushed.expect("announced");
        }
        assert_eq!(stream.ingest_stage().summaries(start + MS)[0].1.count, 1);
    }

    #[test]
    fn a_unit_of_a_track_that_was_not_announced_is_refused_and_not_counted() {
        let (stream, start) = (stream(), Instant::now());
        let mut publisher = stream.publish(tracks(), start).expect("free");
        let refused = publisher.push(unit(2, &[b"p"], start), start);
        let reason = PublishError::NoSuchTrack {
            track: TrackIndex(2),
            tracks: 2,
        };
        assert_eq!(refused.expect_err("there are two"), reason);
        assert_eq!(stream.totals().units, 0);
    }

    /// A publisher that was replaced must change nothing any more.
    #[test]
    fn only_the_present_publisher_describes_and_ends_the_stream() {
        let (stream, start) = (stream(), Instant::now());
        drop(stream.publish(tracks(), start).expect("free"));
        let known = |reordered| {
            let mut tracks = tracks();
            tracks[1].video.reordered = reordered;
            tracks
        };
        let reordered = || stream.tracks()[1].video.reordered;
        stream.describe(1, &known(true)).expect("the same codecs");
        assert!(!reordered(), "it left");
        let down = stream.state();
        stream.end_publishing(1, State::Connecting);
        assert_eq!(stream.state(), down, "it left");

        let second = stream.publish(tracks(), start).expect("free again");
        assert_eq!(stream.totals().sources, 2);
        stream.describe(1, &known(true)).expect("the same codecs");
        assert!(!reordered(), "there is another");
        stream.end_publishing(1, State::Connecting);
        assert_eq!(stream.state(), State::Live { since: start });
        stream.describe(2, &known(true)).expect("the same codecs");
        assert!(reordered());
        drop(second);
        assert_eq!(stream.state().detail(), Some("the source stopped"));
    }

    #[test]
    fn a_stream_is_taken_over_at_once_and_its_old_publisher_is_refused() {
        let (stream, start) = (stream(), Instant::now());
        let mut first = stream.publish(tracks(), start).expect("free");
        assert!(stream.publish(tracks(), start).is_err());
        let mut second = stream
            .take_over(SourceNote::default(), tracks(), start)
            .expect("by right");
        let replaced = PublishError::Replaced {
            name: stream.name().clone(),
        };
        let refused = first.push(unit(0, &[b"p"], start), start);
        assert_eq!(refused.expect_err("replaced"), replaced);
        drop(first);
        assert_eq!(stream.state(), State::Live { since: start });
        let pushed = second.push(unit(0, &[b"p"], start), start);
        pushed.expect("the present one");
        assert_eq!(stream.totals().sources, 2);
        drop(second);
        let third = stream.take_over(SourceNote::default(), tracks(), start);
        third.expect("nobody is there to be replaced");
    }

    #[test]
    fn a_source_whose_right_was_revoked_is_refused_and_leaves_the_state_alone() {
        let (stream, start) = (stream(), Instant::now());
        let down = State::Down {
            detail: "another server has it".to_owned(),
        };
        stream.revoke(down.clone());
        assert_eq!(stream.state(), State::Connecting, "nobody published");
        let mut first = stream.publish(tracks(), start).expect("free");
        stream.revoke(down.clone());
        assert_eq!(stream.state(), down);
        let refused = first.push(unit(0, &[b"p"], start), start);
        let replaced = PublishError::Replaced {
            name: stream.name().clone(),
        };
        assert_eq!(refused.expect_err("revoked"), replaced);
        let second = stream.publish(tracks(), start).expect("free again");
        drop(first);
        assert_eq!(stream.state(), State::Live { since: start });
        drop(second);
    }

    #[test]
    fn a_source_without_publisher_says_what_it_does() {
        let stream = stream();
        assert_eq!(stream.state(), State::Connecting);
        let down = State::Down {
            detail: "no route".to_owned(),
        };
        stream.set_state(down.clone());
        assert_eq!(stream.state(), down);
    }

    #[test]
    fn a_source_may_append_tracks_and_readers_get_them() {
        let (stream, start) = (stream(), Instant::now());
        let one = vec![Track::audio(Codec::Opus, 2)];
        drop(stream.publish(one, start).expect("free"));
        let mut subscription = stream.subscribe(Arc::new(NoWake));
        assert!(Arc::ptr_eq(subscription.stream(), &stream));
        let mut publisher = stream.publish(tracks(), start).expect("free");
        for track in [1, 0] {
            let pushed = publisher.push(unit(track, &[b"p"], start), start);
            pushed.expect("announced");
        }
        let mut out = Vec::new();
        subscription.poll(&mut out);
        let of = out.iter().map(|unit| unit.track.get());
        assert_eq!(of.collect::<Vec<_>>(), [0, 1], "track by track");
        assert_eq!(subscription.missed(), 0);
    }

    #[test]
    fn a_slow_reader_learns_how_many_units_it_missed() {
        let (start, track) = (Instant::now(), vec![Track::audio(Codec::Opus, 2)]);
        let limits = Limits {
            ring_bytes: 0,
            ..Limits::default()
        };
        let name = StreamName::parse("radio").expect("good");
        let stream = Stream::unlisted(name, limits);
        let mut publisher = stream.publish(track, start).expect("free");
        let mut subscription = stream.subscribe(Arc::new(NoWake));
        let mut out = Vec::new();
        for missed in [2, 4] {
            for _ in 0..3 {
                let pushed = publisher.push(unit(0, &[b"p"], start), start);
                pushed.expect("announced");
            }
            subscription.poll(&mut out);
            assert_eq!(subscription.missed(), missed);
        }
        let indices = out.iter().map(|unit| unit.index);
        assert_eq!(indices.collect::<Vec<_>>(), [2, 5]);
    }

    #[test]
    fn an_unlisted_stream_stays_whatever_lifetime_it_is_given() {
        let name = StreamName::parse("film").expect("good");
        let stream = Stream::unlisted(name, Limits::default());
        stream.set_lifetime(StreamLifetime::Transient);
        assert_eq!(stream.sweep(false, Instant::now()), None);
        assert!(format!("{stream:?}").contains("film"));
    }
}
