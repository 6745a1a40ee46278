//! The server end of MoQ: incoming connections, what their clients ask for, and what they are
//! granted.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use moq_net::{Path, Pattern, Patterns, stats};

use super::bursts::NodeClock;
use super::ended::Ended;
use super::origin::{INBOUND_EXPIRY, Origin};
use super::refusal::Refusal;
use super::session::{INBOUND_BYTES, Role, Session, negotiated};
use super::transport;
use super::version::{alpns, versions};
use super::web::{ALPN, HandshakeError, Page, Request};
use crate::endpoint::{Arrived, ListenError, Listener, NODE_REQUESTS, RECEIVE_WINDOW};
use crate::{AddressValidationCounters, CongestionControl, Identity, IdentityError, NewcomerRates};

/// Time that a client has for the handshake and its request.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest path with its query, in bytes.
const TARGET_BYTES_MAX: usize = 4 << 10;

/// A UDP port that serves MoQ, on raw QUIC and on WebTransport.
#[derive(Debug)]
pub struct Server {
    listener: Listener,
}

impl Server {
    /// Binds `address`. Must be called within tokio.
    ///
    /// # Errors
    /// [`ListenError`] says whether the certificate or the socket is at fault.
    pub fn bind(address: SocketAddr, identity: &Identity) -> Result<Self, ListenError> {
        Self::listen(address, identity, None)
    }

    /// Binds `address`, where newcomers above `rates` have to prove their addresses before anything
    /// of theirs is decrypted (RFC 9000 §8.1.2). Must be called within tokio.
    ///
    /// # Errors
    /// [`ListenError`] says whether the certificate or the socket is at fault.
    pub fn bind_public(
        address: SocketAddr,
        identity: &Identity,
        rates: Box<dyn NewcomerRates>,
    ) -> Result<Self, ListenError> {
        Self::listen(address, identity, Some(rates))
    }

    fn listen(
        address: SocketAddr,
        identity: &Identity,
        rates: Option<Box<dyn NewcomerRates>>,
    ) -> Result<Self, ListenError> {
        let mut protocols: Vec<Vec<u8>> = alpns()
            .iter()
            .map(|word| word.as_bytes().to_vec())
            .collect();
        protocols.push(ALPN.to_vec());
        let listener = Listener::bind(address, identity, protocols, rates)?;
        Ok(Self { listener })
    }

    /// Returns what became of newcomers above the rates since the server was bound.
    pub const fn address_validation(&self) -> &Arc<AddressValidationCounters> {
        self.listener.validation()
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// The system does not know the address.
    pub fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Uses another certificate for new connections.
    ///
    /// # Errors
    /// The certificate or its key is not usable; the old certificate stays.
    pub fn renew(&self, identity: &Identity) -> Result<(), IdentityError> {
        self.listener.renew(identity)
    }

    /// Accepts the next connection; `None` once the server is closed. `new_congestion` creates
    /// its congestion control. A client that `must_prove` names has to prove that it receives what is
    /// sent to its address (Retry, RFC 9000 §8.1.2) before anything is kept of its connection.
    pub async fn accept(
        &self,
        new_congestion: impl FnMut() -> CongestionControl,
        must_prove: impl Fn(IpAddr) -> bool,
    ) -> Option<Incoming> {
        let arrived = self.listener.next(new_congestion, must_prove).await?;
        Some(Incoming(arrived))
    }

    /// Ends all sessions and accepts no more.
    pub fn close(&self, reason: &str) {
        self.listener.close(reason);
    }

    /// Waits until all connections have closed.
    pub async fn idle(&self) {
        self.listener.idle().await;
    }
}

/// An incoming connection before its handshake.
#[derive(derive_more::Debug)]
#[debug("Incoming {{ peer: {:?}, .. }}", self.0.peer)]
pub struct Incoming(Arrived);

impl Incoming {
    /// Returns the client's address.
    pub const fn peer(&self) -> SocketAddr {
        self.0.peer
    }

    /// Returns whether the client has proven that it receives what is sent to its address. Without
    /// that, anybody may have sent the datagram in another's name.
    pub const fn is_validated(&self) -> bool {
        self.0.is_validated
    }

    /// Completes the handshake and reads the client's request. No media is read.
    ///
    /// # Errors
    /// [`RequestError`] if the client did not send a valid request in time.
    pub async fn request(self) -> Result<SessionRequest, RequestError> {
        let request = tokio::time::timeout(HANDSHAKE_TIMEOUT, self.handshake());
        request.await.unwrap_or(Err(RequestError::Slow))
    }

