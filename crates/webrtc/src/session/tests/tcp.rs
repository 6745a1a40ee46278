//! A viewer that UDP does not reach, in virtual time: ICE over TCP (RFC 6544), framed by RFC 4571.
//!
//! The connection cuts its bytes anywhere, is late where a segment is lost, stalls, breaks, and
//! comes from another port when it is back, as libwebrtc connects again for the same pair.

use glassline_sim::{ByteStream, Clock, StreamConditions};

use super::*;
use crate::TransportAddress;
use crate::framing::{self, FrameReader};

/// Bytes on the way to the viewer beyond which the server seals no media, as its outbox does.
const WINDOW: usize = 64 << 10;

/// One end of the connection: a session, and the frames that it reads and writes.
struct TcpEnd {
    peer: Peer,
    reader: FrameReader,
    /// Framed datagrams that the connection has not taken.
    waiting: Vec<u8>,
    /// Where the other end's datagrams come from, and where they arrive.
    remote: TransportAddress,
    local: TransportAddress,
    /// Whether a check must come first: the server ends other connections.
    begins_with_check: bool,
}

impl TcpEnd {
    fn new(peer: Peer, local: TransportAddress, remote: TransportAddress) -> Self {
        Self {
            peer,
            reader: FrameReader::default(),
            waiting: Vec::new(),
            remote,
            local,
            begins_with_check: false,
        }
    }

    /// Takes the datagrams of the session, and writes what the connection takes.
    fn send(&mut self, stream: &mut ByteStream, now: Instant) {
        self.peer.attend(now);
        let mut out = Vec::new();
        while let Some(to) = self.peer.session.poll_transmit(&mut out) {
            if to == self.remote {
                self.frame(&out);
            }
            self.peer.attend(now);
        }
        let written = stream.write(now, &self.waiting);
        self.waiting.drain(..written);
    }

    fn frame(&mut self, datagram: &[u8]) {
        self.begins_with_check &= kind(datagram) != "stun";
        if !self.begins_with_check {
            let prefix = framing::prefix(datagram.len()).expect("short");
            self.waiting.extend(prefix);
            self.waiting.extend(datagram);
        }
    }

    fn receive(&mut self, stream: &mut ByteStream, now: Instant) {
        let (from, to) = (self.remote, self.local);
        while let Some(mut bytes) = stream.read(now) {
            let mut datagrams = Vec::new();
            let read = self
                .reader
                .read(&mut bytes, |datagram| datagrams.push(datagram.to_vec()));
            assert_eq!(read, Ok(()), "the frames of an end of ours");
            for datagram in &mut datagrams {
                self.peer.take(now, from, to, datagram);
            }
        }
        self.peer.end_batch(now);
        if self.peer.session.poll_timeout().is_some_and(|at| at <= now) {
            self.peer.session.handle_timeout(now);
        }
    }

    /// Begins a new connection.
    fn reconnect(&mut self) {
        self.reader = FrameReader::default();
        self.waiting.clear();
    }
}

/// A server, a viewer and their connection.
struct Connection {
    clock: Clock,
    seed: u64,
    server: TcpEnd,
    viewer: TcpEnd,
    down: ByteStream,
    up: ByteStream,
    is_broken: bool,
    /// Audio packets that were sealed, by their payload.
    sealed: Vec<u32>,
    number: u32,
}

impl Connection {
    fn new(seed: u64, conditions: StreamConditions) -> Self {
        let pair = Pair::new(Setup {
            seed,
            ..Setup::default()
        });
        let Pair {
            mut server,
            mut client,
            network,
        } = pair;
        let clock = Clock::starting_at(network.now());
        let [here, there] = [server.address, client.address].map(TransportAddress::tcp);
        server.session.add_local(here);
        client.session.add_local(there);
        let passive = sdp::Candidate::host(here, 1);
        assert!(passive.is_tcp_passive());
        client.session.add_remote_candidate(&passive, clock.now());
        Self {
            clock,
            seed,
            server: TcpEnd::new(server, here, there),
            viewer: TcpEnd::new(client, there, here),
            down: ByteStream::new(conditions, seed),
            up: ByteStream::new(conditions, seed + 1_000_000),
            is_broken: false,
            sealed: Vec::new(),
            number: 0,
        }
    }

