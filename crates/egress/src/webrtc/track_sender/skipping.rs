//! Units that a viewer does not get because it is behind: those that waited too long, frames to which no
//! other frame refers, and the upper temporal layers.
//!
//! ```text
//! wait  0 ──── 50 ms ──────────────── 500 ms ────► to the next keyframe
//!                └ every frame is left out to which no other refers
//! ```

use std::time::{Duration, Instant};

use glassline_media::MediaUnit;
use glassline_rtp::payload::{FrameNumbers, is_discardable};

use super::{Queued, TrackSender};

impl TrackSender {
    /// States whether frames to which no other refers are left out where the path carries too little.
    pub(crate) fn may_leave_out(&mut self, is_left_out: bool) {
        self.limits = self.limits.leaving_out(is_left_out);
    }

    /// Sets the highest temporal layer that the viewer gets, from the layer's next switching point on.
    pub(crate) fn limit_temporal_layers(&mut self, layer: u8) {
        self.thinning.limit(layer);
    }

    /// Returns whether the encoding has several temporal layers.
    pub(crate) const fn has_temporal_layers(&self) -> bool {
        self.thinning.has_layers()
    }

    /// Returns whether the viewer gets the next unit by its temporal layer. `starts`: a decoder can start with
    /// the unit.
    pub(super) fn admits(&mut self, unit: &MediaUnit, starts: bool) -> bool {
        let is_admitted = self.thinning.admits(unit.temporal, starts);
        if !is_admitted {
            self.note_left_out();
        }
        is_admitted
    }

    /// Leaves a unit out that was admitted.
    pub(super) fn leave_out(&mut self, unit: &MediaUnit) {
        self.thinning.leave_out(unit.temporal);
        self.note_left_out();
    }

    /// Lets the numbers of frames go on behind one that is left out.
    fn note_left_out(&mut self) {
        if FrameNumbers::are_of(self.codec) {
            self.legs.leave_out();
        }
    }

    /// Returns whether the unit is left out, because others wait and no other refers to it.
    pub(super) fn leaves_out(&self, unit: &MediaUnit, now: Instant) -> bool {
        let after = self.limits.leave_out;
        after.is_some_and(|after| self.front_waited(now) > after)
            && self.catching_up.is_none()
            && (unit.temporal.discardable || is_discardable(self.codec, unit))
    }

    /// Drops the units that waited longer than the limit. A unit of which packets left already is
    /// finished, so that the viewer never gets half a frame on purpose. `starts`: a decoder can start at
    /// the unit that comes next.
    pub(super) fn skip_overdue(&mut self, starts: bool, now: Instant) -> usize {
        if self.queue.is_empty() {
            self.catching_up = None;
        }
        let overdue = |queued: &Queued| {
            let (waited, wait_max) = match starts {
                // A new keyframe waits for nothing that is late, whatever the reason.
                true => (
                    now.saturating_duration_since(queued.read_at),
                    self.limits.wait,
                ),
                false => (self.waited(queued, now), self.wait_max()),
            };
            let is_live = self
                .leg(queued.leg)
                .is_none_or(|leg| leg.is_behind(queued.unit.time));
            is_live && waited > wait_max
        };
        let is_overdue = match self.catching_up {
            // What waits behind the past is not too old yet, but a new keyframe makes it useless.
            Some(until) if now < until => starts,
            _ => self.queue.front().is_some_and(overdue),
        };
        if !is_overdue {
            return 0;
        }
        self.drop_waiting()
    }

    /// Returns the time that a unit may wait before the viewer skips to the next keyframe.
    fn wait_max(&self) -> Duration {
        let sparse = self.limits.wait_sparse.zip(self.asks.unheeded_interval());
        let sparse = sparse.map(|(longest, interval)| longest.min(interval / 4));
        self.limits.wait.max(sparse.unwrap_or_default())
    }

    /// Drops the units of which nothing left yet.
    pub(super) fn drop_waiting(&mut self) -> usize {
        self.catching_up = None;
        let keep = usize::from(self.queue.front().is_some_and(|queued| queued.sent > 0));
        let dropped = self.queue.len() - keep;
        self.queue.truncate(keep);
        dropped
    }

    /// Returns how long the unit that leaves next has waited.
    pub(in crate::webrtc) fn front_waited(&self, now: Instant) -> Duration {
        let since = self.queue.front().map(|queued| queued.read_at);
        since.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Returns how long a unit has waited, without the time that the latest keyframe took on its way.
    fn waited(&self, queued: &Queued, now: Instant) -> Duration {
        let keyframe_ends = match queued.unit.keyframe && queued.sent > 0 {
            true => Some(now),
            false => self.keyframe_left,
        };
        let behind = |end: Instant| end.saturating_duration_since(queued.read_at);
        let excused = keyframe_ends.map_or(Duration::ZERO, behind);
        now.saturating_duration_since(queued.read_at)
            .saturating_sub(excused.min(self.limits.keyframe))
    }
}
