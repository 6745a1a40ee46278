use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// Bytes of the largest datagram that a batch keeps whole; real-time media
/// stays below 1500.
pub const DATAGRAM_BYTES_MAX: usize = 2048;

/// The most that the kernel coalesces.
const COALESCED_BYTES_MAX: usize = 65_536;

/// Buffers for [`UdpSocket::receive_batch`], allocated once.
///
/// [`UdpSocket::receive_batch`]: crate::UdpSocket::receive_batch
#[derive(Debug)]
pub struct ReceiveBatch {
    pub(crate) bytes: Box<[u8]>,
    pub(crate) slots: Box<[Slot]>,
    /// Bytes of each buffer.
    pub(crate) buffer_bytes: usize,
    pub(crate) filled: usize,
}

/// What the kernel said about one buffer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slot {
    pub(crate) len: usize,
    pub(crate) source: SocketAddr,
    pub(crate) destination: Option<IpAddr>,
    pub(crate) truncated: bool,
    pub(crate) arrived: Option<Duration>,
    pub(crate) segment: Option<u16>,
}

impl Slot {
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
    /// Its bytes, to be decrypted in place.
    pub bytes: &'a mut [u8],
    /// Who sent it; an IPv4 peer of a dual-stack socket is an IPv4 address.
    pub source: SocketAddr,
    /// Which of our addresses it was sent to, if the socket is bound to a
    /// wildcard address; `None` if bound to one.
    pub destination: Option<IpAddr>,
    /// It was longer than the batch's buffers and its end is lost.
    pub truncated: bool,
    /// With [`Options::coalescing`](crate::Options::coalescing): these are several
    /// datagrams back to back, each of so many bytes, the last maybe shorter.
    pub segment: Option<u16>,
    /// When the kernel had it, on the wall clock since 1970; only with
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

    /// Room for `capacity` datagrams a call, 1..=[`Self::CAPACITY_MAX`];
    /// other values are brought into the range.
    pub fn new(capacity: usize) -> Self {
        Self::with_buffers(capacity, DATAGRAM_BYTES_MAX)
    }

    /// Like [`new`](Self::new) with room for what a socket that coalesces hands over.
    pub fn for_coalescing(capacity: usize) -> Self {
        Self::with_buffers(capacity, COALESCED_BYTES_MAX)
    }

    fn with_buffers(capacity: usize, buffer_bytes: usize) -> Self {
        let capacity = capacity.clamp(1, Self::CAPACITY_MAX);
        Self {
            bytes: vec![0; capacity * buffer_bytes].into(),
            slots: vec![Slot::EMPTY; capacity].into(),
            buffer_bytes,
            filled: 0,
        }
    }

    /// Datagrams of the last receive.
    pub const fn len(&self) -> usize {
        self.filled
    }

    /// The last receive found nothing.
    pub const fn is_empty(&self) -> bool {
        self.filled == 0
    }

    /// Datagrams that one receive can bring.
    pub const fn capacity(&self) -> usize {
        self.slots.len()
    }

    /// Datagram `index` of the last receive.
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

    /// All datagrams of the last receive, in order of arrival.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = Datagram<'_>> {
        self.bytes
            .chunks_exact_mut(self.buffer_bytes)
            .zip(&self.slots)
            .take(self.filled)
            .map(|(bytes, slot)| datagram(bytes, slot))
    }
}

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
