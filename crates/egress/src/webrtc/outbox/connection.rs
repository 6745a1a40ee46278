//! A TCP connection that carries the datagrams of a peer (RFC 6544).

use std::any::Any;
use std::io::{self, IoSlice, Read, Write};
use std::net::SocketAddr;

use glassline_webrtc::framing::{self, FrameReader};
use mio::net::TcpStream;

/// Most bytes that wait unsent in the kernel, approximately: some 100 ms of video of 5 Mbit/s. What
/// is in the kernel cannot be skipped when the path gets slow.
const UNSENT_BYTES_MAX: u32 = 64 << 10;

/// Most bytes that wait here. Media stops as soon as anything waits, so that control datagrams alone
/// can reach the limit.
pub(super) const WAITING_BYTES_MAX: usize = 1 << 20;

/// Bytes of the buffer that a connection keeps while nothing waits.
const KEPT_BYTES: usize = 4 << 10;

/// A connection of a peer, and the datagrams that the kernel has not taken yet.
///
/// Each datagram is framed by its length (RFC 4571). Datagrams are sent in order and none is left
/// out, since the peer would take that for a loss on the path.
#[derive(Debug)]
pub struct TcpConnection {
    stream: TcpStream,
    peer: SocketAddr,
    local: SocketAddr,
    reader: FrameReader,
    /// Framed datagrams that are not in the kernel.
    waiting: Vec<u8>,
    /// Whether the kernel took less than what waited.
    is_full: bool,
    /// Whether the connection is of no more use.
    pub(super) is_broken: bool,
    /// The place among the connections that the server allows, given back with the connection.
    _place: Box<dyn Any + Send>,
}

