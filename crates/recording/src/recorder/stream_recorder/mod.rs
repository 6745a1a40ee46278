//! Cuts one stream into files, and goes on after every loss.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::{Duration, Instant, UNIX_EPOCH};

use glassline_cmaf::{CmafTrack, CutRule, Fragment, Fragmenter, HeaderCause, NewHeader, Output};
use glassline_media::{MediaTime, MediaUnit, Track, TrackIndex, WallClock};

use super::losing::Losing;
use super::open_file::OpenFile;
use crate::catalogue::RecordedTrack;
use crate::disk::Failure;
use crate::file_header::{Beginning, FileHeader};
use crate::writer::{FileEnd, Fragment as WrittenFragment, Job, JobQueue, LayerRecording, NewFile};

/// Length of a fragment: the footage that a crash of the server may cost.
const FRAGMENT: Duration = Duration::from_secs(1);

/// Difference between a file's beginning and the end of the file before that says that the machine's
/// clock was set. Clocks of cameras and of this machine part by less within an hour.
const CLOCK_STEP: Duration = Duration::from_secs(2);

/// How a stream is recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecorderOptions {
    /// Length of files; they are cut at the next keyframe.
    pub(crate) file: Duration,
}

/// Records one stream.
#[derive(Debug)]
pub(crate) struct StreamRecorder {
    layer_recording: Arc<LayerRecording>,
    queue: Arc<JobQueue>,
    options: RecorderOptions,
    /// The tracks that the source publishes; `None` while there is none.
    run: Option<Run>,
    losing: Option<Losing>,
    /// The loss that the newest file ends, until something of this file is written.
    ending: Option<Losing>,
    /// The reason why nothing of the source can be recorded.
    refusal: Option<String>,
    /// Instant at which the hub published the newest unit.
    published: Option<Instant>,
}

/// Files with one line of decode times.
#[derive(Debug)]
struct Run {
    tracks: Vec<(TrackIndex, Track)>,
    fragmenter: Fragmenter,
    /// Time of the run's first file, in ms since 1970; `None` before the first.
    number: Option<u64>,
    /// Number of the next file.
    next_file: u32,
    header: Option<NewHeader>,
    file: Option<OpenFile>,
    /// The reason why the next file begins.
    beginning: Beginning,
    /// Wall-clock time of the end of the newest fragment that was passed on, since 1970.
    ended: Option<Duration>,
    /// Units that the hub dropped before they were read.
    missed: u64,
}

/// Both clocks at the time of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) at: Instant,
    pub(crate) wall: WallClock,
}

impl StreamRecorder {
    pub(crate) fn new(
        layer_recording: Arc<LayerRecording>,
        queue: Arc<JobQueue>,
        options: RecorderOptions,
    ) -> Self {
        Self {
            layer_recording,
            queue,
            options,
            run: None,
            losing: None,
            ending: None,
            refusal: None,
            published: None,
        }
    }

    /// Begins a run: a source publishes `tracks`. `missed` is the subscription's count so far.
    pub(crate) fn begin(&mut self, tracks: &[Track], missed: u64, now: Now) {
        self.end(now);
        let tracks = TrackIndex::first(tracks.len()).zip(tracks.iter().cloned());
        let (tracks, left_out): (Vec<_>, Vec<_>) =
            tracks.partition(|(_, track)| CmafTrack::is_carried(track));
        for (_, track) in left_out {
            let stream = &self.layer_recording.stream;
            tracing::warn!(%stream, codec = %track.codec, "a track is not recorded: MP4 files have no place for its codec");
        }
        self.refusal = None;
        if tracks.is_empty() {
            self.refusal = Some("none of its codecs has a place in MP4 files".to_owned());
            return;
        }
        match fragmenter(&tracks, None) {
            Ok(fragmenter) => {
                self.run = Some(Run {
                    tracks,
                    fragmenter,
                    number: None,
                    next_file: 0,
                    header: None,
                    file: None,
                    beginning: Beginning::Start,
                    ended: None,
                    missed,
                });
            }
            Err(error) => self.refusal = Some(error),
        }
    }

