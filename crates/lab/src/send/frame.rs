use std::sync::Arc;

use super::Shape;
use super::system_calls::Shared;

/// A source of frames as a hub has them: packets, which are framed at the first request.
pub(super) struct FrameSource {
    shape: Shape,
    number: u32,
    /// Packets back to back, without framing.
    packets: Vec<u8>,
    framing: [u8; FRAMING_BYTES],
    framed: Option<Shared>,
    /// Earlier frames. Their memory is used again when no connection holds them.
    pool: Vec<Shared>,
    /// Number of bytes that were copied for framing.
    pub(super) copied_bytes: u64,
}

/// Bytes of framing in front of a packet: `$`, channel, length (RFC 2326 §10.12).
pub(super) const FRAMING_BYTES: usize = 4;

/// Offset of the frame's number in the first packet, where the RTP timestamp is. The number is
/// repeated in the last [`NUMBER_BYTES`].
pub(super) const NUMBER_OFFSET: usize = FRAMING_BYTES + 4;

/// Bytes of the frame's number at the end of the last packet.
pub(super) const NUMBER_BYTES: usize = 4;

/// Most frames whose memory is kept; more frames in flight are allocated anew.
const POOL_MAX: usize = 64;

impl FrameSource {
    pub(super) fn new(shape: Shape) -> Self {
        let packet = shape.packet_bytes - FRAMING_BYTES;
        let length = u16::try_from(packet).unwrap_or(u16::MAX).to_be_bytes();
        let mut packets = vec![0xa5; shape.packets * packet];
        for start in packets.chunks_exact_mut(packet) {
            start[..2].copy_from_slice(&[0x80, 96]);
        }
        Self {
            shape,
            number: 0,
            packets,
            framing: [b'$', 0, length[0], length[1]],
            framed: None,
            pool: Vec::new(),
            copied_bytes: 0,
        }
    }

    /// Makes frame `number` the current one.
    pub(super) fn renew(&mut self, number: u32) {
        self.number = number;
        let bytes = number.to_be_bytes();
        let first = NUMBER_OFFSET - FRAMING_BYTES;
        let last = self.packets.len() - NUMBER_BYTES;
        self.packets[first..][..NUMBER_BYTES].copy_from_slice(&bytes);
        self.packets[last..].copy_from_slice(&bytes);
        if let Some(framed) = self.framed.take()
            && self.pool.len() < POOL_MAX
        {
            self.pool.push(framed);
        }
    }

    pub(super) const fn number(&self) -> u32 {
        self.number
    }

    pub(super) const fn framing(&self) -> &[u8; FRAMING_BYTES] {
        &self.framing
    }

    /// Packets of the frame, without framing.
    pub(super) fn packets(&self) -> impl Iterator<Item = &[u8]> {
        self.packets
            .chunks_exact(self.shape.packet_bytes - FRAMING_BYTES)
    }

    /// The frame as it is sent on a connection.
    pub(super) fn framed(&mut self) -> Shared {
        if let Some(framed) = &self.framed {
            return Arc::clone(framed);
        }
        let free = self
            .pool
            .iter()
            .position(|framed| Arc::strong_count(framed) == 1);
        let mut framed = match free {
            Some(free) => self.pool.swap_remove(free),
            None => vec![0; self.shape.frame_bytes()].into(),
        };
        let bytes = Arc::get_mut(&mut framed).expect("nobody else holds it");
        let places = bytes.chunks_exact_mut(self.shape.packet_bytes);
        let packet = self.shape.packet_bytes - FRAMING_BYTES;
        for (place, packet) in places.zip(self.packets.chunks_exact(packet)) {
            let (front, rest) = place.split_at_mut(FRAMING_BYTES);
            front.copy_from_slice(&self.framing);
            rest.copy_from_slice(packet);
        }
        self.copied_bytes += self.shape.frame_bytes() as u64;
        self.framed = Some(Arc::clone(&framed));
        framed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_carry_their_number_at_both_ends_and_are_used_again() {
        let shape = Shape {
            packets: 3,
            packet_bytes: 100,
        };
        let mut source = FrameSource::new(shape);
        source.renew(0x0102_0304);
        let first = source.framed();
        assert_eq!((first.len(), &first[..4]), (300, &b"$\0\0\x60"[..]));
        assert_eq!(first[NUMBER_OFFSET..][..4], [1, 2, 3, 4]);
        assert_eq!(first[296..], [1, 2, 3, 4]);
        assert_eq!((first[100], first[200]), (b'$', b'$'));
        assert_eq!(source.copied_bytes, 300);
        assert!(Arc::ptr_eq(&first, &source.framed()), "made once");
        // A connection holds the memory, so that other memory is allocated.
        source.renew(7);
        let second = source.framed();
        assert_eq!(first[296..], [1, 2, 3, 4]);
        let place = Arc::as_ptr(&first);
        drop(first);
        source.renew(8);
        assert_eq!(Arc::as_ptr(&source.framed()), place);
        assert_eq!(second[296..], [0, 0, 0, 7]);
        assert_eq!(source.packets().count(), 3);
    }
}
