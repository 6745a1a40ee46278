//! One stream on its way to one viewer: which packets leave now, and which once more.
//!
//! ```text
//!  StreamSubscription ─► offer ─► TrackSender: queue of a track ─► flush ─► Batch
//!                                   Pacer, or the session's budget ──┘ │
//!  what the viewer missed ─► repair ─► Batch          FrameLog, stages ┘
//! ```
//!
//! The session seals and paces; whose session it is, and what else happens in it, is not
//! known here.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::Stream;
use glassline_media::{Kind, MediaUnit, Stage, StageTable, Track};
use glassline_webrtc::{SenderIndex, Session};
use smallvec::SmallVec;

use super::counters::SendCounters;
use super::frame_log::FrameLog;
use super::outbox::Batch;
use super::pacer::Pacer;
use super::redundancy::Redundancy;
use super::track_sender::{Patience, Queued, Taken, TrackSender};
use crate::latency::FrameStamps;

/// What header, extension and tag add to a payload, at the most.
const SEALING_BYTES: u64 = 40;

/// Packets that a viewer reports missing (RFC 4585 §6.2.1).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nack<'a> {
    /// Place among the session's senders.
    pub(crate) sender: SenderIndex,
    /// Extended sequence numbers.
    pub(crate) lost: &'a [u64],
}

/// The tracks of one stream, sent over one viewer's session.
#[derive(Debug)]
pub(crate) struct StreamSender {
    tracks: SmallVec<[TrackSender; 2]>,
    /// It gets video and audio, which may share a message.
    rides: bool,
    /// The track whose frames are followed through the stages.
    accounted: usize,
    pacer: Pacer,
    log: FrameLog,
    /// Accounts of its stream on the shard that owns the viewer.
    stages: Option<Arc<Mutex<StageTable>>>,
}

impl StreamSender {
    /// A sender of those tracks of `stream` that `session` has agreed on. A frame waits
    /// no longer than `lag`, if there is one.
    pub(crate) fn new(
        session: &Session,
        stream: &Stream,
        lag: Option<Duration>,
        now: Instant,
    ) -> Self {
        let senders = session.senders().iter().enumerate();
        let mut tracks: SmallVec<[TrackSender; 2]> = senders
            .map(|(place, sender)| {
                TrackSender::new(
                    sender.track,
                    SenderIndex(place),
                    sender.codec.kind(),
                    sender.clock_rate,
                    sender.timestamp_start,
                )
            })
            .collect();
        let patience = if session.is_steered() {
            Patience::PACED
        } else {
            Patience::UNPACED
        };
        for track in &mut tracks {
            track.set_patience(patience.waiting(lag));
        }
        Self {
            accounted: stream.accounted_track(),
            rides: [Kind::Video, Kind::Audio]
                .iter()
                .all(|kind| tracks.iter().any(|track| track.kind() == *kind)),
            tracks,
            pacer: Pacer::default(),
            log: FrameLog::new(now),
            stages: None,
        }
    }

