//! Runs an upload in virtual time: no socket, no thread, no clock.
//!
//! ```text
//!            ┌─ up: one Link for all flows ──┐
//! senders ───┤                               ├─── receivers
//!            └─ down: another ───────────────┘
//!     next event = earliest of arrivals, timers, cameras, changes, samples
//! ```
//!
//! This loop is not a `glassline_sim::Simulation`, for three reasons: it carries ECN marks and
//! reports each datagram's outcome to the figures, it calls only the ends that have something to
//! do, and its digest leaves out what the simulation's trace includes. Studies run it for
//! thousands of sessions, and their digests are compared with earlier ones.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use bytes::BytesMut;
use glassline_quic::CongestionMonitor;
use glassline_sim::{Clock, Conditions, Link, Rng, SendOutcome, Trace};
use noq_proto::EcnCodepoint;

use super::session::{Arm, Change, HEADER_BYTES, Measured, Sample, Scenario};
use super::upload::{
    Account, Credentials, DatagramCounts, Findings, Flow, Node, Publisher, Receiver, Sender,
    Upload, Wire, in_mbps, mbps, millis,
};

/// Interval at which the publisher's decisions enter the digest.
const DECISIONS_PERIOD: Duration = Duration::from_secs(1);

/// Label by which the lateness of wakes gets random numbers of its own.
const WAKES: u64 = 0x77616b65;

/// Runs one session in virtual time; takes a sample every `period`. The ends wake up to `late` late.
pub(super) fn run(
    credentials: &Credentials,
    scenario: &Scenario,
    arm: &Arm,
    seed: u64,
    duration: Duration,
    period: Option<Duration>,
    late: Duration,
) -> (Measured, Vec<Sample>) {
    let mut session = Session::new(credentials, scenario, arm, seed, duration, period);
    session.late = late;
    session.drive();
    session.measure()
}

/// A datagram in flight.
struct InFlight {
    flow: usize,
    /// Address of the publisher: the source on the way up, the destination on the way down.
    client: SocketAddr,
    datagram: BytesMut,
    ecn: Option<EcnCodepoint>,
}

/// A flow with the datagrams that arrived for its ends, and its addresses.
struct FlowState {
    start: Instant,
    sender: Node<Sender>,
    receiver: Node<Receiver>,
    sender_told: bool,
    receiver_told: bool,
    client: SocketAddr,
    server: SocketAddr,
}

impl FlowState {
    fn new(flow: Flow, place: usize) -> Self {
        Self {
            start: flow.start,
            sender: flow.sender,
            receiver: flow.receiver,
            sender_told: false,
            receiver_told: false,
            client: SocketAddr::from((CLIENTS, port(place))),
            server: server(place),
        }
    }
}

/// Addresses of publishers and servers, from the ranges for documentation (RFC 5737).
const CLIENTS: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);
const SERVERS: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 1);
const PORT: u16 = 4433;

fn port(place: usize) -> u16 {
    PORT.saturating_add(u16::try_from(place).unwrap_or(u16::MAX))
}

/// Address of the flow's receiver.
fn server(place: usize) -> SocketAddr {
    SocketAddr::from((SERVERS, port(place)))
}

/// The `times`-th other address of a client.
fn elsewhere(client: SocketAddr, times: usize) -> SocketAddr {
    let last = u8::try_from(times).unwrap_or(u8::MAX);
    SocketAddr::from((Ipv4Addr::new(203, 0, 113, last), client.port()))
}

/// ECN mark of a datagram on arrival.
fn mark(ecn: Option<EcnCodepoint>, congested: bool) -> Option<EcnCodepoint> {
    ecn.map(|ecn| if congested { EcnCodepoint::Ce } else { ecn })
}

struct Session<'a> {
    scenario: &'a Scenario,
    clock: Clock,
    start: Instant,
    end: Instant,
    up: Link<InFlight>,
    down: Link<InFlight>,
    /// The flows; the upload is the first.
    flows: Vec<FlowState>,
    observed: CongestionMonitor,
    account: Account,
    wire: Wire,
    /// Whether ECN marks are carried: without a link that sets them, datagrams have none.
    marks: bool,
    datagram_limit: usize,
    changes_done: usize,
    datagrams: DatagramCounts,
    trace: Trace,
    decided: Instant,
    sampling: Option<Sampling>,
    /// Longest time by which an event is seen late.
    late: Duration,
    wakes: Rng,
}

