//! Packets that a viewer missed and that wait to be sent again.
//!
//! A viewer that lost a burst asks for all of the burst at once. At line rate the packets would
//! overrun the same buffer on the path again, so they leave as frames do: at the rate of congestion
//! control, or spread over some milliseconds.

use std::time::{Duration, Instant};

use glassline_congestion::PathSigns;
use glassline_hub::Stream;
use glassline_media::{Kind, TrackLayer};
use glassline_webrtc::{SenderIndex, Session};

use super::repair_queue::Repair;
use super::{SendCounters, StreamSender};
use crate::webrtc::outbox::{Batch, Sink};
use crate::webrtc::track_sender::SentPacket;

/// Share of packets that a path loses whatever is sent, from which on a repair is sent twice, so that
/// the loss of a repair costs no further round trip. With less, a video has less than one such a minute.
const COPIED_LOSS: f64 = 0.01;

/// Queue from which on a copy would only add to the load.
const COPIED_QUEUE_MAX: Duration = Duration::from_millis(30);

/// Packets that a viewer reports missing (RFC 4585 §6.2.1).
#[derive(Clone, Copy, Debug)]
pub struct Nack<'a> {
    /// Index of the sender in the session.
    pub sender: SenderIndex,
    /// Extended sequence numbers of the missing packets.
    pub lost: &'a [u64],
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
        let left = credit.map_or(u64::MAX, |it| it.saturating_sub(sent_again));
        self.repairs.note_sent(sent_again, left);
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
