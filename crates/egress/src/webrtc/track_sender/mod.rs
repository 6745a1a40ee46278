//! Sends one track to one viewer: chooses the unit that comes next, and keeps the RTP timestamps
//! and sequence numbers under which the viewer knows what it got.
//!
//! ```text
//! units of the layer that the viewer gets ──────► offer ──► queue ─► front, advance
//! keyframe of the layer that it shall get next ─► cross ──┘ a new leg
//! ```

mod keyframe_asks;
mod lateness;
mod legs;
mod limits;
mod repeat;
mod sent;
mod skipping;
mod thinning;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Kind, MediaTime, MediaUnit, TrackLayer};
use glassline_rtp::payload::{FrameNumbers, NumberShift, is_recovery_point};
use glassline_webrtc::{SenderIndex, Session};

use super::redundancy::Redundancy;

use keyframe_asks::KeyframeAsks;
use lateness::Lateness;
use legs::{Entry, Legs};
pub(crate) use legs::{Leg, LegNumber};
pub(crate) use limits::LayerMove;
pub(super) use limits::SendLimits;
use limits::{CATCH_UP_BYTES_MAX, FAR_APART_NS};
use repeat::{LastLeft, Repeatable};
pub(crate) use sent::SentPacket;
use sent::SentPackets;
use thinning::Thinning;

/// Time that a viewer has to get the frames before its live point. Live frames wait meanwhile.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// Sends one track to one viewer.
#[derive(Debug)]
pub(super) struct TrackSender {
    /// Track of the stream, and the layer of it that the viewer gets.
    pub source: TrackLayer,
    /// Layer to which the viewer moves at the layer's next keyframe.
    target: Option<LayerMove>,
    /// Index of the sender in the session.
    pub sender: SenderIndex,
    codec: Codec,
    clock_rate: u32,
    /// RTP timestamp of media time zero.
    timestamp_base: u32,
    /// Index of the unit that comes next; `None` before the start.
    next: Option<u64>,
    /// Whether nothing can be decoded before the next keyframe.
    wants_keyframe: bool,
    asks: KeyframeAsks,
    lateness: Lateness,
    /// First packet of the keyframe to which the viewer skipped last. What left before is not sent
    /// again.
    resumed_at: SentPacket,
    legs: Legs,
    /// Latest media time that the viewer is shown, of the units that left or wait.
    latest: MediaTime,
    /// Until when the viewer may take to reach its live point; `None` once it has.
    catching_up: Option<Instant>,
    limits: SendLimits,
    thinning: Thinning,
    queue: VecDeque<Queued>,
    sent: SentPackets,
    left: LastLeft,
    /// Adds copies of earlier packets, if the viewer prefers redundant audio.
    pub redundancy: Option<Box<Redundancy>>,
}

/// A unit that waits as a whole or in part.
#[derive(Clone, Debug)]
pub(crate) struct Queued {
    pub unit: Arc<MediaUnit>,
    /// Leg on which the viewer gets the unit.
    pub leg: LegNumber,
    /// Time since which the shard has held the unit.
    pub read_at: Instant,
    /// Number of packets that left already.
    pub sent: usize,
}

/// The result of [`TrackSender::offer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfferOutcome {
    /// The unit waits to be sent.
    Queued,
    /// The unit is not sent: it came before the viewer's start, or cannot be decoded yet.
    Passed,
    /// The unit and waiting ones were dropped, because the viewer is too slow.
    Skipped {
        /// Number of dropped units.
        frames: usize,
    },
}

impl TrackSender {
    pub(crate) fn new(
        source: TrackLayer,
        sender: SenderIndex,
        codec: Codec,
        clock_rate: u32,
        timestamp_base: u32,
    ) -> Self {
        Self {
            source,
            target: None,
            sender,
            codec,
            clock_rate,
            timestamp_base,
            next: None,
            wants_keyframe: codec.kind() == Kind::Video,
            asks: KeyframeAsks::default(),
            lateness: Lateness::default(),
            resumed_at: SentPacket::default(),
            legs: Legs::new(source.layer),
            latest: MediaTime::from_nanos(i64::MIN),
            catching_up: None,
            limits: SendLimits::UNPACED,
            thinning: Thinning::NONE,
            queue: VecDeque::new(),
            sent: SentPackets::default(),
            left: LastLeft::default(),
            redundancy: None,
        }
    }

