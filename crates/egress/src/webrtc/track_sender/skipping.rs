//! Units that a viewer does not get because it is behind: those that waited too long, frames to which no
//! other frame refers, and the upper temporal layers.
//!
//! ```text
//! wait  0 ──── 50 ms ──────────────── 500 ms ────► a keyframe is requested, with which what waits is dropped
//!                └ every frame is left out to which no other refers
//! ```
//!
//! What waits for so long leaves nevertheless until the keyframe comes: each late frame is newer than the
//! one that the viewer sees.

use std::time::{Duration, Instant};

use glassline_media::{MediaUnit, Temporal};
use glassline_rtp::payload::{FrameNumbers, is_discardable};

use super::{Queued, TrackSender};

impl TrackSender {
    /// States whether frames to which no other refers are left out where the path carries too little.
    pub(crate) fn may_leave_out(&mut self, is_left_out: bool) {
        self.limits = self.limits.leaving_out(is_left_out);
    }

    /// Sets the highest temporal layer that the viewer gets, from the layer's next switching point on. The
    /// frames above it that wait are dropped, so that the path is free for the others at once.
    pub(crate) fn limit_temporal_layers(&mut self, layer: u8) {
        self.thinning.limit(layer);
        let present = self.legs.number();
        let thinning = &mut self.thinning;
        let mut dropped = 0;
        self.queue.retain_mut(|queued| {
            let temporal = queued.unit.temporal;
            let is_whole = queued.sent == 0 && queued.leg.is_of(present);
            if is_whole && temporal.layer > layer {
                thinning.leave_out(temporal);
                dropped += 1;
                return false;
            }
            if FrameNumbers::are_of(self.codec) {
                queued.leg = queued.leg.behind(dropped);
            }
            true
        });
        for _ in 0..dropped {
            self.note_left_out();
        }
    }

    /// Returns whether the viewer has no use for a frame that it lost, because it gets no frames of so high a
    /// temporal layer. Where frames have no numbers, a receiver waits for each packet.
    pub(crate) fn needs_no_more(&mut self, frame: Temporal) -> bool {
        let is_above = FrameNumbers::are_of(self.codec) && self.thinning.is_above(frame);
        if is_above {
            self.thinning.leave_out(frame);
        }
        is_above
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

    /// Returns whether no frame can be decoded until the next keyframe, or none in time, as far as is known
    /// here or as the viewer said.
    pub(in crate::webrtc) fn wants_keyframe(&self) -> bool {
        self.wants_keyframe || self.lateness.is_late() || self.asks.is_owed()
    }

    /// Returns whether the viewer asks the source for a keyframe at `now`: not too often.
    pub(in crate::webrtc) fn asks_for_keyframe(&mut self, now: Instant) -> bool {
        self.asks.ask(now)
    }

    /// Returns whether the source is asked for a keyframe at `now`, because the viewer asks.
    pub(in crate::webrtc) fn is_asked_for_keyframe(&mut self, now: Instant) -> bool {
        self.asks.ask_for_viewer(now)
    }

    /// Drops the units that waited longer than the limit. A unit of which packets left already is
    /// finished, so that the viewer never gets half a frame on purpose. `starts`: a decoder can start at
    /// the unit that comes next.
    pub(super) fn skip_overdue(&mut self, starts: bool, now: Instant) -> usize {
        if self.queue.is_empty() {
            self.catching_up = None;
            self.lateness.end();
        }
        let overdue = |queued: &Queued| {
            let (waited, wait_max) = match starts {
                // A new keyframe waits for nothing that is late, whatever the reason.
                true => (
                    now.saturating_duration_since(queued.read_at),
                    self.limits.wait,
                ),
                false => (
                    self.lateness.waited(queued, self.limits.keyframe, now),
                    self.wait_max(),
                ),
            };
            let is_live = self
                .leg(queued.leg)
                .is_none_or(|leg| leg.is_behind(queued.unit.time));
            waited.checked_sub(wait_max).filter(|_| is_live)
        };
        let overdue = match self.catching_up {
            // What waits behind the past is not too old yet, but a new keyframe makes it useless.
            Some(until) if now < until => starts.then_some(Duration::MAX),
            _ => self.queue.front().and_then(overdue),
        };
        let overdue = overdue.filter(|it| !it.is_zero());
        let is_dropped = overdue.is_some_and(|it| starts || it > self.limits.late);
        self.lateness.set_late(overdue.is_some() && !is_dropped);
        if self.lateness.is_late() {
            self.asks.note_skip(now);
        }
        match is_dropped {
            true => self.drop_waiting(),
            false => 0,
        }
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
        self.lateness.set_late(false);
        let keep = usize::from(self.queue.front().is_some_and(|queued| queued.sent > 0));
        let dropped = self.queue.len() - keep;
        self.queue.truncate(keep);
        dropped
    }

    /// Drops all units that wait, also one of which packets left: the viewer moves to a layer that its path
    /// carries, whose keyframe ends the gap.
    pub(super) fn abandon_waiting(&mut self) -> usize {
        let dropped = self.drop_waiting() + self.queue.len();
        self.queue.clear();
        dropped
    }

    /// Returns how long the unit that leaves next has waited.
    pub(in crate::webrtc) fn front_waited(&self, now: Instant) -> Duration {
        let since = self.queue.front().map(|queued| queued.read_at);
        since.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }
}
