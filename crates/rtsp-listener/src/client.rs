//! One client: its connection, and the stream that it plays or publishes.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Instant;

use glassline_access::auth::{self, Requester, Users};
use glassline_egress::rtsp::{
    Budget, ConnectionWriter, Keyring, Sent, StreamReader, TrackTransports, TransportKind,
    WriteOutcome,
};
use glassline_events::failures::{ClientRole, ConnectionFailure};
use glassline_hub::{Stream, TrackLayout};
use glassline_media::TrackIndex;
use glassline_rtsp::server::{Closed, Connection, Endpoints};
use glassline_runtime::{Arrival, ConnectionPermit, Key};

use super::awaited_work::AwaitedWork;
use super::counters::Counters;
use super::failures::{self, ConnectionEnd, RequestedStream, Unfinished, interrupted};
use super::play_session::PlaySession;
use super::publish_session::PublishSession;
use super::reception::Departure;
use super::recorded::Recorded;
use super::view::ClientView;
use super::wire::Wire;

/// Most bytes of responses that wait behind a frame. Further responses stay in the connection,
/// which has a limit of its own.
const RESPONSE_BYTES_MAX: usize = 64 << 10;

/// A client of one thread.
#[derive(Debug)]
pub(super) struct Client {
    pub(super) wire: Wire,
    pub(super) connection: Connection,
    /// Generation of the users that the client's rights were checked with.
    users_generation: u64,
    pub(super) writer: ConnectionWriter,
    pub(super) peer: SocketAddr,
    pub(super) local: SocketAddr,
    pub(super) role: Role,
    pub(super) requested: RequestedStream,
    /// Keys that the description announced to the client, for the tracks that it sets up next.
    pub(super) keyring: Option<Box<Keyring>>,
    /// The stream that was described to the client last, and its tracks at that time. A client
    /// depacketizes by them until it asks again.
    pub(super) described: Option<(Weak<Stream>, TrackLayout)>,
    /// Work that the client's request waits for.
    pub(super) awaited: Option<AwaitedWork>,
    /// Cookie of the HTTP tunnel whose connection from server to client this is; `None` without a
    /// tunnel.
    pub(super) cookie: Option<Box<str>>,
    /// Whether the kernel takes no more bytes for now.
    pub(super) is_full: bool,
    /// Whether the client skipped media again and again without catching up, and is released for it.
    pub(super) is_too_slow: bool,
    /// Time at which the kernel last took bytes, or had none to take.
    pub(super) progressed: Instant,
    /// When the client connected.
    since: Instant,
    /// Set when everything was said: the connection is closed once all is written, at the latest at
    /// this time.
    pub(super) closing: Option<Instant>,
    pub(super) permit: ConnectionPermit,
    /// The connection's place among those that may make room; `None` once it was passed over because its
    /// client played or published.
    pub(super) arrival: Option<Arrival>,
}

/// The role of a client.
#[derive(Debug, Default)]
pub(super) enum Role {
    /// The client has set up nothing.
    #[default]
    Idle,
    Player(Box<PlaySession>),
    Publisher(Box<PublishSession>),
}

/// Whether the client stays after a write.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Served {
    /// The client stays connected.
    Stays,
    /// The client is to be released.
    Ends,
}

impl Role {
    /// The tracks that the client has set up.
    pub(super) fn transports(&self) -> Option<&TrackTransports> {
        match self {
            Self::Idle => None,
            Self::Player(session) => Some(&session.transports),
            Self::Publisher(session) => Some(&session.transports),
        }
    }

    /// Takes a packet that the client sent for a track; false if the packet is SRTP that
    /// the client's keys do not open.
    pub(super) fn take(
        &mut self,
        track: TrackIndex,
        control: bool,
        bytes: &[u8],
        now: Instant,
        counters: &Counters,
    ) -> bool {
        match self {
            Self::Idle => true,
            Self::Player(session) => session.take(track, control, bytes, counters),
            Self::Publisher(session) => {
                let is_authentic = session.take(track, control, bytes, now);
                if !is_authentic {
                    counters.srtp_refused.add(1);
                }
                is_authentic
            }
        }
    }
}

