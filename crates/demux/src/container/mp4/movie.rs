//! Parses the description of a movie: its tracks (ISO/IEC 14496-12 §8.2 to §8.4). Selects those
//! that are played.

use super::boxes::{InMemory, find};
use super::entries::{Descriptions, SampleEntries};
use super::samples;
use super::track::{Budget, Defaults, Scale, TrackState};
use crate::container::indexed_track::IndexedTrackBuilder;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;

pub(super) struct Movie {
    pub(super) tracks: Vec<TrackState>,
}

impl Movie {
    /// Reads the `body` of the moov box, which lies at `offset` in the file.
    pub(super) fn read(
        body: &[u8],
        offset: u64,
        window: &mut Window,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let boxes = InMemory::children(body, offset)?;
        let movie_scale = match find(&boxes, b"mvhd") {
            Some(header) => timescale(&header)?.0,
            None => 1000,
        };
        let mut defaults = Vec::new();
        if let Some(extends) = find(&boxes, b"mvex") {
            for extends in extends.inside(0)? {
                if extends.kind == *b"trex" {
                    defaults.push(Defaults::read(&extends)?);
                }
            }
        }
        let mut tracks: Vec<TrackState> = Vec::new();
        let mut others = Vec::new();
        for track in boxes.iter().filter(|found| found.kind == *b"trak") {
            let parts = Parts::read(track, movie_scale, warnings)?;
            if parts.entries.is_empty() {
                continue;
            }
            let Descriptions { first, all } = match Descriptions::read(&parts.entries, warnings)? {
                Ok(descriptions) => descriptions,
                Err(name) => {
                    others.push(format!("track {} ({name})", parts.id));
                    continue;
                }
            };
            let kind = first.track.kind();
            if tracks
                .iter()
                .any(|state| state.builder.track.kind() == kind)
            {
                others.push(format!("track {} is the second of its kind", parts.id));
                continue;
            }
            let rate = samples::steady_rate(&parts.table, parts.scale.ticks_a_second)?;
            let mut builder = IndexedTrackBuilder::new(first, parts.scale.span_ns(1) + 1, rate);
            let of_track = |defaults: &&Defaults| defaults.track == parts.id;
            let mut state = TrackState {
                id: parts.id,
                entries: SampleEntries::new(all, &mut builder),
                builder,
                scale: parts.scale,
                defaults: defaults.iter().find(of_track).copied().unwrap_or_default(),
                next_decode: 0,
                budget: Budget::of(window.file_bytes()),
            };
            samples::read(&mut state, &parts.table, window, warnings)?;
            tracks.push(state);
        }
        if tracks.is_empty() {
            let what = match others.is_empty() {
                true => "it describes no track".to_owned(),
                false => format!("unknown codings: {}", others.join("; ")),
            };
            return Err(Fault::at(offset, Reason::NothingToPlay(what)));
        }
        if !others.is_empty() {
            let reason = WarningReason::OtherTrack(others.join("; "));
            warnings.add(Some(offset), reason);
        }
        Ok(Self { tracks })
    }

    /// Warns of units whose sample entry is not played, after all units are known.
    pub(super) fn warn(&self, warnings: &mut Warnings) {
        let left = self.tracks.iter().filter_map(|state| {
            let left = state.entries.left()?;
            Some(format!("track {}: {left}", state.id))
        });
        let left: Vec<String> = left.collect();
        if !left.is_empty() {
            warnings.add(None, WarningReason::OtherEntries(left.join("; ")));
        }
    }
}

/// The parts of a trak box that are needed.
struct Parts<'a> {
    id: u32,
    scale: Scale,
    /// Sample entries of the `stsd` box, one for each set of codec parameters.
    entries: Vec<InMemory<'a>>,
    /// The boxes of the sample table.
    table: Vec<InMemory<'a>>,
}

