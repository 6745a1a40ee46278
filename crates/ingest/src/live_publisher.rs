//! The way of a live source's access units into the hub.
//!
//! ```text
//! TimedUnit ─► Units: MediaUnit ─► hub::Publisher, from the first keyframe on
//! keyframe wish ◄── a viewer waits, frames depend on lost ones, nothing is published yet
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, PublishError, Publisher, SourceNote, State, Stream, StreamName};
use glassline_media::{Kind, LayerIndex, MediaUnit, Stage, Track, TrackIndex};
use glassline_rtp::units::TimedUnit;

use super::lack::Lack;
use super::oversized::OversizedFrames;
use super::publishing::{Ended, HubRefusal, NameClaim, check_claim, go_live};
use super::source_layers::{Placed, SourceLayers};
use super::units::Units;

/// The stream that a source publishes.
#[derive(Debug)]
pub(super) enum Destination {
    /// A stream that is there already, as those of the configuration are.
    Stream(Arc<Stream>),
    /// A stream that is made with the first unit: a client that only announces takes no slot.
    Name {
        hub: Arc<Hub>,
        name: StreamName,
        /// The right to the name among several servers; `None` on a server alone.
        claim: Option<Arc<dyn NameClaim>>,
    },
}

/// Publishes the access units of a live source as a stream.
///
/// Nothing is published before the first unit that a viewer can begin with. When the hub refuses a unit,
/// nothing more is published, and [`refused`](Self::refused) says why.
#[derive(Debug)]
pub(super) struct LivePublisher {
    destination: Destination,
    /// How the media comes, and which of the source's tracks are left out.
    note: SourceNote,
    units: Units,
    /// The layers of the video, if the first tracks of the source are some.
    layers: Option<Box<SourceLayers>>,
    publisher: Option<Publisher>,
    live_since: Option<Instant>,
    refusal: Option<HubRefusal>,
    oversized: OversizedFrames,
    /// Whether frames depend on a lost one, which only a keyframe repairs.
    is_damaged: bool,
    /// Media units of one access unit, empty between calls and kept for the capacity.
    media_units: Vec<MediaUnit>,
}

/// Outcome of the publication of an access unit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    /// Whether a keyframe of the video was published. It answers all requests so far.
    pub(super) is_keyframe: bool,
}

impl Destination {
    fn name(&self) -> &StreamName {
        match self {
            Self::Stream(stream) => stream.name(),
            Self::Name { name, .. } => name,
        }
    }

    fn begin(
        &self,
        note: SourceNote,
        tracks: &[Track],
        now: Instant,
    ) -> Result<Publisher, HubRefusal> {
        match self {
            Self::Stream(stream) => Ok(stream.publish_as(note, tracks.to_vec(), now)?),
            Self::Name { hub, name, claim } => {
                go_live(hub, (name, claim.as_deref()), (note, tracks), now)
            }
        }
    }
}

impl LivePublisher {
    /// Prepares to publish `tracks`, as their description has them. The video, if there is one, is the
    /// first.
    pub(super) fn new(destination: Destination, note: SourceNote, tracks: Vec<Track>) -> Self {
        Self {
            destination,
            note,
            units: Units::new(tracks),
            layers: None,
            publisher: None,
            live_since: None,
            refusal: None,
            oversized: OversizedFrames::default(),
            is_damaged: false,
            media_units: Vec::new(),
        }
    }

    /// Makes the first tracks of the source the layers of one video.
    pub(super) fn with_layers(self, layers: Option<SourceLayers>) -> Self {
        let layers = layers.map(Box::new);
        Self { layers, ..self }
    }

    /// Returns the layers, if the source has several.
    pub(super) fn layers(&self) -> Option<&SourceLayers> {
        self.layers.as_deref()
    }

    /// Looks which layers are needed. Returns whether others are to be fetched now.
    ///
    /// # Errors
    /// Returns why the hub refuses the description.
    pub(super) fn look_at_layers(&mut self, now: Instant) -> Result<bool, HubRefusal> {
        let (Some(layers), Some(publisher)) = (&mut self.layers, &mut self.publisher) else {
            return Ok(false);
        };
        let is_changed = layers.look(publisher.stream(), now);
        if is_changed {
            describe(publisher, layers, self.units.tracks())?;
        }
        Ok(is_changed)
    }

