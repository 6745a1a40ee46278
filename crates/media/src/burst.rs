use std::ops::Range;

use bytes::Bytes;

use crate::{MediaTime, Stamps};

/// The largest RTP payload that ingest cuts, in bytes.
///
/// A datagram may have 1200 bytes: 12 of RTP header, up to 20 of header
/// extensions, 2 of RTX's original sequence number and 16 of AEAD tag leave 1150.
pub const PAYLOAD_BYTES_MAX: usize = 1150;

/// More padding than this is not worth its bytes.
const PADDING_BYTES_MAX: u8 = 16;

/// The packets of one access unit that belong together: the hub's grain.
///
/// Packetised once per stream, shared by every egress. `data` holds the RTP
/// payloads back to back; nothing of a viewer (SSRC, sequence number, key) is
/// in it. Immutable once published; pass it as `Arc<Burst>`.
#[derive(Clone, Debug)]
pub struct Burst {
    /// Which track of the stream, an index into the stream's tracks.
    pub track: usize,
    /// Number of this burst on its track, rising by one.
    pub index: u64,
    /// Number of the first packet on its track; packets rise by one without gaps.
    pub first_packet: u64,
    /// When the access unit is presented, on the stream's timeline.
    pub time: MediaTime,
    /// A decoder can start here (H.264: IDR with its parameter sets). Always true for sound.
    pub keyframe: bool,
    /// This burst begins its access unit.
    pub first: bool,
    /// This burst ends its access unit: its last packet carries the RTP marker.
    pub last: bool,
    /// Packets of the source that were lost just before this burst, where packets are
    /// forwarded as they come: who numbers them leaves out as many numbers.
    pub gap: u16,
    /// The RTP timestamp that it came under, where packets are forwarded as they come:
    /// they go on under it, so that what both ends of a voice note of a packet can be
    /// put together.
    pub timestamp: Option<u32>,
    /// Where the milliseconds went so far.
    pub stamps: Stamps,
    data: Bytes,
    ends: Box<[u32]>,
}

impl Burst {
    /// Number of packets, at least one.
    pub fn packet_count(&self) -> usize {
        self.ends.len()
    }

    /// Payload bytes in all packets.
    pub fn payload_bytes(&self) -> usize {
        self.data.len()
    }

    /// Bytes that keeping this burst costs.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.data.len() + self.ends.len() * size_of::<u32>()
    }

    /// The RTP payload of packet `index` within this burst; `None` past the last.
    pub fn payload(&self, index: usize) -> Option<&[u8]> {
        let range = self.range(index)?;
        self.data.get(range)
    }

    /// All RTP payloads in order.
    pub fn payloads(&self) -> Packets<'_> {
        Packets {
            burst: self,
            next: 0,
        }
    }

    /// True for the packet that carries the RTP marker of a video access unit.
    pub fn marker(&self, index: usize) -> bool {
        self.last && index + 1 == self.ends.len()
    }

    /// Bytes of RTP padding (RFC 3550 §5.1) that make packet `index` as long as
    /// the one before it: 0 unless it is the burst's last and misses by at most
    /// 16. Fragments of a picture are cut equal but for a remainder; without that
    /// a shorter datagram can follow in the same segmented send.
    pub fn padding(&self, index: usize) -> u8 {
        if index == 0 || index + 1 != self.ends.len() {
            return 0;
        }
        let len = |index| self.range(index).map_or(0, |range| range.len());
        let missing = len(index - 1).saturating_sub(len(index));
        u8::try_from(missing)
            .ok()
            .filter(|missing| *missing <= PADDING_BYTES_MAX)
            .unwrap_or(0)
    }

    fn range(&self, index: usize) -> Option<Range<usize>> {
        let end = *self.ends.get(index)? as usize;
        let start = if index == 0 {
            0
        } else {
            self.ends[index - 1] as usize
        };
        Some(start..end)
    }
}

/// Iterator over the payloads of a [`Burst`].
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    burst: &'a Burst,
    next: usize,
}

impl<'a> Iterator for Packets<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let payload = self.burst.payload(self.next)?;
        self.next += 1;
        Some(payload)
    }
}

