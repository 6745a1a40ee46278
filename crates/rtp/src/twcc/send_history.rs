use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::SequenceExtender;
use crate::rtcp::{TICKS_PER_REFERENCE, TransportFeedback};

/// What was sent and is not yet acknowledged, at the sender.
///
/// Memory: 8 bytes a packet in flight, at most 4096 packets. A packet whose
/// feedback never came is forgotten when it falls out of that.
#[derive(Clone, Debug, Default)]
pub struct SendHistory {
    epoch: Option<Instant>,
    /// Packet `start + index`.
    sent: VecDeque<Sent>,
    start: u64,
    /// Wide reference time of the last feedback, in its unit.
    reference: Option<i64>,
}

/// What feedback says of one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Acknowledgement {
    /// Transport sequence number, wide.
    pub sequence: u64,
    /// Bytes given to [`SendHistory::sent`].
    pub bytes: u16,
    /// When it was sent, to the microsecond.
    pub sent: Instant,
    /// When it arrived, in ticks of 250 µs on the receiver's clock (only
    /// differences mean anything); `None` if it is reported missing. A missing
    /// one that is only late is acknowledged again when it arrives.
    pub arrival: Option<i64>,
}

/// What one feedback packet says on the whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedbackSummary {
    /// Packets newly known to have arrived.
    pub acked: usize,
    /// Their bytes.
    pub acked_bytes: usize,
    /// Packets newly reported missing.
    pub lost: usize,
    /// From sending the newest packet acknowledged until now: the round trip
    /// plus the time the receiver held the feedback back (up to its interval).
    pub rtt: Option<Duration>,
}

impl SendHistory {
    /// Nothing sent yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that packet `sequence` of `bytes` bytes was sent. Numbers rise by
    /// one, wide; the low 16 bits are on the wire. A gap is taken as packets
    /// that were never sent.
    pub fn sent(&mut self, sequence: u64, now: Instant, bytes: usize) {
        let epoch = *self.epoch.get_or_insert(now);
        if self.sent.is_empty() || sequence >= self.end() + PACKETS_MAX as u64 {
            self.sent.clear();
            self.start = sequence;
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

    /// Joins feedback with what was sent; appends to `out` what it newly says
    /// of packets still remembered.
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
        for (sequence, (_, arrival)) in (base..).zip(feedback.statuses()) {
            let Some(bytes_and_age) = self.settle(sequence, arrival.is_some(), now_us) else {
                continue;
            };
            let (bytes, age) = bytes_and_age;
            if arrival.is_some() {
                summary.acked += 1;
                summary.acked_bytes += usize::from(bytes);
                summary.rtt = Some(age);
            } else {
                summary.lost += 1;
            }
            out.push(Acknowledgement {
                sequence,
                bytes,
                sent: now.checked_sub(age).unwrap_or(now),
                arrival: arrival.map(|ticks| reference + i64::from(ticks)),
            });
        }
        while self
            .sent
            .front()
            .is_some_and(|sent| sent.state == State::Done)
        {
            self.drop_first();
        }
        summary
    }

    /// Packets remembered, acknowledged or not.
    pub fn len(&self) -> usize {
        self.sent.len()
    }

    /// Nothing waits for feedback.
    pub fn is_empty(&self) -> bool {
        self.sent.is_empty()
    }

    /// Marks a packet; its bytes and age if that is news.
    fn settle(&mut self, sequence: u64, arrived: bool, now_us: u32) -> Option<(u16, Duration)> {
        let index = usize::try_from(sequence.checked_sub(self.start)?).ok()?;
        let sent = self.sent.get_mut(index)?;
        let state = if arrived { State::Done } else { State::Lost };
        let news = match sent.state {
            State::InFlight => true,
            State::Lost => arrived,
            State::Done => false,
        };
        if !news {
            return None;
        }
        sent.state = state;
        let age = Duration::from_micros(u64::from(now_us.wrapping_sub(sent.at_us)));
        Some((sent.bytes, age))
    }

    /// The reference time nearest to the last one: it wraps after 24 bits.
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

/// Eight bytes, since thousands of viewers keep theirs.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Microseconds after the epoch, wrapping after 71 minutes; a packet in
    /// flight is never that old.
    at_us: u32,
    bytes: u16,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    Lost,
    Done,
}

impl Sent {
    const DONE: Self = Self {
        at_us: 0,
        bytes: 0,
        state: State::Done,
    };
}

/// Ten seconds of the reference load, one of 40 Mbit/s.
const PACKETS_MAX: usize = 4096;
