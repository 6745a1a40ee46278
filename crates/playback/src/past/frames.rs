//! The frames of recordings, across files and gaps.

use std::sync::Arc;
use std::time::Duration;

use glassline_demux::Frame;
use glassline_ingest::library::{FrameSource, NextFrame, SourceError};
use glassline_media::{Kind, MediaTime, Track};
use glassline_runtime::calendar;

use super::super::growing_files::FileOpener;
use super::super::holdings::PlacedFile;
use super::super::time_text::rfc3339;
use super::super::{NoFootage, Subject};
use super::files::{Continuation, PastFiles};
use super::opened::{OpenedPast, instant, position, unreadable};

/// Files that may be deleted or unreadable one after the other before nothing more is looked for.
const MISSING_MAX: usize = 64;

/// Largest jump of decode times between two fragments that is no gap.
const JITTER_NS: i64 = 500_000_000;

/// Difference between the end of a frame of audio and the time of the next one that is no overlap: both are
/// rounded to ticks.
const OVERLAP_NS: i64 = 1_000_000;

/// The frames of a stream's recordings. A look for a keyframe forgets the place that was read.
#[derive(Debug)]
pub(super) struct PastFrames {
    opener: FileOpener,
    files: PastFiles,
    tracks: Vec<Track>,
    opened: Option<OpenedPast>,
    /// The fragment that is read; `None` after a seek.
    line: Option<PlayedLine>,
    /// End of the frames of each track that were read since the last seek, in times of the playback.
    ends: Vec<MediaTime>,
    /// The reason why another server's file was left out, unless another file was opened since.
    trouble: Option<NoFootage>,
}

/// How the times of the fragment that is read become times of the playback, and positions.
#[derive(Clone, Copy, Debug)]
struct PlayedLine {
    /// Number of the run that the decode times count in, and the place of the fragment in its file.
    run: u64,
    fragment: usize,
    /// End of the fragment in decode times of the run, in ns.
    end_ns: i64,
    /// Nanoseconds from decode times to times of the playback.
    shift_ns: i64,
    /// Nanoseconds from decode times to positions.
    position_ns: i64,
    /// Whether the fragment is the first one behind a gap, and whether its first frame is to be told so.
    is_joint: bool,
    is_behind_gap: bool,
}

impl PlayedLine {
    /// Returns the position at which the fragment ends.
    const fn end(&self) -> MediaTime {
        MediaTime::from_nanos(self.end_ns + self.position_ns)
    }
}

impl PastFrames {
    pub(super) fn new(of: Subject, tracks: Vec<Track>) -> Self {
        Self {
            opener: FileOpener::of(&of.catalogue),
            files: PastFiles::new(of),
            ends: vec![MediaTime::from_nanos(i64::MIN); tracks.len()],
            tracks,
            opened: None,
            line: None,
            trouble: None,
        }
    }

    /// Opens a file, unless it is open already. Returns `None` if it was deleted, or cannot be read: what
    /// it had is a gap then.
    fn open(&mut self, placed: PlacedFile) -> Result<Option<&mut OpenedPast>, SourceError> {
        let known = placed.clone();
        if !self.opened.as_ref().is_some_and(|it| it.is(&placed)) {
            self.line = None;
            // What follows is known in time.
            self.files.expect(placed.file.start);
            self.opened = match OpenedPast::open(&self.opener, placed, &self.tracks) {
                Ok(opened) => {
                    self.trouble = None;
                    opened
                }
                Err(error) => {
                    self.leave_out(error);
                    None
                }
            };
        }
        let Some(opened) = &mut self.opened else {
            return Ok(None);
        };
        if let Some(codec) = opened.other_video() {
            let since = rfc3339(opened.placed.file.start);
            let why = format!(
                "the recording from {since} on is {codec}, which this session did not set up: ask for it \
                 by a URL with ?at="
            );
            return Err(SourceError::Nothing(why));
        }
        opened.refresh(Some(&known));
        Ok(Some(opened))
    }

    /// Notes that a file, or the rest of it, is left out.
    fn leave_out(&mut self, error: NoFootage) {
        tracing::warn!(%error, "playback leaves out what cannot be read of a recording");
        self.trouble = Some(error).filter(|it| matches!(it, NoFootage::Away(_)));
    }