    pub(super) fn kind(&self) -> Kind {
        self.codec.kind()
    }

    /// Returns whether a browser can start with the unit: at a recovery point, its receiver still
    /// waits for an IDR picture.
    fn starts_with(&self, unit: &MediaUnit) -> bool {
        unit.keyframe && unit.first && !is_recovery_point(self.codec, unit)
    }

    pub(super) const fn set_limits(&mut self, limits: SendLimits) {
        self.limits = limits;
    }

    /// Moves the viewer to another layer of the track at the layer's next keyframe, or lets it stay. A
    /// viewer that has got nothing yet begins on a layer that is awaited. Returns whether a keyframe of the layer is
    /// needed.
    pub(crate) fn switch_to(&mut self, to: LayerMove) -> bool {
        if to.layer == self.source.layer {
            self.target = None;
            return false;
        }
        if self.next.is_some() || !to.is_awaited {
            let before = self.target.replace(to);
            return before.is_none_or(|it| it.layer != to.layer);
        }
        self.source.layer = to.layer;
        self.legs.begin_on(to.layer);
        self.kind() == Kind::Video
    }

    /// Returns the layer to which the viewer moves at the layer's next keyframe.
    pub(crate) fn target(&self) -> Option<TrackLayer> {
        let track = self.source.track;
        self.target.map(|to| TrackLayer {
            track,
            layer: to.layer,
        })
    }

    /// Starts at the keyframe that begins `past`, if the past is not too long: for the first time, or on
    /// the layer to which the viewer moves. `last` is the unit of the present layer that was offered
    /// last. Returns whether the viewer has a frame to decode now.
    pub(crate) fn catch_up(
        &mut self,
        past: Vec<Arc<MediaUnit>>,
        last: Option<&MediaUnit>,
        now: Instant,
    ) -> bool {
        let bytes: usize = past.iter().map(|unit| unit.payload_bytes()).sum();
        let (Some(oldest), Some(newest)) = (past.first(), past.last()) else {
            return false;
        };
        let entry = Entry {
            oldest: oldest.time,
            newest: newest.time,
        };
        let span = entry.newest.nanos().saturating_sub(entry.oldest.nanos());
        let bytes_max = match (self.target, span >= FAR_APART_NS) {
            (Some(to), _) => self.limits.catch_up_bytes.min(to.catch_up_bytes),
            (None, true) => CATCH_UP_BYTES_MAX,
            (None, false) => self.limits.catch_up_bytes,
        };
        if bytes > bytes_max || !self.starts_with(oldest) {
            return false;
        }
        match self.target {
            None => self.legs.catch_up(entry),
            Some(to) => {
                let oldest = Arc::clone(oldest);
                if !self.begin_leg(to, entry, (&oldest, last), now) {
                    return false;
                }
            }
        }
        self.catching_up = now.checked_add(CATCH_UP_MAX);
        self.next = past.last().map(|newest| newest.index + 1);
        self.wants_keyframe = false;
        for (place, unit) in past.into_iter().enumerate() {
            if self.admits(&unit, place == 0) {
                self.push(unit, now);
            }
        }
        true
    }

    /// Offers a unit of the layer to which the viewer moves: a keyframe moves it. `last` is the unit of
    /// the present layer that was offered last. Returns whether the viewer has moved.
    pub(crate) fn cross(
        &mut self,
        unit: &Arc<MediaUnit>,
        last: Option<&MediaUnit>,
        now: Instant,
    ) -> bool {
        let entry = Entry {
            oldest: unit.time,
            newest: unit.time,
        };
        let to = self.target.filter(|to| to.layer == unit.layer);
        let has_moved = to.is_some_and(|to| {
            self.starts_with(unit) && self.begin_leg(to, entry, (unit, last), now)
        });
        if !has_moved {
            return false;
        }
        self.catching_up = None;
        self.next = Some(unit.index + 1);
        self.wants_keyframe = false;
        self.admits(unit, true);
        self.push(Arc::clone(unit), now);
        true
    }

