//! TURN relays of a dialling end: connections to TURN servers, and allocations that are made
//! before an offer.
//!
//! ```text
//! gather ─ server after server ─► Allocation ─► DialConfig::turn_allocations
//!          UDP: the end's own socket    TCP, TLS: a Connection, kept beside the session
//! ```
//!
//! The protocol is [`glassline_webrtc::turn`]; this module has the sockets and clocks.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::os::fd::{AsRawFd, RawFd};
use std::time::{Duration, Instant};

use glassline_net::{ReceiveBatch, UdpSocket};
use glassline_webrtc::turn::{self, Allocation, State, Transport};
pub use glassline_webrtc::turn::{Credentials, Server};
use rustls::ClientConnection;
use rustls::pki_types::ServerName;

use glassline_trust::Trust;

/// Most bytes that wait for a connection; further frames are dropped, as datagrams would be.
const OUTGOING_MAX: usize = 4 << 20;
/// Most received bytes that are kept: the largest frame, and a little more.
const INCOMING_MAX: usize = 128 << 10;
/// Time between two looks at a socket while an allocation is pending.
const LOOK: Duration = Duration::from_millis(2);

/// Error: no TURN server gave a relay; the text names each server and its reason.
#[derive(Debug, thiserror::Error)]
#[error("no TURN server gives a relay: {0}")]
pub struct GatherError(String);

/// A TURN allocation, and the connection that it depends on.
#[derive(Debug)]
pub struct Gathered {
    /// Allocation on the TURN server.
    pub relay: Allocation,
    /// Connection to the server; `None` over UDP.
    pub connection: Option<Connection>,
}

/// Asks `servers` one after the other, each for at most `patience`, and keeps the first
/// relay.
///
/// UDP servers are asked from `socket`, whose address is `local`. Other datagrams that arrive
/// meanwhile are lost, so call this before anything else uses the socket.
///
/// # Errors
/// Names each server, and why it gave no relay.
pub fn gather(
    servers: &[Server],
    credentials: &Credentials,
    socket: &UdpSocket,
    local: SocketAddr,
    trust: Trust,
    patience: Duration,
) -> Result<Gathered, GatherError> {
    let mut reasons = Vec::new();
    for server in servers {
        match allocate(server, credentials, socket, local, trust, patience) {
            Ok(gathered) => return Ok(gathered),
            Err(error) => reasons.push(format!("{server}: {error}")),
        }
    }
    if reasons.is_empty() {
        reasons.push("no server is configured".to_owned());
    }
    Err(GatherError(reasons.join("; ")))
}