    /// Notes that no more units of the source's track `place` come. Returns whether that is a layer.
    ///
    /// # Errors
    /// Returns why the hub refuses the description.
    pub(super) fn end_layer(&mut self, place: usize) -> Result<bool, HubRefusal> {
        let Some(layers) = &mut self.layers else {
            return Ok(false);
        };
        let is_layer = layers.end(place);
        if let Some(publisher) = self.publisher.as_mut().filter(|_| is_layer) {
            describe(publisher, layers, self.units.tracks())?;
        }
        Ok(is_layer)
    }

    /// Returns the tracks as they are published, with the parameter sets seen so far.
    pub(super) fn tracks(&self) -> &[Track] {
        self.units.tracks()
    }

    /// Replaces the tracks, of which one is left out for the reason `why`, before anything is published.
    pub(super) fn leave_out(&mut self, tracks: Vec<Track>, why: String) {
        self.units = Units::new(tracks);
        self.note.left_out.push(why);
    }

    /// Begins to publish at once, for a source whose first unit is one to begin with.
    ///
    /// # Errors
    /// The hub refuses the stream or the source.
    pub(super) fn begin(&mut self, now: Instant) -> Result<(), HubRefusal> {
        let (note, tracks) = (self.note.clone(), self.units.tracks());
        let publisher = match &self.layers {
            Some(layers) => self.destination.begin(note, &layers.tracks(tracks), now)?,
            None => self.destination.begin(note, tracks, now)?,
        };
        self.publisher = Some(publisher);
        Ok(())
    }

    /// Publishes an access unit at `now` as layer `layer` of its track, if viewers can begin with it or
    /// with an earlier one.
    pub(super) fn publish(
        &mut self,
        unit: TimedUnit,
        layer: LayerIndex,
        now: Instant,
    ) -> Published {
        let mut published = Published::default();
        if self.refusal.is_some() {
            return published;
        }
        let track = self.units.tracks().get(unit.track.get());
        let is_video = track.is_some_and(|track| track.kind() == Kind::Video);
        self.is_damaged |= is_video && unit.after_loss && !unit.keyframe;
        self.units.push(unit, &mut self.media_units);
        let mut media_units = std::mem::take(&mut self.media_units);
        for mut media_unit in media_units.drain(..) {
            media_unit.layer = layer;
            match self.push(media_unit, now) {
                Ok(is_keyframe) => published.is_keyframe |= is_keyframe,
                Err(refusal) => {
                    self.refusal = Some(refusal);
                    break;
                }
            }
        }
        self.media_units = media_units;
        published
    }

    /// Publishes a media unit. Returns whether it is a keyframe of the video.
    fn push(&mut self, media_unit: MediaUnit, now: Instant) -> Result<bool, HubRefusal> {
        if self.layers.is_some() {
            return self.push_to_layers(media_unit, now);
        }
        let was_published = self.publisher.is_some();
        if !was_published {
            // Nobody can watch before the first keyframe.
            if !self.units.starts(&media_unit) {
                return Ok(false);
            }
            self.begin(now)?;
        }
        let Some(publisher) = &mut self.publisher else {
            return Ok(false);
        };
        if was_published && let Some(tracks) = self.units.take_redescribed() {
            publisher.describe(tracks)?;
        }
        let is_first = media_unit.track == TrackIndex(0);
        let is_keyframe = is_first && media_unit.keyframe && self.units.has_video();
        if is_keyframe {
            // The keyframe answers a pending request.
            let _ = publisher.keyframe_wanted();
        }
        publisher.push(media_unit, now)?;
        self.live_since.get_or_insert(now);
        Ok(is_keyframe)
    }

