//! Tests of channels of two ends over a seeded path, and of one end against a peer that
//! breaks the rules.

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

#[test]
fn the_peer_learns_all_that_a_channel_was_opened_with() {
    let mut world = World::connected();
    let init = Init {
        label: "zeichen ✓".into(),
        protocol: "chat".into(),
        ordered: false,
        reliability: Reliability::Limited { retransmissions: 3 },
        negotiated: None,
        priority: 512,
    };
    let ours = world.open(A, init.clone());
    assert_eq!(
        world.ends[A].channels.info(ours).expect("open").stream,
        Some(0)
    );
    world.pass(100);
    assert_eq!(world.opened(A, false), ours);
    let theirs = world.opened(B, true);
    let info = world.ends[B].channels.info(theirs).expect("open");
    assert_eq!((&info.init, info.by_peer), (&init, true));
    assert_eq!(info.stream, Some(0));
    world.send(B, theirs, Message::text("servus"));
    world.pass(100);
    let message = Message::text("servus");
    let channel = ours;
    assert_eq!(world.next(A), Some(Event::Message { channel, message }));
}

#[test]
fn messages_follow_the_open_without_waiting_for_its_answer() {
    let mut world = World::new();
    let channel = world.open(A, labelled("early"));
    let now = world.now();
    let early = world.ends[A]
        .channels
        .send(channel, Message::text("too early"), now);
    assert_eq!(early, Err(SendError::NotOpen));
    while world.next(A) != Some(Event::Connected) {
        world.pass(1);
    }
    assert_eq!(world.opened(A, false), channel);
    world.send(A, channel, Message::text("one"));
    // A little more than the one-way delay: the OPEN and the message have arrived, no
    // answer has.
    world.pass(11);
    assert_eq!(world.next(B), Some(Event::Connected));
    let channel = world.opened(B, true);
    let message = Message::text("one");
    assert_eq!(world.next(B), Some(Event::Message { channel, message }));
}

#[test]
fn unordered_messages_stay_behind_the_open_until_it_is_answered() {
    // Half of the packets are very late: messages that may be overtaken are.
    for seed in 1..=8 {
        let conditions = Conditions {
            reorder: 0.5,
            reorder_delay: Duration::from_millis(40),
            ..Conditions::delayed(Duration::from_millis(10))
        };
        let mut world = World::over(conditions, seed);
        let init = Init {
            ordered: false,
            ..labelled("any order")
        };
        let channel = world.open(A, init);
        while world.next(A) != Some(Event::Connected) {
            world.pass(1);
        }
        for number in 0..20 {
            world.send(A, channel, Message::text(number.to_string()));
            world.pass(2);
        }
        world.pass(2000);
        let events: Vec<_> = world.ends[B].events.drain(..).collect();
        assert_eq!(events.len(), 22, "seed {seed}: {events:?}");
        assert!(matches!(events[1], Event::Opened { .. }));
    }
}

#[test]
fn both_ends_open_at_once_on_streams_of_their_own() {
    let mut world = World::new();
    let first = [A, B].map(|end| world.open(end, labelled("first")));
    let second = [A, B].map(|end| world.open(end, labelled("second")));
    world.pass(300);
    for end in [A, B] {
        let stream = |channel| world.ends[end].channels.info(channel).expect("open").stream;
        let parity = end as u16;
        assert_eq!(stream(first[end]), Some(parity));
        assert_eq!(stream(second[end]), Some(parity + 2));
        let opened = |event: &&Event| matches!(event, Event::Opened { .. });
        assert_eq!(world.ends[end].events.iter().filter(opened).count(), 4);
    }
}