    async fn handshake(self) -> Result<SessionRequest, RequestError> {
        let Self(Arrived {
            peer,
            connecting,
            monitor,
            ..
        }) = self;
        let connecting = connecting.map_err(RequestError::Refused)?;
        let connection = connecting.await.map_err(RequestError::Connection)?;
        let protocol = negotiated(&connection).ok_or(RequestError::NoVersion)?;
        let (transport, web) = if protocol.as_bytes() == ALPN {
            let request = Request::accept(connection.clone()).await?;
            let ours = alpns();
            let offered = request.protocols().iter();
            let both = offered.map(String::as_str).find(|word| ours.contains(word));
            let Some(word) = both.map(str::to_owned) else {
                request.refuse(400).await;
                return Err(RequestError::NoVersion);
            };
            let (target, page) = (request.target(), request.page());
            let web = request.accept_with(&word).await?;
            let session = transport::Session::new(connection, Some(web), word, monitor);
            (session, Some((target, page)))
        } else {
            let session = transport::Session::new(connection, None, protocol, monitor);
            (session, None)
        };
        let link = transport.link();
        let server = moq_net::Server::new().with_versions(versions());
        let handshake = server
            .accept_request(Instant::now(), transport)
            .await
            .map_err(Ended::of)?;
        let (target, page) = match web {
            Some((target, page)) => (target, Some(page)),
            None => (handshake.path().to_owned(), None),
        };
        if target.len() > TARGET_BYTES_MAX {
            handshake.close(moq_net::Error::ProtocolViolation);
            return Err(RequestError::Long {
                bytes: target.len(),
            });
        }
        let role = match handshake.role() {
            Some(moq_net::Role::Publisher) => Role::Publisher,
            Some(moq_net::Role::Subscriber) => Role::Subscriber,
            _ => Role::Both,
        };
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        Ok(SessionRequest {
            path: Path::new(path).as_str().to_owned(),
            query: query.to_owned(),
            role,
            peer,
            page,
            link,
            handshake,
        })
    }
}

/// A client's request for a session, which waits to be granted or refused.
#[derive(derive_more::Debug)]
#[debug("SessionRequest {{ peer: {peer:?}, path: {path:?}, role: {role:?}, .. }}")]
pub struct SessionRequest {
    path: String,
    query: String,
    role: Role,
    peer: SocketAddr,
    page: Option<Page>,
    link: Arc<transport::Link>,
    handshake: moq_net::server::Handshake<transport::Session>,
}

/// The access that a client is granted.
#[derive(Clone, Debug, Default)]
pub struct Grant {
    /// Whether the client may publish. The caller must check the names of its broadcasts.
    pub publish: bool,
    /// The broadcasts that the client may read.
    pub read: Option<Origin>,
    /// Restricts `read` to matching names: each entry is a name, a beginning followed by `*`, which
    /// stops at a `/`, or a folder followed by `/**`. `None` allows all names.
    pub only: Option<Vec<String>>,
    /// This server's clock, if the client is a server of its cluster. Such a client may make many
    /// requests at a time.
    pub node: Option<NodeClock>,
}

impl SessionRequest {
    /// Returns the client's address.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the path that names are relative to, without slashes around it.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the query of the path. It may contain secrets.
    pub fn query(&self) -> &str {
        &self.query
    }

    /// Returns the page that requests the session by WebTransport; `None` for raw QUIC, which no
    /// browser speaks.
    pub const fn page(&self) -> Option<&Page> {
        self.page.as_ref()
    }

    /// Returns what the client wants to do, as far as it says so.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// Opens the session.
    ///
    /// # Errors
    /// [`Ended`] if the connection has ended already.
    pub async fn grant(self, grant: Grant) -> Result<Session, Ended> {
        let registry = stats::Registry::new(stats::Config::new());
        let tagged = registry.tier(stats::Tier::default()).session("");
        let mut handshake = self.handshake.with_stats(tagged);
        if let Some(origin) = &grant.read {
            let all = origin.producer.consume();
            // A text that is not a pattern matches no name.
            let only = grant.only.as_ref().map(|only| {
                let patterns = only
                    .iter()
                    .filter_map(|text| below(text).parse::<Pattern>().ok());
                patterns.collect::<Patterns>()
            });
            handshake = match &only {
                None => handshake.with_publisher(&all),
                Some(only) => {
                    let scoped = all.scope("", only);
                    handshake.with_publisher(&scoped.map_err(Ended::of)?)
                }
            };
            let scope = origin.keyframe_requests.scoped(only);
            self.link.control.pass_requests_on(scope);
        }
        let inbound = grant
            .publish
            .then(|| Origin::bounded(INBOUND_BYTES, INBOUND_EXPIRY));
        if let Some(inbound) = &inbound {
            handshake = handshake.with_subscriber(inbound.producer.clone());
        }
        // A reader sends requests only, for which the window before the grant suffices.
        if grant.publish && self.role != Role::Subscriber {
            self.link
                .connection
                .set_receive_window(RECEIVE_WINDOW.into());
        }
        if let Some(clock) = grant.node {
            let connection = &self.link.connection;
            connection.set_max_concurrent_bi_streams(NODE_REQUESTS.into());
            self.link.control.compare_clocks(clock);
        }
        let beside = grant.node.map(|_| self.link.beside.listen());
        let (session, driver) = handshake.ok().await.map_err(Ended::of)?;
        tokio::spawn(moq_net::time::run(driver));
        let session = Session::assemble(self.link, session, grant.read, inbound, registry);
        if let Some((messages, requests)) = beside {
            session.message_requests.put(messages);
            session.request_streams.put(requests);
        }
        Ok(session)
    }