    /// Publishes a media unit as one of a layer, of the base layer, or of a track beside the video.
    fn push_to_layers(&mut self, unit: MediaUnit, now: Instant) -> Result<bool, HubRefusal> {
        let was_published = self.publisher.is_some();
        let Some(layers) = &mut self.layers else {
            return Ok(false);
        };
        if !was_published && !layers.starts(&unit) {
            return Ok(false);
        }
        let Placed {
            unit,
            base,
            is_redescribed,
        } = layers.place(unit, now);
        if !was_published {
            self.begin(now)?;
        }
        let (Some(publisher), Some(layers)) = (&mut self.publisher, &self.layers) else {
            return Ok(false);
        };
        let is_redescribed = is_redescribed | self.units.take_redescribed().is_some();
        let is_keyframe = base.as_ref().is_some_and(|it| it.keyframe);
        if is_redescribed {
            describe(publisher, layers, self.units.tracks())?;
        }
        for unit in unit.into_iter().chain(base) {
            publisher.push(unit, now)?;
            self.live_since.get_or_insert(now);
        }
        Ok(is_keyframe)
    }

    /// Returns when the first unit was published.
    pub(super) const fn live_since(&self) -> Option<Instant> {
        self.live_since
    }

    pub(super) const fn is_live(&self) -> bool {
        self.publisher.is_some()
    }

    /// Returns whether a keyframe is needed: a viewer waits for one, frames were lost since the last
    /// call, or none came yet.
    pub(super) fn take_keyframe_wish(&mut self) -> bool {
        let mut is_damaged = std::mem::take(&mut self.is_damaged);
        let wanted = self.publisher.as_ref().map(Publisher::wanted_keyframes);
        if let Some(layers) = &mut self.layers {
            layers.note_requests(wanted.unwrap_or_default());
            is_damaged |= layers.take_keyframe_wish();
        }
        let is_asked = wanted.is_none_or(|wanted| !wanted.is_empty());
        self.units.has_video() && (is_asked || is_damaged)
    }

    /// Notes that `frames` more frames of the source were dropped because they are too large.
    pub(super) fn note_oversized(&mut self, frames: u64, now: Instant) {
        let (name, publisher) = (self.destination.name(), self.publisher.as_ref());
        self.oversized.note(frames, name, publisher, now);
    }

    /// Records the delay of a stage before the hub, once the stream is live.
    pub(super) fn record_stage(&self, stage: Stage, delay: Duration, now: Instant) {
        if let Some(publisher) = &self.publisher {
            publisher.record_stage(stage, delay, now);
        }
    }

    /// Returns the number of frames that were dropped because they are too large.
    pub(super) const fn oversized(&self) -> u64 {
        self.oversized.dropped()
    }

    /// Returns what the source lacks, if it has sent no frame to begin with.
    pub(super) const fn lack(&self) -> Lack {
        self.units.lack()
    }

    /// Returns why a source whose first keyframe is overdue is disconnected.
    pub(super) const fn without_keyframe(&self) -> Ended {
        Ended::without_keyframe(self.oversized.dropped(), self.units.lack())
    }

    /// Checks that the hub has taken all units.
    ///
    /// # Errors
    /// The reason why it refused one.
    pub(super) fn refused(&mut self) -> Result<(), HubRefusal> {
        self.refusal.take().map_or(Ok(()), Err)
    }

    /// Checks that no other source has the stream's name, at another server perhaps.
    ///
    /// # Errors
    /// [`PublishError::Replaced`] if another source has it.
    pub(super) fn check_claim(&self) -> Result<(), PublishError> {
        match &self.destination {
            Destination::Stream(_) => Ok(()),
            Destination::Name { name, claim, .. } => check_claim(name, claim.as_deref()),
        }
    }

    /// Returns the name of the stream.
    pub(super) fn name(&self) -> &StreamName {
        self.destination.name()
    }

    /// Ends publishing, and leaves the stream in `state` if it is this source's.
    pub(super) fn finish(self, state: State) {
        match (self.publisher, self.destination) {
            (Some(publisher), _) => publisher.finish(state),
            (None, Destination::Stream(stream)) => stream.set_state(state),
            (None, Destination::Name { .. }) => {}
        }
    }
}

