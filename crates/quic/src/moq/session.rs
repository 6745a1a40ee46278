//! A session of either end.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;
use glassline_trust::Trust;
use moq_net::{announce, origin, stats};
use parking_lot::Mutex;
use tokio::task::AbortHandle;

use super::address::{Address, AddressError};
use super::broadcast::Broadcast;
use super::broadcast_reader::{BroadcastReader, SubscribeError};
use super::control_datagrams::{self, Report};
use super::ended::Ended;
use super::message_stream::{MessageRequests, Untaken};
use super::origin::{INBOUND_EXPIRY, Origin};
use super::refusal::Refusal;
use super::request_stream::RequestStreams;
use super::session_stats::{SessionStats, session_stats};
use super::track_config::TrackConfig;
use super::transport::{self, Link};
use super::version::{alpns, versions};
use super::web::{HandshakeError, Web};
use crate::dial_error::DialError;
use crate::endpoint::{ClientEndpoint, Limits, SEND_WINDOW};
use crate::{CongestionControl, CongestionMonitor, CongestionStats};

/// Interval at which the send window is adapted to the congestion window.
const TICK: Duration = Duration::from_millis(100);

/// Most congestion windows that QUIC buffers. More data waits where it can still be dropped.
const WINDOWS_HELD: u64 = 2;

/// Most bytes that QUIC may buffer.
const SEND_WINDOW_MAX: u64 = 16 << 20;

/// Time that a server has to answer.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Most bytes of frames that a session keeps of what its peer sends.
pub(super) const INBOUND_BYTES: u64 = 32 << 20;

/// The action that a client wants to take. A server may require different credentials for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The session publishes broadcasts.
    Publisher,
    /// It subscribes to broadcasts.
    Subscriber,
    /// It publishes broadcasts and subscribes to others.
    Both,
}

/// How a client opens a session.
#[derive(Clone, Debug)]
pub struct Options {
    /// Congestion control of the connection.
    pub congestion: CongestionControl,
    /// Which server certificates are accepted, unless the address pins one.
    pub trust: Trust,
    /// The action that the client wants to take.
    pub role: Role,
}

/// Opens a session with the server of `address`.
///
/// # Errors
/// [`ConnectError`] says whether the address, the network or the server is at fault.
pub async fn connect(
    endpoint: &ClientEndpoint,
    address: &Address,
    options: Options,
) -> Result<Session, ConnectError> {
    let trust = match address.pin() {
        Some(pin) => Trust::Pinned(pin),
        None => options.trust,
    };
    let monitor = options.congestion.monitor();
    let opened = async {
        let limits = Limits::Client;
        let connection = dial_any(endpoint, address, &trust, &options.congestion, limits).await?;
        let alpns = alpns();
        let (web, protocol) = if address.is_web() {
            let offered = alpns.iter().map(|&word| word.to_owned());
            let (web, protocol) = Web::connect(&connection, address.web_url()?, offered).await?;
            (Some(web), protocol)
        } else {
            let protocol = negotiated(&connection).ok_or(ConnectError::NoVersion)?;
            (None, protocol)
        };
        let is_raw = web.is_none();
        let transport = transport::Session::new(connection, web, protocol, monitor);
        let mut client = moq_net::Client::new().with_versions(versions());
        if is_raw {
            client = client.with_path(address.target());
        }
        Session::open(transport, options.role, client, INBOUND_BYTES).await
    };
    let opened = tokio::time::timeout(CONNECT_TIMEOUT, opened).await;
    opened.unwrap_or(Err(ConnectError::Slow))
}

/// Dials every address of the host until one connects.
pub(super) async fn dial_any(
    endpoint: &ClientEndpoint,
    address: &Address,
    trust: &Trust,
    congestion: &CongestionControl,
    limits: Limits,
) -> Result<noq::Connection, ConnectError> {
    let (host, port) = (address.host(), address.port());
    let found = tokio::net::lookup_host((host, port)).await;
    let found: Vec<SocketAddr> = found
        .map_err(|source| ConnectError::Unknown {
            host: host.to_owned(),
            source,
        })?
        .collect();
    let alpns: Vec<Vec<u8>> = if address.is_web() {
        vec![super::web::ALPN.to_vec()]
    } else {
        alpns()
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect()
    };
    let mut failure = ConnectError::Nowhere {
        host: host.to_owned(),
    };
    for at in found {
        match endpoint
            .dial(at, host, trust, alpns.clone(), congestion.clone(), limits)
            .await
        {
            Ok(connection) => return Ok(connection),
            Err(error) => failure = ConnectError::Dial { at, error },
        }
    }
    Err(failure)
}

/// Returns the ALPN protocol that TLS agreed on.
pub(super) fn negotiated(connection: &noq::Connection) -> Option<String> {
    let data = connection.handshake_data()?;
    let data = data.downcast::<noq::crypto::rustls::HandshakeData>().ok()?;
    String::from_utf8(data.protocol?).ok()
}

