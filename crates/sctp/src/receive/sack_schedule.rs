//! Decides when SACKs leave, and how many.
//!
//! Packets that arrive together are answered together. One SACK tells everything, but many
//! senders let no more than `Max.Burst` packets go for each SACK that they receive (RFC 9260
//! §6.1, rule D: dcsctp and usrsctp, hence browsers). With one SACK for each batch, such a
//! sender never has more than a few packets in flight, waits for each answer, and wakes both
//! ends for each packet. Its SACK is therefore repeated within a batch. The SACKs remain fewer
//! than the one for every second packet that RFC 9260 §6.2 asks for.

use std::time::{Duration, Instant};

/// Packets with data after which a SACK is due (RFC 9260 §6.2).
const PACKETS_UNANSWERED: u32 = 2;
/// Packets for each SACK to a sender with a burst limit. One fewer than the usual `Max.Burst` of
/// four (RFC 9260 §16), so that the sender's data in flight can grow up to its window.
const PACKETS_PER_SACK: u32 = 3;
/// Most SACKs that leave together.
const SACKS_MAX: u32 = 32;
/// Packets for each SACK that a sender with a burst limit does not exceed for long. Beyond
/// `Max.Burst` it sends only when its application hands over messages.
const LIMITED_PACKETS_PER_SACK: u32 = 6;
/// Packets over which packets and SACKs are compared.
const WINDOW_PACKETS: u32 = 128;
/// Most packets that one read returns from a sender with a burst limit. More were sent and
/// received as segments of one large datagram, and such senders need one SACK only.
const READ_PACKETS_MAX: u32 = 32;

/// When SACKs leave, and how many.
#[derive(Debug)]
pub(super) struct SackSchedule {
    /// Time that a single packet may wait for its SACK.
    delayed_ack: Duration,
    /// Packets with data since the last SACK.
    unanswered: u32,
    /// Packets with data of the present batch.
    batch: u32,
    /// Whether the present packet has data.
    in_packet: bool,
    /// Whether a SACK is due at the end of this batch.
    urgent: bool,
    /// Number of SACKs that should leave now.
    due: u32,
    /// When a delayed SACK is due.
    at: Option<Instant>,
    /// Whether the peer seems to send a few packets for each SACK and no more.
    is_burst_limited: bool,
    /// Packets and SACKs since they were compared last.
    window: (u32, u32),
}

impl SackSchedule {
    /// Returns a schedule on which nothing is due.
    pub(super) const fn new(delayed_ack: Duration) -> Self {
        Self {
            delayed_ack,
            unanswered: 0,
            batch: 0,
            in_packet: false,
            urgent: false,
            due: 0,
            at: None,
            is_burst_limited: false,
            window: (0, 0),
        }
    }

    /// Starts anew for an association that is established now.
    pub(super) const fn restart(&mut self) {
        *self = Self::new(self.delayed_ack);
    }

    /// Notes that the present packet has data.
    pub(super) const fn note_data(&mut self) {
        self.in_packet = true;
    }

    /// Makes a SACK due at the end of this batch.
    pub(super) const fn urge(&mut self) {
        self.urgent = true;
    }

    /// Makes a SACK due at once.
    pub(super) fn request(&mut self) {
        self.due = self.due.max(1);
    }

    /// Ends a packet, whose chunks were all handled.
    pub(super) fn end_packet(&mut self) {
        if std::mem::take(&mut self.in_packet) {
            self.unanswered += 1;
            self.batch += 1;
            self.window.0 += 1;
        }
    }

    /// Ends a batch of packets that came together, and decides on SACKs. Returns whether
    /// unacknowledged data was among them.
    ///
    /// With `has_gaps` one SACK is all: some senders might take a repeated report of a gap for
    /// another sign of a loss.
    pub(super) fn end_batch(&mut self, now: Instant, has_gaps: bool) -> bool {
        let batch = std::mem::take(&mut self.batch);
        if self.urgent || self.unanswered >= PACKETS_UNANSWERED {
            let is_repeated = self.is_burst_limited && !has_gaps && batch <= READ_PACKETS_MAX;
            let count = if is_repeated {
                self.unanswered.div_ceil(PACKETS_PER_SACK)
            } else {
                1
            };
            self.due = count.clamp(1, SACKS_MAX);
        } else if self.unanswered > 0 && self.at.is_none() {
            self.at = Some(now + self.delayed_ack);
        }
        self.urgent = false;
        self.unanswered > 0
    }

    /// Whether a SACK should leave now.
    pub(super) const fn is_due(&self) -> bool {
        self.due > 0
    }

    /// Whether there is something to acknowledge.
    pub(super) const fn has_any(&self) -> bool {
        self.due > 0 || self.unanswered > 0
    }

    /// Returns when a delayed SACK is due.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.at
    }

    /// Makes a delayed SACK due if its time has come.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if self.at.is_some_and(|at| now >= at) {
            self.at = None;
            self.request();
        }
    }

    /// Notes that a SACK was written.
    pub(super) const fn on_sent(&mut self) {
        self.unanswered = 0;
        self.due = self.due.saturating_sub(1);
        self.at = None;
        self.window.1 += 1;
        let (packets, sacks) = self.window;
        if packets >= WINDOW_PACKETS {
            self.is_burst_limited = packets <= LIMITED_PACKETS_PER_SACK.saturating_mul(sacks);
            self.window = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers `batches` batches of `packets` packets each; returns the SACKs of the last one.
    fn answer(schedule: &mut SackSchedule, batches: u32, packets: u32, has_gaps: bool) -> u32 {
        let now = Instant::now();
        let mut sacks = 0;
        for _ in 0..batches {
            for _ in 0..packets {
                schedule.note_data();
                schedule.end_packet();
            }
            assert!(schedule.end_batch(now, has_gaps));
            sacks = 0;
            while schedule.is_due() {
                schedule.on_sent();
                sacks += 1;
            }
        }
        sacks
    }

    fn schedule() -> SackSchedule {
        SackSchedule::new(Duration::from_millis(20))
    }

    #[test]
    fn a_sender_of_few_packets_for_each_sack_gets_several_for_a_batch() {
        let mut limited = schedule();
        assert_eq!(
            answer(&mut limited, 1, 20, false),
            1,
            "nothing is known yet"
        );
        answer(&mut limited, 40, 4, false);
        assert_eq!(answer(&mut limited, 1, 20, false), 7);
        assert_eq!(answer(&mut limited, 1, 2, false), 1);
        assert_eq!(answer(&mut limited, 1, 20, true), 1, "a gap is told once");
        assert_eq!(
            answer(&mut limited, 1, 33, false),
            1,
            "segments of one datagram"
        );
    }

    #[test]
    fn packets_of_several_reads_are_answered_together() {
        let (mut limited, now) = (schedule(), Instant::now());
        answer(&mut limited, 40, 4, false);
        for _ in 0..30 {
            for _ in 0..10 {
                limited.note_data();
                limited.end_packet();
            }
            limited.end_batch(now, false);
        }
        assert_eq!(limited.due, SACKS_MAX, "of 300 packets");
    }

    #[test]
    fn a_sender_of_large_batches_gets_one_sack_for_each() {
        let mut unlimited = schedule();
        assert_eq!(answer(&mut unlimited, 100, 20, false), 1);
        // A sender that was slow before is known for what it is as soon as it sends much.
        let mut slow = schedule();
        answer(&mut slow, 100, 2, false);
        answer(&mut slow, 10, 58, false);
        assert_eq!(answer(&mut slow, 1, 20, false), 1);
    }
}
