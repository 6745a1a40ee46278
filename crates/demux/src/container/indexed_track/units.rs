//! The locations and times of a track's units.

use glassline_media::{Kind, Track};

use super::codings::Codings;
use crate::FrameRate;

/// Longest unit in bytes. H.264 at level 6.2 and its highest bitrate stays below 7 MB.
pub(crate) const UNIT_BYTES_MAX: u32 = 16 << 20;

/// Location and times of a unit, in 24 bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Offset of the first byte in the file.
    pub(crate) offset: u64,
    /// Presentation time in ns.
    pub(crate) start_ns: i64,
    /// For video, the time from decoding to presentation; for other tracks, the time that a
    /// decoder needs the unit. In ns.
    pub(super) span_ns: u32,
    /// Length in bytes in the lower bits, flags in the upper two.
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

    /// Returns the time that a decoder needs the unit, in ns; of video, the time from decoding to
    /// presentation, which is known when the track is finished.
    pub(crate) fn span_ns(&self) -> i64 {
        self.span_ns.into()
    }

    /// Returns whether the unit lacks headers that a decoder needs here: it is a keyframe, or the first
    /// unit after a change of the coding.
    pub(crate) fn bare(&self) -> bool {
        self.length & BARE != 0
    }
}

/// A track and the index of its units, in decoding order.
pub(crate) struct IndexedTrack {
    pub(crate) track: Track,
    pub(crate) codings: Codings,
    pub(crate) entries: Vec<Entry>,
    /// Positions of the keyframes of video among the entries.
    pub(super) keyframes: Vec<u32>,
    /// End of the last unit's presentation, and end of its decoding, in ns.
    pub(super) last_ns: (i64, i64),
    pub(crate) frame_rate: Option<FrameRate>,
}

impl IndexedTrack {
    fn is_video(&self) -> bool {
        self.track.kind() == Kind::Video
    }

    /// Returns when the unit must be decoded, in ns.
    pub(crate) fn decode_ns(&self, entry: &Entry) -> i64 {
        match self.is_video() {
            true => entry.start_ns - i64::from(entry.span_ns),
            false => entry.start_ns,
        }
    }

    /// Returns when the presentation of the unit at `place` ends, and when its decoding ends,
    /// in ns.
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

    /// Returns when the next frame is presented. In a stream with reordered frames this frame
    /// is among the neighbors.
    fn shown_until(&self, place: usize, start_ns: i64) -> i64 {
        const REACH: usize = 32;
        let near = place.saturating_sub(REACH)..(place + REACH).min(self.entries.len());
        let after = self.entries[near].iter().map(|entry| entry.start_ns);
        let next = after.filter(|&start| start > start_ns).min();
        next.unwrap_or(self.last_ns.0.max(start_ns + 1))
    }

    /// Returns the end of the track's presentation in ns.
    pub(crate) fn length_ns(&self) -> i64 {
        self.last_ns.0
    }

    /// Returns the position of the last keyframe that is presented at `at_ns` or before.
    pub(crate) fn keyframe_at_or_before(&self, at_ns: i64) -> Option<usize> {
        let after = self.first_keyframe_after(at_ns);
        let place = after.checked_sub(1)?;
        self.keyframes.get(place).map(|&place| place as usize)
    }

    /// Returns the position of the first keyframe that is presented after `at_ns`.
    pub(crate) fn keyframe_after(&self, at_ns: i64) -> Option<usize> {
        let place = self.keyframes.get(self.first_keyframe_after(at_ns))?;
        Some(*place as usize)
    }

    fn first_keyframe_after(&self, at_ns: i64) -> usize {
        let start = |&place: &u32| self.entries[place as usize].start_ns;
        self.keyframes
            .partition_point(|place| start(place) <= at_ns)
    }

    /// Returns the position of the unit that is presented at `at_ns`, or of the first one after
    /// it.
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

    /// Returns the earliest presentation time of all units in ns.
    pub(crate) fn first_ns(&self) -> i64 {
        let starts = self.entries.iter().map(|entry| entry.start_ns);
        starts.min().unwrap_or(0)
    }

    /// Drops the audio units that only prime a decoder.
    pub(crate) fn drop_priming(&mut self) {
        if self.track.kind() == Kind::Audio {
            let busy = |entry: &Entry| entry.start_ns + i64::from(entry.span_ns);
            let priming = self.entries.partition_point(|entry| busy(entry) <= 0);
            self.entries.drain(..priming);
        }
    }

    /// Moves all presentation times forward by `by_ns`.
    pub(crate) fn shift(&mut self, by_ns: i64) {
        for entry in &mut self.entries {
            entry.start_ns -= by_ns;
        }
        self.last_ns.0 -= by_ns;
        self.last_ns.1 -= by_ns;
    }
}
