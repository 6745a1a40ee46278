//! The packets of a viewer that wait to be sent again, and those that left and soon leave once more.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::MediaUnit;
use glassline_rtp::rtx::OVERHEAD_BYTES;
use glassline_webrtc::SenderIndex;

use super::packet_bytes;
use crate::webrtc::track_sender::{LegNumber, SentPacket};

/// Most repairs of a viewer that wait: as many as one [`Event::Nack`](glassline_webrtc::Event::Nack)
/// names.
const WAITING_MAX: usize = 256;

/// Time from a repair to its copy: a radio loses all packets of a moment.
const COPY_AFTER: Duration = Duration::from_millis(20);

/// Longest time that a repair waits. The viewer asks again after a round trip, and soon has no use
/// for the packet any more.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// A packet that is to be sent again.
#[derive(Clone, Debug)]
pub(super) struct Repair {
    /// Index of the sender in the session.
    pub(super) sender: SenderIndex,
    /// Extended sequence number under which the packet left first.
    pub(super) sequence: u64,
    /// The unit that has the packet.
    pub(super) unit: Arc<MediaUnit>,
    /// Leg on which the viewer got the unit.
    pub(super) leg: LegNumber,
    /// Index of the packet in the unit.
    pub(super) index: usize,
    /// Time at which the viewer asked.
    pub(super) asked: Instant,
    /// Whether the packet was sent again already.
    pub(super) is_copy: bool,
}

impl Repair {
    pub(super) fn packet(&self) -> SentPacket {
        SentPacket {
            leg: self.leg,
            packet: self.unit.first_packet + self.index as u64,
        }
    }

    /// Returns the size of the packet with what sealing and RTX add, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        packet_bytes(&self.unit, self.index) + OVERHEAD_BYTES as u64
    }
}

/// Most bytes that may be sent again at once without congestion control: what one request names.
const CREDIT_MAX: u64 = WAITING_MAX as u64 * 1_300;

/// Share of what is sent that may be sent again beside it without congestion control, as a divisor. More
/// would only add to the load of a path that loses so much.
const CREDIT_DIVISOR: u64 = 2;

/// The repairs of one viewer, at most [`WAITING_MAX`], in the order in which the viewer asked.
#[derive(Debug, Default)]
pub(super) struct Repairs {
    waiting: VecDeque<Repair>,
    /// Repairs that left a moment ago and that leave once more, in the order of time.
    copies: VecDeque<Copied>,
    /// Bytes that were sent for the first time when `used` was last brought up to date.
    sent: u64,
    /// Bytes of the credit that were sent again.
    used: u64,
    /// Whether the next repair waits until more was sent for the first time.
    lacks_credit: bool,
    /// Whether a repair was the last that left.
    had_turn: bool,
}

/// A repair that leaves once more.
#[derive(Clone, Debug)]
struct Copied {
    due: Instant,
    repair: Repair,
}

impl Repairs {
    /// Returns whether no repair waits; copies wait for their time only.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns whether a repair or a copy may leave at `now`, as far as its time decides.
    #[inline]
    pub(super) fn are_due(&self, now: Instant) -> bool {
        !self.is_empty() || self.copy_at().is_some_and(|at| at <= now)
    }

    /// Returns when the next copy leaves.
    #[inline]
    pub(super) fn copy_at(&self) -> Option<Instant> {
        self.copies.front().map(|it| it.due)
    }

    /// Has a repair that left at `now` leave once more, unless too many wait.
    pub(super) fn copy(&mut self, repair: Repair, now: Instant) {
        if self.copies.len() < WAITING_MAX {
            let due = now + COPY_AFTER;
            self.copies.push_back(Copied { due, repair });
        }
    }

    /// Moves the copies that are due behind the repairs that wait.
    pub(super) fn release_copies(&mut self, now: Instant) {
        while self.copy_at().is_some_and(|due| due <= now)
            && let Some(Copied { repair, .. }) = self.copies.pop_front()
        {
            self.push(Repair {
                asked: now,
                is_copy: true,
                ..repair
            });
        }
    }

    /// Returns the repair that leaves next at some time, and not only once more was sent.
    pub(super) fn timed(&self) -> Option<&Repair> {
        self.front().filter(|_| !self.lacks_credit)
    }

    /// Returns whether the next that leaves is a repair. `may_leave`: whether a repair of so many bytes waits for
    /// the rate alone. Repairs and media take turns, because smaller packets of newer frames would always take
    /// the bytes that a large repair waits for.
    pub(super) fn are_next(&self, may_leave: impl FnOnce(u64) -> bool) -> bool {
        !self.had_turn && self.front().is_some_and(|it| may_leave(it.bytes()))
    }

    /// Notes that `bytes` of repairs left together, and that `credit` more bytes may leave.
    pub(super) fn note_sent(&mut self, bytes: u64, credit: u64) {
        self.had_turn |= bytes > 0;
        self.used += bytes;
        self.lacks_credit = self.front().is_some_and(|it| it.bytes() > credit);
    }

