//! A track while its units are collected: its times, its limits, and what fragments
//! leave unsaid (ISO/IEC 14496-12 §8.6.6 edit lists, §8.8.3 defaults of fragments).

use super::boxes::InMemory;
use crate::container::lane::LaneBuilder;
use crate::error::{Fault, Reason, WarningReason, Warnings};

/// A track that is played.
pub(super) struct TrackState {
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
    pub(super) ticks_a_second: u32,
    /// Ticks that the edit list cuts off at the start.
    pub(super) media_time: i64,
    /// Nanoseconds of nothing before the first tick.
    pub(super) delay_ns: i64,
    /// When the edit list ends, if it says.
    pub(super) end_ns: Option<i64>,
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

impl Scale {
    /// Follows an edit list: emptiness at the start, then the first stretch of
    /// media. More than that is rare, and would cut frames apart that need each
    /// other.
    pub(super) fn follow(
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

/// What holds for units of which a fragment does not say it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    pub(super) track: u32,
    pub(super) duration: u32,
    pub(super) size: u32,
    pub(super) flags: u32,
}

impl Defaults {
    /// A trex box.
    pub(super) fn read(extends: &InMemory<'_>) -> Result<Self, Fault> {
        let mut fields = extends.fields();
        fields.version()?;
        let track = fields.u32()?;
        fields.u32()?;
        Ok(Self {
            track,
            duration: fields.u32()?,
            size: fields.u32()?,
            flags: fields.u32()?,
        })
    }
}
