//! What is sent over a lossy path arrives whole, in virtual time.

use std::collections::{HashSet, VecDeque};

use glassline_sim::{Conditions, Datagram, Loss, Network, Node, Simulation};
use glassline_webrtc::{AcceptConfig, Event, Received};

use super::outgoing::Outgoing;
use super::*;

const DELAY: Duration = Duration::from_millis(25);

/// An end of the path: the publisher sends through [`Outgoing`], the server counts.
struct End {
    session: Session,
    address: SocketAddr,
    outgoing: Outgoing,
    queue: VecDeque<Vec<u8>>,
    received: HashSet<u64>,
}

impl End {
    fn new(session: Session, address: SocketAddr) -> Self {
        Self {
            session,
            address,
            outgoing: Outgoing::default(),
            queue: VecDeque::new(),
            received: HashSet::new(),
        }
    }
}

impl Node for End {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, mut datagram: Datagram) {
        let (from, to) = (datagram.from, datagram.to);
        let received = self
            .session
            .handle_datagram(now, from, to, &mut datagram.bytes);
        if let Ok(Received::Rtp { sequence, .. }) = received {
            self.received.insert(sequence);
        }
    }

    fn end_batch(&mut self, now: Instant) {
        self.session.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let Self {
            session,
            outgoing,
            queue,
            ..
        } = self;
        while let Some(event) = session.poll_event() {
            match event {
                Event::Connected { .. } => {
                    session.enable_congestion_control(glassline_congestion::Algorithm::Glide, now);
                }
                Event::Nack { sender, lost, .. } => {
                    outgoing.send_again(session, (sender, &lost), now, |bytes| {
                        queue.push_back(bytes.to_vec());
                    });
                }
                _ => {}
            }
        }
        outgoing.send(session, now, |bytes| queue.push_back(bytes.to_vec()));
        let (from, mut bytes) = (self.address, Vec::new());
        if let Some(bytes) = queue.pop_front() {
            let to = session.peer()?.socket;
            return Some(Datagram { from, to, bytes });
        }
        let to = session.poll_transmit(&mut bytes)?.socket;
        Some(Datagram { from, to, bytes })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
    }

    fn state(&self) -> String {
        format!("{} received", self.received.len())
    }
}

struct Path {
    network: Network,
    publisher: End,
    server: End,
}

impl Simulation for Path {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        run(
            &mut self.network,
            &mut [&mut self.publisher, &mut self.server],
        )
    }
}

impl Path {
    fn connected() -> Self {
        let network = Network::pair(Conditions::delayed(DELAY), 1);
        let now = network.now();
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let addresses: [SocketAddr; 2] = ["192.0.2.2:40000", "192.0.2.1:8189"]
            .map(|address| address.parse().expect("an address"));
        let certificate = || Arc::new(Certificate::generate().expect("a certificate"));
        let config = DialConfig {
            certificate: certificate(),
            local: vec![addresses[0]],
            turn_allocations: Vec::new(),
            data: None,
            secrets: Secrets::expand(&[1; 32]),
            wall,
            send: vec![Track::new(Codec::Vp8)],
            receive: Kinds::NONE,
            opus: OpusOptions::default(),
            mode: ReceiveMode::Open,
        };
        let (mut publisher, offer) = Session::dial(config, now);
        let config = AcceptConfig {
            certificate: certificate(),
            local: vec![addresses[1].into()],
            secrets: Secrets::expand(&[2; 32]),
            wall,
            tracks: &[],
            receive: Kinds::NONE,
            opus: OpusOptions::default(),
            data: None,
        };
        let repair_max = Duration::from_millis(250);
        let accepted = Session::accept_publication(config, &offer, repair_max, now);
        let (server, answer) = accepted.expect("our own offer");
        publisher.set_answer(&answer, now).expect("our own answer");
        let mut path = Self {
            network,
            publisher: End::new(publisher, addresses[0]),
            server: End::new(server, addresses[1]),
        };
        path.run_for(Duration::from_secs(1));
        assert!(path.publisher.session.is_connected());
        path
    }

    /// Sends `count` frames of four packets, 30 a second.
    fn send(&mut self, count: u32) {
        let mut packetizer = Packetizer::new(&Track::new(Codec::Vp8));
        let mut builder = UnitBuilder::default();
        for number in 0..count {
            let frame = [&number.to_be_bytes()[..], &[7; 4000]].concat();
            packetizer
                .packetize(&frame, &mut builder)
                .expect("a frame of VP8");
            let now = self.network.now();
            let time = MediaTime::from_ticks(i64::from(number), 30);
            let unit = builder.build(TrackIndex(0), time, number == 0, Stamps::arrived(now));
            let timestamp = number.wrapping_mul(3000);
            let outgoing = &mut self.publisher.outgoing;
            outgoing.push(SenderIndex(0), timestamp, unit.expect("packets"));
            self.run_for(Duration::from_micros(33_333));
        }
    }
}

#[test]
fn lost_packets_are_sent_again_when_the_server_requests_them() {
    let mut path = Path::connected();
    let lossy = Conditions::delayed(DELAY).with_loss(Loss::Random(0.05));
    path.network.set_conditions(&lossy);
    path.send(600);
    // A loss at the very end is only noticed by a packet that follows.
    path.network.set_conditions(&Conditions::delayed(DELAY));
    path.send(30);
    path.run_for(Duration::from_secs(1));
    let counts = path.publisher.session.senders()[0].counts();
    assert!(counts.packets >= 630 * 4, "{counts:?}");
    assert!(
        counts.retransmitted > 80,
        "{counts:?}: the test tests nothing"
    );
    let missing = counts.packets - path.server.received.len() as u64;
    let lost = path.network.link(glassline_sim::End::A).counts();
    assert!(missing <= 2, "{missing} of {counts:?} missing, {lost:?}");
    assert_eq!(path.publisher.outgoing.waiting_bytes(), 0);
}

#[test]
fn what_the_path_does_not_carry_waits_in_front_of_the_session() {
    let mut path = Path::connected();
    // Frames of 960 kbit/s on a path of 300 kbit/s.
    let narrow = Conditions::limited(
        Bitrate::from_bps(300_000),
        DELAY,
        Duration::from_millis(500),
    );
    path.network.set_conditions(&narrow);
    path.send(300);
    let waiting = path.publisher.outgoing.waiting_bytes();
    assert!(waiting > 400_000, "{waiting} bytes wait");
    let report = path.publisher.session.path_report().expect("controlled");
    assert!(report.in_flight < 100_000, "{report:?}");
}

#[test]
fn a_token_leaves_the_url_and_texts_show_neither() {
    let endpoint = |text: &str| Endpoint::new(text.parse().expect("a URL"), Trust::System);
    let parsed = endpoint("https://host/rtc/whip/?app=live&token=a%20b&key=secret#x");
    assert_eq!(
        parsed.url.as_str(),
        "https://host/rtc/whip/?app=live&key=secret"
    );
    assert_eq!(parsed.token.as_deref(), Some("a b"));
    for text in [parsed.to_string(), format!("{parsed:?}")] {
        assert!(
            text.contains("host/rtc/whip/") && !text.contains("secret"),
            "{text}"
        );
    }
    let plain = endpoint("http://host:8889/cam/whip");
    assert_eq!(plain.to_string(), "http://host:8889/cam/whip");
    assert_eq!(plain.token, None);
}
