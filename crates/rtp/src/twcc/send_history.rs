use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::SequenceExtender;
use crate::rtcp::{StatusRun, TICKS_PER_REFERENCE, TransportFeedback};

/// The packets that a sender has sent and that feedback has not acknowledged yet.
///
/// The history takes 8 bytes per packet in flight and keeps at most 4096 packets. A packet
/// without feedback is dropped when it is the oldest beyond that.
#[derive(Clone, Debug, Default)]
pub struct SendHistory {
    epoch: Option<Instant>,
    /// Packets `start + index`.
    sent: VecDeque<Sent>,
    start: u64,
    /// First packet that no feedback has described yet.
    undescribed: u64,
    /// Extended reference time of the last feedback, in units of 64 ms.
    reference: Option<i64>,
}

/// The report of a feedback packet about one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Transport sequence number, extended.
    pub sequence: u64,
    /// Size that was passed to [`SendHistory::sent`].
    pub bytes: u16,
    /// Instant at which the packet was sent, to the microsecond.
    pub sent: Instant,
    /// Arrival in ticks of 250 µs by the receiver's clock, of which only differences are
    /// meaningful; `None` if the packet is reported missing. A missing packet that was only
    /// late is acknowledged again when it arrives.
    pub arrival: Option<i64>,
}

/// Summary of one feedback packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedbackSummary {
    /// Number of packets newly reported as arrived.
    pub acked: usize,
    /// Size of those packets in bytes.
    pub acked_bytes: usize,
    /// Number of packets newly reported missing.
    pub lost: usize,
    /// Time from sending the newest acknowledged packet until now: the round trip plus the time
    /// for which the receiver held the feedback back, up to its interval.
    pub rtt: Option<Duration>,
}

impl FeedbackSummary {
    /// Counts what the feedback newly says of a packet.
    fn count(&mut self, settled: &Settled) {
        if settled.arrival.is_some() {
            self.acked += 1;
            self.acked_bytes += usize::from(settled.bytes);
            self.rtt = Some(settled.age);
        } else {
            self.lost += 1;
        }
    }
}

impl SendHistory {
    /// Creates an empty history.
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that packet `sequence` of `bytes` bytes was sent. `sequence` is extended and
    /// rises by one per packet; its low 16 bits are on the wire. Numbers that are skipped count
    /// as never sent.
    pub fn sent(&mut self, sequence: u64, now: Instant, bytes: usize) {
        let epoch = *self.epoch.get_or_insert(now);
        if self.sent.is_empty() || sequence >= self.end() + PACKETS_MAX as u64 {
            self.sent.clear();
            self.start = sequence;
            self.undescribed = self.undescribed.max(sequence);
        }
        if sequence < self.end() {
            return;
        }
        while self.end() < sequence {
            self.sent.push_back(Sent::DONE);
        }
        let since = now.saturating_duration_since(epoch);
        self.sent.push_back(Sent {
            at_us: since.as_micros() as u32,
            bytes: u16::try_from(bytes).unwrap_or(u16::MAX),
            state: State::InFlight,
        });
        while self.sent.len() > PACKETS_MAX {
            self.drop_first();
        }
    }

    /// Records that packet `sequence` was sent again under the same number. Feedback can no longer
    /// tell which of both arrived, so what it says next of the packet is reported as a loss of the
    /// first: a round trip from an unknown sending would be wrong (Karn's rule, RFC 6298 §3).
    pub fn sent_again(&mut self, sequence: u64) {
        let index = sequence.checked_sub(self.start);
        let index = index.and_then(|index| usize::try_from(index).ok());
        let Some(sent) = index.and_then(|index| self.sent.get_mut(index)) else {
            return;
        };
        sent.state = match sent.state {
            State::InFlight => State::SentAgain,
            // The loss was reported already, and an arrival would be no news of it.
            State::Lost => State::Done,
            known => known,
        };
    }

