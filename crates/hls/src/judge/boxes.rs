//! Rules over the bytes of fragmented MP4 (§3.1.2): as much of ISO/IEC 14496-12 as they need.

use super::finding::Findings;
use super::rules;

/// Deepest nesting of boxes that is looked into.
const DEPTH_MAX: usize = 4;

/// A box: its type and its content.
type Boxed<'a> = ([u8; 4], &'a [u8]);

/// The boxes at one level, up to the first that is cut off; whether all are whole.
fn boxes(mut bytes: &[u8]) -> (Vec<Boxed<'_>>, bool) {
    let mut all = Vec::new();
    while let Some((kind, content, behind)) = next_box(bytes) {
        all.push((kind, content));
        bytes = behind;
    }
    (all, bytes.is_empty())
}

fn next_box(bytes: &[u8]) -> Option<([u8; 4], &[u8], &[u8])> {
    let (head, _) = bytes.split_at_checked(8)?;
    let kind = [head[4], head[5], head[6], head[7]];
    let size = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
    let (begin, size) = match size {
        0 => (8, bytes.len()),
        1 => {
            let large: [u8; 8] = bytes.get(8..16)?.try_into().ok()?;
            (16, usize::try_from(u64::from_be_bytes(large)).ok()?)
        }
        size => (8, usize::try_from(size).ok()?),
    };
    let whole = bytes.get(..size)?;
    Some((kind, whole.get(begin..)?, &bytes[size..]))
}

/// The contents of all boxes along `path`.
fn find<'a>(bytes: &'a [u8], path: &[&[u8; 4]]) -> Vec<&'a [u8]> {
    let (Some((kind, rest)), true) = (path.split_first(), path.len() <= DEPTH_MAX) else {
        return vec![bytes];
    };
    let (all, _) = boxes(bytes);
    let inner = all.into_iter().filter(|it| it.0 == **kind);
    inner.flat_map(|(_, content)| find(content, rest)).collect()
}

/// Judges an initialization section, which the playlist calls `uri` in line `line`.
pub fn judge_init(bytes: &[u8], uri: &str, line: usize, findings: &mut Findings) {
    let mut wrong = |what: &str| findings.add(&rules::INIT_WRONG, line, format!("'{uri}' {what}"));
    let (all, is_whole) = boxes(bytes);
    if !is_whole {
        wrong("is cut off within a box");
    }
    let Some((_, ftyp)) = all.iter().find(|it| it.0 == *b"ftyp") else {
        return wrong("has no ftyp");
    };
    // Major brand, version, compatible brands.
    let brands = ftyp
        .chunks_exact(4)
        .enumerate()
        .filter(|(index, _)| *index != 1);
    let is_new = |brand: &[u8]| matches!(brand, [b'i', b's', b'o', b'6'..=b'9' | b'a'..=b'l'] | b"cmfc" | b"cmf2" | b"cmfl");
    if !brands.clone().any(|(_, brand)| is_new(brand)) {
        wrong("has no brand of iso6 or later");
    }
    if !all.iter().any(|it| it.0 == *b"moov") {
        return wrong("has no moov");
    }
    if find(bytes, &[b"moov", b"mvex"]).is_empty() {
        wrong("has no mvex in its moov");
    }
    if find(bytes, &[b"moov", b"trak"]).is_empty() {
        wrong("has no track");
    }
}

/// Content of a segment or part, for comparisons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fragment {
    /// Number of samples of all tracks.
    pub samples: u64,
    /// Bytes of all `mdat`.
    pub media_bytes: u64,
    /// Earliest decode time of the first track, in its time scale.
    pub decode_time: Option<u64>,
}

/// Judges a segment or part, which the playlist calls `uri` in line `line`; `None` if it is no fragmented
/// MP4.
pub fn judge_fragment(
    bytes: &[u8],
    uri: &str,
    line: usize,
    findings: &mut Findings,
) -> Option<Fragment> {
    let (all, is_whole) = boxes(bytes);
    let is_mp4 = all.first().is_some_and(|it| {
        matches!(
            &it.0,
            b"styp" | b"moof" | b"sidx" | b"prft" | b"emsg" | b"ftyp"
        )
    });
    if !is_mp4 {
        return None;
    }
    let mut wrong =
        |what: &str| findings.add(&rules::FRAGMENT_WRONG, line, format!("'{uri}' {what}"));
    if !is_whole {
        wrong("is cut off within a box");
    }
    let mut fragment = Fragment::default();
    let tracks = find(bytes, &[b"moof", b"traf"]);
    if tracks.is_empty() {
        wrong("has no moof with a traf");
        return Some(fragment);
    }
    for track in &tracks {
        match find(track, &[b"tfdt"])
            .first()
            .and_then(|it| decode_time(it))
        {
            Some(time) => _ = fragment.decode_time.get_or_insert(time),
            None => wrong("has a traf without tfdt"),
        }
        let counts = find(track, &[b"trun"])
            .into_iter()
            .filter_map(|it| it.get(4..8));
        fragment.samples += counts
            .map(|it| u64::from(u32::from_be_bytes([it[0], it[1], it[2], it[3]])))
            .sum::<u64>();
    }
    let media = all.iter().filter(|it| it.0 == *b"mdat");
    fragment.media_bytes = media.map(|it| it.1.len() as u64).sum();
    if fragment.media_bytes == 0 && fragment.samples > 0 {
        wrong("has samples and no mdat");
    }
    Some(fragment)
}

/// Reads the content of a `tfdt`.
fn decode_time(content: &[u8]) -> Option<u64> {
    match content.first()? {
        1 => Some(u64::from_be_bytes(content.get(4..12)?.try_into().ok()?)),
        _ => Some(u32::from_be_bytes(content.get(4..8)?.try_into().ok()?).into()),
    }
}
