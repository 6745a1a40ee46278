//! The layers of a track that this server makes: the track's content in another codec, and the rungs of a
//! ladder.
//!
//! ```text
//! source ─► ring of the track ─► Subscription ─► transcoder ─► RenditionPublisher
//!                                                                      │
//!       receivers that cannot take the track itself ◄─ ring of the rendition
//! ```
//!
//! A rendition is no track: the stream's list of tracks does not name it, so receivers of the
//! source's codec do not see it. Its units lie on the stream's timeline already.

use std::sync::Arc;
use std::time::Instant;

use glassline_media::{LayerIndex, MediaUnit, TrackIndex, TrackLayer};

use super::{Inner, LadderPlan, Stream};
use crate::layout::TrackLayout;
use crate::ring::Ring;

/// The units of one layer that is made.
pub(super) struct Rendition {
    of: TrackLayer,
    ring: Ring,
    /// Whether a keyframe was requested from the transcoder.
    keyframe_wanted: bool,
    /// Whether a publisher has pushed units.
    is_present: bool,
}

impl Rendition {
    pub(super) const fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Returns whether units come.
    pub(super) const fn is_present(&self) -> bool {
        self.is_present
    }

    /// Drops all units. The numbers of units and packets go on.
    pub(super) fn clear(&mut self) {
        self.ring.clear();
    }
}

impl Inner {
    /// Returns whether layer `of` is one that is made.
    pub(super) fn is_rendition(&self, of: TrackLayer) -> bool {
        of.layer == LayerIndex::TRANSCODED || self.made.ladder.has(of)
    }

    /// Returns the rendition that is layer `of`, if there is or was one.
    pub(super) fn rendition(&self, of: TrackLayer) -> Option<&Rendition> {
        self.made.renditions.iter().find(|it| it.of == of)
    }

    /// Returns the rendition that is layer `of`, which is made if there is none; `None` if the stream has
    /// no such track.
    fn rendition_mut(&mut self, of: TrackLayer) -> Option<&mut Rendition> {
        self.rings.get(of.track.get())?;
        let found = self.made.renditions.iter().position(|it| it.of == of);
        let index = found.unwrap_or_else(|| {
            self.made.renditions.push(Rendition {
                of,
                ring: Ring::default(),
                keyframe_wanted: false,
                is_present: false,
            });
            self.made.renditions.len() - 1
        });
        self.made.renditions.get_mut(index)
    }

    /// Requests a keyframe from the transcoder of layer `of`.
    pub(super) fn request_rendition_keyframe(&mut self, of: TrackLayer) {
        if let Some(rendition) = self.rendition_mut(of) {
            rendition.keyframe_wanted = true;
        }
    }

    /// Drops the units of all rungs.
    pub(super) fn drop_rungs(&mut self) {
        let rungs = self.made.renditions.iter_mut();
        let rungs = rungs.filter(|it| it.of.layer != LayerIndex::TRANSCODED);
        for rung in rungs {
            rung.clear();
            rung.is_present = false;
        }
    }
}

impl Stream {
    /// Begins to publish the transcoded layer ([`LayerIndex::TRANSCODED`]) of `track`, whose units
    /// are those of `layout`. The caller sees to it that a track has one such publisher at a time.
    pub fn publish_rendition(
        self: &Arc<Self>,
        track: TrackIndex,
        layout: TrackLayout,
    ) -> RenditionPublisher {
        RenditionPublisher {
            stream: Arc::clone(self),
            of: TrackLayer {
                track,
                layer: LayerIndex::TRANSCODED,
            },
            layout,
            plan: None,
        }
    }

    /// Begins to publish rung `layer` of `plan`. The caller sees to it that a rung has one such publisher at
    /// a time.
    pub fn publish_rung(
        self: &Arc<Self>,
        plan: &Arc<LadderPlan>,
        layer: LayerIndex,
    ) -> RenditionPublisher {
        RenditionPublisher {
            stream: Arc::clone(self),
            of: TrackLayer {
                track: plan.track,
                layer,
            },
            layout: plan.layout,
            plan: Some(Arc::clone(plan)),
        }
    }
}

/// The right to publish a layer that is made of a track. Dropping it drops the layer's units.
#[derive(Debug)]
pub struct RenditionPublisher {
    stream: Arc<Stream>,
    of: TrackLayer,
    layout: TrackLayout,
    /// The ladder of which the layer is a rung; `None` for the transcoded layer.
    plan: Option<Arc<LadderPlan>>,
}

impl RenditionPublisher {
    /// Publishes one unit at `now`. Its `time` and its `reference` stamp are those of the stream's
    /// timeline; its number and its `published` stamp are filled in here. The stream's counts are
    /// of its source and stay.
    ///
    /// Returns the unit as subscribers get it; `None` if the stream has another layout or ladder by now, so
    /// that the layer is gone.
    pub fn push(&self, mut unit: MediaUnit, now: Instant) -> Option<Arc<MediaUnit>> {
        let mut inner = self.stream.inner.lock();
        if !self.is_valid(&inner) {
            return None;
        }
        unit.track = self.of.track;
        unit.layer = self.of.layer;
        unit.stamps.published = now;
        let rendition = inner.rendition_mut(self.of)?;
        if unit.keyframe {
            // The keyframe answers a pending request.
            rendition.keyframe_wanted = false;
        }
        let unit = rendition.ring.push(unit, &self.stream.limits);
        let begins = !std::mem::replace(&mut rendition.is_present, true);
        if begins && self.plan.is_some() {
            inner.describe_ladder();
        }
        inner.subscribers.wake_readers(unit.track_layer());
        Some(unit)
    }