#[test]
fn negotiated_channels_need_no_word() {
    let mut world = World::new();
    let channels = [A, B].map(|end| world.open(end, negotiated(7)));
    let now = world.now();
    let again = world.ends[A].channels.open(negotiated(7), now);
    assert_eq!(again, Err(OpenError::InUse { stream: 7 }));
    let last = world.ends[A].channels.open(negotiated(65535), now);
    let last_stream = OpenError::OutOfRange {
        stream: 65535,
        last: 65534,
    };
    assert_eq!(last, Err(last_stream));
    world.pass(200);
    for end in [A, B] {
        assert_eq!(world.next(end), Some(Event::Connected));
        assert_eq!(world.opened(end, false), channels[end]);
        world.send(end, channels[end], Message::binary(vec![end as u8; 3]));
    }
    world.pass(50);
    for end in [A, B] {
        let message = Message::binary(vec![1 - end as u8; 3]);
        let channel = channels[end];
        assert_eq!(world.next(end), Some(Event::Message { channel, message }));
    }
    let sent = world.ends[A].channels.report().data_sent;
    assert_eq!(sent, 3, "no OPEN and no ACK");
}

#[test]
fn a_negotiated_stream_that_the_association_lacks_closes_the_channel() {
    let config = Config {
        streams: 4,
        ..Config::default()
    };
    let conditions = Conditions::default();
    let mut world = World::with([Limits::default(); 2], &config, conditions, 1);
    let channel = world.open(A, negotiated(9));
    world.pass(100);
    assert_eq!(world.next(A), Some(Event::Connected));
    let by = ClosedBy::NoStream;
    assert_eq!(world.next(A), Some(Event::Closed { channel, by }));
    let [even, last] = [0, 1].map(|_| world.open(A, Init::default()));
    let none = world.open(A, Init::default());
    let streams = [even, last].map(|id| world.ends[A].channels.info(id).expect("open").stream);
    assert_eq!(streams, [Some(0), Some(2)]);
    assert_eq!(world.ends[A].channels.info(none), None);
}

#[test]
fn a_channel_closes_at_both_ends_and_its_stream_serves_again() {
    let mut world = World::connected();
    for round in 0..4 {
        let (closer, other) = if round % 2 == 0 { (A, B) } else { (B, A) };
        let ours = world.open(A, labelled("again"));
        world.pass(100);
        world.opened(A, false);
        let theirs = world.opened(B, true);
        let ids = [ours, theirs];
        assert_eq!(
            world.ends[B].channels.info(theirs).expect("open").stream,
            Some(0)
        );
        world.send(closer, ids[closer], Message::text("last words"));
        world.close(closer, ids[closer]);
        let now = world.now();
        let late = world.ends[closer]
            .channels
            .send(ids[closer], Message::text("later"), now);
        assert_eq!(late, Err(SendError::Closing));
        world.pass(300);
        let channel = ids[other];
        let message = Message::text("last words");
        assert_eq!(world.next(other), Some(Event::Message { channel, message }));
        let by = ClosedBy::Peer;
        assert_eq!(world.next(other), Some(Event::Closed { channel, by }));
        let (channel, by) = (ids[closer], ClosedBy::Us);
        assert_eq!(world.next(closer), Some(Event::Closed { channel, by }));
        assert_eq!(
            world.ends[A].channels.iter().count() + world.ends[B].channels.iter().count(),
            0
        );
    }
}

#[test]
fn closing_at_both_ends_at_once_closes_once() {
    let mut world = World::connected();
    let channels = [A, B].map(|end| world.open(end, negotiated(3)));
    world.pass(50);
    for end in [A, B] {
        world.opened(end, false);
        world.close(end, channels[end]);
    }
    world.pass(500);
    for end in [A, B] {
        let (channel, by) = (channels[end], ClosedBy::Us);
        assert_eq!(world.next(end), Some(Event::Closed { channel, by }));
        assert_eq!(world.next(end), None);
    }
}

