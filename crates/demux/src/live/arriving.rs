//! Units of media that comes as it is made, on their way to frames: which tracks there are, and when
//! time zero is.

use std::collections::VecDeque;
use std::time::Duration;

use glassline_media::{Kind, MediaTime, Track, TrackIndex};

use crate::Frame;
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::pipe_reader::PipeUnit;

/// Media in ns that wait for the first unit of another track.
const SETTLE_NS: i64 = 1_000_000_000;

/// Most bytes that wait for it.
const SETTLE_BYTES_MAX: usize = 32 << 20;

/// Distance in ns between two units of a track beyond which the clock of the pipe has jumped.
const JUMP_NS: i64 = 10_000_000_000;

/// Duration in ns that is assumed for a frame until the next one tells.
const FRAME_NS: i64 = 40_000_000;

/// The units that a reader has found, and the tracks that they turn out to have.
///
/// The tracks are known before the first frame is handed out: units wait until each announced track
/// has one, or for a second of media.
#[derive(Default)]
pub(super) struct ArrivingUnits {
    /// Units that were read and not handed out.
    pub(super) waiting: VecDeque<PipeUnit>,
    /// The tracks that have frames, once they are settled.
    pub(super) tracks: Vec<Track>,
    /// For each track of the reader, its index here, unless it is left out.
    indices: Vec<Option<TrackIndex>>,
    clocks: Vec<TrackClock>,
    /// Time in ns that is subtracted from those of all units, so that the first one is zero.
    zero_ns: i64,
    /// Jumps of the clock that were not told yet.
    pub(super) jumps: Warnings,
}

/// The times of one track.
#[derive(Clone, Copy, Debug, Default)]
struct TrackClock {
    /// Latest presentation time so far.
    highest_ns: Option<i64>,
    decode_ns: i64,
    start_ns: i64,
}

impl ArrivingUnits {
    /// Returns whether every track has had a unit, or none is waited for any longer.
    /// The reader knows `tracks` tracks, and `has_all` of them.
    pub(super) fn is_settled(&self, tracks: usize, has_all: bool) -> bool {
        let (Some(first), Some(last)) = (self.waiting.front(), self.waiting.back()) else {
            return false;
        };
        let bytes: usize = self.waiting.iter().map(|unit| unit.data.len()).sum();
        if last.start_ns - first.start_ns > SETTLE_NS || bytes > SETTLE_BYTES_MAX {
            return true;
        }
        let has = |track| self.waiting.iter().any(|unit| unit.track == track);
        has_all && (0..tracks).all(has)
    }

    /// Drops the waiting units that are more than [`SETTLE_NS`] older than the latest one.
    pub(super) fn forget_old(&mut self) {
        let Some(latest) = self.waiting.back().map(|unit| unit.start_ns) else {
            return;
        };
        let is_old = |unit: &PipeUnit| latest - unit.start_ns > SETTLE_NS;
        while self.waiting.front().is_some_and(is_old) {
            self.waiting.pop_front();
        }
    }

    /// Settles the tracks: those of the reader that have a unit.
    ///
    /// # Errors
    /// None has a unit.
    pub(super) fn settle(&mut self, tracks: &[Track]) -> Result<(), Fault> {
        let has = |place: &usize| self.waiting.iter().any(|unit| unit.track == *place);
        let mut kept: Vec<usize> = (0..tracks.len()).filter(has).collect();
        kept.sort_by_key(|place| match tracks[*place].kind() {
            Kind::Video => 0,
            Kind::Audio => 1,
            Kind::Text => 2,
        });
        if kept.is_empty() {
            let what = "the pipe ended before its first frame".to_owned();
            return Err(Fault::whole(Reason::NothingToPlay(what)));
        }
        self.indices = vec![None; tracks.len()];
        for (index, place) in kept.iter().enumerate() {
            self.indices[*place] = Some(TrackIndex(index));
        }
        self.clocks = vec![TrackClock::default(); kept.len()];
        self.tracks = kept.iter().map(|place| tracks[*place].clone()).collect();
        let starts = self.waiting.iter().map(|unit| unit.start_ns);
        self.zero_ns = starts.min().unwrap_or(0);
        Ok(())
    }

    /// Returns the next frame that has arrived. The tracks are settled.
    pub(super) fn next_frame(&mut self) -> Option<Frame> {
        loop {
            let unit = self.waiting.pop_front()?;
            if let Some(index) = self.indices.get(unit.track).copied().flatten() {
                return Some(self.frame(index, unit));
            }
        }
    }

    fn frame(&mut self, track: TrackIndex, unit: PipeUnit) -> Frame {
        let is_video = self.tracks[track].kind() == Kind::Video;
        let clock = self.clocks[track.get()];
        let expected = clock.start_ns;
        let mut start_ns = unit.start_ns.saturating_sub(self.zero_ns);
        if clock.highest_ns.is_some() && start_ns.abs_diff(expected) > JUMP_NS.unsigned_abs() {
            // The writer's clock began anew, as where two recordings follow each other.
            let ends = self
                .clocks
                .iter()
                .filter_map(|clock| clock.highest_ns)
                .max();
            let next = ends.unwrap_or(expected).saturating_add(FRAME_NS);
            self.zero_ns = unit.start_ns.saturating_sub(next);
            start_ns = next;
            self.jumps.add(None, WarningReason::TimeJump);
        }
        let clock = &mut self.clocks[track.get()];
        let stated = unit
            .decode_ns
            .map(|decode| decode.saturating_sub(self.zero_ns));
        let decode_ns = stated.unwrap_or(match clock.highest_ns {
            // A frame ahead of its turn is sent when the frame before it in presentation is, and those
            // that belong between them at once: which of these is the next is known later.
            Some(highest) if is_video && start_ns > highest => highest,
            Some(_) if is_video => clock.decode_ns,
            _ => start_ns,
        });
        let step = start_ns.saturating_sub(clock.start_ns);
        let known = unit.duration_ns.filter(|ns| *ns > 0);
        let duration_ns = known.unwrap_or(if step > 0 { step } else { FRAME_NS });
        clock.decode_ns = match clock.highest_ns {
            Some(_) => decode_ns.min(start_ns).max(clock.decode_ns),
            None => decode_ns.min(start_ns),
        };
        clock.start_ns = start_ns;
        clock.highest_ns = Some(clock.highest_ns.map_or(start_ns, |it| it.max(start_ns)));
        Frame {
            track,
            after_loss: unit.after_loss,
            time: MediaTime::from_nanos(start_ns),
            decode_time: MediaTime::from_nanos(clock.decode_ns),
            duration: Duration::from_nanos(duration_ns.unsigned_abs().min(FRAME_NS_MAX)),
            keyframe: unit.keyframe,
            data: unit.data,
        }
    }
}

/// Longest duration of a frame in ns that is told to anybody.
const FRAME_NS_MAX: u64 = 10_000_000_000;
