//! Sends one track to one viewer: chooses the unit that comes next, and keeps the RTP timestamps
//! and sequence numbers under which the viewer knows what it got.
//!
//! ```text
//! units of the layer that the viewer gets ──────► offer ──► queue ─► front, advance
//! keyframe of the layer that it shall get next ─► cross ──┘ a new leg
//! ```

mod legs;
mod sent;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Kind, LayerIndex, MediaTime, MediaUnit, TrackLayer};
use glassline_rtp::payload::{FrameNumbers, NumberShift, is_recovery_point};
use glassline_webrtc::SenderIndex;

use super::layer_choice::LayerChoice;
use super::redundancy::Redundancy;

use legs::{Entry, Legs};
pub(crate) use legs::{Leg, LegNumber};
pub(crate) use sent::SentPacket;
use sent::SentPackets;

/// Limits on how far a viewer may be behind.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendLimits {
    /// Time that a unit may wait before the viewer skips to the next keyframe.
    wait: Duration,
    /// Longest time that a keyframe may take on its way, which does not count as time that it or the
    /// units behind it wait.
    keyframe: Duration,
    /// Most bytes since the last keyframe that a new viewer is sent, unless keyframes are
    /// [far apart](FAR_APART_NS).
    catch_up_bytes: usize,
}

/// Most bytes since the last keyframe that any new viewer is sent.
const CATCH_UP_BYTES_MAX: usize = 8 << 20;

/// Time since the last keyframe in ns from which on a new viewer waits longer for the next keyframe than
/// for all frames since the last one.
const FAR_APART_NS: i64 = 5_000_000_000;

impl SendLimits {
    /// Limits for a session without congestion control, where only the socket and the spreading of
    /// keyframes hold packets back.
    pub(super) const UNPACED: Self = Self {
        wait: Duration::from_millis(200),
        keyframe: Duration::ZERO,
        catch_up_bytes: CATCH_UP_BYTES_MAX,
    };

    /// Limits for a session with congestion control, where a keyframe takes the time that the path
    /// needs for it: five times an average frame's bytes take 170 ms where the stream just fits. The
    /// frames behind it wait as long, and that time does not count. The frames since the last keyframe
    /// must arrive before live ones do.
    pub(super) const PACED: Self = Self {
        wait: Duration::from_millis(500),
        keyframe: Duration::from_secs(2),
        catch_up_bytes: 512 << 10,
    };

    /// Returns these limits with a wait of `lag`, if that is set.
    pub(super) fn waiting(self, lag: Option<Duration>) -> Self {
        Self {
            wait: lag.unwrap_or(self.wait),
            ..self
        }
    }
}

/// Time that a viewer has to get the frames before its live point. Live frames wait meanwhile.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// Most bytes since the last keyframe of another layer that a viewer is sent when it moves there, so that
/// a path that just carries the stream is not overrun.
const SWITCH_BYTES_MAX: usize = 256 << 10;