#[test]
fn many_channels_open_and_close_on_a_lossy_path() {
    for seed in 1..=5 {
        let conditions =
            Conditions::delayed(Duration::from_millis(10)).with_loss(Loss::Random(0.1));
        let mut world = World::over(conditions, seed);
        let mut rng = Rng::new(seed);
        let mut open: [Vec<ChannelId>; 2] = Default::default();
        for _ in 0..120 {
            let end = rng.below(2) as usize;
            if rng.chance(0.5) && !open[end].is_empty() {
                let at = rng.below(open[end].len() as u64) as usize;
                let channel = open[end].swap_remove(at);
                world.close(end, channel);
            } else {
                open[end].push(world.open(end, labelled("one of many")));
            }
            world.pass(rng.below(60));
        }
        for end in [A, B] {
            for channel in std::mem::take(&mut open[end]) {
                world.close(end, channel);
            }
        }
        world.pass(20_000);
        for end in [A, B] {
            assert_eq!(world.ends[end].channels.iter().count(), 0, "seed {seed}");
            let of = |wanted: fn(&Event) -> bool| {
                let events = world.ends[end].events.iter();
                events.filter(|event| wanted(event)).count()
            };
            let refused = of(|event| matches!(event, Event::Refused { .. }));
            let closed = of(|event| matches!(event, Event::Closed { .. }));
            let opened = of(|event| matches!(event, Event::Opened { .. }));
            assert_eq!(refused, 0, "seed {seed}");
            // A channel that is closed before the association is established was never
            // open.
            assert!(closed >= opened && opened > 20, "seed {seed}");
        }
    }
}

#[test]
fn a_message_above_the_peers_limit_is_refused_by_name() {
    let mut world = World::connected();
    let channel = world.open(A, Init::default());
    let now = world.now();
    let end = &mut world.ends[A].channels;
    let send = |end: &mut Channels, size: usize| {
        let message = Message::binary(vec![0; size]);
        end.send(channel, message, now)
    };
    assert_eq!(send(end, 65536), Ok(()));
    let error = send(end, 65537).expect_err("above 64 KiB, which holds where none is stated");
    assert_eq!(
        error.to_string(),
        "the message has 65537 bytes; the peer accepts 65536 (its max-message-size): send it in parts"
    );
    end.set_peer_max_message_size(Some(100));
    let limit = 100;
    assert_eq!(
        send(end, 101),
        Err(SendError::TooLarge { size: 101, limit })
    );
    end.set_peer_max_message_size(Some(0));
    assert_eq!(send(end, 200_000), Ok(()));
    end.set_peer_max_message_size(None);
    assert!(send(end, 65537).is_err());
}

#[test]
fn empty_messages_arrive_empty() {
    let mut world = World::connected();
    let ours = world.open(A, Init::default());
    world.pass(50);
    world.opened(A, false);
    let channel = world.opened(B, true);
    for message in [Message::text(""), Message::binary(Vec::new())] {
        world.send(A, ours, message.clone());
        world.pass(50);
        assert_eq!(world.next(B), Some(Event::Message { channel, message }));
    }
    let info = world.ends[B].channels.info(channel).expect("open");
    assert_eq!((info.messages_received, info.bytes_received), (2, 0));
}

#[test]
fn parts_of_old_browsers_become_one_message() {
    let mut world = World::connected();
    world.open(A, Init::default());
    world.pass(50);
    world.opened(A, false);
    let channel = world.opened(B, true);
    world.forge(A, 0, ppid::STRING_PARTIAL, b"one, ");
    world.forge(A, 0, ppid::STRING_PARTIAL, b"two, ");
    world.forge(A, 0, ppid::STRING, b"three");
    world.forge(A, 0, ppid::BINARY_PARTIAL, b"\x01");
    world.forge(A, 0, ppid::BINARY, b"\x02");
    world.pass(50);
    let message = Message::text("one, two, three");
    assert_eq!(world.next(B), Some(Event::Message { channel, message }));
    let message = Message::binary(&[1, 2][..]);
    assert_eq!(world.next(B), Some(Event::Message { channel, message }));
    assert_eq!(world.ends[B].channels.parts, 0);
}

