//! Sends one stream to one viewer: chooses the packets that leave now, and those that are sent
//! again.
//!
//! ```text
//!  StreamSubscription ─────► offer ──► TrackSender: queue of a track ─┐
//!  what the viewer missed ─► repair ─► Repairs ───────────────────────┴► flush ─► Batch
//!                                        Pacer, or the session's budget ──┘  └► FrameLog, stages
//! ```
//!
//! The session seals and paces. Which session it is, and what else happens in it, is unknown here.

mod adaptive;
mod deadlines;
mod layers;
mod moved_payload;
mod other_stream;
mod protecting;
mod repair_queue;
mod repairs;

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::Stream;
use glassline_latency::FrameStamps;
use glassline_media::{Kind, MediaUnit, Stage, StageTable, Track, TrackIndex, TrackLayer};
use glassline_webrtc::{Session, Transport};
use parking_lot::Mutex;
use smallvec::SmallVec;

use super::counters::SendCounters;
use super::delivery::Delivery;
use super::frame_log::FrameLog;
use super::layer_choice::LayerRequest;
use super::outbox::{Batch, Sink};
use super::pacer::Pacer;
use super::protection::{Packet, Protection};
use super::ramp::Ramp;
use super::track_sender::{OfferOutcome, Queued, SendLimits, SentPacket, TrackSender};

pub use adaptive::LayerReport;
use adaptive::{Adaptive, PADDING_INTERVAL};
use moved_payload::MovedPayload;
pub use protecting::ReceptionReport;
use repair_queue::Repairs;
pub use repairs::Nack;

/// Most bytes that header, extensions and authentication tag add to a payload.
const SEALING_BYTES: u64 = 40;

/// The tracks of one stream, sent over one viewer's session.
#[derive(Debug)]
pub struct StreamSender {
    tracks: SmallVec<[TrackSender; 2]>,
    /// Whether the viewer gets video and audio, which may share a message.
    rides: bool,
    /// Index of the track whose frames are followed through the stages.
    accounted: TrackIndex,
    /// Whether the session has keys, so that media is sent.
    has_started: bool,
    repairs: Repairs,
    moved: MovedPayload,
    pacer: Pacer,
    /// Rules of the configuration for frames and repairs.
    delivery: Delivery,
    /// Whether the limits are those of a session with congestion control.
    is_controlled: bool,
    /// Bounds what leaves while a viewer without congestion control gets much of the past.
    ramp: Option<Box<Ramp>>,
    /// Repairs the losses of a far viewer ahead of its requests; `None` for viewers without need.
    protection: Option<Box<Protection>>,
    /// Chooses the layer of the video by what the path carries, where the stream has several.
    adaptive: Option<Box<Adaptive>>,
    /// Whether padding leaves beside the media, or behind the next frame.
    has_padding: bool,
    /// The layers that stand for their tracks: transcoded ones, and those in other codecs.
    fixed: SmallVec<[TrackLayer; 1]>,
    request: LayerRequest,
    log: FrameLog,
    /// Histograms of the stream's stage delays on the shard that owns the viewer.
    stages: Option<Arc<Mutex<StageTable>>>,
    /// Nanoseconds from times of the stream to those that the viewer counts, which got other streams before.
    shift_ns: i64,
}

impl StreamSender {
    /// Creates a sender of those tracks of `stream` that were negotiated in `session`. Tracks of which
    /// `fixed` has a layer, in another codec perhaps, are sent as that layer.
    pub fn new(
        session: &Session,
        stream: &Stream,
        fixed: &[TrackLayer],
        delivery: Delivery,
        now: Instant,
    ) -> Self {
        let sources = session.senders().iter().map(|sender| {
            let fixed = fixed.iter().find(|it| it.track == sender.track);
            let beginning = || stream.beginning(sender.track);
            Some(fixed.copied().unwrap_or_else(beginning))
        });
        let mut sender = Self::of_sources(session, sources, 0, now);
        sender.accounted = stream.latency_track();
        sender.fixed = fixed.into();
        sender.delivery = delivery;
        sender.limit();
        sender
    }

    /// Sets how long units may wait, as the session sends them.
    fn limit(&mut self) {
        let limits = match self.is_controlled {
            true => SendLimits::PACED,
            false => SendLimits::UNPACED,
        };
        for track_sender in &mut self.tracks {
            track_sender.set_limits(limits.waiting(self.delivery.lag));
        }
    }

