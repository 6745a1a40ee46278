//! A viewer, the server's side of it, and the publisher of its stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::Bitrate;
use glassline_webrtc::Certificate;

use super::arm::Arm;
use super::case::{Case, Viewing};
use super::connection::Connection;
use super::figures::{Evidence, Possible};
use super::ledger::{Ledger, SAMPLE, Sample};
use super::moment::Moment;
use super::outcome::ViewerRun;
use super::path::{Arrived, Body, Datagram, Path, Way};
use super::receipts::{Receipt, Receipts};
use super::server::{ServerEnd, track};
use super::share::share;
use super::source::{Content, Encoders};
use super::viewer::ViewerEnd;

/// Bitrate of a path in relation to that of an encoding that fits it: headers, keyframes and the spread
/// of frames need some room.
const ROOM: f64 = 1.15;

/// Time in which a server has to find out what a path carries.
const FOUND: Duration = Duration::from_secs(3);

/// Least time from one turn to the next that nothing arriving caused.
const STEP_MIN: Duration = Duration::from_micros(100);

/// A viewer in a scene.
#[derive(Debug)]
pub(super) struct Viewed {
    place: usize,
    /// Direction of the media.
    way: Way,
    start: Instant,
    joined: Duration,
    pause: Option<Moment>,
    layers: Vec<Bitrate>,
    is_following: bool,
    encoders: Encoders,
    server: ServerEnd,
    viewer: ViewerEnd,
    ledger: Ledger,
    receipts: Receipts,
    /// Position of the encoding that the oracle chose.
    preferred: usize,
    /// Bytes sent and received at the last sample.
    before: (u64, u64),
}

/// The beginning of a viewer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Join<'a> {
    /// Position of the flow in the case.
    pub(super) place: usize,
    pub(super) certificate: &'a Arc<Certificate>,
    /// Start of the run.
    pub(super) start: Instant,
    pub(super) now: Instant,
    /// Round trip of the path without a queue.
    pub(super) round_trip: Duration,
    pub(super) seed: u64,
}

impl Viewed {
    /// Lets a viewer join.
    pub(super) fn new(arm: Arm, viewing: &Viewing, join: &Join<'_>) -> Self {
        let Join {
            place,
            start,
            now,
            seed,
            ..
        } = *join;
        let layers = viewing.source.layers.clone();
        let track = track(&layers);
        let tracks = std::slice::from_ref(&track);
        let mut connection = Connection::new(join.certificate, tracks, now, join.round_trip, seed);
        if let Some(interval) = viewing.feedback {
            connection.viewer.set_feedback_interval(interval);
        }
        let joined = now - start;
        Self {
            place,
            way: match viewing.is_reversed {
                true => Way::Backward,
                false => Way::Forward,
            },
            start,
            joined,
            pause: viewing.pause,
            is_following: matches!(viewing.source.content, Content::Following(_)),
            encoders: Encoders::new(&viewing.source, joined, seed),
            server: ServerEnd::new(arm, connection.server, &layers, start, now),
            layers,
            viewer: ViewerEnd::new(connection.viewer, start, now),
            ledger: Ledger::default(),
            receipts: Receipts::default(),
            preferred: 0,
            before: (0, 0),
        }
    }

    /// Takes a datagram that arrived.
    pub(super) fn receive(&mut self, arrived: Arrived, now: Instant) {
        let Body::Datagram(datagram) = arrived.body else {
            return;
        };
        let mut bytes = datagram.bytes;
        if arrived.way == self.way {
            if let Some(number) = datagram.number {
                self.receipts.note(Receipt { number, at: now });
            }
            let queued = arrived.queued.as_secs_f32() * 1e3;
            self.ledger.queued_ms.push(queued);
            let is_media = datagram.number.is_some();
            self.viewer
                .receive(now, &mut bytes, is_media, &mut self.ledger);
        } else {
            let sent = datagram.sent;
            self.server
                .receive(now, &mut bytes, &mut self.receipts, sent);
        }
    }

    /// Does what is due, and sends what may leave. Returns when the flow acts next.
    pub(super) fn turn(&mut self, path: &mut Path, now: Instant) -> Option<Instant> {
        let time = now - self.start;
        self.server.handle_timeout(now);
        self.viewer.handle_timeout(now);
        for place in self.server.wanted_keyframes() {
            self.encoders.request_keyframe(place, time);
        }
        if let Some(pause) = self.pause.filter(|it| (it.at..it.until).contains(&time)) {
            self.encoders.pause(pause.until);
        }
        while self.encoders.due() <= time {
            let at = self.encoders.due();
            let frames = self.encoders.film(at);
            self.ledger.published.push(time);
            self.server.publish(&frames, now);
        }
        self.send(path, now);
        let film = self.start + self.encoders.due();
        [Some(film), self.server.due(), self.viewer.due()]
            .into_iter()
            .flatten()
            .min()
            .map(|at| at.max(now + STEP_MIN))
    }

