//! A reading: reads a file as its users command and publishes it into one stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Hub, PublishError, Publisher, State, Stream};
use glassline_media::Track;

use super::control::Failure;
use super::control::{Control, PlayCommand};
use super::frame_source::Playable;
use super::play::Play;
use super::playback::{NextDue, Playback};
use super::playback_cursor::Effective;
use super::timeline::ReadingTimeline;
use crate::{UnitPacketizer, UnitTiming};

/// Frames that are read ahead before another reading has its turn.
const TURN: usize = 8;

/// Frames that are published before another reading has its turn.
const UNITS: usize = 32;

/// Time after which a reading looks again for what was not written yet.
const GROWTH: Duration = Duration::from_millis(200);

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
#[derive(derive_more::Debug)]
#[debug("Reading {{ file: {:?}, audience: {audience:?}, .. }}", self.file.name())]
pub(super) struct Reading {
    file: Arc<dyn Playable>,
    stream: Arc<Stream>,
    control: Arc<Control>,
    audience: Audience,
    /// Generation of the command in effect.
    generation: u64,
    playback: Option<Playback>,
    packetizers: Vec<UnitPacketizer>,
    publisher: Option<Publisher>,
    timeline: ReadingTimeline,
    quiet_since: Option<Instant>,
}

impl Reading {
    pub(super) fn new(
        file: Arc<dyn Playable>,
        stream: Arc<Stream>,
        control: Arc<Control>,
        audience: Audience,
    ) -> Self {
        let tracks = file.tracks().to_vec();
        Self {
            packetizers: tracks.iter().map(UnitPacketizer::new).collect(),
            timeline: ReadingTimeline::new(tracks.len()),
            // The publisher is created now so that the stream's tracks are known before it plays.
            publisher: stream.publish(tracks, Instant::now()).ok(),
            file,
            stream,
            control,
            audience,
            generation: 0,
            playback: None,
            quiet_since: None,
        }
    }