    /// No track was agreed on: nothing will ever be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.tracks.is_empty()
    }

    /// Accounts for the stages of frames in `stages` from now on.
    pub(crate) fn set_stages(&mut self, stages: Arc<Mutex<StageTable>>) {
        self.stages = Some(stages);
    }

    /// The session has keys: media begins, at the last keyframe if there is one.
    pub(crate) fn start(&mut self, session: &mut Session, stream: &Stream, now: Instant) {
        for track in &mut self.tracks {
            // Where it was agreed on, it was wanted more than without.
            if session.set_redundant(track.sender, true) {
                let payload_type = session.senders()[track.sender.0].payload_type;
                track.redundancy = Some(Box::new(Redundancy::new(payload_type)));
            }
            if track.kind() == Kind::Video
                && !track.catch_up(stream.since_keyframe(track.track), now)
            {
                stream.request_keyframe();
            }
        }
    }

    /// It gets frames that it will show in the wrong order.
    pub(crate) fn is_reordered(&self, tracks: &[Track]) -> bool {
        let mut outlets = self.tracks.iter();
        outlets.any(|outlet| {
            tracks
                .get(outlet.track)
                .is_some_and(|it| it.video.reordered)
        })
    }

    /// Reads what [`offer`](Self::offer) and [`flush`](Self::flush) will, so that it is in
    /// the cache when they do; see [`Session::touch`].
    #[inline]
    pub(crate) fn prefetch(&self) -> u64 {
        self.tracks.iter().map(TrackSender::prefetch).sum::<u64>()
    }

    /// Takes a burst of `stream` that was just published, held by the shard since `picked`.
    /// Returns how many bursts were dropped because the viewer is too slow.
    #[inline]
    pub(crate) fn offer(
        &mut self,
        burst: &Arc<MediaUnit>,
        picked: Instant,
        stream: &Stream,
    ) -> usize {
        let Some(outlet) = self
            .tracks
            .iter_mut()
            .find(|outlet| outlet.track == burst.track)
        else {
            return 0;
        };
        let dropped = match outlet.offer(burst, picked) {
            Taken::Skipped { frames } => frames,
            Taken::Queued | Taken::Passed => 0,
        };
        if outlet.wants_keyframe() {
            stream.request_keyframe();
        }
        dropped
    }

    /// What `stream` published and was not offered here since each track's last burst.
    pub(crate) fn missed(&self, stream: &Stream) -> Vec<Arc<MediaUnit>> {
        let places = self
            .tracks
            .iter()
            .filter_map(|outlet| Some((outlet.track, outlet.next()?)));
        places
            .flat_map(|(track, next)| stream.since(track, next))
            .collect()
    }

    /// Nothing waits to be sent.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.tracks.iter().all(|it| it.front().is_none())
    }

    /// Seals what may leave at `now`; `finished` is called with each accounted frame whose
    /// last packet is among it.
    ///
    /// Audio goes first, it is small and must not stand behind a keyframe; but
    /// where the rest of a frame leaves at once, audio follows it and rides as
    /// the short tail of the same message.
    pub(crate) fn flush(
        &mut self,
        session: &mut Session,
        mut batch: Batch<'_>,
        now: Instant,
        mut finished: impl FnMut(FrameStamps),
    ) {
        let budget = session.budget(now);
        let order = if self.ends_a_frame(budget, now) {
            [Kind::Video, Kind::Audio]
        } else {
            [Kind::Audio, Kind::Video]
        };
        for kind in order {
            for place in 0..self.tracks.len() {
                if self.tracks[place].kind() != kind {
                    continue;
                }
                while let Some(frame) = self.seal_next(session, place, &mut batch, now) {
                    frame.into_iter().for_each(&mut finished);
                }
            }
        }
        drop(batch);
        if budget.is_some() && self.is_idle() {
            session.note_idle();
        }
    }

    /// All that waits of a frame may leave at `now`.
    fn ends_a_frame(&self, budget: Option<u64>, now: Instant) -> bool {
        self.tracks.iter().any(|outlet| {
            outlet.kind() == Kind::Video
                && outlet.front().is_some_and(|queued| {
                    let left = queued.burst.packet_count() - queued.sent;
                    self.allowance(queued, budget, now) >= left
                })
        })
    }

    /// How many packets of a frame may leave at `now`: as the viewer's congestion
    /// control says, or spread a little.
    #[inline]
    fn allowance(&self, queued: &Queued, budget: Option<u64>, now: Instant) -> usize {
        match budget {
            None => self.pacer.allowance(queued.burst.packet_count(), now),
            Some(bytes) => affordable(queued, bytes),
        }
    }

    /// Seals what may leave of the next burst of an outlet; `None` if nothing
    /// may. Gives the frame's stamps if this was the end of a frame to be accounted.
    fn seal_next(
        &mut self,
        session: &mut Session,
        place: usize,
        batch: &mut Batch<'_>,
        now: Instant,
    ) -> Option<Option<FrameStamps>> {
        let budget = session.budget(now);
        let outlet = &self.tracks[place];
        let queued = outlet.front()?;
        let is_video = outlet.kind() == Kind::Video;
        let (packets, from) = (queued.burst.packet_count(), queued.sent);
        let allowance = if is_video {
            self.allowance(queued, budget, now)
        } else {
            packets
        };
        let count = allowance.min(packets - from);
        if count == 0 {
            return None;
        }
        let outlet = &mut self.tracks[place];
        let mut redundancy = outlet.redundancy.take();
        let queued = outlet.front()?;
        let burst = &queued.burst;
        let timestamp = outlet.timestamp(burst);
        let live = !outlet.is_past(burst.time);
        if let Some(forwarded) = burst.forwarded().filter(|it| it.gap > 0 && from == 0) {
            // False only before keys, when nothing is sealed either.
            session.skip(outlet.sender, forwarded.gap);
        }
        if live && from == 0 {
            session.anchor(outlet.sender, timestamp, burst.stamps.reference);
        }
        // Audio may ride behind a frame whose last packet is as long as the others.
        let pads = is_video && self.rides && session.senders()[outlet.sender.0].may_pad();
        let sender = outlet.sender;
        let mut sealed = 0;
        let mut first_sequence = 0;
        for index in from..from + count {
            let payload = match &mut redundancy {
                Some(redundancy) => redundancy.wrap(burst, index, timestamp),
                None => burst.payload(index),
            };
            let Some(payload) = payload else {
                break;
            };
            let marker = is_video && burst.marker(index);
            let padding = if pads { burst.padding(index) } else { 0 };
            batch.push(|out| {
                let Some(packet) =
                    session.seal_padded(sender, timestamp, marker, payload, padding, now, out)
                else {
                    return 0;
                };
                // They are numbered in a row.
                first_sequence = packet.sequence - sealed;
                sealed += 1;
                packet.len
            });
        }
        let first_packet = burst.first_packet + from as u64;
        let ends = live && outlet.track == self.accounted && burst.last;
        let frame = (ends && from + count == packets).then_some(FrameStamps {
            timestamp,
            origin: burst.stamps.origin,
            published: burst.stamps.published,
            picked: queued.picked,
            paced: now,
            sent: now,
        });
        if sealed > 0 {
            outlet.note_sent(first_sequence, first_packet, sealed);
        }
        if is_video {
            self.pacer.sent(count, packets, now);
        }
        outlet.advance(count);
        outlet.redundancy = redundancy;
        Some(frame)
    }

    /// The kernel has all of `frame` since `sent`.
    pub(crate) fn left(&mut self, mut frame: FrameStamps, sent: Instant) {
        frame.sent = sent;
        if let Some(stages) = &self.stages {
            let mut stages = stages.lock().unwrap_or_else(PoisonError::into_inner);
            for (stage, delay) in frame.stages() {
                if matches!(stage, Stage::Pace | Stage::Send) {
                    stages.record(stage, delay, sent);
                }
            }
        }
        self.log.push(frame);
    }

    /// The frame known to the viewer by `timestamp`.
    pub(crate) fn frame(&mut self, timestamp: u32) -> Option<FrameStamps> {
        self.log.find(timestamp)
    }

    /// Sends again what the viewer missed, sealed anew from the shared ring.
    pub(crate) fn repair(
        &self,
        session: &mut Session,
        stream: &Stream,
        Nack { sender, lost }: Nack<'_>,
        now: Instant,
        mut batch: Batch<'_>,
        counters: &SendCounters,
    ) {
        let Some(outlet) = self.tracks.iter().find(|outlet| outlet.sender == sender) else {
            return;
        };
        for sequence in lost {
            let packet = outlet.packet_of(*sequence);
            let found = packet.and_then(|packet| stream.find(outlet.track, packet));
            let Some((burst, index)) = found else {
                counters.unrepairable.add(1);
                continue;
            };
            let Some(payload) = burst.payload(index) else {
                continue;
            };
            let timestamp = outlet.timestamp(&burst);
            let marker = burst.marker(index) && outlet.kind() == Kind::Video;
            batch.push(|out| {
                let sealed = session
                    .seal_retransmission(sender, *sequence, timestamp, marker, payload, now, out);
                let sent = u64::from(sealed.is_some());
                counters.retransmissions.add(sent);
                sealed.unwrap_or(0)
            });
        }
    }

    /// When the next packet of a frame may leave, if one waits.
    #[inline]
    pub(crate) fn deadline(&self, session: &mut Session, now: Instant) -> Option<Instant> {
        let mut video_frames = self
            .tracks
            .iter()
            .filter(|outlet| outlet.kind() == Kind::Video)
            .filter_map(TrackSender::front);
        let queued = video_frames.next()?;
        if session.is_steered() {
            session.budget_at(next_bytes(queued), now)
        } else {
            self.pacer.deadline().map(|at| at.max(now))
        }
    }
}

/// Packets of what waits that `bytes` pay for.
fn affordable(queued: &Queued, bytes: u64) -> usize {
    let mut left = bytes;
    let mut count = 0;
    while let Some(payload) = queued.burst.payload(queued.sent + count) {
        let cost = payload.len() as u64 + SEALING_BYTES;
        if cost > left {
            break;
        }
        left -= cost;
        count += 1;
    }
    count
}

/// What the next packet costs.
fn next_bytes(queued: &Queued) -> u64 {
    let payload = queued.burst.payload(queued.sent);
    payload.map_or(0, <[u8]>::len) as u64 + SEALING_BYTES
}
