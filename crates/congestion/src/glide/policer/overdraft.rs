//! Proof that a policer's rate is higher than assumed, from what arrived.

use std::time::Instant;

/// The most bytes that arrived in any time up to now beyond what a rate passes in that time.
///
/// Time in which nothing is sent takes nothing from the proof: a sender with pauses proves a higher rate
/// by what passes between them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Overdraft {
    bytes: f64,
    /// When the newest packet was sent that arrived.
    sent: Option<Instant>,
}

impl Overdraft {
    /// Records that `bytes` arrived that were sent at `sent`; packets that were overtaken count as
    /// sent together with the newest. `rate`: bytes/s that are assumed.
    pub(super) fn on_arrived(&mut self, sent: Instant, bytes: f64, rate: f64) {
        let before = self.sent.unwrap_or(sent);
        let seconds = sent.saturating_duration_since(before).as_secs_f64();
        self.bytes = (self.bytes - seconds * rate).max(0.0) + bytes;
        self.sent = Some(sent.max(before));
    }

    /// Returns the bytes, of which a bucket may have passed as many as it holds.
    pub(super) const fn bytes(&self) -> f64 {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn pauses_take_nothing_from_what_passed_between_them() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut overdraft = Overdraft::default();
        let near = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-6, "{found}");
        // Twice the rate of 1,000 bytes/s for half a second.
        for ms in (0..500).step_by(50) {
            overdraft.on_arrived(at(ms), 100.0, 1_000.0);
        }
        near(overdraft.bytes(), 550.0);
        // A packet that was overtaken.
        overdraft.on_arrived(at(100), 100.0, 1_000.0);
        near(overdraft.bytes(), 650.0);
        // After ten seconds nothing is left but the packet itself.
        overdraft.on_arrived(at(10_500), 100.0, 1_000.0);
        near(overdraft.bytes(), 100.0);
    }
}