    /// Runs for `time`, with a packet of audio every 20 ms that the connection has room for.
    fn run_for(&mut self, time: Duration, media: bool) {
        let until = self.clock.now() + time;
        let mut next_packet = self.clock.now();
        loop {
            let now = self.clock.now();
            if media && next_packet <= now {
                next_packet = now + ms(20);
                self.send_media(now);
            }
            if !self.is_broken {
                self.server.receive(&mut self.up, now);
                self.viewer.receive(&mut self.down, now);
            }
            self.server.send(&mut self.down, now);
            self.viewer.send(&mut self.up, now);
            if self.is_broken {
                let _ = (self.down.reset(), self.up.reset());
                self.server.waiting.clear();
                self.viewer.waiting.clear();
            }
            if now >= until {
                return;
            }
            // Steps of a millisecond at most, which no timer of a session is shorter than.
            self.clock.advance_to((now + ms(1)).min(until));
        }
    }

    fn send_media(&mut self, now: Instant) {
        self.number += 1;
        let is_full = self.down.room() < 1500 || !self.server.waiting.is_empty();
        let session = &mut self.server.peer.session;
        if is_full || !session.is_connected() || session.peer() != Some(self.server.remote) {
            return;
        }
        let mut out = vec![0; 1500];
        let payload = [&self.number.to_be_bytes()[..], &[7; 400]].concat();
        let timestamp = self.number * 960;
        let sealed = session.seal(SenderIndex(1), timestamp, false, &payload, now, &mut out);
        out.truncate(sealed.expect("connected").len);
        self.server.frame(&out);
        self.sealed.push(self.number);
    }

    /// Breaks the connection. It is back after `time`, from another port of the viewer's.
    fn break_off(&mut self, time: Duration, port: u16) {
        self.is_broken = true;
        let _ = (self.down.reset(), self.up.reset());
        self.run_for(time, true);
        self.server.reconnect();
        self.viewer.reconnect();
        self.viewer.begins_with_check = true;
        self.server.remote.socket.set_port(port);
        self.is_broken = false;
    }

    fn is_connected(&self) -> bool {
        self.server.peer.is_connected() && self.viewer.peer.is_connected()
    }

    fn connect(&mut self) {
        let began = self.clock.now();
        while !self.is_connected() {
            self.run_for(ms(10), false);
            let took = self.clock.now() - began;
            assert!(took < ms(9_000), "seed {}: not connected", self.seed);
        }
    }

    /// Numbers of the packets that arrived, in their order.
    fn arrived(&self) -> Vec<u32> {
        let packets = self.viewer.peer.received.iter();
        let numbers = packets.map(|packet| {
            assert_eq!(packet.payload[4..], [7; 400], "seed {}", self.seed);
            let (number, _) = packet.payload.split_first_chunk().expect("four bytes");
            u32::from_be_bytes(*number)
        });
        numbers.collect()
    }

    /// The session goes on: whatever is sealed from now on arrives, once and in order.
    fn goes_on(&mut self) {
        let (sealed, before) = (self.sealed.len(), self.arrived().len());
        self.run_for(ms(2_000), true);
        assert!(self.sealed.len() >= sealed + 95, "seed {}", self.seed);
        self.settle();
        let arrived = self.arrived();
        assert_eq!(
            arrived[before..],
            self.sealed[sealed..],
            "seed {}",
            self.seed
        );
    }

    /// Lets everything arrive that is under way.
    fn settle(&mut self) {
        while [&self.down, &self.up]
            .iter()
            .any(|it| it.next_arrival().is_some())
        {
            self.run_for(ms(10), false);
        }
    }
}

/// Conditions drawn from `seed`: from a good path to a bad one.
fn drawn(seed: u64) -> StreamConditions {
    let mut rng = Rng::new(seed ^ 0x7c9);
    StreamConditions {
        delay: ms(1 + rng.below(100)),
        jitter: ms(rng.below(60)),
        loss: 0.02 * rng.unit(),
        repair: ms(200 + rng.below(300)),
        segment_max: [3, 40, 700, 1448][usize::try_from(rng.below(4)).expect("4")],
        window: WINDOW,
    }
}

#[test]
fn a_session_joins_over_tcp_and_everything_arrives_once_and_in_order() {
    for seed in 0..12 {
        let mut connection = Connection::new(seed, drawn(seed));
        connection.connect();
        connection.settle();
        for _ in 0..3 {
            connection.goes_on();
        }
        assert_eq!(connection.arrived(), connection.sealed, "seed {seed}");
        let server = &connection.server.peer;
        assert_eq!(server.dropped, [], "seed {seed}");
        let path = server.session.path().expect("connected");
        assert_eq!(path.transport, crate::Transport::Tcp);
        let is_nack = |event: &Event| matches!(event, Event::Nack { .. });
        let asked = server.events.iter().any(|(_, event)| is_nack(event));
        assert!(!asked, "seed {seed}: nothing is lost on a connection");
    }
}

