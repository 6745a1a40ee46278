//! One stream of a camera, as its connection and its frames tell.

use std::time::Instant;

use glassline_hub::State;
use glassline_media::{Bitrate, Codec, Layer, LayerAbsence, Track};

/// One stream of the camera.
#[derive(Debug)]
pub(super) struct CameraLayer {
    pub(super) rid: String,
    pub(super) state: State,
    pub(super) since: Instant,
    /// Tracks of the present session; `None` without one.
    pub(super) session: Option<Vec<Track>>,
    pub(super) left_out: Vec<String>,
    /// The video as it was described last.
    pub(super) video: Option<Track>,
    /// Whether a keyframe of the present session was published.
    pub(super) has_begun: bool,
    /// Bitrate of the session before.
    pub(super) bitrate: Option<Bitrate>,
    pub(super) is_keyframe_wanted: bool,
}

impl CameraLayer {
    pub(super) fn is_failed(&self) -> bool {
        matches!(self.state, State::Down { .. } | State::Ended { .. })
    }

    /// Returns the layer as the track has it, whose codec is `codec`.
    pub(super) fn describe(&self, codec: Codec) -> Layer {
        let video = self.video.as_ref();
        let side = |read: fn(&Track) -> u32| {
            let side = video.map(read).unwrap_or_default();
            u16::try_from(side).ok().filter(|side| *side > 0)
        };
        let absence = match &self.state {
            _ if self.has_begun => None,
            State::Down { detail } | State::Ended { detail } => {
                Some(LayerAbsence::Failed(detail.clone()))
            }
            _ => Some(LayerAbsence::Paused),
        };
        Layer {
            rid: self.rid.clone(),
            size: side(|it| it.video.width).zip(side(|it| it.video.height)),
            bitrate: self.bitrate,
            absence,
            other_codec: video.filter(|it| it.codec != codec).cloned().map(Box::new),
            is_made_here: false,
        }
    }
}
