use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Size in bytes of the largest datagram that a batch receives whole; real-time media stays
/// below 1500.
pub const DATAGRAM_BYTES_MAX: usize = 2048;

/// Most bytes that the kernel coalesces.
const COALESCED_BYTES_MAX: usize = 65_536;

/// Buffers for [`UdpSocket::receive_batch`], allocated once.
///
/// [`UdpSocket::receive_batch`]: crate::UdpSocket::receive_batch
#[derive(Debug)]
pub struct ReceiveBatch {
    /// The buffers, back to back.
    pub(crate) bytes: Box<[u8]>,
    /// The answers of the kernel about each buffer.
    pub(crate) slots: Box<[Slot]>,
    /// Size of each buffer, in bytes.
    pub(crate) buffer_bytes: usize,
    /// Buffers that the last receive filled.
    pub(crate) filled: usize,
}

/// The answer of the kernel about one buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    /// Bytes in the buffer.
    pub(crate) len: usize,
    /// Address of the sender.
    pub(crate) source: SocketAddr,
    /// Our address that the datagram was sent to, if the socket is bound to a wildcard
    /// address.
    pub(crate) destination: Option<IpAddr>,
    /// Whether the datagram was longer than the buffer.
    pub(crate) truncated: bool,
    /// When the kernel received the datagram, as time since 1970.
    pub(crate) arrived: Option<Duration>,
    /// Size of coalesced datagrams, in bytes.
    pub(crate) segment: Option<u16>,
}

impl Slot {
    /// A buffer that holds nothing.
    pub(crate) const EMPTY: Self = Self {
        len: 0,
        source: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
        destination: None,
        truncated: false,
        arrived: None,
        segment: None,
    };
}

/// One received datagram, in place in its batch.
#[derive(Debug)]
pub struct Datagram<'a> {
    /// The payload, to be decrypted in place.
    pub bytes: &'a mut [u8],
    /// Address of the sender; for an IPv4 peer of a dual-stack socket, an IPv4 address.
    pub source: SocketAddr,
    /// Our address that the datagram was sent to, if the socket is bound to a wildcard
    /// address; otherwise `None`.
    pub destination: Option<IpAddr>,
    /// Whether the datagram was longer than the batch's buffers, so that its end is lost.
    pub truncated: bool,
    /// With [`Options::coalescing`](crate::Options::coalescing): the payload is several
    /// datagrams back to back, each of so many bytes, the last one perhaps shorter.
    pub segment: Option<u16>,
    /// When the kernel received the datagram, on the wall clock since 1970; only with
    /// [`Options::receive_timestamps`](crate::Options::receive_timestamps).
    pub arrived: Option<Duration>,
}

impl Default for ReceiveBatch {
    fn default() -> Self {
        Self::new(32)
    }
}

impl ReceiveBatch {
    /// Most datagrams of one batch.
    pub const CAPACITY_MAX: usize = 64;

    /// Returns a batch for `capacity` datagrams per call, 1..=[`Self::CAPACITY_MAX`]; other
    /// values are clamped to the range.
    pub fn new(capacity: usize) -> Self {
        Self::with_buffers(capacity, DATAGRAM_BYTES_MAX)
    }

    /// Returns a batch like [`new`](Self::new), with buffers for what a coalescing socket
    /// returns.
    pub fn for_coalescing(capacity: usize) -> Self {
        Self::with_buffers(capacity, COALESCED_BYTES_MAX)
    }

    /// Returns a batch with buffers of this size.
    fn with_buffers(capacity: usize, buffer_bytes: usize) -> Self {
        let capacity = capacity.clamp(1, Self::CAPACITY_MAX);
        Self {
            bytes: vec![0; capacity * buffer_bytes].into(),
            slots: vec![Slot::EMPTY; capacity].into(),
            buffer_bytes,
            filled: 0,
        }
    }

    /// Returns the number of datagrams of the last receive.
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// Whether the last receive found no datagram.
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Returns the number of datagrams that one receive can return.
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Returns datagram `index` of the last receive.
    ///
    /// # Panics
    /// If `index` is not below [`Self::len`].
    pub fn datagram(&mut self, index: usize) -> Datagram<'_> {
        assert!(index < self.filled, "{index} of {} datagrams", self.filled);
        let start = index * self.buffer_bytes;
        datagram(
            &mut self.bytes[start..][..self.buffer_bytes],
            &self.slots[index],
        )
    }

    /// Iterates over the datagrams of the last receive, in the order of arrival.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        self.bytes
            .chunks_exact_mut(self.buffer_bytes)
            .zip(&self.slots)
            .take(self.filled)
            .map(|(bytes, slot)| datagram(bytes, slot))
    }
}

/// Returns the datagram in a buffer.
fn datagram<'a>(bytes: &'a mut [u8], slot: &Slot) -> Datagram<'a> {
    Datagram {
        bytes: &mut bytes[..slot.len],
        source: slot.source,
        destination: slot.destination,
        truncated: slot.truncated,
        arrived: slot.arrived,
        segment: slot.segment,
    }
}