    /// Takes units in the order of the hub. `missed` is the number of units that the subscription has
    /// missed so far. Returns whether a keyframe is to be asked for.
    pub(crate) fn take(&mut self, units: &[Arc<MediaUnit>], missed: u64, now: Now) -> bool {
        self.end_loss();
        let Some(run) = &mut self.run else {
            return false;
        };
        if run.missed != missed {
            run.missed = missed;
            if let Some(run) = &mut self.run {
                run.fragmenter.flush();
            }
            self.take_outputs(now);
            self.lose(Failure::late(), now);
            self.restart();
        }
        if let Some(failure) = self.layer_recording.take_failure() {
            self.lose(failure, now);
        }
        for unit in units {
            let Some(run) = &mut self.run else {
                return false;
            };
            self.published = Some(unit.stamps.published);
            // A unit that cannot be read is left out, and shows in no file.
            if let Err(error) = run.fragmenter.push(unit, &now.wall) {
                tracing::debug!(stream = %self.layer_recording.stream, %error, "a unit is not recorded");
            }
            self.take_outputs(now);
        }
        self.count_loss(now);
        self.wants_keyframe(now)
    }

    /// Ends the run, because its source is gone or the recording ends.
    pub(crate) fn end(&mut self, now: Now) {
        if let Some(run) = &mut self.run {
            run.fragmenter.flush();
        }
        self.take_outputs(now);
        self.count_loss(now);
        self.finish_file(now);
        self.run = None;
        self.losing = None;
        self.ending = None;
    }

    /// Ends the run, because something stands in for its source, until another run begins.
    pub(crate) fn interrupt(&mut self, now: Now) {
        self.end(now);
        self.refusal = Some("its source sends nothing, and something stands in for it".to_owned());
    }

    /// Returns when the hub published the newest unit that was taken; `None` before the first.
    pub(crate) const fn published(&self) -> Option<Instant> {
        self.published
    }

    /// Returns why nothing is recorded although something is published; `None` if all is well.
    pub(crate) fn trouble(&self) -> Option<String> {
        let losing = self.losing.as_ref().or(self.ending.as_ref());
        let losing = losing.map(|it| it.failure.text.clone());
        losing.or_else(|| self.refusal.clone())
    }

    fn take_outputs(&mut self, now: Now) {
        while let Some(output) = self.run.as_mut().and_then(|it| it.fragmenter.poll()) {
            match output {
                Output::Header(header) => self.change_header(header, now),
                Output::Fragment(fragment) => self.take_fragment(&fragment, now),
                Output::Discontinuity(_) => {
                    self.finish_file(now);
                    if let Some(run) = &mut self.run {
                        run.beginning = Beginning::Start;
                    }
                }
            }
        }
    }

    fn change_header(&mut self, header: NewHeader, now: Now) {
        self.finish_file(now);
        let Some(run) = &mut self.run else {
            return;
        };
        let beginning = match header.cause {
            HeaderCause::Parameters(_) | HeaderCause::Joined(_) => Beginning::Parameters,
            // Decode times begin anew.
            HeaderCause::Origin(_) => {
                run.number = None;
                run.next_file = 0;
                Beginning::Start
            }
            _ => run.beginning.clone(),
        };
        run.beginning = beginning;
        run.header = Some(header);
    }

