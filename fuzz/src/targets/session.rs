//! Two sessions and a hostile network: the input decides which datagrams pass, are lost,
//! delayed, duplicated or damaged, what is injected, and what the ends do.
//!
//! Nothing panics. What arrives is what was sent, once, and messages of a channel arrive in order.
//! An end that is left alone long enough becomes idle.
//!
//! The network is the target's own and not `glassline_sim::Network`, whose losses follow from a
//! seed: here the input must affect each datagram.

use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{Codec, Track, VideoParameters, WallClock};
use glassline_sctp::channel::{ChannelId, Event as ChannelEvent, Init, Message};
use glassline_webrtc::{
    AcceptConfig, Certificate, DataConfig, DialConfig, Event, IceCredentials, Kinds, ReceiveMode,
    Received, Secrets, SenderIndex, Session,
};

use crate::input::Input;

pub(crate) fn run(bytes: &[u8]) {
    let mut input = Input(bytes);
    let mut network = Network::new(input.byte());
    for _ in 0..400 {
        if input.0.is_empty() {
            break;
        }
        network.step(&mut input);
    }
    network.come_to_rest();
}

thread_local! {
    static CERTIFICATES: RefCell<[Arc<Certificate>; 2]> = RefCell::new([certificate(), certificate()]);
}

fn certificate() -> Arc<Certificate> {
    Arc::new(Certificate::generate().expect("a certificate"))
}

const ADDRESSES: [&str; 2] = ["192.0.2.1:8189", "192.0.2.2:40000"];

struct Network {
    now: Instant,
    /// The server and the client.
    ends: [Session; 2],
    /// Datagrams on the way to each end.
    queues: [VecDeque<Vec<u8>>; 2],
    heard: HashSet<(usize, u64)>,
    sent: u32,
    /// The client's channel, and messages sent and received on it.
    channel: Option<ChannelId>,
    messages: [u32; 2],
}

impl Network {
    fn new(options: u8) -> Self {
        let now = Instant::now();
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let [ours, theirs] = CERTIFICATES.with_borrow(Clone::clone);
        let mode = if options & 1 == 0 {
            ReceiveMode::Open
        } else {
            ReceiveMode::CountOnly
        };
        let data = (options & 8 != 0).then(DataConfig::default);
        let (mut client, mut offer) = Session::dial(
            DialConfig {
                local: vec![address(1)],
                data: data.clone(),
                receive: Kinds::ALL,
                mode,
                ..DialConfig::new(theirs, Secrets::expand(&[1; 32]), wall)
            },
            now,
        );
        if options & 2 != 0 {
            offer = offer.replace(" rtx/90000", " unknown/90000");
        }
        let tracks = [
            Track::h264(VideoParameters::default()),
            Track::audio(Codec::Opus, 2),
        ];
        let config = AcceptConfig {
            local: vec![address(0).into()],
            tracks: &tracks,
            data,
            ..AcceptConfig::new(ours, Secrets::expand(&[2; 32]), wall)
        };
        let (server, answer) = Session::accept(config, &offer, now).expect("our own offer");
        client.set_answer(&answer, now).expect("our own answer");
        let channel = client.channels_mut().map(|channels| {
            let opened = channels.open(Init::default(), now);
            opened.expect("room for one channel")
        });
        let mut network = Self {
            now,
            ends: [server, client],
            queues: [VecDeque::new(), VecDeque::new()],
            heard: HashSet::new(),
            sent: 0,
            channel,
            messages: [0; 2],
        };
        if options & 4 != 0 {
            // Most inputs are about what happens after the handshake.
            network.pass_for(Duration::from_millis(300));
        }
        network
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let (operation, argument) = (input.byte(), input.byte());
        let end = usize::from(argument & 1);
        match operation % 16 {
            0..=3 => self.pass(end),
            4 => drop(self.queues[end].pop_front()),
            5 => self.queues[end].rotate_left(usize::from(!self.queues[end].is_empty())),
            6 => self.double(end),
            7 => self.damage(end, input),
            8 => {
                let count = usize::from(input.byte());
                let noise = input.take(count).to_vec();
                self.deliver(end, noise, false);
            }
            9 | 10 => self.wait(Duration::from_millis(u64::from(argument))),
            11 => self.seal(argument),
            12 if argument & 2 != 0 => self.send_message(argument),
            12 => {
                self.ends[1].request_keyframe(end.into(), self.now);
            }
            13 => self.restart(argument),
            14 if argument == 0xff => self.ends[usize::from(input.byte() & 1)].close(self.now),
            _ => self.pass_for(Duration::from_millis(40)),
        }
        self.drain();
    }

    fn pass(&mut self, end: usize) {
        if let Some(datagram) = self.queues[end].pop_front() {
            self.deliver(end, datagram, true);
        }
    }

