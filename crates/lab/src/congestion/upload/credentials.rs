//! Certificates and configurations of QUIC, made once for all sessions.

use std::sync::Arc;
use std::time::Duration;

use noq_proto::congestion::ControllerFactory;
use noq_proto::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use noq_proto::{
    ClientConfig, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig,
    ValidationTokenConfig, VarInt,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::PrivateKeyDer;

use super::wire::{Packets, TappedClient, TappedServer, Wire};

/// The name on the certificate.
pub(super) const SERVER_NAME: &str = "upload.test";

/// Idle timeout of a connection: longer than the outages that it has to survive.
const IDLE: Duration = Duration::from_secs(60);

/// Most bytes that a receiver holds, of one stream with gaps and of all together.
const RECEIVE_WINDOW: u32 = 16 << 20;

/// TLS credentials of both ends. The key is Ed25519, because its signatures have a fixed size, so
/// that the handshake's packets have the same sizes in every run.
#[derive(Clone)]
pub(crate) struct Credentials {
    client: Arc<QuicClientConfig>,
    server: Arc<QuicServerConfig>,
    packets: Packets,
}

impl Credentials {
    /// Makes a key and its certificate.
    pub(crate) fn new(packets: Packets) -> Self {
        let provider = Arc::new(CryptoProvider {
            // One key exchange group, instead of a choice that could change with the library.
            kx_groups: vec![aws_lc_rs::kx_group::X25519],
            ..aws_lc_rs::default_provider()
        });
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).expect("an Ed25519 key");
        let certificate = rcgen::CertificateParams::new(vec![SERVER_NAME.to_owned()])
            .and_then(|params| params.self_signed(&key))
            .expect("a certificate for a valid name");
        let mut roots = rustls::RootCertStore::empty();
        roots
            .add(certificate.der().clone())
            .expect("our own certificate");
        let mut client = rustls::ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3 is there")
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.resumption = rustls::client::Resumption::disabled();
        let private = PrivateKeyDer::Pkcs8(key.serialize_der().into());
        let mut server = rustls::ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&rustls::version::TLS13])
            .expect("TLS 1.3 is there")
            .with_no_client_auth()
            .with_single_cert(vec![certificate.der().clone()], private)
            .expect("a key that fits its certificate");
        server.send_tls13_tickets = 0;
        Self {
            client: Arc::new(client.try_into().expect("TLS 1.3 with AES-128-GCM")),
            server: Arc::new(server.try_into().expect("TLS 1.3 with AES-128-GCM")),
            packets,
        }
    }

    /// The credentials, with packets sealed or not.
    pub(crate) fn with(&self, packets: Packets) -> Self {
        Self {
            packets,
            ..self.clone()
        }
    }

    /// Client configuration of a sender: `wire` sees its packets, `controller` decides about
    /// sending, datagrams have at most `datagram_bytes`.
    pub(crate) fn client(
        &self,
        wire: Wire,
        controller: Arc<dyn ControllerFactory + Send + Sync>,
        datagram_bytes: u16,
    ) -> ClientConfig {
        let inner = Arc::clone(&self.client);
        let mut config = ClientConfig::new(Arc::new(TappedClient {
            inner,
            wire,
            packets: self.packets,
        }));
        let mut transport = transport(datagram_bytes);
        transport.congestion_controller_factory(controller);
        config.transport_config(Arc::new(transport));
        config
    }

    /// Server configuration for the receiver of that sender.
    pub(crate) fn server(&self, wire: Wire, datagram_bytes: u16) -> ServerConfig {
        let inner = Arc::clone(&self.server);
        let mut config = ServerConfig::with_crypto(Arc::new(TappedServer {
            inner,
            wire,
            packets: self.packets,
        }));
        let mut tokens = ValidationTokenConfig::default();
        tokens.sent(0);
        config.validation_token_config(tokens);
        config.transport_config(Arc::new(transport(datagram_bytes)));
        config
    }

    /// Endpoint configuration whose random choices follow from `seed`.
    pub(crate) fn endpoint(seed: u64) -> EndpointConfig {
        let mut config = EndpointConfig::default();
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        config.rng_seed(Some(bytes));
        config
    }
}

fn transport(datagram_bytes: u16) -> TransportConfig {
    let mut transport = TransportConfig::default();
    transport
        .mtu_discovery_config(None)
        .initial_mtu(datagram_bytes)
        .max_idle_timeout(IdleTimeout::try_from(IDLE).ok())
        .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
        .receive_window(VarInt::from_u32(2 * RECEIVE_WINDOW))
        .allow_spin(false)
        .enable_segmentation_offload(true);
    transport
}
