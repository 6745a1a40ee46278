//! Tests of channels of two ends over a seeded path, and of one end against a peer that
//! breaks the rules.

mod closing;
mod messages;
mod opening;

use std::net::SocketAddr;
use std::time::Duration;

use glassline_sim::{Conditions, Datagram, End, Loss, Network, Node, Rng, Simulation};

use super::*;
use crate::{CloseReason, Config, Reliability, Secrets};

const A: usize = 0;
const B: usize = 1;

/// One end, with the events that it reported.
struct Side {
    channels: Channels,
    end: End,
    events: VecDeque<Event>,
    /// Whether the end polls events as they come.
    reads: bool,
    /// Whether `BufferedLow` events are kept: each message that has left causes one, and
    /// most tests are about other events.
    keeps_buffered_low: bool,
}

impl Side {
    fn read(&mut self, now: Instant) {
        while self.reads
            && let Some(event) = self.channels.poll_event(now)
        {
            let low = matches!(event, Event::BufferedLow { .. });
            if !low || self.keeps_buffered_low {
                self.events.push_back(event);
            }
        }
    }
}

impl Node for Side {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.end.address()
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        // Some packets of the handshake come late, when they have no use.
        let _ = self.channels.handle_packet(&datagram.bytes, now);
    }

    fn end_batch(&mut self, now: Instant) {
        self.channels.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        // Reading events causes packets.
        self.read(now);
        let mut out = [0; 2000];
        let len = self.channels.poll_transmit(now, &mut out)?;
        Some(Datagram::between_ends(self.end, out[..len].to_vec()))
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.channels.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.channels.handle_timeout(now);
    }

    fn state(&self) -> String {
        format!("{:?}", self.channels.report())
    }
}

/// Two ends; A is the DTLS client.
struct World {
    network: Network,
    ends: [Side; 2],
}

impl Simulation for World {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        let [a, b] = &mut self.ends;
        run(&mut self.network, &mut [a, b])
    }
}

impl World {
    fn new() -> Self {
        Self::over(Conditions::delayed(Duration::from_millis(10)), 1)
    }

    fn over(conditions: Conditions, seed: u64) -> Self {
        Self::with([Limits::default(); 2], &Config::default(), conditions, seed)
    }

    fn with(limits: [Limits; 2], config: &Config, conditions: Conditions, seed: u64) -> Self {
        let network = Network::pair(conditions, seed);
        let now = network.now();
        let side = |number: usize, end, role| {
            let mut random = [0; 40];
            Rng::new(seed).fork(number as u64).fill(&mut random);
            let secrets = Secrets::from_random(random);
            let association = Association::new(config.clone(), secrets, now);
            let mut channels = Channels::new(association, role, limits[number]);
            channels.connect(now);
            Side {
                channels,
                end,
                events: VecDeque::new(),
                reads: true,
                keeps_buffered_low: false,
            }
        };
        Self {
            ends: [
                side(A, End::A, Role::DtlsClient),
                side(B, End::B, Role::DtlsServer),
            ],
            network,
        }
    }

    fn connected() -> Self {
        let mut world = Self::new();
        world.pass(200);
        for end in [A, B] {
            assert_eq!(world.next(end), Some(Event::Connected));
            assert_eq!(world.next(end), None);
        }
        world
    }

    fn now(&self) -> Instant {
        self.network.now()
    }

    fn open(&mut self, end: usize, init: Init) -> ChannelId {
        let now = self.now();
        self.ends[end]
            .channels
            .open(init, now)
            .expect("it can be opened")
    }

    fn send(&mut self, end: usize, channel: ChannelId, message: Message) {
        let now = self.now();
        self.ends[end]
            .channels
            .send(channel, message, now)
            .expect("taken");
    }

    fn close(&mut self, end: usize, channel: ChannelId) {
        let now = self.now();
        self.ends[end].channels.close(channel, now);
    }

    fn next(&mut self, end: usize) -> Option<Event> {
        self.ends[end].events.pop_front()
    }

    fn pass(&mut self, milliseconds: u64) {
        self.run_for(Duration::from_millis(milliseconds));
    }

    /// Sends a message that `Channels` would not send.
    fn forge(&mut self, end: usize, stream: u16, ppid: u32, data: &'static [u8]) {
        let now = self.now();
        let data = Bytes::from_static(data);
        let options = SendOptions::default();
        self.ends[end]
            .channels
            .association
            .send(stream, ppid, data, options, now)
            .expect("taken");
    }

    /// Returns the channel of the next event, which must be `Opened`.
    #[track_caller]
    fn opened(&mut self, end: usize, expected_by_peer: bool) -> ChannelId {
        match self.next(end) {
            Some(Event::Opened { channel, by_peer }) if by_peer == expected_by_peer => channel,
            other => panic!("{other:?} at end {end}"),
        }
    }
}

fn labelled(label: &str) -> Init {
    Init {
        label: label.into(),
        ..Init::default()
    }
}

fn negotiated(stream: u16) -> Init {
    Init {
        negotiated: Some(stream),
        ..Init::default()
    }
}
