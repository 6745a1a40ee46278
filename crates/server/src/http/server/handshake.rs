//! The TLS handshake of one connection.

use std::io;
use std::sync::Arc;

use glassline_access::tls::CHALLENGE_ALPN;
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::activity::{Activity, Closed, Deadlines};
use super::connection::Version;

/// Answer to a client that speaks plain HTTP to a port within TLS.
const PLAIN_RESPONSE: &[u8] = b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
    content-type: text/plain\r\ncontent-length: 55\r\n\r\n\
    This port speaks HTTPS: write https:// in the address.\n";

/// Shakes hands with a client. The deadline for the first request's header counts from the
/// accepted connection, so the handshake and that header share it. Until the first request is
/// granted, the connection is half-open and makes room for others like a plain one.
///
/// # Errors
/// Returns the reason why the connection is to be closed.
pub(super) async fn accept(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    activity: &Activity,
    deadlines: Deadlines,
    stopped: &mut watch::Receiver<bool>,
) -> Result<TlsStream<TcpStream>, Closed> {
    let (until, closed) = activity
        .deadline(&deadlines)
        .expect("a connection that was just accepted has a deadline");
    let shaking = shake_hands(stream, config);
    tokio::select! {
        biased;
        () = activity.evicted() => Err(Closed::Evicted),
        _ = stopped.wait_for(|stop| *stop) => Err(Closed::Ended),
        shaken = tokio::time::timeout_at(until.into(), shaking) => match shaken {
            // An authority has seen the answer to its challenge; nothing else is served there.
            Ok(Ok(stream)) if is_challenge(&stream) => Err(Closed::Ended),
            Ok(shaken) => shaken.map_err(|_| Closed::Handshake),
            Err(_) => Err(closed),
        },
    }
}

/// Returns the version of HTTP that client and server agreed on during the handshake (RFC 7301).
pub(super) fn version(stream: &TlsStream<TcpStream>) -> Version {
    let (_, session) = stream.get_ref();
    match session.alpn_protocol() {
        Some(b"h2") => Version::Http2,
        _ => Version::Http1,
    }
}

fn is_challenge(stream: &TlsStream<TcpStream>) -> bool {
    let (_, session) = stream.get_ref();
    session.alpn_protocol() == Some(CHALLENGE_ALPN)
}

async fn shake_hands(
    mut stream: TcpStream,
    config: Arc<ServerConfig>,
) -> io::Result<TlsStream<TcpStream>> {
    // TLS begins with a record of type 22 (RFC 8446 §5.1), and HTTP with a method.
    let mut first = [0];
    if stream.peek(&mut first).await? == 1 && first[0].is_ascii_uppercase() {
        // There is room for it: nothing was sent yet.
        stream.write_all(PLAIN_RESPONSE).await?;
        stream.shutdown().await?;
        return Err(io::ErrorKind::InvalidData.into());
    }
    TlsAcceptor::from(config).accept(stream).await
}
