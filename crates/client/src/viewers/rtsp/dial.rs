//! Blocking work of the signalling threads: resolving and connecting to the server, and
//! waiting for its response to TEARDOWN.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use glassline_rtsp::Client;
use glassline_trust::Trust;
use url::Url;

use super::control_connection::ControlConnection;
use crate::viewers::RtspTransport;

/// A fresh, nonblocking connection on which nothing was sent yet.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) stream: ControlConnection,
    pub(crate) server: SocketAddr,
    /// Our address on the connection, where the server can send datagrams.
    pub(crate) local: SocketAddr,
    /// Time at which connecting began.
    pub(in crate::viewers) started: Instant,
}

/// Default port of RTSP.
const PORT: u16 = 554;

/// Default port of RTSP inside TLS.
const PORT_OF_TLS: u16 = 322;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Connects to the host of an `rtsp:` or `rtsps:` URL, at the first of its addresses that
/// answers. `receive_buffer` sets the bytes of TCP receive buffer; `None` leaves the system's
/// default.
///
/// # Errors
/// Names the host, and why it cannot be reached.
pub(crate) fn connect(
    url: &Url,
    transport: RtspTransport,
    receive_buffer: Option<usize>,
    trust: Trust,
) -> Result<Connection, String> {
    let host = url.host_str().unwrap_or_default();
    let secure = url.scheme() == "rtsps";
    let usual = if secure { PORT_OF_TLS } else { PORT };
    let port = url.port().unwrap_or(usual);
    let addresses = url
        .socket_addrs(|| Some(usual))
        .map_err(|error| format!("cannot resolve {host}: {error}"))?;
    let started = Instant::now();
    let mut failure = format!("{host} has no address");
    for server in addresses {
        let opened = open(server, receive_buffer).and_then(|stream| {
            let local = stream.local_addr()?;
            let is_tunnel = transport == RtspTransport::Http;
            let stream = match (secure, is_tunnel) {
                (true, true) => {
                    let text = "RTSP over HTTP is not supported inside TLS: use an rtsp:// URL";
                    return Err(std::io::Error::other(text));
                }
                (true, false) => ControlConnection::secure(stream, host, trust, CONNECT_TIMEOUT)?,
                (false, true) => {
                    ControlConnection::tunnel(stream, open(server, None)?, url, CONNECT_TIMEOUT)?
                }
                (false, false) => ControlConnection::Plain(stream),
            };
            stream.set_nonblocking(true)?;
            Ok((stream, local))
        });
        match opened {
            Ok((stream, local)) => {
                return Ok(Connection {
                    stream,
                    server,
                    local,
                    started,
                });
            }
            Err(error) => failure = format!("cannot connect to {host}:{port}: {error}"),
        }
    }
    Err(failure)
}

fn open(server: SocketAddr, receive_buffer: Option<usize>) -> std::io::Result<TcpStream> {
    let stream = match receive_buffer {
        Some(bytes) => glassline_net::stream::connect(server, bytes, CONNECT_TIMEOUT)?,
        None => TcpStream::connect_timeout(&server, CONNECT_TIMEOUT)?,
    };
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// A viewer that has asked to leave and whose server has not answered yet.
///
/// Closing at once would reset the connection, because media is still in flight, and a server
/// might then never read the TEARDOWN.
pub(in crate::viewers) struct ControlTeardown {
    pub(super) stream: ControlConnection,
    pub(super) client: Client,
}

impl ControlTeardown {
    /// Waits for the server's response, at most a second.
    pub(in crate::viewers) fn finish(mut self) {
        let mut buffer = vec![0; 64 << 10];
        if let Err(error) = self.exchange(&mut buffer) {
            tracing::debug!(%error, "TEARDOWN failed; the server will time the session out");
        }
    }

    fn exchange(&mut self, buffer: &mut [u8]) -> std::io::Result<()> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_write_timeout(Duration::from_secs(1))?;
        self.stream.write_all(self.client.output())?;
        self.stream.flush()?;
        loop {
            let now = Instant::now();
            self.client.handle_timeout(now);
            let Some(deadline) = self.client.poll_timeout() else {
                return Ok(());
            };
            let patience = deadline
                .saturating_duration_since(now)
                .max(Duration::from_millis(1));
            self.stream.socket().set_read_timeout(Some(patience))?;
            match self.stream.read(buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => self
                    .client
                    .handle_data(Instant::now(), &buffer[..count], |_| {}),
                Err(error) if is_timeout(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

fn is_timeout(error: &std::io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
