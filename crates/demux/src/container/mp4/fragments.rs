//! Parses fragments, which make a movie that was written piece by piece (ISO/IEC 14496-12
//! §8.8).

use super::boxes::{Fields, Head, InMemory, find};
use super::movie::Movie;
use super::track::{Defaults, TrackState};
use crate::container::indexed_track::Sample;
use crate::error::{Fault, WarningReason, Warnings};
use crate::window::Window;

/// Flag of a sample that is not a keyframe.
const NON_SYNC: u32 = 0x1_0000;

impl Movie {
    /// Reads the `body` of a moof box.
    pub(super) fn add_fragment(
        &mut self,
        body: &[u8],
        head: &Head,
        window: &mut Window,
        warnings: &mut Warnings,
    ) -> Result<(), Fault> {
        let boxes = InMemory::children(body, head.body)?;
        // Data of a track without a stated offset follow those of the track before.
        let mut data_end = head.start;
        for track in boxes.iter().filter(|found| found.kind == *b"traf") {
            let parts = track.inside(0)?;
            let missing = || track.damaged("a track of a fragment has no header");
            let header = find(&parts, b"tfhd").ok_or_else(missing)?;
            let (id, base) = Header::track_and_base(&header, head.start, data_end)?;
            let Some(state) = self.tracks.iter_mut().find(|state| state.id == id) else {
                continue;
            };
            let header = Header::read(&header, base, state.defaults)?;
            if let Some(time) = find(&parts, b"tfdt") {
                let mut fields = time.fields();
                let (version, _) = fields.version()?;
                let time = fields.wide(version)?;
                state.next_decode = i64::try_from(time).unwrap_or(i64::MAX);
            }
            state.enter(header.defaults.entry);
            data_end = header.base;
            for run in parts.iter().filter(|found| found.kind == *b"trun") {
                data_end = add_run(state, run, &header, data_end, window, warnings)?;
            }
        }
        Ok(())
    }
}

/// Fields of a tfhd box.
struct Header {
    base: u64,
    defaults: Defaults,
}

impl Header {
    fn track_and_base(
        header: &InMemory<'_>,
        fragment: u64,
        data_end: u64,
    ) -> Result<(u32, u64), Fault> {
        let mut fields = header.fields();
        let (_, flags) = fields.version()?;
        let track = fields.u32()?;
        let base = match flags {
            flags if flags & 1 != 0 => fields.u64()?,
            flags if flags & 0x2_0000 != 0 => fragment,
            _ => data_end,
        };
        Ok((track, base))
    }

    fn read(header: &InMemory<'_>, base: u64, mut defaults: Defaults) -> Result<Self, Fault> {
        let mut fields = header.fields();
        let (_, flags) = fields.version()?;
        fields.u32()?;
        if flags & 1 != 0 {
            fields.u64()?;
        }
        for (flag, value) in [
            (2, &mut defaults.entry),
            (8, &mut defaults.duration),
            (0x10, &mut defaults.size),
            (0x20, &mut defaults.flags),
        ] {
            if flags & flag != 0 {
                *value = fields.u32()?;
            }
        }
        Ok(Self { base, defaults })
    }
}

/// Reads a trun box. Returns the offset at which its data end.
fn add_run(
    state: &mut TrackState,
    run: &InMemory<'_>,
    header: &Header,
    data_end: u64,
    window: &mut Window,
    warnings: &mut Warnings,
) -> Result<u64, Fault> {
    let mut fields = run.fields();
    let (_, flags) = fields.version()?;
    let count = fields.u32()?;
    let mut offset = data_end;
    if flags & 1 != 0 {
        let by = fields.array().map(i32::from_be_bytes)?;
        let place = header.base.checked_add_signed(by.into());
        offset = place.ok_or_else(|| run.damaged("a run's data lie before the file"))?;
    }
    let first_flags = match flags & 4 != 0 {
        true => Some(fields.u32()?),
        false => None,
    };
    for place in 0..count {
        let unit = Unit::read(&mut fields, flags, header.defaults)?;
        let unit_flags = first_flags.filter(|_| place == 0).unwrap_or(unit.flags);
        let end = offset.saturating_add(unit.size.into());
        if end > window.file_bytes() {
            warnings.add(Some(window.file_bytes()), WarningReason::Truncated);
            break;
        }
        state.budget.take(unit.size.into(), offset)?;
        let start = state.next_decode.saturating_add(unit.composition.into());
        let sample = Sample {
            offset,
            length: unit.size.into(),
            start_ns: state.scale.ns(start),
            decode_ns: Some(state.scale.ns(state.next_decode)),
            duration_ns: Some(state.scale.span_ns(unit.duration.into())).filter(|&ns| ns > 0),
            keyframe: unit_flags & NON_SYNC == 0,
        };
        state.next_decode = state.next_decode.saturating_add(unit.duration.into());
        state.push(sample, window)?;
        offset = end;
    }
    Ok(offset)
}

/// One entry of a run.
struct Unit {
    duration: u32,
    size: u32,
    flags: u32,
    composition: i32,
}

impl Unit {
    fn read(fields: &mut Fields<'_>, flags: u32, defaults: Defaults) -> Result<Self, Fault> {
        let mut unit = Self {
            duration: defaults.duration,
            size: defaults.size,
            flags: defaults.flags,
            composition: 0,
        };
        for (flag, value) in [
            (0x100, &mut unit.duration),
            (0x200, &mut unit.size),
            (0x400, &mut unit.flags),
        ] {
            if flags & flag != 0 {
                *value = fields.u32()?;
            }
        }
        if flags & 0x800 != 0 {
            unit.composition = fields.array().map(i32::from_be_bytes)?;
        }
        Ok(unit)
    }
}
