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
/// Bound to `[::]` it serves IPv4 too, and returns and accepts IPv4 addresses as such. Wait
/// for it by its descriptor: `mio::unix::SourceFd(&socket.as_raw_fd())`.
///
/// ```
/// use std::net::{Ipv4Addr, SocketAddr};
///
/// use glassline_net::{Options, ReceiveBatch, UdpSocket};
///
/// let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
/// let receiver = UdpSocket::bind(loopback, &Options::default())?;
/// let sender = UdpSocket::bind(loopback, &Options::default())?;
///
/// // Three datagrams of 2, 2 and 1 bytes, in one system call.
/// let sent = sender.send_segmented(b"aabbc", 2, receiver.local_addr());
/// assert_eq!(sent.bytes, 5);
///
/// let mut batch = ReceiveBatch::default();
/// let mut received = Vec::new();
/// while received.len() < 3 {
///     receiver.receive_batch(&mut batch)?;
///     received.extend(batch.iter_mut().map(|datagram| datagram.bytes.to_vec()));
/// }
/// assert_eq!(received, [b"aa".to_vec(), b"bb".to_vec(), b"c".to_vec()]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct UdpSocket {
    /// Socket of the operating system.
    socket: StdSocket,
    /// Address that the socket is bound to.
    local: SocketAddr,
    /// Whether segmentation offload is used.
    offload: AtomicBool,
    /// Whether the kernel keeps error answers of the network.
    path_errors: bool,
}

impl UdpSocket {
    /// Opens a socket and binds it; port 0 takes a free one.
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

    /// Returns the address that the socket is bound to, with the port that was chosen.
    pub const fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Returns the socket of the operating system, which keeps its options, for callers that wait for
    /// it with a runtime of their own.
    pub fn into_std(self) -> StdSocket {
        self.socket
    }

    /// Returns the size of the receive buffer in bytes. Linux includes its own overhead and
    /// reports twice what was requested.
    pub fn receive_buffer_bytes(&self) -> io::Result<usize> {
        sys::receive_buffer(&self.socket)
    }

    /// Returns the size of the send buffer in bytes, counted like
    /// [`receive_buffer_bytes`](Self::receive_buffer_bytes).
    pub fn send_buffer_bytes(&self) -> io::Result<usize> {
        sys::send_buffer(&self.socket)
    }

    /// Receives the datagrams that wait, up to the batch's capacity, and returns their
    /// number: 0 if none waits. Fewer than the capacity mean that no more waited, or that
    /// the next call will return an error.
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

    /// Returns an error that the network reported about an earlier datagram, if there is
    /// one and [`Options::path_errors`] is set. Polling reports such errors as an error of
    /// the socket. To be called until `None`: errors that wait take room in the receive
    /// buffer.
    pub fn take_path_error(&self) -> Option<PathError> {
        if !self.path_errors {
            return None;
        }
        loop {
            match sys::take_error(&self.socket) {
                Ok(Some(error)) => return Some(error),
                // One of this machine's own errors, which `send_batch` has returned
                // already.
                Ok(None) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    /// Sends one datagram to one peer.
    pub fn send(&self, contents: &[u8], to: SocketAddr) -> Result<(), SendError> {
        let sent = self.send_batch(&[Transmit::new(contents, to)]);
        sent.stopped.map_or(Ok(()), Err)
    }

    /// Sends `contents` as any number of datagrams of `segment_size` bytes, the last one
    /// perhaps shorter. Without offload they are sent one by one in `sendmmsg`.
    pub fn send_segmented(&self, contents: &[u8], segment_size: usize, to: SocketAddr) -> Sent {
        self.send_batch(&[Transmit::new(contents, to).segmented(segment_size)])
    }

    /// Sends a batch in order, with segments or not, to any peers: one system call per 32
    /// messages. It stops at the first that the kernel does not accept; the caller decides
    /// whether to continue behind it.
    pub fn send_batch(&self, transmits: &[Transmit<'_>]) -> Sent {
        let mut offload = self.offload.load(Ordering::Relaxed);
        // Index of the transmit whose path supports no segments; those behind it may have
        // other destinations.
        let mut refused = None;
        let mut done = Cursor::new(transmits);
        let mut bytes = 0;
        // An error answer to an earlier datagram, perhaps of another peer, fails the next
        // call once.
        let mut is_reported = !self.path_errors;
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
                    is_reported = !self.path_errors;
                    for _ in 0..accepted {
                        let message = done.advance(segmented(&done));
                        bytes += message.map_or(0, |message| message.contents.len());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if !is_reported && sys::may_be_of_another(&error) => is_reported = true,
                Err(error) if first.segment_size > 0 && sys::is_offload_refused(&error) => {
                    // EIO: this route's interface computes no checksums, so it will refuse
                    // the next time too. EINVAL and EMSGSIZE may be about this one path's
                    // MTU: send without segments, this time.
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

/// Whether `socket` sends many datagrams as one message to the kernel. Determined once by a
/// test on loopback; becomes false when an interface refuses.
pub fn gso_supported(socket: &UdpSocket) -> bool {
    socket.offload.load(Ordering::Relaxed)
}

/// Sends three segments over loopback in one message and checks whether three datagrams
/// come out: some kernels and sandboxes accept the option and ignore it.
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
