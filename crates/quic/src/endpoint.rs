//! QUIC endpoints on UDP sockets; each connection gets a congestion controller of its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use glassline_net::Options;
use glassline_trust::Trust;
use noq::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::HashedConnectionIdGenerator;
use parking_lot::Mutex;
use rustls::crypto::CryptoProvider;

use crate::address_validation::{TokenKey, ValidatedSocket};
use crate::identity::EndpointKeys;
use crate::{
    AddressValidationCounters, CongestionControl, CongestionMonitor, DialError, Identity,
    IdentityError, NewcomerRates,
};

/// Idle timeout: a connection without packets for longer has ended. An outage of half a minute
/// does not end one.
const IDLE: Duration = Duration::from_secs(45);

/// Interval of keep-alives on a quiet connection, which also keep NAT bindings open.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Receive window of a connection before its client is authorized, and of a reader, in bytes.
pub(crate) const UNAUTHORIZED_RECEIVE_WINDOW: u32 = 256 << 10;

/// Receive window of an authorized publisher over all its streams, in bytes: about half a second
/// at 100 Mbit/s.
pub(crate) const RECEIVE_WINDOW: u32 = 8 << 20;

/// Receive window of one stream, in bytes: the largest frame that is expected, and some more.
const STREAM_RECEIVE_WINDOW: u32 = 4 << 20;

/// Most concurrent unidirectional streams in either direction: groups and their headers.
const STREAMS: u32 = 1024;

/// Most concurrent bidirectional streams: requests.
const REQUESTS: u32 = 256;

/// The timeouts between servers of a cluster, whose pulls move to another server instead of waiting for
/// one.
const NODE_IDLE: Duration = Duration::from_secs(3);
const NODE_KEEP_ALIVE: Duration = Duration::from_millis(500);

/// Receive windows of a server that pulls streams, in bytes: of the connection, and of one stream.
const NODE_RECEIVE_WINDOW: u32 = 64 << 20;
const NODE_STREAM_RECEIVE_WINDOW: u32 = 16 << 20;

/// Most concurrent requests of a server, each of which is a track: 1,000 streams of some tracks.
pub(crate) const NODE_REQUESTS: u32 = 8192;

/// Whose limits a connection has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limits {
    /// The limits of one publisher or reader.
    Client,
    /// The limits of a server that pulls streams from another one.
    Node,
}

/// Bytes that QUIC buffers before the sender must wait. Data above this limit waits where late
/// groups can still be dropped, so the limit follows the congestion window (see `session`).
pub(crate) const SEND_WINDOW: u64 = 256 << 10;

/// Receive buffer of a socket, in bytes, as far as the system grants it. Linux grants 208 KiB by
/// itself, some 90 datagrams: a thread that waits for the processor for two milliseconds loses
/// packets at 50,000 a second, of connections as well as of strangers.
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// A UDP socket for outgoing QUIC connections.
#[derive(Debug)]
pub struct ClientEndpoint {
    endpoint: noq::Endpoint,
}

impl ClientEndpoint {
    /// Binds a free port of any address, IPv6 where the system has it. Must be called within
    /// tokio.
    ///
    /// # Errors
    /// The socket cannot be bound.
    pub fn new() -> std::io::Result<Self> {
        // An IPv6 socket also reaches IPv4 hosts.
        let any6 = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
        let any4 = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
        Self::bind(any6).or_else(|_| Self::bind(any4))
    }

    /// Binds `address`, for a client that several addresses of this machine could serve. Must be
    /// called within tokio.
    ///
    /// # Errors
    /// The socket cannot be bound.
    pub fn bind(address: SocketAddr) -> std::io::Result<Self> {
        let config = noq::EndpointConfig::default();
        let endpoint = noq::Endpoint::new(config, None, open(address)?, runtime()?)?;
        Ok(Self { endpoint })
    }

