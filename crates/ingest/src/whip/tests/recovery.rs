//! A publisher over a lossy path, in virtual time: from the frame to the hub.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::SocketAddr;

use glassline_hub::{Subscription, Wake};
use glassline_media::{Track, WallClock};
use glassline_sim::{Conditions, Datagram, Loss, Network, Node, Simulation};
use glassline_webrtc::{
    AcceptConfig, Certificate, DialConfig, Event, Received, Secrets, SenderIndex,
};

use super::*;

/// Frames a second, and packets of each frame: 3.2 Mbit/s.
const FRAME: Duration = Duration::from_micros(33_333);
const PACKETS: u8 = 12;

/// Packets that the publisher has sent, by their number: timestamp, marker and payload.
type Sent = HashMap<u64, (u32, bool, Vec<u8>)>;

/// The publisher's end: sends frames, and answers NACKs and requests for keyframes.
struct Sender {
    session: Session,
    address: SocketAddr,
    sent: Sent,
    queue: VecDeque<Vec<u8>>,
    keyframe_due: bool,
}

impl Sender {
    /// Sends the frame `number`.
    fn send_frame(&mut self, number: u32, now: Instant) {
        let keyframe = number == 0 || std::mem::take(&mut self.keyframe_due);
        for packet in 0..PACKETS {
            // A descriptor (RFC 7741 §4.2), and in the first packet the frame's header.
            let mut payload = match (packet, keyframe) {
                (0, true) => KEYFRAME.to_vec(),
                (0, false) => vec![0x10, 1],
                _ => vec![0],
            };
            payload.extend(number.to_be_bytes());
            payload.resize(1100, packet);
            let (marker, mut out) = (packet + 1 == PACKETS, vec![0; 1500]);
            let timestamp = number.wrapping_mul(3000);
            let sealed =
                self.session
                    .seal(SenderIndex(0), timestamp, marker, &payload, now, &mut out);
            let sealed = sealed.expect("connected");
            out.truncate(sealed.len);
            self.queue.push_back(out);
            self.sent
                .insert(sealed.sequence, (timestamp, marker, payload));
        }
    }

    fn send_again(&mut self, lost: &[u64], now: Instant) {
        for sequence in lost {
            let Some((timestamp, marker, payload)) = self.sent.get(sequence) else {
                continue;
            };
            let mut out = vec![0; 1500];
            let bytes = self.session.seal_retransmission(
                SenderIndex(0),
                *sequence,
                *timestamp,
                *marker,
                payload,
                now,
                &mut out,
            );
            out.truncate(bytes.expect("sent before"));
            self.queue.push_back(out);
        }
    }
}

impl Node for Sender {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, mut datagram: Datagram) {
        let (from, to) = (datagram.from, datagram.to);
        let _ = self
            .session
            .handle_datagram(now, from, to, &mut datagram.bytes);
    }

    fn end_batch(&mut self, now: Instant) {
        self.session.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        while let Some(event) = self.session.poll_event() {
            match event {
                Event::Nack { lost, .. } => self.send_again(&lost, now),
                Event::KeyframeRequest { .. } => self.keyframe_due = true,
                _ => {}
            }
        }
        transmit(&mut self.session, self.address, &mut self.queue)
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
    }

    fn state(&self) -> String {
        format!("sender, connected {}", self.session.is_connected())
    }
}

/// Returns the next datagram of `queue`, or of the session.
fn transmit(
    session: &mut Session,
    from: SocketAddr,
    queue: &mut VecDeque<Vec<u8>>,
) -> Option<Datagram> {
    if let Some(bytes) = queue.pop_front() {
        let to = session.peer()?.socket;
        return Some(Datagram { from, to, bytes });
    }
    let mut bytes = Vec::new();
    let to = session.poll_transmit(&mut bytes)?.socket;
    Some(Datagram { from, to, bytes })
}

struct NoWake;

