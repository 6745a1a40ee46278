//! Parses the sample table: locations and durations of a track's units, and which are keyframes
//! (ISO/IEC 14496-12 §8.6, §8.7). The tables are read entry by entry, and are not expanded in
//! memory.

use glassline_media::Kind;

use super::boxes::{Fields, InMemory, find};
use super::track::TrackState;
use crate::FrameRate;
use crate::container::coding::Coding;
use crate::container::indexed_track::Sample;
use crate::error::{Fault, WarningReason, Warnings};
use crate::window::Window;

/// Returns the frame rate, if all frames have the same duration.
pub(super) fn steady_rate(
    table: &[InMemory<'_>],
    ticks_a_second: u32,
) -> Result<Option<FrameRate>, Fault> {
    let Some(times) = find(table, b"stts") else {
        return Ok(None);
    };
    let mut fields = times.fields();
    fields.version()?;
    let entries = fields.table::<8>()?;
    let delta = |entry: &[u8; 8]| u32::from_be_bytes([entry[4], entry[5], entry[6], entry[7]]);
    // The last frame often has another duration.
    let steady = match entries {
        [one] => Some(delta(one)),
        [all, [0, 0, 0, 1, ..]] => Some(delta(all)),
        _ => None,
    };
    Ok(steady.and_then(|delta| FrameRate::new(ticks_a_second.into(), delta.into())))
}

/// Adds the units of the sample table to the track's index.
pub(super) fn read(
    state: &mut TrackState,
    table: &[InMemory<'_>],
    window: &mut Window,
    warnings: &mut Warnings,
) -> Result<(), Fault> {
    let Some(sizes) = find(table, b"stsz").or_else(|| find(table, b"stz2")) else {
        return Ok(());
    };
    let mut tables = Tables {
        sizes: Sizes::read(&sizes)?,
        durations: Runs::find(table, b"stts")?,
        compositions: Runs::find(table, b"ctts")?,
        keyframes: Keyframes::find(table)?,
        per_chunk: PerChunk::find(table)?,
        taken: 0,
        decode: 0,
    };
    let wide = find(table, b"co64");
    let Some(chunks) = wide.or_else(|| find(table, b"stco")) else {
        return Ok(());
    };
    let mut fields = chunks.fields();
    fields.version()?;
    let (narrow, wide) = match wide {
        Some(_) => (&[][..], fields.table::<8>()?),
        None => (fields.table::<4>()?, &[][..]),
    };
    let narrow = narrow.iter().map(|&entry| u32::from_be_bytes(entry).into());
    let wide = wide.iter().map(|&entry| u64::from_be_bytes(entry));
    for (number, offset) in (1..).zip(narrow.chain(wide)) {
        let (count, entry) = tables.per_chunk.of(number);
        state.enter(entry);
        let goes_on = match *state.builder.coding() {
            Coding::Pcm(pcm) => {
                let frame_bytes = pcm.frame_bytes();
                tables.take_samples(state, offset, count, frame_bytes, window, warnings)?
            }
            _ => tables.take_chunk(state, offset, count, window, warnings)?,
        };
        if !goes_on {
            break;
        }
    }
    tables.trim(state);
    Ok(())
}

struct Tables<'a> {
    sizes: Sizes<'a>,
    durations: Runs<'a>,
    compositions: Runs<'a>,
    keyframes: Keyframes<'a>,
    per_chunk: PerChunk<'a>,
    /// Number of units read so far.
    taken: u32,
    /// Decoding time of the next unit, in ticks.
    decode: i64,
}

impl Tables<'_> {
    /// Adds `count` units from `offset` on. Returns false at the end of the table or of the
    /// file.
    fn take_chunk(
        &mut self,
        state: &mut TrackState,
        mut offset: u64,
        count: u32,
        window: &mut Window,
        warnings: &mut Warnings,
    ) -> Result<bool, Fault> {
        for _ in 0..count {
            let Some(length) = self.sizes.of(self.taken) else {
                return Ok(false);
            };
            let end = offset.saturating_add(length.into());
            if end > window.file_bytes() {
                warnings.add(Some(window.file_bytes()), WarningReason::Truncated);
                return Ok(false);
            }
            state.budget.take(length.into(), offset)?;
            let keyframe = self.keyframes.has(self.taken + 1);
            self.taken += 1;
            let duration = i64::from(self.durations.next().unwrap_or(0));
            let composition = i64::from(self.compositions.next().unwrap_or(0).cast_signed());
            let start = self.decode.saturating_add(composition);
            let sample = Sample {
                offset,
                length: length.into(),
                start_ns: state.scale.ns(start),
                decode_ns: Some(state.scale.ns(self.decode)),
                duration_ns: Some(state.scale.span_ns(duration)).filter(|&ns| ns > 0),
                keyframe,
            };
            self.decode = self.decode.saturating_add(duration);
            state.push(sample, window)?;
            offset = end;
        }
        Ok(true)
    }

    /// Adds a chunk of `count` PCM samples of `frame_bytes` each. The table of their sizes is
    /// ignored, because QuickTime writes 1 for each.
    fn take_samples(
        &mut self,
        state: &mut TrackState,
        offset: u64,
        count: u32,
        frame_bytes: u32,
        window: &mut Window,
        warnings: &mut Warnings,
    ) -> Result<bool, Fault> {
        let wanted = u64::from(count) * u64::from(frame_bytes);
        let length = wanted.min(window.file_bytes().saturating_sub(offset));
        state.budget.take(length, offset)?;
        let start_ns = state.scale.ns(self.decode);
        let sample = Sample {
            offset,
            length,
            start_ns,
            decode_ns: None,
            duration_ns: None,
            keyframe: true,
        };
        self.decode = self.decode.saturating_add(count.into());
        state.push(sample, window)?;
        if length < wanted {
            warnings.add(Some(window.file_bytes()), WarningReason::Truncated);
        }
        Ok(length == wanted)
    }

    /// Drops audio behind the end of the edit list.
    fn trim(&self, state: &mut TrackState) {
        let is_audio = state.builder.track.kind() == Kind::Audio;
        if let Some(end_ns) = state.scale.end_ns().filter(|_| is_audio) {
            state.builder.end_at(end_ns);
        }
    }
}

