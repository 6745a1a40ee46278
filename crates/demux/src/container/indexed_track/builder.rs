//! The index of one track, which is built while the file is read.

use std::io::Cursor;

use bytes::Bytes;
use glassline_media::{Kind, MediaTime, Track};

use super::clock::Clock;
use super::codings::Codings;
use super::units::{BARE, Entry, IndexedTrack, KEYFRAME, LENGTH, UNIT_BYTES_MAX};
use crate::FrameRate;
use crate::container::coding::{Coding, Described, Timing, UnitFacts};
use crate::container::pcm::Pcm;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;

/// Most units of one track: 6 days at 30 per second. Their index takes 400 MB.
const UNITS_MAX: usize = 1 << 24;

/// Most time in ns between decoding and presentation of a frame; a larger distance is a damaged
/// time.
const LEAD_NS_MAX: i64 = 2_000_000_000;

/// Most damaged units before the first good one. More of them mean that the file is not what it says.
const DAMAGED_AT_START_MAX: u64 = 16;

/// Duration in ns that is assumed for a last frame without a stated one.
const FRAME_NS: i64 = 40_000_000;

/// Longest duration in ns of audio or text until the next unit; a longer gap means that the
/// unit ended before.
const UNIT_NS_MAX: i64 = 4_000_000_000;

/// Limit of times in ns: larger ones are cut to 292 years divided by four, so that sums of two
/// still fit.
const TIME_NS_MAX: i64 = i64::MAX / 4;

/// A unit as a container's parser finds it. PCM audio may have many samples at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    pub(crate) offset: u64,
    pub(crate) length: u64,
    pub(crate) start_ns: i64,
    /// Decoding time in ns on any rising scale, as the container states it; `None` if it states
    /// none.
    pub(crate) decode_ns: Option<i64>,
    /// Duration in ns, if the container states one.
    pub(crate) duration_ns: Option<i64>,
    /// Whether the container says that a decoder can start here.
    pub(crate) keyframe: bool,
}

/// Builds the index of a track.
pub(crate) struct IndexedTrackBuilder {
    pub(crate) track: Track,
    codings: Codings,
    /// Whether the next unit is the first one of another coding.
    has_changed: bool,
    /// Sampling rate in Hz that times of audio are counted in.
    sample_rate: u32,
    timing: Timing,
    /// Resolution of the container's times, in ns.
    tick_ns: i64,
    entries: Vec<Entry>,
    decodes: Vec<i64>,
    /// Whether the track has had a unit, which may have been taken out.
    has_begun: bool,
    clock: Clock,
    /// Duration of the last unit in ns.
    duration_ns: Option<i64>,
    /// Nanoseconds at the end that must not be played.
    pub(crate) trimmed_ns: i64,
    before_keyframe: u64,
    first_skipped: u64,
    /// Number of damaged units, and where the first one is.
    damaged: u64,
    first_damaged: u64,
}

impl IndexedTrackBuilder {
    /// Starts an empty index. `tick_ns`: largest rounding error of the container's times.
    /// `rate`: frame rate, if the container states one.
    pub(crate) fn new(described: Described, tick_ns: i64, rate: Option<FrameRate>) -> Self {
        Self {
            track: described.track,
            codings: Codings::new(vec![described.coding]),
            has_changed: false,
            sample_rate: described.sample_rate.max(1),
            timing: described.timing,
            tick_ns,
            entries: Vec::new(),
            decodes: Vec::new(),
            has_begun: false,
            clock: Clock::new(rate),
            duration_ns: None,
            trimmed_ns: 0,
            before_keyframe: 0,
            first_skipped: 0,
            damaged: 0,
            first_damaged: 0,
        }
    }

    /// Adds a coding that units may have, and returns its place; that of the first one is 0.
    pub(crate) fn add_coding(&mut self, coding: Coding) -> usize {
        self.codings.add(coding)
    }

    /// Lets the coding at `place` hold for the units that follow.
    pub(crate) fn change_coding(&mut self, place: usize) {
        let unit = u32::try_from(self.entries.len()).unwrap_or(u32::MAX);
        self.has_changed |= self.codings.change(place, unit);
    }

    /// Returns the coding of the units that follow.
    pub(crate) fn coding(&self) -> &Coding {
        self.codings.current()
    }

