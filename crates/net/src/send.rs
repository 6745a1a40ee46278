use std::io;
use std::net::{IpAddr, SocketAddr};

/// Messages per call of `sendmmsg`: beyond about 16 the gain is gone, and the arrays are on
/// the stack.
pub(crate) const MESSAGES_MAX: usize = 32;

/// Most segments that one kernel message may have (`UDP_MAX_SEGMENTS` before
/// Linux 6.10; later kernels take 128).
pub const SEGMENTS_MAX: usize = 64;

/// Most bytes of one kernel message with segments: 65,535 less headers, rounded down.
pub const SEGMENTED_BYTES_MAX: usize = 65_000;

/// One datagram, or several of equal size, to one peer.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The datagrams back to back.
    pub contents: &'a [u8],
    /// Bytes of each datagram; the last one may be shorter. 0 means that
    /// `contents` is one datagram.
    pub segment_size: usize,
    /// Address of the peer.
    pub destination: SocketAddr,
    /// Our address to send from: the value of [`Datagram::destination`] when the peer sent
    /// to a wildcard socket. `None` leaves the choice to the routes.
    ///
    /// [`Datagram::destination`]: crate::Datagram::destination
    pub source: Option<IpAddr>,
}

impl<'a> Transmit<'a> {
    /// Returns a single datagram.
    pub const fn new(contents: &'a [u8], destination: SocketAddr) -> Self {
        Self {
            contents,
            segment_size: 0,
            destination,
            source: None,
        }
    }

    /// Splits the contents into datagrams of `segment_size` bytes, the last one perhaps
    /// shorter.
    #[must_use]
    pub const fn segmented(mut self, segment_size: usize) -> Self {
        self.segment_size = segment_size;
        self
    }

    /// Sets our address to send from.
    #[must_use]
    pub const fn from(mut self, source: Option<IpAddr>) -> Self {
        self.source = source;
        self
    }
}

/// The part of a batch that the kernel accepted, and the reason why it stopped.
#[derive(Debug)]
#[must_use = "what was not accepted is not sent"]
pub struct Sent {
    /// Number of transmits that were accepted whole, from the first.
    pub transmits: usize,
    /// Bytes accepted of the transmit after those, in whole segments. Zero if all were
    /// accepted whole.
    pub offset: usize,
    /// Bytes accepted in total.
    pub bytes: usize,
    /// The reason why transmit number `transmits` stopped the batch; `None` if all were accepted. Those
    /// behind it were not tried.
    pub stopped: Option<SendError>,
}

/// An error that a router or a peer reported about a datagram (ICMP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Destination of that datagram.
    pub destination: SocketAddr,
    /// Kind of the error.
    pub kind: PathErrorKind,
}

/// Kind of an error that ICMP reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// No socket listens on the port.
    Refused,
    /// There is no route to the destination, or a filter forbids it.
    Unreachable,
    /// The datagram was larger than the path allows.
    TooLarge,
    /// Any other error that ICMP reported.
    Other,
}

/// The reason why the kernel did not accept a datagram.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The socket's send buffer is full (`EAGAIN`): wait until it is writable.
    #[error("the socket's send buffer is full")]
    WouldBlock,
    /// The interface's queue is full (`ENOBUFS`): drop or try later; the
    /// socket counts as writable.
    #[error("the network interface's queue is full")]
    NoBuffers,
    /// The datagram is larger than the path or UDP allows (`EMSGSIZE`): send smaller ones.
    #[error("the datagram is too large for the path")]
    TooLarge,
    /// The peer answered an earlier datagram with "port unreachable"
    /// (`ECONNREFUSED`): this one was not sent, the next may be.
    #[error("the peer has closed its port")]
    Refused,
    /// There is no route to the peer (`ENETUNREACH`, `EHOSTUNREACH`).
    #[error("no route to the peer")]
    Unreachable,
    /// Any other error of the system.
    #[error("cannot send: {0}")]
    System(io::Error),
}

