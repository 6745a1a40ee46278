//! The bytes between a client and the fake camera: plain, or within TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use glassline_quic::Fingerprint;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A connection of the fake camera.
pub(crate) enum CameraStream {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

/// A certificate that its owner signed, and who shows it.
pub(crate) struct TlsIdentity {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) fingerprint: Fingerprint,
}

impl TlsIdentity {
    pub(crate) fn read() -> Result<TlsIdentity, String> {
        let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/server/tests/data");
        let failed = |error: &dyn std::fmt::Display| format!("the camera's certificate: {error}");
        let chain = CertificateDer::pem_file_iter(data.join("localhost.pem"));
        let chain: Result<Vec<_>, _> = chain.map_err(|error| failed(&error))?.collect();
        let chain = chain.map_err(|error| failed(&error))?;
        let key = PrivateKeyDer::from_pem_file(data.join("localhost.key.pem"));
        let key = key.map_err(|error| failed(&error))?;
        let fingerprint = Fingerprint::of(chain.first().ok_or("no certificate of the camera")?);
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .and_then(|it| it.with_no_client_auth().with_single_cert(chain, key))
            .map_err(|error| failed(&error))?;
        Ok(TlsIdentity {
            config: Arc::new(config),
            fingerprint,
        })
    }
}

impl CameraStream {
    pub(crate) fn open(socket: TcpStream, config: Option<Arc<ServerConfig>>) -> CameraStream {
        let session = config.map(|config| ServerConnection::new(config).expect("a configuration"));
        match session {
            Some(session) => CameraStream::Tls(Box::new(StreamOwned::new(session, socket))),
            None => CameraStream::Plain(socket),
        }
    }

    pub(crate) fn socket(&self) -> &TcpStream {
        match self {
            CameraStream::Plain(socket) => socket,
            CameraStream::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for CameraStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            CameraStream::Plain(socket) => socket.read(buffer),
            CameraStream::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for CameraStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            CameraStream::Plain(socket) => socket.write(bytes),
            CameraStream::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            CameraStream::Plain(socket) => socket.flush(),
            CameraStream::Tls(stream) => stream.flush(),
        }
    }
}
