//! The publisher, which encodes and uploads the stream.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_congestion::Adaptation;
use glassline_congestion::adaptation::{Config, Rule, Signals};
use glassline_media::Bitrate;
use glassline_quic::CongestionMonitor;
use noq_proto::{Connection, Dir, Event, StreamEvent, StreamId};

use super::camera::Camera;
use super::message::Parser;
use super::node::Application;
use super::schedule::Schedule;
use super::wire::Wire;
use crate::congestion::session::{Delivery, Source};

/// Time between two pings, as in the study.
const PING_PERIOD: Duration = Duration::from_secs(1);

/// Application that sends a camera's frames as the path allows.
#[derive(Debug)]
pub(crate) struct Publisher {
    source: Source,
    schedule: Schedule,
    adaptation: Adaptation,
    observed: CongestionMonitor,
    /// The camera; `None` until the first frame is due.
    camera: Option<Camera>,
    next_ping: Option<Instant>,
    /// Pings that are not answered, oldest first.
    pings: VecDeque<Ping>,
    answers: Option<(StreamId, Parser)>,
    published: Published,
    /// Sum of the target bitrates of all frames, for their mean.
    targets: u64,
    frames: u64,
}

#[derive(Clone, Copy, Debug)]
struct Ping {
    number: u64,
    sent: Instant,
    /// Whether the ping's group was reset.
    dropped: bool,
}

/// Observations of a publisher.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Published {
    /// Time at which the first frame was made.
    pub(crate) started: Option<Instant>,
    /// Time at which the controller first concluded that the path is policed.
    pub(crate) policed: Option<Instant>,
    /// Time at which the connection broke, and the reason.
    pub(crate) broken: Option<(Instant, String)>,
    /// Time from each ping to its answer, without the application's processing time.
    pub(crate) answered: Vec<Duration>,
    /// Age of each ping without an answer. A ping whose group was reset counts until the answer
    /// to a later one, which replaces it.
    pub(crate) unanswered: Vec<Duration>,
    /// Mean bitrate that the encoder was set to.
    pub(crate) target_mean: Bitrate,
    /// Application bytes that were made.
    pub(crate) made_bytes: u64,
    /// Application bytes that were passed to the transport.
    pub(crate) written_bytes: u64,
    /// Number of groups that were reset.
    pub(crate) dropped_groups: u64,
    /// Bytes that were dropped with those groups.
    pub(crate) dropped_bytes: u64,
    /// Largest number of bytes that were made and not acknowledged.
    pub(crate) backlog_bytes_max: u64,
}

impl Publisher {
    pub(crate) fn new(
        source: Source,
        rule: Rule,
        delivery: Delivery,
        observed: CongestionMonitor,
        wire: Wire,
    ) -> Self {
        let config = Config {
            min: source.bitrate_min,
            max: source.bitrate_max,
            knee: source.knee,
            start: source.bitrate_start,
        };
        Self {
            source,
            schedule: Schedule::new(delivery, wire),
            adaptation: Adaptation::new(rule, config),
            observed,
            camera: None,
            next_ping: None,
            pings: VecDeque::new(),
            answers: None,
            published: Published::default(),
            targets: 0,
            frames: 0,
        }
    }

    /// Returns the observations of the upload until `now`.
    pub(crate) fn published(&self, now: Instant) -> Published {
        let mut published = self.published.clone();
        let age = |ping: &Ping| now.saturating_duration_since(ping.sent);
        published.unanswered.extend(self.pings.iter().map(age));
        let counts = self.schedule.counts();
        published.made_bytes = counts.made;
        published.written_bytes = counts.written;
        published.dropped_groups = counts.dropped_groups;
        published.dropped_bytes = counts.dropped_bytes;
        published.backlog_bytes_max = counts.backlog_max;
        published.target_mean = Bitrate::from_bps(self.targets / self.frames.max(1));
        published
    }

