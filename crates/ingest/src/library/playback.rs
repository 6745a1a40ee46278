//! One playback of a file: frames that are read a little ahead, and the times at which they are
//! due.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_media::{MediaTime, RecordedPlace};

use super::control::{Failure, Started};
use super::frame_source::Playable;
use super::play::Play;
use super::playback_cursor::{Effective, PlaybackCursor, Progress, ScheduledFrame};
use super::timeline::ReadingTimeline;
use crate::{Pace, Rate};

/// Media time that is read ahead: enough for a rotating disk, and little enough for a thousand
/// readings.
const AHEAD: Duration = Duration::from_millis(250);
/// Most bytes that are read ahead.
const AHEAD_BYTES: usize = 256 << 10;

/// Frames that are read before playback begins, to find the one that is shown first.
const PRIMING: usize = 8;

pub(super) struct Playback {
    cursor: PlaybackCursor,
    play: Play,
    pub(super) effective: Effective,
    pub(super) pace: Pace,
    pub(super) ahead: VecDeque<ScheduledFrame>,
    pub(super) ahead_bytes: usize,
    /// Whether all frames were read.
    read_out: bool,
    /// Whether the next frame was not there yet when it was last looked for.
    is_waiting: bool,
    /// End of the frames read so far, on the playback's timeline.
    pub(super) end: MediaTime,
    /// Time on the playback's timeline where it began or continues.
    zero: MediaTime,
    /// Position in the file where playback begins, until it was reported.
    pub(super) begins: Option<Duration>,
    pub(super) paused: bool,
    /// Whether this playback went on behind its last frame when it was started.
    continues: bool,
    /// The tracks, each with whether its next frame follows the one before.
    joints: Vec<Joint>,
}

/// Whether the next frame of a track follows the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Joint {
    Seamless,
    Broken,
}

/// When the next frame is due.
pub(super) enum NextDue {
    At(Instant),
    /// When the file has grown.
    Later,
    /// The last frame was published.
    Never,
}

impl Playback {
    /// Prepares a playback of `of` from the position `from`. Reads the file.
    pub(super) fn begin(
        of: &dyn Playable,
        from: Duration,
        play: Play,
        effective: Effective,
    ) -> Result<Self, Failure> {
        let (cursor, begins) = PlaybackCursor::new(of, from, &play, effective)?;
        let zero = cursor.zero(begins);
        let mut playback = Self {
            cursor,
            play,
            effective,
            // A placeholder until playback starts.
            pace: Pace::at(Instant::now(), zero, MediaTime::ZERO, Rate::REAL),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            read_out: false,
            is_waiting: false,
            end: zero,
            zero,
            begins: Some(begins),
            paused: true,
            continues: false,
            joints: vec![Joint::Broken; of.tracks().len()],
        };
        while playback.ahead.len() < PRIMING && !playback.read_out && !playback.is_waiting {
            playback.read()?;
        }
        Ok(playback)
    }

    /// Returns whether `play` continues this playback.
    pub(super) fn is_same(&self, play: &Play, effective: Effective) -> bool {
        // Another end or loop setting does not apply to frames that were read already.
        let is_same_way = self.play.once == play.once
            && self.play.until == play.until
            && self.play.keyframes == play.keyframes;
        play.from.is_none() && is_same_way && self.effective == effective
    }

    /// Starts playback: the first frame is due `now`, at the end of the stream's timeline. Playback
    /// that goes on behind its last frame begins at `position`, and ends at once.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(super) fn go(
        &mut self,
        position: Duration,
        timeline: &mut ReadingTimeline,
        now: Instant,
    ) -> Result<(), Failure> {
        self.continues = self.begins.is_none();
        if self.continues {
            self.next_due()?;
            // Behind the last frame there is nothing to go on with: playback ends at once.
            let next = self.ahead.front().map(|next| (next.due, next.position));
            let (zero, begins) = next.unwrap_or((self.end, position));
            self.zero = zero;
            self.begins = Some(begins);
        }
        let earliest = self.ahead.iter().map(|scheduled| scheduled.shown).min();
        let reach = earliest.map_or(Duration::ZERO, |it| self.zero.saturating_since(it));
        let rate = Rate {
            scale: self.effective.scale.abs(),
            speed: self.effective.speed,
        };
        self.pace = Pace::at(now, self.zero, timeline.begin(reach, now), rate);
        self.paused = false;
        Ok(())
    }

    /// Returns when the next frame is due, and reads it if it was not read ahead.
    pub(super) fn next_due(&mut self) -> Result<NextDue, Failure> {
        self.is_waiting = false;
        while self.ahead.is_empty() && !self.read_out && !self.is_waiting {
            self.read()?;
        }
        Ok(match self.ahead.front() {
            Some(scheduled) => NextDue::At(self.pace.due(scheduled.due)),
            None if self.is_waiting => NextDue::Later,
            None => NextDue::Never,
        })
    }

    pub(super) fn read(&mut self) -> Result<(), Failure> {
        let before = self.ahead.len();
        let progress = self.cursor.read(&mut self.ahead)?;
        self.read_out = progress == Progress::Ended;
        self.is_waiting = progress == Progress::Waiting;
        for scheduled in self.ahead.iter().skip(before) {
            self.ahead_bytes += scheduled.frame.data.len();
            self.end = self.end.max(scheduled.end());
        }
        Ok(())
    }

    pub(super) fn wants_read_ahead(&self) -> bool {
        let has_room = || match (self.ahead.front(), self.ahead.back()) {
            (Some(next), Some(last)) => {
                let (next, last) = (self.pace.due(next.due), self.pace.due(last.due));
                last.saturating_duration_since(next) < AHEAD && self.ahead_bytes < AHEAD_BYTES
            }
            _ => true,
        };
        !self.paused && !self.read_out && !self.is_waiting && has_room()
    }

    /// Returns the place in the recording of a frame that was taken from those that were read ahead.
    pub(super) fn place_of(&mut self, scheduled: &ScheduledFrame) -> RecordedPlace {
        if scheduled.frame.after_loss || self.cursor.plays_keyframes() {
            self.joints.fill(Joint::Broken);
        }
        let joint = self.joints.get_mut(scheduled.frame.track.get());
        let before = joint.map(|it| std::mem::replace(it, Joint::Seamless));
        let next = self.ahead.front();
        let is_last = next.is_none() && self.read_out;
        RecordedPlace {
            wall_clock: scheduled.position,
            is_discontinuous: before == Some(Joint::Broken),
            ends_section: is_last || next.is_some_and(|it| it.frame.after_loss),
            is_last,
        }
    }

    /// Returns the report on a playback that begins at `from` in the file.
    pub(super) fn started(
        &self,
        from: Duration,
        timeline: &ReadingTimeline,
        first_packets: Vec<u64>,
    ) -> Started {
        Started {
            continues: self.continues,
            from,
            until: self.play.until,
            scale: self.effective.scale,
            speed: self.effective.speed,
            time: timeline.placed(self.pace.media_time(self.zero)),
            first_packets,
        }
    }
}
