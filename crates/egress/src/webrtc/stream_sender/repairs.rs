//! Packets that a viewer missed and that wait to be sent again.
//!
//! A viewer that lost a burst asks for all of the burst at once. At line rate the packets would
//! overrun the same buffer on the path again, so they leave as frames do: at the rate of congestion
//! control, or spread over some milliseconds.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::PathSigns;
use glassline_hub::Stream;
use glassline_media::{Kind, MediaUnit, TrackLayer};
use glassline_rtp::rtx::OVERHEAD_BYTES;
use glassline_webrtc::{SenderIndex, Session};

use super::{SendCounters, StreamSender, packet_bytes};
use crate::webrtc::outbox::{Batch, Sink};
use crate::webrtc::track_sender::{LegNumber, SentPacket};

/// Most repairs of a viewer that wait: as many as one [`Event::Nack`](glassline_webrtc::Event::Nack)
/// names.
const WAITING_MAX: usize = 256;

/// Share of packets that a path loses whatever is sent, from which on a repair is sent twice, so that
/// the loss of a repair costs no further round trip. With less, a video has less than one such a minute.
const COPIED_LOSS: f64 = 0.01;

/// Queue from which on a copy would only add to the load.
const COPIED_QUEUE_MAX: Duration = Duration::from_millis(30);

/// Time from a repair to its copy: a radio loses all packets of a moment.
const COPY_AFTER: Duration = Duration::from_millis(20);

