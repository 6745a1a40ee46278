//! All flows of a session: the upload and its competing flows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_quic::{CongestionControl, CongestionMonitor};
use glassline_sim::Rng;
use noq_proto::{Connection, Event};

use super::bulk::Bulk;
use super::credentials::Credentials;
use super::meter::{Account, Meter};
use super::node::{Application, Node};
use super::publisher::Publisher;
use super::receiver::Receiver;
use super::wire::Wire;
use crate::congestion::session::{Arm, Scenario};

/// The ends of an upload and of its competing flows, with the handles that observe the upload.
pub(crate) struct Upload {
    /// The flows; the upload is the first.
    pub(crate) flows: Vec<Flow>,
    pub(crate) observed: CongestionMonitor,
    pub(crate) account: Account,
    pub(crate) wire: Wire,
    /// Seeds of the links from publisher to server and back.
    pub(crate) links: [u64; 2],
}

/// A sender and its receiver.
pub(crate) struct Flow {
    /// Time before which the sender does nothing.
    pub(crate) start: Instant,
    pub(crate) sender: Node<Sender>,
    pub(crate) receiver: Node<Receiver>,
}

/// Application of a sending end.
pub(crate) enum Sender {
    Live(Box<Publisher>),
    Bulk(Bulk),
}

impl Upload {
    /// Makes the flows, which begin at `start`. `server` returns the address of each flow's
    /// receiver.
    pub(crate) fn new(
        credentials: &Credentials,
        scenario: &Scenario,
        arm: &Arm,
        seed: u64,
        start: Instant,
        server: impl Fn(usize) -> SocketAddr,
    ) -> Self {
        let rng = Rng::new(seed);
        let making = FlowBuilder {
            credentials,
            scenario,
            rng: &rng,
            start,
        };
        let (congestion_control, wire) = (arm.congestion_control(scenario, start), Wire::default());
        let observed = congestion_control.monitor();
        let publisher = Publisher::new(
            scenario.source,
            arm.rule,
            arm.delivery,
            observed.clone(),
            wire.clone(),
        );
        let meter = Meter::new(congestion_control, wire.clone());
        let account = meter.account();
        let live = Sender::Live(Box::new(publisher));
        let mut flows = vec![making.flow(0, Duration::ZERO, server(0), live, meter)];
        for (place, competitor) in (1..).zip(&scenario.competitors) {
            let at = server(place);
            let congestion_control = CongestionControl::new(competitor.algorithm);
            let bulk = Sender::Bulk(Bulk::new(
                congestion_control.monitor(),
                start + competitor.end,
            ));
            let meter = Meter::new(congestion_control, Wire::default());
            flows.push(making.flow(place as u64, competitor.start, at, bulk, meter));
        }
        Self {
            flows,
            observed,
            account,
            wire,
            links: [rng.fork(0).next_u64(), rng.fork(1).next_u64()],
        }
    }
}

impl Sender {
    /// The upload's publisher. Must not be called for a competing flow.
    pub(crate) fn publisher(&self) -> &Publisher {
        match self {
            Self::Live(publisher) => publisher,
            Self::Bulk(_) => unreachable!("the first flow is the upload"),
        }
    }
}

impl Application for Sender {
    fn on_event(&mut self, now: Instant, event: Event, connection: &mut Connection) {
        match self {
            Self::Live(publisher) => publisher.on_event(now, event, connection),
            Self::Bulk(bulk) => bulk.on_event(now, event, connection),
        }
    }

    fn turn(&mut self, now: Instant, connection: &mut Connection) {
        match self {
            Self::Live(publisher) => publisher.turn(now, connection),
            Self::Bulk(bulk) => bulk.turn(now, connection),
        }
    }

    fn due(&self) -> Option<Instant> {
        match self {
            Self::Live(publisher) => publisher.due(),
            Self::Bulk(bulk) => bulk.due(),
        }
    }
}

/// Parameters that all flows are made with.
struct FlowBuilder<'a> {
    credentials: &'a Credentials,
    scenario: &'a Scenario,
    rng: &'a Rng,
    start: Instant,
}

impl FlowBuilder<'_> {
    fn flow(
        &self,
        place: u64,
        after: Duration,
        server: SocketAddr,
        sender: Sender,
        meter: Meter,
    ) -> Flow {
        let (start, bytes) = (self.start + after, self.scenario.datagram_bytes);
        let seeds = self.rng.fork(2 + place);
        let seed = |end| seeds.fork(end).next_u64();
        let wire = meter.wire();
        let config = self
            .credentials
            .client(wire.clone(), Arc::new(meter), bytes);
        let accepting = self.credentials.server(wire, bytes);
        Flow {
            start,
            sender: Node::client(sender, config, server, seed(0), start),
            receiver: Node::server(Receiver::default(), accepting, seed(1)),
        }
    }
}
