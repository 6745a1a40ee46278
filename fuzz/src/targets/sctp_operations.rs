//! Two ends with data channels and a hostile network: the input decides which packets pass,
//! are lost, held back, duplicated or damaged, which are forged, and what the ends do.
//!
//! Nothing panics; what an end holds stays within its limits; as long as nothing was
//! forged, what arrives is what was sent, once; and ends that are disconnected come to
//! rest.
//!
//! The network is the target's own, not `glassline_sim::Network`, whose random decisions
//! follow from a seed: here the input must decide about each packet.

use std::collections::{HashSet, VecDeque};
use std::time::{Duration, Instant};

use glassline_sctp::channel::{
    ChannelId, Channels, Event, Init, Kind, Limits, Message, Role, SendError,
};
use glassline_sctp::packet::{Checksum, Header, PacketBuilder};
use glassline_sctp::{Algorithm, Association, Config, Reliability, Secrets};

use crate::input::Input;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut network = Network::new(input.byte());
    for _ in 0..500 {
        if input.0.is_empty() {
            break;
        }
        network.step(&mut input);
    }
    network.come_to_rest();
}

const TAGS: [u32; 2] = [0x1111_1111, 0x2222_2222];
const WINDOW: u32 = 64 * 1024;
const SEND_BUFFER: usize = 128 * 1024;
const MESSAGE_MAX: usize = 32 * 1024;
const CHANNELS_MAX: usize = 16;

struct Network {
    now: Instant,
    ends: [Channels; 2],
    /// Packets in flight towards each end.
    queues: [VecDeque<Vec<u8>>; 2],
    /// Whether an end does not read what has arrived.
    deaf: [bool; 2],
    open: [Vec<ChannelId>; 2],
    heard: HashSet<u32>,
    sent: u32,
    /// Whether nothing was forged and no end was restarted.
    honest: bool,
    /// Whether no channel was negotiated, which the other end need not know.
    in_band: bool,
    config: Config,
}

impl Network {
    fn new(options: u8) -> Self {
        let now = Instant::now();
        let mut config = Config {
            max_message_size: MESSAGE_MAX,
            receive_window_min: WINDOW / 4,
            receive_window_max: WINDOW,
            send_buffer_max: SEND_BUFFER,
            zero_checksum: options & 1 == 0,
            interleaving: options & 2 == 0,
            mtu_max: if options & 8 == 0 { 1160 } else { 1400 },
            ..Config::default()
        };
        if options & 4 != 0 {
            config.congestion = Algorithm::Rfc9260Reno;
        }
        let ends = [0, 1].map(|end| make(&config, end, now));
        let mut network = Self {
            now,
            ends,
            queues: Default::default(),
            deaf: [false; 2],
            open: Default::default(),
            heard: HashSet::new(),
            sent: 0,
            honest: true,
            in_band: true,
            config,
        };
        network.ends[0].connect(now);
        if options & 16 != 0 {
            network.ends[1].connect(now);
        }
        if options & 32 == 0 {
            // Most inputs concern what comes after the handshake.
            network.pass_for(Duration::from_millis(100));
            network.open(0, options);
            network.pass_for(Duration::from_millis(100));
        }
        network
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (operation, argument) = (input.byte(), input.byte());
        let end = usize::from(argument & 1);
        match operation % 20 {
            0..=3 => self.pass(end),
            4 => drop(self.queues[end].pop_front()),
            5 => self.queues[end].rotate_left(usize::from(!self.queues[end].is_empty())),
            6 => self.double(end),
            7 => self.damage(end, input),
            8 => self.make_up(end, input),
            9 | 10 => self.wait(Duration::from_millis(u64::from(argument) * 4)),
            11..=13 => self.send(end, argument, input.byte()),
            14 => self.open(end, argument),
            15 => self.close(end, argument),
            16 => self.deaf[end] = argument & 2 != 0,
            17 if argument >= 0xf0 => self.end_it(end, argument),
            18 => self.pass_for(Duration::from_millis(u64::from(argument) * 20)),
            _ => self.pass_for(Duration::from_millis(40)),
        }
        self.drain();
        self.check();
    }

