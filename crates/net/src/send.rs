use std::io;
use std::net::{IpAddr, SocketAddr};

/// Messages handed over in one `sendmmsg`: beyond about 16 the gain is gone,
/// and the arrays live on the stack.
pub(crate) const MESSAGES_MAX: usize = 32;

/// Most segments that one kernel message may have (`UDP_MAX_SEGMENTS` before
/// Linux 6.10; later kernels take 128).
pub const SEGMENTS_MAX: usize = 64;

/// Most bytes of one kernel message with segments: 65,535 less headers, rounded
/// down.
pub const SEGMENTED_BYTES_MAX: usize = 65_000;

/// One or several equal datagrams to one peer.
#[derive(Clone, Copy, Debug)]
pub struct Transmit<'a> {
    /// The datagrams back to back.
    pub contents: &'a [u8],
    /// Bytes of each datagram; the last one may be shorter. 0 means that
    /// `contents` is one datagram.
    pub segment_size: usize,
    /// To whom.
    pub destination: SocketAddr,
    /// From which of our addresses: what [`Datagram::destination`] said when the
    /// peer wrote to a wildcard socket. `None` leaves the choice to the routes.
    ///
    /// [`Datagram::destination`]: crate::Datagram::destination
    pub source: Option<IpAddr>,
}

impl<'a> Transmit<'a> {
    /// One datagram.
    pub const fn new(contents: &'a [u8], destination: SocketAddr) -> Self {
        Self {
            contents,
            segment_size: 0,
            destination,
            source: None,
        }
    }

    /// Cut into datagrams of `segment_size` bytes, the last one maybe shorter.
    #[must_use]
    pub const fn segmented(mut self, segment_size: usize) -> Self {
        self.segment_size = segment_size;
        self
    }

    /// Sent from our address `source`.
    #[must_use]
    pub const fn from(mut self, source: Option<IpAddr>) -> Self {
        self.source = source;
        self
    }
}

/// What the kernel took of a batch, and why it took no more.
#[derive(Debug)]
#[must_use = "what was not accepted is not sent"]
pub struct Sent {
    /// Transmits accepted whole, from the first.
    pub transmits: usize,
    /// Bytes accepted of the transmit after those; whole segments. Zero if all
    /// were accepted whole.
    pub offset: usize,
    /// Bytes accepted altogether.
    pub bytes: usize,
    /// Why transmit number `transmits` stopped the batch; `None` if all were
    /// accepted. The ones behind it were not tried.
    pub stopped: Option<SendError>,
}

/// What a router or a peer answered to a datagram that was sent (ICMP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathError {
    /// Where that datagram went.
    pub destination: SocketAddr,
    /// What was answered.
    pub kind: PathErrorKind,
}

/// What an ICMP message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PathErrorKind {
    /// Nobody listens on the port.
    Refused,
    /// No way leads there, or somebody on the way forbids it.
    Unreachable,
    /// The datagram was larger than the path takes.
    TooLarge,
    /// Anything else.
    Other,
}

/// Why the kernel did not take a datagram.
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
    /// The datagram is larger than the path or UDP allows (`EMSGSIZE`): cut it
    /// smaller.
    #[error("the datagram is too large for the path")]
    TooLarge,
    /// The peer answered an earlier datagram with "port unreachable"
    /// (`ECONNREFUSED`): this one was not sent, the next may be.
    #[error("the peer has closed its port")]
    Refused,
    /// No route to the peer (`ENETUNREACH`, `EHOSTUNREACH`).
    #[error("no route to the peer")]
    Unreachable,
    /// Anything else that the system said.
    #[error("cannot send: {0}")]
    System(io::Error),
}

impl SendError {
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

    /// The same datagram may be accepted a moment later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::WouldBlock | Self::NoBuffers | Self::Refused)
    }
}

/// What goes to the kernel as one message: a datagram, or segments of one size.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Message<'a> {
    pub(crate) contents: &'a [u8],
    /// 0: one datagram.
    pub(crate) segment_size: u16,
    pub(crate) destination: SocketAddr,
    pub(crate) source: Option<IpAddr>,
}

/// A place in a batch: how far the kernel has come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    pub(crate) transmits: &'a [Transmit<'a>],
    pub(crate) index: usize,
    pub(crate) offset: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(transmits: &'a [Transmit<'a>]) -> Self {
        Self {
            transmits,
            index: 0,
            offset: 0,
        }
    }

    /// The next message, with segments only if `offload`; moves past it.
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