impl TcpConnection {
    /// Prepares an accepted connection. `place` is dropped when the connection ends.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn new(stream: std::net::TcpStream, place: impl Any + Send) -> io::Result<TcpConnection> {
        stream.set_nonblocking(true)?;
        // Each write has whole datagrams; data held back for more would only be late.
        stream.set_nodelay(true)?;
        glassline_net::set_unsent_limit(&stream, UNSENT_BYTES_MAX)?;
        Ok(Self {
            peer: stream.peer_addr()?,
            local: stream.local_addr()?,
            stream: TcpStream::from_std(stream),
            reader: FrameReader::default(),
            waiting: Vec::new(),
            is_full: false,
            is_broken: false,
            _place: Box::new(place),
        })
    }

    /// Returns the peer's address.
    pub const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the server's address that the peer connected to.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns whether the kernel has no room for more.
    pub const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether datagrams wait for [`write`](Self::write).
    pub(super) const fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the reader of the connection's frames, until the reader is put back.
    pub fn take_reader(&mut self) -> FrameReader {
        std::mem::take(&mut self.reader)
    }

    /// Puts back the reader of the connection's frames.
    pub fn put_reader(&mut self, reader: FrameReader) {
        self.reader = reader;
    }

    /// Reads the bytes that have arrived, up to the size of `buffer`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing has arrived; any other error ends the connection.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.read(buffer)
    }

    /// Returns the stream, to wait for its events.
    pub(super) const fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// Frames datagrams of `segment` bytes each, except that the last may be shorter, and has them
    /// wait for [`write`](Self::write) or [`send`](Self::send). Returns false, and breaks the
    /// connection, if there is no room for them.
    pub(super) fn queue(&mut self, datagrams: &[u8], segment: usize) -> bool {
        if self.is_broken || self.waiting.len() + datagrams.len() > WAITING_BYTES_MAX {
            self.is_broken = true;
            return false;
        }
        for datagram in datagrams.chunks(segment.max(1)) {
            // No datagram of a session is longer than a length field can say.
            if let Some(prefix) = framing::prefix(datagram.len()) {
                self.waiting.extend_from_slice(&prefix);
                self.waiting.extend_from_slice(datagram);
            }
        }
        true
    }

    /// Hands waiting datagrams to the kernel until it takes no more.
    pub(super) fn write(&mut self) {
        self.is_full = false;
        self.write_with(&[]);
    }

    /// Hands waiting datagrams and then `framed` to the kernel, in one call if it has room. `framed`
    /// are datagrams with their lengths in front. What the kernel does not take waits here.
    /// Returns false, and breaks the connection, if there is no room for that.
    pub(super) fn send(&mut self, framed: &[u8]) -> bool {
        let left = self.write_with(framed);
        if self.is_broken || self.waiting.len() + left.len() > WAITING_BYTES_MAX {
            self.is_broken = true;
            return false;
        }
        self.waiting.extend_from_slice(left);
        true
    }

    /// Hands waiting datagrams and then `framed` to the kernel until it takes no more. Returns what
    /// is left of `framed`.
    fn write_with<'a>(&mut self, mut framed: &'a [u8]) -> &'a [u8] {
        let mut written = 0;
        while !(self.is_full || self.is_broken) {
            let waiting = &self.waiting[written..];
            let taken = match (waiting.is_empty(), framed.is_empty()) {
                (true, true) => break,
                (true, false) => self.stream.write(framed),
                (false, true) => self.stream.write(waiting),
                (false, false) => {
                    let both = [IoSlice::new(waiting), IoSlice::new(framed)];
                    self.stream.write_vectored(&both)
                }
            };
            match taken {
                Ok(count) if count > 0 => {
                    let of_waiting = count.min(waiting.len());
                    written += of_waiting;
                    framed = &framed[count - of_waiting..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.is_full = true,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Ok(_) | Err(_) => self.is_broken = true,
            }
        }
        self.waiting.drain(..written);
        if self.waiting.is_empty() {
            self.waiting.shrink_to(KEPT_BYTES);
        }
        framed
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use glassline_sim::Rng;

    use super::*;

    fn pair() -> (TcpConnection, std::net::TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let address = listener.local_addr().expect("bound");
        let client = std::net::TcpStream::connect(address).expect("a listener");
        client.set_nonblocking(true).expect("a socket");
        let (server, _) = listener.accept().expect("connected");
        (TcpConnection::new(server, ()).expect("open"), client)
    }

    /// Reads at most `limit` bytes of what has arrived.
    fn read(client: &mut std::net::TcpStream, limit: usize, arrived: &mut Vec<u8>) {
        let mut buffer = vec![0; limit];
        if let Ok(count) = client.read(&mut buffer) {
            arrived.extend_from_slice(&buffer[..count]);
        }
    }

    #[test]
    fn control_and_media_arrive_in_the_order_in_which_they_were_sent() {
        for seed in 0..3 {
            let mut rng = Rng::new(seed);
            let (mut connection, mut client) = pair();
            let (mut sent, mut arrived, mut was_full) = (Vec::new(), Vec::new(), false);
            // The kernel's buffers differ: nothing is read before they are full.
            let mut after_full = 0;
            for number in 0_u32..200_000 {
                let datagram = vec![number as u8; 40 + rng.below(1_100) as usize];
                let prefix = framing::prefix(datagram.len()).expect("short");
                let framed = [&prefix[..], &datagram].concat();
                // As a viewer is served: no media while the connection is full.
                if rng.chance(0.2) && connection.waiting.len() < 500_000 {
                    assert!(connection.queue(&datagram, datagram.len()));
                    sent.extend(framed);
                } else if !connection.is_full() {
                    assert!(connection.send(&framed), "seed {seed}");
                    sent.extend(framed);
                }
                was_full |= connection.is_full();
                if rng.chance(0.1) {
                    connection.write();
                }
                if was_full && rng.chance(0.05) {
                    read(&mut client, 64 << 10, &mut arrived);
                }
                after_full += u32::from(was_full);
                if after_full > 2_000 {
                    break;
                }
            }
            assert!(was_full, "seed {seed}: nothing was tested");
            let end = std::time::Instant::now() + std::time::Duration::from_secs(20);
            while arrived.len() < sent.len() {
                assert!(
                    std::time::Instant::now() < end,
                    "seed {seed}: bytes are missing"
                );
                connection.write();
                read(&mut client, 64 << 10, &mut arrived);
            }
            assert!(arrived == sent, "seed {seed}");
            assert!(!connection.has_waiting() && !connection.is_broken);
        }
    }

    #[test]
    fn a_peer_that_reads_nothing_costs_bounded_memory_and_then_its_connection() {
        let (mut connection, _client) = pair();
        let framed = [7; 1_202];
        let sends = (0..100_000)
            .take_while(|_| connection.send(&framed))
            .count();
        assert!(sends < 100_000 && connection.is_broken && connection.is_full());
        let waits = connection.waiting.len();
        assert!((WAITING_BYTES_MAX - 1_202..=WAITING_BYTES_MAX).contains(&waits));
        assert!(!connection.queue(&framed, framed.len()));
        assert_eq!(connection.waiting.len(), waits);
    }
}
