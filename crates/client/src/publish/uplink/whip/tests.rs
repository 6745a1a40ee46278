//! What is sent over a lossy or narrow path arrives, in virtual time.

use std::collections::{BTreeMap, HashSet, VecDeque};

use glassline_media::{Codec, MediaTime};
use glassline_sim::{Conditions, Datagram, Loss, Network, Node, Simulation};
use glassline_webrtc::{AcceptConfig, Received};

use super::publication::Publication;
use super::*;
use crate::publish::dispatch::Path as Measured;
use crate::publish::unit::Unit;
use crate::publish::uplink::Feedback;
use crate::publish::uplink::film::{TestedUplink, follows_the_path};

const DELAY: Duration = Duration::from_millis(25);

/// An end of the path: the publisher sends through [`Publication`], the server counts.
struct End {
    publication: Publication,
    address: SocketAddr,
    queue: VecDeque<Vec<u8>>,
    received: HashSet<u64>,
    frames: BTreeMap<u32, FrameParts>,
    complete: Vec<(u32, Instant)>,
}

/// The parts that arrived of a frame of VP8.
#[derive(Debug, Default)]
struct FrameParts {
    first: Option<u64>,
    last: Option<u64>,
    count: u64,
}

impl End {
    fn new(session: Session, address: SocketAddr) -> Self {
        let settings = Settings {
            algorithm: glassline_congestion::Algorithm::Glide,
            deadline: Duration::from_secs(1),
            zero: Instant::now(),
            bitrate_max: Bitrate::from_bps(3_000_000),
            bitrate_start: Bitrate::from_bps(1_000_000),
        };
        Self {
            publication: Publication::new(session, &settings),
            address,
            queue: VecDeque::new(),
            received: HashSet::new(),
            frames: BTreeMap::new(),
            complete: Vec::new(),
        }
    }

    fn take_part(&mut self, now: Instant, sequence: u64, packet: &glassline_rtp::Packet<'_>) {
        if !self.received.insert(sequence) {
            return;
        }
        let timestamp = packet.header.timestamp;
        let parts = self.frames.entry(timestamp).or_default();
        parts.count += 1;
        // The first packet of a partition (RFC 7741 §4.2).
        if packet.payload[0] & 0x10 != 0 {
            parts.first = Some(sequence);
        }
        if packet.header.marker {
            parts.last = Some(sequence);
        }
        if let (Some(first), Some(last)) = (parts.first, parts.last)
            && parts.count == last - first + 1
        {
            self.complete.push((timestamp, now));
            self.frames.remove(&timestamp);
        }
    }
}

impl Node for End {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, mut datagram: Datagram) {
        let (from, to) = (datagram.from, datagram.to);
        let session = &mut self.publication.session;
        let received = session.handle_datagram(now, from, to, &mut datagram.bytes);
        if let Ok(Received::Rtp {
            sequence, packet, ..
        }) = received
        {
            self.take_part(now, sequence, &packet);
        }
    }

    fn end_batch(&mut self, now: Instant) {
        self.publication.session.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        let Self {
            publication, queue, ..
        } = self;
        let mut keep = |bytes: &[u8]| queue.push_back(bytes.to_vec());
        publication.attend(now, &mut keep);
        publication.send(now, &mut keep);
        let (from, mut bytes) = (self.address, Vec::new());
        let session = &mut self.publication.session;
        if let Some(bytes) = self.queue.pop_front() {
            let to = session.peer()?.socket;
            return Some(Datagram { from, to, bytes });
        }
        let to = session.poll_transmit(&mut bytes)?.socket;
        Some(Datagram { from, to, bytes })
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.publication.session.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.publication.session.handle_timeout(now);
    }

    fn state(&self) -> String {
        format!("{} received", self.received.len())
    }
}

