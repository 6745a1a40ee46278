//! One viewer: a WebRTC session, the tracks it is sent, and its accounts. Or one
//! participant of a room, whose session is sent nothing and says something; or one who
//! publishes messages beside a stream, without tracks.

mod data;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use glassline_hub::{Stream, ViewerToken};
use glassline_media::{Burst, Kind, Stage, StageTable, Track};
use glassline_rtp::Packet;
use glassline_webrtc::{Event, ReceiverIndex, SenderIndex, Session};
use smallvec::SmallVec;

use super::counters::Counters;
use super::frame_log::{FrameLog, FrameStamps};
use super::messages::Messages;
use super::outbox::{Batch, Outbox, Route};
use super::outlet::{Outlet, Patience, Queued, Taken};
use super::pacer::Pacer;
use super::redundancy::Redundancy;
use super::slots::Key;
use super::voice::Voice;
use crate::latency::{Board, PathView, SelectedPath};
use crate::registry::{Permit, SessionId};

/// Addresses of one viewer that lead to its session: one for each candidate
/// pair that a browser tries.
const ADDRESSES_MAX: usize = 16;

/// How often what feedback tells of the way to a viewer is shown: all shards share
/// one board.
const PATH_SHOWN: Duration = Duration::from_secs(1);

/// What header, extension and tag add to a payload, at the most.
const SEALING_BYTES: u64 = 40;

/// A viewer's session and everything that the server keeps for it.
#[derive(Debug)]
pub struct Viewer {
    id: SessionId,
    stream: Arc<Stream>,
    pub(super) session: Session,
    outlets: SmallVec<[Outlet; 2]>,
    /// What it says, if it is a participant of a room.
    voice: Option<Box<Voice>>,
    /// Its handshake is done.
    joined: bool,
    /// It gets pictures and sound, which may share a message.
    rides: bool,
    /// The track whose frames are followed through the stages.
    accounted: usize,
    pacer: Pacer,
    log: FrameLog,
    /// Accounts of its stream on the shard that owns it.
    pub(super) stages: Option<Arc<Mutex<StageTable>>>,
    /// Its place among the half-open, until the handshake is done.
    permit: Option<Permit>,
    token: Option<ViewerToken>,
    /// Where its datagrams came from.
    pub(super) addresses: Vec<SocketAddr>,
    /// An address that another viewer speaks from now: nothing is sent there.
    muted: Option<SocketAddr>,
    /// Which of our addresses it writes to.
    source: Option<IpAddr>,
    created: Instant,
    /// The deadline that the shard's timers hold.
    pub(super) armed: Option<Instant>,
    last_skip_logged: Option<Instant>,
    /// When what its feedback tells was shown last.
    path_shown: Option<Instant>,
    /// When the way to it was shown last.
    selected_shown: Option<Instant>,
    /// By its latest report that had one.
    rtt: Option<Duration>,
    /// Its data channels, if there are any.
    messages: Option<Box<Messages>>,
}

/// What a shard lends to a viewer for a moment.
pub(super) struct Lent<'a> {
    pub(super) key: Key,
    pub(super) outbox: &'a mut Outbox,
    pub(super) counters: &'a Counters,
    /// Frames that leave with the outbox's next system call.
    pub(super) leaving: &'a mut Vec<Leaving>,
    /// For datagrams of control, kept for its room.
    pub(super) control: &'a mut Vec<u8>,
    /// Where what viewers tell is shown.
    pub(super) board: &'a Board,
}

/// A frame that is sealed but not yet with the kernel; `frame.sent` is still to be set.
#[derive(Clone, Copy, Debug)]
pub(super) struct Leaving {
    pub(super) key: Key,
    pub(super) frame: FrameStamps,
}

/// What became of a viewer after it was served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// It goes on.
    Alive,
    /// It is over.
    Closed,
}

