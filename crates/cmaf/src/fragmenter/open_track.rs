//! The samples of one track that no fragment has yet.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use glassline_media::{Kind, MediaTime, MediaUnit, Track, TrackIndex};

use crate::fragment::{FragmentTrack, Sample};
use crate::track::Described;

/// Part of a second by which the times of audio may differ from the sum of its durations. Timestamps
/// are rounded, and clocks drift apart; a step of a millisecond is not heard.
const AUDIO_TOLERANCE: u32 = 1000;

/// Largest step back of decode times that is a late unit, not a discontinuity.
const STEP_BACK_MAX: Duration = Duration::from_secs(1);

/// Frames per second that are assumed for a single frame.
const FRAMES_PER_SECOND: u32 = 25;

/// One track of a run.
#[derive(Debug)]
pub(super) struct OpenTrack {
    /// Position of the track in the stream.
    pub(super) source: TrackIndex,
    pub(super) track: Track,
    /// Description and conversion, once they are known.
    pub(super) described: Option<Described>,
    /// Position of the track in the header; `None` if it is not in it.
    pub(super) position: Option<usize>,
    /// Newest unit, whose duration the next one tells.
    pub(super) pending: Option<Pending>,
    /// Tick of the newest unit; `None` before the first one and behind a jump.
    last_ticks: Option<u64>,
    /// Decode time of the newest unit.
    pub(super) last_time: Option<MediaTime>,
    /// First tick behind the samples in fragments.
    end_ticks: u64,
    /// Duration of the last sample whose duration was known, in ticks.
    last_duration: Option<u32>,
    /// Whether units are left out up to the next keyframe.
    pub(super) awaits_keyframe: bool,
    /// Samples of the open fragment.
    pub(super) run: Run,
}

/// A unit that is in no fragment yet.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) unit: Arc<MediaUnit>,
    pub(super) ticks: u64,
    pub(super) wall_clock: Duration,
}

/// Samples of one track in the open fragment.
#[derive(Debug, Default)]
pub(super) struct Run {
    pub(super) first_ticks: u64,
    pub(super) first_wall_clock: Duration,
    pub(super) samples: Vec<Sample>,
    pub(super) media: Vec<u8>,
    /// Sum of the durations in ticks.
    pub(super) ticks: u64,
}

/// Samples of one track that a fragment gets.
#[derive(Debug)]
pub(super) struct TakenRun {
    pub(super) track: FragmentTrack,
    pub(super) media: Bytes,
    /// Calendar time of the first sample.
    pub(super) wall_clock: Duration,
}

/// Where a unit stands behind the ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// The unit follows at this tick.
    At(u64),
    /// The unit is too far behind the one before, or too far ahead of it.
    Jump,
}

impl OpenTrack {
    pub(super) fn new(source: TrackIndex, track: Track, described: Option<Described>) -> Self {
        Self {
            source,
            awaits_keyframe: track.kind() == Kind::Video,
            track,
            described,
            position: None,
            pending: None,
            last_ticks: None,
            last_time: None,
            end_ticks: 0,
            last_duration: None,
            run: Run::default(),
        }
    }

    pub(super) fn is_video(&self) -> bool {
        self.track.kind() == Kind::Video
    }

    /// Returns the ticks of a second; 1 for a track without description.
    pub(super) fn timescale(&self) -> u32 {
        let described = self.described.as_ref();
        described.map_or(1, |it| it.track.timescale.max(1))
    }

    /// Returns whether a decoder can start with `unit`.
    pub(super) fn is_sync(&self, unit: &MediaUnit) -> bool {
        !self.is_video() || unit.keyframe
    }

    /// Returns where a unit stands that is decoded at `ticks` by its timestamp.
    pub(super) fn place(&self, ticks: u64, gap_max: Duration) -> Placement {
        let Some(last) = self.last_ticks else {
            return Placement::At(ticks);
        };
        // Once the last unit has its place in a fragment, its duration is settled.
        let earliest = match self.pending {
            Some(_) => last + 1,
            None => self.end_ticks.max(last + 1),
        };
        let rate = self.timescale();
        if let Some(own) = self.own_ticks()
            && ticks.abs_diff(last + u64::from(own)) <= u64::from(rate / AUDIO_TOLERANCE)
        {
            return Placement::At(last + u64::from(own));
        }
        let is_jump = match ticks.checked_sub(last) {
            Some(ahead) => ahead > ticks_of(gap_max, rate),
            None => last - ticks > ticks_of(STEP_BACK_MAX, rate),
        };
        match is_jump {
            true => Placement::Jump,
            false => Placement::At(ticks.max(earliest)),
        }
    }

