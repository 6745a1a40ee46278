use std::net::SocketAddr;

use glassline_access::auth::KeyRingError;
use glassline_access::outbound::ClientError;
use glassline_access::tls::{AcmeError, FilesError, LanError};
use glassline_config::{ClusterError, Collisions, ProgramsError};
use glassline_quic_listener as quic;

use crate::stored::StateFileError;
use glassline_ingest as ingest;

use crate::sessions;

/// The reason why the server could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A TCP port could not be opened.
    #[error(
        "{name}: cannot listen on TCP {address}: {source}; \
         stop the program that holds port {port} (`ss -ltnp 'sport = :{port}'` names it) or change {setting}",
        port = address.port()
    )]
    Listen {
        /// Name of the listener.
        name: &'static str,
        /// Configuration key of the address.
        setting: &'static str,
        /// Address that could not be opened.
        address: SocketAddr,
        /// The error that the system returned.
        source: std::io::Error,
    },
    /// Two listeners want the same port.
    #[error(transparent)]
    Ports(#[from] Collisions),
    /// The section `cluster` does not fit the rest.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// More sources are programs than the configuration allows.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    /// The media port could not be opened, or its threads could not be started.
    #[error(transparent)]
    Shards(#[from] sessions::StartError),
    /// A source can never work.
    #[error(transparent)]
    Source(#[from] ingest::StartError),
    /// The file of what was made over the API cannot be read.
    #[error(transparent)]
    Stored(#[from] StateFileError),
    /// The certificate for DTLS could not be made.
    #[error("cannot make a DTLS certificate: {0}")]
    Certificate(#[from] glassline_webrtc::dtls::GenerateError),
    /// The port or certificate of QUIC does not work.
    #[error(transparent)]
    Quic(#[from] quic::StartError),
    /// The files of a certificate do not work.
    #[error(transparent)]
    Certificates(#[from] FilesError),
    /// The private authority has no certificate.
    #[error(transparent)]
    Lan(#[from] LanError),
    /// Certificates over ACME cannot be obtained or kept.
    #[error(transparent)]
    Acme(#[from] AcmeError),
    /// The keys that tokens are verified with cannot be used.
    #[error(transparent)]
    Keys(#[from] KeyRingError),
    /// A listener within TLS has no certificate.
    #[error(
        "{setting} is {address}, and there is no certificate for it: set `tls`, or name \
         the files `certificate` and `key` beside the address where that has them"
    )]
    NoCertificate {
        /// Configuration key of the address.
        setting: &'static str,
        /// Address that the key names.
        address: SocketAddr,
    },
    /// The cryptography does not support the usual versions of TLS.
    #[error("cannot start TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The collector of OpenTelemetry cannot be reached within TLS.
    #[error("telemetry.otlp.roots: {0}")]
    Telemetry(#[from] ClientError),
    /// The system refused something else.
    #[error("cannot start: {0}")]
    System(#[from] std::io::Error),
}
