//! The names of codecs with their parameters (RFC 6381 §3.3, and the bindings of each codec).

use std::fmt::Write as _;

use crate::boxes::{BoxKind, BoxView};

/// Bytes of sample entries before the boxes in them.
const VISUAL_BYTES: usize = 78;
const AUDIO_BYTES: usize = 28;

/// Returns the name of the codec of a sample entry; the name of the entry alone if its configuration
/// cannot be read.
pub(super) fn of_entry(entry: &[u8]) -> String {
    let Some(entry) = BoxView::first(entry) else {
        return String::new();
    };
    let plain = || String::from_utf8_lossy(&entry.kind).into_owned();
    let within = |skip: usize, kind: &BoxKind| {
        let found = BoxView::find(entry.body.get(skip..)?, kind)?;
        Some(found.body)
    };
    let name = match &entry.kind {
        b"avc1" => within(VISUAL_BYTES, b"avcC").and_then(h264),
        b"hvc1" => within(VISUAL_BYTES, b"hvcC").and_then(h265),
        b"vp08" | b"vp09" => within(VISUAL_BYTES, b"vpcC").and_then(|it| vpx(&plain(), it)),
        b"av01" => within(VISUAL_BYTES, b"av1C").and_then(av1),
        b"mp4a" => within(AUDIO_BYTES, b"esds").and_then(aac),
        b"Opus" => Some("opus".to_owned()),
        _ => None,
    };
    name.unwrap_or_else(plain)
}

fn h264(record: &[u8]) -> Option<String> {
    let [profile, constraints, level] = record.get(1..)?.first_chunk()?;
    Some(format!("avc1.{profile:02x}{constraints:02x}{level:02x}"))
}

/// ISO/IEC 14496-15 §E.3: the flags of compatible profiles in reverse order, and constraints without
/// the zero bytes at their end.
fn h265(record: &[u8]) -> Option<String> {
    let [first, flags @ .., level] = record.get(1..)?.first_chunk::<12>()?;
    let space = ["", "A", "B", "C"][usize::from(first >> 6)];
    let tier = if first & 0x20 == 0 { 'L' } else { 'H' };
    let compatible = u32::from_be_bytes(*flags.first_chunk()?).reverse_bits();
    let profile = first & 0x1f;
    let mut name = format!("hvc1.{space}{profile}.{compatible:x}.{tier}{level}");
    let constraints = &flags[4..];
    let used = constraints.iter().rposition(|byte| *byte != 0);
    for byte in &constraints[..used.map_or(0, |last| last + 1)] {
        let _ = write!(name, ".{byte:x}");
    }
    Some(name)
}

fn vpx(kind: &str, record: &[u8]) -> Option<String> {
    let [profile, level, format] = record.get(4..)?.first_chunk()?;
    Some(format!("{kind}.{profile:02}.{level:02}.{:02}", format >> 4))
}

fn av1(record: &[u8]) -> Option<String> {
    let [_, profile, format] = record.first_chunk()?;
    let tier = if format & 0x80 == 0 { 'M' } else { 'H' };
    let bits = match format >> 5 & 3 {
        0 => 8,
        2 => 10,
        _ => 12,
    };
    let (profile, level) = (profile >> 5, profile & 0x1f);
    Some(format!("av01.{profile}.{level:02}{tier}.{bits:02}"))
}

/// The object type is the first number of the configuration.
fn aac(record: &[u8]) -> Option<String> {
    let at = record.windows(2).skip(24).position(|it| it[0] == 5)?;
    let config = record.get(24 + at + 2..)?;
    let first = config.first()? >> 3;
    let object = match first {
        31 => 32 + (u32::from(config[0] & 7) << 3 | u32::from(config.get(1)? >> 5)),
        object => object.into(),
    };
    Some(format!("mp4a.40.{object}"))
}
