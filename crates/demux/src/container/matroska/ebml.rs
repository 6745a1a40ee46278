//! Parses EBML elements: an identifier, a size, a body (RFC 8794 §4 to §6).

/// Identifiers of elements with their length marker (RFC 9559 §5.1).
pub(super) mod id {
    pub(crate) const EBML: u32 = 0x1a45_dfa3;
    pub(crate) const SEGMENT: u32 = 0x1853_8067;
    pub(crate) const INFO: u32 = 0x1549_a966;
    pub(crate) const TIMESTAMP_SCALE: u32 = 0x2a_d7b1;
    pub(crate) const TRACKS: u32 = 0x1654_ae6b;
    pub(crate) const TRACK_ENTRY: u32 = 0xae;
    pub(crate) const TRACK_NUMBER: u32 = 0xd7;
    pub(crate) const TRACK_TYPE: u32 = 0x83;
    pub(crate) const CODEC_ID: u32 = 0x86;
    pub(crate) const CODEC_PRIVATE: u32 = 0x63a2;
    pub(crate) const CODEC_DELAY: u32 = 0x56aa;
    pub(crate) const DEFAULT_DURATION: u32 = 0x23_e383;
    pub(crate) const VIDEO: u32 = 0xe0;
    pub(crate) const PIXEL_WIDTH: u32 = 0xb0;
    pub(crate) const PIXEL_HEIGHT: u32 = 0xba;
    pub(crate) const AUDIO: u32 = 0xe1;
    pub(crate) const SAMPLING_FREQUENCY: u32 = 0xb5;
    pub(crate) const CHANNELS: u32 = 0x9f;
    pub(crate) const BIT_DEPTH: u32 = 0x6264;
    pub(crate) const CONTENT_ENCODINGS: u32 = 0x6d80;
    pub(crate) const CONTENT_ENCODING: u32 = 0x6240;
    pub(crate) const CONTENT_COMPRESSION: u32 = 0x5034;
    pub(crate) const CONTENT_ENCRYPTION: u32 = 0x5035;
    pub(crate) const COMPRESSION_ALGORITHM: u32 = 0x4254;
    pub(crate) const COMPRESSION_SETTINGS: u32 = 0x4255;
    pub(crate) const CLUSTER: u32 = 0x1f43_b675;
    pub(crate) const TIMESTAMP: u32 = 0xe7;
    pub(crate) const SIMPLE_BLOCK: u32 = 0xa3;
    pub(crate) const BLOCK_GROUP: u32 = 0xa0;
    pub(crate) const BLOCK: u32 = 0xa1;
    pub(crate) const BLOCK_DURATION: u32 = 0x9b;
    pub(crate) const REFERENCE_BLOCK: u32 = 0xfb;
    pub(crate) const DISCARD_PADDING: u32 = 0x75a2;

    /// Elements that stand between blocks and between clusters; besides those above: Void, CRC-32,
    /// Position, PrevSize, SilentTracks, EncryptedBlock, SeekHead, Cues, Chapters, Attachments and
    /// Tags.
    pub(crate) const KNOWN: &[u32] = &[
        EBML,
        SEGMENT,
        INFO,
        TRACKS,
        CLUSTER,
        TIMESTAMP,
        SIMPLE_BLOCK,
        BLOCK_GROUP,
        0xec,
        0xbf,
        0xa7,
        0xab,
        0x5854,
        0xaf,
        0x114d_9b74,
        0x1c53_bb6b,
        0x1043_a770,
        0x1941_a469,
        0x1254_c367,
    ];
}

/// Header of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) id: u32,
    /// Offset of the body in the file.
    pub(super) body: u64,
    /// Length of the body in bytes; `None` if it is unknown, so that the body ends where
    /// another element begins.
    pub(super) size: Option<u64>,
}

impl Element {
    /// Longest header in bytes.
    pub(super) const HEAD_BYTES_MAX: usize = 12;

    /// Parses the header at the start of `head`, which lies at `offset` in the file.
    pub(super) fn parse(head: &[u8], offset: u64) -> Option<Self> {
        let first = *head.first()?;
        let id_bytes = first.leading_zeros() as usize + 1;
        if id_bytes > 4 {
            return None;
        }
        let id = head.get(..id_bytes)?;
        let (size, size_bytes) = number(&head[id_bytes..])?;
        Some(Self {
            id: u32::try_from(unsigned(id)).ok()?,
            body: offset + (id_bytes + size_bytes) as u64,
            size: (size != unknown(size_bytes)).then_some(size),
        })
    }

