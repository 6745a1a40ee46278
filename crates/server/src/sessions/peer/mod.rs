//! The remote end of one WebRTC session, whatever its role is.
//!
//! ```text
//!  datagrams ─► Session ─► events ─► Peer ─┬► Role: Viewer, Participant, Talker …
//!  timers ────────┘                        └► data channels, if there are any
//! ```
//!
//! A peer belongs to one thread at a time as a whole. This module has what every session needs:
//! handshake, addresses, deadlines, control datagrams. The role decides which media is sent and
//! received.

mod addresses;
mod channels;
mod connecting;
mod context;
mod data_publisher;
mod ending;
mod failure;
mod joining;
mod layers;
mod own_stream;
mod packet_place;
mod participant;
mod path;
mod publisher;
mod reach;
mod role;
mod talker;
mod viewer;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_egress::webrtc::{Nack, Outbox, ReceptionReport};
use glassline_hub::Stream;
use glassline_ingest::whip::Arrivals;
use glassline_latency::FrameStamps;
use glassline_media::{MediaUnit, StageTable};
use glassline_messages::Messages;
use glassline_rtp::Packet;
use glassline_runtime::SessionId;
use glassline_webrtc::{CloseReason, Event, Session};
use parking_lot::Mutex;

use super::counters::Counters;
use super::endings::EndReason;

use addresses::Addresses;
pub(super) use connecting::{Connecting, Dismissal};
pub(super) use context::{Leaving, Served, ShardContext};
pub(crate) use data_publisher::DataPublisher;
use joining::Joining;
pub(super) use packet_place::PacketPlace;
pub(crate) use participant::Participant;
pub(crate) use publisher::Publisher;
pub(crate) use role::Role;
pub(super) use talker::TalkCounters;
pub(crate) use talker::Talker;
pub(crate) use viewer::Viewer;
use viewer::{LADDER_HELPS, lacks_layers};

/// Interval at which the state of the path to a viewer is published. All shards share one registry,
/// so this must not be too often.
const PATH_SHOWN: Duration = Duration::from_secs(1);

/// How long before its time a report leaves if there is media that it can leave with. Audio comes
/// every 20 ms and video every 33 ms, so that hardly a report needs a write of its own.
const REPORT_EARLY: Duration = Duration::from_millis(40);

/// The remote end of one session, with everything that the server keeps for it.
#[derive(Debug)]
pub struct Peer {
    id: SessionId,
    /// The stream that the peer watches, publishes its voice as, or publishes messages next to.
    stream: Arc<Stream>,
    pub(super) session: Session,
    role: Role,
    /// State of the peer's data channels; `None` if it has none.
    messages: Option<Box<Messages>>,
    /// The state that is needed until the handshake is done, among it the right to a half-open session.
    connecting: Option<Box<Connecting>>,
    addresses: Addresses,
    created: Instant,
    /// The reason why the server closed the session; `None` if it did not.
    ending: Option<EndReason>,
    /// How the session closed; `None` before.
    closed: Option<CloseReason>,
    /// The reason why the session was told to close; `None` if it was not.
    dismissal: Option<Dismissal>,
    /// The deadline that the shard's timers hold for this peer.
    pub(super) armed: Option<Instant>,
    /// Time at which the selected path was published last.
    selected_shown: Option<Instant>,
    /// Round-trip time from the latest report that allowed to compute one.
    rtt: Option<Duration>,
    /// Largest part of the packets of one of its streams, in 256ths, that the peer reported as lost since
    /// the path was shown.
    lost: Option<u8>,
    /// The steps of the join, until media flows.
    joining: Joining,
}