impl Wake for NoWake {
    fn wake(&self) {}
}

/// The server's end: the session, what is made of its packets, and when the hub has each frame.
struct Receiving {
    session: Session,
    address: SocketAddr,
    hub: Arc<Hub>,
    contribution: Contribution,
    counters: WhipCounters,
    is_started: bool,
    subscription: Option<Subscription>,
    units: Vec<Arc<MediaUnit>>,
    /// When the hub had a frame, by its number.
    published: BTreeMap<u32, Instant>,
}

impl Receiving {
    fn serve(&mut self, now: Instant) {
        if !self.is_started && self.session.is_connected() {
            self.is_started = true;
            self.contribution.start(now);
        }
        let served = self
            .contribution
            .serve(&mut self.session, now, &self.counters);
        served.expect("published");
        if self.subscription.is_none()
            && let Some(stream) = self.hub.stream("studio")
        {
            let subscription = stream.subscribe(Arc::new(NoWake));
            self.units.extend(stream.since_keyframe(TrackIndex(0)));
            self.subscription = Some(subscription);
        }
        if let Some(subscription) = &mut self.subscription {
            subscription.poll(&mut self.units);
        }
        for unit in self.units.drain(..) {
            let frame = unit.coded_frame().expect("a frame").to_vec();
            // Behind the frame's header, without the descriptor.
            let at = if unit.keyframe { KEYFRAME.len() - 1 } else { 1 };
            let number = frame[at..at + 4].try_into().expect("four bytes");
            self.published
                .entry(u32::from_be_bytes(number))
                .or_insert(now);
        }
    }
}

impl Node for Receiving {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, mut datagram: Datagram) {
        let (from, to) = (datagram.from, datagram.to);
        let received = self
            .session
            .handle_datagram(now, from, to, &mut datagram.bytes);
        if let Ok(Received::Rtp {
            receiver,
            layer,
            packet,
            ..
        }) = received
        {
            let place = (receiver, layer);
            self.contribution
                .take(&self.session, place, &packet, now, &self.counters);
        }
    }

    fn end_batch(&mut self, now: Instant) {
        self.session.end_batch(now);
        self.serve(now);
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        while self.session.poll_event().is_some() {}
        transmit(&mut self.session, self.address, &mut VecDeque::new())
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        let due = [self.session.poll_timeout(), self.contribution.deadline()];
        due.into_iter().flatten().min()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
        self.serve(now);
    }

    fn state(&self) -> String {
        format!("server, {} frames", self.published.len())
    }
}

/// A publisher and the server, with a network between them.
struct Path {
    network: Network,
    sender: Sender,
    server: Receiving,
}

impl Simulation for Path {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        run(&mut self.network, &mut [&mut self.sender, &mut self.server])
    }
}

impl Path {
    /// Connects over a path with 50 ms of round trip that loses nothing yet.
    fn connected(seed: u8) -> Self {
        let network = Network::pair(Conditions::delayed(DELAY), u64::from(seed));
        let now = network.now();
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let addresses: [SocketAddr; 2] = ["192.0.2.2:40000", "192.0.2.1:8189"]
            .map(|address| address.parse().expect("an address"));
        let certificate = || Arc::new(Certificate::generate().expect("a certificate"));
        let config = DialConfig {
            local: vec![addresses[0]],
            send: vec![Track::new(Codec::Vp8)],
            ..DialConfig::new(certificate(), Secrets::expand(&[seed; 32]), wall)
        };
        let (mut dialled, offer) = Session::dial(config, now);
        let config = AcceptConfig {
            local: vec![addresses[1].into()],
            ..AcceptConfig::new(certificate(), Secrets::expand(&[seed ^ 0x80; 32]), wall)
        };
        let accepted = Session::accept_publication(config, &offer, TrackPipeline::REPAIR_MAX, now);
        let (session, answer) = accepted.expect("our own offer");
        dialled.set_answer(&answer, now).expect("our own answer");
        let hub = Arc::new(Hub::default());
        let reservations = Arc::new(Reservations::new(now));
        let name = StreamName::parse("studio").expect("good");
        let reservation = reservations.reserve(name, SessionId::new("session"), false, now);
        let reservation = reservation.expect("free");
        let contribution = Contribution::new(&session, Arc::clone(&hub), reservation, false, now);
        let mut path = Self {
            network,
            sender: Sender {
                session: dialled,
                address: addresses[0],
                sent: Sent::new(),
                queue: VecDeque::new(),
                keyframe_due: false,
            },
            server: Receiving {
                contribution: contribution.expect("known"),
                session,
                address: addresses[1],
                hub,
                counters: WhipCounters::default(),
                is_started: false,
                subscription: None,
                units: Vec::new(),
                published: BTreeMap::new(),
            },
        };
        path.run_for(Duration::from_secs(1));
        assert!(path.sender.session.is_connected() && path.server.is_started);
        path
    }
}