    fn first_after(&mut self, at: MediaTime) -> Result<Option<MediaTime>, SourceError> {
        let known = self.files.at_or_before(instant(at))?;
        if let Some(known) = known
            && let Some(opened) = self.open(known)?
            && let Some(place) = opened.keyframe_after(at)
        {
            return Ok(opened.position_at(place));
        }
        let mut from = instant(at);
        for _ in 0..MISSING_MAX {
            let Some(known) = self.files.after(from)? else {
                break;
            };
            from = known.file.start;
            if let Some(opened) = self.open(known)?
                && let Some(place) = opened.keyframe_after(at)
            {
                return Ok(opened.position_at(place));
            }
        }
        Ok(None)
    }

    fn last_before(&mut self, at: MediaTime) -> Result<Option<MediaTime>, SourceError> {
        // Clocks of files and frames differ a little.
        let mut until = instant(at) + Duration::from_nanos(JITTER_NS.unsigned_abs());
        for _ in 0..MISSING_MAX {
            let Some(known) = self.files.at_or_before(until)? else {
                break;
            };
            until = known.file.start - Duration::from_nanos(1);
            if let Some(opened) = self.open(known)?
                && let Some(place) = opened.keyframe_at_or_before(at)
            {
                return Ok(opened.position_at(place));
            }
        }
        Ok(None)
    }

    /// Goes on behind the last fragment that was there. Returns what follows if that is no frame.
    fn go_on(&mut self) -> Result<Option<NextFrame>, SourceError> {
        let Some(mut current) = self.opened.take() else {
            return Ok(Some(NextFrame::End));
        };
        let line = self.line;
        let end = line.map_or(current.placed.file.end(), |it| instant(it.end()));
        let Continuation {
            current: now,
            mut next,
        } = self.files.behind(&current.placed, end)?;
        // Only now: a next file is begun when the one before has all its fragments.
        if current.refresh(now.as_ref()) {
            self.opened = Some(current);
            return Ok(None);
        }
        let mut last = now.unwrap_or_else(|| current.placed.clone());
        for _ in 0..MISSING_MAX {
            let Some(placed) = next else { break };
            last = placed.clone();
            let is_of_one = placed.server() == current.placed.server();
            if let Some(opened) = self.open(placed)?
                && let Some(place) = match is_of_one {
                    true => opened.keyframe_after(MediaTime::ZERO),
                    false => opened.takes_over_at(position(end)),
                }
            {
                opened.reader.seek(place);
                self.line = line;
                return Ok(None);
            }
            next = self.files.behind(&last, end)?.next;
        }
        (self.opened, self.line) = (Some(current), line);
        match (last.file.is_closed, self.trouble.take()) {
            (_, Some(trouble)) => Err(trouble.into()),
            (false, None) => Ok(Some(NextFrame::Later)),
            (true, None) => Ok(Some(NextFrame::End)),
        }
    }

    /// Places the fragment that the next frame is of.
    fn place_fragment(&mut self) {
        let Some(opened) = &self.opened else { return };
        let fragment = opened.reader.fragment();
        let Some(entry) = opened.fragments().get(fragment) else {
            return;
        };
        let run = opened.placed.file.run;
        let is_placed = |it: PlayedLine| {
            let is_same = (it.run, it.fragment) == (run, fragment);
            is_same && it.end_ns > entry.decode_time.nanos()
        };
        if self.line.is_some_and(is_placed) {
            return;
        }
        let decode_ns = entry.decode_time.nanos();
        let position_ns = opened.position(entry).nanos() - decode_ns;
        let goes_on =
            |line: &PlayedLine| line.run == run && (decode_ns - line.end_ns).abs() <= JITTER_NS;
        let (shift_ns, is_behind_gap) = match &self.line {
            None => (position_ns, false),
            Some(line) if goes_on(line) => (line.shift_ns, false),
            Some(line) => (line.end_ns + line.shift_ns - decode_ns, true),
        };
        let length_ns = i64::try_from(entry.duration.as_nanos()).unwrap_or(i64::MAX);
        self.line = Some(PlayedLine {
            run,
            fragment,
            end_ns: decode_ns.saturating_add(length_ns),
            shift_ns,
            position_ns,
            is_joint: is_behind_gap,
            is_behind_gap,
        });
    }