/// Sends one track to one viewer.
#[derive(Debug)]
pub(super) struct TrackSender {
    /// Track of the stream, and the layer of it that the viewer gets.
    pub source: TrackLayer,
    /// Decides which layer that is.
    pub choice: LayerChoice,
    /// Layer to which the viewer moves at the layer's next keyframe.
    target: Option<LayerIndex>,
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
    /// Time at which the last packet of the latest keyframe left.
    keyframe_left: Option<Instant>,
    /// First packet of the keyframe to which the viewer skipped last. What left before is not sent
    /// again.
    resumed_at: SentPacket,
    legs: Legs,
    /// Latest media time that the viewer is shown, of the units that left or wait.
    latest: MediaTime,
    /// Until when the viewer may take to reach its live point; `None` once it has.
    catching_up: Option<Instant>,
    limits: SendLimits,
    queue: VecDeque<Queued>,
    sent: SentPackets,
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
        (source, choice): (TrackLayer, LayerChoice),
        sender: SenderIndex,
        codec: Codec,
        clock_rate: u32,
        timestamp_base: u32,
    ) -> Self {
        Self {
            source,
            choice,
            target: None,
            sender,
            codec,
            clock_rate,
            timestamp_base,
            next: None,
            wants_keyframe: codec.kind() == Kind::Video,
            keyframe_left: None,
            resumed_at: SentPacket::default(),
            legs: Legs::new(source.layer),
            latest: MediaTime::from_nanos(i64::MIN),
            catching_up: None,
            limits: SendLimits::UNPACED,
            queue: VecDeque::new(),
            sent: SentPackets::default(),
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
    /// viewer that has got nothing yet begins on that layer. Returns whether a keyframe of the layer is
    /// needed.
    pub(crate) fn switch_to(&mut self, layer: LayerIndex) -> bool {
        if layer == self.source.layer {
            self.target = None;
            return false;
        }
        if self.next.is_some() {
            return self.target.replace(layer) != Some(layer);
        }
        self.source.layer = layer;
        self.legs.begin_on(layer);
        self.kind() == Kind::Video
    }

    /// Returns the layer to which the viewer moves at the layer's next keyframe.
    pub(crate) fn target(&self) -> Option<TrackLayer> {
        let track = self.source.track;
        self.target.map(|layer| TrackLayer { track, layer })
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
            (Some(_), _) => self.limits.catch_up_bytes.min(SWITCH_BYTES_MAX),
            (None, true) => CATCH_UP_BYTES_MAX,
            (None, false) => self.limits.catch_up_bytes,
        };
        if bytes > bytes_max || !self.starts_with(oldest) {
            return false;
        }
        match self.target {
            None => self.legs.catch_up(entry),
            Some(layer) => {
                let oldest = Arc::clone(oldest);
                if !self.begin_leg(layer, entry, (&oldest, last), now) {
                    return false;
                }
            }
        }
        self.catching_up = now.checked_add(CATCH_UP_MAX);
        self.next = past.last().map(|newest| newest.index + 1);
        self.wants_keyframe = false;
        for unit in past {
            self.push(unit, now);
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
        if self.target != Some(unit.layer)
            || !self.starts_with(unit)
            || !self.begin_leg(unit.layer, entry, (unit, last), now)
        {
            return false;
        }
        self.catching_up = None;
        self.next = Some(unit.index + 1);
        self.wants_keyframe = false;
        self.push(Arc::clone(unit), now);
        true
    }

    /// Begins a leg on `layer` with the keyframe `first`, behind the unit `last` of the present layer.
    /// Returns false if the times of both layers are too far apart.
    fn begin_leg(
        &mut self,
        layer: LayerIndex,
        entry: Entry,
        (first, last): (&MediaUnit, Option<&MediaUnit>),
        now: Instant,
    ) -> bool {
        let waiting = self.queue.front().map(|queued| queued.leg);
        let Some(leg) = self.legs.next(layer, entry, self.latest, waiting) else {
            return false;
        };
        let numbers = |unit: &MediaUnit| {
            let payload = unit.payload(0).unwrap_or_default();
            FrameNumbers::of(self.codec, payload)
        };
        let last = last.map(|it| self.legs.present().number_shift().apply(numbers(it)));
        let number_shift = NumberShift::behind(last.unwrap_or_default(), numbers(first));
        let skipped = self.skip_overdue(true, now);
        self.legs.push(leg, number_shift);
        if skipped > 0 || self.wants_keyframe {
            self.resumed_at = SentPacket {
                leg: self.legs.number(),
                packet: first.first_packet,
            };
        }
        self.source.layer = layer;
        self.target = None;
        true
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
        if self.kind() == Kind::Video && gap && !starts {
            self.wants_keyframe = true;
        }
        if self.wants_keyframe && !starts {
            return OfferOutcome::Passed;
        }
        let skipped = self.skip_overdue(starts, now);
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

    /// Drops the units that waited longer than the limit. A unit of which packets left already is
    /// finished, so that the viewer never gets half a frame on purpose. `starts`: a decoder can start at
    /// the unit that comes next.
    fn skip_overdue(&mut self, starts: bool, now: Instant) -> usize {
        if self.queue.is_empty() {
            self.catching_up = None;
        }
        let overdue = |queued: &Queued| {
            let waited = match starts {
                // A new keyframe waits for nothing that is late, whatever the reason.
                true => now.saturating_duration_since(queued.read_at),
                false => self.waited(queued, now),
            };
            let is_live = self
                .leg(queued.leg)
                .is_none_or(|leg| leg.is_behind(queued.unit.time));
            is_live && waited > self.limits.wait
        };
        let is_overdue = match self.catching_up {
            // What waits behind the past is not too old yet, but a new keyframe makes it useless.
            Some(until) if now < until => starts,
            _ => self.queue.front().is_some_and(overdue),
        };
        if !is_overdue {
            return 0;
        }
        self.catching_up = None;
        let keep = usize::from(self.queue.front().is_some_and(|queued| queued.sent > 0));
        let dropped = self.queue.len() - keep;
        self.queue.truncate(keep);
        dropped
    }

    /// Returns how long a unit has waited, without the time that the latest keyframe took on its way.
    fn waited(&self, queued: &Queued, now: Instant) -> Duration {
        let keyframe_ends = match queued.unit.keyframe && queued.sent > 0 {
            true => Some(now),
            false => self.keyframe_left,
        };
        let behind = |end: Instant| end.saturating_duration_since(queued.read_at);
        let excused = keyframe_ends.map_or(Duration::ZERO, behind);
        now.saturating_duration_since(queued.read_at)
            .saturating_sub(excused.min(self.limits.keyframe))
    }

    /// Returns the index of the unit that comes next; `None` before the start.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    /// Returns whether no frame can be decoded until the next keyframe.
    pub(super) fn wants_keyframe(&self) -> bool {
        self.wants_keyframe
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
                self.keyframe_left = Some(now);
            }
            self.queue.pop_front();
        }
        whole
    }

    /// Returns how times and numbers of a leg are shown to the viewer; `None` if the leg was too many
    /// switches ago.
    pub(crate) fn leg(&self, number: LegNumber) -> Option<&Leg> {
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