impl Client {
    pub(super) fn new(
        wire: Wire,
        connection: Connection,
        endpoints: Endpoints,
        permit: ConnectionPermit,
        now: Instant,
    ) -> Self {
        Self {
            wire,
            connection,
            users_generation: 0,
            writer: ConnectionWriter::default(),
            peer: endpoints.peer,
            local: endpoints.local,
            role: Role::Idle,
            requested: RequestedStream::default(),
            keyring: None,
            described: None,
            awaited: None,
            cookie: None,
            is_full: false,
            is_too_slow: false,
            progressed: now,
            since: now,
            closing: None,
            permit,
            arrival: None,
        }
    }

    /// The client's session, if it is a player.
    pub(super) fn player(&self) -> Option<&PlaySession> {
        match &self.role {
            Role::Player(session) => Some(session),
            Role::Idle | Role::Publisher(_) => None,
        }
    }

    /// The client's session to change, if it is a player.
    pub(super) fn player_mut(&mut self) -> Option<&mut PlaySession> {
        match &mut self.role {
            Role::Player(session) => Some(session),
            Role::Idle | Role::Publisher(_) => None,
        }
    }

    /// The client's session, if it is a publisher.
    pub(super) fn publisher(&self) -> Option<&PublishSession> {
        match &self.role {
            Role::Publisher(session) => Some(session),
            Role::Idle | Role::Player(_) => None,
        }
    }

    /// The client's session to change, if it is a publisher.
    pub(super) fn publisher_mut(&mut self) -> Option<&mut PublishSession> {
        match &mut self.role {
            Role::Publisher(session) => Some(session),
            Role::Idle | Role::Player(_) => None,
        }
    }

    /// Notes that the tracks of `stream` are described to the client as of `layout`.
    pub(super) fn note_described(&mut self, stream: &Arc<Stream>, layout: TrackLayout) {
        self.described = Some((Arc::downgrade(stream), layout));
    }

    /// Returns whether the client was described other tracks of `stream` than those of `layout`. A
    /// client that never asked for the description on this connection knows the tracks otherwise.
    pub(super) fn was_described_others(&self, stream: &Arc<Stream>, layout: TrackLayout) -> bool {
        let described = self.described.as_ref();
        described.is_some_and(|(of, then)| {
            std::ptr::eq(of.as_ptr(), Arc::as_ptr(stream)) && *then != layout
        })
    }

    /// The reader of the stream that the client has set up.
    pub(super) fn reader(&self) -> Option<Key> {
        self.player().map(|session| session.reader)
    }

    pub(super) fn is_playing(&self) -> bool {
        self.player().is_some_and(PlaySession::is_playing)
    }

    /// Returns whether the client plays or publishes. A session that was only set up is cheap to keep
    /// open, and must not hold a place against those who would use it.
    pub(super) fn is_served(&self) -> bool {
        let is_publishing = |session: &PublishSession| session.recording.is_live();
        self.is_playing() || self.publisher().is_some_and(is_publishing)
    }

    /// Withdraws the client's rights if the users have changed since they were checked: its next
    /// request is checked with the present users.
    pub(super) fn recheck_rights(&mut self, users: &Users) {
        let generation = users.generation();
        if self.users_generation != generation {
            self.users_generation = generation;
            self.connection.withdraw_grant();
        }
    }

    /// Returns whether the client's rights were those of a token that has expired.
    pub(super) fn has_lapsed(&self, users: &Users) -> bool {
        let user = self.connection.user();
        user.is_some_and(|user| users.has_ended(user))
    }

    /// Returns the client as rights see it.
    pub(super) fn requester(&self) -> Requester {
        let requester = Requester::direct(self.peer.ip(), auth::Listener::Rtsp);
        requester.forwarded(self.connection.is_forwarded())
    }

