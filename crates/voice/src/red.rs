//! RTP payload for redundant audio data (RFC 2198): a packet that brings its
//! predecessors along.

use std::collections::VecDeque;

use bytes::Bytes;
use thiserror::Error;

/// One of the blocks of a RED payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Of what is inside.
    pub payload_type: u8,
    /// How far before the packet's own timestamp, in ticks; 0 for the primary.
    pub offset: u32,
    /// What is inside.
    pub payload: Bytes,
}

/// Why a payload is not RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the RED payload ends within its block {block}")]
pub struct NoRed {
    /// Counted from 0.
    pub block: usize,
}

/// More than these nobody sends; the primary is among them.
const BLOCKS_MAX: usize = 16;

/// The blocks of a RED payload, the oldest redundancy first, the primary last.
///
/// # Errors
/// If headers or lengths go beyond `payload`, or there are more than 16 blocks.
pub fn blocks(payload: &Bytes) -> Result<Vec<Block>, NoRed> {
    let mut headers = Vec::new();
    let mut at = 0;
    loop {
        let error = NoRed {
            block: headers.len(),
        };
        let first = *payload.get(at).ok_or(error)?;
        if headers.len() == BLOCKS_MAX {
            return Err(error);
        }
        // RFC 2198 §3: the header without the F bit is one byte, and the last.
        if first & 0x80 == 0 {
            headers.push((first & 0x7f, 0, None));
            at += 1;
            break;
        }
        let &[_, b, c, d] = payload
            .get(at..at + 4)
            .and_then(|bytes| <&[u8; 4]>::try_from(bytes).ok())
            .ok_or(error)?;
        // 14 bits of timestamp offset, 10 bits of length.
        let offset = u32::from(b) << 6 | u32::from(c) >> 2;
        let length = usize::from(c & 3) << 8 | usize::from(d);
        headers.push((first & 0x7f, offset, Some(length)));
        at += 4;
    }
    let mut blocks = Vec::with_capacity(headers.len());
    for (block, (payload_type, offset, length)) in headers.into_iter().enumerate() {
        let end = length.map_or(payload.len(), |length| at + length);
        if end > payload.len() {
            return Err(NoRed { block });
        }
        blocks.push(Block {
            payload_type,
            offset,
            payload: payload.slice(at..end),
        });
        at = end;
    }
    Ok(blocks)
}

/// What fits a header: 14 bits of ticks, 10 of length.
const OFFSET_MAX: u64 = (1 << 14) - 1;
const LENGTH_MAX: usize = (1 << 10) - 1;

/// A RED payload of `primary`, sent at `timestamp`, that repeats `earlier` (timestamp,
/// payload), the oldest first. All are of `payload_type`, 0 to 127. What is too long ago
/// or too long, or says nothing, is left out.
pub(crate) fn write(
    payload_type: u8,
    timestamp: u64,
    earlier: &VecDeque<(u64, Bytes)>,
    primary: &Bytes,
) -> Bytes {
    let payload_type = payload_type & 0x7f;
    let copies: Vec<(u64, &Bytes)> = earlier
        .iter()
        .map(|(at, payload)| (timestamp.saturating_sub(*at), payload))
        .filter(|(offset, payload)| {
            (1..=OFFSET_MAX).contains(offset) && (1..=LENGTH_MAX).contains(&payload.len())
        })
        .collect();
    let mut out = Vec::with_capacity(
        1 + primary.len() + copies.iter().map(|it| 4 + it.1.len()).sum::<usize>(),
    );
    for (offset, payload) in &copies {
        let length = payload.len();
        let rest = (*offset as u32) << 10 | length as u32;
        out.push(0x80 | payload_type);
        out.extend_from_slice(&rest.to_be_bytes()[1..]);
    }
    out.push(payload_type);
    for (_, payload) in copies {
        out.extend_from_slice(payload);
    }
    out.extend_from_slice(primary);
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_primary_comes_last() {
        // 111 one packet of 960 ticks ago with 3 bytes, then 111 itself.
        let bytes = [
            0x80 | 111,
            0x0f,
            0x00,
            3,
            111,
            b'o',
            b'l',
            b'd',
            b'n',
            b'e',
            b'w',
        ];
        let found = blocks(&Bytes::copy_from_slice(&bytes)).expect("RED");
        let wanted = [(111, 960, &b"old"[..]), (111, 0, &b"new"[..])];
        for (block, (payload_type, offset, payload)) in found.iter().zip(wanted) {
            assert_eq!((block.payload_type, block.offset), (payload_type, offset));
            assert_eq!(block.payload, payload);
        }
        assert_eq!(found.len(), 2);
        for cut in 0..8 {
            assert!(
                blocks(&Bytes::copy_from_slice(&bytes[..cut])).is_err(),
                "{cut}"
            );
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            payload_type in 0u8..128,
            timestamp in 100_000u64..1 << 40,
            earlier in prop::collection::vec((0u64..20_000, prop::collection::vec(any::<u8>(), 0..1_100)), 0..4),
            primary in prop::collection::vec(any::<u8>(), 0..1_300),
        ) {
            let earlier: VecDeque<(u64, Bytes)> = earlier
                .into_iter()
                .map(|(offset, bytes)| (timestamp - offset, bytes.into()))
                .collect();
            let primary = Bytes::from(primary);
            let read = blocks(&write(payload_type, timestamp, &earlier, &primary)).expect("ours");
            let fits = |it: &&(u64, Bytes)| {
                let offset = timestamp - it.0;
                offset > 0 && offset < 1 << 14 && !it.1.is_empty() && it.1.len() < 1 << 10
            };
            let copies: Vec<_> = earlier.iter().filter(fits).collect();
            prop_assert_eq!(read.len(), copies.len() + 1);
            for (block, (at, payload)) in read.iter().zip(copies) {
                prop_assert_eq!(u64::from(block.offset), timestamp - at);
                prop_assert_eq!(&block.payload, payload);
            }
            let last = &read[read.len() - 1];
            prop_assert_eq!((last.payload_type, last.offset), (payload_type, 0));
            prop_assert_eq!(&last.payload, &primary);
        }

        #[test]
        fn any_bytes_are_blocks_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(blocks) = blocks(&Bytes::from(bytes.clone())) {
                let inside: usize = blocks.iter().map(|block| block.payload.len()).sum();
                prop_assert!(inside < bytes.len() && blocks.len() <= BLOCKS_MAX);
            }
        }
    }
}
