//! UDP sockets that speak QUIC, every connection under a controller of its own.

use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use rustls::crypto::CryptoProvider;

use crate::trust::TrustError;
use crate::{Identity, IdentityError, Observed, Steering, Trust};

/// Nothing heard for so long is the end: an outage of half a minute is not.
const IDLE: Duration = Duration::from_secs(45);

/// How often a quiet connection shows that it lives, so that routers remember it.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Bytes that a peer may send before it was found to have the right to.
pub(crate) const RECEIVE_STRANGER: u32 = 256 << 10;

/// Bytes a peer may be ahead of us afterwards, over all streams: half a second of
/// 100 Mbit/s.
pub(crate) const RECEIVE_KNOWN: u32 = 8 << 20;

/// On one stream: the largest frame that is expected, with some behind it.
const RECEIVE_STREAM: u32 = 4 << 20;

/// Groups, and the headers of groups, under way at once in either direction.
const STREAMS: u32 = 1024;

/// Requests under way at once.
const REQUESTS: u32 = 256;

/// Bytes that QUIC holds before it makes the sender wait. What waits above it can still
/// be dropped when it is late, so this follows the window (see `session`).
pub(crate) const SEND_WINDOW: u64 = 256 << 10;

/// Handshakes under way at once; clients beyond have to prove their address first.
const UNPROVEN: usize = 256;

/// A socket that dials.
#[derive(Debug)]
pub struct Dialler {
    endpoint: noq::Endpoint,
}

impl Dialler {
    /// On a free port of any address. Must be called within tokio.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> std::io::Result<Self> {
        // Both families where there are both.
        let any6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let any4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        let endpoint = noq::Endpoint::client(any6).or_else(|_| noq::Endpoint::client(any4))?;
        Ok(Self { endpoint })
    }

    /// Dials `address`, which calls itself `name`.
    pub(crate) async fn dial(
        &self,
        address: SocketAddr,
        name: &str,
        trust: &Trust,
        protocols: Vec<Vec<u8>>,
        steering: Steering,
    ) -> Result<noq::Connection, DialError> {
        let tls = trust.client(provider(), protocols)?;
        let tls = QuicClientConfig::try_from(tls).map_err(|_| DialError::Cipher)?;
        let mut config = noq::ClientConfig::new(Arc::new(tls));
        config.transport_config(Arc::new(transport(steering, RECEIVE_KNOWN)));
        let connecting = self.endpoint.connect_with(config, address, name)?;
        Ok(connecting.await?)
    }

    /// Moves to another socket, as if the network had changed below.
    ///
    /// # Errors
    /// What the system says.
    pub fn rebind(&self) -> std::io::Result<()> {
        let any = match self.endpoint.local_addr()? {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        self.endpoint.rebind(std::net::UdpSocket::bind(any)?)
    }

    /// Waits until all connections have said their goodbyes.
    pub async fn idle(&self) {
        self.endpoint.wait_idle().await;
    }
}

/// A socket that is dialled.
#[derive(Debug)]
pub(crate) struct Listener {
    endpoint: noq::Endpoint,
    config: Mutex<noq::ServerConfig>,
    protocols: Vec<Vec<u8>>,
}

impl Listener {
    /// On `address`, for clients that speak one of `protocols`. Must be called within
    /// tokio.
    pub(crate) fn bind(
        address: SocketAddr,
        identity: &Identity,
        protocols: Vec<Vec<u8>>,
    ) -> Result<Self, ListenError> {
        let config = server_config(identity, &protocols)?;
        let endpoint = noq::Endpoint::server(config.clone(), address)?;
        Ok(Self {
            endpoint,
            config: Mutex::new(config),
            protocols,
        })
    }

    /// Shows another certificate from now on.
    ///
    /// # Errors
    /// What is wrong with it; the old one stays.
    pub(crate) fn renew(&self, identity: &Identity) -> Result<(), IdentityError> {
        let config = server_config(identity, &self.protocols)?;
        *self.config.lock().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(())
    }

    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub(crate) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// The next connection that somebody wants; `None` once closed. Its handshake is
    /// for the caller to wait for, beside others.
    pub(crate) async fn next(
        &self,
        mut steer: impl FnMut() -> Steering,
    ) -> Option<(noq::Connecting, Observed)> {
        loop {
            let incoming = self.endpoint.accept().await?;
            if self.endpoint.open_connections() > UNPROVEN
                && !incoming.remote_address_validated()
                && incoming.may_retry()
            {
                let _ = incoming.retry();
                continue;
            }
            let steering = steer();
            let observed = steering.observed();
            let mut config = self
                .config
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .clone();
            config.transport_config(Arc::new(transport(steering, RECEIVE_STRANGER)));
            if let Ok(connecting) = incoming.accept_with(Arc::new(config)) {
                return Some((connecting, observed));
            }
        }
    }

    /// Ends all connections and takes no more.
    pub(crate) fn close(&self, reason: &str) {
        self.endpoint.close(0u32.into(), reason.as_bytes());
    }

    /// Waits until all connections have said their goodbyes.
    pub(crate) async fn idle(&self) {
        self.endpoint.wait_idle().await;
    }
}

fn server_config(
    identity: &Identity,
    protocols: &[Vec<u8>],
) -> Result<noq::ServerConfig, IdentityError> {
    let mut tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(identity.chain.clone(), identity.key.clone_key())?;
    tls.alpn_protocols = protocols.to_vec();
    let tls = QuicServerConfig::try_from(tls).map_err(|_| {
        IdentityError::Tls(rustls::Error::General(
            "no initial cipher suite of QUIC".to_owned(),
        ))
    })?;
    Ok(noq::ServerConfig::with_crypto(Arc::new(tls)))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn transport(steering: Steering, receive: u32) -> noq::TransportConfig {
    let mut transport = noq::TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::new(steering))
        .max_idle_timeout(noq::IdleTimeout::try_from(IDLE).ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_uni_streams(STREAMS.into())
        .max_concurrent_bidi_streams(REQUESTS.into())
        .stream_receive_window(RECEIVE_STREAM.into())
        .receive_window(receive.into())
        .send_window(SEND_WINDOW);
    transport
}

/// Why nobody can be listened to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The certificate.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The socket.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// Nobody to trust.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// TLS without what QUIC begins with.
    #[error("TLS has no initial cipher suite of QUIC")]
    Cipher,
    /// The address or the name.
    #[error(transparent)]
    Address(#[from] noq::ConnectError),
    /// The network, or the server.
    #[error(transparent)]
    Connection(#[from] noq::ConnectionError),
}