    fn pass(&mut self, end: usize) {
        if let Some(packet) = self.queues[end].pop_front() {
            self.deliver(end, &packet);
        }
    }

    fn double(&mut self, end: usize) {
        if let Some(packet) = self.queues[end].front().cloned() {
            self.queues[end].push_back(packet);
        }
    }

    /// Damages a packet. Without a checksum the damage is accepted: it looks like a
    /// malicious peer with the right tag.
    fn damage(&mut self, end: usize, input: &mut Input<'_>) {
        let (at, with) = (input.byte(), input.byte());
        if let Some(mut packet) = self.queues[end].pop_front() {
            let at = (usize::from(at) + 8) % packet.len();
            packet[at] ^= with;
            self.honest &= with == 0;
            self.deliver(end, &packet);
        }
    }

    /// Forges a packet with the right tag, whose chunks are the input's.
    fn make_up(&mut self, end: usize, input: &mut Input<'_>) {
        let (len, kind) = (usize::from(input.byte()), input.byte());
        let header = Header {
            source_port: 5000,
            destination_port: 5000,
            verification_tag: if kind & 0x80 == 0 { TAGS[end] } else { 0 },
        };
        let mut out = vec![0; 12 + 1500];
        let builder = PacketBuilder::new(&mut out, header).expect("room");
        builder.finish(Checksum::Zero);
        let chunks = input.take(len);
        out.truncate(12);
        out.extend_from_slice(chunks);
        if !self.config.zero_checksum {
            // Sets the checksum of the packet as it is now.
            let checksum = crc32c(&out);
            out[8..12].copy_from_slice(&checksum.to_le_bytes());
        }
        self.honest = false;
        self.deliver(end, &out);
    }

    fn deliver(&mut self, end: usize, packet: &[u8]) {
        let _ = self.ends[end].handle_packet(packet, self.now);
        self.ends[end].end_batch(self.now);
        self.drain();
    }

    fn wait(&mut self, at_most: Duration) {
        let next = self.ends.iter().filter_map(Channels::poll_timeout).min();
        let until = self.now + at_most;
        self.now = next.map_or(until, |next| next.clamp(self.now, until));
        for end in &mut self.ends {
            if end.poll_timeout().is_some_and(|at| at <= self.now) {
                end.handle_timeout(self.now);
            }
        }
        self.drain();
    }

    fn pass_for(&mut self, duration: Duration) {
        let end = self.now + duration;
        self.drain();
        let mut turns = 0;
        while self.now < end {
            for end in [0, 1] {
                for _ in 0..self.queues[end].len() {
                    self.pass(end);
                }
            }
            self.wait(Duration::from_millis(5));
            turns += 1;
            // A deadline that is not in the future and changes nothing would loop for ever.
            assert!(turns < 100_000, "an end turns on the spot");
            if turns % 16 == 0 {
                self.now += Duration::from_millis(1);
            }
        }
    }

    fn send(&mut self, end: usize, argument: u8, size: u8) {
        let open = &self.open[end];
        let Some(&channel) = open.get(usize::from(argument >> 1) % open.len().max(1)) else {
            return;
        };
        // Up to 64 KiB, which is more than is accepted.
        let size = 4 + usize::from(size) * usize::from(size);
        let mut data = vec![argument; size];
        data[..4].copy_from_slice(&self.sent.to_be_bytes());
        match self.ends[end].send(channel, Message::binary(data), self.now) {
            Ok(()) => self.sent += 1,
            Err(SendError::TooLarge { .. } | SendError::Association(_)) => {}
            Err(SendError::NotOpen | SendError::Closing | SendError::NoSuchChannel) => {}
            Err(other) => panic!("{other}"),
        }
    }

    fn open(&mut self, end: usize, argument: u8) {
        let init = Init {
            ordered: argument & 2 == 0,
            reliability: match argument >> 2 & 3 {
                0 | 1 => Reliability::Reliable,
                2 => Reliability::Limited {
                    retransmissions: u32::from(argument >> 6),
                },
                _ => Reliability::Timed {
                    lifetime: Duration::from_millis(u64::from(argument)),
                },
            },
            negotiated: (argument & 0x30 == 0x30).then_some(u16::from(argument)),
            ..Init::default()
        };
        self.in_band &= init.negotiated.is_none();
        if let Ok(channel) = self.ends[end].open(init, self.now) {
            self.open[end].push(channel);
        }
    }