/// Lengths of the units in bytes.
enum Sizes<'a> {
    Equal(u32, u32),
    Words(&'a [[u8; 4]]),
    /// Lengths of 4, 8 or 16 bits each.
    Small(u8, &'a [u8], u32),
}

impl<'a> Sizes<'a> {
    fn read(sizes: &InMemory<'a>) -> Result<Self, Fault> {
        let mut fields = sizes.fields();
        fields.version()?;
        let size = fields.u32()?;
        if sizes.kind == *b"stz2" {
            let count = fields.u32()?;
            let bits = size as u8;
            let needed = u64::from(count) * u64::from(bits);
            let known =
                matches!(bits, 4 | 8 | 16) && needed.div_ceil(8) <= fields.rest.len() as u64;
            return match known {
                true => Ok(Self::Small(bits, fields.rest, count)),
                false => Err(sizes.damaged("the table of sizes is damaged")),
            };
        }
        Ok(match size {
            0 => Self::Words(fields.table()?),
            size => Self::Equal(size, fields.u32()?),
        })
    }

    fn of(&self, place: u32) -> Option<u32> {
        let at = place as usize;
        match *self {
            Self::Equal(size, count) => (place < count).then_some(size),
            Self::Words(words) => words.get(at).map(|&word| u32::from_be_bytes(word)),
            Self::Small(..) if place >= self.count() => None,
            Self::Small(4, bytes, _) => {
                let byte = *bytes.get(at / 2)?;
                Some(
                    (if at.is_multiple_of(2) {
                        byte >> 4
                    } else {
                        byte & 15
                    })
                    .into(),
                )
            }
            Self::Small(8, bytes, _) => bytes.get(at).map(|&byte| byte.into()),
            Self::Small(_, bytes, _) => {
                let size = bytes.get(at * 2..)?.first_chunk()?;
                Some(u16::from_be_bytes(*size).into())
            }
        }
    }

    fn count(&self) -> u32 {
        match *self {
            Self::Equal(_, count) | Self::Small(_, _, count) => count,
            Self::Words(words) => u32::try_from(words.len()).unwrap_or(u32::MAX),
        }
    }
}

/// Values of samples, as runs of equal values (`stts`, `ctts`).
#[derive(Default)]
struct Runs<'a> {
    entries: &'a [[u8; 8]],
    left: u32,
    value: u32,
}

