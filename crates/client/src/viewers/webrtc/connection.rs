//! A viewer's TCP connection for media: datagrams with their lengths in front (RFC 4571).

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use glassline_webrtc::framing::{self, FrameReader};

/// Time to connect.
const CONNECT: Duration = Duration::from_secs(10);
/// Most bytes that wait for the server to read. What a viewer sends are reports, which are of no use
/// when they are late.
const WAITING_BYTES_MAX: usize = 64 << 10;

/// A connection that carries the datagrams of one session.
pub(in crate::viewers) struct Connection {
    stream: TcpStream,
    local: SocketAddr,
    server: SocketAddr,
    reader: FrameReader,
    /// Bytes that the kernel had no room for.
    waiting: Vec<u8>,
}

impl Connection {
    /// Connects to the server's candidate. With `receive_buffer`, the kernel keeps about that many
    /// bytes that were not read.
    pub(in crate::viewers) fn open(
        server: SocketAddr,
        receive_buffer: Option<usize>,
    ) -> io::Result<Self> {
        let stream = match receive_buffer {
            Some(bytes) => glassline_net::stream::connect(server, bytes, CONNECT)?,
            None => TcpStream::connect_timeout(&server, CONNECT)?,
        };
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self {
            local: stream.local_addr()?,
            stream,
            server,
            reader: FrameReader::default(),
            waiting: Vec::new(),
        })
    }

    /// Returns the address of our end.
    pub(in crate::viewers) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns the address of the server's end.
    pub(super) const fn server(&self) -> SocketAddr {
        self.server
    }

    pub(super) fn descriptor(&self) -> RawFd {
        self.stream.as_raw_fd()
    }

    /// Reads once into `buffer`, and calls `on_datagram` for each datagram that is whole. Returns
    /// whether more may wait.
    ///
    /// # Errors
    /// The connection has ended, or carries no frames.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        on_datagram: impl FnMut(&mut [u8]),
    ) -> io::Result<bool> {
        let count = match self.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Ok(true),
            Err(error) => return Err(error),
        };
        let is_full = count == buffer.len();
        let read = self.reader.read(&mut buffer[..count], on_datagram);
        read.map_err(io::Error::other)?;
        Ok(is_full)
    }

    /// Sends a datagram. Returns whether it was sent, or waits for room: a server that does not read
    /// gets no more of them.
    pub(super) fn send(&mut self, datagram: &[u8]) -> bool {
        let Some(prefix) = framing::prefix(datagram.len()) else {
            return false;
        };
        let is_taken = self.waiting.len() + datagram.len() <= WAITING_BYTES_MAX;
        if is_taken {
            self.waiting.extend_from_slice(&prefix);
            self.waiting.extend_from_slice(datagram);
        }
        self.flush();
        is_taken
    }

    /// Sends what waits, as far as the kernel has room. An error shows when the connection is read.
    pub(super) fn flush(&mut self) {
        while !self.waiting.is_empty() {
            match glassline_net::stream::send(&self.stream, &self.waiting) {
                Ok(sent) if sent > 0 => drop(self.waiting.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    fn pair(receive_buffer: Option<usize>) -> (Connection, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let connection = Connection::open(address, receive_buffer).expect("a listener");
        let (server, client) = listener.accept().expect("connected");
        assert_eq!(connection.local(), client);
        assert_eq!(connection.server(), address);
        (connection, server)
    }

    fn receive(connection: &mut Connection) -> io::Result<Vec<Vec<u8>>> {
        let (mut datagrams, mut buffer) = (Vec::new(), [0; 64]);
        let taken = |datagram: &mut [u8]| datagrams.push(datagram.to_vec());
        connection.receive(&mut buffer, taken)?;
        Ok(datagrams)
    }

    /// Waits until the kernel has handed something over.
    fn await_datagrams(connection: &mut Connection) -> Vec<Vec<u8>> {
        for _ in 0..2_000 {
            match receive(connection) {
                Ok(datagrams) if datagrams.is_empty() => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                other => return other.expect("an open connection"),
            }
        }
        panic!("nothing arrives");
    }

    #[test]
    fn datagrams_are_told_apart_whatever_the_pieces() {
        let (mut connection, mut server) = pair(None);
        assert!(receive(&mut connection).expect("open").is_empty());
        server
            .write_all(b"\x00\x03one\x00\x03t")
            .expect("connected");
        assert_eq!(await_datagrams(&mut connection), [b"one"]);
        server.write_all(b"wo").expect("connected");
        assert_eq!(await_datagrams(&mut connection), [b"two"]);
        assert!(connection.send(b"back"));
        let mut back = [0; 6];
        server.read_exact(&mut back).expect("a frame");
        assert_eq!(&back, b"\x00\x04back");
        server.write_all(&[0xff; 2]).expect("connected");
        let error = loop {
            if let Err(error) = receive(&mut connection) {
                break error;
            }
        };
        assert!(error.to_string().contains("65535"), "{error}");
    }

    #[test]
    fn a_server_that_does_not_read_is_sent_no_more_than_fits() {
        let (mut connection, mut server) = pair(Some(4096));
        let datagram = [7; 1200];
        let taken = (0..1_000_000)
            .take_while(|_| connection.send(&datagram))
            .count();
        assert!(taken < 1_000_000, "the bound holds");
        assert!(connection.waiting.len() <= WAITING_BYTES_MAX + 2);
        // All that was taken arrives whole, and nothing else.
        server.set_nonblocking(true).expect("a socket");
        let expected = taken * (datagram.len() + framing::PREFIX_BYTES);
        let (mut read, mut buffer) = (0, [0; 64 << 10]);
        while read < expected {
            connection.flush();
            match server.read(&mut buffer) {
                Ok(count) => read += count,
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        assert_eq!(read, expected);
        assert!(connection.waiting.is_empty());
        drop(server);
        let ended = (0..2_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            receive(&mut connection).is_err()
        });
        assert!(ended);
    }
}
