//! HTTP clients whose TLS trusts as every other client does.

use std::fmt::Debug;
use std::io::{self, Read as _, Write as _};
use std::sync::OnceLock;

use glassline_trust::{Trust, UntrustedCertificate};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, StreamOwned};
use ureq::config::Config;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{
    Buffers, ConnectProxyConnector, ConnectionDetails, Connector, Either, LazyBuffers, NextTimeout,
    TcpConnector, Transport, TransportAdapter,
};
use ureq::{Agent, Error};

/// Name of `glassline doctor` in its requests: servers do not count what it tries in vain.
pub const OF_DOCTOR: &str = concat!("glassline-doctor/", env!("CARGO_PKG_VERSION"));

/// Name of every other command.
const OF_GLASSLINE: &str = concat!("glassline/", env!("CARGO_PKG_VERSION"));

static USER_AGENT: OnceLock<&str> = OnceLock::new();

/// Names this process in the requests of its viewers and publishers from now on. The first name stays.
pub fn name_process(user_agent: &'static str) {
    let _ = USER_AGENT.set(user_agent);
}

/// Returns the name of this process in its requests.
pub(crate) fn user_agent() -> &'static str {
    USER_AGENT.get().unwrap_or(&OF_GLASSLINE)
}

/// Returns an HTTP client with this configuration that accepts the certificates which `trust` accepts.
///
/// A certificate that is refused makes an error with the sentence of [`UntrustedCertificate`]. Without
/// any authority of the system, `http://` works.
pub fn agent(config: Config, trust: Trust) -> Agent {
    let connector = ().chain(ConnectProxyConnector::default());
    let connector = connector.chain(TcpConnector::default());
    let connector = connector.chain(TlsConnector { trust });
    Agent::with_parts(config, connector, DefaultResolver::default())
}

/// Puts TLS on the connections of `https://`.
#[derive(Debug)]
struct TlsConnector {
    trust: Trust,
}

impl<In: Transport> Connector<In> for TlsConnector {
    type Out = Either<In, TlsTransport>;

    fn connect(
        &self,
        details: &ConnectionDetails<'_>,
        chained: Option<In>,
    ) -> Result<Option<Self::Out>, Error> {
        let Some(transport) = chained else {
            return Ok(None);
        };
        if !details.needs_tls() || transport.is_tls() {
            return Ok(Some(Either::A(transport)));
        }
        let config = self.trust.over_tcp().map_err(io::Error::other)?;
        let host = details.uri.host().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        let mut tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
        let mut socket = TransportAdapter::new(transport.boxed(), details.current_time.clone());
        socket.set_timeout(details.timeout);
        tls.complete_io(&mut socket)
            .map_err(UntrustedCertificate::told)?;
        let buffers = LazyBuffers::new(
            details.config.input_buffer_size(),
            details.config.output_buffer_size(),
        );
        let stream = StreamOwned::new(tls, socket);
        Ok(Some(Either::B(TlsTransport { buffers, stream })))
    }
}

/// A connection within TLS.
#[derive(derive_more::Debug)]
#[debug("TlsTransport")]
struct TlsTransport {
    buffers: LazyBuffers,
    stream: StreamOwned<ClientConnection, TransportAdapter>,
}

impl Transport for TlsTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        self.stream.get_mut().set_timeout(timeout);
        self.stream.write_all(&self.buffers.output()[..amount])?;
        Ok(())
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        self.stream.get_mut().set_timeout(timeout);
        let count = self.stream.read(self.buffers.input_append_buf())?;
        self.buffers.input_appended(count);
        Ok(count > 0)
    }

    fn is_open(&mut self) -> bool {
        self.stream.get_mut().get_mut().is_open()
    }

    fn is_tls(&self) -> bool {
        true
    }
}