struct Path {
    network: Network,
    publisher: End,
    server: End,
    tracks: PacketizedTracks,
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
        Self::with_answer(str::to_owned)
    }

    /// Connects with an answer that `change` has changed.
    fn with_answer(change: impl Fn(&str) -> String) -> Self {
        let network = Network::pair(Conditions::delayed(DELAY), 1);
        let now = network.now();
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let addresses: [SocketAddr; 2] = ["192.0.2.2:40000", "192.0.2.1:8189"]
            .map(|address| address.parse().expect("an address"));
        let certificate = || Arc::new(Certificate::generate().expect("a certificate"));
        let config = DialConfig {
            local: vec![addresses[0]],
            send: vec![Track::new(Codec::Vp8)],
            ..DialConfig::new(certificate(), Secrets::expand(&[1; 32]), wall)
        };
        let (mut publisher, offer) = Session::dial(config, now);
        let config = AcceptConfig {
            local: vec![addresses[1].into()],
            ..AcceptConfig::new(certificate(), Secrets::expand(&[2; 32]), wall)
        };
        let repair_max = Duration::from_millis(250);
        let accepted = Session::accept_publication(config, &offer, repair_max, now);
        let (server, answer) = accepted.expect("our own offer");
        let answer = change(&answer);
        publisher.set_answer(&answer, now).expect("our own answer");
        let sender = &publisher.senders()[0];
        let (start, rate) = (sender.timestamp_start, sender.clock_rate);
        let track = PacketizedTrack::new(&Track::new(Codec::Vp8), 0, start, rate);
        let mut path = Self {
            tracks: PacketizedTracks::new(vec![track]),
            network,
            publisher: End::new(publisher, addresses[0]),
            server: End::new(server, addresses[1]),
        };
        path.run_for(Duration::from_secs(1));
        assert!(path.publisher.publication.session.is_connected());
        path
    }

    /// Sends `count` frames of four packets, 30 a second.
    fn send(&mut self, count: u32) {
        for number in 0..count {
            let frame = [&number.to_be_bytes()[..], &[7; 4000]].concat();
            let unit = Unit {
                track: TrackIndex(0),
                time: MediaTime::from_ticks(i64::from(number), 30),
                keyframe: number == 0,
                data: frame.into(),
                made: self.network.now(),
            };
            self.push(&unit);
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
    let counts = path.publisher.publication.session.senders()[0].counts();
    assert!(counts.packets >= 630 * 4, "{counts:?}");
    assert!(
        counts.retransmitted > 80,
        "{counts:?}: the test tests nothing"
    );
    let missing = counts.packets - path.server.received.len() as u64;
    let lost = path.network.link(glassline_sim::End::A).counts();
    assert!(missing <= 2, "{missing} of {counts:?} missing, {lost:?}");
    assert_eq!(path.publisher.publication.outgoing.waiting_bytes(), 0);
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
    let waiting = path.publisher.publication.outgoing.waiting_bytes();
    assert!(waiting > 400_000, "{waiting} bytes wait");
    let report = path
        .publisher
        .publication
        .session
        .path_report()
        .expect("controlled");
    assert!(report.in_flight < 100_000, "{report:?}");
}

impl TestedUplink for Path {
    fn advance(&mut self) -> Instant {
        self.run_for(Duration::from_millis(1));
        self.network.now()
    }

    fn path(&mut self) -> Measured {
        self.publisher.publication.path()
    }

    fn waiting_bytes(&self) -> u64 {
        self.publisher.publication.outgoing.waiting_bytes()
    }

    fn push(&mut self, unit: &Unit) {
        let packets = self.tracks.packetize(unit).expect("VP8").expect("packets");
        let (sender, timestamp) = (packets.sender, packets.timestamp);
        let outgoing = &mut self.publisher.publication.outgoing;
        outgoing.push(sender, timestamp, packets.unit);
    }

    fn set_kbps(&mut self, kbps: u64) {
        let rate = Bitrate::from_bps(kbps * 1000);
        let conditions = Conditions::limited(rate, DELAY, Duration::from_millis(300));
        self.network.set_conditions(&conditions);
    }

    fn take_frames(&mut self) -> Vec<(u64, Instant)> {
        let start = self.publisher.publication.session.senders()[0].timestamp_start;
        let complete = std::mem::take(&mut self.server.complete);
        let number = |timestamp: u32| u64::from(timestamp.wrapping_sub(start) / 3000);
        let complete = complete.into_iter();
        complete.map(|(at, when)| (number(at), when)).collect()
    }
}

#[test]
fn the_bitrate_follows_transport_wide_feedback() {
    let film = follows_the_path(Path::connected(), Duration::from_millis(200));
    let publication = &film.uplink.publisher.publication;
    assert_eq!(publication.feedback(), Feedback::TransportWide);
}

/// MediaMTX and other servers of Pion answer so.
#[test]
fn the_bitrate_follows_a_server_that_has_nack_without_rtx() {
    let without_rtx = |answer: &str| answer.replace(" rtx/90000", " unknown/90000");
    let path = Path::with_answer(without_rtx);
    assert_eq!(path.publisher.publication.session.senders()[0].rtx, None);
    let film = follows_the_path(path, Duration::from_millis(200));
    let publication = &film.uplink.publisher.publication;
    assert_eq!(publication.feedback(), Feedback::TransportWide);
    let sent_again = publication.session.senders()[0].counts().retransmitted;
    assert!(sent_again > 10, "{sent_again}: the test tests nothing");
}

#[test]
fn a_server_without_transport_wide_feedback_is_followed_by_its_reports() {
    let refused = |answer: &str| {
        let lines = answer.lines();
        let lines =
            lines.filter(|line| !line.contains("transport-cc") && !line.contains("transport-wide"));
        lines.map(|line| format!("{line}\r\n")).collect()
    };
    let film = follows_the_path(Path::with_answer(refused), Duration::from_millis(250));
    let publication = &film.uplink.publisher.publication;
    assert_eq!(publication.feedback(), Feedback::ReceiverReports);
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