    fn double(&mut self, end: usize) {
        if let Some(datagram) = self.queues[end].front().cloned() {
            self.queues[end].push_back(datagram);
        }
    }

    fn damage(&mut self, end: usize, input: &mut Input<'_>) {
        let (at, with) = (usize::from(input.byte()), input.byte());
        if let Some(mut datagram) = self.queues[end].pop_front() {
            let at = at % datagram.len();
            datagram[at] ^= with;
            self.deliver(end, datagram, with == 0);
        }
    }

    fn deliver(&mut self, end: usize, mut datagram: Vec<u8>, intact: bool) {
        let (from, to) = (address(1 - end), address(end));
        let received = self.ends[end].handle_datagram(self.now, from, to, &mut datagram);
        if let Ok(Received::Rtp {
            receiver,
            sequence,
            packet,
            ..
        }) = received
        {
            assert!(intact, "damaged media was taken");
            assert_eq!(packet.payload, packet.header.timestamp.to_be_bytes());
            assert!(self.heard.insert((receiver.0, sequence)), "heard twice");
        }
        self.ends[end].end_batch(self.now);
        self.drain();
    }

    fn wait(&mut self, at_most: Duration) {
        let next = self.ends.iter_mut().filter_map(Session::poll_timeout).min();
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
        while self.now < end {
            for end in [0, 1] {
                for _ in 0..self.queues[end].len() {
                    self.pass(end);
                }
            }
            self.wait(Duration::from_millis(5));
            self.now += Duration::from_micros(1);
        }
    }

    fn seal(&mut self, argument: u8) {
        let mut out = [0; 200];
        self.sent += 1;
        let sealed = self.ends[0].seal(
            SenderIndex(usize::from(argument & 1)),
            self.sent,
            argument & 2 != 0,
            &self.sent.to_be_bytes(),
            self.now,
            &mut out,
        );
        if let Some(sealed) = sealed {
            self.queues[1].push_back(out[..sealed.len].to_vec());
        }
    }

    fn send_message(&mut self, argument: u8) {
        let Some((channel, channels)) = self.channel.zip(self.ends[1].channels_mut()) else {
            return;
        };
        let mut payload = self.messages[0].to_be_bytes().to_vec();
        payload.resize(4 + 97 * usize::from(argument), argument);
        // Sending is refused before the channel is open, after it is closed, and when its
        // buffer is full.
        if channels
            .send(channel, Message::binary(payload), self.now)
            .is_ok()
        {
            self.messages[0] += 1;
        }
    }

    fn poll_channels(&mut self) {
        for end in &mut self.ends {
            while let Some(event) = end.channels_mut().and_then(|it| it.poll_event(self.now)) {
                if let ChannelEvent::Message { message, .. } = event {
                    let number = self.messages[1].to_be_bytes();
                    assert_eq!(message.data[..4], number, "out of order");
                    self.messages[1] += 1;
                }
            }
        }
        assert!(self.messages[1] <= self.messages[0]);
    }

    fn restart(&mut self, argument: u8) {
        let credentials = |name: &str| IceCredentials {
            ufrag: format!("{name}{argument}"),
            pwd: format!("{name}aPasswordOfTwentyTwoCh{argument}"),
        };
        let (server, client) = (credentials("srv"), credentials("cli"));
        if argument & 4 == 0 {
            self.ends[0].restart_ice(server.clone(), client.clone(), self.now);
        }
        if argument & 8 == 0 {
            self.ends[1].restart_ice(client, server, self.now);
        }
    }

    fn drain(&mut self) {
        let mut out = Vec::new();
        self.poll_channels();
        for end in [0, 1] {
            while let Some((_, segment)) = self.ends[end].poll_transmit_batch(self.now, &mut out) {
                for datagram in out.chunks(segment) {
                    if self.queues[1 - end].len() < 64 {
                        self.queues[1 - end].push_back(datagram.to_vec());
                    }
                }
            }
            while let Some(event) = self.ends[end].poll_event() {
                if let Event::Nack { lost, .. } = event {
                    assert!(!lost.is_empty());
                }
            }
        }
    }

    /// Separates the ends: both give up, and then nothing is left to do.
    fn come_to_rest(&mut self) {
        for _ in 0..20_000 {
            if self.ends.iter().all(Session::is_closed) {
                break;
            }
            self.queues.iter_mut().for_each(VecDeque::clear);
            self.wait(Duration::from_secs(5));
            self.now += Duration::from_millis(1);
        }
        for end in &mut self.ends {
            assert!(end.is_closed());
            assert_eq!(end.poll_timeout(), None);
        }
    }
}

fn address(end: usize) -> SocketAddr {
    ADDRESSES[end].parse().expect("an address")
}
