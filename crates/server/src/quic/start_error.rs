use std::net::SocketAddr;

use glassline_quic::{IdentityError, ListenError};

use crate::config;

/// The reason why QUIC could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The files of the certificate do not work.
    #[error(transparent)]
    Files(#[from] config::QuicIdentityError),
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