    fn take_fragment(&mut self, fragment: &Fragment, now: Now) {
        if fragment.begins_segment {
            self.finish_file(now);
        }
        let has_file = self.run.as_ref().is_some_and(|it| it.file.is_some());
        let may_begin = fragment.starts_with_sync && self.may_begin(now);
        if !has_file && !may_begin {
            return;
        }
        if !has_file {
            self.begin_file(fragment, now);
        }
        let (Some(run), published) = (&mut self.run, self.published) else {
            return;
        };
        let Some(file) = &mut run.file else {
            return;
        };
        let end = file.end_with(fragment);
        let wall_end = file.wall(end);
        let job = Job::Append(WrittenFragment {
            layer_recording: Arc::clone(&self.layer_recording),
            pieces: fragment.pieces().cloned().collect(),
            end,
            wall_end,
            published: published.unwrap_or(now.at),
        });
        match self.queue.push(job, now.at) {
            Ok(()) => {
                file.add(fragment);
                run.ended = Some(wall_end);
            }
            Err(_) => self.lose(Failure::slow(), now),
        }
    }

    /// Returns whether a file may begin: always, unless something was lost and still is.
    fn may_begin(&self, now: Now) -> bool {
        let is_over = |it: &Losing| it.may_retry(now.at) && self.queue.has_recovered(now.at);
        self.losing.as_ref().is_none_or(is_over)
    }

    fn begin_file(&mut self, fragment: &Fragment, now: Now) {
        let Some(run) = &mut self.run else {
            return;
        };
        let Some(header) = &run.header else {
            return;
        };
        let start = fragment.wall_clock;
        let mut beginning = std::mem::replace(&mut run.beginning, Beginning::Length);
        if let Some(losing) = self.losing.take() {
            let lost = start.saturating_sub(losing.from);
            beginning = Beginning::Loss {
                reason: losing.failure.text.clone(),
                lost_ms: u64::try_from(lost.as_millis()).unwrap_or(u64::MAX),
            };
            self.ending = Some(losing);
        } else if beginning.is_seamless()
            && run.ended.is_some_and(|it| it.abs_diff(start) > CLOCK_STEP)
        {
            beginning = Beginning::Clock;
        }
        let number = *run.number.get_or_insert_with(|| {
            let ms = start.as_millis();
            u64::try_from(ms).unwrap_or(0)
        });
        let says = FileHeader {
            stream: self.layer_recording.stream.clone(),
            layer: self.layer_recording.layer.clone(),
            run: number,
            number: run.next_file,
            start: UNIX_EPOCH + start,
            beginning,
        };
        run.next_file += 1;
        let file = OpenFile::begin(header, &says, fragment);
        let pieces = vec![file.head()];
        run.file = Some(file);
        let of = |(source, written): (&TrackIndex, &CmafTrack)| {
            let mut tracks = run.tracks.iter();
            let (_, track) = tracks.find(|(index, _)| index == source)?;
            // The description of a stream has the size of its largest layer, or none yet.
            let (width, height) = written.size().unwrap_or_default();
            Some(RecordedTrack {
                width: width.into(),
                height: height.into(),
                ..RecordedTrack::of(track)
            })
        };
        let tracks = header.sources.iter().zip(header.header.tracks());
        let tracks = tracks.filter_map(of).collect();
        let stream_time = MediaTime::from_nanos(
            header
                .origin
                .nanos()
                .saturating_add(fragment.decode_time.nanos()),
        );
        let length = self.options.file;
        let first = until_cut(start, phase(&self.layer_recording, length), length);
        run.fragmenter.begin_segment_at(stream_time + first);
        let job = Job::Begin(Box::new(NewFile {
            layer_recording: Arc::clone(&self.layer_recording),
            header: says,
            tracks,
            pieces,
        }));
        // A beginning always has room.
        let _ = self.queue.push(job, now.at);
    }

    fn finish_file(&mut self, now: Now) {
        let file = self.run.as_mut().and_then(|it| it.file.take());
        let Some(file) = file else {
            return;
        };
        let tail = file.finish();
        let job = Job::Finish(FileEnd {
            layer_recording: Arc::clone(&self.layer_recording),
            pieces: tail.pieces,
            patch: tail.patch,
        });
        // An end always has room.
        let _ = self.queue.push(job, now.at);
    }