    /// Examines and adds the next unit in decoding order. Returns the end of the unit in ns,
    /// for containers that state the time of the first of several units only.
    pub(crate) fn push(&mut self, sample: Sample, window: &mut Window) -> Result<i64, Fault> {
        let sample = Sample {
            start_ns: sample.start_ns.clamp(-TIME_NS_MAX, TIME_NS_MAX),
            ..sample
        };
        if sample.length == 0 {
            return Ok(sample.start_ns);
        }
        if let Coding::Pcm(pcm) = *self.codings.current() {
            return self.push_samples(pcm, sample);
        }
        let too_large = || self.too_large("a unit", UNIT_BYTES_MAX.into(), "bytes", sample.offset);
        let length = u32::try_from(sample.length).ok();
        let length = length.filter(|&length| length <= UNIT_BYTES_MAX);
        let length = length.ok_or_else(too_large)?;
        let examined = Described::examine(
            self.codings.current_mut(),
            &mut self.timing,
            &mut self.track,
            window,
            sample.offset,
            length,
        );
        let facts = match examined {
            Ok(facts) => facts,
            // One damaged frame is no reason to refuse a film.
            Err(Fault {
                reason: Reason::Damaged(_),
                ..
            }) if self.has_begun || self.damaged < DAMAGED_AT_START_MAX => {
                self.skip_damaged(sample.offset);
                return Ok(sample.start_ns + sample.duration_ns.unwrap_or(0).clamp(0, TIME_NS_MAX));
            }
            Err(fault) => return Err(fault),
        };
        self.push_examined(sample, length, facts)
    }

    /// Adds the next unit in decoding order, which has `length` bytes. Returns the end of the unit
    /// in ns.
    pub(crate) fn push_examined(
        &mut self,
        sample: Sample,
        length: u32,
        facts: UnitFacts,
    ) -> Result<i64, Fault> {
        let counted = facts.samples.map(|samples| self.samples_ns(samples.into()));
        let duration_ns = counted.or(sample.duration_ns);
        let keyframe = sample.keyframe && facts.keyframe;
        let start_ns = match self.track.kind() {
            Kind::Video if !self.has_begun && !keyframe => {
                self.skip_before_keyframe(sample.offset);
                return Ok(sample.start_ns);
            }
            Kind::Video => {
                let decode = sample.decode_ns.unwrap_or(sample.start_ns);
                self.decodes.push(decode.clamp(-TIME_NS_MAX, TIME_NS_MAX));
                self.clock.frame(sample.start_ns, self.tick_ns)
            }
            Kind::Audio => {
                self.clock
                    .audio(sample.start_ns, duration_ns, self.sample_rate, self.tick_ns)
            }
            Kind::Text => sample.start_ns,
        };
        let flags = if keyframe { KEYFRAME } else { 0 };
        let is_first_of_coding = std::mem::take(&mut self.has_changed);
        let needs_headers = keyframe || is_first_of_coding;
        let bare = if needs_headers && facts.bare { BARE } else { 0 };
        self.add(sample.offset, length | flags | bare, start_ns, duration_ns)?;
        Ok(start_ns + duration_ns.unwrap_or(0).clamp(0, TIME_NS_MAX))
    }

    /// Converts a unit that this index does not have: another reader has found the unit, and whether a
    /// decoder can start with the unit.
    pub(crate) fn convert(&mut self, bytes: Vec<u8>, keyframe: bool) -> Result<Bytes, Fault> {
        let bytes = Bytes::from(bytes);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        let mut window = Window::new(Box::new(Cursor::new(bytes.clone())))?;
        let facts = Described::examine(
            self.codings.current_mut(),
            &mut self.timing,
            &mut self.track,
            &mut window,
            0,
            length,
        )?;
        drop(window);
        let is_bare = keyframe && facts.bare;
        Ok(self.codings.current().unit(bytes.into(), is_bare))
    }

    /// Drops the units that begin at `end_ns` or later. A unit that lasts beyond it is trimmed
    /// when the track is finished.
    pub(crate) fn end_at(&mut self, end_ns: i64) {
        let before = |entry: &&Entry| entry.start_ns < end_ns;
        let kept = self.entries.iter().take_while(before).count();
        self.entries.truncate(kept);
        let last = self.entries.last();
        let end = last.map(|entry| entry.start_ns + i64::from(entry.span_ns));
        self.trimmed_ns = end.map_or(0, |end| end.saturating_sub(end_ns).max(0));
    }