impl Viewer {
    /// A viewer of `stream` whose handshake is still to come.
    pub fn new(
        id: SessionId,
        stream: Arc<Stream>,
        session: Session,
        permit: Permit,
        lag: Option<Duration>,
        now: Instant,
    ) -> Self {
        let senders = session.senders().iter().enumerate();
        let mut outlets: SmallVec<[Outlet; 2]> = senders
            .map(|(place, sender)| {
                Outlet::new(
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
        for outlet in &mut outlets {
            outlet.set_patience(patience.waiting(lag));
        }
        Self {
            id,
            accounted: stream.accounted_track(),
            rides: [Kind::Video, Kind::Audio]
                .iter()
                .all(|kind| outlets.iter().any(|outlet| outlet.kind() == *kind)),
            stream,
            session,
            outlets,
            voice: None,
            joined: false,
            pacer: Pacer::default(),
            log: FrameLog::new(now),
            stages: None,
            permit: Some(permit),
            token: None,
            addresses: Vec::new(),
            muted: None,
            source: None,
            created: now,
            armed: None,
            last_skip_logged: None,
            path_shown: None,
            selected_shown: None,
            rtt: None,
            messages: None,
        }
    }

    /// The same as one who speaks: what comes is `voice`, that of its stream.
    #[must_use]
    pub fn speaking(mut self, voice: Voice) -> Self {
        self.voice = Some(Box::new(voice));
        self
    }

    /// Its session has data channels, too.
    pub(crate) fn with_messages(mut self, messages: Messages) -> Self {
        self.messages = Some(Box::new(messages));
        self
    }

    /// Its name in URLs.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// What it watches.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The session, for what HTTP has to change before a shard adopts it.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Its media flows.
    pub(super) fn is_joined(&self) -> bool {
        self.joined
    }

    /// It is sent something.
    pub(super) fn is_sent_to(&self) -> bool {
        !self.outlets.is_empty()
    }

    /// Takes what it says.
    pub(super) fn take(
        &mut self,
        (receiver, sequence): (ReceiverIndex, u64),
        packet: &Packet<'_>,
        now: Instant,
        counters: &Counters,
    ) {
        let Some(voice) = &mut self.voice else {
            return;
        };
        let receiver = self.session.receivers().get(receiver.0);
        let is_red = receiver.is_some_and(|it| it.is_redundant(packet.header.payload_type));
        match voice.take(sequence, packet, is_red, now) {
            Some(recovered) => {
                counters.voice_packets.add(1);
                counters.voice_recovered.add(recovered);
            }
            None => counters.voice_refused.add(1),
        }
    }

    /// What it is, for logs.
    fn role(&self) -> &'static str {
        match self.voice {
            Some(_) => "participant",
            None if self.is_publisher() => "publisher of messages",
            None => "viewer",
        }
    }

    /// The frame known to the viewer by `timestamp`.
    pub(super) fn frame(&mut self, timestamp: u32) -> Option<FrameStamps> {
        self.log.find(timestamp)
    }

    /// Notes where an authentic datagram came from; returns the address that is
    /// forgotten for it if there are too many: the oldest that is not in use.
    pub(super) fn note_address(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
    ) -> Option<SocketAddr> {
        self.source = to;
        if self.addresses.contains(&from) {
            return None;
        }
        let used = self.session.peer();
        let spare = self
            .addresses
            .iter()
            .position(|address| Some(*address) != used)
            .filter(|_| self.addresses.len() >= ADDRESSES_MAX);
        let forgotten = spare.map(|place| self.addresses.remove(place));
        self.addresses.push(from);
        forgotten
    }

    /// Another viewer speaks from `address` now: send nothing there until an
    /// authentic datagram of this one comes from it.
    pub(super) fn mute(&mut self, address: SocketAddr) {
        self.muted = Some(address);
    }

    /// An authentic datagram of this viewer came from `address`.
    pub(super) fn unmute(&mut self, address: SocketAddr) {
        if self.muted == Some(address) {
            self.muted = None;
        }
    }

    /// Where its media goes.
    fn destination(&self) -> Option<SocketAddr> {
        let peer = self.session.peer();
        peer.filter(|_| peer != self.muted)
    }

    /// Does what the session has to do: events, datagrams, media that may leave.
    pub(super) fn serve(&mut self, now: Instant, lent: &mut Lent<'_>) -> Served {
        let mut served = Served::Alive;
        while let Some(event) = self.session.poll_event() {
            if self.on_event(event, now, lent) == Served::Closed {
                served = Served::Closed;
            }
        }
        // Control first: media that overtakes the last datagram of the handshake
        // finds no keys at the viewer, which then misses its first keyframe.
        if self.messages.is_none() || served == Served::Closed {
            self.transmit_control(lent);
        } else {
            self.serve_messages(now, lent);
        }
        if served != Served::Closed {
            self.flush(now, lent);
        }
        served
    }

    fn transmit_control(&mut self, lent: &mut Lent<'_>) {
        while let Some(destination) = self.session.poll_transmit(lent.control) {
            if self.muted == Some(destination) {
                continue;
            }
            let route = Route {
                destination,
                source: self.source,
            };
            lent.outbox.send(lent.control, route);
        }
    }

    fn on_event(&mut self, event: Event, now: Instant, lent: &mut Lent<'_>) -> Served {
        match event {
            Event::Connected { .. } => {
                self.start(now, lent.counters);
                self.show_selected(now, lent.board);
            }
            Event::AddressChanged { .. } => self.show_selected(now, lent.board),
            Event::ReceiverReport { rtt, .. } => {
                self.rtt = rtt.or(self.rtt);
                let soon = |at: Instant| now.saturating_duration_since(at) < PATH_SHOWN;
                if !self.selected_shown.is_some_and(soon) {
                    self.show_selected(now, lent.board);
                }
            }
            Event::KeyframeRequest { .. } => {
                lent.counters.keyframe_requests.add(1);
                self.stream.request_keyframe();
            }
            Event::TransportFeedback { .. } => self.show_path(now, lent.board),
            Event::Nack { sender, lost, .. } => self.repair(sender, &lost, now, lent),
            Event::Closed(reason) => {
                let role = self.role();
                if self.is_joined() {
                    tracing::info!(session = %self.id, stream = %self.stream.name(), %reason, "{role} left");
                } else {
                    lent.counters.handshakes_failed.add(1);
                    tracing::info!(session = %self.id, stream = %self.stream.name(), %reason, "{role} never arrived");
                }
                return Served::Closed;
            }
            _ => {}
        }
        Served::Alive
    }

    /// Shows which way datagrams go to this viewer.
    fn show_selected(&mut self, now: Instant, board: &Board) {
        if let Some(path) = self.session.path().filter(|_| !self.is_publisher()) {
            self.selected_shown = Some(now);
            let path = SelectedPath::of(&path, self.rtt);
            board.show_selected(self.stream.name(), &self.id, path);
        }
    }

    /// Shows how the way to this viewer stands, once a second, if that is known.
    fn show_path(&mut self, now: Instant, board: &Board) {
        let soon = |at: Instant| now.saturating_duration_since(at) < PATH_SHOWN;
        if self.path_shown.is_some_and(soon) {
            return;
        }
        if let Some(report) = self.session.path_report() {
            self.path_shown = Some(now);
            let view = PathView::of(&report);
            board.show_path(self.stream.name(), &self.id, view, now);
        }
    }

    /// The keys are there: media begins, at the last keyframe if there is one.
    fn start(&mut self, now: Instant, counters: &Counters) {
        if self.is_joined() {
            return;
        }
        if self.gets_reordered(&self.stream.tracks()) {
            // Found out since it was answered.
            tracing::warn!(session = %self.id, stream = %self.stream.name(), "viewer sent away: the picture has B-frames");
            self.session.close(now);
            return;
        }
        self.permit = None;
        self.joined = true;
        self.begin_publishing(now);
        // Who speaks is no viewer of its own voice.
        let watches = self.voice.is_none() && !self.is_publisher();
        self.token = watches.then(|| self.stream.viewer());
        counters.joined.add(1);
        let took = now.saturating_duration_since(self.created);
        tracing::info!(session = %self.id, stream = %self.stream.name(), ms = took.as_millis(), "{} joined", self.role());
        for outlet in &mut self.outlets {
            // Where it was agreed on, it was wanted more than without.
            if self.session.set_redundant(outlet.sender, true) {
                let payload_type = self.session.senders()[outlet.sender.0].payload_type;
                outlet.redundancy = Some(Box::new(Redundancy::new(payload_type)));
            }
            if outlet.kind() == Kind::Video
                && !outlet.catch_up(self.stream.since_keyframe(outlet.track), now)
            {
                self.stream.request_keyframe();
            }
        }
    }

    /// It gets pictures that it will show in the wrong order.
    pub(super) fn gets_reordered(&self, tracks: &[Track]) -> bool {
        let mut outlets = self.outlets.iter();
        outlets.any(|outlet| {
            tracks
                .get(outlet.track)
                .is_some_and(|it| it.video.reordered)
        })
    }

    /// See [`Session::touch`].
    pub(super) fn touch(&self) -> u64 {
        let outlets = self.outlets.iter().map(Outlet::touch).sum::<u64>();
        outlets ^ self.session.touch() ^ u64::from(self.armed.is_some())
    }

    /// Takes a burst that was just published, held by the shard since `picked`.
    pub(super) fn offer(&mut self, burst: &Arc<Burst>, picked: Instant, counters: &Counters) {
        if !self.is_joined() {
            return;
        }
        let Some(outlet) = self
            .outlets
            .iter_mut()
            .find(|outlet| outlet.track == burst.track)
        else {
            return;
        };
        if let Taken::Skipped { frames } = outlet.offer(burst, picked) {
            counters.dropped_slow.add(frames as u64);
            // Once in a while, not once per frame: the log must not become the slow part.
            let quiet = self
                .last_skip_logged
                .is_none_or(|at| picked.saturating_duration_since(at) > Duration::from_secs(10));
            if quiet {
                self.last_skip_logged = Some(picked);
                tracing::warn!(session = %self.id, stream = %self.stream.name(), frames, "viewer too slow, skipped to the next keyframe");
            }
        }
        if outlet.wants_keyframe() {
            self.stream.request_keyframe();
        }
    }

    /// Takes what was published while it moved from one shard to another: neither
    /// may have read that for it.
    pub(super) fn resume(&mut self, now: Instant, counters: &Counters) {
        let places: Vec<_> = self
            .outlets
            .iter()
            .filter_map(|outlet| Some((outlet.track, outlet.next()?)))
            .collect();
        for (track, next) in places {
            for burst in self.stream.since(track, next) {
                self.offer(&burst, now, counters);
            }
        }
    }

    /// Seals what may leave at `now`.
    ///
    /// Sound goes first, it is small and must not stand behind a keyframe; but
    /// where the rest of a picture leaves at once, sound follows it and rides as
    /// the short tail of the same message.
    pub(super) fn flush(&mut self, now: Instant, lent: &mut Lent<'_>) {
        let Some(destination) = self.destination() else {
            return;
        };
        if lent.outbox.is_blocked() || self.outlets.iter().all(|it| it.front().is_none()) {
            return;
        }
        let budget = self.session.budget(now);
        let order = if self.ends_a_picture(budget, now) {
            [Kind::Video, Kind::Audio]
        } else {
            [Kind::Audio, Kind::Video]
        };
        let mut batch = lent.outbox.batch(Route {
            destination,
            source: self.source,
        });
        for kind in order {
            for place in 0..self.outlets.len() {
                if self.outlets[place].kind() != kind {
                    continue;
                }
                while let Some(frame) = self.seal_next(place, &mut batch, now) {
                    lent.leaving.extend(frame.map(|frame| Leaving {
                        key: lent.key,
                        frame,
                    }));
                }
            }
        }
        drop(batch);
        if budget.is_some() && self.outlets.iter().all(|it| it.front().is_none()) {
            self.session.note_idle();
        }
    }

    /// All that waits of a picture may leave at `now`.
    fn ends_a_picture(&self, budget: Option<u64>, now: Instant) -> bool {
        self.outlets.iter().any(|outlet| {
            outlet.kind() == Kind::Video
                && outlet.front().is_some_and(|queued| {
                    let left = queued.burst.packet_count() - queued.sent;
                    self.allowance(queued, budget, now) >= left
                })
        })
    }

    /// How many packets of a picture may leave at `now`: as the viewer's congestion
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
        place: usize,
        batch: &mut Batch<'_>,
        now: Instant,
    ) -> Option<Option<FrameStamps>> {
        let budget = self.session.budget(now);
        let outlet = &self.outlets[place];
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
        let outlet = &mut self.outlets[place];
        let mut redundancy = outlet.redundancy.take();
        let queued = outlet.front()?;
        let burst = &queued.burst;
        let timestamp = outlet.timestamp(burst);
        let live = !outlet.is_past(burst.time);
        if burst.gap > 0 && from == 0 {
            // False only before keys, when nothing is sealed either.
            self.session.skip(outlet.sender, burst.gap);
        }
        if live && from == 0 {
            self.session
                .anchor(outlet.sender, timestamp, burst.stamps.reference);
        }
        // Sound may ride behind a picture whose last packet is as long as the others.
        let pads = is_video && self.rides && self.session.senders()[outlet.sender.0].may_pad();
        let (session, sender) = (&mut self.session, outlet.sender);
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
    pub(super) fn left(&mut self, mut frame: FrameStamps, sent: Instant) {
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

    /// Sends again what the viewer missed, sealed anew from the shared ring.
    fn repair(&mut self, sender: SenderIndex, lost: &[u64], now: Instant, lent: &mut Lent<'_>) {
        let Some(destination) = self.destination() else {
            return;
        };
        let Some(outlet) = self.outlets.iter().find(|outlet| outlet.sender == sender) else {
            return;
        };
        let mut batch = lent.outbox.batch(Route {
            destination,
            source: self.source,
        });
        for sequence in lost {
            let packet = outlet.packet_of(*sequence);
            let found = packet.and_then(|packet| self.stream.find(outlet.track, packet));
            let Some((burst, index)) = found else {
                lent.counters.unrepairable.add(1);
                continue;
            };
            let Some(payload) = burst.payload(index) else {
                continue;
            };
            let timestamp = outlet.timestamp(&burst);
            let marker = burst.marker(index) && outlet.kind() == Kind::Video;
            batch.push(|out| {
                let sealed = self
                    .session
                    .seal_retransmission(sender, *sequence, timestamp, marker, payload, now, out);
                let sent = u64::from(sealed.is_some());
                lent.counters.retransmissions.add(sent);
                sealed.unwrap_or(0)
            });
        }
    }

    /// When this viewer has to be served next. Media is no reason while the
    /// socket is `blocked`: everybody is served once it is not.
    pub(super) fn deadline(&mut self, now: Instant, blocked: bool) -> Option<Instant> {
        let ready = !blocked && self.destination().is_some();
        let mut waiting = self
            .outlets
            .iter()
            .filter(|outlet| ready && outlet.kind() == Kind::Video)
            .filter_map(Outlet::front);
        let paced = waiting.next().and_then(|queued| {
            if self.session.is_steered() {
                self.session.budget_at(next_bytes(queued), now)
            } else {
                self.pacer.deadline().map(|at| at.max(now))
            }
        });
        let due = [self.session.poll_timeout(), paced].into_iter().flatten();
        match self.messages {
            None => due.min(),
            Some(_) => self.messages_deadline(due.min(), now, blocked),
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