/// Collects the payloads of a burst into one contiguous buffer.
///
/// A payload format appends bytes with [`push`](Self::push) or
/// [`extend`](Self::extend) + [`end_packet`](Self::end_packet).
#[derive(Debug, Default)]
pub struct BurstBuilder {
    data: Vec<u8>,
    ends: Vec<u32>,
}

impl BurstBuilder {
    /// An empty builder with room for `bytes` of payload.
    pub fn with_capacity(bytes: usize) -> Self {
        Self {
            data: Vec::with_capacity(bytes),
            ends: Vec::with_capacity(bytes / 1000 + 2),
        }
    }

    /// Appends one whole packet payload.
    pub fn push(&mut self, payload: &[u8]) {
        self.extend(payload);
        self.end_packet();
    }

    /// Appends bytes to the packet under construction.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.data.extend_from_slice(bytes);
    }

    /// Ends the packet under construction; an empty one is not counted.
    pub fn end_packet(&mut self) {
        let end = u32::try_from(self.data.len()).expect("a burst stays far below 4 GiB");
        if end > self.ends.last().copied().unwrap_or(0) {
            self.ends.push(end);
        }
    }

    /// Packets ended so far.
    pub fn packet_count(&self) -> usize {
        self.ends.len()
    }

    /// Nothing was appended yet.
    pub fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// Sizes of the packets ended so far, in bytes.
    pub fn sizes(&self) -> impl Iterator<Item = usize> + '_ {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(self.ends.iter().copied())
            .map(|(start, end)| (end - start) as usize)
    }

    /// The finished burst, `None` if it has no packet.
    ///
    /// `index` and `first_packet` are zero until the hub numbers it.
    pub fn build(
        mut self,
        track: usize,
        time: MediaTime,
        keyframe: bool,
        stamps: Stamps,
    ) -> Option<Burst> {
        self.end_packet();
        if self.ends.is_empty() {
            return None;
        }
        Some(Burst {
            track,
            index: 0,
            first_packet: 0,
            time,
            keyframe,
            first: true,
            last: true,
            gap: 0,
            timestamp: None,
            stamps,
            data: Bytes::from(self.data),
            ends: self.ends.into_boxed_slice(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn stamps() -> Stamps {
        Stamps::arrived(Instant::now())
    }

    #[test]
    fn the_last_packet_of_a_burst_is_padded_if_it_misses_by_little() {
        let padding = |sizes: &[usize]| {
            let mut builder = BurstBuilder::default();
            for size in sizes {
                builder.push(&vec![7; *size]);
            }
            let burst = builder.build(0, MediaTime::ZERO, false, stamps());
            let burst = burst.expect("packets");
            (0..sizes.len())
                .map(|index| burst.padding(index))
                .collect::<Vec<_>>()
        };
        assert_eq!(padding(&[1000, 1000, 993]), [0, 0, 7]);
        assert_eq!(padding(&[1000, 1000]), [0, 0]);
        assert_eq!(padding(&[1000, 984]), [0, 16]);
        assert_eq!(padding(&[1000, 983]), [0, 0], "too much");
        assert_eq!(padding(&[500]), [0]);
        assert_eq!(padding(&[500, 1000]), [0, 0], "it is the longer one");
    }

    #[test]
    fn payloads_come_back_as_pushed() {
        let mut builder = BurstBuilder::with_capacity(16);
        builder.push(b"one");
        builder.extend(b"tw");
        builder.extend(b"o");
        builder.end_packet();
        builder.push(b"");
        assert_eq!(builder.sizes().collect::<Vec<_>>(), [3, 3]);
        let burst = builder
            .build(0, MediaTime::ZERO, true, stamps())
            .expect("two packets");
        assert_eq!(
            burst.payloads().collect::<Vec<_>>(),
            [b"one".as_slice(), b"two"]
        );
        assert!(!burst.marker(0) && burst.marker(1));
        assert_eq!(burst.payload(2), None);
    }

    #[test]
    fn an_empty_burst_is_none() {
        assert!(
            BurstBuilder::default()
                .build(0, MediaTime::ZERO, true, stamps())
                .is_none()
        );
    }
}
