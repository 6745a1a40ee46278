use std::io;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket as StdSocket};
#[cfg(unix)]
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::options::Options;
use crate::send::{Cursor, Message};
use crate::{BindError, PathError, ReceiveBatch, SendError, Sent, Transmit, sys};

/// A non-blocking, unconnected UDP socket.
///
/// Bound to `[::]` it serves IPv4 too, and shows and takes IPv4 addresses as
/// such. Wait for it with the descriptor: `mio::unix::SourceFd(&socket.as_raw_fd())`.
#[derive(Debug)]
pub struct UdpSocket {
    socket: StdSocket,
    local: SocketAddr,
    offload: AtomicBool,
    path_errors: bool,
}

impl UdpSocket {
    /// Opens and binds; port 0 takes a free one.
    pub fn bind(address: SocketAddr, options: &Options) -> Result<Self, BindError> {
        let open = || {
            let socket = sys::bind(address, options)?;
            let local = socket.local_addr()?;
            Ok((socket, local))
        };
        let (socket, local) = open().map_err(|error| BindError::new(address, error))?;
        Ok(Self {
            socket,
            local,
            offload: AtomicBool::new(options.segmentation && offload_works()),
            path_errors: options.path_errors,
        })
    }

    /// Where it is bound, with the port that was chosen.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Bytes of receive buffer granted. Linux counts its own overhead too and
    /// reports twice what was asked for.
    pub fn receive_buffer_bytes(&self) -> io::Result<usize> {
        sys::receive_buffer(&self.socket)
    }

    /// Bytes of send buffer granted, counted as
    /// [`receive_buffer_bytes`](Self::receive_buffer_bytes).
    pub fn send_buffer_bytes(&self) -> io::Result<usize> {
        sys::send_buffer(&self.socket)
    }

    /// Takes the datagrams that wait, up to the batch's capacity, and returns
    /// their number: 0 if none waits. Fewer than the capacity means that no more
    /// waited then, or that the next call will say what went wrong.
    pub fn receive_batch(&self, batch: &mut ReceiveBatch) -> io::Result<usize> {
        batch.filled = 0;
        loop {
            match sys::receive(&self.socket, batch) {
                Ok(filled) => {
                    batch.filled = filled;
                    return Ok(filled);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What the network said of an earlier datagram, if it said something and the
    /// socket was opened to hear it. Poll tells of it as an error of the socket.
    /// Read until `None`: what waits takes room in the receive buffer.
    pub fn take_path_error(&self) -> Option<PathError> {
        if !self.path_errors {
            return None;
        }
        loop {
            match sys::take_error(&self.socket) {
                Ok(Some(error)) => return Some(error),
                // One of our own that `send_batch` has told already.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends one datagram.
    pub fn send(&self, contents: &[u8], to: SocketAddr) -> Result<(), SendError> {
        let sent = self.send_batch(&[Transmit::new(contents, to)]);
        sent.stopped.map_or(Ok(()), Err)
    }

    /// Sends `contents` as datagrams of `segment_size` bytes, the last one maybe
    /// shorter; any number of them. Without offload they go one by one in
    /// `sendmmsg`.
    pub fn send_segmented(&self, contents: &[u8], segment_size: usize, to: SocketAddr) -> Sent {
        self.send_batch(&[Transmit::new(contents, to).segmented(segment_size)])
    }

    /// Sends a batch in order, with segments or not, to any peers: one system
    /// call per 32 messages. Stops at the first that the kernel does not take;
    /// whether to go on behind it is the caller's choice.
    pub fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent {
        let mut offload = self.offload.load(Ordering::Relaxed);
        // The transmit whose path takes no segments; those behind it may go
        // elsewhere.
        let mut refused = None;
        let mut done = Cursor::new(transmits);
        let mut bytes = 0;
        // An answer to an earlier datagram, perhaps another peer's, fails the next
        // call that comes along, once.
        let mut told = !self.path_errors;
        let stopped = loop {
            let segmented = |cursor: &Cursor<'_>| offload && refused != Some(cursor.index);
            let mut ahead = done;
            let Some(first) = ahead.advance(segmented(&done)) else {
                break None;
            };
            ahead = done;
            let messages = std::iter::from_fn(|| ahead.advance(segmented(&ahead)));
            match sys::send(&self.socket, self.local.is_ipv6(), messages) {
                Ok(accepted) => {
                    told = !self.path_errors;
                    for _ in 0..accepted {
                        let message = done.advance(segmented(&done));
                        bytes += message.map_or(0, |message| message.contents.len());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if !told && sys::may_be_of_another(&error) => told = true,
                Err(error) if first.segment_size > 0 && sys::is_offload_refused(&error) => {
                    // EIO: this route's interface computes no checksums, so it
                    // will refuse the next time too. EINVAL and EMSGSIZE may be
                    // about this one path's MTU: go without, this time.
                    if sys::is_offload_absent(&error) {
                        self.offload.store(false, Ordering::Relaxed);
                        offload = false;
                    }
                    refused = Some(done.index);
                }
                Err(error) => break Some(SendError::new(error)),
            }
        };
        Sent {
            transmits: done.index,
            offset: done.offset,
            bytes,
            stopped,
        }
    }
}

#[cfg(unix)]
impl AsFd for UdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(unix)]
impl AsRawFd for UdpSocket {
    fn as_raw_fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }
}

/// Whether `socket` sends many datagrams as one message to the kernel. Known by
/// doing it on loopback once; becomes false when an interface refuses.
pub fn gso_supported(socket: &UdpSocket) -> bool {
    socket.offload.load(Ordering::Relaxed)
}

/// Sends three segments over loopback in one message and looks whether three
/// datagrams come out: kernels and sandboxes exist that take the option and
/// ignore it.
fn offload_works() -> bool {
    static WORKS: OnceLock<bool> = OnceLock::new();
    fn attempt() -> io::Result<bool> {
        let receiver = StdSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        receiver.set_read_timeout(Some(Duration::from_millis(200)))?;
        let sender = StdSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let message = Message {
            contents: b"aabbc",
            segment_size: 2,
            destination: receiver.local_addr()?,
            source: None,
        };
        sys::send(&sender, false, [message])?;
        for expected in [b"aa".as_slice(), b"bb", b"c"] {
            let mut buffer = [0; 8];
            let len = receiver.recv(&mut buffer)?;
            if &buffer[..len] != expected {
                return Ok(false);
            }
        }
        Ok(true)
    }
    *WORKS.get_or_init(|| attempt().unwrap_or(false))
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