/// Tells the hub what the layers are, and which is the best.
fn describe(
    publisher: &mut Publisher,
    layers: &SourceLayers,
    described: &[Track],
) -> Result<(), HubRefusal> {
    publisher.describe(&layers.tracks(described))?;
    if let Some(best) = layers.preferred() {
        publisher.prefer(best);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use glassline_hub::{Subscription, Wake};
    use glassline_media::{Codec, MediaTime, Temporal};

    use super::*;

    struct NoWake;

    impl Wake for NoWake {
        fn wake(&self) {}
    }

    /// A source of VP8 and Opus, and a viewer of its stream.
    struct Source {
        hub: Arc<Hub>,
        live: LivePublisher,
        start: Instant,
    }

    impl Source {
        fn new() -> Self {
            let hub = Arc::new(Hub::default());
            let destination = Destination::Name {
                hub: Arc::clone(&hub),
                name: StreamName::parse("cam").expect("a good name"),
                claim: None,
            };
            let note = SourceNote {
                protocol: "test",
                left_out: Vec::new(),
            };
            let tracks = vec![Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)];
            Self {
                hub,
                live: LivePublisher::new(destination, note, tracks),
                start: Instant::now(),
            }
        }

        fn publish(&mut self, track: usize, keyframe: bool, after_loss: bool) -> Published {
            let unit = TimedUnit {
                track: TrackIndex(track),
                time: MediaTime::ZERO,
                decode_time: None,
                keyframe,
                after_loss,
                temporal: Temporal::default(),
                data: vec![0x10, 0, 0, 0x9d, 1, 0x2a, 64, 0, 64, 0],
                received: self.start,
            };
            self.live.publish(unit, LayerIndex::BASE, self.start)
        }

        fn stream(&self) -> Option<Arc<Stream>> {
            self.hub.stream("cam")
        }

        fn viewer(&self) -> Subscription {
            let stream = self.stream().expect("it is live");
            stream.subscribe(Arc::new(NoWake))
        }
    }

    #[test]
    fn a_source_is_live_from_its_first_keyframe_on_which_is_wished_for_until_then() {
        let mut source = Source::new();
        assert!(source.live.take_keyframe_wish());
        assert_eq!(source.publish(0, false, false), Published::default());
        assert_eq!(source.publish(1, true, false), Published::default());
        assert!(source.stream().is_none() && !source.live.is_live());
        assert!(source.publish(0, true, false).is_keyframe);
        assert_eq!(source.live.live_since(), Some(source.start));
        assert!(!source.live.take_keyframe_wish());
        let mut units = Vec::new();
        let mut viewer = source.viewer();
        assert!(!source.publish(1, true, false).is_keyframe, "it is audio");
        viewer.poll(&mut units);
        let heard: Vec<_> = units.iter().map(|unit| (unit.track, unit.layer)).collect();
        assert_eq!(heard, [(TrackIndex(1), LayerIndex::BASE)]);
    }

    #[test]
    fn a_keyframe_is_wished_for_after_a_loss_and_for_a_viewer_and_answers_both() {
        let mut source = Source::new();
        source.publish(0, true, false);
        source.publish(0, false, true);
        assert!(source.live.take_keyframe_wish(), "frames were lost");
        assert!(!source.live.take_keyframe_wish(), "it was told");
        source.publish(0, true, true);
        assert!(!source.live.take_keyframe_wish(), "a keyframe needs none");
        let stream = source.stream().expect("it is live");
        stream.request_keyframe();
        source.publish(0, true, false);
        assert!(
            !source.live.take_keyframe_wish(),
            "the keyframe came already"
        );
        stream.request_keyframe();
        assert!(source.live.take_keyframe_wish());
    }

    #[test]
    fn a_source_that_is_replaced_publishes_nothing_more_and_says_why() {
        let mut source = Source::new();
        source.publish(0, true, false);
        assert!(source.live.refused().is_ok());
        let stream = source.stream().expect("it is live");
        let tracks = source.live.tracks().to_vec();
        let other = stream.take_over(SourceNote::default(), tracks, source.start);
        let _other = other.expect("by right");
        assert_eq!(source.publish(0, true, false), Published::default());
        let why = source.live.refused().expect_err("another source has it");
        assert!(why.to_string().contains("cam"), "{why}");
        assert_eq!(stream.totals().units, 1);
    }
}