    /// Notes that the session has got congestion control while it sends, which paces from now on.
    #[cold]
    fn come_under_control(&mut self) {
        self.is_controlled = true;
        self.ramp = None;
        self.limit();
    }

    /// Returns whether no track was negotiated, so that nothing will ever be sent.
    pub fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Sets the histograms in which stages of frames are recorded from now on.
    pub fn set_stages(&mut self, stages: Arc<Mutex<StageTable>>) {
        self.stages = Some(stages);
    }

    /// Starts to send media at the newest keyframe, if there is one, because the session has keys
    /// now. Behind a keyframe that is long past, media comes faster than real time.
    pub fn start(&mut self, session: &mut Session, stream: &Stream, now: Instant) {
        for place in 0..self.tracks.len() {
            let track = &mut self.tracks[place];
            if session.senders()[track.sender.0].prefers_red {
                track.set_copies(1, session);
            }
            if track.kind() == Kind::Video {
                self.enter(place, session, stream, now);
            }
        }
        self.has_started = true;
        self.adapt(session, stream, now);
        self.rise(session, stream, now);
    }

    /// Returns whether the viewer gets video with B-frames, which a browser shows in the wrong
    /// order.
    pub fn is_reordered(&self, tracks: &[Track]) -> bool {
        let mut track_senders = self.tracks.iter();
        track_senders.any(|track_sender| {
            let TrackLayer { track, layer } = track_sender.source;
            let described = tracks.get(track.get()).and_then(|it| it.of_layer(layer));
            described.is_some_and(|it| it.video.reordered)
        })
    }

    /// Loads the memory that [`offer`](Self::offer) and [`flush`](Self::flush) will read into the
    /// cache; see [`Session::prefetch`].
    #[inline]
    pub fn prefetch(&self) -> u64 {
        self.tracks.iter().map(TrackSender::prefetch).sum::<u64>()
    }

    /// Offers a unit of `stream` that was just published and that the shard has held since
    /// `read_at`. Returns how many units were dropped because the viewer is too slow.
    #[inline]
    pub fn offer(&mut self, unit: &Arc<MediaUnit>, read_at: Instant, stream: &Stream) -> usize {
        let Some(track_sender) = self
            .tracks
            .iter_mut()
            .find(|track_sender| track_sender.source == unit.track_layer())
        else {
            self.cross(unit, read_at, stream);
            return 0;
        };
        let dropped = match track_sender.offer(unit, read_at) {
            OfferOutcome::Skipped { frames } => frames,
            OfferOutcome::Queued | OfferOutcome::Passed => 0,
        };
        if track_sender.wants_keyframe() && track_sender.asks_for_keyframe(read_at) {
            let wanted = track_sender.target().unwrap_or(track_sender.source);
            stream.request_keyframe_of(wanted);
            if track_sender.latest().is_none() {
                // The layer to which the viewer moves may not come.
                stream.request_keyframe_of(track_sender.source);
            }
        }
        if dropped > 0 && self.is_protected() {
            self.end_protection(read_at);
        }
        dropped
    }

    /// Returns the units of `stream` that were published after each track's last one and not
    /// offered here.
    pub fn missed(&self, stream: &Stream) -> Vec<Arc<MediaUnit>> {
        let places = self
            .tracks
            .iter()
            .filter_map(|track_sender| Some((track_sender.source, track_sender.next()?)));
        places
            .flat_map(|(source, next)| stream.since(source, next))
            .collect()
    }