    /// Begins a leg on the layer of `to` with the keyframe `first`, behind the unit `last` of the present layer.
    /// Returns false if the times of both layers are too far apart.
    fn begin_leg(
        &mut self,
        to: LayerMove,
        entry: Entry,
        (first, last): (&MediaUnit, Option<&MediaUnit>),
        now: Instant,
    ) -> bool {
        let waiting = self.queue.front().map(|queued| queued.leg);
        let Some(leg) = self.legs.next(to.layer, entry, self.latest, waiting) else {
            return false;
        };
        let last = last.map(|it| self.shown_numbers(it));
        let number_shift = NumberShift::behind(last.unwrap_or_default(), self.numbers(first));
        let skipped = match to.drops_waiting {
            true => self.abandon_waiting(),
            false => self.skip_overdue(true, now),
        };
        self.legs.push(leg, number_shift);
        if skipped > 0 || self.wants_keyframe {
            self.resumed_at = SentPacket {
                leg: self.legs.number(),
                packet: first.first_packet,
            };
        }
        self.source.layer = to.layer;
        self.target = None;
        true
    }

    fn numbers(&self, unit: &MediaUnit) -> FrameNumbers {
        FrameNumbers::of(self.codec, unit.payload(0).unwrap_or_default())
    }

    /// Returns the frame numbers of a unit of the present leg as the viewer gets them.
    pub(super) fn shown_numbers(&self, unit: &MediaUnit) -> FrameNumbers {
        let present = self.legs.get(self.legs.number());
        let shift = present.map(|it| *it.number_shift()).unwrap_or_default();
        shift.apply(self.numbers(unit))
    }

    /// Counts the frames that begin with the keyframe `first` behind `last`, before anything is sent.
    pub(super) fn count_behind(&mut self, last: FrameNumbers, first: &MediaUnit) {
        let shift = NumberShift::behind(last, self.numbers(first));
        self.legs.shift_numbers(shift);
    }

    /// Returns the latest media time that the viewer is shown; `None` before the first unit.
    pub(super) fn latest(&self) -> Option<MediaTime> {
        (self.latest > MediaTime::from_nanos(i64::MIN)).then_some(self.latest)
    }

    /// Returns the time at which the first frame of `past` is shown to a viewer that begins with it.
    pub(super) fn first_shown(past: &[Arc<MediaUnit>]) -> Option<MediaTime> {
        let entry = Entry {
            oldest: past.first()?.time,
            newest: past.last()?.time,
        };
        Some(entry.first_shown())
    }

    /// Has a unit of the present leg wait.
    fn push(&mut self, unit: Arc<MediaUnit>, read_at: Instant) {
        let leg = self.legs.present();
        self.latest = self.latest.max(leg.shown(unit.time));
        self.queue.push_back(Queued {
            unit,
            leg: self.legs.number(),
            read_at,
            sent: 0,
        });
    }

    /// Offers a unit that was just published.
    pub(super) fn offer(&mut self, unit: &Arc<MediaUnit>, now: Instant) -> OfferOutcome {
        if self.next.is_some_and(|next| unit.index < next) {
            return OfferOutcome::Passed;
        }
        let gap = self.next.is_some_and(|next| unit.index > next);
        self.next = Some(unit.index + 1);
        let starts = self.starts_with(unit);
        if starts && self.kind() == Kind::Video {
            self.asks.note_keyframe(now);
        }
        if self.kind() == Kind::Video && gap && !starts {
            self.wants_keyframe = true;
        }
        if self.target.is_some_and(|to| to.drops_waiting) {
            // The path is left to the keyframe of the lower layer.
            self.wants_keyframe = true;
            let frames = self.drop_waiting() + 1;
            return OfferOutcome::Skipped { frames };
        }
        if self.wants_keyframe && !starts {
            return OfferOutcome::Passed;
        }
        if !self.admits(unit, starts) {
            return OfferOutcome::Passed;
        }
        if self.leaves_out(unit, now) {
            self.leave_out(unit);
            return OfferOutcome::Skipped { frames: 1 };
        }
        let skipped = self.skip_overdue(starts, now);
        if skipped > 0 {
            self.asks.note_skip(now);
        }
        if self.wants_keyframe || (skipped > 0 && starts) {
            self.resumed_at = SentPacket {
                leg: self.legs.number(),
                packet: unit.first_packet,
            };
        }
        self.wants_keyframe = false;
        if skipped > 0 && !starts && self.kind() == Kind::Video {
            self.wants_keyframe = true;
            return OfferOutcome::Skipped {
                frames: skipped + 1,
            };
        }
        self.push(Arc::clone(unit), now);
        if skipped > 0 {
            OfferOutcome::Skipped { frames: skipped }
        } else {
            OfferOutcome::Queued
        }
    }

