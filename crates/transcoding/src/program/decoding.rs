//! The decoding of one track by a process, which is started, watched and started again.

use std::time::{Duration, Instant};

use glassline_transcode::{AccessUnit, Counts, FrameSize, ProgramTranscoder, VideoFrame};
use mio::Registry;

use super::find;
use super::process::{Look, Process};

/// Time that the process may fall behind before frames are left out up to the next keyframe. The frames
/// since the latest keyframe come at once at the beginning.
const BEHIND_MAX: Duration = Duration::from_secs(2);

/// Time that the process may fall behind before pictures are no longer encoded, so that the thread
/// takes them sooner.
const ENCODED_MAX: Duration = Duration::from_millis(200);

/// A process that shows none of the latest frames for this long hangs.
const HANG: Duration = Duration::from_secs(5);

/// Frames without picture from which on a process may hang. Fewer are what decoders hold back.
const HANG_FRAMES: u32 = 20;

/// Pauses before a process is started again.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// A process that has worked for this long is started again without a long pause.
const WORKED: Duration = Duration::from_secs(30);

/// Decodes one track of video.
#[derive(Debug)]
pub(crate) struct ProgramDecoding {
    transcoder: ProgramTranscoder,
    /// The program: its path or its name.
    program: String,
    registry: Registry,
    running: Option<Running>,
    /// When the next process may be started; `None` for at once.
    next_at: Option<Instant>,
    pause: Duration,
    /// The reason why the last process ended; `None` if the present one works.
    trouble: Option<String>,
    /// Empty between turns, and kept for its capacity.
    input: Vec<u8>,
}

#[derive(Debug)]
struct Running {
    process: Process,
    since: Instant,
    /// When a picture came last, or frames first without one.
    shown_at: Instant,
    /// Frames that were given since.
    frames: u32,
}

impl ProgramDecoding {
    /// Prepares to decode what `transcoder` encodes. `registry` is that of the thread.
    pub(crate) const fn new(
        transcoder: ProgramTranscoder,
        program: String,
        registry: Registry,
    ) -> Self {
        Self {
            transcoder,
            program,
            registry,
            running: None,
            next_at: None,
            pause: PAUSE_MIN,
            trouble: None,
            input: Vec::new(),
        }
    }

    /// Takes one access unit. Returns whether it was left out, so that a keyframe is needed.
    pub(crate) fn push(&mut self, unit: AccessUnit<'_>, encodes: bool, now: Instant) -> bool {
        if self.running.is_none() && !self.start(unit.keyframe, now) {
            return true;
        }
        let Some(running) = &mut self.running else {
            return true;
        };
        if !running.process.has_room(BEHIND_MAX, now) {
            self.transcoder.leave_out();
            return true;
        }
        self.input.clear();
        self.transcoder.push(unit, encodes, &mut self.input);
        if self.input.is_empty() {
            return false;
        }
        if running.frames == 0 {
            running.shown_at = now;
        }
        running.frames += 1;
        running.process.write(&self.input, now);
        false
    }

    /// Starts a process at a keyframe, unless the last one ended a moment ago. Returns whether one runs.
    fn start(&mut self, keyframe: bool, now: Instant) -> bool {
        if !keyframe || self.next_at.is_some_and(|at| now < at) {
            return false;
        }
        self.transcoder.restart();
        let arguments = ProgramTranscoder::arguments(self.transcoder.source());
        let started = find(&self.program).and_then(|path| {
            let started = Process::start(&path, &arguments, &self.registry, now);
            started.map_err(|error| format!("cannot start {}: {error}", path.display()))
        });
        match started {
            Ok(process) => {
                self.running = Some(Running {
                    process,
                    since: now,
                    shown_at: now,
                    frames: 0,
                });
                true
            }
            Err(reason) => {
                self.note_end(&reason, now);
                false
            }
        }
    }

    /// Writes and reads what is there, and appends the frames that are complete to `frames`.
    pub(crate) fn serve(&mut self, now: Instant, frames: &mut Vec<VideoFrame>) {
        let Some(running) = &mut self.running else {
            return;
        };
        let transcoder = &mut self.transcoder;
        let encodes = running.process.behind(now) <= ENCODED_MAX;
        let before = transcoder.frames_seen();
        let mut failure = None;
        let look = running
            .process
            .serve(|output| match transcoder.take(output, encodes, frames) {
                Ok(()) => true,
                Err(error) => {
                    failure = Some(error.to_string());
                    false
                }
            });
        if transcoder.frames_seen() != before {
            (running.shown_at, running.frames) = (now, 0);
            self.trouble = None;
            if now.saturating_duration_since(running.since) > WORKED {
                self.pause = PAUSE_MIN;
            }
        }
        let silent = now.saturating_duration_since(running.shown_at);
        let hangs = running.frames >= HANG_FRAMES && silent > HANG;
        let reason = match (failure, look) {
            (Some(failure), _) => failure,
            (None, Look::Ended) => match running.process.last_words() {
                Some(words) => format!("FFmpeg ended: {words}"),
                None => "FFmpeg ended without a word".to_owned(),
            },
            (None, Look::Runs) if hangs => {
                let words = running.process.last_words();
                let words = words.map_or_else(String::new, |words| format!("; it said: {words}"));
                let seconds = HANG.as_secs();
                format!("FFmpeg showed no picture for {seconds} s and was killed{words}")
            }
            (None, Look::Runs) => return,
        };
        self.note_end(&reason, now);
    }

    /// Ends the process, and plans the next one.
    fn note_end(&mut self, reason: &str, now: Instant) {
        self.running = None;
        self.transcoder.leave_out();
        self.next_at = now.checked_add(self.pause);
        let pause = self.pause.as_secs();
        self.trouble = Some(format!("{reason}; the next try is {pause} s later"));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Notes that a coded frame was left out: those after it are, too, up to the next keyframe.
    pub(crate) const fn leave_out(&mut self) {
        self.transcoder.leave_out();
    }

    /// Makes the next frame of output `place` a keyframe.
    pub(crate) fn request_keyframe(&mut self, place: usize) {
        self.transcoder.request_keyframe(place);
    }

    /// Sets whether rung `place` is encoded.
    pub(crate) fn set_active(&mut self, place: usize, is_active: bool) {
        self.transcoder.set_active(place, is_active);
    }

    /// Returns the processor time of the process since it was told last.
    pub(crate) fn cpu_since(&mut self, now: Instant) -> Duration {
        let running = self.running.as_mut();
        running.map_or(Duration::ZERO, |it| it.process.cpu_since(now))
    }

    pub(crate) const fn counts(&self) -> Counts {
        self.transcoder.counts()
    }

    pub(crate) fn size(&self) -> Option<FrameSize> {
        self.transcoder.size()
    }

    /// Returns why there are no pictures, and what to do.
    pub(crate) fn trouble(&self) -> Option<String> {
        let failing = || self.transcoder.trouble().map(ToString::to_string);
        self.trouble.clone().or_else(failing)
    }
}
