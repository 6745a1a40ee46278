//! The publisher of a pulled stream, whose layers come while somebody here reads them.

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::{PublishError, Publisher, SourceNote, State, Stream};
use glassline_media::{LayerAbsence, LayerIndex, MediaUnit, Track, TrackIndex, TrackLayer};

/// Publishes the units of one source.
#[derive(Debug)]
pub(super) struct LayeredPublisher {
    publisher: Publisher,
    /// The tracks as the source describes them.
    tracks: Vec<Track>,
    /// Layers whose keyframe came since they are carried.
    begun: Vec<TrackLayer>,
}

impl LayeredPublisher {
    /// Begins to publish `tracks`, in place of what was published before.
    ///
    /// # Errors
    /// Returns why the hub refuses them.
    pub(super) fn begin(stream: &Arc<Stream>, tracks: &[Track]) -> Result<Self, PublishError> {
        let note = SourceNote {
            protocol: "pull",
            left_out: Vec::new(),
        };
        let here = tracks_here(tracks, &[]);
        let publisher = Self {
            publisher: stream.take_over(note, here, Instant::now())?,
            tracks: tracks.to_vec(),
            begun: Vec::new(),
        };
        publisher.prefer_best();
        Ok(publisher)
    }

    /// Replaces the description by the source.
    pub(super) fn describe(&mut self, tracks: &[Track]) {
        self.tracks = tracks.to_vec();
        self.tell();
    }

    /// Notes which layers are carried: frames of others do not come any more.
    pub(super) fn carry(&mut self, layers: &[TrackLayer]) {
        let before = self.begun.len();
        self.begun.retain(|it| layers.contains(it));
        if self.begun.len() != before {
            self.tell();
        }
    }

    /// Publishes a unit, which `is_keyframe` of the video or is none.
    ///
    /// # Errors
    /// Returns why the hub refuses it.
    pub(super) fn push(&mut self, unit: MediaUnit, is_keyframe: bool) -> Result<(), PublishError> {
        let of = unit.track_layer();
        if is_keyframe && of.layer == LayerIndex::BASE {
            // The keyframe answers a pending request.
            let _ = self.publisher.keyframe_wanted();
        } else if is_keyframe && !self.begun.contains(&of) {
            self.begun.push(of);
            self.tell();
        }
        self.publisher.push(unit, Instant::now()).map(drop)
    }

    /// Returns whether a keyframe was requested since the last call.
    pub(super) fn keyframe_wanted(&self) -> bool {
        self.publisher.keyframe_wanted()
    }

    /// Ends publishing and leaves the stream in `state`.
    pub(super) fn finish(self, state: State) {
        self.publisher.finish(state);
    }

    fn tell(&mut self) {
        let tracks = tracks_here(&self.tracks, &self.begun);
        // What the hub refuses, it refuses with the next unit.
        let _ = self.publisher.describe(&tracks);
        self.prefer_best();
    }

    /// Tells the hub the best layer of each track, by the rates at the source.
    fn prefer_best(&self) {
        for (track, described) in TrackIndex::enumerate(&self.tracks) {
            let layers = described.layers.iter().enumerate();
            let rates = layers.filter_map(|(place, it)| Some((it.bitrate?, place)));
            let best = rates.filter(|(rate, _)| rate.bps() > 0).max();
            if let Some((_, place)) = best {
                let layer = LayerIndex::of_encoding(place);
                self.publisher.prefer(TrackLayer { track, layer });
            }
        }
    }
}

/// Returns the tracks as the hub of this server has them, where the layers `begun` come. The others come
/// once they are read.
fn tracks_here(tracks: &[Track], begun: &[TrackLayer]) -> Vec<Track> {
    let mut here = tracks.to_vec();
    for (track, described) in TrackIndex::enumerate(&mut here) {
        for (place, layer) in described.layers.iter_mut().enumerate() {
            let index = LayerIndex::of_encoding(place);
            let of = TrackLayer {
                track,
                layer: index,
            };
            layer.absence = (!begun.contains(&of)).then_some(LayerAbsence::Paused);
        }
    }
    here
}