    fn close(&mut self, end: usize, argument: u8) {
        let open = &mut self.open[end];
        if !open.is_empty() {
            let channel = open.remove(usize::from(argument >> 1) % open.len());
            self.ends[end].close(channel, self.now);
        }
    }

    fn end_it(&mut self, end: usize, argument: u8) {
        match argument >> 1 & 3 {
            0 => self.ends[end].shutdown(self.now),
            1 => self.ends[end].abort(self.now),
            _ => {
                // The end forgets everything and restarts with the same tag: the hardest
                // case.
                self.ends[end] = make(&self.config, end, self.now);
                self.ends[end].connect(self.now);
                self.open[end].clear();
                self.honest = false;
            }
        }
    }

    fn drain(&mut self) {
        let mut out = [0; 1500];
        for end in [0, 1] {
            while !self.deaf[end] {
                let Some(event) = self.ends[end].poll_event(self.now) else {
                    break;
                };
                self.on_event(end, event);
            }
            while let Some(len) = self.ends[end].poll_transmit(self.now, &mut out) {
                if self.queues[1 - end].len() < 256 {
                    self.queues[1 - end].push_back(out[..len].to_vec());
                }
            }
        }
    }

    fn on_event(&mut self, end: usize, event: Event) {
        match event {
            Event::Opened { channel, by_peer } if by_peer => self.open[end].push(channel),
            Event::Closed { channel, .. } => self.open[end].retain(|open| *open != channel),
            Event::Message { message, .. } if self.honest => {
                assert_eq!(message.kind, Kind::Binary);
                let number = message.data[..4].try_into().expect("four bytes");
                let number = u32::from_be_bytes(number);
                assert!(number < self.sent, "never sent");
                assert!(self.heard.insert(number), "heard twice");
            }
            Event::Refused { why, .. } if self.honest && self.in_band => panic!("refused: {why}"),
            _ => {}
        }
    }

    fn check(&self) {
        for end in &self.ends {
            let report = end.report();
            let held = report.unread + report.unassembled;
            // A window, and what was in flight when it closed.
            assert!(held <= u64::from(WINDOW) * 2 + 4096, "{held} bytes held");
            let waiting = report.buffered + report.unacknowledged;
            assert!(waiting <= (SEND_BUFFER + 4096) as u64, "{waiting} waiting");
            assert!(end.iter().count() <= CHANNELS_MAX);
        }
    }

    /// Disconnects both ends, and checks that they give up and then have nothing left to
    /// do.
    fn come_to_rest(&mut self) {
        self.deaf = [false; 2];
        for _ in 0..20_000 {
            self.queues.iter_mut().for_each(VecDeque::clear);
            if self.ends.iter().all(|end| end.poll_timeout().is_none()) {
                return;
            }
            self.wait(Duration::from_secs(120));
        }
        panic!("an end does not come to rest");
    }
}

fn make(config: &Config, end: usize, now: Instant) -> Channels {
    let secrets = Secrets {
        tag: TAGS[end],
        // The TSN wraps soon.
        initial_tsn: u32::MAX - 20,
        cookie_key: [end as u8; 32],
    };
    let limits = Limits {
        channels_max: CHANNELS_MAX,
        names_max: 1024,
        parts_max: MESSAGE_MAX,
    };
    let role = [Role::DtlsClient, Role::DtlsServer][end];
    let association = Association::new(config.clone(), secrets, now);
    let mut channels = Channels::new(association, role, limits);
    channels.set_peer_max_message_size(Some(MESSAGE_MAX as u64));
    channels
}

/// Computes the CRC32c bit by bit: few packets need it here.
fn crc32c(packet: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for (at, &byte) in packet.iter().enumerate() {
        crc ^= u32::from(if (8..12).contains(&at) { 0 } else { byte });
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
        }
    }
    !crc
}