    /// Adds the next unit without examining it, for a container that states exact times of all
    /// units.
    pub(crate) fn push_timed(
        &mut self,
        offset: u64,
        length: u32,
        start_ns: i64,
        duration_ns: i64,
        keyframe: bool,
    ) -> Result<(), Fault> {
        let start_ns = start_ns.clamp(-TIME_NS_MAX, TIME_NS_MAX);
        if self.track.kind() == Kind::Video {
            if !self.has_begun && !keyframe {
                self.skip_before_keyframe(offset);
                return Ok(());
            }
            self.decodes.push(start_ns);
        }
        let flag = if keyframe { KEYFRAME } else { 0 };
        self.add(offset, length & LENGTH | flag, start_ns, Some(duration_ns))
    }

    fn skip_before_keyframe(&mut self, offset: u64) {
        if self.before_keyframe == 0 {
            self.first_skipped = offset;
        }
        self.before_keyframe += 1;
    }

    /// Counts a damaged unit, which is not played.
    pub(crate) fn skip_damaged(&mut self, offset: u64) {
        if self.damaged == 0 {
            self.first_damaged = offset;
        }
        self.damaged += 1;
    }

    /// Takes out the units that were added since the last call, for a reader of a pipe, which
    /// hands them out at once. Each has the decoding time that was given with it, or its time of
    /// presentation; units of other tracks than video have none.
    pub(crate) fn drain(&mut self) -> Vec<(Entry, Option<i64>)> {
        let mut decodes = self.decodes.drain(..);
        let entries = self.entries.drain(..);
        entries.map(|entry| (entry, decodes.next())).collect()
    }

    /// Returns whether the track has had a unit.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Returns the number of units so far.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Delays the presentation of the units from `place` on by `by_ns`.
    pub(crate) fn delay_from(&mut self, place: usize, by_ns: i64) {
        for entry in self.entries.iter_mut().skip(place) {
            entry.start_ns = entry.start_ns.saturating_add(by_ns).min(TIME_NS_MAX);
        }
        for decode in self.decodes.iter_mut().skip(place) {
            *decode = decode.saturating_add(by_ns).min(TIME_NS_MAX);
        }
    }

    /// Splits PCM samples into units that fit a packet.
    fn push_samples(&mut self, pcm: Pcm, sample: Sample) -> Result<i64, Fault> {
        let frame_bytes = u64::from(pcm.frame_bytes());
        let (mut offset, mut left) = (sample.offset, sample.length / frame_bytes);
        let mut start_ns = sample.start_ns;
        while left > 0 {
            let frames = left.min(pcm.frames_max().into());
            let duration_ns = self.samples_ns(frames);
            start_ns =
                self.clock
                    .audio(start_ns, Some(duration_ns), self.sample_rate, self.tick_ns);
            let bytes = frames * frame_bytes;
            let length = u32::try_from(bytes).unwrap_or(0) & LENGTH;
            self.add(offset, length | KEYFRAME, start_ns, Some(duration_ns))?;
            start_ns += duration_ns;
            offset += bytes;
            left -= frames;
        }
        Ok(start_ns)
    }

    fn add(
        &mut self,
        offset: u64,
        length: u32,
        start_ns: i64,
        duration_ns: Option<i64>,
    ) -> Result<(), Fault> {
        if self.entries.len() == UNITS_MAX {
            return Err(self.too_large("a track", UNITS_MAX as u64, "units", offset));
        }
        self.duration_ns = duration_ns;
        let span = match self.track.kind() {
            Kind::Video => 0,
            _ => duration_ns.unwrap_or(0).clamp(0, UNIT_NS_MAX),
        };
        self.has_begun = true;
        self.entries.push(Entry {
            offset,
            start_ns,
            span_ns: u32::try_from(span).unwrap_or(u32::MAX),
            length,
        });
        Ok(())
    }

    fn samples_ns(&self, samples: u64) -> i64 {
        let samples = i64::try_from(samples).unwrap_or(i64::MAX);
        MediaTime::from_ticks(samples, self.sample_rate.max(1)).nanos()
    }

    fn too_large(&self, what: &'static str, limit: u64, unit: &'static str, at: u64) -> Fault {
        Fault::too_large(at, "a file to be played", what, limit, unit)
    }

    /// Warns of the units that are not played.
    pub(crate) fn warn(&self, warnings: &mut Warnings) {
        if self.before_keyframe > 0 {
            let reason = WarningReason::BeforeKeyframe(self.before_keyframe);
            warnings.add(Some(self.first_skipped), reason);
        }
        if self.damaged > 0 {
            let reason = WarningReason::DamagedFrames(self.damaged);
            warnings.add(Some(self.first_damaged), reason);
        }
    }

