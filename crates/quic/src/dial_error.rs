use glassline_trust::{TrustError, UntrustedCertificate};

/// The reason why a connection failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DialError {
    /// The server's certificate cannot be verified.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// TLS lacks the cipher suite of QUIC's initial packets.
    #[error("TLS lacks the initial cipher suite of QUIC")]
    Cipher,
    /// The address or the server name is invalid.
    #[error(transparent)]
    Address(#[from] noq::ConnectError),
    /// The server's certificate is not trusted.
    #[error(transparent)]
    Certificate(UntrustedCertificate),
    /// The network failed, or the server refused the connection.
    #[error(transparent)]
    Connection(noq::ConnectionError),
}

impl DialError {
    pub(crate) fn of(error: noq::ConnectionError) -> Self {
        let noq::ConnectionError::TransportError(failed) = &error else {
            return Self::Connection(error);
        };
        let in_tls = failed.crypto.as_ref();
        let in_tls = in_tls.and_then(|it| it.downcast_ref::<rustls::Error>());
        match in_tls.and_then(UntrustedCertificate::in_tls) {
            Some(untrusted) => Self::Certificate(untrusted.clone()),
            None => Self::Connection(error),
        }
    }
}
