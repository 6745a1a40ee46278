//! The units of one track: where they lie in the file, and when they are due.

use glassline_media::{Kind, Track};

use crate::FrameRate;
use crate::container::coding::Coding;

/// Bytes of one unit. H.264 at level 6.2 and its highest rate stays below 7 MB.
pub(crate) const UNIT_BYTES_MAX: u32 = 16 << 20;

/// Where a unit lies: 24 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Of its first byte, from the start of the file.
    pub(crate) offset: u64,
    /// When it is presented.
    pub(crate) start_ns: i64,
    /// Of a frame, how much earlier it is decoded; else how long a decoder is
    /// busy with it. Nanoseconds.
    pub(super) span_ns: u32,
    /// Bytes, and above them the flags.
    pub(super) length: u32,
}

pub(super) const KEYFRAME: u32 = 1 << 31;
pub(super) const BARE: u32 = 1 << 30;
pub(super) const LENGTH: u32 = BARE - 1;

impl Entry {
    pub(crate) fn length(&self) -> usize {
        (self.length & LENGTH) as usize
    }

    pub(crate) fn keyframe(&self) -> bool {
        self.length & KEYFRAME != 0
    }

    /// A keyframe without the headers that a decoder needs to start.
    pub(crate) fn bare(&self) -> bool {
        self.length & BARE != 0
    }
}

/// A track and the index of its units, in the order of decoding.
pub(crate) struct Lane {
    pub(crate) track: Track,
    pub(crate) coding: Coding,
    pub(crate) entries: Vec<Entry>,
    /// Places of keyframes among the entries, of frames.
    pub(super) keyframes: Vec<u32>,
    /// When the last unit's presentation ends, and a decoder's work with it.
    pub(super) last_ns: (i64, i64),
    pub(crate) frame_rate: Option<FrameRate>,
}

impl Lane {
    fn is_video(&self) -> bool {
        self.track.kind() == Kind::Video
    }

    /// When the unit must be decoded.
    pub(crate) fn decode_ns(&self, entry: &Entry) -> i64 {
        match self.is_video() {
            true => entry.start_ns - i64::from(entry.span_ns),
            false => entry.start_ns,
        }
    }

    /// When the presentation of the unit at `place` ends, and when its decoder is
    /// done with it.
    pub(crate) fn ends_ns(&self, place: usize) -> (i64, i64) {
        let Some(entry) = self.entries.get(place) else {
            return self.last_ns;
        };
        if self.is_video() {
            let end = self.shown_until(place, entry.start_ns);
            return (end, end);
        }
        if place + 1 == self.entries.len() {
            return self.last_ns;
        }
        let busy = entry.start_ns + i64::from(entry.span_ns);
        (busy, busy)
    }

    /// When the next frame is shown: with frames out of order it lies near.
    fn shown_until(&self, place: usize, start_ns: i64) -> i64 {
        const REACH: usize = 32;
        let near = place.saturating_sub(REACH)..(place + REACH).min(self.entries.len());
        let after = self.entries[near].iter().map(|entry| entry.start_ns);
        let next = after.filter(|&start| start > start_ns).min();
        next.unwrap_or(self.last_ns.0.max(start_ns + 1))
    }

    /// The end of all.
    pub(crate) fn length_ns(&self) -> i64 {
        self.last_ns.0
    }

    /// Place of the last keyframe that is presented at `at_ns` or before.
    pub(crate) fn keyframe_at_or_before(&self, at_ns: i64) -> Option<usize> {
        let after = self.first_keyframe_after(at_ns);
        let place = after.checked_sub(1)?;
        self.keyframes.get(place).map(|&place| place as usize)
    }

    /// Place of the first keyframe after that.
    pub(crate) fn keyframe_after(&self, at_ns: i64) -> Option<usize> {
        let place = self.keyframes.get(self.first_keyframe_after(at_ns))?;
        Some(*place as usize)
    }

    fn first_keyframe_after(&self, at_ns: i64) -> usize {
        let start = |&place: &u32| self.entries[place as usize].start_ns;
        self.keyframes
            .partition_point(|place| start(place) <= at_ns)
    }

    /// Place of the unit that is presented at `at_ns`, or of the first after it.
    pub(crate) fn presented_at(&self, at_ns: i64) -> usize {
        let after = self
            .entries
            .partition_point(|entry| entry.start_ns <= at_ns);
        let Some(place) = after.checked_sub(1) else {
            return 0;
        };
        let (end, _) = self.ends_ns(place);
        if end > at_ns { place } else { after }
    }

    /// The earliest presentation of any unit.
    pub(crate) fn first_ns(&self) -> i64 {
        let starts = self.entries.iter().map(|entry| entry.start_ns);
        starts.min().unwrap_or(0)
    }

    /// Leaves out the audio that only warms a decoder up.
    pub(crate) fn drop_unheard(&mut self) {
        if self.track.kind() == Kind::Audio {
            let busy = |entry: &Entry| entry.start_ns + i64::from(entry.span_ns);
            let unheard = self.entries.partition_point(|entry| busy(entry) <= 0);
            self.entries.drain(..unheard);
        }
    }

    /// Presents everything earlier by `by_ns`.
    pub(crate) fn shift(&mut self, by_ns: i64) {
        for entry in &mut self.entries {
            entry.start_ns -= by_ns;
        }
        self.last_ns.0 -= by_ns;
        self.last_ns.1 -= by_ns;
    }
}