    fn send(&mut self, path: &mut Path, now: Instant) {
        for bytes in self.server.flush(now) {
            let number = Some(self.ledger.sent);
            self.ledger.sent += 1;
            self.ledger.sent_bytes += bytes.len() as u64;
            let datagram = Datagram {
                number,
                ..Datagram::control(bytes, now)
            };
            let arrives = path.send(now, self.way, self.place, Body::Datagram(datagram));
            self.ledger.lost += u64::from(!arrives);
            if now - self.start >= self.joined + FOUND {
                self.ledger.sent_late += 1;
                self.ledger.lost_late += u64::from(!arrives);
            }
        }
        while let Some(bytes) = self.server.poll_transmit() {
            let body = Body::Datagram(Datagram::control(bytes, now));
            path.send(now, self.way, self.place, body);
        }
        let mut bytes = Vec::new();
        while self.viewer.session.poll_transmit(&mut bytes).is_some() {
            let body = Body::Datagram(Datagram::control(bytes.clone(), now));
            path.send(now, self.way.opposite(), self.place, body);
        }
    }

    /// Notes the state at `time`.
    pub(super) fn sample(&mut self, time: Duration, capacity: Option<Bitrate>, queue: Duration) {
        let ledger = &mut self.ledger;
        let seconds = SAMPLE.as_secs_f64();
        let mbps = |bytes: u64| bytes as f64 / 125_000.0 / seconds;
        let estimate = self.server.estimate();
        if self.is_following
            && let Some(estimate) = estimate
        {
            self.encoders.follow(estimate);
        }
        let last = ledger.shown.last();
        let recent = ledger.shown.iter().rev();
        let second = time.saturating_sub(Duration::from_secs(1));
        let fps = recent.take_while(|shown| shown.at > second).count();
        let sample = Sample {
            at_s: time.as_secs_f64(),
            capacity_mbps: capacity.map(Bitrate::mbps),
            sent_mbps: mbps(ledger.sent_bytes - self.before.0),
            received_mbps: mbps(ledger.received_bytes - self.before.1),
            estimate_mbps: estimate.map(Bitrate::mbps),
            layer_mbps: last.map(|it| self.encoders.rate(usize::from(it.layer)).mbps()),
            queue_ms: queue.as_secs_f64() * 1e3,
            fps: fps as f64,
        };
        self.before = (ledger.sent_bytes, ledger.received_bytes);
        ledger.samples.push(sample);
    }

    /// Lets the server send the best encoding that fits `share`.
    pub(super) fn prefer(&mut self, share: Option<Bitrate>, now: Instant) {
        let best = best(&self.layers, share);
        if best != self.preferred {
            self.preferred = best;
            self.server.prefer(best, now);
        }
        if self.is_following
            && let Some(share) = share
        {
            self.encoders.follow(share);
        }
    }

    /// Ends the run at `end`.
    pub(super) fn finish(mut self, case: &Case, place: usize, end: Duration) -> ViewerRun {
        self.ledger.keyframes_asked = self.server.keyframes_asked;
        let waits = self.server.waits.iter();
        self.ledger.waited_ms = waits.map(|it| it.as_secs_f64() * 1e3).collect();
        let possible = self.possible(case, place, end);
        let layers: Vec<f64> = self.layers.iter().map(|rate| rate.mbps()).collect();
        let after = case.moment.map(|moment| share(case, place, moment.at));
        let evidence = Evidence {
            ledger: &self.ledger,
            joined: self.joined,
            end,
            possible,
            layers: &layers,
            moment: case.moment,
            best: after.map_or(0, |share| best(&self.layers, share)),
        };
        ViewerRun {
            figures: evidence.figures(),
            samples: self.ledger.samples,
        }
    }

    /// Returns the bytes that the viewer could have got until `end`.
    fn possible(&self, case: &Case, place: usize, end: Duration) -> Possible {
        let (mut time, mut possible) = (self.joined, Possible::default());
        while time < end {
            let is_paused = self
                .pause
                .is_some_and(|it| (it.at..it.until).contains(&time));
            if !is_paused {
                let share = share(case, place, time);
                let bytes = |mbps: f64| mbps * 125_000.0 * SAMPLE.as_secs_f64();
                let most = self.layers[0].mbps();
                possible.bytes += bytes(share.map_or(most, Bitrate::mbps).min(most));
                possible.fitting_bytes += bytes(self.layers[best(&self.layers, share)].mbps());
            }
            time += SAMPLE;
        }
        possible
    }
}

/// Returns the position of the best encoding that a path of this rate carries, or of the last one.
fn best(layers: &[Bitrate], share: Option<Bitrate>) -> usize {
    let Some(share) = share else {
        return 0;
    };
    let fits = |rate: &Bitrate| rate.mbps() * ROOM <= share.mbps();
    let found = layers.iter().position(fits);
    found.unwrap_or(layers.len().saturating_sub(1))
}