    /// Finishes the index; `None` if it has no unit. `decodes`: whether the container states
    /// decoding times.
    pub(crate) fn finish(mut self, decodes: bool, warnings: &mut Warnings) -> Option<IndexedTrack> {
        self.warn(warnings);
        let last_start = self.entries.iter().map(|entry| entry.start_ns).max()?;
        let mut keyframes = Vec::new();
        let length_ns;
        if self.track.kind() == Kind::Video {
            self.set_decode_times(decodes);
            let keys = self.entries.iter().enumerate();
            let keys = keys.filter(|(_, entry)| entry.keyframe());
            keyframes.extend(keys.map(|(place, _)| u32::try_from(place).unwrap_or(u32::MAX)));
            // A search by time needs the keyframes in order of presentation.
            let mut highest = i64::MIN;
            keyframes.retain(|&place| {
                let start = self.entries[place as usize].start_ns;
                let rises = start > highest;
                highest = highest.max(start);
                rises
            });
            length_ns = self.frame_ns();
        } else {
            self.entries.sort_by_key(|entry| entry.start_ns);
            length_ns = self.duration_ns.unwrap_or(0);
            self.close_spans();
        }
        let end = last_start + length_ns.clamp(1, TIME_NS_MAX);
        let played_end = end
            .saturating_sub(self.trimmed_ns.max(0))
            .max(last_start + 1);
        if let Some(last) = self.entries.last_mut().filter(|_| keyframes.is_empty()) {
            last.span_ns = u32::try_from(length_ns.clamp(1, UNIT_NS_MAX)).unwrap_or(u32::MAX);
        }
        Some(IndexedTrack {
            track: self.track,
            codings: self.codings,
            entries: self.entries,
            keyframes,
            last_ns: (played_end, end),
            frame_rate: self.clock.rate,
        })
    }

    /// Sets the decoding times of frames: never falling, and never after the presentation.
    ///
    /// A container's own decoding times are shifted as late as this allows. Without them, the
    /// decoding times are the presentation times in ascending order.
    fn set_decode_times(&mut self, decodes: bool) {
        let mut decodes_ns = std::mem::take(&mut self.decodes);
        if !decodes {
            decodes_ns.sort_unstable();
        }
        let rises = decodes_ns.is_sorted();
        let pairs = || self.entries.iter().zip(&decodes_ns);
        let lead = |(entry, decode): (&Entry, &i64)| entry.start_ns - decode;
        let shift = pairs().map(lead).min().unwrap_or(0);
        let most = pairs().map(lead).max().unwrap_or(0) - shift;
        self.track.video.reordered = !self.entries.is_sorted_by_key(|entry| entry.start_ns);
        let sensible = rises && most <= LEAD_NS_MAX;
        let mut earliest = i64::MAX;
        for (entry, decode) in self.entries.iter_mut().zip(&decodes_ns).rev() {
            // The latest sufficient time is the earliest presentation of this frame and all
            // frames behind it.
            earliest = earliest.min(entry.start_ns);
            let decode = if sensible { decode + shift } else { earliest };
            // A frame that is presented far too late has a damaged time.
            entry.start_ns = entry.start_ns.min(decode + i64::from(u32::MAX));
            entry.span_ns = u32::try_from(entry.start_ns - decode).unwrap_or(u32::MAX);
        }
    }

    /// Returns the duration in ns of the frame that is presented last.
    fn frame_ns(&self) -> i64 {
        if let Some(rate) = self.clock.rate {
            return rate.nanos(2);
        }
        let said = self.duration_ns.filter(|&ns| ns > 0);
        said.unwrap_or_else(|| {
            let mut last: Vec<i64> = self
                .entries
                .iter()
                .rev()
                .take(32)
                .map(|entry| entry.start_ns)
                .collect();
            last.sort_unstable();
            match last[..] {
                [.., before, end] if end > before => end - before,
                _ => FRAME_NS,
            }
        })
    }

    /// Extends units without a stated duration to the start of the next unit.
    fn close_spans(&mut self) {
        for place in 1..self.entries.len() {
            let next = self.entries[place].start_ns;
            let before = &mut self.entries[place - 1];
            if before.span_ns == 0 {
                let gap = (next - before.start_ns).clamp(1, UNIT_NS_MAX);
                before.span_ns = u32::try_from(gap).unwrap_or(u32::MAX);
            }
        }
    }
}