#[test]
fn parts_without_end_close_the_channel() {
    let limits = Limits {
        parts_max: 2500,
        ..Limits::default()
    };
    let conditions = Conditions::default();
    let config = Config::default();
    let mut world = World::with([Limits::default(), limits], &config, conditions, 1);
    world.open(A, Init::default());
    world.pass(50);
    for _ in 0..3 {
        world.forge(A, 0, ppid::BINARY_PARTIAL, &[0; 1000]);
    }
    world.pass(300);
    let why = Refusal::PartsTooLarge;
    let refused = Event::Refused { stream: 0, why };
    assert!(
        world.ends[B].events.contains(&refused),
        "{:?}",
        world.ends[B].events
    );
    assert_eq!(world.ends[B].channels.parts, 0);
    let closed = |event: &Event| matches!(event, Event::Closed { .. });
    assert!(world.ends[A].events.iter().any(closed));
    assert!(world.ends[B].events.iter().any(closed));
}

#[test]
fn buffered_bytes_are_told_and_their_low_mark_is_an_event() {
    let mut world = World::new();
    let channel = world.open(A, Init::default());
    world.ends[A].channels.set_buffered_low(channel, 100_000);
    world.ends[A].channels.set_peer_max_message_size(Some(0));
    world.ends[A].keeps_buffered_low = true;
    world.pass(100);
    world.ends[A].events.clear();
    for _ in 0..20 {
        world.send(A, channel, Message::binary(vec![0; 200_000]));
    }
    assert_eq!(world.ends[A].channels.buffered_amount(channel), 4_000_000);
    world.pass(10_000);
    assert_eq!(world.ends[A].channels.buffered_amount(channel), 0);
    assert_eq!(world.next(A), Some(Event::BufferedLow { channel }));
    assert_eq!(world.next(A), None);
}