impl<'a> Runs<'a> {
    fn find(table: &[InMemory<'a>], kind: &[u8; 4]) -> Result<Self, Fault> {
        let Some(found) = find(table, kind) else {
            return Ok(Self::default());
        };
        let mut fields: Fields<'a> = found.fields();
        fields.version()?;
        Ok(Self {
            entries: fields.table()?,
            ..Self::default()
        })
    }
}

impl Iterator for Runs<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.left == 0 {
            let (&[a, b, c, d, e, f, g, h], rest) = self.entries.split_first()?;
            self.entries = rest;
            self.left = u32::from_be_bytes([a, b, c, d]);
            self.value = u32::from_be_bytes([e, f, g, h]);
        }
        self.left -= 1;
        Some(self.value)
    }
}

/// Numbers of the keyframes, from one, ascending. Without the table all units are keyframes.
struct Keyframes<'a>(Option<&'a [[u8; 4]]>);

impl<'a> Keyframes<'a> {
    fn find(table: &[InMemory<'a>]) -> Result<Self, Fault> {
        let Some(found) = find(table, b"stss") else {
            return Ok(Self(None));
        };
        let mut fields = found.fields();
        fields.version()?;
        Ok(Self(Some(fields.table()?)))
    }

    /// Returns whether the unit is a keyframe. Calls must have ascending numbers.
    fn has(&mut self, number: u32) -> bool {
        let Some(numbers) = &mut self.0 else {
            return true;
        };
        while let [first, rest @ ..] = numbers {
            match u32::from_be_bytes(*first) {
                listed if listed < number => *numbers = rest,
                listed => return listed == number,
            }
        }
        false
    }
}

/// Numbers of units in each chunk and of their sample entry, which hold from a chunk on.
struct PerChunk<'a> {
    entries: &'a [[u8; 12]],
    count: u32,
    entry: u32,
}

impl<'a> PerChunk<'a> {
    fn find(table: &[InMemory<'a>]) -> Result<Self, Fault> {
        let entries = match find(table, b"stsc") {
            Some(found) => {
                let mut fields = found.fields();
                fields.version()?;
                fields.table()?
            }
            None => &[],
        };
        Ok(Self {
            entries,
            count: 0,
            entry: 1,
        })
    }

    /// Returns the number of units in a chunk, and that of their sample entry. Calls must have ascending numbers, from one.
    fn of(&mut self, chunk: u32) -> (u32, u32) {
        while let [[a, b, c, d, e, f, g, h, entry @ ..], rest @ ..] = self.entries {
            if u32::from_be_bytes([*a, *b, *c, *d]) > chunk {
                break;
            }
            self.count = u32::from_be_bytes([*e, *f, *g, *h]);
            self.entry = u32::from_be_bytes(*entry);
            self.entries = rest;
        }
        (self.count, self.entry)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_repeat_their_values() {
        let entries = [[0, 0, 0, 2, 0, 0, 0, 7], [0; 8], [0, 0, 0, 1, 0, 0, 0, 9]];
        let runs = Runs {
            entries: &entries,
            ..Runs::default()
        };
        assert_eq!(runs.collect::<Vec<_>>(), [7, 7, 9]);
    }

    #[test]
    fn sizes_of_all_widths() {
        let all = |sizes: &Sizes<'_>| (0..9).map_while(|at| sizes.of(at)).collect::<Vec<_>>();
        assert_eq!(all(&Sizes::Equal(5, 2)), [5, 5]);
        assert_eq!(all(&Sizes::Words(&[[0, 0, 1, 0], [0; 4]])), [256, 0]);
        assert_eq!(all(&Sizes::Small(4, &[0x12, 0x30], 3)), [1, 2, 3]);
        assert_eq!(all(&Sizes::Small(8, &[1, 2], 2)), [1, 2]);
        assert_eq!(all(&Sizes::Small(16, &[1, 0, 0, 9], 2)), [256, 9]);
    }

    #[test]
    fn keyframes_and_chunks_are_looked_up_in_order() {
        let mut keyframes = Keyframes(Some(&[[0, 0, 0, 1], [0, 0, 0, 3]]));
        assert_eq!(
            [1, 2, 3, 4].map(|it| keyframes.has(it)),
            [true, false, true, false]
        );
        let entry = |first, count, number| [0, 0, 0, first, 0, 0, 0, count, 0, 0, 0, number];
        let entries = [entry(1, 5, 1), entry(3, 2, 2)];
        let mut per_chunk = PerChunk {
            entries: &entries,
            count: 0,
            entry: 1,
        };
        let expected = [(5, 1), (5, 1), (2, 2), (2, 2)];
        assert_eq!([1, 2, 3, 4].map(|it| per_chunk.of(it)), expected);
    }
}