/// One-way delay of the path.
const DELAY: Duration = Duration::from_millis(25);
/// Frames of the test: one minute.
const FRAMES: u32 = 1800;

/// Returns the time from each frame to the hub, by the number of the frame; `None` if the hub never
/// had the frame.
fn delays(seed: u8, share: f64) -> Vec<Option<Duration>> {
    let mut path = Path::connected(seed);
    let lossy = Conditions::delayed(DELAY).with_loss(Loss::Random(share));
    path.network.set_conditions(&lossy);
    let mut sent = Vec::new();
    for number in 0..FRAMES {
        let now = path.network.now();
        sent.push(now);
        path.sender.send_frame(number, now);
        path.run_for(FRAME);
    }
    path.run_for(Duration::from_secs(1));
    let published = &path.server.published;
    let delay = |(number, sent): (u32, &Instant)| Some(*published.get(&number)? - *sent);
    (0..).zip(&sent).map(delay).collect()
}

fn median(of: &[Option<Duration>]) -> Duration {
    let mut known: Vec<_> = of.iter().flatten().copied().collect();
    known.sort_unstable();
    known[known.len() / 2]
}

/// Each frame has twelve packets, so about half of the frames lose one, and wait for it in order.
#[test]
fn delay_does_not_grow_under_five_percent_loss() {
    for seed in 1..=3 {
        let delays = delays(seed, 0.05);
        let minute: Vec<Duration> = delays.chunks(300).map(median).collect();
        let missing = delays.iter().filter(|it| it.is_none()).count();
        let slowest = delays.iter().flatten().max().expect("frames");
        let tail: Vec<_> = delays.iter().flatten().collect();
        let in_time = |it: &&&Duration| ***it <= DELAY + Duration::from_millis(150);
        let in_time = tail.iter().filter(in_time).count();
        println!(
            "seed {seed}: medians of 10 s {minute:?}, slowest {slowest:?}, {in_time} of {FRAMES} \
             within 150 ms of repair, {missing} missing"
        );
        // The packet that is given up last lets the frames behind it go.
        let bound = DELAY + TrackPipeline::REPAIR_MAX + FRAME;
        assert!(*slowest <= bound, "{slowest:?} beyond {bound:?}");
        assert!(in_time * 100 >= FRAMES as usize * 99, "{in_time} frames");
        // A frame that waits for a packet waits for one round trip, and those behind it with it.
        let usual = DELAY + 2 * DELAY + FRAME;
        assert!(minute.iter().all(|it| *it <= usual), "{minute:?}");
        let (first, last) = (minute[0], minute[5]);
        assert!(last <= first + FRAME, "{minute:?}");
    }
}

/// The path without losses: nothing waits.
#[test]
fn without_loss_a_frame_takes_the_delay_of_the_path() {
    let delays = delays(1, 0.0);
    let other = delays.iter().find(|it| **it != Some(DELAY));
    assert_eq!(other, None);
}