    /// Returns whether a keyframe was requested since the last call.
    pub fn keyframe_wanted(&self) -> bool {
        let mut inner = self.stream.inner.lock();
        let rendition = inner.rendition_mut(self.of);
        rendition.is_some_and(|it| std::mem::take(&mut it.keyframe_wanted))
    }

    fn is_valid(&self, inner: &Inner) -> bool {
        let is_planned = |plan: &Arc<LadderPlan>| inner.made.ladder.is_present(plan);
        inner.layout.number() == self.layout && self.plan.as_ref().is_none_or(is_planned)
    }
}

impl Drop for RenditionPublisher {
    fn drop(&mut self) {
        let mut inner = self.stream.inner.lock();
        // The rungs of another ladder may have publishers already.
        if self.plan.is_some() && !self.is_valid(&inner) {
            return;
        }
        if let Some(rendition) = inner.rendition_mut(self.of) {
            rendition.clear();
            rendition.is_present = false;
        }
        if self.plan.is_some() {
            inner.describe_ladder();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use crate::{Limits, StreamName, Wake};
    use glassline_media::{Codec, MediaTime, Stamps, Track, TrackLayer, UnitBuilder};

    #[derive(Default)]
    struct Wakes(AtomicUsize);

    impl Wake for Wakes {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const AUDIO: TrackIndex = TrackIndex(0);
    const TRANSCODED: TrackLayer = TrackLayer {
        track: AUDIO,
        layer: LayerIndex::TRANSCODED,
    };

    fn stream() -> Arc<Stream> {
        let name = StreamName::parse("cam").expect("good");
        Stream::unlisted(name, Limits::default())
    }

    fn unit(payload: &[u8], ms: i64, at: Instant) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        builder.push(payload);
        let time = MediaTime::from_nanos(ms * 1_000_000);
        let unit = builder.build(AUDIO, time, true, Stamps::arrived(at));
        unit.expect("has a packet")
    }

    fn read(subscription: &mut crate::Subscription) -> Vec<(LayerIndex, MediaTime)> {
        let mut out = Vec::new();
        subscription.poll(&mut out);
        out.iter().map(|unit| (unit.layer, unit.time)).collect()
    }

    #[test]
    fn only_those_who_selected_the_transcoded_layer_read_it_and_are_woken() {
        let (stream, now) = (stream(), Instant::now());
        let tracks = vec![Track::audio(Codec::Aac, 2)];
        let mut source = stream.publish(tracks, now).expect("free");
        let [plain, browser] = [(); 2].map(|()| Arc::new(Wakes::default()));
        let mut as_sent = stream.subscribe(plain.clone());
        let mut transcoded = stream.subscribe(browser.clone());
        // There is no publisher yet.
        transcoded.read(&[TRANSCODED]);
        let rendition = stream.publish_rendition(AUDIO, stream.layout());
        source
            .push(unit(b"aac", 5_000, now), now)
            .expect("announced");
        let totals = stream.totals();
        let pushed = rendition
            .push(unit(b"opus", 7, now), now)
            .expect("the same layout");
        assert_eq!((pushed.index, pushed.track_layer()), (0, TRANSCODED));
        let counts = [&plain, &browser].map(|it| it.0.load(Ordering::Relaxed));
        assert_eq!(counts, [1, 1]);
        assert_eq!(read(&mut as_sent), [(LayerIndex::BASE, MediaTime::ZERO)]);
        let at_7_ms = MediaTime::from_nanos(7_000_000);
        assert_eq!(read(&mut transcoded), [(LayerIndex::TRANSCODED, at_7_ms)]);
        assert_eq!(stream.totals(), totals, "counts are of the source");
        assert_eq!(stream.tracks().len(), 1);
        assert!(stream.find(TRANSCODED, 0).is_some(), "for retransmissions");
        assert!(!rendition.keyframe_wanted());
        stream.request_keyframe_of(TRANSCODED);
        assert!(rendition.keyframe_wanted() && !rendition.keyframe_wanted());
        assert!(!source.keyframe_wanted(), "the source is not asked");
        stream.request_keyframe_of(TrackLayer::from(AUDIO));
        assert!(source.keyframe_wanted() && !rendition.keyframe_wanted());
        drop(rendition);
        assert!(stream.find(TRANSCODED, 0).is_none());
        let again = stream.publish_rendition(AUDIO, stream.layout());
        let next = again
            .push(unit(b"opus", 8, now), now)
            .expect("the same layout");
        assert_eq!(next.index, 1, "numbers go on");
    }

    #[test]
    fn a_new_layout_ends_the_rendition_and_a_selection_made_since_stays() {
        let (stream, now) = (stream(), Instant::now());
        let publish = |codec| {
            stream
                .publish(vec![Track::audio(codec, 2)], now)
                .expect("free")
        };
        drop(publish(Codec::Aac));
        let old = stream.publish_rendition(AUDIO, stream.layout());
        let mut subscription = stream.subscribe(Arc::new(Wakes::default()));
        let _source = publish(Codec::MpegAudio);
        assert!(old.push(unit(b"opus", 1, now), now).is_none());
        // A viewer of the new layout joins the thread before the thread read the stream again.
        subscription.read(&[TRANSCODED]);
        let rendition = stream.publish_rendition(AUDIO, stream.layout());
        rendition
            .push(unit(b"opus", 2, now), now)
            .expect("the present layout");
        assert_eq!(read(&mut subscription).len(), 1);
        assert_eq!(subscription.layout(), stream.layout());
    }
}
