//! Makes the payloads of FEC packets.

use glassline_media::Ssrc;

use super::header::{Coverage, HEADER_BYTES_MAX, PACKETS_MAX, RECOVERY_BYTES};
use crate::HEADER_BYTES;

/// Makes parity over groups of consecutive packets of one SSRC.
#[derive(Debug)]
pub struct Encoder {
    ssrc: Ssrc,
    /// Sequence number of the group's first packet.
    base: u16,
    /// Sequence numbers from the first packet to the last one.
    span: usize,
    parities: Vec<Parity>,
}

/// Parity of some packets of a group.
#[derive(Debug, Default)]
struct Parity {
    /// Bit `i` stands for the packet `base + i`; 0 without a packet.
    mask: u128,
    recovery: [u8; RECOVERY_BYTES],
    /// Parity of everything behind the fixed headers.
    body: Vec<u8>,
}

impl Encoder {
    /// Creates an encoder for packets of `ssrc`, without a group.
    pub const fn new(ssrc: Ssrc) -> Self {
        Self {
            ssrc,
            base: 0,
            span: 0,
            parities: Vec::new(),
        }
    }

    /// Begins a group that `parities` FEC packets will protect, at least one. What an earlier group
    /// holds is dropped.
    pub fn begin(&mut self, parities: usize) {
        self.span = 0;
        self.parities.clear();
        self.parities.resize_with(parities.max(1), Parity::default);
    }

    /// Returns how many sequence numbers the group spans, 0 to [`PACKETS_MAX`].
    pub const fn span(&self) -> usize {
        self.span
    }

    /// Returns the number of FEC packets that the group has begun.
    pub fn parities(&self) -> usize {
        self.parities.iter().filter(|it| it.mask != 0).count()
    }

    /// Returns the number of bytes in the longest payload that [`end`](Self::end) may return.
    pub fn payload_bytes_max(&self) -> usize {
        let bodies = self.parities.iter().map(|it| it.body.len());
        HEADER_BYTES_MAX + bodies.max().unwrap_or(0)
    }

    /// Adds the next packet to the group. `header` is its RTP header with extensions, and with zeros
    /// in place of what is written into extensions later; `padding` bytes follow `payload` (RFC 3550
    /// §5.1).
    ///
    /// Returns false, and adds nothing, if there is no group, the group would span more than
    /// [`PACKETS_MAX`] sequence numbers, or `header` is shorter than 12 bytes.
    pub fn push(&mut self, header: &[u8], payload: &[u8], padding: u8) -> bool {
        let Some((fixed, extensions)) = header.split_first_chunk::<HEADER_BYTES>() else {
            return false;
        };
        let sequence = u16::from_be_bytes([fixed[2], fixed[3]]);
        if self.span == 0 {
            self.base = sequence;
        }
        let place = usize::from(sequence.wrapping_sub(self.base));
        if self.parities.is_empty() || place >= PACKETS_MAX {
            return false;
        }
        self.span = self.span.max(place + 1);
        let count = self.parities.len();
        let parity = &mut self.parities[place % count];
        parity.mask |= 1 << place;
        let bytes = extensions.len() + payload.len() + usize::from(padding);
        let [a, b] = u16::try_from(bytes).unwrap_or(u16::MAX).to_be_bytes();
        let fields = [fixed[0] & 0x3f, fixed[1], a, b]
            .into_iter()
            .chain(fixed[4..8].iter().copied());
        for (recovery, field) in parity.recovery.iter_mut().zip(fields) {
            *recovery ^= field;
        }
        if parity.body.len() < bytes {
            parity.body.resize(bytes, 0);
        }
        let (first, rest) = parity.body.split_at_mut(extensions.len());
        add(first, extensions);
        add(rest, payload);
        if padding > 0 {
            // Zeros, and their number in the last byte.
            parity.body[bytes - 1] ^= padding;
        }
        true
    }

    /// Ends the group. Passes the payload of each FEC packet to `take`; parities without a packet make
    /// none.
    pub fn end(&mut self, mut take: impl FnMut(Vec<u8>)) {
        for parity in self.parities.drain(..).filter(|it| it.mask != 0) {
            // The mask begins with a packet of the parity, which keeps it short.
            let skipped = parity.mask.trailing_zeros();
            let coverage = Coverage {
                base: self.base.wrapping_add(u16::try_from(skipped).unwrap_or(0)),
                mask: parity.mask >> skipped,
            };
            let mut payload = Vec::with_capacity(HEADER_BYTES_MAX + parity.body.len());
            coverage.write(parity.recovery, self.ssrc, &mut payload);
            payload.extend_from_slice(&parity.body);
            take(payload);
        }
        self.span = 0;
    }
}

/// Adds `bytes` to the parity from its beginning on.
fn add(parity: &mut [u8], bytes: &[u8]) {
    for (parity, byte) in parity.iter_mut().zip(bytes) {
        *parity ^= byte;
    }
}
