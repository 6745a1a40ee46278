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
pub(crate) struct TcpConnection {
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
    pub(crate) fn new(
        stream: std::net::TcpStream,
        place: impl Any + Send,
    ) -> io::Result<TcpConnection> {
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
    pub(crate) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Returns the server's address that the peer connected to.
    pub(crate) const fn local(&self) -> SocketAddr {
        self.local
    }

    /// Returns whether the kernel has no room for more.
    pub(crate) const fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns whether datagrams wait for [`write`](Self::write).
    pub(super) const fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Returns the reader of the connection's frames, until the reader is put back.
    pub(crate) fn take_reader(&mut self) -> FrameReader {
        std::mem::take(&mut self.reader)
    }

    /// Puts back the reader of the connection's frames.
    pub(crate) fn put_reader(&mut self, reader: FrameReader) {
        self.reader = reader;
    }

    /// Reads the bytes that have arrived, up to the size of `buffer`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if nothing has arrived; any other error ends the connection.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
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
