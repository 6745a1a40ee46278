//! A reading: reads a file as its users command and publishes it into one stream.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, PublishError, Publisher, State, Stream};
use glassline_media::Track;

use super::control::Failure;
use super::control::{Control, Order};
use super::file::MediaFile;
use super::play::Play;
use super::reel::Effective;
use super::run::Run;
use super::timeline::ReadingTimeline;
use crate::ingest::{Place, UnitPacketizer};

/// Frames that are read ahead before another reading has its turn.
const TURN: usize = 8;

/// Frames that are published before another reading has its turn.
const UNITS: usize = 32;

/// The users of a reading.
#[derive(Debug)]
pub(super) enum Audience {
    /// One client; the reading ends when the client leaves.
    One,
    /// All clients that want the file, including those that found the stream in the hub.
    All { hub: Arc<Hub>, linger: Duration },
}

/// When a reading must be advanced again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    At(Instant),
    /// When its control has a new command.
    Idle,
    /// Never: the reading has ended.
    Gone,
}

/// One reading, as the thread that runs it has it.
pub(super) struct Reading {
    file: Arc<MediaFile>,
    stream: Arc<Stream>,
    control: Arc<Control>,
    audience: Audience,
    /// Generation of the command in effect.
    generation: u64,
    run: Option<Run>,
    packetizers: Vec<UnitPacketizer>,
    publisher: Option<Publisher>,
    line: ReadingTimeline,
    quiet_since: Option<Instant>,
}

impl Reading {
    pub(super) fn new(
        file: Arc<MediaFile>,
        stream: Arc<Stream>,
        control: Arc<Control>,
        audience: Audience,
    ) -> Self {
        let tracks = file.tracks().to_vec();
        Self {
            packetizers: tracks.iter().map(UnitPacketizer::new).collect(),
            line: ReadingTimeline::new(tracks.len()),
            // The publisher is created now so that the stream's tracks are known before it plays.
            publisher: stream.publish(tracks, Instant::now()).ok(),
            file,
            stream,
            control,
            audience,
            generation: 0,
            run: None,
            quiet_since: None,
        }
    }

    /// Follows a new command and publishes the units that are due.
    pub(super) fn advance(&mut self, now: Instant) -> Next {
        if self.is_left(now) && self.control.go() {
            self.leave();
            return Next::Gone;
        }
        if let Some((generation, order)) = self.control.new_order(self.generation) {
            self.generation = generation;
            let obeyed = match order {
                Order::Play(play) => self.play(play, now),
                Order::Pause => {
                    self.run.iter_mut().for_each(|run| run.paused = true);
                    Ok(())
                }
            };
            if let Err(failure) = obeyed {
                self.fail(failure);
            }
        }
        match self.publish_due(now) {
            Ok(next) => self.quiet_next(next, now),
            Err(failure) => {
                self.fail(failure);
                Next::Idle
            }
        }
    }

    /// Returns whether the reading should read ahead before its next unit is due.
    pub(super) fn is_hungry(&self) -> bool {
        self.run.as_ref().is_some_and(Run::is_hungry)
    }

    /// Reads some frames. A failure ends the reading.
    pub(super) fn read_ahead(&mut self) {
        let Some(run) = &mut self.run else { return };
        for _ in 0..TURN {
            if !run.is_hungry() {
                return;
            }
            if let Err(failure) = run.read() {
                self.fail(failure);
                return;
            }
        }
    }

    /// Returns whether the reading has no users any more.
    fn is_left(&mut self, now: Instant) -> bool {
        if self.control.has_users() {
            self.quiet_since = None;
            return false;
        }
        match &self.audience {
            Audience::One => true,
            Audience::All { .. } if self.run.is_none() => true,
            Audience::All { linger, .. } => {
                if self.stream.viewers() > 0 {
                    self.quiet_since = None;
                    return false;
                }
                let since = *self.quiet_since.get_or_insert(now);
                now.saturating_duration_since(since) >= *linger
            }
        }
    }

    /// Returns `next`, but not later than the time at which a reading without users ends.
    fn quiet_next(&self, next: Next, now: Instant) -> Next {
        match (next, &self.audience, self.quiet_since) {
            (Next::At(at), Audience::All { linger, .. }, Some(since)) => {
                Next::At(at.min((since + *linger).max(now)))
            }
            (next, ..) => next,
        }
    }