    /// Connects to `address`, whose certificate must be valid for `name`.
    pub(crate) async fn dial(
        &self,
        address: SocketAddr,
        name: &str,
        trust: &Trust,
        protocols: Vec<Vec<u8>>,
        congestion: CongestionControl,
        limits: Limits,
    ) -> Result<noq::Connection, DialError> {
        let tls = trust.within_quic(protocols)?;
        let tls = QuicClientConfig::try_from(tls).map_err(|_| DialError::Cipher)?;
        let mut config = noq::ClientConfig::new(Arc::new(tls));
        let mut transport = transport(congestion, RECEIVE_WINDOW);
        if limits == Limits::Node {
            raise_for_nodes(&mut transport);
        }
        config.transport_config(Arc::new(transport));
        let connecting = self.endpoint.connect_with(config, address, name)?;
        connecting.await.map_err(DialError::of)
    }

    /// Moves all connections to a new socket, as a change of network would.
    ///
    /// # Errors
    /// The new socket cannot be bound.
    pub fn rebind(&self) -> std::io::Result<()> {
        let any = match self.endpoint.local_addr()? {
            SocketAddr::V4(_) => SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0)),
            SocketAddr::V6(_) => SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0)),
        };
        self.endpoint.rebind(open(any)?)
    }

    /// Waits until all connections have closed.
    pub async fn idle(&self) {
        self.endpoint.wait_idle().await;
    }
}

/// A UDP socket for incoming QUIC connections.
#[derive(Debug)]
pub(crate) struct Listener {
    endpoint: noq::Endpoint,
    config: Mutex<noq::ServerConfig>,
    protocols: Vec<Vec<u8>>,
    tokens: Arc<TokenKey>,
    validation: Arc<AddressValidationCounters>,
}

/// A connection that a client begins.
pub(crate) struct Arrived {
    pub(crate) peer: SocketAddr,
    /// Whether the client has proven that it receives what is sent to its address.
    pub(crate) is_validated: bool,
    /// The handshake; an error if its first datagram alone is unacceptable.
    pub(crate) connecting: Result<noq::Connecting, noq::ConnectionError>,
    pub(crate) monitor: CongestionMonitor,
}

impl Listener {
    /// Binds `address` for clients that support one of the ALPN `protocols`. Above `rates`, a
    /// newcomer has to prove its address; without them, all are decrypted. Must be called within
    /// tokio.
    pub(crate) fn bind(
        address: SocketAddr,
        identity: &Identity,
        protocols: Vec<Vec<u8>>,
        rates: Option<Box<dyn NewcomerRates>>,
    ) -> Result<Self, ListenError> {
        let keys = identity.endpoint_keys();
        let secret = keys.as_ref().map_or_else(random, |keys| Ok(keys.token))?;
        let no_cipher = |_| std::io::Error::other("no AES-GCM for tokens");
        let tokens = Arc::new(TokenKey::new(&secret).map_err(no_cipher)?);
        let config = server_config(identity, &protocols, &tokens)?;
        let runtime = runtime()?;
        let mut socket = runtime.wrap_udp_socket(open(address)?)?;
        let validation = Arc::<AddressValidationCounters>::default();
        if let Some(rates) = rates {
            let nonce = u128::from_be_bytes(random()?);
            let (key, counters) = (Arc::clone(&tokens), Arc::clone(&validation));
            let validated = ValidatedSocket::new(socket, rates, key, nonce, counters);
            socket = Box::new(validated.map_err(no_cipher)?);
        }
        let endpoint = noq::Endpoint::new_with_abstract_socket(
            keys.map_or_else(noq::EndpointConfig::default, endpoint_config),
            Some(config.clone()),
            socket,
            runtime,
        )?;
        Ok(Self {
            endpoint,
            config: Mutex::new(config),
            protocols,
            tokens,
            validation,
        })
    }

    /// Returns what became of newcomers above the rates.
    pub(crate) const fn validation(&self) -> &Arc<AddressValidationCounters> {
        &self.validation
    }

    /// Uses another certificate for new connections.
    ///
    /// # Errors
    /// The certificate or its key is not usable; the old certificate stays.
    pub(crate) fn renew(&self, identity: &Identity) -> Result<(), IdentityError> {
        let config = server_config(identity, &self.protocols, &self.tokens)?;
        *self.config.lock() = config;
        Ok(())
    }