    /// Bitrate that the encoder is set to.
    pub(crate) fn target(&self) -> Bitrate {
        self.adaptation.target()
    }

    /// Bytes that were made and not acknowledged.
    pub(crate) fn backlog_bytes(&self) -> u64 {
        self.schedule.backlog()
    }

    fn capture_due_frames(&mut self, now: Instant) {
        let Some(camera) = &mut self.camera else {
            return;
        };
        while camera.due() <= now {
            let seen = self.observed.get();
            let target = self.adaptation.decide(
                now,
                Signals {
                    backlog_bytes: self.schedule.backlog(),
                    written_bytes_total: self.schedule.counts().written,
                    deliverable: seen.deliverable_rate,
                    app_limited: seen.app_limited,
                    policed: seen.policed,
                },
            );
            let Some(media) = camera.poll(now, target) else {
                break;
            };
            self.targets += target.bps();
            self.frames += 1;
            self.schedule.push(now, media);
        }
    }

    fn ping(&mut self, now: Instant) {
        while let Some(due) = self.next_ping
            && due <= now
        {
            let number = due_number(self.published.started, due);
            let queued = self.schedule.push_ping(now, number);
            self.pings.push_back(Ping {
                number,
                sent: now,
                dropped: !queued,
            });
            self.next_ping = Some(due + PING_PERIOD);
        }
    }

    fn read_answers(&mut self, now: Instant, id: StreamId, connection: &mut Connection) {
        let (_, parser) = self.answers.get_or_insert_with(|| (id, Parser::default()));
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else {
            return;
        };
        let mut answered = Vec::new();
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            parser.read(&chunk.bytes, |number| answered.push(number));
        }
        let _ = chunks.finalize();
        for number in answered {
            self.on_answer(now, number);
        }
    }

    fn on_answer(&mut self, now: Instant, number: u64) {
        let published = &mut self.published;
        self.pings.retain(|ping| {
            let age = now.saturating_duration_since(ping.sent);
            if ping.number == number {
                published.answered.push(age);
                false
            } else if ping.number < number && ping.dropped {
                published.unanswered.push(age);
                false
            } else {
                true
            }
        });
    }
}

/// Number of the ping that is due at `due`: the seconds since the first.
fn due_number(started: Option<Instant>, due: Instant) -> u64 {
    started.map_or(0, |started| {
        due.saturating_duration_since(started).as_secs()
    })
}

impl Application for Publisher {
    fn on_event(&mut self, now: Instant, event: Event, connection: &mut Connection) {
        match event {
            Event::Connected => {
                self.published.started = Some(now);
                self.camera = Some(Camera::new(self.source, now));
                // Pings fall between two keyframes, where those of an independent clock fall on
                // average.
                self.next_ping = Some(now + PING_PERIOD / 2);
            }
            Event::ConnectionLost { reason } => {
                self.published.broken = Some((now, reason.to_string()));
                self.camera = None;
                self.next_ping = None;
            }
            Event::Stream(StreamEvent::Opened { dir: Dir::Uni }) => {
                if let Some(id) = connection.streams().accept(Dir::Uni) {
                    self.read_answers(now, id, connection);
                }
            }
            Event::Stream(StreamEvent::Readable { id }) => self.read_answers(now, id, connection),
            _ => {}
        }
    }

    fn turn(&mut self, now: Instant, connection: &mut Connection) {
        self.capture_due_frames(now);
        self.ping(now);
        if self.camera.is_none() {
            return;
        }
        let seen = self.observed.get();
        if seen.policed {
            self.published.policed.get_or_insert(now);
        }
        let pings = &mut self.pings;
        self.schedule.turn(now, connection, seen.window, |number| {
            if let Some(ping) = pings.iter_mut().find(|ping| ping.number == number) {
                ping.dropped = true;
            }
        });
    }

    fn due(&self) -> Option<Instant> {
        let camera = self.camera.as_ref().map(Camera::due);
        camera.into_iter().chain(self.next_ping).min()
    }
}