    fn play(&mut self, play: Play, now: Instant) -> Result<(), Failure> {
        let effective = Effective::of(&play, self.file.has_video());
        if self.publisher.is_none() {
            let tracks: Vec<Track> = self.file.tracks().to_vec();
            self.publisher = Some(self.stream.publish(tracks, now)?);
        }
        let goes_on = self.run.take().filter(|run| run.is_same(&play, effective));
        let mut run = match goes_on {
            Some(run) => run,
            None => {
                let from = play.from.unwrap_or_else(|| self.control.position());
                let source = self.file.source(play.once);
                Run::begin(source, from, play, effective)?
            }
        };
        run.go(&mut self.line, now);
        self.run = Some(run);
        Ok(())
    }

    fn publish_due(&mut self, now: Instant) -> Result<Next, Failure> {
        for _ in 0..UNITS {
            let Some(run) = self.run.as_mut().filter(|run| !run.paused) else {
                return Ok(Next::Idle);
            };
            match run.next_due()? {
                None => return Ok(self.end(now)),
                Some(due) if due > now => return Ok(Next::At(due)),
                Some(_) => {}
            }
            if !self.publish_next(now)? {
                break;
            }
        }
        Ok(Next::At(now))
    }

    /// Publishes the frame that is due. Returns false if there is a new command.
    fn publish_next(&mut self, now: Instant) -> Result<bool, Failure> {
        let (Some(run), Some(publisher)) = (&mut self.run, &mut self.publisher) else {
            return Ok(false);
        };
        let Some(shot) = run.ahead.pop_front() else {
            return Ok(false);
        };
        if run.pace.catch_up(shot.due, now) {
            let file = self.file.name();
            tracing::warn!(file, "disk or machine stood still; going on from here");
        }
        let (frame, pace, line) = (&shot.frame, run.pace, &mut self.line);
        let place = Place {
            track: frame.track,
            time: pace.media_time(shot.shown),
            origin: line.instant(pace.media_time(shot.due), now),
        };
        let mut media_units = Vec::new();
        self.packetizers[frame.track].cut(&frame.data, frame.keyframe, place, &mut media_units);
        let published = self.control.publish(self.generation, |told| {
            let first_packets = line.next_packets.clone();
            for media_unit in media_units {
                line.push(publisher, media_unit, now)?;
            }
            line.end = line.end.max(pace.media_time(shot.end()));
            told.position = shot.place;
            if let Some(from) = run.begins.take() {
                told.started = Some(Ok(run.started(from, line, first_packets)));
            }
            Ok::<_, PublishError>(())
        });
        match published {
            None => run.ahead.push_front(shot),
            Some(result) => {
                run.ahead_bytes -= shot.frame.data.len();
                result?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends playback when the last frame's duration has passed.
    fn end(&mut self, now: Instant) -> Next {
        let Some(run) = &mut self.run else {
            return Next::Idle;
        };
        let due = run.pace.due(run.end);
        if due > now {
            return Next::At(due);
        }
        let backwards = run.effective.scale < 0.0;
        let line = &self.line;
        let ended = self.control.publish(self.generation, |told| {
            if let Some(from) = run.begins.take() {
                // Playback was requested at the end of the file: it began and ended.
                told.started = Some(Ok(run.started(from, line, line.next_packets.clone())));
            }
            told.position = if backwards {
                self.file.duration()
            } else {
                Duration::ZERO
            };
            if let Some(publisher) = self.publisher.take() {
                publisher.finish(State::Ended {
                    detail: "played to its end".to_owned(),
                });
            }
        });
        if ended.is_none() {
            return Next::At(now);
        }
        self.run = None;
        Next::Idle
    }

    fn fail(&mut self, failure: Failure) {
        tracing::warn!(file = self.file.name(), %failure, "cannot be played on");
        self.run = None;
        let detail = failure.to_string();
        self.control.fail(failure);
        if let Some(publisher) = self.publisher.take() {
            publisher.finish(State::Down { detail });
        }
    }

    fn leave(&mut self) {
        self.run = None;
        if let Some(publisher) = self.publisher.take() {
            publisher.finish(State::Ended {
                detail: "nobody watches any more".to_owned(),
            });
        }
        if let Audience::All { hub, .. } = &self.audience {
            let name = self.stream.name().as_str();
            // Another stream may have this name.
            let ours = |it: Arc<Stream>| Arc::ptr_eq(&it, &self.stream);
            if hub.stream(name).is_some_and(ours) {
                hub.remove(name);
            }
        }
    }
}

impl fmt::Debug for Reading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading")
            .field("file", &self.file.name())
            .field("audience", &self.audience)
            .finish_non_exhaustive()
    }
}