    /// Returns the name of the stream of the client's session, and the client's role in it.
    fn served(&self) -> Option<(&str, ClientRole)> {
        match &self.role {
            Role::Idle => None,
            Role::Player(session) => Some((session.name(), ClientRole::Viewer)),
            Role::Publisher(session) => {
                let name = session.recording.name().as_str();
                Some((name, ClientRole::Publisher))
            }
        }
    }

    /// Returns the failure that the end of the connection means; `None` if it means none.
    pub(super) fn failure(
        &self,
        end: &ConnectionEnd<'_>,
        now: Instant,
    ) -> Option<ConnectionFailure> {
        if let (Some(explained), Some((name, role))) = (interrupted(end), self.served()) {
            return Some(failures::failure(name, role, explained, self.peer.ip()));
        }
        let unfinished = Unfinished {
            handshake: self.wire.is_within_handshake(),
            request: self.connection.has_partial_request(),
            answer: self.connection.has_unanswered_request(),
        };
        let failure = self.requested.ended(end, unfinished, self.peer.ip());
        failure.or_else(|| {
            let departure = match end {
                ConnectionEnd::ByClient | ConnectionEnd::Broken(_) => Departure::Left,
                ConnectionEnd::Closed(Closed::SessionTimeout { after }) => {
                    Departure::TimedOut(*after)
                }
                _ => return None,
            };
            self.play_failure(departure, now)
        })
    }

    /// Returns the failure that the state or end of the client's session means, if it is a player and
    /// the server does not close it.
    pub(super) fn play_failure(
        &self,
        departure: Departure,
        now: Instant,
    ) -> Option<ConnectionFailure> {
        let session = self.player().filter(|_| self.closing.is_none())?;
        session.failure(departure, self.peer.ip(), now)
    }

    /// Takes data from the client's connection.
    pub(super) fn take(&mut self, bytes: &[u8], now: Instant, counters: &Counters) {
        self.requested.note_bytes(bytes);
        let role = &mut self.role;
        self.connection.handle_data(now, bytes, |frame| {
            role.take(frame.track, frame.control, frame.payload, now, counters);
        });
    }

    /// Takes data from the other connection of the client's tunnel.
    pub(super) fn take_tunnelled(&mut self, base64: &[u8], now: Instant, counters: &Counters) {
        let role = &mut self.role;
        self.connection.handle_tunnel_data(now, base64, |frame| {
            role.take(frame.track, frame.control, frame.payload, now, counters);
        });
    }

    /// Moves responses from the connection to the writer.
    pub(super) fn take_responses(&mut self) {
        let responses = self.connection.transmit();
        if responses.is_empty() || self.writer.between_bytes() > RESPONSE_BYTES_MAX {
            return;
        }
        let bytes = responses.len();
        self.writer.push(responses);
        self.connection.advance(bytes);
    }

    /// Writes what waits for the client, unless its socket is full.
    pub(super) fn pump(
        &mut self,
        reader: Option<&mut StreamReader>,
        budget: &Budget,
        now: Instant,
        counters: &Counters,
    ) -> Served {
        if self.is_full {
            return Served::Stays;
        }
        match self.wire.send_held_back() {
            Ok(true) => self.progressed = now,
            Ok(false) => {}
            Err(error) => {
                tracing::debug!(client = %self.name(), %error, "RTSP connection lost");
                return Served::Ends;
            }
        }
        self.take_responses();
        let mut sent = Sent::default();
        let playing = match (&mut self.role, reader) {
            (Role::Player(session), Some(reader)) if self.closing.is_none() => {
                session.playing(reader, budget)
            }
            _ => None,
        };
        let pumped = self.writer.pump(&mut self.wire, playing, now, &mut sent);
        counters.sent.add(&sent);
        if sent.bytes > 0 {
            self.progressed = now;
        }
        if let Some(session) = self.player_mut() {
            session.bytes += sent.bytes;
        }
        if sent.skips > 0 {
            self.log_skip(&sent);
        }
        self.settle(pumped, now, counters)
    }