    /// Joins feedback with the packets sent. Appends to `out` what the feedback newly reports
    /// of packets that are still kept.
    ///
    /// A packet counts as missing by the first feedback that describes it. What later ones say
    /// of packets before that matters only where they arrived. The work thereby follows the bytes
    /// of the feedback and the packets sent since the last one, not the 65,535 packets that 40
    /// bytes can claim.
    pub fn on_feedback(
        &mut self,
        feedback: &TransportFeedback<'_>,
        now: Instant,
        out: &mut Vec<Acknowledgement>,
    ) -> FeedbackSummary {
        let mut summary = FeedbackSummary::default();
        let (Some(epoch), Some(last)) = (self.epoch, self.end().checked_sub(1)) else {
            return summary;
        };
        let base = SequenceExtender::near(last, feedback.base_sequence);
        let reference = self.extend_reference(feedback.reference_time) * TICKS_PER_REFERENCE;
        let now_us = now.saturating_duration_since(epoch).as_micros() as u32;
        let mut next = base;
        for run in feedback.runs() {
            let (first, end) = (next, next + u64::from(run.count()));
            next = end;
            let (of_interest, arrival) = match run {
                StatusRun::Missing(_) => (first.max(self.undescribed)..end.min(self.end()), None),
                StatusRun::Arrived(ticks) => (first..end, Some(ticks)),
            };
            for sequence in of_interest {
                let Some(settled) = self.settle(sequence, arrival, now_us) else {
                    continue;
                };
                summary.count(&settled);
                out.push(Acknowledgement {
                    sequence,
                    bytes: settled.bytes,
                    sent: now.checked_sub(settled.age).unwrap_or(now),
                    arrival: settled.arrival.map(|ticks| reference + i64::from(ticks)),
                });
            }
        }
        self.undescribed = self.undescribed.max(next.min(self.end()));
        while self
            .sent
            .front()
            .is_some_and(|sent| sent.state == State::Done)
        {
            self.drop_first();
        }
        summary
    }

    /// Number of packets that are kept, acknowledged or not.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Reads a part of what sending and feedback read, to load the memory into the processor's cache. The
    /// returned number has no meaning.
    pub fn prefetch(&self) -> u64 {
        let time = |it: Option<&Sent>| it.map_or(0, |it| it.at_us);
        u64::from(time(self.sent.front()) ^ time(self.sent.back()))
    }

    /// Returns whether no packet waits for feedback.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Marks a packet as arrived or lost. Returns what is new of the packet, if the feedback
    /// changes its state. `arrival`: as the feedback has it, in ticks.
    fn settle(&mut self, sequence: u64, arrival: Option<i32>, now_us: u32) -> Option<Settled> {
        let index = usize::try_from(sequence.checked_sub(self.start)?).ok()?;
        let sent = self.sent.get_mut(index)?;
        let (state, arrival) = match (sent.state, arrival) {
            (State::InFlight, None) => (State::Lost, None),
            (State::InFlight | State::Lost, Some(ticks)) => (State::Done, Some(ticks)),
            (State::SentAgain, _) => (State::Done, None),
            (State::Lost, None) | (State::Done, _) => return None,
        };
        sent.state = state;
        let age = Duration::from_micros(u64::from(now_us.wrapping_sub(sent.at_us)));
        Some(Settled {
            bytes: sent.bytes,
            age,
            arrival,
        })
    }

    /// Extends a reference time to the nearest one of the previous: the field wraps after 24
    /// bits.
    fn extend_reference(&mut self, reference: i32) -> i64 {
        let wide = match self.reference {
            None => i64::from(reference),
            Some(last) => {
                let distance = (i64::from(reference) - last) << 40 >> 40;
                last + distance
            }
        };
        self.reference = Some(wide);
        wide
    }

    fn end(&self) -> u64 {
        self.start + self.sent.len() as u64
    }

    fn drop_first(&mut self) {
        self.sent.pop_front();
        self.start += 1;
    }
}

/// A packet in the history; eight bytes, since thousands of viewers have a history each.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Microseconds after the epoch. They wrap after 71 minutes; a packet in flight is never
    /// that old.
    at_us: u32,
    bytes: u16,
    state: State,
}

/// Whether feedback has reported a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// Sent again under the same number, and not reported.
    SentAgain,
    Lost,
    Done,
}

/// The news of feedback about a packet.
#[derive(Clone, Copy, Debug)]
struct Settled {
    bytes: u16,
    /// Time since the packet was sent.
    age: Duration,
    /// Arrival in ticks after the feedback's reference time; `None` if the packet is lost.
    arrival: Option<i32>,
}

impl Sent {
    /// A packet that feedback need not describe: it was acknowledged, or never sent.
    const DONE: Self = Self {
        at_us: 0,
        bytes: 0,
        state: State::Done,
    };
}

/// Most packets that are kept: ten seconds of the reference load, one of 40 Mbit/s.
const PACKETS_MAX: usize = 4096;
