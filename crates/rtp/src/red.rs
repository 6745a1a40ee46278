//! RTP payload for redundant audio data (RED, RFC 2198): each packet repeats the payloads of
//! packets before it.

use thiserror::Error;

/// One block of a RED payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block<'a> {
    /// Payload type of the block's payload.
    pub payload_type: u8,
    /// Time from this block to the packet's own timestamp, in ticks; 0 for the primary block.
    pub offset: u32,
    /// Payload of the block.
    pub payload: &'a [u8],
}

/// The payload is not valid RED: it ends within a block, or has too many blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("the RED payload ends within its block {block}")]
pub struct InvalidRed {
    /// Index of the block that is cut short, from 0.
    pub block: usize,
}

/// Most blocks that are accepted, including the primary one; senders use fewer.
const BLOCKS_MAX: usize = 16;

/// Returns the blocks of a RED payload: the redundant ones from the oldest on, then the
/// primary.
///
/// # Errors
/// [`InvalidRed`] if headers or lengths reach beyond `payload`, or if there are more than 16 blocks.
pub fn blocks(payload: &[u8]) -> Result<Vec<Block<'_>>, InvalidRed> {
    let mut headers = Vec::new();
    let mut at = 0;
    loop {
        let error = InvalidRed {
            block: headers.len(),
        };
        let first = *payload.get(at).ok_or(error)?;
        if headers.len() == BLOCKS_MAX {
            return Err(error);
        }
        // RFC 2198 §3: a header without F bit has one byte and is the last one.
        if first & 0x80 == 0 {
            headers.push((first & 0x7f, 0, None));
            at += 1;
            break;
        }
        let &[_, b, c, d] = payload
            .get(at..at + 4)
            .and_then(|bytes| <&[u8; 4]>::try_from(bytes).ok())
            .ok_or(error)?;
        // 14 bits of timestamp offset, then 10 bits of length.
        let offset = u32::from(b) << 6 | u32::from(c) >> 2;
        let length = usize::from(c & 3) << 8 | usize::from(d);
        headers.push((first & 0x7f, offset, Some(length)));
        at += 4;
    }
    let mut blocks = Vec::with_capacity(headers.len());
    for (block, (payload_type, offset, length)) in headers.into_iter().enumerate() {
        let end = length.map_or(payload.len(), |length| at + length);
        blocks.push(Block {
            payload_type,
            offset,
            payload: payload.get(at..end).ok_or(InvalidRed { block })?,
        });
        at = end;
    }
    Ok(blocks)
}

/// Largest timestamp offset of a block header in ticks, a field of 14 bits.
const OFFSET_MAX: u32 = (1 << 14) - 1;
/// Largest length of a redundant block in bytes, a field of 10 bits.
const LENGTH_MAX: usize = (1 << 10) - 1;

/// A payload that a later packet repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat<'a> {
    /// Time from this payload to the later packet, in ticks.
    pub offset: u32,
    /// Payload that is repeated.
    pub payload: &'a [u8],
}

impl Repeat<'_> {
    /// Returns whether a block can hold the payload: 1 to 16,383 ticks ago, 1 to 1,023 bytes.
    pub const fn fits(&self) -> bool {
        let (offset, bytes) = (self.offset, self.payload.len());
        0 < offset && offset <= OFFSET_MAX && 0 < bytes && bytes <= LENGTH_MAX
    }
}

/// Appends a RED payload to `out`: `copies` from the oldest on, then `primary`. All blocks have
/// the payload type `payload_type`, 0 to 127. Copies that do not [fit](Repeat::fits) are
/// omitted.
pub fn write(payload_type: u8, copies: &[Repeat<'_>], primary: &[u8], out: &mut Vec<u8>) {
    let payload_type = payload_type & 0x7f;
    let copies = || copies.iter().filter(|it| it.fits());
    let repeated: usize = copies().map(|it| 4 + it.payload.len()).sum();
    out.reserve(1 + primary.len() + repeated);
    for copy in copies() {
        // Ten bits, as it fits.
        let rest = copy.offset << 10 | copy.payload.len() as u32;
        out.push(0x80 | payload_type);
        out.extend_from_slice(&rest.to_be_bytes()[1..]);
    }
    out.push(payload_type);
    for copy in copies() {
        out.extend_from_slice(copy.payload);
    }
    out.extend_from_slice(primary);
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
        let found = blocks(&bytes).expect("RED");
        let wanted = [(111, 960, &b"old"[..]), (111, 0, &b"new"[..])];
        for (block, (payload_type, offset, payload)) in found.iter().zip(wanted) {
            assert_eq!((block.payload_type, block.offset), (payload_type, offset));
            assert_eq!(block.payload, payload);
        }
        assert_eq!(found.len(), 2);
        for cut in 0..8 {
            assert!(blocks(&bytes[..cut]).is_err(), "{cut}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            payload_type in 0u8..128,
            earlier in prop::collection::vec((0u32..20_000, prop::collection::vec(any::<u8>(), 0..1_100)), 0..4),
            primary in prop::collection::vec(any::<u8>(), 0..1_300),
        ) {
            let copies = earlier.iter().map(|(offset, payload)| Repeat { offset: *offset, payload });
            let copies: Vec<_> = copies.collect();
            let mut out = Vec::new();
            write(payload_type, &copies, &primary, &mut out);
            let read = blocks(&out).expect("ours");
            let fits = |it: &&Repeat<'_>| {
                it.offset > 0 && it.offset < 1 << 14 && !it.payload.is_empty() && it.payload.len() < 1 << 10
            };
            let copies: Vec<_> = copies.iter().filter(fits).collect();
            prop_assert_eq!(read.len(), copies.len() + 1);
            for (block, copy) in read.iter().zip(copies) {
                prop_assert_eq!(block.offset, copy.offset);
                prop_assert_eq!(block.payload, copy.payload);
            }
            let last = &read[read.len() - 1];
            prop_assert_eq!((last.payload_type, last.offset), (payload_type, 0));
            prop_assert_eq!(last.payload, &primary);
        }

        #[test]
        fn any_bytes_are_blocks_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(blocks) = blocks(&bytes) {
                let inside: usize = blocks.iter().map(|block| block.payload.len()).sum();
                prop_assert!(inside < bytes.len() && blocks.len() <= BLOCKS_MAX);
            }
        }
    }
}