impl Peer {
    /// Creates a peer of `stream` whose handshake has not begun.
    pub(in crate::sessions) fn new(
        id: SessionId,
        stream: Arc<Stream>,
        session: Session,
        role: Role,
        connecting: Connecting,
        now: Instant,
    ) -> Self {
        Self {
            id,
            stream,
            session,
            role,
            messages: None,
            connecting: Some(Box::new(connecting)),
            addresses: Addresses::default(),
            created: now,
            ending: None,
            closed: None,
            dismissal: None,
            armed: None,
            selected_shown: None,
            rtt: None,
            lost: None,
            joining: Joining::unfollowed(),
        }
    }

    /// Adds data channels to the peer.
    #[must_use]
    pub(crate) fn with_messages(mut self, messages: Messages) -> Self {
        self.messages = Some(Box::new(messages));
        self
    }

    /// Returns the session's identifier in URLs.
    pub fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the stream that the peer watches, or publishes its voice as, or messages next to.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Returns the session, for changes before a shard adopts the peer.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// Returns whether the handshake is done.
    pub(super) const fn is_joined(&self) -> bool {
        self.connecting.is_none()
    }

    /// Returns whether the peer receives a stream.
    pub(super) const fn is_viewer(&self) -> bool {
        matches!(&self.role, Role::Viewer(_))
    }

    /// Returns whether the shard reads frames of the peer's stream for it.
    pub(super) fn is_sent_to(&self) -> bool {
        matches!(&self.role, Role::Viewer(viewer) if !viewer.sender.is_empty())
    }

