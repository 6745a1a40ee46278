//! The connection to a camera: TCP, or TLS on it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use glassline_trust::{Trust, UntrustedCertificate};
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::Failure;

/// The bytes between the server and a camera.
#[derive(Debug)]
pub(super) enum CameraSocket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl CameraSocket {
    /// Performs the TLS handshake with `host`, whose certificate must be one that `trust` accepts.
    pub(super) async fn secure(
        socket: TcpStream,
        host: &str,
        trust: &Trust,
    ) -> Result<Self, Failure> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| {
            Failure::Tls(format!(
                "'{host}' is no name that a certificate can have: use the camera's name or IP address"
            ))
        })?;
        let config = trust.over_tcp().map_err(|error| {
            Failure::Tls(format!(
                "no certificate of a camera can be checked: {error}; or add sha256=… to the source to \
                 pin the camera's certificate"
            ))
        })?;
        let stream = TlsConnector::from(config).connect(name, socket).await;
        match stream {
            Ok(stream) => Ok(Self::Tls(Box::new(stream))),
            Err(error) => Err(refusal(&error, *trust)),
        }
    }
}

/// Returns why a handshake failed.
fn refusal(error: &io::Error, trust: Trust) -> Failure {
    let Some(untrusted) = UntrustedCertificate::of(error) else {
        return Failure::Handshake(error.to_string());
    };
    let (sentence, fingerprint) = (untrusted.sentence("camera"), untrusted.fingerprint);
    Failure::Tls(match trust {
        Trust::Pinned(_) => format!(
            "{sentence}; if the camera has a new certificate, set sha256={fingerprint} at the source"
        ),
        _ => format!(
            "{sentence}; if the camera's own page shows the same, add sha256={fingerprint} to the source"
        ),
    })
}

impl AsyncRead for CameraSocket {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(stream) => match Pin::new(stream).poll_read(context, buffer) {
                // The end came without close_notify; RTSP notices a message that was cut.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                read => read,
            },
        }
    }
}

impl AsyncWrite for CameraSocket {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