#[test]
fn a_viewer_that_reads_nothing_for_seconds_stays() {
    for seed in 0..8 {
        let mut connection = Connection::new(seed, drawn(seed));
        connection.connect();
        connection.settle();
        connection.goes_on();
        let mut rng = Rng::new(seed);
        for _ in 0..3 {
            let until = connection.clock.now() + ms(500 + rng.below(9_000));
            connection.down.stall(until);
            connection.run_for(until - connection.clock.now(), true);
            let waits = connection.server.waiting.len();
            assert!(waits < 64 << 10, "seed {seed}: {waits} bytes wait");
            connection.run_for(ms(3_000), true);
        }
        connection.settle();
        assert_eq!(connection.arrived(), connection.sealed, "seed {seed}");
        connection.goes_on();
    }
}

#[test]
fn a_connection_that_breaks_and_is_back_carries_the_same_session() {
    for seed in 0..8 {
        let mut connection = Connection::new(seed, drawn(seed));
        connection.connect();
        connection.settle();
        connection.goes_on();
        let mut rng = Rng::new(seed);
        for port in 50_000..50_003 {
            connection.break_off(ms(rng.below(4_000)), port);
            let began = connection.clock.now();
            let back = connection.server.remote;
            while connection.server.peer.session.peer() != Some(back) {
                connection.run_for(ms(10), true);
                let took = connection.clock.now() - began;
                assert!(took < ms(9_000), "seed {seed}: media is not back");
            }
            connection.settle();
            connection.goes_on();
        }
        assert!(connection.is_connected(), "seed {seed}");
    }
}

#[test]
fn the_same_seed_breaks_in_the_same_way() {
    let run = || {
        let mut connection = Connection::new(5, drawn(5));
        connection.connect();
        connection.run_for(ms(1_000), true);
        connection.break_off(ms(700), 50_000);
        connection.run_for(ms(8_000), true);
        connection.arrived()
    };
    assert_eq!(run(), run());
}

#[test]
fn a_viewer_over_tcp_reports_every_packet_only_if_congestion_control_needs_it() {
    let feedback = |connection: &Connection| {
        let events = connection.server.peer.events.iter();
        let is_feedback = |it: &&(Duration, Event)| matches!(it.1, Event::TransportFeedback { .. });
        events.filter(is_feedback).count()
    };
    for seed in 0..3 {
        let mut connection = Connection::new(seed, drawn(seed));
        connection.connect();
        connection.goes_on();
        assert_eq!(feedback(&connection), 0, "seed {seed}: nothing needs it");
        let algorithm = glassline_congestion::Algorithm::Glide;
        let now = connection.clock.now();
        let session = &mut connection.server.peer.session;
        assert!(session.enable_congestion_control(algorithm, now));
        connection.goes_on();
        assert!(feedback(&connection) > 5, "seed {seed}");
    }
}

#[test]
fn reports_that_leave_early_with_media_come_once_a_second_and_are_true() {
    let mut connection = Connection::new(1, drawn(1));
    connection.connect();
    let now = connection.clock.now();
    connection.server.peer.anchor(SenderIndex(1), 0, now);
    connection.run_for(ms(100), true);
    let sender_time = |connection: &Connection| {
        let receiver = &connection.viewer.peer.receivers()[1];
        receiver
            .sender_time()
            .expect("a report with the first packet")
    };
    let (first, mut last, mut reports, mut early) = (sender_time(&connection), None, 0, 0);
    for _ in 0..500 {
        let now = connection.clock.now();
        let session = &mut connection.server.peer.session;
        if session.report_early(now, ms(40)) {
            early += 1;
            assert!(!session.report_early(now, ms(40)), "once");
        }
        connection.run_for(ms(20), true);
        let newest = sender_time(&connection);
        reports += u32::from(last.replace(newest.ntp) != Some(newest.ntp));
    }
    assert!((10..=11).contains(&early), "{early}");
    assert!(reports <= early + 1, "{reports}: the timer sends none");
    let last = sender_time(&connection);
    let seconds = (last.ntp.0 - first.ntp.0) as f64 / 4_294_967_296.0;
    let ticks = f64::from(last.rtp_timestamp.wrapping_sub(first.rtp_timestamp)) / 48e3;
    assert!(seconds > 8.0 && (seconds - ticks).abs() < 1e-4, "{seconds}");
}
