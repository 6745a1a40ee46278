//! The far end of one WebRTC session, whatever it is here for.
//!
//! ```text
//!  datagrams ─► Session ─► events ─► Peer ─┬► Role: Viewer, Participant, DataPublisher
//!  timers ────────┘                        └► data channels, if there are any
//! ```
//!
//! A peer belongs whole to one thread at a time. What every session needs stands here:
//! handshake, addresses, deadlines, control datagrams. What is sent and taken is the
//! role's.

mod addresses;
mod channels;
mod context;
mod data_publisher;
mod participant;
mod role;
mod viewer;

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use glassline_hub::Stream;
use glassline_media::{MediaUnit, StageTable, Track};
use glassline_rtp::Packet;
use glassline_webrtc::{Event, ReceiverIndex, Session};

use super::admission::Permit;
use super::counters::Counters;
use crate::egress::webrtc::{Nack, Route};
use crate::latency::{Board, FrameStamps, PathView, SelectedPath};
use crate::messages::Messages;
use crate::runtime::SessionId;

use addresses::Addresses;
pub(super) use context::{Leaving, Served, ShardContext};
pub(crate) use data_publisher::DataPublisher;
pub(crate) use participant::Participant;
pub(crate) use role::Role;
pub(crate) use viewer::Viewer;

/// How often what feedback tells of the way to a viewer is shown: all shards share
/// one board.
const PATH_SHOWN: Duration = Duration::from_secs(1);

/// The far end of one session, and everything that the server keeps for it.
#[derive(Debug)]
pub struct Peer {
    id: SessionId,
    /// What it watches, speaks as, or publishes beside.
    stream: Arc<Stream>,
    pub(super) session: Session,
    role: Role,
    /// Its data channels, if there are any.
    messages: Option<Box<Messages>>,
    /// Its place among the half-open, until the handshake is done.
    permit: Option<Permit>,
    addresses: Addresses,
    created: Instant,
    /// The deadline that the shard's timers hold.
    pub(super) armed: Option<Instant>,
    /// When the way to it was shown last.
    selected_shown: Option<Instant>,
    /// By its latest report that had one.
    rtt: Option<Duration>,
}

impl Peer {
    /// A peer of `stream` whose handshake is still to come.
    pub(crate) fn new(
        id: SessionId,
        stream: Arc<Stream>,
        session: Session,
        role: Role,
        permit: Permit,
        now: Instant,
    ) -> Self {
        Self {
            id,
            stream,
            session,
            role,
            messages: None,
            permit: Some(permit),
            addresses: Addresses::default(),
            created: now,
            armed: None,
            selected_shown: None,
            rtt: None,
        }
    }

    /// The same peer, whose session has data channels, too.
    #[must_use]
    pub(crate) fn with_messages(mut self, messages: Messages) -> Self {
        self.messages = Some(Box::new(messages));
        self
    }

    /// Its name in URLs.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// What it watches, speaks as, or publishes beside.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// The session, for what has to change before a shard adopts it.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Its handshake is done.
    const fn is_joined(&self) -> bool {
        self.permit.is_none()
    }

    /// Frames of its stream are read for it.
    pub(super) fn is_sent_to(&self) -> bool {
        matches!(&self.role, Role::Viewer(viewer) if !viewer.sender.is_empty())
    }

