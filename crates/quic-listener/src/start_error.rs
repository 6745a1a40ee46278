use std::net::SocketAddr;

use glassline_quic::{IdentityError, ListenError};

/// The reason why QUIC could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The certificate itself does not work.
    #[error("quic: {0}")]
    Identity(#[from] IdentityError),
    /// The UDP port could not be opened.
    #[error(
        "quic: cannot listen on UDP {address}: {source}; stop the program that holds port {port} \
         (`ss -lunp 'sport = :{port}'` names it) or change quic.address or --quic (`off` for none)",
        port = address.port()
    )]
    Listen {
        /// UDP address that the configuration names.
        address: SocketAddr,
        /// The system's or the library's error.
        source: ListenError,
    },
}