impl<'a> Parts<'a> {
    fn read(
        track: &InMemory<'a>,
        movie_scale: u32,
        warnings: &mut Warnings,
    ) -> Result<Self, Fault> {
        let boxes = track.inside(0)?;
        let missing = || track.damaged("a box that describes a track is missing");
        let header = find(&boxes, b"tkhd").ok_or_else(missing)?;
        let media = find(&boxes, b"mdia").ok_or_else(missing)?.inside(0)?;
        let media_header = find(&media, b"mdhd").ok_or_else(missing)?;
        let (ticks_a_second, _) = timescale(&media_header)?;
        let mut scale = Scale {
            ticks_a_second,
            media_time: 0,
            delay_ns: 0,
            end_ns: None,
        };
        if let Some(edits) = find(&boxes, b"edts")
            && let Some(list) = find(&edits.inside(0)?, b"elst")
        {
            scale.follow(&list, movie_scale, warnings)?;
        }
        let information = find(&media, b"minf").ok_or_else(missing)?.inside(0)?;
        let table = find(&information, b"stbl").ok_or_else(missing)?.inside(0)?;
        let entries = match find(&table, b"stsd") {
            Some(entries) => entries.inside(8)?,
            None => Vec::new(),
        };
        let turn = turn(header.body);
        if turn != 0 {
            let reason = WarningReason::Turned(turn);
            warnings.add(Some(header.offset), reason);
        }
        Ok(Self {
            id: track_id(&header)?,
            scale,
            entries,
            table,
        })
    }
}

/// Returns ticks per second and duration from an mvhd or mdhd box.
fn timescale(header: &InMemory<'_>) -> Result<(u32, u64), Fault> {
    let mut fields = header.fields();
    let (version, _) = fields.version()?;
    fields.wide(version)?;
    fields.wide(version)?;
    let scale = fields.u32()?;
    if scale == 0 {
        return Err(header.damaged("a track has no ticks in a second"));
    }
    Ok((scale, fields.wide(version)?))
}

/// Returns by how many degrees clockwise a track header asks to turn the video, in quarters; 0 if its
/// matrix does anything else (ISO/IEC 14496-12 §6.2.2 and §8.3.2).
fn turn(header: &[u8]) -> u16 {
    // Times and duration have 32 or 64 bits.
    let matrix = if header.first() == Some(&1) { 52 } else { 40 };
    let sign = |place: usize| {
        let at = matrix + 4 * place;
        let number = header.get(at..at + 4)?.first_chunk()?;
        Some(i32::from_be_bytes(*number).signum())
    };
    match [0, 1, 3, 4].map(sign) {
        [Some(0), Some(1), Some(-1), Some(0)] => 90,
        [Some(-1), Some(0), Some(0), Some(-1)] => 180,
        [Some(0), Some(-1), Some(1), Some(0)] => 270,
        _ => 0,
    }
}

fn track_id(header: &InMemory<'_>) -> Result<u32, Fault> {
    let mut fields = header.fields();
    let (version, _) = fields.version()?;
    fields.wide(version)?;
    fields.wide(version)?;
    fields.u32()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_matrix_of_a_quarter_turn_is_told() {
        let header = |version: u8, matrix: [i32; 4]| {
            let mut header = vec![0; if version == 1 { 52 } else { 40 }];
            header[0] = version;
            let [a, b, c, d] = matrix;
            for number in [a, b, 0, c, d, 0, 0, 0, 1 << 30] {
                header.extend(number.to_be_bytes());
            }
            header
        };
        let one = 1 << 16;
        for version in [0, 1] {
            for (matrix, expected) in [
                ([one, 0, 0, one], 0),
                ([0, one, -one, 0], 90),
                ([-one, 0, 0, -one], 180),
                ([0, -one, one, 0], 270),
                ([-one, 0, 0, one], 0),
            ] {
                assert_eq!(turn(&header(version, matrix)), expected, "{matrix:?}");
            }
        }
        assert_eq!(turn(&[0; 41]), 0, "it is cut off");
    }
}