    /// Accounts for the stages of its frames in `stages` from now on.
    pub(super) fn set_stages(&mut self, stages: Arc<Mutex<StageTable>>) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.sender.set_stages(stages);
        }
    }

    /// Takes a packet of receiver number `receiver` with this extended sequence number.
    pub(super) fn on_packet(
        &mut self,
        place: (ReceiverIndex, u64),
        packet: &Packet<'_>,
        now: Instant,
        counters: &Counters,
    ) {
        if let Role::Participant(participant) = &mut self.role {
            participant.on_packet(&self.session, place, packet, now, &counters.voice);
        }
    }

    /// The frame known to the viewer by `timestamp`.
    pub(super) fn frame(&mut self, timestamp: u32) -> Option<FrameStamps> {
        match &mut self.role {
            Role::Viewer(viewer) => viewer.sender.frame(timestamp),
            Role::Participant(_) | Role::DataPublisher(_) => None,
        }
    }

    /// All addresses that lead to it.
    pub(super) fn addresses(&self) -> &[SocketAddr] {
        self.addresses.known()
    }

    /// Notes where an authentic datagram came from; returns the address that is
    /// forgotten for it if there are too many: the oldest that is not in use.
    pub(super) fn note_address(
        &mut self,
        from: SocketAddr,
        to: Option<IpAddr>,
    ) -> Option<SocketAddr> {
        self.addresses.note(from, to, self.session.peer())
    }

    /// Another peer speaks from `address` now: send nothing there until an
    /// authentic datagram of this one comes from it.
    pub(super) const fn mute(&mut self, address: SocketAddr) {
        self.addresses.mute(address);
    }

    /// An authentic datagram of this peer came from `address`.
    pub(super) fn unmute(&mut self, address: SocketAddr) {
        self.addresses.unmute(address);
    }

    /// Where its media goes.
    fn route(&self) -> Option<Route> {
        self.addresses.route(self.session.peer()?)
    }

    /// Does what the session has to do: events, datagrams, media that may leave.
    pub(super) fn serve(&mut self, now: Instant, shard: &mut ShardContext<'_>) -> Served {
        let mut served = Served::Alive;
        while let Some(event) = self.session.poll_event() {
            if self.on_event(event, now, shard) == Served::Closed {
                served = Served::Closed;
            }
        }
        // Control first: media that overtakes the last datagram of the handshake
        // finds no keys at the viewer, which then misses its first keyframe.
        if self.messages.is_none() || served == Served::Closed {
            self.transmit_control(shard);
        } else {
            self.serve_messages(now, shard);
        }
        if served != Served::Closed {
            self.flush(now, shard);
        }
        served
    }

    fn transmit_control(&mut self, shard: &mut ShardContext<'_>) {
        while let Some(destination) = self.session.poll_transmit(shard.control) {
            if let Some(route) = self.addresses.route(destination) {
                shard.outbox.send(shard.control, route);
            }
        }
    }

    fn on_event(&mut self, event: Event, now: Instant, shard: &mut ShardContext<'_>) -> Served {
        match event {
            Event::Connected { .. } => {
                self.start(now, shard.counters);
                self.show_selected(now, shard.board);
            }
            Event::AddressChanged { .. } => self.show_selected(now, shard.board),
            Event::ReceiverReport { rtt, .. } => {
                self.rtt = rtt.or(self.rtt);
                let soon = |at: Instant| now.saturating_duration_since(at) < PATH_SHOWN;
                if !self.selected_shown.is_some_and(soon) {
                    self.show_selected(now, shard.board);
                }
            }
            Event::KeyframeRequest { .. } => {
                shard.counters.keyframe_requests.add(1);
                self.stream.request_keyframe();
            }
            Event::TransportFeedback { .. } => self.show_path(now, shard.board),
            Event::Nack { sender, lost, .. } => {
                let lost = &lost;
                self.repair(Nack { sender, lost }, now, shard);
            }
            Event::Closed(reason) => {
                let role = self.role.as_str();
                if self.is_joined() {
                    tracing::info!(session = %self.id, stream = %self.stream.name(), %reason, "{role} left");
                } else {
                    shard.counters.handshakes_failed.add(1);
                    tracing::info!(session = %self.id, stream = %self.stream.name(), %reason, "{role} never arrived");
                }
                return Served::Closed;
            }
            _ => {}
        }
        Served::Alive
    }

    /// Shows which way datagrams go to this peer.
    fn show_selected(&mut self, now: Instant, board: &Board) {
        if matches!(self.role, Role::DataPublisher(_)) {
            return;
        }
        if let Some(path) = self.session.path() {
            self.selected_shown = Some(now);
            let path = SelectedPath::of(&path, self.rtt);
            board.show_selected(self.stream.name(), &self.id, path);
        }
    }

    /// Shows how the way to this viewer stands, once a second, if that is known.
    fn show_path(&mut self, now: Instant, board: &Board) {
        let Role::Viewer(viewer) = &mut self.role else {
            return;
        };
        let soon = |at: Instant| now.saturating_duration_since(at) < PATH_SHOWN;
        if viewer.path_shown.is_some_and(soon) {
            return;
        }
        if let Some(report) = self.session.path_report() {
            viewer.path_shown = Some(now);
            let view = PathView::of(&report);
            board.show_path(self.stream.name(), &self.id, view, now);
        }
    }

    /// The keys are there: the role begins.
    fn start(&mut self, now: Instant, counters: &Counters) {
        if self.is_joined() {
            return;
        }
        if self.gets_reordered(&self.stream.tracks()) {
            // Found out since it was answered.
            tracing::warn!(session = %self.id, stream = %self.stream.name(), "viewer sent away: the video has B-frames");
            self.session.close(now);
            return;
        }
        self.permit = None;
        counters.joined.add(1);
        let took = now.saturating_duration_since(self.created);
        tracing::info!(session = %self.id, stream = %self.stream.name(), ms = took.as_millis(), "{} joined", self.role.as_str());
        match &mut self.role {
            Role::Viewer(viewer) => viewer.start(&mut self.session, &self.stream, now),
            Role::DataPublisher(publisher) => publisher.start(now),
            // Who speaks is no viewer of its own voice.
            Role::Participant(_) => {}
        }
    }

    /// It gets frames that it will show in the wrong order.
    pub(super) fn gets_reordered(&self, tracks: &[Track]) -> bool {
        matches!(&self.role, Role::Viewer(viewer) if viewer.sender.is_reordered(tracks))
    }

    /// See [`Session::touch`].
    pub(super) fn prefetch(&self) -> u64 {
        let sender = match &self.role {
            Role::Viewer(viewer) => viewer.sender.prefetch(),
            Role::Participant(_) | Role::DataPublisher(_) => 0,
        };
        sender ^ self.session.touch() ^ u64::from(self.armed.is_some())
    }

    /// Takes a burst that was just published, held by the shard since `picked`.
    pub(super) fn offer(&mut self, burst: &Arc<MediaUnit>, picked: Instant, counters: &Counters) {
        let Role::Viewer(viewer) = &mut self.role else {
            return;
        };
        if self.permit.is_some() {
            // Its handshake is still to come.
            return;
        }
        let frames = viewer.sender.offer(burst, picked, &self.stream);
        if frames == 0 {
            return;
        }
        counters.send.dropped_slow.add(frames as u64);
        if viewer.log_skip(picked) {
            tracing::warn!(session = %self.id, stream = %self.stream.name(), frames, "viewer too slow, skipped to the next keyframe");
        }
    }

    /// Takes what was published while it moved from one shard to another: neither
    /// may have read that for it.
    pub(super) fn resume(&mut self, now: Instant, counters: &Counters) {
        let Role::Viewer(viewer) = &self.role else {
            return;
        };
        for burst in viewer.sender.missed(&self.stream) {
            self.offer(&burst, now, counters);
        }
    }

    /// Seals what may leave at `now`.
    pub(super) fn flush(&mut self, now: Instant, shard: &mut ShardContext<'_>) {
        let Some(route) = self.route() else {
            return;
        };
        let Role::Viewer(viewer) = &mut self.role else {
            return;
        };
        if shard.outbox.is_blocked() || viewer.sender.is_idle() {
            return;
        }
        let (key, batch) = (shard.key, shard.outbox.batch(route));
        let leaving = |frame| shard.leaving.push(Leaving { key, frame });
        viewer.sender.flush(&mut self.session, batch, now, leaving);
    }

    /// The kernel has all of `frame` since `sent`.
    pub(super) fn left(&mut self, frame: FrameStamps, sent: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.sender.left(frame, sent);
        }
    }

    /// Sends again what the viewer missed.
    fn repair(&mut self, nack: Nack<'_>, now: Instant, shard: &mut ShardContext<'_>) {
        let (Some(route), Role::Viewer(viewer)) = (self.route(), &self.role) else {
            return;
        };
        let (batch, counters) = (shard.outbox.batch(route), &shard.counters.send);
        let (session, stream) = (&mut self.session, &self.stream);
        let sender = &viewer.sender;
        sender.repair(session, stream, nack, now, batch, counters);
    }

    /// When this peer has to be served next. Media is no reason while the
    /// socket is `blocked`: everybody is served once it is not.
    pub(super) fn deadline(&mut self, now: Instant, blocked: bool) -> Option<Instant> {
        let paced = match &self.role {
            Role::Viewer(viewer) if !blocked && self.route().is_some() => {
                viewer.sender.deadline(&mut self.session, now)
            }
            _ => None,
        };
        let due = [self.session.poll_timeout(), paced].into_iter().flatten();
        match self.messages {
            None => due.min(),
            Some(_) => self.messages_deadline(due.min(), now, blocked),
        }
    }
}