    /// Notes that frames are lost from now on, until a file begins.
    fn lose(&mut self, failure: Failure, now: Now) {
        self.finish_file(now);
        let Some(run) = &self.run else {
            return;
        };
        // The pause begins anew, and what was lost goes on, if nothing was written meanwhile.
        if let Some(losing) = self.losing.take().or(self.ending.take()) {
            self.losing = Some(losing.again(failure, now.at));
            return;
        }
        // A disk that refuses loses what waits for it, too.
        let written = self.layer_recording.figures().written_to;
        let written = written.filter(|_| failure.is_refusal());
        let from = written.or(run.ended).unwrap_or(now.wall.unix(now.at));
        tracing::warn!(
            stream = %self.layer_recording.stream, reason = %failure,
            "a recording loses frames until it goes on at a keyframe"
        );
        self.layer_recording
            .note(|it| it.losses.entry(failure.kind).or_default().count += 1);
        self.losing = Some(Losing::new(failure, from, now.at));
    }

    /// Forgets a loss once something of the file behind it is written.
    fn end_loss(&mut self) {
        let Some(ending) = &self.ending else {
            return;
        };
        let written = self.layer_recording.figures().written_to;
        if written.is_some_and(|it| it > ending.from) {
            tracing::info!(stream = %self.layer_recording.stream, "a recording goes on");
            self.ending = None;
        }
    }

    /// Cuts anew after units were missed, with decode times that go on.
    fn restart(&mut self) {
        let Some(run) = &mut self.run else {
            return;
        };
        let origin = run.fragmenter.origin();
        if let Ok(fragmenter) = fragmenter(&run.tracks, origin) {
            run.fragmenter = fragmenter;
        }
    }

    /// Counts losses since the last call.
    fn count_loss(&mut self, now: Now) {
        if let Some(losing) = &mut self.losing {
            let more = losing.count_to(now.wall.unix(now.at));
            let kind = losing.failure.kind;
            self.layer_recording
                .note(|it| it.losses.entry(kind).or_default().time += more);
        }
    }

    /// Returns whether a keyframe is to be asked for, because a recording that lost frames may go on.
    fn wants_keyframe(&mut self, now: Now) -> bool {
        if !self.may_begin(now) {
            return false;
        }
        match (&mut self.losing, &mut self.run) {
            (Some(losing), Some(run)) if !losing.has_asked => {
                losing.has_asked = true;
                run.fragmenter.begin_segment();
                true
            }
            _ => false,
        }
    }
}

/// Creates the fragmenter of the tracks. Files begin where they are asked for.
fn fragmenter(
    tracks: &[(TrackIndex, Track)],
    origin: Option<MediaTime>,
) -> Result<Fragmenter, String> {
    let rule = CutRule::recording(FRAGMENT, Duration::MAX);
    let fragmenter = Fragmenter::new(tracks.iter().cloned(), rule, origin);
    fragmenter.map_err(|error| error.to_string())
}

/// Returns the part of `length` by which the files of a layer recording are shifted, so that those of many layer recordings do
/// not end at once.
fn phase(layer_recording: &LayerRecording, length: Duration) -> Duration {
    let mut hasher = DefaultHasher::new();
    (&layer_recording.stream, &layer_recording.layer).hash(&mut hasher);
    length * u32::try_from(hasher.finish() % 1000).unwrap_or(0) / 1000
}

/// Returns the time from `start` until the file is cut: at a multiple of `length` by the wall clock,
/// shifted by `phase`, so that a server that starts again has the same cuts. A cut that is nearer than
/// clocks differ is left out: it was made just now, by the clock of before.
fn until_cut(start: Duration, phase: Duration, length: Duration) -> Duration {
    let since = (start.saturating_sub(phase)).as_nanos() % length.as_nanos().max(1);
    let rest = Duration::from_nanos(u64::try_from(length.as_nanos() - since).unwrap_or(u64::MAX));
    if rest < CLOCK_STEP {
        rest + length
    } else {
        rest
    }
}

#[cfg(test)]
mod soak;
#[cfg(test)]
mod tests;
