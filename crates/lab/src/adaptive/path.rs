//! The path between a server and its viewers: a bottleneck each way that all flows share, and for each
//! flow the rest of the way.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use glassline_sim::{Conditions, Link, Rng, SendOutcome};

/// Bytes of the IP and UDP headers of a datagram.
const HEADERS: usize = 28;

/// One direction of a path, as a case describes it.
#[derive(Clone, Debug)]
pub struct LinkSchedule {
    /// Conditions from the start on, and those that take their place later, in the order of time.
    pub steps: Vec<Step>,
}

/// Conditions of a link from some time on.
#[derive(Clone, Debug)]
pub struct Step {
    /// Time since the start of the run.
    pub at: Duration,
    /// Conditions of the link.
    pub conditions: Conditions,
}

impl LinkSchedule {
    /// Returns a direction whose conditions never change.
    pub fn constant(conditions: Conditions) -> Self {
        let at = Duration::ZERO;
        Self {
            steps: vec![Step { at, conditions }],
        }
    }

    /// Returns the conditions at `time`.
    pub(super) fn conditions(&self, time: Duration) -> &Conditions {
        let begun = self.steps.partition_point(|step| step.at <= time);
        &self.steps[begun.max(1) - 1].conditions
    }
}

/// The direction of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The way of the media of most flows.
    Forward,
    /// The way of their feedback.
    Backward,
}

impl Way {
    pub(super) const fn opposite(self) -> Self {
        match self {
            Self::Forward => Self::Backward,
            Self::Backward => Self::Forward,
        }
    }
}

/// A datagram on its way.
#[derive(Debug)]
pub(super) struct Packet {
    /// Flow that the datagram is of.
    pub(super) flow: usize,
    /// Content of the datagram.
    pub(super) body: Body,
    /// Time that the datagram waited at the bottleneck.
    queued: Duration,
}

/// Content of a datagram.
#[derive(Debug)]
pub(super) enum Body {
    /// A datagram of WebRTC.
    Datagram(Datagram),
    /// A segment of a TCP flow.
    Segment(u64),
    /// The acknowledgement of a segment.
    Acknowledgement(u64),
}

/// A datagram of WebRTC, with what a sender that keeps its own account would read of it.
#[derive(Debug)]
pub(super) struct Datagram {
    pub(super) bytes: Vec<u8>,
    /// Number of a packet in the order of sending; `None` for control.
    pub(super) number: Option<u64>,
    /// Time of sending.
    pub(super) sent: Instant,
}

impl Datagram {
    /// Returns a datagram of control.
    pub(super) const fn control(bytes: Vec<u8>, sent: Instant) -> Self {
        Self {
            bytes,
            number: None,
            sent,
        }
    }
}

impl Body {
    fn bytes(&self) -> usize {
        match self {
            Self::Datagram(datagram) => datagram.bytes.len() + HEADERS,
            Self::Segment(_) => 1_500,
            Self::Acknowledgement(_) => 60,
        }
    }
}

/// A datagram that has arrived.
#[derive(Debug)]
pub(super) struct Arrived {
    pub(super) way: Way,
    pub(super) flow: usize,
    pub(super) body: Body,
    /// Time that the datagram waited at the bottleneck.
    pub(super) queued: Duration,
}

/// One direction in use.
#[derive(Debug)]
struct Direction {
    bottleneck: Link<Packet>,
    /// The rest of the way of each flow.
    access: Vec<Link<Packet>>,
    /// Steps that are still to come.
    steps: VecDeque<Step>,
}

/// Both directions in use.
#[derive(Debug)]
pub(super) struct Path {
    start: Instant,
    forward: Direction,
    backward: Direction,
}

impl Path {
    /// Returns a path that begins at `start`. `extra`: further delay of each flow, each way.
    pub(super) fn new(
        forward: &LinkSchedule,
        backward: &LinkSchedule,
        extra: &[Duration],
        start: Instant,
        seed: u64,
    ) -> Self {
        let rng = Rng::new(seed);
        Self {
            start,
            forward: Direction::new(forward, extra, start, rng.fork(0).next_u64()),
            backward: Direction::new(backward, extra, start, rng.fork(1).next_u64()),
        }
    }

    fn direction(&mut self, way: Way) -> &mut Direction {
        match way {
            Way::Forward => &mut self.forward,
            Way::Backward => &mut self.backward,
        }
    }

    /// Sends a datagram of `flow`; returns false if it will not arrive.
    pub(super) fn send(&mut self, now: Instant, way: Way, flow: usize, body: Body) -> bool {
        let bytes = body.bytes();
        let packet = Packet {
            flow,
            body,
            queued: Duration::ZERO,
        };
        let direction = self.direction(way);
        let outcome = direction.bottleneck.send(now, bytes, packet);
        matches!(outcome, SendOutcome::Arrives(_))
    }

    /// Changes the conditions whose time has come.
    pub(super) fn step(&mut self, now: Instant) {
        let time = now - self.start;
        self.forward.step(time);
        self.backward.step(time);
    }

    /// Returns the next datagram that has arrived by `now`; to be called until `None`.
    pub(super) fn poll(&mut self, now: Instant) -> Option<Arrived> {
        for way in [Way::Forward, Way::Backward] {
            if let Some(packet) = self.direction(way).poll(now) {
                return Some(Arrived {
                    way,
                    flow: packet.flow,
                    body: packet.body,
                    queued: packet.queued,
                });
            }
        }
        None
    }

    /// Returns when something happens on the path next.
    pub(super) fn due(&self) -> Option<Instant> {
        let both = [self.forward.due(self.start), self.backward.due(self.start)];
        both.into_iter().flatten().min()
    }

    /// Returns the time that a datagram would wait at the forward bottleneck.
    pub(super) fn queue(&self, now: Instant) -> Duration {
        self.forward.bottleneck.queue_delay(now)
    }
}

impl Direction {
    fn new(lane: &LinkSchedule, extra: &[Duration], start: Instant, seed: u64) -> Self {
        let mut steps: VecDeque<Step> = lane.steps.iter().cloned().collect();
        let first = steps.pop_front().map(|step| step.conditions);
        let access = extra
            .iter()
            .map(|delay| Link::new(Conditions::delayed(*delay), seed).starting_at(start));
        Self {
            bottleneck: Link::new(first.unwrap_or_default(), seed).starting_at(start),
            access: access.collect(),
            steps,
        }
    }

    fn step(&mut self, time: Duration) {
        while self.steps.front().is_some_and(|step| step.at <= time) {
            if let Some(step) = self.steps.pop_front() {
                self.bottleneck.set_conditions(step.conditions);
            }
        }
    }

    fn poll(&mut self, now: Instant) -> Option<Packet> {
        while let Some(arrival) = self.bottleneck.poll(now) {
            let mut packet = arrival.datagram;
            packet.queued = arrival.queued;
            let (flow, bytes) = (packet.flow, packet.body.bytes());
            self.access[flow].send(arrival.at, bytes, packet);
        }
        let mut access = self.access.iter_mut();
        access.find_map(|link| Some(link.poll(now)?.datagram))
    }

    fn due(&self, start: Instant) -> Option<Instant> {
        let step = self.steps.front().map(|step| start + step.at);
        let access = self.access.iter().filter_map(Link::next_arrival);
        let others = [step, self.bottleneck.next_arrival()];
        access.chain(others.into_iter().flatten()).min()
    }
}
