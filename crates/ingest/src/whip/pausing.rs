//! The pauses of layers that nobody needs, and what they mean for the hub, the base layer and the
//! publisher.

use std::time::Instant;

use glassline_hub::Stream;
use glassline_media::{LayerIndex, TrackIndex, TrackLayer};

use super::Contribution;
use crate::layer_pauses::LayerNeed;
use crate::publishing::Ended;

/// Track of the video, whose layers are paused.
const VIDEO: TrackIndex = TrackIndex(0);

impl Contribution {
    /// Looks which layers are needed, and gives the orders that follow.
    ///
    /// # Errors
    /// Returns the reason to disconnect the publisher.
    pub(super) fn pause_layers(&mut self, now: Instant) -> Result<(), Ended> {
        let is_heard = self.reservation.orders().is_heard();
        let Some(publisher) = &self.publisher else {
            return Ok(());
        };
        if !self.reception.pauses.is_due(is_heard, now) {
            return Ok(());
        }
        let stream = publisher.stream();
        let needs = self.needs(stream, now);
        let rate = |place| stream.figures(layer(place), now).bitrate;
        let change = self.reception.pauses.look(&needs, is_heard, rate, now);
        if change.is_empty() {
            return Ok(());
        }
        let followed = self.reception.simulcast.followed();
        for place in &change.paused {
            self.reception.simulcast.end(*place);
            self.keyframes[*place].withdraw();
        }
        if followed != self.reception.simulcast.followed() {
            // The base layer goes on at a keyframe of another one.
            let coming = self.keyframes.iter_mut().zip(&needs).enumerate();
            for (place, (keyframes, need)) in coming {
                if need.is_alive && !change.paused.contains(&place) {
                    keyframes.want();
                }
            }
        }
        for place in &change.resumed {
            self.keyframes[*place].want();
        }
        self.describe()?;
        self.prefer_best();
        self.reservation.orders().replace(self.reception.orders());
        Ok(())
    }

    /// Returns when [`pause_layers`](Self::pause_layers) is to be called.
    pub(super) fn pauses_deadline(&self) -> Option<Instant> {
        let is_heard = self.reservation.orders().is_heard();
        let pauses = &self.reception.pauses;
        pauses
            .deadline(is_heard)
            .filter(|_| self.publisher.is_some())
    }

    /// Notes a keyframe of the layer of feed `place`, which may be the first one since the layer was resumed.
    pub(super) fn note_arrival(&mut self, place: usize) -> Result<(), Ended> {
        let is_best = self.reception.best() == Some(LayerIndex::of_encoding(place));
        if !self.reception.pauses.take_arrival(place) {
            return Ok(());
        }
        if is_best {
            self.reception.simulcast.follow_next(place);
        }
        self.describe()
    }

    /// Returns the needs of the receivers of `stream`. Whoever reads the base layer needs the layer that it
    /// follows, and the best one; a keyframe that is requested of a layer is a need, too.
    fn needs(&self, stream: &Stream, now: Instant) -> Vec<LayerNeed> {
        let (read, best) = (stream.layers_read(VIDEO), self.reception.best());
        let simulcast = &self.reception.simulcast;
        let feeds = self.keyframes.iter().enumerate();
        let feeds = feeds.filter(|(place, _)| simulcast.has(*place));
        let needs = feeds.map(|(place, keyframes)| {
            let layer = LayerIndex::of_encoding(place);
            let is_of_base = simulcast.followed() == Some(place) || best == Some(layer);
            let is_of_base = is_of_base && read.has(LayerIndex::BASE);
            let is_wanted = self.reception.pauses.is_paused(place) && keyframes.is_wanted();
            LayerNeed {
                is_needed: read.has(layer) || is_of_base || is_wanted,
                is_alive: simulcast.is_alive(place, now),
            }
        });
        needs.collect()
    }
}

fn layer(place: usize) -> TrackLayer {
    TrackLayer {
        track: VIDEO,
        layer: LayerIndex::of_encoding(place),
    }
}
