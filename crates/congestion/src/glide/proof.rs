//! Rates that were proven beside the controller's own measurement.

use std::time::Instant;

use glassline_media::Bitrate;

use super::{Glide, Policer};

impl Glide {
    /// Takes the knowledge that the path carries `rate`: what is known of a slower one does not hold any more.
    #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
    pub(super) fn take_proof(&mut self, rate: Bitrate, now: Instant) {
        let rate = rate.bps() as f64 / 8.0;
        if self.competition.is_active() || self.starting {
            return;
        }
        let is_slower = |it: &Policer| it.rate().is_some_and(|known| known < rate);
        if let Some(policer) = self.policer.as_mut().filter(|it| is_slower(it)) {
            // A short queue loses packets as a policer does, and the path has another one now.
            policer.forget(now);
        }
        if self.delivery.best().is_none_or(|best| best < rate) {
            self.delivery.restart(rate, now);
        }
        let window = rate * (self.queue.least().as_secs_f64() + self.target());
        if self.velocity_window.window < window {
            self.velocity_window.jump(window);
        }
    }
}
