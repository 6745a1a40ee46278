//! One run: a reel, read a little ahead, and when its frames are due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_demux::Source;
use glassline_media::MediaTime;

use super::control::{Failure, Started};
use super::play::Play;
use super::reel::{Effective, Reel, Shot};
use super::timeline::ReadingTimeline;
use crate::ingest::{Pace, Rate};

/// What is read ahead of the time it is due: enough for a disk that turns, little
/// enough for a thousand readings.
const AHEAD: Duration = Duration::from_millis(250);
const AHEAD_BYTES: usize = 256 << 10;

/// Frames that are read before a run begins, to know the one that is shown first.
const PRIMING: usize = 8;

pub(super) struct Run {
    reel: Reel,
    play: Play,
    pub(super) effective: Effective,
    pub(super) pace: Pace,
    pub(super) ahead: VecDeque<Shot>,
    pub(super) ahead_bytes: usize,
    /// The reel has no more.
    read_out: bool,
    /// The end of what was read, on the reel.
    pub(super) end: MediaTime,
    /// Where on the reel it began or goes on.
    zero: MediaTime,
    /// The same in the file, until that is told.
    pub(super) begins: Option<Duration>,
    pub(super) paused: bool,
}

impl Run {
    /// Reads the file.
    pub(super) fn begin(
        source: Source,
        from: Duration,
        play: Play,
        effective: Effective,
    ) -> Result<Self, Failure> {
        let (reel, begins) = Reel::new(source, from, &play, effective).map_err(Arc::new)?;
        let zero = reel.zero(begins);
        let mut run = Self {
            reel,
            play,
            effective,
            // Until it goes.
            pace: Pace::at(Instant::now(), zero, MediaTime::ZERO, Rate::REAL),
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            read_out: false,
            end: zero,
            zero,
            begins: Some(begins),
            paused: true,
        };
        while run.ahead.len() < PRIMING && !run.read_out {
            run.read()?;
        }
        Ok(run)
    }

    /// Whether `play` means to go on with it.
    pub(super) fn is_same(&self, play: &Play, effective: Effective) -> bool {
        // A new end would have to be that of what is read already.
        let is_same_way = self.play.once == play.once && self.play.until == play.until;
        play.from.is_none() && is_same_way && self.effective == effective
    }

    /// Makes the first frame due `now`, at the end of `line`.
    pub(super) fn go(&mut self, line: &mut ReadingTimeline, now: Instant) {
        let goes_on = self.begins.is_none();
        if let Some(next) = self.ahead.front().filter(|_| goes_on) {
            self.zero = next.due;
            self.begins = Some(next.place);
        }
        let earliest = self.ahead.iter().map(|shot| shot.shown).min();
        let reach = earliest.map_or(Duration::ZERO, |it| self.zero.saturating_since(it));
        let rate = Rate {
            scale: self.effective.scale.abs(),
            speed: self.effective.speed,
        };
        self.pace = Pace::at(now, self.zero, line.begin(reach, now), rate);
        self.paused = false;
    }

    /// When the next frame is due, which is read if it was not; `None` after the last.
    pub(super) fn next_due(&mut self) -> Result<Option<Instant>, Failure> {
        while self.ahead.is_empty() && !self.read_out {
            self.read()?;
        }
        Ok(self.ahead.front().map(|shot| self.pace.due(shot.due)))
    }

    pub(super) fn read(&mut self) -> Result<(), Failure> {
        let before = self.ahead.len();
        self.read_out = !self.reel.read(&mut self.ahead).map_err(Arc::new)?;
        for shot in self.ahead.iter().skip(before) {
            self.ahead_bytes += shot.frame.data.len();
            self.end = self.end.max(shot.end());
        }
        Ok(())
    }

    pub(super) fn is_hungry(&self) -> bool {
        let has_room = || match (self.ahead.front(), self.ahead.back()) {
            (Some(next), Some(last)) => {
                let (next, last) = (self.pace.due(next.due), self.pace.due(last.due));
                last.saturating_duration_since(next) < AHEAD && self.ahead_bytes < AHEAD_BYTES
            }
            _ => true,
        };
        !self.paused && !self.read_out && has_room()
    }

    /// What is told of its beginning at `from` in the file.
    pub(super) fn started(
        &self,
        from: Duration,
        line: &ReadingTimeline,
        first_packets: Vec<u64>,
    ) -> Started {
        Started {
            from,
            until: self.play.until,
            scale: self.effective.scale,
            speed: self.effective.speed,
            time: line.placed(self.pace.media_time(self.zero)),
            first_packets,
        }
    }
}