struct Sampling {
    period: Duration,
    due: Instant,
    received: u64,
    samples: Vec<Sample>,
}

impl<'a> Session<'a> {
    fn new(
        credentials: &Credentials,
        scenario: &'a Scenario,
        arm: &Arm,
        seed: u64,
        duration: Duration,
        period: Option<Duration>,
    ) -> Self {
        let clock = Clock::new();
        let start = clock.now();
        let upload = Upload::new(credentials, scenario, arm, seed, start, server);
        let link =
            |conditions: &Conditions, seed| Link::new(conditions.clone(), seed).starting_at(start);
        let flows = upload.flows.into_iter().enumerate();
        let flows = flows
            .map(|(place, flow)| FlowState::new(flow, place))
            .collect();
        let marks = [&scenario.up, &scenario.down];
        Self {
            up: link(&scenario.up, upload.links[0]),
            down: link(&scenario.down, upload.links[1]),
            clock,
            start,
            end: start + duration,
            flows,
            observed: upload.observed,
            account: upload.account,
            wire: upload.wire,
            marks: marks.iter().any(|way| way.mark_above_bytes.is_some()),
            datagram_limit: usize::MAX,
            changes_done: 0,
            datagrams: DatagramCounts::default(),
            trace: Trace::new(),
            decided: start,
            sampling: period.map(|period| Sampling {
                period,
                due: start + period,
                received: 0,
                samples: Vec::new(),
            }),
            late: Duration::ZERO,
            wakes: Rng::new(seed).fork(WAKES),
            scenario,
        }
    }

    fn drive(&mut self) {
        while let Some(next) = self.next_event()
            && next <= self.end
        {
            let late = match self.late.is_zero() {
                true => Duration::ZERO,
                false => self.late.mul_f64(self.wakes.unit()),
            };
            self.clock.advance_to((next + late).min(self.end));
            let now = self.clock.now();
            self.change(now);
            self.deliver(now);
            for flow in 0..self.flows.len() {
                self.turn(now, flow);
            }
            self.decide(now);
            self.sample(now);
        }
    }

    fn next_event(&self) -> Option<Instant> {
        let links = [self.up.next_arrival(), self.down.next_arrival()];
        let change = self.scenario.changes.get(self.changes_done);
        let change = change.map(|(at, _)| self.start + *at);
        let nodes = self.flows.iter().flat_map(|flow| {
            let sender = flow.sender.due().map(|due| due.max(flow.start));
            [sender, flow.receiver.due()]
        });
        let sample = self.sampling.as_ref().map(|sampling| sampling.due);
        let others = [change, sample, Some(self.decided)];
        links.into_iter().chain(others).chain(nodes).flatten().min()
    }

    /// Delivers all datagrams that arrive by `now`, then calls each end once, so that datagrams
    /// that arrive together are acknowledged together.
    fn deliver(&mut self, now: Instant) {
        let elapsed = self.clock.elapsed();
        while let Some(arrival) = self.up.poll(now) {
            let in_flight = arrival.datagram;
            self.trace
                .record(elapsed, "u", in_flight.datagram.len() as u64);
            if in_flight.flow == 0 {
                self.datagrams.arrived(arrival.queued);
            }
            let flow = &mut self.flows[in_flight.flow];
            let ecn = mark(in_flight.ecn, arrival.congested);
            let receiver = &mut flow.receiver;
            receiver.handle_datagram(now, in_flight.client, ecn, in_flight.datagram);
            flow.receiver_told = true;
        }
        while let Some(arrival) = self.down.poll(now) {
            let in_flight = arrival.datagram;
            let flow = &mut self.flows[in_flight.flow];
            if in_flight.client != flow.client {
                continue;
            }
            self.trace
                .record(elapsed, "d", in_flight.datagram.len() as u64);
            let ecn = mark(in_flight.ecn, arrival.congested);
            let sender = &mut flow.sender;
            sender.handle_datagram(now, flow.server, ecn, in_flight.datagram);
            flow.sender_told = true;
        }
    }

