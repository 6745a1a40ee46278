//! How a track of a broadcast is sent.

use std::time::Duration;

use glassline_media::{Bitrate, Kind, Track, TrackIndex};

/// Priorities by kind of track, as in hang's publishers. The track with the higher number is
/// sent first.
const AUDIO_PRIORITY: u8 = 80;
const FRAME_PRIORITY: u8 = 60;

/// A track to be published, and how it is sent.
#[derive(Clone, Debug)]
pub struct TrackConfig {
    pub(super) track: Track,
    pub(super) bitrate: Option<Bitrate>,
    pub(super) deadline: Duration,
    pub(super) priority: u8,
    pub(super) name: Option<String>,
    pub(super) layer_of: Option<TrackIndex>,
}

impl TrackConfig {
    /// Describes `track` with the priority of its kind and a deadline of two seconds.
    pub fn new(track: Track) -> Self {
        let priority = match track.kind() {
            Kind::Audio => AUDIO_PRIORITY,
            _ => FRAME_PRIORITY,
        };
        Self {
            track,
            bitrate: None,
            deadline: Duration::from_secs(2),
            priority,
            name: None,
            layer_of: None,
        }
    }

    /// Sets the track's name; without it the kind and a number are the name.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        let name = Some(name.into());
        Self { name, ..self }
    }

    /// Makes the track a lower encoding of the track with index `best`, which needs no frame to be in the
    /// catalog: in the same codec its name there is that of the best one.
    #[must_use]
    pub fn as_layer_of(self, best: TrackIndex) -> Self {
        let layer_of = Some(best);
        Self { layer_of, ..self }
    }

    /// Announces the highest bitrate of the track in the catalog.
    #[must_use]
    pub fn with_bitrate(self, bitrate: Bitrate) -> Self {
        let bitrate = Some(bitrate);
        Self { bitrate, ..self }
    }

    /// Sets the deadline. A group is dropped, sent or not, when its successor is older than the
    /// newest frame by more than the deadline.
    #[must_use]
    pub fn with_deadline(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }

    /// Sets the priority: the track with the higher number is sent first. Audio has 80, video
    /// 60.
    #[must_use]
    pub fn with_priority(self, priority: u8) -> Self {
        Self { priority, ..self }
    }
}