    /// Returns how many ticks the pending unit lasts by itself.
    fn own_ticks(&self) -> Option<u32> {
        let pending = self.pending.as_ref()?;
        self.described.as_ref()?.conversion.ticks(&pending.unit)
    }

    /// Returns the duration of a unit in ticks, as far as it can be guessed before the next one is there.
    pub(super) fn guessed_duration_of(&self, unit: &MediaUnit) -> u32 {
        let own = self
            .described
            .as_ref()
            .and_then(|it| it.conversion.ticks(unit));
        let guessed = own.or(self.last_duration);
        guessed
            .unwrap_or(self.timescale() / FRAMES_PER_SECOND)
            .max(1)
    }

    /// Forgets the times so far: the next unit may have any.
    pub(super) fn forget_times(&mut self) {
        self.last_ticks = None;
        self.end_ticks = 0;
    }

    /// Holds a unit until the next one tells its duration.
    pub(super) fn hold(&mut self, pending: Pending) {
        self.last_ticks = Some(pending.ticks);
        self.last_time = Some(pending.unit.decode_time());
        self.pending = Some(pending);
    }

    /// Moves the pending unit to the open fragment. It is decoded for `duration` ticks.
    pub(super) fn commit(&mut self, origin: MediaTime, duration: u32) {
        let (Some(pending), Some(described)) = (self.pending.take(), &self.described) else {
            return;
        };
        self.end_ticks = pending.ticks + u64::from(duration);
        self.last_duration = Some(duration);
        let before = self.run.media.len();
        let conversion = &described.conversion;
        conversion.append(&pending.unit, pending.ticks, &mut self.run.media);
        let size = self.run.media.len() - before;
        if size == 0 {
            // Nothing is left of the unit. The sample before lasts longer in its place.
            if let Some(last) = self.run.samples.last_mut() {
                last.duration = last.duration.saturating_add(duration);
                self.run.ticks += u64::from(duration);
            }
            return;
        }
        if self.run.samples.is_empty() {
            self.run.first_ticks = pending.ticks;
            self.run.first_wall_clock = pending.wall_clock;
        }
        let composition = match self.is_video() {
            true => {
                let shown = ticks_since(pending.unit.time, origin, self.timescale());
                let lead = shown.saturating_sub(pending.ticks.cast_signed());
                i32::try_from(lead).unwrap_or(0)
            }
            false => 0,
        };
        self.run.ticks += u64::from(duration);
        self.run.samples.push(Sample {
            size: u32::try_from(size).expect("a unit stays far below 4 GiB"),
            duration,
            composition,
            sync: self.is_sync(&pending.unit),
        });
    }

    /// Takes the samples of the open fragment; `None` if there are none.
    pub(super) fn take_run(&mut self) -> Option<TakenRun> {
        let position = self.position?;
        if self.run.samples.is_empty() {
            return None;
        }
        let run = std::mem::take(&mut self.run);
        // The next fragment is likely to be as long as this one.
        self.run.samples.reserve(run.samples.len());
        let track = FragmentTrack {
            position,
            decode_ticks: run.first_ticks,
            samples: run.samples,
        };
        Some(TakenRun {
            track,
            media: run.media.into(),
            wall_clock: run.first_wall_clock,
        })
    }
}

/// Returns the ticks of `rate` Hz in a duration.
pub(super) fn ticks_of(duration: Duration, rate: u32) -> u64 {
    let ticks = duration.as_nanos() * u128::from(rate) / 1_000_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// Returns the ticks of `rate` Hz from `origin` to `time`. Both are rounded alone, so that equal steps
/// of the timestamps are equal steps of the ticks.
pub(super) fn ticks_since(time: MediaTime, origin: MediaTime, rate: u32) -> i64 {
    time.ticks(rate).saturating_sub(origin.ticks(rate))
}