fn allocate(
    server: &Server,
    credentials: &Credentials,
    socket: &UdpSocket,
    local: SocketAddr,
    trust: Trust,
    patience: Duration,
) -> io::Result<Gathered> {
    let deadline = Instant::now() + patience;
    let addresses = (server.host.as_str(), server.port).to_socket_addrs()?;
    let address = addresses
        .into_iter()
        .find(|it| it.is_ipv4() == local.is_ipv4())
        .ok_or_else(|| {
            let family = if local.is_ipv4() { "IPv4" } else { "IPv6" };
            io::Error::other(format!(
                "the host has no {family} address, as the socket has"
            ))
        })?;
    let mut connection = match server.transport {
        Transport::Udp => None,
        _ => Some(Connection::open(server, address, trust, patience)?),
    };
    let from = match &connection {
        Some(connection) => connection.tcp.local_addr()?,
        None => local,
    };
    let mut relay = Allocation::new(server.clone(), address, from, credentials, Instant::now());
    let (mut batch, mut out) = (ReceiveBatch::default(), Vec::new());
    loop {
        let now = Instant::now();
        match relay.state() {
            State::Allocated(_) => return Ok(Gathered { relay, connection }),
            State::Failed => {
                return Err(io::Error::other(
                    "the server refused the allocation, or did not answer",
                ));
            }
            State::Allocating if now >= deadline => {
                let text = format!("no allocation within {patience:?}: wrong credentials?");
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            State::Allocating => {}
        }
        match &mut connection {
            Some(connection) => {
                connection.read(|frame| {
                    relay.handle(now, frame);
                })?;
            }
            None => {
                socket.receive_batch(&mut batch)?;
                let datagrams = batch.iter_mut().filter(|it| it.source == address);
                for datagram in datagrams {
                    relay.handle(now, datagram.bytes);
                }
            }
        }
        if relay.poll_timeout().is_some_and(|at| at <= now) {
            relay.handle_timeout(now);
        }
        while relay.poll_transmit(&mut out) {
            match &mut connection {
                Some(connection) => connection.write(&out)?,
                // A lost request is sent again.
                None => drop(socket.send(&out, address)),
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Connection to a TURN server over TCP or TLS.
#[derive(Debug)]
pub struct Connection {
    tcp: mio::net::TcpStream,
    tls: Option<Box<ClientConnection>>,
    address: SocketAddr,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Connection {
    fn open(
        server: &Server,
        address: SocketAddr,
        trust: Trust,
        patience: Duration,
    ) -> io::Result<Self> {
        let tcp = std::net::TcpStream::connect_timeout(&address, patience)?;
        tcp.set_nodelay(true)?;
        tcp.set_nonblocking(true)?;
        let tls = match server.transport {
            Transport::Tls => {
                let name = ServerName::try_from(server.host.clone()).map_err(io::Error::other)?;
                let config = trust.over_tcp().map_err(io::Error::other)?;
                let tls = ClientConnection::new(config, name).map_err(io::Error::other)?;
                Some(Box::new(tls))
            }
            _ => None,
        };
        Ok(Self {
            tcp: mio::net::TcpStream::from_std(tcp),
            tls,
            address,
            incoming: Vec::new(),
            outgoing: Vec::new(),
        })
    }

    /// Address of the server.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Passes the frames that have arrived to `frame`; returns true if there was any.
    ///
    /// # Errors
    /// If the connection broke, or the server sent something else than TURN.
    pub fn read(&mut self, mut frame: impl FnMut(&mut [u8])) -> io::Result<bool> {
        let mut any = false;
        loop {
            let read = self.fill();
            let mut start = 0;
            while let Some(found) = turn::frame(&self.incoming[start..])
                && start + found.length <= self.incoming.len()
            {
                frame(&mut self.incoming[start..start + found.content]);
                start += found.length;
                any = true;
            }
            self.incoming.drain(..start);
            match read {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.flush()?;
        Ok(any)
    }

    /// Appends received bytes to `incoming`.
    fn fill(&mut self) -> io::Result<usize> {
        let before = self.incoming.len();
        if before >= INCOMING_MAX {
            return Err(io::Error::other(
                "the server sends something else than TURN",
            ));
        }
        let mut bytes = [0; 32 << 10];
        let read = match &mut self.tls {
            None => self.tcp.read(&mut bytes)?,
            Some(tls) => match tls.reader().read(&mut bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    let read = tls.read_tls(&mut self.tcp)?;
                    tls.process_new_packets().map_err(io::Error::other)?;
                    if read == 0 {
                        return Ok(0);
                    }
                    // The next iteration reads the decrypted bytes.
                    return Ok(read);
                }
                read => read?,
            },
        };
        self.incoming.extend_from_slice(&bytes[..read]);
        Ok(read)
    }

    /// Sends a frame, or drops it if too many bytes wait.
    ///
    /// # Errors
    /// If the connection broke.
    pub fn write(&mut self, frame: &[u8]) -> io::Result<()> {
        if self.outgoing.len() + frame.len() <= OUTGOING_MAX {
            self.outgoing.extend_from_slice(frame);
        }
        self.flush()
    }

    /// Sends waiting bytes, as far as the network takes them.
    ///
    /// # Errors
    /// If the connection broke.
    pub fn flush(&mut self) -> io::Result<()> {
        loop {
            let written = match &mut self.tls {
                None if self.outgoing.is_empty() => return Ok(()),
                None => self.tcp.write(&self.outgoing),
                Some(tls) => {
                    let taken = tls.writer().write(&self.outgoing)?;
                    self.outgoing.drain(..taken);
                    if !tls.wants_write() {
                        return Ok(());
                    }
                    tls.write_tls(&mut self.tcp)
                }
            };
            match written {
                Ok(written) if self.tls.is_none() => drop(self.outgoing.drain(..written)),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsRawFd for Connection {
    fn as_raw_fd(&self) -> RawFd {
        self.tcp.as_raw_fd()
    }
}
