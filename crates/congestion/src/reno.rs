//! The congestion control of SCTP's standard (RFC 9260 §7.2).

use std::time::{Duration, Instant};

use glassline_media::Bitrate;

use crate::{Ack, Controller, Loss};

/// Pacing gain in slow start, which leaves room for the window to grow within a round trip.
/// Pacing itself is not the RFC's, which only bounds bursts (§6.1 D).
const PACING_STARTING: f64 = 2.0;
/// Pacing gain in congestion avoidance.
const PACING_AVOIDING: f64 = 1.2;

/// SCTP's congestion control by its standard: Reno's, counted in bytes (RFC 9260 §7.2).
///
/// One deviation: slow start grows by all that a SACK covers, not by one packet per SACK
/// (§7.2.1), because a SACK stands for a whole batch here and packets are paced.
#[derive(Clone, Debug)]
pub struct Rfc9260Reno {
    /// Size of datagrams, in bytes.
    mtu: u64,
    /// Congestion window (`cwnd`), in bytes.
    window: u64,
    /// Slow start threshold (`ssthresh`), in bytes.
    threshold: u64,
    /// Bytes acknowledged towards the next growth of the window (`partial_bytes_acked`,
    /// §7.2.2).
    partial: u64,
    /// When the window shrank last: losses of packets sent before belong to the same
    /// congestion event.
    shrank: Option<Instant>,
    /// Window and threshold to return to if the latest loss was spurious.
    before: Option<(u64, u64)>,
    /// Smoothed round-trip time; `None` before the first sample.
    smoothed: Option<Duration>,
}

impl Rfc9260Reno {
    /// Returns a new controller. `mtu`: size of datagrams, in bytes.
    pub fn new(mtu: u64) -> Self {
        Self {
            mtu,
            // §7.2.1.
            window: (4 * mtu).min((2 * mtu).max(4404)),
            threshold: u64::MAX,
            partial: 0,
            shrank: None,
            before: None,
            smoothed: None,
        }
    }

    /// Halves the window (§7.2.3).
    fn shrink(&mut self, now: Instant) {
        self.before = Some((self.window, self.threshold));
        self.threshold = (self.window / 2).max(4 * self.mtu);
        self.window = self.threshold;
        self.partial = 0;
        self.shrank = Some(now);
    }
}

impl Controller for Rfc9260Reno {
    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.smoothed = ack.round_trips.smoothed();
        let newest = ack.packets.last().map(|packet| packet.sent);
        let recovering = self.shrank.is_some_and(|at| newest < Some(at));
        let used = ack.in_flight_before + self.mtu > self.window;
        if recovering || !used {
            return;
        }
        if self.is_starting() {
            self.window += ack.bytes;
            return;
        }
        self.partial += ack.bytes;
        if self.partial >= self.window {
            self.partial -= self.window;
            self.window += self.mtu;
        }
    }

    fn on_loss(&mut self, loss: &Loss) {
        if loss.persistent {
            // §7.2.3: the T3 timer.
            self.shrink(loss.now);
            self.window = self.mtu;
            self.before = None;
        } else if self.shrank.is_none_or(|at| loss.newest_sent > at) {
            self.shrink(loss.now);
        }
    }

    /// Returns one: each timeout restarts from one packet (§7.2.3).
    fn timeouts_until_persistent(&self) -> u32 {
        1
    }

    fn on_spurious_loss(&mut self, _: Instant) {
        if let Some((window, threshold)) = self.before.take() {
            self.window = self.window.max(window);
            self.threshold = threshold;
            self.shrank = None;
        }
    }

    fn on_marked(&mut self, now: Instant, _: u64) {
        self.shrink(now);
    }

    fn on_mtu(&mut self, bytes: u64) {
        self.mtu = bytes;
        self.window = self.window.max(bytes);
    }

    fn window(&self) -> u64 {
        self.window
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "windows are positive and far below 2^52"
    )]
    fn pacing_rate(&self) -> Option<Bitrate> {
        let smoothed = self.smoothed?.as_secs_f64();
        let gain = if self.is_starting() {
            PACING_STARTING
        } else {
            PACING_AVOIDING
        };
        let rate = gain * self.window as f64 * 8.0 / smoothed.max(1e-6);
        Some(Bitrate::from_bps(rate as u64))
    }

    fn is_starting(&self) -> bool {
        self.window <= self.threshold
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Flow;

    const MTU: u64 = 1200;

    #[test]
    fn one_loss_halves_and_a_timeout_begins_anew() {
        let mut now = Instant::now();
        let mut flow = Flow::new(Box::new(Rfc9260Reno::new(MTU)));
        assert_eq!(flow.allowance(), 4404);
        let mut number = 0;
        let round = Duration::from_millis(50);
        for _ in 0..5 {
            let first = number;
            while flow.allowance() >= MTU {
                flow.on_sent(now, number, MTU);
                number += 1;
            }
            now += round;
            flow.on_acked(now, first..number, Duration::ZERO);
        }
        let window = flow.window();
        assert!(window > 80_000, "doubles every round trip: {window}");
        let sent = number;
        for extra in 0..20 {
            flow.on_sent(now, sent + extra, MTU);
        }
        flow.on_lost(now + round, [sent, sent + 3], false);
        flow.on_lost(now + round, [sent + 5], false);
        assert_eq!(flow.window(), window / 2, "once a round trip");
        flow.on_lost(now + round * 5, [sent + 6], true);
        assert_eq!(flow.window(), MTU);
    }
}
