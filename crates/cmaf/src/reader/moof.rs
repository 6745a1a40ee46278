//! The `prft` and `moof` boxes of a fragment, back into samples.

use std::time::Duration;

use crate::boxes::{BoxView, Fields};
use crate::fragment::{FragmentTrack, NON_SYNC, Sample};
use crate::header::Header;

/// Most samples of a track in a fragment: a run of that many packets of audio has minutes.
const SAMPLES_MAX: u32 = 1 << 20;

/// Seconds from 1900-01-01 to 1970-01-01.
const UNIX_OFFSET_S: u64 = 2_208_988_800;

/// A track of a fragment, and where its samples stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PlacedTrack {
    pub(super) track: FragmentTrack,
    /// Offset of the first sample from the start of the `moof` box.
    pub(super) offset: u64,
}

/// Returns the wall-clock time in the body of a `prft` box, since 1970-01-01 UTC.
pub(super) fn wall_clock(body: &[u8]) -> Option<Duration> {
    let mut fields = Fields(body);
    let (_, _) = fields.version()?;
    let _track = fields.u32()?;
    let time = fields.u64()?;
    // Seconds wrap in 2036; no recording is from before 1970.
    let (seconds, fraction) = (time >> 32, time & 0xffff_ffff);
    let seconds = match seconds.checked_sub(UNIX_OFFSET_S) {
        Some(seconds) => seconds,
        None => seconds + (1 << 32) - UNIX_OFFSET_S,
    };
    let nanos = (fraction * 1_000_000_000).div_ceil(1 << 32);
    Some(Duration::from_secs(seconds) + Duration::from_nanos(nanos))
}

/// Parses the body of a `moof` box; `None` if it is not as this crate writes it.
pub(super) fn tracks(body: &[u8], header: &Header) -> Option<Vec<PlacedTrack>> {
    let tracks = BoxView::all(body).filter(|it| it.kind == *b"traf");
    let tracks: Option<Vec<_>> = tracks.map(|it| track(it.body, header)).collect();
    let tracks = tracks.filter(|tracks| !tracks.is_empty())?;
    let mut positions = tracks
        .windows(2)
        .map(|it| [it[0].track.position, it[1].track.position]);
    positions
        .all(|[before, after]| before < after)
        .then_some(tracks)
}

fn track(body: &[u8], header: &Header) -> Option<PlacedTrack> {
    let mut fields = BoxView::find(body, b"tfhd")?.fields();
    let (_, flags) = fields.version()?;
    let number = fields.u32()?;
    let position = number.checked_sub(1)? as usize;
    header.tracks().get(position)?;
    // Offsets that count from elsewhere, and other sample entries, are not written.
    if flags & 0x2_0003 != 0x2_0000 {
        return None;
    }
    let mut default = |flag: u32| match flags & flag {
        0 => Some(0),
        _ => fields.u32(),
    };
    let duration = default(0x8)?;
    let _size = default(0x10)?;
    let defaults = Defaults {
        duration,
        flags: default(0x20)?,
    };
    let mut fields = BoxView::find(body, b"tfdt")?.fields();
    let (version, _) = fields.version()?;
    let decode_ticks = fields.wide(version)?;
    let run = BoxView::find(body, b"trun")?;
    let (offset, samples) = samples(run.fields(), &defaults)?;
    let track = FragmentTrack {
        position,
        decode_ticks,
        samples,
    };
    let end = decode_ticks.checked_add(track.duration_ticks())?;
    // Times stay far within the range of signed numbers.
    (end < i64::MAX as u64 / 2).then_some(PlacedTrack { track, offset })
}

/// Values of samples that state none.
struct Defaults {
    duration: u32,
    flags: u32,
}

/// Reads a run: the offset of its media, and its samples.
fn samples(mut fields: Fields<'_>, defaults: &Defaults) -> Option<(u64, Vec<Sample>)> {
    let (_, flags) = fields.version()?;
    let count = fields
        .u32()
        .filter(|count| (1..=SAMPLES_MAX).contains(count))?;
    // Without an offset or sizes it is not of this crate; with sizes, samples cost bytes.
    if flags & 0x201 != 0x201 {
        return None;
    }
    let offset = u64::try_from(fields.i32()?).ok()?;
    let first = match flags & 4 {
        0 => None,
        _ => Some(fields.u32()?),
    };
    let words = (flags & 0xf00).count_ones() as usize;
    // A run that claims more samples than it has room for allocates nothing.
    if fields.0.len() / (4 * words) < count as usize {
        return None;
    }
    let mut samples = Vec::with_capacity(count as usize);
    for place in 0..count {
        let mut field = |flag: u32, default: u32| match flags & flag {
            0 => Some(default),
            _ => fields.u32(),
        };
        let duration = field(0x100, defaults.duration)?;
        let size = field(0x200, 0)?;
        let stated = field(0x400, defaults.flags)?;
        let composition = field(0x800, 0)?.cast_signed();
        let stated = first.filter(|_| place == 0).unwrap_or(stated);
        samples.push(Sample {
            size,
            duration,
            composition,
            sync: stated & NON_SYNC == 0,
        });
    }
    Some((offset, samples))
}
