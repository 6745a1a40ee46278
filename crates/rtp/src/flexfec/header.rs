//! The header of a FEC packet's payload.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! ┌─┬─┬─┬─┬───────┬─┬─────────────┬───────────────────────────────┐
//! │R│F│P│X│  CC   │M│ PT recovery │        length recovery        │
//! ├─┴─┴─┴─┴───────┴─┴─────────────┴───────────────────────────────┤
//! │                          TS recovery                          │
//! ├───────────────┬───────────────────────────────────────────────┤
//! │   SSRC count  │                   reserved                    │
//! ├───────────────┴───────────────────────────────────────────────┤
//! │                             SSRC                              │
//! ├───────────────────────────────┬─┬─────────────────────────────┤
//! │            SN base            │k│         mask 0 to 14        │
//! ├─┬─────────────────────────────┴─┴─────────────────────────────┤
//! │k│                mask 15 to 45, if the k before is 0          │
//! ├─┼─────────────────────────────────────────────────────────────┤
//! │k│                mask 46 to 108, likewise, 64 bits            │
//! └─┴─────────────────────────────────────────────────────────────┘
//! ```

use glassline_media::Ssrc;
use thiserror::Error;

/// Most consecutive sequence numbers that the mask of one FEC packet spans.
pub const PACKETS_MAX: usize = 109;

/// Length in bytes of the longest header.
pub const HEADER_BYTES_MAX: usize = 32;

/// Bytes in front of the mask.
const MASK_AT: usize = 18;

/// First bytes of a header, which are the parity of header fields: flags and payload type, length,
/// timestamp.
pub(super) const RECOVERY_BYTES: usize = 8;

/// The payload of a FEC packet cannot be used: the peer is at fault, or uses what is not supported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidFlexFec {
    /// The payload ends within its header.
    #[error("the FEC payload of {bytes} bytes ends within its header")]
    Short {
        /// Length of the payload in bytes.
        bytes: usize,
    },
    /// The R bit or the F bit is set: a retransmission, or a fixed pattern in place of a mask.
    #[error("the FEC payload is a retransmission or has no mask")]
    Variant,
    /// The payload protects another SSRC, or several.
    #[error("the FEC payload protects other streams")]
    OtherStreams,
    /// The last part of the mask says that another one follows, or the mask is empty.
    #[error("the mask of the FEC payload is empty or has no end")]
    Mask,
}

/// The packets that a FEC packet protects, as its header states them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coverage {
    /// Sequence number of the mask's first bit.
    pub(super) base: u16,
    /// Bit `i` stands for the packet `base + i`.
    pub(super) mask: u128,
}

impl Coverage {
    /// Returns whether the packet is protected.
    pub(super) fn has(&self, sequence: u16) -> bool {
        let distance = usize::from(sequence.wrapping_sub(self.base));
        distance < PACKETS_MAX && self.mask >> distance & 1 == 1
    }

    /// Iterates over the sequence numbers of the protected packets.
    pub(super) fn sequences(self) -> impl Iterator<Item = u16> {
        (0..128u16)
            .filter(move |distance| self.mask >> distance & 1 == 1)
            .map(move |distance| self.base.wrapping_add(distance))
    }

    /// Appends the header to `out`. `recovery`: parity of header fields.
    pub(super) fn write(&self, recovery: [u8; RECOVERY_BYTES], ssrc: Ssrc, out: &mut Vec<u8>) {
        out.extend_from_slice(&recovery);
        out.extend_from_slice(&[1, 0, 0, 0]);
        out.extend_from_slice(&ssrc.0.to_be_bytes());
        out.extend_from_slice(&self.base.to_be_bytes());
        // Bit 0 is the first one on the wire.
        let ordered = self.mask.reverse_bits();
        let part = |from: u32, bits: u32| (ordered << from) >> (128 - bits);
        let ends_at = 128 - self.mask.leading_zeros();
        let last = |is_last: bool, bits: u32| u128::from(is_last) << bits;
        let first = part(0, 15) | last(ends_at <= 15, 15);
        out.extend_from_slice(&first.to_be_bytes()[14..]);
        if ends_at <= 15 {
            return;
        }
        let second = part(15, 31) | last(ends_at <= 46, 31);
        out.extend_from_slice(&second.to_be_bytes()[12..]);
        if ends_at <= 46 {
            return;
        }
        let third = part(46, 63) | last(true, 63);
        out.extend_from_slice(&third.to_be_bytes()[8..]);
    }

    /// Reads the header of a FEC packet that protects `ssrc`. Returns the length of the header, too.
    pub(super) fn read(payload: &[u8], ssrc: Ssrc) -> Result<(Self, usize), InvalidFlexFec> {
        let short = InvalidFlexFec::Short {
            bytes: payload.len(),
        };
        let fixed = payload.first_chunk::<MASK_AT>().ok_or(short)?;
        if fixed[0] & 0xc0 != 0 {
            return Err(InvalidFlexFec::Variant);
        }
        if fixed[8] != 1 || fixed[12..16] != ssrc.0.to_be_bytes() {
            return Err(InvalidFlexFec::OtherStreams);
        }
        let base = u16::from_be_bytes([fixed[16], fixed[17]]);
        let (mut at, mut ordered, mut filled) = (MASK_AT, 0, 0);
        for bytes in [2, 4, 8] {
            let part = payload.get(at..at + bytes).ok_or(short)?;
            at += bytes;
            let word = part.iter().fold(0, |word, &it| word << 8 | u128::from(it));
            let bits = 8 * bytes - 1;
            let is_last = word >> bits & 1 == 1;
            ordered |= (word & !(1 << bits)) << (128 - filled - bits);
            filled += bits;
            if is_last {
                let mask = ordered.reverse_bits();
                return match mask {
                    0 => Err(InvalidFlexFec::Mask),
                    mask => Ok((Self { base, mask }, at)),
                };
            }
        }
        Err(InvalidFlexFec::Mask)
    }
}