    /// Calls both ends of a flow.
    fn turn(&mut self, now: Instant, place: usize) {
        let flow = &mut self.flows[place];
        let (marks, limit) = (self.marks, self.datagram_limit);
        let in_flight = |datagram: &[u8], client, ecn: Option<EcnCodepoint>| InFlight {
            flow: place,
            client,
            datagram: BytesMut::from(datagram),
            ecn: ecn.filter(|_| marks),
        };
        let due = |due: Option<Instant>| due.is_some_and(|due| due <= now);
        if flow.start <= now && (std::mem::take(&mut flow.sender_told) || due(flow.sender.due())) {
            let (up, datagrams, client) = (&mut self.up, &mut self.datagrams, flow.client);
            flow.sender.turn(now, |datagram, _, ecn| {
                let fate = if datagram.len() > limit {
                    SendOutcome::Lost
                } else {
                    let bytes = datagram.len() + HEADER_BYTES;
                    up.send(now, bytes, in_flight(datagram, client, ecn))
                };
                if place == 0 {
                    datagrams.count(now, fate);
                }
            });
        }
        if std::mem::take(&mut flow.receiver_told) || due(flow.receiver.due()) {
            let down = &mut self.down;
            flow.receiver.turn(now, |datagram, to, ecn| {
                if datagram.len() <= limit {
                    let bytes = datagram.len() + HEADER_BYTES;
                    down.send(now, bytes, in_flight(datagram, to, ecn));
                }
            });
        }
    }

    fn change(&mut self, now: Instant) {
        while let Some((at, change)) = self.scenario.changes.get(self.changes_done)
            && self.start + *at <= now
        {
            self.changes_done += 1;
            match change {
                Change::Up(conditions) => self.up.set_conditions(conditions.clone()),
                Change::Down(conditions) => self.down.set_conditions(conditions.clone()),
                Change::DatagramLimit(bytes) => self.datagram_limit = *bytes,
                Change::ClientAddress => {
                    let flow = &mut self.flows[0];
                    flow.client = elsewhere(flow.client, self.changes_done);
                }
            }
        }
    }

    /// Adds the publisher's decisions to the digest.
    fn decide(&mut self, now: Instant) {
        if self.decided <= now {
            let (at, window) = (self.clock.elapsed(), self.observed.get().window);
            let target = self.publisher().target();
            self.trace.record(at, "window", window);
            self.trace.record(at, "target", target.bps());
            self.decided += DECISIONS_PERIOD;
        }
    }

    fn sample(&mut self, now: Instant) {
        if self
            .sampling
            .as_ref()
            .is_none_or(|sampling| sampling.due > now)
        {
            return;
        }
        let seen = self.observed.get();
        let received = self.flows[0].receiver.application.received().bytes;
        let queue_bytes = self.up.queued_bytes(now) as u64;
        let queue_ms = millis(self.up.queue_delay(now));
        let publisher = self.publisher();
        let (target, backlog_bytes) = (publisher.target(), publisher.backlog_bytes());
        let Some(sampling) = &mut self.sampling else {
            return;
        };
        let bytes = received - std::mem::replace(&mut sampling.received, received);
        sampling.samples.push(Sample {
            at_s: (now - self.start).as_secs_f64(),
            goodput_mbps: mbps(bytes, sampling.period),
            queue_bytes,
            queue_ms,
            window_bytes: seen.window,
            in_flight_bytes: seen.in_flight,
            pacing_mbps: in_mbps(seen.pacing_rate),
            deliverable_mbps: in_mbps(seen.deliverable_rate),
            bitrate_mbps: in_mbps(Some(target)),
            backlog_bytes,
            rtt_ms: seen.smoothed_rtt.map_or(0.0, millis),
        });
        sampling.due += sampling.period;
    }

    fn publisher(&self) -> &Publisher {
        self.flows[0].sender.application.publisher()
    }

    fn measure(mut self) -> (Measured, Vec<Sample>) {
        let findings = Findings {
            start: self.start,
            end: self.end,
            processing: self.scenario.source.processing,
            published: self.publisher().published(self.end),
            received: self.flows[0].receiver.application.received(),
            stream_bytes: self.wire.bytes(),
            round_trips_us: self.account.round_trips_us(),
            observed: self.observed.get(),
            datagrams: std::mem::take(&mut self.datagrams),
        };
        let mut measured = findings.measured();
        let competitors = self.scenario.competitors.iter();
        let competitors = competitors.zip(&self.flows[1..]);
        measured.competitors_mbps = competitors
            .map(|(competitor, flow)| {
                let bytes = flow.receiver.application.received().bytes;
                mbps(bytes, competitor.time_within(self.end - self.start))
            })
            .collect();
        measured.events = self.trace.events();
        measured.digest = self.trace.digest();
        let samples = self.sampling.map(|sampling| sampling.samples);
        (measured, samples.unwrap_or_default())
    }
}
