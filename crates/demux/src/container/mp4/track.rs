//! State of a track while its units are collected: times, limits, and defaults of fragments
//! (ISO/IEC 14496-12 §8.6.6 edit lists, §8.8.3 defaults of fragments).

use glassline_media::Kind;

use super::boxes::InMemory;
use super::entries::SampleEntries;
use crate::container::indexed_track::{IndexedTrackBuilder, Sample};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;

/// A track that is played, while its units are collected.
pub(super) struct TrackState {
    pub(super) id: u32,
    pub(super) builder: IndexedTrackBuilder,
    pub(super) entries: SampleEntries,
    pub(super) scale: Scale,
    pub(super) defaults: Defaults,
    /// Decoding time of the next fragment that states none, in ticks.
    pub(super) next_decode: i64,
    pub(super) budget: Budget,
}

impl TrackState {
    /// Lets the sample entry with this number, from one, hold for the units that follow.
    pub(super) fn enter(&mut self, number: u32) {
        if let Some(coding) = self.entries.enter(number) {
            self.builder.change_coding(coding);
        }
    }

    /// Adds the next unit, if its sample entry is played.
    pub(super) fn push(&mut self, sample: Sample, window: &mut Window) -> Result<(), Fault> {
        let begins = sample.keyframe || self.builder.track.kind() != Kind::Video;
        if self.entries.takes(begins) {
            self.builder.push(sample, window)?;
        }
        Ok(())
    }
}

/// Units and bytes that a track may still have. Tables of a few bytes can list any number of
/// units that overlap or are empty.
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

    /// Counts a unit of `bytes` bytes, which lies at `offset` in the file.
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

/// Most units of one track; more of them are damage.
const SAMPLES_MAX: u32 = 1 << 24;

/// Conversion of a track's ticks to times of the movie in ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    pub(super) ticks_a_second: u32,
    /// Ticks that the edit list removes at the start.
    pub(super) media_time: i64,
    /// Time before the first tick in ns, during which nothing is presented.
    pub(super) delay_ns: i64,
    /// End of the edit list in ns, if it has one.
    pub(super) end_ns: Option<i64>,
}

impl Scale {
    pub(super) fn ns(&self, ticks: i64) -> i64 {
        let ticks = ticks.saturating_sub(self.media_time);
        self.delay_ns.saturating_add(self.span_ns(ticks))
    }

    /// Converts a number of ticks to ns.
    pub(super) fn span_ns(&self, ticks: i64) -> i64 {
        scaled(ticks, self.ticks_a_second)
    }

    /// Returns the end of the presentation in ns, if it is stated.
    pub(super) fn end_ns(&self) -> Option<i64> {
        self.end_ns
    }
}

/// Converts ticks to ns, rounded so that neighboring ticks keep their distance.
fn scaled(ticks: i64, ticks_a_second: u32) -> i64 {
    let scale = i128::from(ticks_a_second.max(1));
    let ns = (i128::from(ticks) * 1_000_000_000 + scale / 2).div_euclid(scale);
    i64::try_from(ns).unwrap_or(if ns < 0 { i64::MIN } else { i64::MAX })
}

impl Scale {
    /// Applies an edit list: empty edits at the start, then the first edit with media. Further
    /// edits are rare, and would separate frames that depend on each other.
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

/// Default values of units in fragments.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Defaults {
    pub(super) track: u32,
    /// Number of the sample entry, from one.
    pub(super) entry: u32,
    pub(super) duration: u32,
    pub(super) size: u32,
    pub(super) flags: u32,
}

impl Defaults {
    /// Reads a trex box.
    pub(super) fn read(extends: &InMemory<'_>) -> Result<Self, Fault> {
        let mut fields = extends.fields();
        fields.version()?;
        let track = fields.u32()?;
        Ok(Self {
            track,
            entry: fields.u32()?,
            duration: fields.u32()?,
            size: fields.u32()?,
            flags: fields.u32()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An edit list whose edits have a duration in ms of the movie and a time in ticks of the
    /// media (ISO/IEC 14496-12 §8.6.6).
    fn list(version: u8, edits: &[(u32, i32)]) -> Vec<u8> {
        let mut body = vec![version, 0, 0, 0];
        body.extend((edits.len() as u32).to_be_bytes());
        for (duration, time) in edits {
            if version == 0 {
                body.extend(duration.to_be_bytes());
                body.extend(time.to_be_bytes());
            } else {
                body.extend(u64::from(*duration).to_be_bytes());
                body.extend(i64::from(*time).to_be_bytes());
            }
            body.extend([0, 1, 0, 0]);
        }
        body
    }

    /// Delay in ms, first tick, end in ms, and number of warnings.
    fn followed(body: &[u8]) -> (i64, i64, Option<i64>, usize) {
        let mut scale = Scale {
            ticks_a_second: 90_000,
            media_time: 0,
            delay_ns: 0,
            end_ns: None,
        };
        let list = InMemory {
            kind: *b"elst",
            body,
            offset: 100,
        };
        let mut warnings = Warnings::default();
        let result = scale.follow(&list, 1_000, &mut warnings);
        assert!(result.is_ok(), "a good list");
        let given = warnings.of("file.mp4".as_ref()).count();
        let ms = |ns: i64| ns / 1_000_000;
        (
            ms(scale.delay_ns),
            scale.media_time,
            scale.end_ns.map(ms),
            given,
        )
    }

    #[test]
    fn empty_edits_delay_a_track_and_the_first_other_edit_cuts_it() {
        for version in [0, 1] {
            let of = |edits: &[_]| followed(&list(version, edits));
            assert_eq!(of(&[]), (0, 0, None, 0));
            assert_eq!(of(&[(2_000, 3_000)]), (0, 3_000, Some(2_000), 0));
            assert_eq!(of(&[(0, 3_000)]), (0, 3_000, None, 0), "to the end");
            let delayed = [(300, -1), (200, -1), (2_000, 0)];
            assert_eq!(of(&delayed), (500, 0, Some(2_500), 0));
            let gap_at_the_end = [(2_000, 0), (300, -1)];
            assert_eq!(of(&gap_at_the_end), (0, 0, Some(2_000), 0));
            let two = [(100, -1), (2_000, 9_000), (1_000, 900_000)];
            assert_eq!(
                of(&two),
                (100, 9_000, None, 1),
                "a second one is not followed"
            );
        }
    }

    #[test]
    fn a_list_that_is_cut_off_is_damaged() {
        let whole = list(0, &[(2_000, 3_000)]);
        let mut scale = Scale {
            ticks_a_second: 90_000,
            media_time: 0,
            delay_ns: 0,
            end_ns: None,
        };
        for bytes in 0..whole.len() {
            let list = InMemory {
                kind: *b"elst",
                body: &whole[..bytes],
                offset: 100,
            };
            let result = scale.follow(&list, 1_000, &mut Warnings::default());
            assert!(result.is_err(), "of {bytes} bytes");
        }
    }
}