    /// Returns the local address.
    ///
    /// # Errors
    /// The system does not know the address.
    pub(crate) fn local_addr(&self) -> std::io::Result<SocketAddr> {
        self.endpoint.local_addr()
    }

    /// Accepts the next connection; `None` once the listener is closed.
    ///
    /// The caller awaits the handshake, concurrently with others. A client must prove its address
    /// first (RFC 9000 §8.1.2) if `must_prove` says so.
    pub(crate) async fn next(
        &self,
        mut new_congestion: impl FnMut() -> CongestionControl,
        must_prove: impl Fn(IpAddr) -> bool,
    ) -> Option<Arrived> {
        loop {
            let incoming = self.endpoint.accept().await?;
            if must_prove(incoming.remote_address().ip())
                && !incoming.remote_address_validated()
                && incoming.may_retry()
            {
                let _ = incoming.retry();
                continue;
            }
            let congestion = new_congestion();
            let monitor = congestion.monitor();
            let mut config = self.config.lock().clone();
            config.transport_config(Arc::new(transport(congestion, UNAUTHORIZED_RECEIVE_WINDOW)));
            return Some(Arrived {
                peer: incoming.remote_address(),
                is_validated: incoming.remote_address_validated(),
                connecting: incoming.accept_with(Arc::new(config)),
                monitor,
            });
        }
    }

    /// Closes all connections and accepts no more.
    pub(crate) fn close(&self, reason: &str) {
        self.endpoint.close(0u32.into(), reason.as_bytes());
    }

    /// Waits until all connections have closed.
    pub(crate) async fn idle(&self) {
        self.endpoint.wait_idle().await;
    }
}

/// Opens a UDP socket; one of `[::]` serves IPv4, too.
fn open(address: SocketAddr) -> std::io::Result<std::net::UdpSocket> {
    let options = Options {
        receive_buffer: Some(RECEIVE_BUFFER_BYTES),
        ..Options::default()
    };
    let socket = glassline_net::UdpSocket::bind(address, &options);
    Ok(socket?.into_std())
}

fn runtime() -> std::io::Result<Arc<dyn noq::Runtime>> {
    noq::default_runtime().ok_or_else(|| std::io::Error::other("outside of tokio"))
}

/// Configuration of an endpoint whose resets the clients of an earlier process recognise.
fn endpoint_config(keys: EndpointKeys) -> noq::EndpointConfig {
    let EndpointKeys {
        reset,
        connection_id,
        token: _,
    } = keys;
    let mut config = noq::EndpointConfig::new(Arc::new(reset));
    config.cid_generator(Arc::new(move || {
        Box::new(HashedConnectionIdGenerator::from_key(connection_id))
    }));
    config
}

fn server_config(
    identity: &Identity,
    protocols: &[Vec<u8>],
    tokens: &Arc<TokenKey>,
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
    let tokens = Arc::clone(tokens);
    Ok(noq::ServerConfig::new(Arc::new(tls), tokens))
}

/// Returns random bytes from the cryptographic library.
fn random() -> std::io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    let filled = aws_lc_rs::rand::fill(&mut bytes);
    filled.map_err(|_| std::io::Error::other("no random bytes"))?;
    Ok(bytes)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn transport(congestion: CongestionControl, receive: u32) -> noq::TransportConfig {
    let mut transport = noq::TransportConfig::default();
    transport
        .congestion_controller_factory(Arc::new(congestion))
        .max_idle_timeout(noq::IdleTimeout::try_from(IDLE).ok())
        .keep_alive_interval(Some(KEEP_ALIVE))
        .max_concurrent_uni_streams(STREAMS.into())
        .max_concurrent_bidi_streams(REQUESTS.into())
        .stream_receive_window(STREAM_RECEIVE_WINDOW.into())
        .receive_window(receive.into())
        .send_window(SEND_WINDOW);
    transport
}

