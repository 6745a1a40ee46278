//! How far a viewer is behind what was published.

use std::time::{Duration, Instant};

use super::Queued;

/// The state of a viewer for which units wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lateness {
    /// Time that the latest keyframe took, by which all units are late that came while units waited.
    keyframe: Duration,
    /// Whether the viewer needs a keyframe, with which it gets newer frames than by those that wait.
    is_late: bool,
}

impl Lateness {
    /// Notes that no unit waits any more.
    pub(super) fn end(&mut self) {
        *self = Self::default();
    }

    /// Notes that a keyframe has left whole, before which others wait.
    pub(super) fn note_keyframe(&mut self, queued: &Queued, now: Instant) {
        self.keyframe = now.saturating_duration_since(queued.read_at);
    }

    /// Sets whether units wait longer than they may.
    pub(super) const fn set_late(&mut self, is_late: bool) {
        self.is_late = is_late;
    }

    /// Returns whether units wait longer than they may.
    pub(super) const fn is_late(self) -> bool {
        self.is_late
    }

    /// Returns how long a unit has waited, without the time that a keyframe takes on its way, or took in
    /// front of it, up to `keyframe_max`.
    pub(super) fn waited(self, queued: &Queued, keyframe_max: Duration, now: Instant) -> Duration {
        let waited = now.saturating_duration_since(queued.read_at);
        let excused = match queued.unit.keyframe && queued.sent > 0 {
            true => waited,
            false => self.keyframe,
        };
        waited.saturating_sub(excused.min(keyframe_max))
    }
}
