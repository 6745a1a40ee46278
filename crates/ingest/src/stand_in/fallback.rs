//! Publishes the units of another stream in place of the source.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Publisher, Stream, Subscription};
use glassline_media::{MediaUnit, TrackIndex};
use glassline_runtime::TaskWaker;

use super::track_map::TrackMap;
use super::{Over, StandIn};

impl StandIn<'_> {
    /// Publishes the units of `fallback` from its latest keyframe on, until it ends or changes its
    /// tracks, the source is back, or nobody watches.
    pub(super) async fn publish_fallback(&self, fallback: &Arc<Stream>) -> Over {
        let arrival = Arc::new(TaskWaker::default());
        let whose = (self.stream, self.away.silence);
        let Some(mut copy) = Copying::begin(whose, fallback, &arrival) else {
            return Over::Changed;
        };
        loop {
            if !self.is_needed() {
                return Over::NotNeeded;
            }
            if !fallback.is_published() {
                return Over::Changed;
            }
            if let Some(over) = copy.publish_new(Instant::now()) {
                return over;
            }
            tokio::select! {
                () = arrival.woken() => {}
                () = self.changed.woken() => {}
            }
        }
    }
}

/// The units of one layout of the fallback on their way into the stream.
struct Copying<'a> {
    stream: &'a Arc<Stream>,
    /// Silence after which the source counts as away.
    silence: Duration,
    map: TrackMap,
    subscription: Subscription,
    /// For each track of the fallback, the number of the next unit to copy.
    next: Vec<u64>,
    /// Track whose keyframe must come before anything is published.
    awaited: Option<TrackIndex>,
    /// `None` before the first unit that a decoder can start with.
    publisher: Option<Publisher>,
    /// Buffer that is empty between calls and kept for its capacity.
    units: Vec<Arc<MediaUnit>>,
}

impl<'a> Copying<'a> {
    /// Subscribes to `fallback`, and takes what it has published since its latest keyframe.
    fn begin(
        (stream, silence): (&'a Arc<Stream>, Duration),
        fallback: &Arc<Stream>,
        arrival: &Arc<TaskWaker>,
    ) -> Option<Self> {
        let subscription = fallback.subscribe(Arc::clone(arrival) as _);
        let map = TrackMap::of(stream, fallback);
        if map.tracks.is_empty() {
            return None;
        }
        let awaited = map.first_video();
        let units = match awaited {
            Some(video) => fallback.since_keyframe(video),
            None => Vec::new(),
        };
        if awaited.is_some() && units.is_empty() {
            fallback.request_keyframe();
        }
        Some(Self {
            stream,
            silence,
            next: vec![0; fallback.tracks().len()],
            map,
            subscription,
            awaited,
            publisher: None,
            units,
        })
    }

    /// Publishes the units that came since the last call.
    fn publish_new(&mut self, now: Instant) -> Option<Over> {
        let layout = self.subscription.layout();
        let mut units = std::mem::take(&mut self.units);
        self.subscription.poll(&mut units);
        if self.subscription.layout() != layout {
            return Some(Over::Changed);
        }
        for unit in units.drain(..) {
            if let Err(over) = self.publish(&unit, now) {
                return Some(over);
            }
        }
        self.units = units;
        let publisher = self.publisher.as_ref()?;
        if publisher.keyframe_wanted() {
            self.subscription.stream().request_keyframe();
        }
        None
    }

    fn publish(&mut self, unit: &MediaUnit, now: Instant) -> Result<(), Over> {
        let Some(to) = self.map.to(unit.track) else {
            return Ok(());
        };
        match self.next.get_mut(unit.track.get()) {
            Some(next) if unit.index >= *next => *next = unit.index + 1,
            _ => return Ok(()),
        }
        if self
            .awaited
            .is_some_and(|it| it != unit.track || !unit.keyframe)
        {
            return Ok(());
        }
        self.awaited = None;
        let publisher = match &mut self.publisher {
            Some(publisher) => publisher,
            None => {
                let what = format!("fallback {}", self.subscription.stream().name());
                let tracks = self.map.tracks.clone();
                let begun = self.stream.stand_in(tracks, what, self.silence, now);
                self.publisher.insert(begun.map_err(|_| Over::NotNeeded)?)
            }
        };
        let mut unit = unit.clone();
        unit.track = to;
        // Only a source that took over refuses a unit of these tracks.
        publisher.push(unit, now).map_err(|_| Over::NotNeeded)?;
        Ok(())
    }
}
