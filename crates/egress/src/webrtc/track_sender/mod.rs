//! Sends one track to one viewer: chooses the unit that comes next, and keeps the RTP timestamps
//! and sequence numbers under which the viewer knows what it got.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Kind, MediaTime, MediaUnit, TrackLayer};
use glassline_rtp::payload::is_recovery_point;
use glassline_webrtc::SenderIndex;

use super::redundancy::Redundancy;

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

/// Factor by which the timestamps of frames before the viewer's live point are compressed, so that
/// the viewer decodes them as fast as it can and shows the newest: a second of them passes in 31 ms
/// instead of leaving the viewer a second behind for good.
const CATCH_UP_SQUEEZE: i64 = 32;

/// Longest time that the frames before the live point take by their timestamps, in ns: those of 20 s.
/// Where keyframes are further apart, the frames are compressed more.
const CATCH_UP_SPAN_NS: i64 = 625_000_000;

/// Time that a viewer has to get the frames before its live point. Live frames wait meanwhile.
const CATCH_UP_MAX: Duration = Duration::from_secs(10);

/// Number of runs of consecutive packets that a viewer can still ask for again.
const RUNS_MAX: usize = 16;

/// Sends one track to one viewer.
#[derive(Debug)]
pub(super) struct TrackSender {
    /// Track of the stream, and the layer of it that the viewer gets.
    pub source: TrackLayer,
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
    /// Number of the first packet of the keyframe to which the viewer skipped last. What left before
    /// is not sent again.
    resumed_at: u64,
    /// Media time of the viewer's live point: timestamps of frames up to here are compressed.
    live_from: MediaTime,
    /// Factor by which these timestamps are compressed.
    squeeze: i64,
    /// Until when the viewer may take to reach its live point; `None` once it has.
    catching_up: Option<Instant>,
    limits: SendLimits,
    queue: VecDeque<Queued>,
    /// The run that the next packet may extend.
    run: Run,
    /// Earlier runs, oldest first.
    runs: VecDeque<Run>,
    /// Adds copies of earlier packets, if the viewer prefers redundant audio.
    pub redundancy: Option<Box<Redundancy>>,
}

/// A unit that waits as a whole or in part.
#[derive(Clone, Debug)]
pub(super) struct Queued {
    pub unit: Arc<MediaUnit>,
    /// Time since which the shard has held the unit.
    pub read_at: Instant,
    /// Number of packets that left already.
    pub sent: usize,
}

/// Consecutive sequence numbers that carry consecutive packets of the track.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    sequence: u64,
    packet: u64,
    count: u64,
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
    pub(super) fn new(
        source: TrackLayer,
        sender: SenderIndex,
        codec: Codec,
        clock_rate: u32,
        timestamp_base: u32,
    ) -> Self {
        Self {
            source,
            sender,
            codec,
            clock_rate,
            timestamp_base,
            next: None,
            wants_keyframe: codec.kind() == Kind::Video,
            keyframe_left: None,
            resumed_at: 0,
            live_from: MediaTime::from_nanos(i64::MIN),
            squeeze: CATCH_UP_SQUEEZE,
            catching_up: None,
            limits: SendLimits::UNPACED,
            queue: VecDeque::new(),
            run: Run::default(),
            runs: VecDeque::new(),
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

    /// Starts at the keyframe that begins `past`, if the past is not too long. Returns whether the
    /// viewer has a frame to decode now.
    pub(super) fn catch_up(&mut self, past: Vec<Arc<MediaUnit>>, now: Instant) -> bool {
        let bytes: usize = past.iter().map(|unit| unit.payload_bytes()).sum();
        let (Some(oldest), Some(newest)) = (past.first(), past.last()) else {
            return false;
        };
        let span = newest.time.nanos().saturating_sub(oldest.time.nanos());
        let bytes_max = match span >= FAR_APART_NS {
            true => CATCH_UP_BYTES_MAX,
            false => self.limits.catch_up_bytes,
        };
        if bytes > bytes_max || !self.starts_with(oldest) {
            return false;
        }
        self.live_from = newest.time;
        self.squeeze = CATCH_UP_SQUEEZE.max(span / CATCH_UP_SPAN_NS + 1);
        self.catching_up = now.checked_add(CATCH_UP_MAX);
        self.next = Some(newest.index + 1);
        self.wants_keyframe = false;
        self.queue.extend(past.into_iter().map(|unit| Queued {
            unit,
            read_at: now,
            sent: 0,
        }));
        true
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
            self.resumed_at = unit.first_packet;
        }
        self.wants_keyframe = false;
        if skipped > 0 && !starts && self.kind() == Kind::Video {
            self.wants_keyframe = true;
            return OfferOutcome::Skipped {
                frames: skipped + 1,
            };
        }
        self.queue.push_back(Queued {
            unit: Arc::clone(unit),
            read_at: now,
            sent: 0,
        });
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
            self.live_from < queued.unit.time && waited > self.limits.wait
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

    /// Returns whether the viewer has no use for a packet of this number any more, because it was
    /// sent a later keyframe.
    pub(super) fn is_given_up(&self, packet: u64) -> bool {
        packet < self.resumed_at
    }

    /// Loads the sender's memory into the cache; see
    /// [`StreamSender::prefetch`](super::StreamSender::prefetch).
    pub(super) fn prefetch(&self) -> u64 {
        self.run.count ^ self.next.unwrap_or(0) ^ self.queue.len() as u64
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

    /// Returns whether a frame at `time` belongs to the compressed past, so that its delay has no
    /// meaning.
    pub(super) fn is_past(&self, time: MediaTime) -> bool {
        time < self.live_from
    }

    /// Returns the viewer's RTP timestamp for `unit`; it is the same for every transmission.
    pub(super) fn timestamp(&self, unit: &MediaUnit) -> u32 {
        if let Some(forwarded) = unit.forwarded() {
            return forwarded.timestamp;
        }
        let time = unit.time;
        let shown = if time < self.live_from {
            let behind = self.live_from.nanos() - time.nanos();
            MediaTime::from_nanos(self.live_from.nanos() - behind / self.squeeze)
        } else {
            time
        };
        // The low 32 bits are what an RTP timestamp is (RFC 3550 §5.1).
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "timestamps wrap"
        )]
        let ticks = shown.ticks(self.clock_rate) as u32;
        self.timestamp_base.wrapping_add(ticks)
    }

    /// Notes that `count` packets of the track, from `packet` on, left under the sequence numbers
    /// from `sequence` on.
    pub(super) fn note_sent(&mut self, sequence: u64, packet: u64, count: u64) {
        let run = &mut self.run;
        if run.sequence + run.count == sequence && run.packet + run.count == packet {
            run.count += count;
            return;
        }
        if run.count > 0 {
            if self.runs.len() + 1 == RUNS_MAX {
                self.runs.pop_front();
            }
            self.runs.push_back(*run);
        }
        *run = Run {
            sequence,
            packet,
            count,
        };
    }

    /// Returns the number of the track's packet that left under the extended sequence number
    /// `sequence`; `None` if none did, or too long ago.
    pub(super) fn packet_of(&self, sequence: u64) -> Option<u64> {
        let mut newest_first = std::iter::once(&self.run).chain(self.runs.iter().rev());
        let run = newest_first.find(|run| run.sequence <= sequence)?;
        let within = sequence - run.sequence;
        (within < run.count).then_some(run.packet + within)
    }
}

#[cfg(test)]
mod tests;