/// Sets what a server has that pulls streams. The shorter idle timeout of both ends counts.
fn raise_for_nodes(transport: &mut noq::TransportConfig) {
    transport
        .max_idle_timeout(noq::IdleTimeout::try_from(NODE_IDLE).ok())
        .keep_alive_interval(Some(NODE_KEEP_ALIVE))
        .max_concurrent_uni_streams(NODE_REQUESTS.into())
        .stream_receive_window(NODE_STREAM_RECEIVE_WINDOW.into())
        .receive_window(NODE_RECEIVE_WINDOW.into());
}

/// The reason why a socket does not accept connections.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The certificate or its key is not usable.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The socket cannot be bound.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests wait for loopback")]
mod tests {
    use super::*;
    use glassline_congestion::Algorithm;

    /// Makes an identity that outlives the process, as one of files does.
    fn lasting() -> Identity {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]);
        let made = made.expect("a certificate");
        let key = made.signing_key.serialize_der().try_into();
        Identity::new(vec![made.cert.der().clone()], key.expect("a key"))
    }

    fn congestion() -> CongestionControl {
        CongestionControl::new(Algorithm::Cubic)
    }

    /// A server's process: its threads end without a word when it is dropped.
    fn serve(address: SocketAddr, identity: &Identity) -> (tokio::runtime::Runtime, SocketAddr) {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread");
        let context = runtime.enter();
        let listener = Listener::bind(address, identity, vec![b"test".to_vec()], None);
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("bound");
        runtime.spawn(async move {
            let mut connections = Vec::new();
            while let Some(arrived) = listener.next(congestion, |_| false).await {
                let connecting = arrived.connecting.expect("a good first datagram");
                connections.extend(connecting.await.ok());
            }
        });
        drop(context);
        (runtime, address)
    }

    /// Connects to the server at `address`, whoever it is.
    async fn connect(address: SocketAddr) -> noq::Connection {
        let endpoint = ClientEndpoint::new().expect("a socket");
        let dial = endpoint.dial(
            address,
            "localhost",
            &Trust::Anyone,
            vec![b"test".to_vec()],
            congestion(),
            Limits::Client,
        );
        dial.await.expect("it listens")
    }

    #[test]
    fn clients_of_a_server_that_was_killed_are_told_by_the_next_one() {
        let identity = lasting();
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (first, address) = serve(any, &identity);
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a thread");
        let connection = runtime.block_on(connect(address));
        first.shutdown_background();
        // The old process's socket is closed when its last task has ended.
        let begun = std::time::Instant::now();
        while std::net::UdpSocket::bind(address).is_err() {
            assert!(begun.elapsed() < IDLE, "the port is not free");
            std::thread::sleep(Duration::from_millis(10));
        }
        let (_second, _) = serve(address, &identity);
        let ended = runtime.block_on(async {
            let patience = IDLE - Duration::from_secs(10);
            tokio::time::timeout(patience, connection.closed()).await
        });
        let ended = ended.expect("the client is told before its idle timeout");
        assert!(matches!(ended, noq::ConnectionError::Reset), "{ended}");
    }

    #[test]
    fn a_client_without_rights_may_send_a_quarter_of_a_mebibyte() {
        let identity =
            Identity::self_signed(vec!["localhost".to_owned()], std::time::SystemTime::now());
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (server, address) = serve(any, &identity.expect("a certificate"));
        let runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = { runtime }.enable_all().build().expect("a runtime");
        let sent = runtime.block_on(async {
            let connection = connect(address).await;
            let mut stream = connection.open_uni().await.expect("a stream");
            let mut sent = 0;
            let limit = UNAUTHORIZED_RECEIVE_WINDOW as usize;
            loop {
                // Up to the limit the server takes everything, however long that lasts.
                let patience = Duration::from_secs(if sent < limit { 60 } else { 2 });
                let written = tokio::time::timeout(patience, stream.write(&[0; 16 << 10])).await;
                match written {
                    Ok(count) => sent += count.expect("the connection is open"),
                    Err(_) => break sent,
                }
                assert!(sent <= limit, "{sent} bytes of a stranger are kept");
            }
        });
        assert_eq!(sent, UNAUTHORIZED_RECEIVE_WINDOW as usize);
        server.shutdown_background();
    }
}