    /// Returns whether nothing is to be sent: no media waits, and no probe is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.has_nothing_waiting()
            && !self.is_probing()
            && self.repairs.copy_at().is_none()
            && self.fec_bytes().is_none()
    }

    #[inline]
    fn has_nothing_waiting(&self) -> bool {
        self.repairs.is_empty() && self.tracks.iter().all(|it| it.front().is_none())
    }

    /// Returns whether video waits to be sent, which begins with a keyframe.
    pub fn has_video_waiting(&self) -> bool {
        let mut video = self.tracks.iter().filter(|it| it.kind() == Kind::Video);
        video.any(|it| it.front().is_some())
    }

    /// Seals the packets that may leave at `now`. Calls `finished` with each accounted frame whose
    /// last packet is among them.
    ///
    /// Missed packets go first, because newer frames cannot be decoded without. Audio follows: it is
    /// small and must not wait behind a keyframe. But where the rest of a video frame leaves at once,
    /// audio follows it as the short tail of the same message.
    pub fn flush<S: Sink>(
        &mut self,
        session: &mut Session,
        mut batch: Batch<'_, S>,
        now: Instant,
        counters: &SendCounters,
        mut finished: impl FnMut(FrameStamps),
    ) {
        self.pacer.set_transport(batch.transport());
        if batch.transport() == Transport::Tcp {
            // The kernel's congestion control has the connection.
            self.ramp = None;
        }
        let next_before = session.next_transport_number();
        if self.repairs.are_due(now) {
            self.send_repairs(session, &mut batch, now, counters);
        }
        self.adapt_to_temporal_layers(session, now);
        let budget = session.budget(now);
        if budget.is_some() && !self.is_controlled {
            self.come_under_control();
        }
        let order = if self.ends_a_frame(budget, now) {
            [Kind::Video, Kind::Audio]
        } else {
            [Kind::Audio, Kind::Video]
        };
        let yields = budget.is_some() && self.repairs.are_next(|bytes| session.may_repair(bytes));
        for kind in order {
            if yields && kind == Kind::Video {
                continue;
            }
            for place in 0..self.tracks.len() {
                if self.tracks[place].kind() != kind {
                    continue;
                }
                while let Some(frame) = self.seal_next(session, place, &mut batch, now) {
                    frame.into_iter().for_each(&mut finished);
                }
            }
        }
        if self.fec_bytes().is_some() {
            self.send_fec(session, &mut batch, now, counters);
        }
        if self.has_padding {
            let follows = session.next_transport_number() > next_before;
            self.send_padding(session, &mut batch, follows, now);
        }
        drop(batch);
        if self.has_nothing_waiting() {
            self.ramp = None;
            if budget.is_some() {
                session.set_app_limited();
            }
        }
    }

    /// Returns whether all waiting packets of a frame may leave at `now`.
    fn ends_a_frame(&self, budget: Option<u64>, now: Instant) -> bool {
        self.tracks.iter().any(|track_sender| {
            track_sender.kind() == Kind::Video
                && track_sender.front().is_some_and(|queued| {
                    let left = queued.unit.packet_count() - queued.sent;
                    self.allowance(queued, budget, now) >= left
                })
        })
    }

    /// Returns how many packets of a frame may leave at `now`: as the viewer's congestion control
    /// allows, or as pacer and ramp spread them.
    #[inline]
    fn allowance(&self, queued: &Queued, budget: Option<u64>, now: Instant) -> usize {
        match budget {
            Some(bytes) => affordable(queued, bytes),
            None => {
                let spread = self.pacer.allowance(queued.unit.packet_count(), now);
                match &self.ramp {
                    None => spread,
                    Some(ramp) => spread.min(affordable(queued, ramp.allowance(now))),
                }
            }
        }
    }

    /// Seals the packets of a track's next unit that may leave; returns `None` if none may. Returns
    /// the frame's stamps with the last packet of an accounted frame.
    fn seal_next<S: Sink>(
        &mut self,
        session: &mut Session,
        place: usize,
        batch: &mut Batch<'_, S>,
        now: Instant,
    ) -> Option<Option<FrameStamps>> {
        let track_sender = &self.tracks[place];
        let queued = track_sender.front()?;
        let is_video = track_sender.kind() == Kind::Video;
        let (packets, from) = (queued.unit.packet_count(), queued.sent);
        let allowance = if is_video {
            self.allowance(queued, session.budget(now), now)
        } else {
            packets
        };
        let count = allowance.min(packets - from);
        if count == 0 {
            return None;
        }
        let track_sender = &mut self.tracks[place];
        let mut redundancy = track_sender.redundancy.take();
        let queued = track_sender.front()?;
        let unit = &queued.unit;
        let leg = track_sender.leg(queued.leg)?;
        let timestamp = track_sender.timestamp(unit, &leg);
        let live = !leg.is_past(unit.time);
        if let Some(forwarded) = unit.forwarded().filter(|it| it.gap > 0 && from == 0) {
            // This fails only before the session has keys, when nothing is sealed either.
            session.skip(track_sender.sender, forwarded.gap);
        }
        if live && from == 0 {
            session.anchor(track_sender.sender, timestamp, unit.stamps.reference);
        }
        // Audio may follow in the same message if the frame's last packet is as long as the others.
        let pads = is_video && self.rides && session.senders()[track_sender.sender.0].may_pad();
        let sender = track_sender.sender;
        let protection = self.protection.as_mut().filter(|_| is_video);
        let mut groups = protection.and_then(|it| it.groups_of(sender));
        let mut sealed = 0;
        let mut first_sequence = 0;
        for index in from..from + count {
            let payload = match &mut redundancy {
                Some(redundancy) => redundancy.wrap(unit, index, timestamp),
                None => unit.payload(index),
            };
            let Some(payload) = payload else {
                break;
            };
            let payload = self
                .moved
                .payload(track_sender.codec(), payload, leg.number_shift());
            let marker = is_video && unit.marker(index);
            let padding = if pads { unit.padding(index) } else { 0 };
            batch.push(|out| {
                let Some(packet) =
                    session.seal_padded(sender, timestamp, marker, payload, padding, now, out)
                else {
                    return 0;
                };
                // The packets have consecutive sequence numbers.
                first_sequence = packet.sequence - sealed;
                sealed += 1;
                if let Some(groups) = &mut groups {
                    let numbers = &session.senders()[sender.0];
                    groups.cover(
                        &Packet {
                            header: &numbers.protected_header(
                                packet.sequence,
                                timestamp,
                                marker,
                                padding,
                            ),
                            payload,
                            padding,
                            bytes: packet.len,
                            place: index,
                            left: packets - index - 1,
                            timestamp,
                        },
                        now,
                    );
                }
                packet.len
            });
        }
        let first = SentPacket {
            leg: queued.leg,
            packet: unit.first_packet + from as u64,
        };
        let ends = live && track_sender.source.track == self.accounted && unit.last;
        let frame = (ends && from + count == packets).then_some(FrameStamps {
            timestamp,
            origin: unit.stamps.origin,
            published: unit.stamps.published,
            relay: unit.stamps.relay,
            read_at: queued.read_at,
            paced: now,
            sent: now,
        });
        if sealed > 0 {
            track_sender.note_sent(first_sequence, first, sealed);
        }
        if is_video {
            self.repairs.yield_turn();
            self.pacer.sent(count, packets, now);
            if let (Some(ramp), Some(queued)) = (&mut self.ramp, track_sender.front()) {
                let bytes = (from..from + count).map(|index| packet_bytes(&queued.unit, index));
                ramp.sent(bytes.sum(), now);
            }
        }
        track_sender.advance(count, now);
        track_sender.redundancy = redundancy;
        Some(frame)
    }

    /// Notes that the kernel has had the whole `frame` since `sent`.
    pub fn left(&mut self, mut frame: FrameStamps, sent: Instant) {
        frame.sent = sent;
        if let Some(stages) = &self.stages {
            let mut stages = stages.lock();
            for (stage, delay) in frame.stages() {
                if matches!(stage, Stage::Pace | Stage::Send) {
                    stages.record(stage, delay, sent);
                }
            }
        }
        self.log.push(frame);
    }

    /// Returns the frame that the viewer knows by this RTP timestamp, if it is still kept.
    pub fn frame(&mut self, timestamp: u32) -> Option<FrameStamps> {
        self.log.find(timestamp)
    }
}

/// Returns how many of the waiting packets fit into a budget of `bytes`.
fn affordable(queued: &Queued, bytes: u64) -> usize {
    let mut left = bytes;
    let mut count = 0;
    while queued.sent + count < queued.unit.packet_count() {
        let cost = packet_bytes(&queued.unit, queued.sent + count);
        if cost > left {
            break;
        }
        left -= cost;
        count += 1;
    }
    count
}

/// Returns the size of a unit's packet with what sealing adds, in bytes.
fn packet_bytes(unit: &MediaUnit, index: usize) -> u64 {
    unit.payload(index).map_or(0, <[u8]>::len) as u64 + SEALING_BYTES
}

#[cfg(test)]
mod tests;