#[test]
fn a_full_send_buffer_is_an_error_that_passes() {
    let config = Config {
        send_buffer_max: 300_000,
        ..Config::default()
    };
    let conditions = Conditions::delayed(Duration::from_millis(10));
    let mut world = World::with([Limits::default(); 2], &config, conditions, 1);
    let channel = world.open(A, Init::default());
    world.ends[A].channels.set_peer_max_message_size(Some(0));
    world.pass(100);
    let now = world.now();
    let message = Message::binary(vec![0; 100_000]);
    let mut taken = 0;
    let error = loop {
        match world.ends[A].channels.send(channel, message.clone(), now) {
            Ok(()) => taken += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(
        error,
        SendError::Association(crate::SendError::BufferFull { .. })
    ));
    assert!((2..=3).contains(&taken));
    // A channel without room for its OPEN sends it later.
    let second = world.open(A, labelled("second"));
    assert_eq!(
        world.ends[A]
            .channels
            .send(second, Message::text("hi"), now),
        Err(SendError::NotOpen)
    );
    world.pass(1000);
    world.send(A, second, Message::text("hi"));
    world.send(A, channel, message);
    world.pass(1000);
    let last = world.ends[B].events.iter().rev();
    let texts = last.filter(
        |event| matches!(event, Event::Message { message, .. } if message.as_text() == Some("hi")),
    );
    assert_eq!(texts.count(), 1);
}

#[test]
fn what_has_no_place_is_named_and_its_stream_reset() {
    type Forgery = (u16, u32, &'static [u8], Refusal);
    const OPEN: &[u8] = &[3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let forgeries: [Forgery; 6] = [
        (40, ppid::STRING, b"to nobody", Refusal::NoChannel),
        (40, ppid::CONTROL, &[2], Refusal::NoChannel),
        (41, ppid::CONTROL, OPEN, Refusal::Parity),
        (0, ppid::CONTROL, OPEN, Refusal::InUse),
        (40, ppid::CONTROL, &[3, 9], Refusal::Malformed),
        (0, 99, b"what is that?", Refusal::PayloadProtocol),
    ];
    for (stream, ppid, data, why) in forgeries {
        let mut world = World::connected();
        let channel = world.open(A, Init::default());
        world.pass(50);
        world.opened(A, false);
        world.opened(B, true);
        world.forge(A, stream, ppid, data);
        world.pass(300);
        assert_eq!(world.next(B), Some(Event::Refused { stream, why }));
        let goes_on = stream != 0 || why == Refusal::PayloadProtocol;
        if !goes_on {
            let by = ClosedBy::Fault;
            assert!(matches!(world.next(B), Some(Event::Closed { by: it, .. }) if it == by));
            let by = ClosedBy::Peer;
            assert_eq!(world.next(A), Some(Event::Closed { channel, by }));
        }
        assert_eq!(world.next(B), None);
        assert_eq!(world.next(A), None);
        assert_eq!(world.ends[A].channels.info(channel).is_some(), goes_on);
    }
}

#[test]
fn channels_and_names_beyond_the_limits_are_closed() {
    let limits = Limits {
        channels_max: 3,
        names_max: 100,
        ..Limits::default()
    };
    let conditions = Conditions::delayed(Duration::from_millis(5));
    let config = Config::default();
    let mut world = World::with([Limits::default(), limits], &config, conditions, 1);
    for label in ["a", "b", &"c".repeat(99), "d", "e"] {
        world.open(A, labelled(label));
    }
    let now = world.now();
    let long = world.ends[A]
        .channels
        .open(labelled(&"x".repeat(65536)), now);
    assert_eq!(
        long.map_err(|error| error.to_string()),
        Err("the label of a data channel has 65536 bytes; at most 65535 are allowed".into())
    );
    world.pass(500);
    assert_eq!(world.ends[A].channels.iter().count(), 3);
    assert_eq!(world.ends[B].channels.iter().count(), 3);
    let too_many = |event: &&Event| {
        let why = Refusal::TooMany;
        matches!(event, Event::Refused { why: it, .. } if *it == why)
    };
    assert_eq!(world.ends[B].events.iter().filter(too_many).count(), 2);
    let now = world.now();
    let own = world.ends[B].channels.open(Init::default(), now);
    assert_eq!(own, Err(OpenError::TooMany { limit: 3 }));
}

#[test]
fn the_end_of_the_association_closes_all_channels_first() {
    let mut world = World::connected();
    let channel = world.open(A, Init::default());
    world.pass(50);
    world.opened(A, false);
    let theirs = world.opened(B, true);
    let now = world.now();
    world.ends[A].channels.abort(now);
    world.pass(50);
    let by = ClosedBy::Association;
    assert_eq!(world.next(A), Some(Event::Closed { channel, by }));
    assert_eq!(world.next(A), Some(Event::Ended(CloseReason::Aborted)));
    let channel = theirs;
    assert_eq!(world.next(B), Some(Event::Closed { channel, by }));
    assert!(matches!(
        world.next(B),
        Some(Event::Ended(CloseReason::AbortedByPeer { .. }))
    ));
    let now = world.now();
    let late = world.ends[A].channels.open(Init::default(), now);
    assert_eq!(late, Err(OpenError::Closed));
}

#[test]
fn a_message_that_is_not_taken_stays_in_the_association() {
    let mut world = World::connected();
    let channel = world.open(A, Init::default());
    world.ends[A].channels.set_peer_max_message_size(Some(0));
    world.pass(50);
    for _ in 0..10 {
        world.send(A, channel, Message::binary(vec![0; 100_000]));
    }
    world.ends[B].reads = false;
    world.pass(5000);
    let report = world.ends[B].channels.report();
    println!("{report:#?}");
    assert_eq!(report.unread, 1_000_000);
    assert!(report.own_window < report.own_window_limit);
}

#[test]
fn an_end_with_something_to_say_to_nobody_gives_up() {
    let mut world = World::connected();
    let channel = world.open(A, Init::default());
    world.pass(100);
    world.send(A, channel, Message::text("hello?"));
    world.ends[B].channels.abort(world.network.now());
    let deaf = Conditions::default().with_loss(Loss::Random(1.0));
    world.network.set_conditions(&deaf);
    world.expect_within(Duration::from_secs(120), "A gives up", |world| {
        world.ends[A].channels.poll_timeout().is_none()
    });
    let gone = Event::Ended(CloseReason::PeerUnreachable);
    assert_eq!(world.ends[A].events.back(), Some(&gone));
}
