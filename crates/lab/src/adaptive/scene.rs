//! A run of a case: all flows over one path, from one event in virtual time to the next.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_sim::{Clock, Rng};
use glassline_webrtc::Certificate;

use super::arm::Arm;
use super::case::{Case, Traffic};
use super::ledger::SAMPLE;
use super::outcome::Run;
use super::path::{Body, LinkSchedule, Path, Way};
use super::share::{capacity, share};
use super::tcp::Tcp;
use super::viewing::{Join, Viewed};

/// Traffic that is under way.
#[expect(clippy::large_enum_variant, reason = "a handful of each run")]
enum Active {
    Viewer(Viewed),
    Tcp(Tcp),
}

/// A flow and when it acts next.
struct Playing {
    active: Active,
    due: Option<Instant>,
}

/// All flows over one path.
struct Scene<'a> {
    case: &'a Case,
    arm: Arm,
    certificate: &'a Arc<Certificate>,
    rng: Rng,
    clock: Clock,
    start: Instant,
    path: Path,
    /// Flows in the order of the case; `None` before their start.
    flows: Vec<Option<Playing>>,
    sample_at: Instant,
}

/// Plays `case` with the sender `arm`. `seed` decides sizes of frames, losses and jitter.
pub fn play(case: &Case, arm: Arm, seed: u64, certificate: &Arc<Certificate>) -> Run {
    let mut scene = Scene::new(case, arm, seed, certificate);
    let end = scene.start + case.duration;
    while let Some(now) = scene.next().filter(|at| *at < end) {
        scene.clock.advance_to(now);
        scene.turn();
    }
    scene.finish(end)
}

impl<'a> Scene<'a> {
    fn new(case: &'a Case, arm: Arm, seed: u64, certificate: &'a Arc<Certificate>) -> Self {
        let (clock, rng) = (Clock::new(), Rng::new(seed));
        let start = clock.now();
        let extra: Vec<Duration> = case.flows.iter().map(|flow| flow.extra).collect();
        let seed = rng.fork(1).next_u64();
        Self {
            case,
            arm,
            certificate,
            clock,
            start,
            path: Path::new(&case.forward, &case.backward, &extra, start, seed),
            flows: case.flows.iter().map(|_| None).collect(),
            sample_at: start,
            rng,
        }
    }

    fn time(&self) -> Duration {
        self.clock.now() - self.start
    }

    /// Returns when something happens next.
    fn next(&self) -> Option<Instant> {
        let starts = self.case.flows.iter().zip(&self.flows);
        let flows = starts.filter_map(|(flow, playing)| match playing {
            None => Some(self.start + flow.start),
            Some(playing) => playing.due,
        });
        let next = flows.chain(self.path.due()).chain([self.sample_at]).min()?;
        Some(next.max(self.clock.now()))
    }

    /// Does everything that is due now.
    fn turn(&mut self) {
        let now = self.clock.now();
        self.path.step(now);
        for place in 0..self.flows.len() {
            if self.flows[place].is_none() && self.start + self.case.flows[place].start <= now {
                self.flows[place] = Some(self.begin(place));
            }
        }
        while let Some(arrived) = self.path.poll(now) {
            let Some(playing) = &mut self.flows[arrived.flow] else {
                continue;
            };
            let path = &mut self.path;
            match &mut playing.active {
                Active::Viewer(viewed) => viewed.receive(arrived, now),
                Active::Tcp(tcp) => match arrived.body {
                    Body::Segment(number) => {
                        let body = Body::Acknowledgement(number);
                        path.send(now, Way::Backward, arrived.flow, body);
                    }
                    Body::Acknowledgement(number) => tcp.acknowledge(number, now),
                    Body::Datagram(_) => {}
                },
            }
            playing.due = Some(now);
        }
        if self.sample_at <= now {
            self.sample_at += SAMPLE;
            self.sample();
        }
        for playing in self.flows.iter_mut().flatten() {
            if playing.due.is_some_and(|due| due <= now) {
                playing.due = match &mut playing.active {
                    Active::Viewer(viewed) => viewed.turn(&mut self.path, now),
                    Active::Tcp(tcp) => tcp.turn(&mut self.path, now),
                };
            }
        }
    }

    fn begin(&mut self, place: usize) -> Playing {
        let seed = self.rng.fork(10 + place as u64).next_u64();
        let now = self.clock.now();
        let active = match &self.case.flows[place].traffic {
            Traffic::Viewer(viewing) => {
                let join = Join {
                    place,
                    certificate: self.certificate,
                    start: self.start,
                    now,
                    round_trip: self.case.round_trip(place, now - self.start),
                    seed,
                };
                let viewed = Viewed::new(self.arm, viewing, &join);
                Active::Viewer(viewed)
            }
            Traffic::Bulk => Active::Tcp(Tcp::bulk(place)),
            Traffic::Web { pause } => Active::Tcp(Tcp::web(place, *pause, seed)),
        };
        Playing {
            active,
            due: Some(now),
        }
    }

    /// Notes the state of every viewer, and tells the oracle what fits.
    fn sample(&mut self) {
        let (now, time) = (self.clock.now(), self.time());
        let queue = self.path.queue(now);
        for place in 0..self.flows.len() {
            let share = share(self.case, place, time);
            let lane = self.lane(place);
            let capacity = capacity(lane.conditions(time));
            let Some(playing) = &mut self.flows[place] else {
                continue;
            };
            if let Active::Viewer(viewed) = &mut playing.active {
                viewed.sample(time, capacity, queue);
                if self.arm == Arm::Oracle {
                    viewed.prefer(share, now);
                    playing.due = Some(now);
                }
            }
        }
    }

    fn lane(&self, place: usize) -> &'a LinkSchedule {
        match &self.case.flows[place].traffic {
            Traffic::Viewer(viewing) if viewing.is_reversed => &self.case.backward,
            _ => &self.case.forward,
        }
    }

    /// Ends the run.
    fn finish(self, end: Instant) -> Run {
        let mut viewers = Vec::new();
        let end = end - self.start;
        for (place, playing) in self.flows.into_iter().enumerate() {
            let Some(Playing {
                active: Active::Viewer(viewed),
                ..
            }) = playing
            else {
                continue;
            };
            viewers.push(viewed.finish(self.case, place, end));
        }
        Run { viewers }
    }
}