    /// Sets the histograms in which the stages of the peer's frames are recorded from now on.
    pub(super) fn set_stages(&mut self, stages: Arc<Mutex<StageTable>>) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.sender.set_stages(stages);
        }
    }

    /// Takes a media packet.
    pub(super) fn on_packet(
        &mut self,
        place: PacketPlace,
        packet: &Packet<'_>,
        now: Instant,
        counters: &Counters,
    ) {
        let session = &self.session;
        match &mut self.role {
            Role::Participant(participant) => {
                participant.on_packet(session, place, packet, now, &counters.voice);
            }
            Role::Publisher(publisher) => {
                publisher.on_packet(session, place, packet, now, &counters.whip);
            }
            Role::Talker(talker) => {
                talker.on_packet(session, place, packet, &counters.talk);
            }
            Role::Viewer(_) | Role::DataPublisher(_) => {}
        }
    }

    /// Returns the stamps of the frame that the viewer knows by this RTP timestamp, if they are
    /// still kept.
    pub(super) fn frame(&mut self, timestamp: u32) -> Option<FrameStamps> {
        match &mut self.role {
            Role::Viewer(viewer) => viewer.sender.frame(timestamp),
            Role::Participant(_)
            | Role::Talker(_)
            | Role::Publisher(_)
            | Role::DataPublisher(_) => None,
        }
    }

    /// Returns what arrived of the peer so far, if it publishes media.
    pub(super) fn arrivals(&self, now: Instant) -> Option<Arrivals> {
        match &self.role {
            Role::Publisher(publisher) => Some(publisher.arrivals(&self.session, now)),
            Role::Viewer(_) | Role::Participant(_) | Role::Talker(_) | Role::DataPublisher(_) => {
                None
            }
        }
    }

    /// Notes that an authentic connectivity check of the peer arrived.
    pub(super) fn heard(&self) {
        if let Some(connecting) = &self.connecting {
            connecting.permit.heard();
        }
    }

    /// Serves the session: handles its events, and sends the datagrams and media that may leave.
    pub(super) fn serve(&mut self, now: Instant, shard: &mut ShardContext<'_>) -> Served {
        let mut served = Served::Alive;
        while let Some(event) = self.session.poll_event() {
            if self.on_event(event, now, shard) == Served::Closed {
                served = Served::Closed;
            }
        }
        if let Role::Publisher(publisher) = &mut self.role
            && self.connecting.is_none()
            && served != Served::Closed
            && let Some(ending) = publisher.serve(&mut self.session, now, &shard.counters.whip)
        {
            self.ending = Some(ending);
            self.session.close(now);
            while let Some(event) = self.session.poll_event() {
                if self.on_event(event, now, shard) == Served::Closed {
                    served = Served::Closed;
                }
            }
        }
        // Control datagrams go first: media that overtakes the last datagram of the handshake finds
        // no keys at the viewer, which then misses its first keyframe.
        if self.messages.is_none() || served == Served::Closed {
            self.transmit_control(shard);
        } else {
            self.serve_messages(now, shard);
        }
        if self.joining.is_on() && served != Served::Closed {
            self.note_steps(now);
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
                self.show_selected(now, shard.latencies);
            }
            Event::AddressChanged { .. } => self.show_selected(now, shard.latencies),
            Event::ReceiverReport {
                sender,
                rtt,
                fraction_lost,
                cumulative_lost,
                ..
            } => {
                let report = ReceptionReport {
                    sender,
                    cumulative_lost,
                    round_trip: rtt,
                };
                self.take_reception(report, fraction_lost, now, shard.latencies);
            }
            Event::KeyframeRequest { sender, .. } => {
                shard.counters.keyframe_requests.add(1);
                if let Role::Viewer(viewer) = &mut self.role {
                    viewer.sender.request_keyframe(sender, &self.stream, now);
                }
            }
            Event::TransportFeedback { .. } => {
                self.adapt_layers(now);
                self.show_path(now, shard.latencies);
            }
            Event::Nack { sender, lost, .. } => {
                let lost = &lost;
                self.repair(Nack { sender, lost }, now, shard.counters);
            }
            Event::Closed(reason) => {
                self.closed = Some(reason);
                if let Role::Publisher(publisher) = &mut self.role {
                    publisher.leave(failure::departure(reason));
                }
                let role = self.role.as_str();
                if self.is_joined() {
                    tracing::info!(session = %self.id, stream = %self.stream.name(), %reason, "{role} left");
                } else {
                    // The log has the reason, see `failure`.
                    shard.counters.handshakes_failed.add(1);
                    tracing::debug!(session = %self.id, stream = %self.stream.name(), %reason, "{role} did not connect");
                }
                return Served::Closed;
            }
            _ => {}
        }
        Served::Alive
    }

    /// Starts the role, because the session has keys now.
    fn start(&mut self, now: Instant, counters: &Counters) {
        if self.is_joined() {
            return;
        }
        // The stream may have changed after the offer was answered.
        if self.close_if_superseded(self.stream.layout(), now, counters)
            || self.close_if_reordered(&self.stream.tracks(), now, counters)
        {
            return;
        }
        self.connecting = None;
        if let Some(messages) = &mut self.messages {
            messages.connected(now);
        }
        counters.joined.add(1);
        let took = now.saturating_duration_since(self.created);
        tracing::info!(session = %self.id, stream = %self.stream.name(), ms = took.as_millis(), "{} joined", self.role.as_str());
        match &mut self.role {
            Role::Viewer(viewer) => viewer.start(&mut self.session, &self.stream, now),
            Role::Publisher(publisher) => publisher.start(now),
            Role::DataPublisher(publisher) => publisher.start(now),
            // Neither is counted as a viewer.
            Role::Participant(_) | Role::Talker(_) => {}
        }
    }

    /// Loads the session's state into the cache before it is used; see [`Session::prefetch`].
    pub(super) fn prefetch(&self) -> u64 {
        let sender = match &self.role {
            Role::Viewer(viewer) => viewer.sender.prefetch(),
            Role::Participant(_)
            | Role::Talker(_)
            | Role::Publisher(_)
            | Role::DataPublisher(_) => 0,
        };
        sender ^ self.session.prefetch() ^ u64::from(self.armed.is_some())
    }

    /// Offers a unit that was just published. The shard has held it since `read_at`.
    pub(super) fn offer(&mut self, unit: &Arc<MediaUnit>, read_at: Instant, counters: &Counters) {
        let Role::Viewer(viewer) = &mut self.role else {
            return;
        };
        if self.connecting.is_some() {
            // Nothing is sent before the handshake is done.
            return;
        }
        let frames = viewer.sender.offer(unit, read_at, &self.stream);
        if self.joining.is_on() {
            self.note_steps(read_at);
        }
        if frames == 0 {
            return;
        }
        counters.send.dropped_slow.add(frames as u64);
        let Role::Viewer(viewer) = &mut self.role else {
            return;
        };
        if viewer.log_skip(read_at) {
            let (session, stream) = (&self.id, self.stream.name());
            let hint = match lacks_layers(&self.stream.tracks()) {
                true => format!("; {LADDER_HELPS}"),
                false => String::new(),
            };
            tracing::warn!(%session, %stream, frames, "viewer too slow, skipped to the next keyframe{hint}");
        }
    }

    /// Offers the units that were published while the peer moved from one shard to another, because
    /// neither shard may have read them for it.
    pub(super) fn resume(&mut self, now: Instant, counters: &Counters) {
        let Role::Viewer(viewer) = &self.role else {
            return;
        };
        for unit in viewer.sender.missed(&self.stream) {
            self.offer(&unit, now, counters);
        }
    }

    /// Seals the media that may leave at `now`.
    pub(super) fn flush(&mut self, now: Instant, shard: &mut ShardContext<'_>) {
        let Some(route) = self.route() else {
            return;
        };
        let Role::Viewer(viewer) = &self.role else {
            return;
        };
        if shard.outbox.is_blocked_to(route.destination) || viewer.sender.is_idle() {
            return;
        }
        if route.destination.is_tcp() {
            self.report_with_media(now, shard);
        }
        let Role::Viewer(viewer) = &mut self.role else {
            return;
        };
        let (key, batch) = (shard.key, shard.outbox.batch(route));
        let leaving = |frame| shard.leaving.push(Leaving { key, frame });
        let counters = &shard.counters.send;
        let session = &mut self.session;
        viewer.sender.flush(session, batch, now, counters, leaving);
        if self.joining.is_on() {
            self.note_steps(now);
        }
    }

    /// Queues reports that are due soon in front of media, so that one write carries both.
    #[cold]
    fn report_with_media(&mut self, now: Instant, shard: &mut ShardContext<'_>) {
        // Datagrams of data channels have limits of their own.
        if self.messages.is_none() && self.session.report_early(now, REPORT_EARLY) {
            self.transmit_control(shard);
        }
    }

    /// Notes that the kernel has had the whole `frame` since `sent`.
    pub(super) fn left(&mut self, frame: FrameStamps, sent: Instant) {
        if let Role::Viewer(viewer) = &mut self.role {
            viewer.sender.left(frame, sent);
        }
    }

    /// Queues the packets that the viewer reports as missing; they leave with the next media.
    fn repair(&mut self, nack: Nack<'_>, now: Instant, counters: &Counters) {
        if let Role::Viewer(viewer) = &mut self.role {
            let sender = &mut viewer.sender;
            sender.repair(&self.stream, nack, now, &counters.send);
        }
    }

    /// Returns when this peer has to be served next. While the socket or the peer's connection is
    /// full, media does not count: the peer is served once there is room.
    pub(super) fn deadline(&mut self, now: Instant, outbox: &Outbox) -> Option<Instant> {
        let blocked = self.is_blocked(outbox);
        let paced = match &self.role {
            Role::Viewer(viewer) if !blocked && self.route().is_some() => {
                viewer.sender.deadline(&mut self.session, now)
            }
            Role::Publisher(publisher) if self.connecting.is_none() => publisher.deadline(),
            _ => None,
        };
        let due = [self.session.poll_timeout(), paced].into_iter().flatten();
        match self.messages {
            None => due.min(),
            Some(_) => self.messages_deadline(due.min(), now, blocked),
        }
    }
}
