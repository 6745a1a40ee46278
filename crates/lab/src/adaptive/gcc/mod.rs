//! A server that adapts as one that is built on libwebrtc: its congestion control, a leaky bucket, probes
//! of packets that were sent before, and always the best layer that fits the estimate.

mod control;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::Stream;
use glassline_media::{Bitrate, LayerIndex, MediaUnit, TrackIndex, TrackLayer};
use glassline_webrtc::{SenderIndex, Session};

use super::receipts::Receipt;
use control::Control;

/// The only sender of the session.
const SENDER: SenderIndex = SenderIndex(0);
/// Estimate in relation to the bitrate of a layer that fits.
const ROOM: f64 = 1.1;
/// Longest time that a frame waits before the viewer skips to the next keyframe.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// Interval of requests for the keyframe of a layer to which the viewer moves.
const REQUEST_INTERVAL: Duration = Duration::from_millis(500);
/// Time of the pacing rate that may leave at once.
const BURST: Duration = Duration::from_millis(5);
/// Packets that may be asked for again.
const HISTORY: usize = 2_000;
/// Least time after which a packet is sent again once more.
const REPAIR_INTERVAL: Duration = Duration::from_millis(60);
/// Longest datagram that leaves, in bytes.
const DATAGRAM_MAX: usize = 1_500;

/// The sender of a viewer.
#[derive(Debug)]
pub(super) struct GccSender {
    control: Control,
    /// Bitrates of the encodings, best first.
    layers: Vec<Bitrate>,
    /// Encoding that the viewer gets, and the one to which it moves.
    layer: Option<usize>,
    next_layer: usize,
    wants_keyframe: bool,
    requested: Option<Instant>,
    queue: VecDeque<Queued>,
    repairs: VecDeque<u64>,
    /// First packet of the keyframe to which the viewer skipped or moved last. What left before is not sent
    /// again.
    resumed_at: u64,
    /// Whether the next packet begins with that keyframe.
    resumes: bool,
    history: BTreeMap<u64, Sent>,
    /// Packets that left so far.
    number: u64,
    /// When the next packet leaves.
    next: Instant,
}

/// A unit that waits.
#[derive(Debug)]
struct Queued {
    unit: Arc<MediaUnit>,
    since: Instant,
    sent: usize,
}

/// A packet that left.
#[derive(Clone, Debug)]
struct Sent {
    unit: Arc<MediaUnit>,
    index: usize,
    timestamp: u32,
    /// Time at which the packet was sent last.
    at: Instant,
}

impl GccSender {
    /// Returns a sender of the encodings with these bitrates, for a viewer that joins at `now`.
    pub(super) fn new(layers: &[Bitrate], start: Instant, now: Instant) -> Self {
        let mut sender = Self {
            control: Control::new(layers[0], start, now),
            layers: layers.to_vec(),
            layer: None,
            next_layer: 0,
            wants_keyframe: true,
            requested: None,
            queue: VecDeque::new(),
            repairs: VecDeque::new(),
            resumed_at: 0,
            resumes: false,
            history: BTreeMap::new(),
            number: 0,
            next: now,
        };
        sender.next_layer = sender.fitting();
        sender
    }

    /// Returns the estimate of the path.
    pub(super) const fn estimate(&self) -> Bitrate {
        self.control.target
    }

    /// Returns the position of the best encoding that fits the estimate.
    fn fitting(&self) -> usize {
        let target = self.control.target.mbps();
        let fits = |rate: &Bitrate| rate.mbps() * ROOM <= target;
        let last = self.layers.len() - 1;
        self.layers.iter().position(fits).unwrap_or(last)
    }

    fn source(&self, place: usize) -> TrackLayer {
        TrackLayer {
            track: TrackIndex(0),
            layer: match self.layers.len() {
                1 => LayerIndex::BASE,
                _ => LayerIndex::of_encoding(place),
            },
        }
    }

    /// Offers a unit that was just published.
    pub(super) fn offer(&mut self, unit: &Arc<MediaUnit>, now: Instant, stream: &Stream) {
        let of_layer = unit.track_layer();
        if unit.keyframe && of_layer == self.source(self.next_layer) {
            if self.layer != Some(self.next_layer) || self.wants_keyframe {
                // What waits in front of the keyframe is not needed.
                self.skip();
                self.resumes = true;
            }
            self.layer = Some(self.next_layer);
            self.wants_keyframe = false;
        }
        let is_present = self.layer.is_some_and(|it| self.source(it) == of_layer);
        if !is_present || self.wants_keyframe {
            return;
        }
        let front = self.queue.front();
        if front.is_some_and(|it| now.saturating_duration_since(it.since) > WAIT_MAX) {
            self.skip();
            if !unit.keyframe {
                self.wants_keyframe = true;
                stream.request_keyframe_of(self.source(self.next_layer));
                return;
            }
        }
        self.queue.push_back(Queued {
            unit: Arc::clone(unit),
            since: now,
            sent: 0,
        });
    }

    /// Drops what waits, except for a frame that has begun to leave.
    fn skip(&mut self) {
        let keep = usize::from(self.queue.front().is_some_and(|it| it.sent > 0));
        self.queue.truncate(keep);
    }

    /// Chooses the layer by the estimate, and requests a keyframe of it.
    pub(super) fn choose(&mut self, now: Instant, stream: &Stream) {
        self.control.handle_timeout(now);
        let fitting = self.fitting();
        let is_other = fitting != self.next_layer;
        self.next_layer = fitting;
        if self.layer == Some(fitting) && !self.wants_keyframe {
            self.requested = None;
            return;
        }
        let is_recent = |at: Instant| now.saturating_duration_since(at) < REQUEST_INTERVAL;
        if is_other || !self.requested.is_some_and(is_recent) {
            self.requested = Some(now);
            stream.request_keyframe_of(self.source(fitting));
        }
    }

