//! The description of a movie: its tracks, and which are played (ISO/IEC 14496-12
//! §8.2 to §8.4, §8.6.6 edit lists, §8.8.3 defaults of fragments).

use super::boxes::{InMemory, find};
use super::description;
use super::fragments::Defaults;
use super::samples;
use crate::container::lane::LaneBuilder;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;

pub(super) struct Movie {
    pub(super) lanes: Vec<Lane>,
}

/// A track that is played.
pub(super) struct Lane {
    pub(super) id: u32,
    pub(super) builder: LaneBuilder,
    pub(super) scale: Scale,
    pub(super) defaults: Defaults,
    /// When the next fragment begins that does not say, in ticks.
    pub(super) next_decode: i64,
    pub(super) budget: Budget,
}

/// What a track may still hold: tables of a few bytes can list any number of
/// units, that lie over each other or have no bytes.
pub(super) struct Budget {
    units: u32,
    bytes: u64,
}

impl Budget {
    pub(super) fn of(file_bytes: u64) -> Self {
        Self {
            units: SAMPLES_MAX,
            bytes: file_bytes,
        }
    }

    /// Takes a unit of so many bytes, which lies at `offset`.
    pub(super) fn take(&mut self, bytes: u64, offset: u64) -> Result<(), Fault> {
        self.units = self.units.checked_sub(1).ok_or_else(|| {
            Fault::too_large(
                offset,
                "an MP4 file",
                "a track",
                SAMPLES_MAX.into(),
                "units",
            )
        })?;
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| {
            let reason = "the units of a track are longer than the file";
            Fault::at(offset, Reason::Damaged(reason))
        })?;
        Ok(())
    }
}

/// Units of one track; more is damage.
const SAMPLES_MAX: u32 = 1 << 24;

/// From a track's ticks to nanoseconds of the movie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    ticks_a_second: u32,
    /// Ticks that the edit list cuts off at the start.
    media_time: i64,
    /// Nanoseconds of nothing before the first tick.
    delay_ns: i64,
    /// When the edit list ends, if it says.
    end_ns: Option<i64>,
}

impl Scale {
    pub(super) fn ns(&self, ticks: i64) -> i64 {
        let ticks = ticks.saturating_sub(self.media_time);
        self.delay_ns.saturating_add(self.span_ns(ticks))
    }

    /// So many ticks in nanoseconds.
    pub(super) fn span_ns(&self, ticks: i64) -> i64 {
        scaled(ticks, self.ticks_a_second)
    }

    /// When the presentation ends, if that is said.
    pub(super) fn end_ns(&self) -> Option<i64> {
        self.end_ns
    }
}

/// Rounded, so that a tick and its next stay as far apart as they are.
fn scaled(ticks: i64, ticks_a_second: u32) -> i64 {
    let scale = i128::from(ticks_a_second.max(1));
    let ns = (i128::from(ticks) * 1_000_000_000 + scale / 2).div_euclid(scale);
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

impl Movie {
    /// `body` of the moov box, which lies at `offset`.
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
        let mut lanes: Vec<Lane> = Vec::new();
        let mut others = Vec::new();
        for track in boxes.iter().filter(|found| found.kind == *b"trak") {
            let parts = Parts::read(track, movie_scale, warnings)?;
            let described = match parts.entry {
                Some(entry) => description::read(&entry, warnings)?,
                None => continue,
            };
            let described = match described {
                Ok(described) => described,
                Err(name) => {
                    others.push(format!("track {} ({name})", parts.id));
                    continue;
                }
            };
            let kind = described.track.kind();
            if lanes.iter().any(|lane| lane.builder.track.kind() == kind) {
                others.push(format!("track {} is the second of its kind", parts.id));
                continue;
            }
            let rate = samples::steady_rate(&parts.table, parts.scale.ticks_a_second)?;
            let builder = LaneBuilder::new(described, parts.scale.span_ns(1) + 1, rate);
            let of_track = |defaults: &&Defaults| defaults.track == parts.id;
            let mut lane = Lane {
                id: parts.id,
                builder,
                scale: parts.scale,
                defaults: defaults.iter().find(of_track).copied().unwrap_or_default(),
                next_decode: 0,
                budget: Budget::of(window.file_bytes()),
            };
            samples::read(&mut lane, &parts.table, window, warnings)?;
            lanes.push(lane);
        }
        if lanes.is_empty() {
            let what = match others.is_empty() {
                true => "it describes no track".to_owned(),
                false => format!("codings that are unknown: {}", others.join("; ")),
            };
            return Err(Fault::at(offset, Reason::NothingToPlay(what)));
        }
        if !others.is_empty() {
            let reason = WarningReason::OtherTrack(others.join("; "));
            warnings.add(Some(offset), reason);
        }
        Ok(Self { lanes })
    }
}

/// What is needed of a trak box.
struct Parts<'a> {
    id: u32,
    scale: Scale,
    /// The first sample entry.
    entry: Option<InMemory<'a>>,
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
        let entry = match find(&table, b"stsd") {
            Some(entries) => entries.inside(8)?.first().copied(),
            None => None,
        };
        Ok(Self {
            id: track_id(&header)?,
            scale,
            entry,
            table,
        })
    }
}

impl Scale {
    /// Follows an edit list: emptiness at the start, then the first stretch of
    /// media. More than that is rare, and would cut pictures apart that need each
    /// other.
    fn follow(
        &mut self,
        list: &InMemory<'_>,
        movie_scale: u32,
        warnings: &mut Warnings,
    ) -> Result<(), Fault> {
        let mut fields = list.fields();
        let (version, _) = fields.version()?;
        let mut found = false;
        for _ in 0..fields.u32()? {
            let duration = fields.wide(version)?;
            let media_time = match version {
                0 => i64::from(fields.array().map(i32::from_be_bytes)?),
                _ => fields.array().map(i64::from_be_bytes)?,
            };
            fields.u32()?;
            let span = scaled(i64::try_from(duration).unwrap_or(i64::MAX), movie_scale);
            if media_time >= 0 && found {
                warnings.add(Some(list.offset), WarningReason::Edits);
                self.end_ns = None;
                break;
            }
            if media_time >= 0 {
                found = true;
                self.media_time = media_time;
                let end = self.delay_ns.saturating_add(span);
                self.end_ns = (duration > 0).then_some(end);
            } else if !found {
                self.delay_ns = self.delay_ns.saturating_add(span);
            }
        }
        Ok(())
    }
}

/// Ticks a second, and the duration, of an mvhd or mdhd box.
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

fn track_id(header: &InMemory<'_>) -> Result<u32, Fault> {
    let mut fields = header.fields();
    let (version, _) = fields.version()?;
    fields.wide(version)?;
    fields.wide(version)?;
    fields.u32()
}