    /// Refuses the request and closes the connection.
    pub fn refuse(self, why: Refusal) {
        self.handshake.close(why.error());
    }
}

/// The reason why a connection led to no request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The client's first datagram is unacceptable: it has no protocol in common with this server, or
    /// its TLS is broken.
    #[error(transparent)]
    Refused(noq::ConnectionError),
    /// The QUIC handshake failed.
    #[error(transparent)]
    Connection(noq::ConnectionError),
    /// The WebTransport handshake failed.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// No version of MoQ is supported by both ends.
    #[error("no version of MoQ is supported by both ends")]
    NoVersion,
    /// The client's setup message is invalid.
    #[error(transparent)]
    Setup(#[from] Ended),
    /// The path is too long.
    #[error("the client asks for a path of {bytes} bytes, which is too long")]
    Long {
        /// Length of the path in bytes.
        bytes: usize,
    },
    /// The client sent no request in time.
    #[error("the client sent no request within {} s", HANDSHAKE_TIMEOUT.as_secs())]
    Slow,
}

/// The fault that made a handshake fail, as far as that tells what to change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandshakeFault {
    /// Both ends have no protocol or version in common.
    NothingInCommon,
    /// The client refuses the server's certificate.
    CertificateRefused,
    /// The client fell silent.
    Silent,
    /// The client ended the connection.
    LeftByClient,
    /// Any other reason.
    Other,
}

impl RequestError {
    /// Returns what made the handshake fail.
    pub fn fault(&self) -> HandshakeFault {
        match self {
            Self::Refused(error)
            | Self::Connection(error)
            | Self::Handshake(HandshakeError::Connection(error)) => fault(error),
            Self::NoVersion
            | Self::Handshake(HandshakeError::NoProtocol | HandshakeError::NoWebTransport) => {
                HandshakeFault::NothingInCommon
            }
            Self::Slow | Self::Handshake(HandshakeError::Slow) => HandshakeFault::Silent,
            _ => HandshakeFault::Other,
        }
    }

    /// Returns whether the error may be about a datagram that was sent in another's name: the client
    /// has not proven by an answer that its address is its own.
    pub const fn may_be_forged(&self) -> bool {
        matches!(
            self,
            Self::Refused(_) | Self::Connection(noq::ConnectionError::TimedOut)
        )
    }
}

/// First error code of QUIC for an alert of TLS (RFC 9001 §4.8).
const ALERTS: u64 = 0x100;

/// Returns a pattern as this protocol's crate reads it: there, all below a folder has the folder, too.
fn below(pattern: &str) -> Cow<'_, str> {
    match pattern.strip_suffix("/**") {
        Some(folder) => format!("{folder}/*/**").into(),
        None => pattern.into(),
    }
}

fn fault(error: &noq::ConnectionError) -> HandshakeFault {
    use noq::ConnectionError::{ApplicationClosed, ConnectionClosed, TimedOut, TransportError};
    let alert = match error {
        TransportError(error) => u64::from(error.code).checked_sub(ALERTS),
        ConnectionClosed(close) => u64::from(close.error_code).checked_sub(ALERTS),
        _ => None,
    };
    match (error, alert) {
        // no_application_protocol (RFC 7301 §3.2), protocol_version (RFC 8446 §6.2).
        (_, Some(70 | 120)) => HandshakeFault::NothingInCommon,
        // From bad_certificate to certificate_unknown, and unknown_ca (RFC 8446 §6.2).
        (ConnectionClosed(_), Some(42..=46 | 48)) => HandshakeFault::CertificateRefused,
        (TimedOut, _) => HandshakeFault::Silent,
        (ApplicationClosed(_), _) => HandshakeFault::LeftByClient,
        _ => HandshakeFault::Other,
    }
}