    /// Returns whether `head`, which is too short, could be the start of a header.
    pub(super) fn may_continue(head: &[u8]) -> bool {
        let id_bytes = head.first().map_or(0, |first| first.leading_zeros());
        let size = head.get(id_bytes as usize + 1);
        id_bytes < 4 && size.is_none_or(|&first| first != 0)
    }

    /// Returns the offset behind the body.
    pub(super) fn end(&self) -> Option<u64> {
        Some(self.body.saturating_add(self.size?))
    }
}

/// Returns the children in the body of an element, up to the first incomplete one.
pub(super) fn children(body: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    let mut rest = body;
    std::iter::from_fn(move || {
        let element = Element::parse(rest, 0)?;
        let start = usize::try_from(element.body).ok()?;
        let size = usize::try_from(element.size?).ok()?;
        let (child, after) = rest.get(start..)?.split_at_checked(size)?;
        rest = after;
        Some((element.id, child))
    })
}

/// Reads a variable-length integer. Returns its value and its length in bytes.
pub(super) fn number(bytes: &[u8]) -> Option<(u64, usize)> {
    let first = *bytes.first()?;
    let count = first.leading_zeros() as usize + 1;
    let bytes = bytes.get(..count).filter(|_| count <= 8)?;
    let marker = 1u64 << (7 * count);
    Some((unsigned(bytes) & (marker - 1), count))
}

/// Returns the value of an unknown size that takes `count` bytes.
fn unknown(count: usize) -> u64 {
    (1 << (7 * count)) - 1
}

/// Reads a big-endian integer of up to eight bytes; of more bytes, the last eight.
pub(super) fn unsigned(body: &[u8]) -> u64 {
    body.iter()
        .fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Reads a big-endian signed integer of up to eight bytes.
pub(super) fn signed(body: &[u8]) -> i64 {
    let start = match body.first() {
        Some(first) if first & 0x80 != 0 => -1,
        _ => 0,
    };
    body.iter()
        .fold(start, |value, &byte| value << 8 | i64::from(byte))
}

/// Reads a float of 4 or 8 bytes; zero for other lengths.
pub(super) fn float(body: &[u8]) -> f64 {
    match *body {
        [a, b, c, d] => f32::from_be_bytes([a, b, c, d]).into(),
        [a, b, c, d, e, f, g, h] => f64::from_be_bytes([a, b, c, d, e, f, g, h]),
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_say_identifier_and_size() {
        let element = |id, body, size| Some(Element { id, body, size });
        assert_eq!(
            Element::parse(&[0x1a, 0x45, 0xdf, 0xa3, 0x84], 10),
            element(id::EBML, 15, Some(4))
        );
        assert_eq!(
            Element::parse(&[0xec, 0x40, 5], 0),
            element(0xec, 3, Some(5))
        );
        assert_eq!(Element::parse(&[0xa3, 0xff], 0), element(0xa3, 2, None));
        let long = [0xec, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        assert_eq!(Element::parse(&long, 0), element(0xec, 9, None));
        assert_eq!(Element::parse(&[0xec, 0], 0), None);
        assert_eq!(Element::parse(&[0x08, 0x81], 0), None, "five bytes");
        assert_eq!(Element::parse(&[0xec], 0), None);
    }

    #[test]
    fn numbers_of_all_kinds() {
        assert_eq!(signed(&[0xff, 0xfe]), -2);
        assert_eq!(signed(&[0x7f]), 127);
        assert_eq!(signed(&[]), 0);
        assert!((float(&48_000f32.to_be_bytes()) - 48_000.0).abs() < 1e-9);
        assert!(float(&[1]).abs() < 1e-9);
        assert_eq!(number(&[0x40, 2]), Some((2, 2)));
    }

    #[test]
    fn children_stop_at_the_end() {
        let body = [0x83, 0x81, 7, 0xd7, 0x82, 1, 2, 0x86, 0x85, b'x'];
        let found: Vec<_> = children(&body).collect();
        assert_eq!(found, [(0x83, [7].as_slice()), (0xd7, &[1, 2])]);
    }
}