/// A session with a peer. It ends at once when this value is dropped.
#[derive(derive_more::Debug)]
#[debug("Session {{ peer: {:?}, .. }}", self.peer())]
pub struct Session {
    pub(super) link: Arc<Link>,
    monitor: CongestionMonitor,
    session: moq_net::Session,
    /// Broadcasts that this end publishes in the session.
    outbound: Option<Origin>,
    /// Broadcasts that the peer publishes.
    pub(super) inbound: Option<(Origin, origin::Consumer)>,
    stats: stats::Registry,
    bitrate: Arc<Mutex<Bitrate>>,
    task: AbortHandle,
    /// Asks the peer for its clock, if it is a server of the same cluster.
    pub(super) asking: Option<AbortHandle>,
    /// Requests of the peer for messages, if it is a server of the same cluster.
    pub(super) message_requests: Untaken<MessageRequests>,
    pub(super) request_streams: Untaken<RequestStreams>,
}

impl Session {
    pub(super) async fn open(
        transport: transport::Session,
        role: Role,
        client: moq_net::Client,
        inbound_bytes: u64,
    ) -> Result<Self, ConnectError> {
        let link = transport.link();
        let registry = stats::Registry::new(stats::Config::new());
        let tagged = registry.tier(stats::Tier::default()).session("");
        let mut client = client.with_stats(tagged);
        let outbound = (role != Role::Subscriber).then(Origin::new);
        if let Some(outbound) = &outbound {
            client = client.with_publisher(&outbound.producer);
        }
        let inbound =
            (role != Role::Publisher).then(|| Origin::bounded(inbound_bytes, INBOUND_EXPIRY));
        if let Some(inbound) = &inbound {
            client = client.with_subscriber(inbound.producer.clone());
        }
        let started = client.connect(Instant::now(), transport).await;
        let (session, driver) = started.map_err(Ended::of)?;
        tokio::spawn(moq_net::time::run(driver));
        Ok(Self::assemble(link, session, outbound, inbound, registry))
    }

    pub(super) fn assemble(
        link: Arc<Link>,
        session: moq_net::Session,
        outbound: Option<Origin>,
        inbound: Option<Origin>,
        stats: stats::Registry,
    ) -> Self {
        let monitor = link.monitor().clone();
        let bitrate = Arc::new(Mutex::new(Bitrate::default()));
        let task = tokio::spawn(maintain(
            Arc::clone(&link),
            stats.clone(),
            Arc::clone(&bitrate),
            outbound.is_some(),
        ));
        let inbound = inbound.map(|origin| {
            let consumer = origin.producer.consume();
            (origin, consumer)
        });
        Self {
            link,
            monitor,
            session,
            outbound,
            inbound,
            stats,
            bitrate,
            task: task.abort_handle(),
            asking: None,
            message_requests: Untaken::default(),
            request_streams: Untaken::default(),
        }
    }

    /// Publishes a broadcast of `track_configs` under `name`. It is announced with the first
    /// keyframe.
    ///
    /// # Errors
    /// [`Ended`] if the session has ended or was opened for reading only, or if the name is
    /// invalid.
    pub fn publish(&self, name: &str, track_configs: Vec<TrackConfig>) -> Result<Broadcast, Ended> {
        let outbound = self.outbound.as_ref().ok_or(Ended::ReadOnly)?;
        Broadcast::new(outbound, name, track_configs, Some(Arc::clone(&self.link)))
    }

    #[cfg(test)]
    pub(super) fn connection(&self) -> &noq::Connection {
        &self.link.connection
    }

    #[cfg(test)]
    pub(super) const fn outbound(&self) -> Option<&Origin> {
        self.outbound.as_ref()
    }

    /// Returns the peer's announcements, from the first one on.
    pub fn announced(&self) -> Announced {
        Announced(self.inbound.as_ref().map(|(_, it)| it.announced()))
    }

    /// Subscribes to the broadcast `name`; waits until it is announced.
    ///
    /// # Errors
    /// [`SubscribeError`] if the session ended before, or was opened for publishing only.
    pub async fn subscribe(&self, name: &str) -> Result<BroadcastReader, SubscribeError> {
        let (_, inbound) = self.inbound.as_ref().ok_or(SubscribeError::PublishOnly)?;
        let found = tokio::select! {
            found = inbound.routed_broadcast(name) => found.map_err(Ended::of)?,
            ended = self.ended() => return Err(ended.into()),
        };
        BroadcastReader::new(name, found, Arc::clone(&self.link)).await
    }

    /// Waits until the session has ended, and returns the reason.
    pub async fn ended(&self) -> Ended {
        Ended::of(self.session.closed().await)
    }

    /// Ends the session once queued data is delivered, or after a second.
    pub async fn close(self) {
        let session = self.session.clone();
        let _ = session.close().await;
    }

    /// Ends the session at once, and sends the reason.
    pub fn abort(&self, reason: Refusal) {
        self.link.close(reason.code(), &reason.to_string());
    }

    /// Asks the peer to connect again, because this end is about to leave (GOAWAY), and ends the session
    /// after `within` if the peer is still there. A peer is asked once.
    pub fn send_away(&self, within: Duration) {
        let goaway = moq_net::goaway::Goaway::new().with_timeout(within);
        // A session that has ended, or whose peer was asked before, needs no request.
        let _ = self.session.drain().send(goaway);
    }