    /// Returns the index of the unit that comes next; `None` before the start.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    /// Returns whether the viewer has no use for a packet any more, because it was sent a later
    /// keyframe.
    pub(crate) fn is_given_up(&self, packet: SentPacket) -> bool {
        packet < self.resumed_at
    }

    /// Loads the sender's memory into the cache; see
    /// [`StreamSender::prefetch`](super::StreamSender::prefetch).
    pub(crate) fn prefetch(&self) -> u64 {
        self.sent.prefetch() ^ self.next.unwrap_or(0) ^ self.queue.len() as u64
    }

    /// Has each packet of audio carry so many of those before it, 0 to 2, if the viewer takes any.
    pub(super) fn set_copies(&mut self, copies: usize, session: &mut Session) {
        if copies == 0 {
            if self.redundancy.take().is_some() {
                session.set_redundant(self.sender, false);
            }
            return;
        }
        if let Some(redundancy) = &mut self.redundancy {
            redundancy.set_copies(copies);
        } else if session.set_redundant(self.sender, true) {
            let payload_type = session.senders()[self.sender.0].payload_type;
            self.redundancy = Some(Box::new(Redundancy::new(payload_type, copies)));
        }
    }

    /// Returns the unit that leaves next.
    pub(super) fn front(&self) -> Option<&Queued> {
        self.queue.front()
    }

    /// Notes that `count` packets of the front unit left. Returns whether it has left whole.
    pub(super) fn advance(&mut self, count: usize, now: Instant) -> bool {
        let Some(front) = self.queue.front_mut() else {
            return false;
        };
        front.sent += count;
        let whole = front.sent >= front.unit.packet_count();
        if whole {
            if front.unit.keyframe {
                self.lateness.note_keyframe(front, now);
            }
            self.left.note(&front.unit, front.leg, self.sent.end());
            self.queue.pop_front();
        }
        if self.queue.is_empty() {
            self.lateness.end();
        }
        whole
    }

    /// Returns how times and numbers of a leg are shown to the viewer; `None` if the leg was too many
    /// switches ago.
    pub(crate) fn leg(&self, number: LegNumber) -> Option<Leg> {
        self.legs.get(number)
    }

    /// Returns the viewer's RTP timestamp for `unit` on a leg; it is the same for every transmission.
    pub(crate) fn timestamp(&self, unit: &MediaUnit, leg: &Leg) -> u32 {
        if let Some(forwarded) = unit.forwarded() {
            return forwarded.timestamp;
        }
        // The low 32 bits are what an RTP timestamp is (RFC 3550 §5.1).
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "timestamps wrap"
        )]
        let ticks = leg.shown(unit.time).ticks(self.clock_rate) as u32;
        self.timestamp_base.wrapping_add(ticks)
    }

    /// States whether units that leave are kept, so that their packets can probe the path.
    pub(crate) fn keep_left(&mut self, is_kept: bool) {
        self.left.keep(is_kept);
    }

    /// Returns the unit that left last and is kept.
    pub(crate) const fn left(&mut self) -> Option<&mut Repeatable> {
        self.left.unit()
    }

    /// Returns the codec, which decides where picture numbers are.
    pub(crate) const fn codec(&self) -> Codec {
        self.codec
    }

    /// Notes that `count` packets, from `first` on, left under the sequence numbers from `sequence` on.
    pub(crate) fn note_sent(&mut self, sequence: u64, first: SentPacket, count: u64) {
        self.sent.note(sequence, first, count);
    }

    /// Returns the packet that left under the extended sequence number `sequence`; `None` if none did,
    /// or too long ago.
    pub(crate) fn packet_of(&self, sequence: u64) -> Option<SentPacket> {
        self.sent.get(sequence)
    }
}

#[cfg(test)]
mod tests;