    /// Requests a keyframe of the layer that the viewer gets.
    pub(super) fn request_keyframe(&self, stream: &Stream) {
        stream.request_keyframe_of(self.source(self.next_layer));
    }

    /// Takes feedback that names `named` packets, of which those in `receipts` arrived.
    pub(super) fn on_feedback(&mut self, receipts: &[Receipt], named: u32, now: Instant) {
        self.control.on_feedback(receipts, named, now);
    }

    /// Takes the round-trip time of a receiver report.
    pub(super) fn on_round_trip(&mut self, round_trip: Duration, now: Instant) {
        self.control.on_round_trip(round_trip, now);
    }

    /// Queues the packets that the viewer misses, unless they were sent again a moment ago.
    pub(super) fn repair(&mut self, lost: &[u64], now: Instant) {
        for sequence in lost {
            let is_due = |sent: &Sent| now.saturating_duration_since(sent.at) >= REPAIR_INTERVAL;
            let is_known = self.history.get(sequence).is_some_and(is_due);
            if is_known && *sequence >= self.resumed_at && !self.repairs.contains(sequence) {
                self.repairs.push_back(*sequence);
            }
        }
    }

    /// Returns the datagrams that leave at `now`.
    pub(super) fn flush(&mut self, session: &mut Session, now: Instant) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        loop {
            let is_paced_out = self.next > now + BURST;
            let probe = self.control.probe(now).map(control::Probe::next);
            let is_probing = probe.is_some_and(|next| next <= now);
            if !is_probing && is_paced_out {
                break;
            }
            let datagram = match self.media(session, now) {
                None if is_probing => self.padding(session, now),
                media => media,
            };
            let Some(datagram) = datagram else {
                break;
            };
            let bytes = datagram.len();
            let span = bytes as f64 * 8.0 / self.control.pacing.bps().max(1) as f64;
            let earliest = now.checked_sub(BURST).unwrap_or(now);
            self.next = self.next.max(earliest) + Duration::from_secs_f64(span);
            self.control.on_sent(self.number, bytes, now);
            self.number += 1;
            datagrams.push(datagram);
        }
        datagrams
    }

    /// Seals the next packet that is missed or new.
    fn media(&mut self, session: &mut Session, now: Instant) -> Option<Vec<u8>> {
        while let Some(sequence) = self.repairs.pop_front() {
            if let Some(datagram) = self.again(session, sequence, now) {
                if let Some(sent) = self.history.get_mut(&sequence) {
                    sent.at = now;
                }
                return Some(datagram);
            }
        }
        let queued = self.queue.front_mut()?;
        let (unit, index) = (Arc::clone(&queued.unit), queued.sent);
        queued.sent += 1;
        if queued.sent == unit.packet_count() {
            self.queue.pop_front();
        }
        let ticks = unit.time.nanos() / 1_000 * 9 / 100;
        let begin = session.senders()[SENDER.0].timestamp_start;
        let timestamp = begin.wrapping_add(ticks as u32);
        let (marker, payload) = (unit.marker(index), unit.payload(index)?);
        let mut datagram = vec![0; DATAGRAM_MAX];
        let sealed = session.seal(SENDER, timestamp, marker, payload, now, &mut datagram)?;
        datagram.truncate(sealed.len);
        let sent = Sent {
            unit: Arc::clone(&unit),
            index,
            timestamp,
            at: now,
        };
        if index == 0 && unit.keyframe && std::mem::take(&mut self.resumes) {
            self.resumed_at = sealed.sequence;
            self.repairs.clear();
        }
        self.history.insert(sealed.sequence, sent);
        if self.history.len() > HISTORY {
            self.history.pop_first();
        }
        Some(datagram)
    }

    /// Seals the longest of the latest packets again, to measure the path.
    fn padding(&self, session: &mut Session, now: Instant) -> Option<Vec<u8>> {
        let recent = self.history.iter().rev().take(20);
        let length = |sent: &Sent| sent.unit.payload(sent.index).map_or(0, <[u8]>::len);
        let (sequence, _) = recent.max_by_key(|(_, sent)| length(sent))?;
        self.again(session, *sequence, now)
    }

    fn again(&self, session: &mut Session, sequence: u64, now: Instant) -> Option<Vec<u8>> {
        let sent = self.history.get(&sequence)?;
        let (marker, payload) = (sent.unit.marker(sent.index), sent.unit.payload(sent.index)?);
        let mut datagram = vec![0; DATAGRAM_MAX];
        let out = &mut datagram;
        let stamp = sent.timestamp;
        let len =
            session.seal_retransmission(SENDER, sequence, stamp, marker, payload, now, out)?;
        datagram.truncate(len);
        Some(datagram)
    }

    /// Returns when [`flush`](Self::flush) is due.
    pub(super) fn due(&mut self, now: Instant) -> Option<Instant> {
        let waits = !self.queue.is_empty() || !self.repairs.is_empty();
        let media = waits.then(|| self.next.checked_sub(BURST).unwrap_or(now));
        let has_history = !self.history.is_empty();
        let probe = self.control.probe(now).filter(|_| has_history);
        let probe = probe.map(control::Probe::next);
        [media, probe, Some(self.control.due())]
            .into_iter()
            .flatten()
            .min()
    }
}
