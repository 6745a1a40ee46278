//! The certificate that a server shows, accepted or not.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rustls::client::Resumption;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, ClientConnection};

use glassline_trust::Trust;

/// The certificate of a server, and what a browser with the system's authorities says about it.
#[derive(Clone, Debug)]
pub struct Presented {
    /// Certificates in DER, the server's own first.
    pub chain: Vec<Vec<u8>>,
    /// The reason why clients refuse the certificate; `None` if they accept it.
    pub fault: Option<CertificateFault>,
}

/// The reason why clients refuse a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CertificateFault {
    /// The certificate has expired.
    Expired,
    /// The certificate is not valid yet, or this machine's clock is wrong.
    NotYetValid,
    /// The certificate is for other names.
    Name {
        /// Names and addresses in the certificate, as the TLS library writes them.
        presented: Vec<String>,
    },
    /// No authority that this machine trusts has signed it, or the chain has a gap.
    UnknownIssuer,
    /// Any other reason, in the words of the TLS library.
    Other(String),
}

/// Makes a TLS handshake for `host` at `address`, whatever the certificate is.
///
/// # Errors
/// There is no connection, or no handshake within `patience`.
pub fn present(host: &str, address: SocketAddr, patience: Duration) -> io::Result<Presented> {
    let name = ServerName::try_from(bare(host).to_owned()).map_err(io::Error::other)?;
    let config = Trust::Anyone.over_tcp().map_err(io::Error::other)?;
    let mut config = ClientConfig::clone(&config);
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // A session that is resumed shows no certificate.
    config.resumption = Resumption::disabled();
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    let mut tcp = TcpStream::connect_timeout(&address, patience)?;
    tcp.set_read_timeout(Some(patience))?;
    tcp.set_write_timeout(Some(patience))?;
    let handshake = tls.complete_io(&mut tcp);
    let Some(shown) = tls.peer_certificates() else {
        return Err(handshake
            .err()
            .unwrap_or_else(|| io::Error::other("the server showed no certificate")));
    };
    let chain: Vec<_> = shown.iter().map(|it| it.to_vec()).collect();
    tls.send_close_notify();
    // The answer is known; a server that closed first is no fault.
    let _ = tls.complete_io(&mut tcp).and_then(|_| tcp.flush());
    Ok(Presented {
        fault: fault_of(&chain, host, SystemTime::now()),
        chain,
    })
}

/// Returns whether a server chooses HTTP/2 where a client offers it beside HTTP/1.1 (ALPN, RFC 7301).
///
/// # Errors
/// The system's error, a refused certificate, or a time-out after `patience`.
pub fn negotiates_http2(
    host: &str,
    port: u16,
    trust: Trust,
    patience: Duration,
) -> io::Result<bool> {
    let addresses = super::resolve(host, port)?;
    let address = addresses
        .first()
        .ok_or_else(|| io::Error::other("the name has no address"))?;
    let mut tcp = TcpStream::connect_timeout(address, patience)?;
    tcp.set_read_timeout(Some(patience))?;
    tcp.set_write_timeout(Some(patience))?;
    let mut config = ClientConfig::clone(&*trust.over_tcp().map_err(io::Error::other)?);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let name = ServerName::try_from(bare(host).to_owned()).map_err(io::Error::other)?;
    let mut tls = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut tcp)?;
    }
    Ok(tls.alpn_protocol() == Some(b"h2"))
}

/// Returns what clients say about a certificate for `host` at `now`, with the system's authorities.
///
/// `chain`: certificates in DER, the server's own first.
pub fn fault_of(chain: &[Vec<u8>], host: &str, now: SystemTime) -> Option<CertificateFault> {
    let chain: Vec<_> = chain.iter().cloned().map(CertificateDer::from).collect();
    let host = bare(host);
    let Ok(name) = ServerName::try_from(host.to_owned()) else {
        return Some(CertificateFault::Other(format!("{host} is no host name")));
    };
    let now = now.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let now = UnixTime::since_unix_epoch(now);
    match Trust::System.judge(&chain, &name, now) {
        Ok(None) => None,
        Ok(Some(rustls::Error::InvalidCertificate(error))) => Some(fault(error)),
        Ok(Some(other)) => Some(CertificateFault::Other(other.to_string())),
        // A machine without authorities knows none.
        Err(_) => Some(CertificateFault::UnknownIssuer),
    }
}

/// Returns a host without the brackets of an IPv6 address.
fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn fault(error: CertificateError) -> CertificateFault {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            CertificateFault::Expired
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            CertificateFault::NotYetValid
        }
        CertificateError::NotValidForName => CertificateFault::Name {
            presented: Vec::new(),
        },
        CertificateError::NotValidForNameContext { presented, .. } => {
            CertificateFault::Name { presented }
        }
        CertificateError::UnknownIssuer => CertificateFault::UnknownIssuer,
        other => CertificateFault::Other(other.to_string()),
    }
}