    /// Notes that media left.
    pub(super) const fn yield_turn(&mut self) {
        self.had_turn = false;
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns whether no more repairs may wait.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Returns whether this packet of `sender` waits already.
    pub(super) fn contains(&self, sender: SenderIndex, sequence: u64) -> bool {
        let mut waiting = self.waiting.iter();
        waiting.any(|it| (it.sender, it.sequence) == (sender, sequence))
    }

    /// Has a repair wait behind the others, unless there are too many; returns whether it does.
    pub(super) fn push(&mut self, repair: Repair) -> bool {
        let has_room = !self.is_full();
        if has_room {
            self.waiting.push_back(repair);
        }
        has_room
    }

    /// Returns the repair that leaves next.
    pub(super) fn front(&self) -> Option<&Repair> {
        self.waiting.front()
    }

    /// Takes the repair that leaves next.
    pub(super) fn pop(&mut self) -> Option<Repair> {
        self.waiting.pop_front()
    }

    /// Returns the bytes that may be sent again without congestion control. `sent`: bytes that were
    /// sent for the first time so far.
    pub(super) fn credit(&mut self, sent: u64) -> u64 {
        let earned = sent.saturating_sub(self.sent) / CREDIT_DIVISOR;
        self.sent = sent;
        self.used = self.used.saturating_sub(earned);
        CREDIT_MAX.saturating_sub(self.used)
    }

    /// Drops the repairs that waited too long, and returns their number.
    pub(super) fn drop_overdue(&mut self, now: Instant) -> usize {
        let is_overdue = |it: &Repair| now.saturating_duration_since(it.asked) > WAIT_MAX;
        // They are in the order of time.
        let overdue = self.waiting.partition_point(is_overdue);
        self.waiting.drain(..overdue);
        overdue
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};

    fn repair(sequence: u64, asked: Instant) -> Repair {
        let mut builder = UnitBuilder::default();
        builder.push(b"one");
        builder.push(b"two");
        let time = MediaTime::from_nanos(0);
        let unit = builder.build(TrackIndex(0), time, true, Stamps::arrived(asked));
        let mut unit = unit.expect("packets");
        unit.first_packet = 70;
        Repair {
            sender: SenderIndex(0),
            sequence,
            unit: Arc::new(unit),
            leg: LegNumber::default(),
            index: 1,
            asked,
            is_copy: false,
        }
    }

    #[test]
    fn repairs_leave_in_the_order_in_which_they_were_asked_for() {
        let now = Instant::now();
        let mut repairs = Repairs::default();
        assert!(repairs.is_empty() && repairs.front().is_none());
        for sequence in [9, 4] {
            assert!(repairs.push(repair(sequence, now)));
        }
        assert!(repairs.contains(SenderIndex(0), 4) && !repairs.contains(SenderIndex(1), 4));
        assert!(!repairs.contains(SenderIndex(0), 5));
        assert_eq!(repairs.front().map(|it| it.packet().packet), Some(71));
        let order = [repairs.pop(), repairs.pop(), repairs.pop()];
        let order = order.map(|it| it.map(|it| it.sequence));
        assert_eq!(order, [Some(9), Some(4), None]);
    }

    #[test]
    fn a_copy_waits_for_its_time_and_is_not_copied_again() {
        let now = Instant::now();
        let mut repairs = Repairs::default();
        repairs.copy(repair(9, now), now);
        assert_eq!(repairs.copy_at(), Some(now + COPY_AFTER));
        repairs.release_copies(now + COPY_AFTER / 2);
        assert!(repairs.is_empty());
        repairs.release_copies(now + COPY_AFTER);
        let copy = repairs.pop().expect("it is due");
        assert!(copy.is_copy && copy.sequence == 9 && repairs.copy_at().is_none());
        for sequence in 0..=WAITING_MAX as u64 {
            repairs.copy(repair(sequence, now), now);
        }
        assert_eq!(repairs.copies.len(), WAITING_MAX);
    }

    #[test]
    fn as_many_wait_as_one_request_names() {
        let now = Instant::now();
        let mut repairs = Repairs::default();
        for sequence in 0..WAITING_MAX as u64 {
            assert!(!repairs.is_full());
            assert!(repairs.push(repair(sequence, now)));
        }
        assert!(repairs.is_full());
        assert!(!repairs.push(repair(1_000, now)));
        assert_eq!(repairs.len(), WAITING_MAX);
        assert!(!repairs.contains(SenderIndex(0), 1_000));
    }

    #[test]
    fn without_congestion_control_half_of_what_is_sent_may_be_sent_again() {
        let mut repairs = Repairs::default();
        assert_eq!(repairs.credit(0), CREDIT_MAX);
        repairs.used += CREDIT_MAX;
        assert_eq!(repairs.credit(0), 0);
        assert_eq!(repairs.credit(10_000), 5_000);
        repairs.used += 5_000;
        assert_eq!(repairs.credit(10_000), 0, "what was earned counts once");
        assert_eq!(repairs.credit(10_000_000), CREDIT_MAX);
    }

    #[test]
    fn a_repair_waits_200_ms() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut repairs = Repairs::default();
        for (sequence, ms) in [(1, 0), (2, 0), (3, 1)] {
            repairs.push(repair(sequence, at(ms)));
        }
        assert_eq!(repairs.drop_overdue(at(200)), 0);
        assert_eq!(repairs.drop_overdue(at(201)), 2);
        assert_eq!(repairs.front().map(|it| it.sequence), Some(3));
        assert_eq!(repairs.drop_overdue(at(900)), 1);
        assert!(repairs.is_empty());
    }

    #[test]
    fn repairs_and_media_take_turns() {
        let now = Instant::now();
        let mut repairs = Repairs::default();
        assert!(!repairs.are_next(|_| true), "none waits");
        repairs.push(repair(9, now));
        let bytes = repairs.front().map_or(0, Repair::bytes);
        assert!(repairs.are_next(|it| it == bytes) && !repairs.are_next(|_| false));
        repairs.note_sent(bytes, u64::MAX);
        assert!(!repairs.are_next(|_| true), "media is next");
        repairs.yield_turn();
        assert!(repairs.are_next(|_| true));
    }
}