    /// Updates the client's state by the result of a write.
    fn settle(&mut self, pumped: WriteOutcome, now: Instant, counters: &Counters) -> Served {
        match pumped {
            WriteOutcome::Empty if self.wire.holds_back() => self.is_full = true,
            WriteOutcome::Empty => {
                self.progressed = now;
                if self.closing.is_some() && self.connection.transmit().is_empty() {
                    self.wire.finish();
                    return Served::Ends;
                }
            }
            WriteOutcome::Full => self.is_full = true,
            WriteOutcome::TooSlow => {
                counters.closed_too_slow.add(1);
                self.is_too_slow = true;
                tracing::warn!(client = %self.name(), "RTSP client closed: it skipped again and again without catching up");
                return Served::Ends;
            }
            WriteOutcome::Broken(error) => {
                tracing::debug!(client = %self.name(), %error, "RTSP connection lost");
                return Served::Ends;
            }
        }
        Served::Stays
    }

    /// Logs the first skip of the session.
    pub(super) fn log_skip(&mut self, sent: &Sent) {
        let is_first = self.player_mut().is_some_and(PlaySession::note_skip);
        if is_first && let Some(session) = self.player() {
            tracing::warn!(
                client = %self.name(),
                stream = %session.stream.name(),
                frames = sent.skipped,
                "takes less than it is sent: skipped to the newest keyframe"
            );
        }
    }

    /// Returns the client's user and address, for logs.
    pub(super) fn name(&self) -> impl fmt::Display + '_ {
        Name(self)
    }

    /// Returns whether the client has set up anything.
    pub(super) fn has_session(&self) -> bool {
        !matches!(self.role, Role::Idle)
    }

    /// Returns the client as the API shows it; `None` before the client has set up anything.
    pub(super) fn view(&self, reader: Option<&StreamReader>, now: Instant) -> Option<ClientView> {
        match &self.role {
            Role::Idle => None,
            Role::Player(session) => Some(self.player_view(session, reader, now)),
            Role::Publisher(session) => Some(self.publisher_view(session)),
        }
    }

    fn player_view(
        &self,
        session: &PlaySession,
        reader: Option<&StreamReader>,
        now: Instant,
    ) -> ClientView {
        let lag = session.lag(reader, now);
        let skipped = session.skipped();
        ClientView {
            stream: session.name().to_owned(),
            private: session.recorded.as_ref().is_some_and(Recorded::is_private),
            address: self.peer,
            user: self.connection.user().map(str::to_owned),
            transport: match (session.transports.kind(), &self.cookie) {
                (Some(TransportKind::Udp), _) => "udp",
                (Some(TransportKind::Multicast), _) => "multicast",
                (_, Some(_)) => "http",
                (_, None) if self.wire.is_secure() => "tls",
                (_, None) => "tcp",
            },
            srtp: session.transports.has_srtp(),
            state: if session.is_playing() {
                "playing"
            } else {
                "ready"
            },
            lag_ms: u64::try_from(lag.as_millis()).unwrap_or(u64::MAX),
            skips: skipped.skips,
            skipped_frames: skipped.entries,
            bytes: session.bytes,
            since: self.since,
        }
    }

    fn publisher_view(&self, session: &PublishSession) -> ClientView {
        let recording = &session.recording;
        ClientView {
            stream: recording.name().to_string(),
            private: false,
            address: self.peer,
            user: self.connection.user().map(str::to_owned),
            transport: match session.transports.has_udp() {
                true => "udp",
                false if self.wire.is_secure() => "tls",
                false => "tcp",
            },
            srtp: session.transports.has_srtp(),
            state: if recording.is_on {
                "recording"
            } else {
                "ready"
            },
            lag_ms: 0,
            skips: 0,
            skipped_frames: 0,
            bytes: recording.bytes,
            since: self.since,
        }
    }
}

struct Name<'a>(&'a Client);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.connection.user() {
            Some(user) => write!(f, "{user}@{}", self.0.peer),
            None => write!(f, "{}", self.0.peer),
        }
    }
}