/// Longest time that a repair waits. The viewer asks again after a round trip, and soon has no use
/// for the packet any more.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Packets that a viewer reports missing (RFC 4585 §6.2.1).
#[derive(Clone, Copy, Debug)]
pub struct Nack<'a> {
    /// Index of the sender in the session.
    pub sender: SenderIndex,
    /// Extended sequence numbers of the missing packets.
    pub lost: &'a [u64],
}

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
    fn packet(&self) -> SentPacket {
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
    fn copy(&mut self, repair: Repair, now: Instant) {
        if self.copies.len() < WAITING_MAX {
            let due = now + COPY_AFTER;
            self.copies.push_back(Copied { due, repair });
        }
    }

    /// Has the copies wait that are due.
    fn release_copies(&mut self, now: Instant) {
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

    /// Returns whether a repair leaves next, which `may_leave` as soon as the rate allows for its bytes. Smaller
    /// packets of newer frames would always take what a large repair waits for, so that both take turns.
    pub(super) fn are_next(&self, may_leave: impl FnOnce(u64) -> bool) -> bool {
        !self.had_turn && self.front().is_some_and(|it| may_leave(it.bytes()))
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
    fn credit(&mut self, sent: u64) -> u64 {
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

impl StreamSender {
    /// Queues the packets that the viewer reports as missing, to be sealed anew from the hub's
    /// shared ring. A packet that waits already is not queued twice.
    pub fn repair(
        &mut self,
        stream: &Stream,
        Nack { sender, lost }: Nack<'_>,
        now: Instant,
        counters: &SendCounters,
    ) {
        let mut tracks = self.tracks.iter_mut();
        let Some(track_sender) = tracks.find(|it| it.sender == sender) else {
            return;
        };
        if let Some(ramp) = self.ramp.as_mut().filter(|_| !lost.is_empty()) {
            ramp.on_loss(now);
        }
        for &sequence in lost {
            if self.repairs.contains(sender, sequence) {
                continue;
            }
            let packet = track_sender.packet_of(sequence);
            let is_given_up = packet.is_some_and(|packet| track_sender.is_given_up(packet));
            if is_given_up || self.repairs.is_full() {
                counters.dropped_repairs.add(1);
                continue;
            }
            let found = packet.and_then(|SentPacket { leg, packet }| {
                let layer = TrackLayer {
                    layer: track_sender.leg(leg)?.layer(),
                    ..track_sender.source
                };
                Some((stream.find(layer, packet)?, leg))
            });
            let Some(((unit, index), leg)) = found else {
                counters.unrepairable.add(1);
                continue;
            };
            if track_sender.needs_no_more(unit.temporal) {
                counters.dropped_repairs.add(1);
                continue;
            }
            self.repairs.push(Repair {
                sender,
                sequence,
                unit,
                leg,
                index,
                asked: now,
                is_copy: false,
            });
        }
    }

    /// Seals the packets that may be sent again at `now`.
    #[cold]
    pub(super) fn send_repairs<S: Sink>(
        &mut self,
        session: &mut Session,
        batch: &mut Batch<'_, S>,
        now: Instant,
        counters: &SendCounters,
    ) {
        self.repairs.release_copies(now);
        // The end of a queue drops packets, too.
        let is_queued = |it: PathSigns| it.standing >= COPIED_QUEUE_MAX;
        let copies =
            session.loss_floor() >= COPIED_LOSS && !session.path_signs(now).is_some_and(is_queued);
        let overdue = self.repairs.drop_overdue(now);
        counters.dropped_repairs.add(overdue as u64);
        let waiting = self.repairs.len();
        let budget = session.repair_budget(now);
        let is_paced = budget.is_none();
        let most = match budget {
            None => self.pacer.allowance(waiting, now),
            Some(_) => waiting,
        };
        let sent = session.senders().iter().map(|it| it.counts().payload_bytes);
        let credit = is_paced.then(|| self.repairs.credit(sent.sum()));
        let ramp = self.ramp.as_ref().map(|it| it.allowance(now));
        let bounds = [budget, credit, ramp.filter(|_| is_paced)];
        let mut budget = bounds.into_iter().flatten().min().unwrap_or(u64::MAX);
        let (mut count, mut sent_again) = (0, 0);
        while count < most {
            let bytes = self.repairs.front().map_or(0, Repair::bytes);
            if budget < bytes {
                break;
            }
            let Some(repair) = self.repairs.pop() else {
                break;
            };
            if self.send_again(&repair, session, batch, now, counters) {
                budget -= bytes;
                sent_again += bytes;
                if let Some(ramp) = &mut self.ramp {
                    ramp.sent(bytes, now);
                }
                count += 1;
                if copies && !repair.is_copy {
                    self.repairs.copy(repair, now);
                }
            }
        }
        self.repairs.had_turn |= count > 0;
        self.repairs.used += sent_again;
        let left = credit.map_or(u64::MAX, |it| it.saturating_sub(sent_again));
        self.repairs.lacks_credit = self.repairs.front().is_some_and(|it| it.bytes() > left);
        // A few repairs do not hold the frame back that comes next.
        if is_paced && count > 0 && !self.repairs.is_empty() {
            self.pacer.sent(count, waiting, now);
        }
    }

    /// Seals one packet again; returns false if the viewer has no use for the packet any more.
    fn send_again<S: Sink>(
        &mut self,
        repair: &Repair,
        session: &mut Session,
        batch: &mut Batch<'_, S>,
        now: Instant,
        counters: &SendCounters,
    ) -> bool {
        let mut tracks = self.tracks.iter_mut();
        let track_sender = tracks.find(|it| it.sender == repair.sender);
        let found = track_sender.and_then(|it| {
            let is_useless =
                it.is_given_up(repair.packet()) || it.needs_no_more(repair.unit.temporal);
            let leg = it.leg(repair.leg).filter(|_| !is_useless)?;
            Some((it, leg))
        });
        let Some((track_sender, leg)) = found else {
            counters.dropped_repairs.add(1);
            return false;
        };
        let (unit, sequence) = (&repair.unit, repair.sequence);
        let Some(payload) = unit.payload(repair.index) else {
            return false;
        };
        let payload = self
            .moved
            .payload(track_sender.codec(), payload, leg.number_shift());
        let timestamp = track_sender.timestamp(unit, &leg);
        let marker = unit.marker(repair.index) && track_sender.kind() == Kind::Video;
        let sender = repair.sender;
        batch.push(|out| {
            let sealed =
                session.seal_retransmission(sender, sequence, timestamp, marker, payload, now, out);
            let sent = u64::from(sealed.is_some());
            counters.retransmissions.add(sent);
            sealed.unwrap_or(0)
        });
        true
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
}