impl SendError {
    /// Classifies the system's error.
    pub(crate) fn new(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        if crate::sys::is_no_buffers(&error) {
            return Self::NoBuffers;
        }
        if crate::sys::is_too_large(&error) {
            return Self::TooLarge;
        }
        match error.kind() {
            Kind::WouldBlock => Self::WouldBlock,
            Kind::ConnectionRefused => Self::Refused,
            Kind::NetworkUnreachable | Kind::HostUnreachable => Self::Unreachable,
            _ => Self::System(error),
        }
    }

    /// Whether the same datagram may be accepted a moment later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::WouldBlock | Self::NoBuffers | Self::Refused)
    }
}

/// One message to the kernel: a datagram, or segments of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    /// The datagrams back to back.
    pub(crate) contents: &'a [u8],
    /// Bytes of each datagram; 0 for a single one.
    pub(crate) segment_size: u16,
    /// Address of the peer.
    pub(crate) destination: SocketAddr,
    /// Our address to send from.
    pub(crate) source: Option<IpAddr>,
}

/// Position in a batch: how much of it the kernel has accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    /// Transmits of the batch.
    pub(crate) transmits: &'a [Transmit<'a>],
    /// Index of the next transmit.
    pub(crate) index: usize,
    /// Bytes of the next transmit that were accepted.
    pub(crate) offset: usize,
}

impl<'a> Cursor<'a> {
    /// Returns the beginning of a batch.
    pub(crate) const fn new(transmits: &'a [Transmit<'a>]) -> Self {
        Self {
            transmits,
            index: 0,
            offset: 0,
        }
    }

    /// Returns the next message, with segments only if `offload` is set, and moves past it.
    pub(crate) fn advance(&mut self, offload: bool) -> Option<Message<'a>> {
        let transmit = self.transmits.get(self.index)?;
        let rest = &transmit.contents[self.offset..];
        let segment = match transmit.segment_size {
            0 => rest.len(),
            size => size,
        };
        let limit = if offload && segment > 0 {
            let segments = (SEGMENTED_BYTES_MAX / segment).clamp(1, SEGMENTS_MAX);
            segments * segment
        } else {
            segment
        };
        let contents = &rest[..limit.min(rest.len())];
        self.offset += contents.len();
        if self.offset >= transmit.contents.len() {
            self.index += 1;
            self.offset = 0;
        }
        let segment_size = if contents.len() > segment {
            u16::try_from(segment).expect("several segments fit into 65,000 bytes")
        } else {
            0
        };
        Some(Message {
            contents,
            segment_size,
            destination: transmit.destination,
            source: transmit.source,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(contents: &[u8], segment: usize, offload: bool) -> Vec<(usize, u16)> {
        let to = SocketAddr::from(([127, 0, 0, 1], 9));
        let transmits = [
            Transmit::new(contents, to).segmented(segment),
            Transmit::new(b"tail", to),
        ];
        let mut cursor = Cursor::new(&transmits);
        let mut all = Vec::new();
        while let Some(message) = cursor.advance(offload) {
            all.push((message.contents.len(), message.segment_size));
        }
        assert_eq!(all.pop(), Some((4, 0)));
        all
    }

    #[test]
    fn a_transmit_is_cut_at_the_kernels_limits() {
        let contents = vec![0; 100 * 1200 + 7];
        assert_eq!(
            sizes(&contents, 1200, true),
            [(54 * 1200, 1200), (46 * 1200 + 7, 1200)]
        );
        assert_eq!(sizes(&contents[..1300], 10, true).len(), 3);
        assert_eq!(sizes(&contents[..1200], 1200, true), [(1200, 0)]);
    }

    #[test]
    fn without_offload_each_segment_is_a_message() {
        assert_eq!(sizes(&[0; 25], 10, false), [(10, 0), (10, 0), (5, 0)]);
        assert_eq!(sizes(&[0; 25], 0, false), [(25, 0)]);
        assert_eq!(sizes(&[], 10, true), [(0, 0)]);
    }
}
