//! The timers of the sending half: loss detection, tail probe, T3 (RFC 9260 §6.3, RFC 8985),
//! and the repetition of FORWARD TSN (RFC 3758).

use std::time::Instant;

use super::Sender;
use super::recovery::ExpiredTimer;

impl Sender {
    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let timers = [self.recovery.deadline(), self.forward.deadline()];
        timers.into_iter().flatten().min()
    }

    /// Handles the timers that ran out.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        self.allowance = None;
        match self.recovery.due(now) {
            Some(ExpiredTimer::Losses) => self.detect(now),
            Some(ExpiredTimer::Probe) => {
                let trips = self.flow.round_trips();
                self.recovery.on_probe(now, trips);
                if self.peer.a_rwnd > 0 {
                    self.probe.is_due = true;
                }
            }
            Some(ExpiredTimer::Timeout) => self.time_out(now),
            None => {}
        }
        if self.partial_reliability {
            self.forward.advance(&self.outstanding);
            self.forward.handle_timeout(now);
        }
    }

    /// Handles the T3 timer.
    fn time_out(&mut self, now: Instant) {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        let trips = self.flow.round_trips();
        self.recovery
            .time_out(now, &self.outstanding, trips, &mut found);
        if self.peer.a_rwnd > 0 {
            self.counts.timeouts += 1;
        }
        let silent = self.flow.controller().timeouts_until_persistent();
        let persistent = self.recovery.timeouts() >= silent;
        self.on_lost_chunks(&found, persistent, now);
        self.found = found;
    }
}
