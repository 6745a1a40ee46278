//! A live stream that a reading hands on, so that a session goes from the past to the present.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{PublishError, Publisher, Stream, Subscription, TrackLayout, Wake};
use glassline_media::{Kind, LayerIndex, MediaTime, MediaUnit, Track, TrackIndex, TrackLayer};

use super::timeline::ReadingTimeline;

/// Time that the last unit of a live stream is taken to last.
const UNIT: Duration = Duration::from_millis(40);

/// A live stream that is handed on to the stream of a reading, from the next keyframe on.
pub(super) struct Following {
    subscription: Subscription,
    layout: TrackLayout,
    /// For each track of the live stream the index of the reading's track.
    indices: Vec<Option<TrackIndex>>,
    /// The reading's video, which begins if there is any.
    video: Option<TrackIndex>,
    /// Nanoseconds from the live stream's times to those of the reading, once it has begun.
    shift_ns: Option<i64>,
    units: Vec<Arc<MediaUnit>>,
}

impl Following {
    /// Follows `live` for a reading of `tracks`; `wake` tells of its units.
    pub(super) fn begin(live: &Arc<Stream>, tracks: &[Track], wake: Arc<dyn Wake>) -> Self {
        let mut subscription = live.subscribe(wake);
        let of_live = live.tracks();
        let indices: Vec<_> = of_live
            .iter()
            .map(|track| {
                let mut wanted = TrackIndex::enumerate(tracks);
                let found = wanted.find(|(_, it)| it.has_form_of(track));
                found.map(|(index, _)| index)
            })
            .collect();
        let layers: Vec<TrackLayer> = TrackIndex::first(of_live.len())
            .map(|track| live.preferred(track))
            .collect();
        subscription.read(&layers);
        live.request_keyframe();
        let mut all = TrackIndex::enumerate(tracks);
        let video = all.find(|(_, it)| it.kind() == Kind::Video);
        Self {
            layout: subscription.layout(),
            video: video.map(|(index, _)| index),
            indices,
            subscription,
            shift_ns: None,
            units: Vec::new(),
        }
    }

    /// Publishes what has come. Returns false if the live stream has other tracks now.
    pub(super) fn hand_on(
        &mut self,
        timeline: &mut ReadingTimeline,
        publisher: &mut Publisher,
        now: Instant,
    ) -> Result<bool, PublishError> {
        let mut units = std::mem::take(&mut self.units);
        self.subscription.poll(&mut units);
        if publisher.keyframe_wanted() {
            self.subscription.stream().request_keyframe();
        }
        for unit in units.drain(..) {
            let index = self.indices.get(unit.track.get()).copied().flatten();
            let Some(track) = index else { continue };
            let begins = unit.keyframe && self.video.is_none_or(|video| video == track);
            if self.shift_ns.is_none() && !begins {
                continue;
            }
            let shift_ns = *self.shift_ns.get_or_insert_with(|| {
                let begin = timeline.begin(Duration::ZERO, now);
                begin.nanos() - unit.time.nanos()
            });
            let time = MediaTime::from_nanos(unit.time.nanos() + shift_ns);
            timeline.end = timeline.end.max(time + UNIT);
            let mut handed_on = MediaUnit::clone(&unit);
            (handed_on.track, handed_on.layer) = (track, LayerIndex::BASE);
            handed_on.time = time;
            timeline.push(publisher, handed_on, now)?;
        }
        self.units = units;
        Ok(self.subscription.layout() == self.layout)
    }
}