    /// Returns the negotiated version, such as `moq-lite-06`.
    pub fn version(&self) -> &'static str {
        self.session.version().as_str()
    }

    /// Returns the peer's present address.
    pub fn peer(&self) -> SocketAddr {
        self.link.peer()
    }

    /// Returns a handle that shows the connection's congestion control.
    pub fn monitor(&self) -> CongestionMonitor {
        self.monitor.clone()
    }

    /// Sets the bitrate of the encoder, which the peer learns once a second.
    pub fn report_bitrate(&self, bitrate: Bitrate) {
        *self.bitrate.lock() = bitrate;
    }

    /// Asks the peer for a keyframe. Only peers of this project understand the request.
    pub fn request_keyframe(&self) {
        let _ = self
            .link
            .send_datagram(&control_datagrams::keyframe_request());
    }

    /// Returns the peer's requests for messages, once; `None` if the peer is no server of the same
    /// cluster that reads streams.
    pub fn take_message_requests(&self) -> Option<MessageRequests> {
        self.message_requests.take()
    }

    /// Returns the bytes of frames that the session keeps of what its peer has sent.
    pub fn kept_bytes(&self) -> u64 {
        let inbound = self.inbound.as_ref();
        inbound.map_or(0, |(origin, _)| origin.kept_bytes())
    }

    /// Returns the session's statistics.
    pub fn stats(&self) -> SessionStats {
        session_stats(&self.link, &self.stats)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.task.abort();
        if let Some(asking) = &self.asking {
            asking.abort();
        }
    }
}

/// Adapts the send window to the congestion window, and sends a report once a second.
async fn maintain(
    link: Arc<Link>,
    stats: stats::Registry,
    bitrate: Arc<Mutex<Bitrate>>,
    publishes: bool,
) {
    if !publishes {
        return;
    }
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut reported = Instant::now();
    loop {
        ticks.tick().await;
        let seen = link.monitor().get();
        link.connection.set_send_window(send_window(&seen));
        let now = Instant::now();
        if now.saturating_duration_since(reported) < control_datagrams::PERIOD {
            continue;
        }
        reported = now;
        let session_stats = session_stats(&link, &stats);
        // A peer that sends no echoes reads no reports either.
        if session_stats.round_trips.count == 0 {
            continue;
        }
        let report = Report {
            app_rtt: session_stats.round_trips.latest.unwrap_or_default(),
            transport_rtt: seen.smoothed_rtt.unwrap_or_default(),
            sent: seen.totals.sent,
            delivered: seen.totals.delivered,
            lost: seen.totals.lost,
            backlog: session_stats.backlog,
            bitrate: *bitrate.lock(),
            deliverable: seen.deliverable_rate.unwrap_or_default(),
        };
        if link.send_datagram(&report.encode()).is_err() {
            return;
        }
    }
}

/// Returns the send window in bytes: two congestion windows and 64 KiB, about one keyframe.
fn send_window(seen: &CongestionStats) -> u64 {
    let held = seen.window.saturating_mul(WINDOWS_HELD) + (64 << 10);
    held.clamp(SEND_WINDOW.min(128 << 10), SEND_WINDOW_MAX)
}

/// Announcements of the peer, in the order in which they arrive.
#[derive(derive_more::Debug)]
#[debug("Announced {{ .. }}")]
pub struct Announced(Option<announce::Consumer>);

impl Announced {
    /// Returns the next announcement; `None` once the session has ended, or if it was opened
    /// for publishing only.
    pub async fn next(&mut self) -> Option<Announcement> {
        loop {
            let update = self.0.as_mut()?.next().await?;
            let name = update.prefix.as_str().to_owned();
            match update.kind {
                announce::Kind::Announced => return Some(Announcement::Began(name)),
                announce::Kind::Retracted => return Some(Announcement::Ended(name)),
                announce::Kind::Updated => {}
            }
        }
    }
}

/// The beginning or end of a broadcast.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Announcement {
    /// A broadcast of this name was announced.
    Began(String),
    /// The broadcast of this name has ended.
    Ended(String),
}

/// The reason why no session was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The host name cannot be resolved.
    #[error("cannot resolve {host}: {source}")]
    Unknown {
        /// Host name in the URL.
        host: String,
        /// Error of the system.
        source: std::io::Error,
    },
    /// The host name has no address.
    #[error("{host} has no address")]
    Nowhere {
        /// Host name in the URL.
        host: String,
    },
    /// The server cannot be reached, or its certificate is not accepted.
    #[error("cannot connect to {at}: {error}")]
    Dial {
        /// Address that was dialed.
        at: SocketAddr,
        /// Error of the connection.
        error: DialError,
    },
    /// The server did not answer in time.
    #[error("the server opened no session within {} s", CONNECT_TIMEOUT.as_secs())]
    Slow,
    /// No version of MoQ is supported by both ends.
    #[error("the server supports no version of MoQ that this client supports")]
    NoVersion,
    /// The address cannot be written as a URL for HTTP.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// The WebTransport handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// The server closed the session at once.
    #[error(transparent)]
    Ended(#[from] Ended),
}