    /// Returns a frame that was read as the playback has it; `None` for one of a track that is not played, and
    /// for audio of which another recorder had as much already.
    fn placed(&mut self, frame: Frame) -> Option<NextFrame> {
        let line = self.line.as_mut()?;
        let index = self.opened.as_ref()?.indices.get(frame.track.get())?;
        let track = (*index)?;
        let moved = |time: MediaTime, by: i64| MediaTime::from_nanos(time.nanos() + by);
        let decode_time = moved(frame.decode_time, line.shift_ns);
        let end = self.ends.get_mut(track.get())?;
        let is_again = line.is_joint && moved(decode_time, OVERLAP_NS) < *end;
        if is_again && self.tracks[track.get()].kind() == Kind::Audio {
            return None;
        }
        *end = decode_time + frame.duration;
        Some(NextFrame::Frame {
            position: moved(frame.time, line.position_ns),
            frame: Frame {
                track,
                time: moved(frame.time, line.shift_ns),
                decode_time,
                after_loss: std::mem::take(&mut line.is_behind_gap),
                ..frame
            },
        })
    }
}

impl FrameSource for PastFrames {
    fn end(&self) -> MediaTime {
        position(calendar::now())
    }

    fn beginning(
        &mut self,
        at: MediaTime,
        backwards: bool,
    ) -> Result<Option<MediaTime>, SourceError> {
        let known = self.files.at_or_before(instant(at))?;
        let has = |it: &PlacedFile| it.file.end() > instant(at) || !it.file.is_closed;
        if let Some(known) = known.filter(has)
            && let Some(opened) = self.open(known)?
            && let Some(place) = opened.keyframe_at_or_before(at)
        {
            return Ok(opened.position_at(place));
        }
        let found = match backwards {
            true => self.last_before(at)?,
            false => self.first_after(at)?,
        };
        if found.is_some() {
            return Ok(found);
        }
        if let Some(trouble) = self.trouble.take() {
            return Err(trouble.into());
        }
        let (of, at) = (&self.files.of().stream, rfc3339(instant(at)));
        let way = if backwards { "before" } else { "from" };
        let mut why = format!("nothing of '{of}' is recorded {way} {at}");
        let missing = self.files.missing();
        if !missing.0.is_empty() {
            why = format!("{why} by the servers that answer; {missing}");
        }
        Err(SourceError::Nothing(why))
    }

    fn keyframe_at_or_before(&mut self, at: MediaTime) -> Result<Option<MediaTime>, SourceError> {
        self.last_before(at)
    }

    fn keyframe_after(&mut self, at: MediaTime) -> Result<Option<MediaTime>, SourceError> {
        self.first_after(at)
    }

    fn played_between(&mut self, from: MediaTime, to: MediaTime) -> Result<Duration, SourceError> {
        let all = to.saturating_since(from);
        if self.opened.as_ref().is_some_and(|it| it.has(from, to)) {
            return Ok(all);
        }
        let recorded = self.files.recorded_between(instant(from), instant(to))?;
        Ok(recorded.min(all))
    }

    fn seek(&mut self, to: MediaTime) -> Result<(), SourceError> {
        self.last_before(to)?;
        self.line = None;
        self.ends.fill(MediaTime::from_nanos(i64::MIN));
        if let Some(opened) = &mut self.opened
            && let Some(place) = opened.keyframe_at_or_before(to)
        {
            opened.reader.seek(place);
        }
        Ok(())
    }

    fn next_frame(&mut self) -> Result<NextFrame, SourceError> {
        loop {
            self.place_fragment();
            let Some(opened) = &mut self.opened else {
                return Ok(NextFrame::End);
            };
            match opened.reader.next_frame() {
                Ok(Some(frame)) => {
                    if let Some(next) = self.placed(frame) {
                        return Ok(next);
                    }
                }
                Ok(None) => {
                    if let Some(next) = self.go_on()? {
                        return Ok(next);
                    }
                }
                Err(error) => {
                    let error = unreadable(&opened.placed, &error);
                    let end = opened.fragments().len();
                    opened.reader.seek(end);
                    self.leave_out(error);
                }
            }
        }
    }
}

impl From<NoFootage> for SourceError {
    fn from(error: NoFootage) -> Self {
        match error {
            NoFootage::Nothing => Self::Nothing(error.to_string()),
            NoFootage::Away(why) => Self::Away(why),
            other => Self::Broken(Arc::new(other)),
        }
    }
}