    /// Follows a new command and publishes the units that are due.
    pub(super) fn advance(&mut self, now: Instant) -> Next {
        if self.is_left(now) && self.control.end_unless_used() {
            self.leave();
            return Next::Gone;
        }
        if let Some((generation, command)) = self.control.new_command(self.generation) {
            self.generation = generation;
            let followed = match command {
                PlayCommand::Play(play) => self.play(play, now),
                PlayCommand::Pause => {
                    self.playback
                        .iter_mut()
                        .for_each(|playback| playback.paused = true);
                    Ok(())
                }
            };
            if let Err(failure) = followed {
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
    pub(super) fn wants_read_ahead(&self) -> bool {
        self.playback
            .as_ref()
            .is_some_and(Playback::wants_read_ahead)
    }

    /// Reads some frames. A failure ends the reading.
    pub(super) fn read_ahead(&mut self) {
        let Some(playback) = &mut self.playback else {
            return;
        };
        for _ in 0..TURN {
            if !playback.wants_read_ahead() {
                return;
            }
            if let Err(failure) = playback.read() {
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
            Audience::All { .. } if self.playback.is_none() => true,
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
        self.publish_again(now)?;
        let goes_on = self
            .playback
            .take()
            .filter(|playback| playback.is_same(&play, effective));
        let mut playback = match goes_on {
            Some(playback) => playback,
            None => {
                let from = play.from.unwrap_or_else(|| self.control.position());
                Playback::begin(&*self.file, from, play, effective)?
            }
        };
        let position = self.control.position();
        playback.go(position, &mut self.timeline, now)?;
        self.playback = Some(playback);
        Ok(())
    }

    /// Publishes the stream again, if its playback has ended.
    fn publish_again(&mut self, now: Instant) -> Result<(), Failure> {
        if self.publisher.is_none() {
            let tracks: Vec<Track> = self.file.tracks().to_vec();
            self.publisher = Some(self.stream.publish(tracks, now)?);
        }
        Ok(())
    }

    fn publish_due(&mut self, now: Instant) -> Result<Next, Failure> {
        for _ in 0..UNITS {
            let Some(playback) = self.playback.as_mut().filter(|playback| !playback.paused) else {
                return Ok(Next::Idle);
            };
            match playback.next_due()? {
                NextDue::Never => return Ok(self.end(now)),
                NextDue::Later => return Ok(Next::At(now + GROWTH)),
                NextDue::At(due) if due > now => return Ok(Next::At(due)),
                NextDue::At(_) => {}
            }
            if !self.publish_next(now)? {
                break;
            }
        }
        Ok(Next::At(now))
    }

    /// Publishes the frame that is due. Returns false if there is a new command.
    fn publish_next(&mut self, now: Instant) -> Result<bool, Failure> {
        let (Some(playback), Some(publisher)) = (&mut self.playback, &mut self.publisher) else {
            return Ok(false);
        };
        let Some(scheduled) = playback.ahead.pop_front() else {
            return Ok(false);
        };
        if playback.pace.catch_up(scheduled.due, now) {
            let file = self.file.name();
            tracing::warn!(
                file,
                "playback of a file is late, because the disk or the machine paused: it continues from here without catching up"
            );
        }
        let (frame, pace, timeline) = (&scheduled.frame, playback.pace, &mut self.timeline);
        let timing = UnitTiming {
            track: frame.track,
            time: pace.media_time(scheduled.shown),
            decode_time: pace.media_time(scheduled.due),
            origin: timeline.instant(pace.media_time(scheduled.due), now),
        };
        let mut media_units = Vec::new();
        self.packetizers[frame.track].packetize(
            &frame.data,
            frame.keyframe,
            timing,
            &mut media_units,
        );
        if self.file.is_of_calendar() {
            let place = playback.place_of(&scheduled);
            for unit in &mut media_units {
                unit.recorded = Some(place);
            }
        }
        let published = self.control.publish(self.generation, |status| {
            let first_packets = timeline.next_packets.clone();
            for media_unit in media_units {
                timeline.push(publisher, media_unit, now)?;
            }
            timeline.end = timeline.end.max(pace.media_time(scheduled.end()));
            status.position = scheduled.position;
            if let Some(from) = playback.begins.take() {
                status.started = Some(Ok(playback.started(from, timeline, first_packets)));
            }
            Ok::<_, PublishError>(())
        });
        match published {
            None => playback.ahead.push_front(scheduled),
            Some(result) => {
                playback.ahead_bytes -= scheduled.frame.data.len();
                result?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends playback when the last frame's duration has passed.
    fn end(&mut self, now: Instant) -> Next {
        let Some(playback) = &mut self.playback else {
            return Next::Idle;
        };
        if let Some(from) = playback.begins {
            // Playback was requested at the end of the file: nothing more comes that could begin it.
            let first_packets = self.timeline.next_packets.clone();
            let started = playback.started(from, &self.timeline, first_packets);
            let told = self.control.publish(self.generation, |status| {
                status.started = Some(Ok(started));
            });
            if told.is_none() {
                return Next::At(now);
            }
            playback.begins = None;
        }
        let due = playback.pace.due(playback.end);
        if due > now {
            return Next::At(due);
        }
        let backwards = playback.effective.scale < 0.0;
        let ended = self.control.publish(self.generation, |status| {
            status.position = if backwards {
                self.file.end()
            } else {
                Duration::ZERO
            };
            if let Some(publisher) = self.publisher.take() {
                publisher.finish(State::Ended {
                    detail: "the file was played to its end".to_owned(),
                });
            }
        });
        if ended.is_none() {
            return Next::At(now);
        }
        self.playback = None;
        Next::Idle
    }

    /// Ends the reading; its users are told why.
    pub(super) fn fail(&mut self, failure: Failure) {
        tracing::warn!(file = self.file.name(), %failure, "playback of a file stopped");
        self.playback = None;
        let detail = failure.to_string();
        self.control.fail(failure);
        if let Some(publisher) = self.publisher.take() {
            publisher.finish(State::Down { detail });
        }
    }

    /// Ends the reading because of a panic. The next client gets another one.
    pub(super) fn abandon(&mut self) {
        self.control.end();
        tracing::warn!(
            file = self.file.name(),
            "playback of a file stopped: it panicked"
        );
        if let Some(publisher) = self.publisher.take() {
            publisher.finish(State::Down {
                detail: "playing the file panicked; the log has the place in the code".to_owned(),
            });
        }
        self.unlist();
    }

    fn leave(&mut self) {
        self.playback = None;
        if let Some(publisher) = self.publisher.take() {
            publisher.finish(State::Ended {
                detail: "the last viewer left".to_owned(),
            });
        }
        self.unlist();
    }

    /// Removes the stream from the hub.
    fn unlist(&self) {
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
