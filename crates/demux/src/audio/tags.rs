//! Tags with titles, cover art and lyrics before, behind and between frames of audio: ID3v1,
//! ID3v2, APE and Lyrics3. Players skip them.

use std::ops::Range;

use crate::error::Fault;
use crate::window::Window;

/// Bytes that [`bytes_of`] needs.
pub(crate) const HEAD_BYTES: usize = 32;

const ID3V1_BYTES: u64 = 128;
const APE_HEADER_BYTES: u64 = 32;
const LYRICS_END: &[u8] = b"LYRICS200";

/// Most tags at one end of a file; a file with more is not audio.
const TAGS_MAX: usize = 16;

/// Returns the part of the file between the tags at its two ends.
pub(crate) fn audio_within(window: &mut Window) -> Result<Range<u64>, Fault> {
    let mut range = 0..window.file_bytes();
    for _ in 0..TAGS_MAX {
        match bytes_of(window.peek(range.start, HEAD_BYTES)?) {
            Some(bytes) => range.start = range.start.saturating_add(bytes).min(range.end),
            None => break,
        }
    }
    for _ in 0..TAGS_MAX {
        match bytes_before(window, range.end)? {
            Some(bytes) => range.end = range.end.saturating_sub(bytes).max(range.start),
            None => break,
        }
    }
    Ok(range)
}

/// Returns the length in bytes of the tag that begins with `head`; `None` if no tag with a
/// length begins there.
pub(crate) fn bytes_of(head: &[u8]) -> Option<u64> {
    match head {
        [b'I', b'D', b'3', major, _, flags, a, b, c, d, ..] if *major != 0xff => {
            let size = synchsafe([*a, *b, *c, *d])?;
            let footer = if flags & 0x10 != 0 { 10 } else { 0 };
            Some(10 + size + footer)
        }
        _ if head.starts_with(b"APETAGEX") => Some(APE_HEADER_BYTES + ape_bytes(head)?),
        _ => None,
    }
}

/// Returns the length in bytes of an ID3v1 tag that begins with `head`, which stands behind all
/// frames.
pub(crate) fn bytes_of_id3v1(head: &[u8]) -> Option<u64> {
    head.starts_with(b"TAG").then_some(ID3V1_BYTES)
}

/// Returns the length in bytes of the tag that ends at `end`.
fn bytes_before(window: &mut Window, end: u64) -> Result<Option<u64>, Fault> {
    let mut at = |before: u64, bytes: usize| match end.checked_sub(before) {
        Some(start) => Ok(window.peek(start, bytes)?.to_vec()),
        None => Ok(Vec::new()),
    };
    if at(ID3V1_BYTES, 3)? == b"TAG" {
        return Ok(Some(ID3V1_BYTES));
    }
    let footer = at(APE_HEADER_BYTES, HEAD_BYTES)?;
    if footer.starts_with(b"APETAGEX") {
        // The highest flag means that a header precedes the tag, which the size does not
        // include.
        let header = footer.get(23).is_some_and(|flags| flags & 0x80 != 0);
        let header_bytes = if header { APE_HEADER_BYTES } else { 0 };
        return Ok(ape_bytes(&footer).map(|bytes| bytes + header_bytes));
    }
    let footer = at(10, 10)?;
    if let [b'3', b'D', b'I', _, _, _, a, b, c, d] = footer[..] {
        return Ok(synchsafe([a, b, c, d]).map(|size| size + 20));
    }
    let lyrics = at(15, 15)?;
    if lyrics.ends_with(LYRICS_END) {
        let size = std::str::from_utf8(&lyrics[..6]).ok();
        let size = size.and_then(|digits| digits.parse::<u64>().ok());
        return Ok(size.map(|size| size + 15));
    }
    Ok(None)
}

/// Returns the length of items and footer of an APE tag, from its header or footer.
fn ape_bytes(head: &[u8]) -> Option<u64> {
    let size = head.get(12..16)?.try_into().ok()?;
    Some(u64::from(u32::from_le_bytes(size))).filter(|&size| size >= APE_HEADER_BYTES)
}

/// Decodes a synchsafe integer, seven bits of each byte (ID3v2.4 §6.2).
fn synchsafe(bytes: [u8; 4]) -> Option<u64> {
    let sum = |sum, byte: u8| (byte < 0x80).then_some(sum << 7 | u64::from(byte));
    bytes.into_iter().try_fold(0, sum)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn within(bytes: &[u8]) -> Range<u64> {
        let mut window = Window::new(Box::new(Cursor::new(bytes.to_vec()))).expect("memory");
        audio_within(&mut window).expect("memory")
    }

    #[test]
    fn tags_at_both_ends_are_left_out() {
        let id3v2 = [b"ID3\x04\0\0\0\0\x01\x02".as_slice(), &[7; 130]].concat();
        let mut ape_items = vec![1; 20];
        let mut ape = b"APETAGEX\xd0\x07\0\0".to_vec();
        ape.extend(52u32.to_le_bytes());
        ape.extend([0, 0, 0, 0, 0, 0, 0, 0x80]);
        ape.extend([0; 8]);
        ape_items.splice(0..0, ape.clone());
        ape_items.extend(&ape);
        let lyrics = b"LYRICSBEGININD000210000018LYRICS200";
        let id3v1 = [b"TAG".as_slice(), &[0; 125]].concat();
        let audio = [5; 300];
        let parts: [&[u8]; 5] = [&id3v2, &audio, &ape_items, lyrics, &id3v1];
        let start = id3v2.len() as u64;
        let mut file = parts.concat();
        // The size that Lyrics3 says leaves out the size itself and the end mark.
        let digits = file.len() - 128 - 15;
        file[digits..digits + 6].copy_from_slice(b"000020");
        assert_eq!(within(&file), start..start + 300);
        assert_eq!(within(&audio), 0..300);
    }

    #[test]
    fn tags_larger_than_the_file_leave_nothing() {
        let range = within(b"ID3\x04\0\0\x7f\x7f\x7f\x7f....");
        assert!(range.is_empty());
        let mut ape = b"....APETAGEX\xd0\x07\0\0".to_vec();
        ape.extend(u32::MAX.to_le_bytes());
        ape.extend([0; 16]);
        assert!(within(&ape).is_empty());
    }
}
