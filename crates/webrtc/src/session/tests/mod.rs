//! Two sessions joined by simulated links, in virtual time.

mod calls;
mod codecs;
mod data;
mod handshake;
mod hostile;
mod media;
mod nonces;
mod steering;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use glassline_media::{Codec, Track, VideoParameters, WallClock};
use glassline_sctp::channel;
use glassline_sim::{Clock, Conditions, End, Path, Rng, Trace};

use super::*;

/// Three certificates for all tests; a handshake's retransmission timers draw
/// their jitter from the seed, so that virtual time repeats.
pub(crate) static SERVER: LazyLock<Arc<Certificate>> = LazyLock::new(|| certificate(1));
pub(crate) static CLIENT: LazyLock<Arc<Certificate>> = LazyLock::new(|| certificate(2));
pub(super) static STRANGER: LazyLock<Arc<Certificate>> = LazyLock::new(|| certificate(3));

fn certificate(seed: u64) -> Arc<Certificate> {
    Arc::new(Certificate::with_timer_seed(seed).expect("a certificate"))
}

pub(super) fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) fn tracks() -> Vec<Track> {
    let video = VideoParameters {
        sps: vec![0x67, 0x42, 0xc0, 0x1f, 0xda],
        ..VideoParameters::default()
    };
    vec![Track::h264(video), Track::audio(Codec::Opus, 2)]
}

/// What the client end handed out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Heard {
    pub(super) receiver: usize,
    pub(super) sequence: u64,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: Vec<u8>,
    pub(super) repaired: bool,
    pub(super) at: Duration,
}

/// A server (A) and a client (B) and what is between them.
pub(super) struct Pair {
    pub(super) clock: Clock,
    pub(super) path: Path,
    pub(super) server: Session,
    pub(super) client: Session,
    pub(super) addresses: [SocketAddr; 2],
    pub(super) server_events: Vec<(Duration, Event)>,
    pub(super) client_events: Vec<(Duration, Event)>,
    pub(super) heard: Vec<Heard>,
    /// What the server end handed out.
    pub(super) server_heard: Vec<Heard>,
    /// What the channels told, and was not taken away yet.
    pub(super) server_channels: Vec<channel::Event>,
    pub(super) client_channels: Vec<channel::Event>,
    /// Segment and bytes of what the client sent at once.
    pub(super) client_batches: Vec<(usize, usize)>,
    pub(super) counted: u64,
    pub(super) counted_repaired: u64,
    pub(super) dropped: Vec<(End, Dropped)>,
    pub(super) trace: Trace,
    /// The server's payloads by (sender, sequence), to answer NACKs from.
    sent: std::collections::HashMap<(usize, u64), (u32, bool, Vec<u8>)>,
    answer_nacks: bool,
}

/// How a pair is made.
pub(super) struct Setup {
    pub(super) conditions: Conditions,
    pub(super) seed: u64,
    pub(super) mode: ReceiveMode,
    /// What the server sends.
    pub(super) tracks: Vec<Track>,
    /// Data channels of each end, and what the client asks for beside them.
    pub(super) server_data: Option<DataConfig>,
    pub(super) client_data: Option<DataConfig>,
    pub(super) receive: Kinds,
    /// What the client sends, what the server receives of it, and how either wants Opus.
    pub(super) client_tracks: Vec<Track>,
    pub(super) server_receive: Kinds,
    pub(super) opus: [sdp::OpusOptions; 2],
    pub(super) server: Arc<Certificate>,
    /// Edits the offer and the answer on their way.
    pub(super) edit_offer: fn(&str) -> String,
    pub(super) edit_answer: fn(&str) -> String,
    /// Edits what the server draws.
    pub(super) edit_secrets: fn(&mut Secrets),
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            conditions: Conditions::delayed(ms(25)),
            seed: 1,
            mode: ReceiveMode::Open,
            tracks: tracks(),
            server_data: None,
            client_data: None,
            receive: Kinds::ALL,
            client_tracks: Vec::new(),
            server_receive: Kinds::NONE,
            opus: [sdp::OpusOptions::default(); 2],
            server: SERVER.clone(),
            edit_offer: str::to_owned,
            edit_answer: str::to_owned,
            edit_secrets: |_| {},
        }
    }
}

impl Pair {
    pub(super) fn new(setup: Setup) -> Self {
        let clock = Clock::new();
        let now = clock.now();
        let mut rng = Rng::new(setup.seed);
        let mut secrets = || {
            let mut seed = [0; 32];
            rng.fill(&mut seed);
            Secrets::expand(&seed)
        };
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let addresses: [SocketAddr; 2] = [
            "192.0.2.1:8189".parse().expect("an address"),
            "192.0.2.2:40000".parse().expect("an address"),
        ];
        let (mut client, offer) = Session::dial(
            DialConfig {
                certificate: CLIENT.clone(),
                local: vec![addresses[1]],
                relays: Vec::new(),
                data: setup.client_data,
                secrets: secrets(),
                wall,
                send: setup.client_tracks,
                receive: setup.receive,
                opus: setup.opus[1],
                mode: setup.mode,
            },
            now,
        );
        let mut drawn = secrets();
        (setup.edit_secrets)(&mut drawn);
        let (server, answer) = Session::accept(
            AcceptConfig {
                certificate: setup.server,
                local: vec![addresses[0]],
                secrets: drawn,
                wall,
                tracks: &setup.tracks,
                receive: setup.server_receive,
                opus: setup.opus[0],
                data: setup.server_data,
            },
            &(setup.edit_offer)(&offer),
            now,
        )
        .expect("our own offer");
        client
            .set_answer(&(setup.edit_answer)(&answer), now)
            .expect("our own answer");
        Self {
            clock,
            path: Path::symmetric(setup.conditions, setup.seed),
            server,
            client,
            addresses,
            server_events: Vec::new(),
            client_events: Vec::new(),
            heard: Vec::new(),
            server_heard: Vec::new(),
            server_channels: Vec::new(),
            client_channels: Vec::new(),
            client_batches: Vec::new(),
            counted: 0,
            counted_repaired: 0,
            dropped: Vec::new(),
            trace: Trace::default(),
            sent: std::collections::HashMap::new(),
            answer_nacks: true,
        }
    }

    /// A pair that has connected over a perfect path, which then turns as `setup` says.
    pub(super) fn connected(setup: Setup) -> Self {
        let conditions = setup.conditions.clone();
        let perfect = Setup {
            conditions: Conditions::delayed(conditions.delay),
            ..setup
        };
        let mut pair = Self::new(perfect);
        pair.run_for(ms(1000));
        assert!(pair.server.is_connected() && pair.client.is_connected());
        pair.path
            .link_mut(End::A)
            .set_conditions(conditions.clone());
        pair.path.link_mut(End::B).set_conditions(conditions);
        pair
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Lets everything happen that is due until `for_` has passed.
    pub(super) fn run_for(&mut self, for_: Duration) {
        let end = self.now() + for_;
        loop {
            self.drain();
            let next = [
                self.path.next_arrival(),
                self.server.poll_timeout(),
                self.client.poll_timeout(),
                Some(end),
            ];
            assert!(self.clock.advance_to_earliest(next));
            let now = self.now();
            while let Some((end, datagram)) = self.path.poll(now) {
                self.deliver(end, datagram);
            }
            for session in [&mut self.server, &mut self.client] {
                session.end_batch(now);
                if session.poll_timeout().is_some_and(|at| at <= now) {
                    session.handle_timeout(now);
                }
            }
            self.drain();
            if now >= end {
                return;
            }
        }
    }

    /// Hands a datagram to an end as if it came from the other.
    pub(super) fn deliver(&mut self, end: End, mut datagram: Vec<u8>) {
        let now = self.now();
        let at = self.clock.elapsed();
        self.trace
            .record(at, kind(&datagram), traced_size(&datagram));
        let [a, b] = self.addresses;
        let (session, heard, from, to) = match end {
            End::A => (&mut self.server, &mut self.server_heard, b, a),
            End::B => (&mut self.client, &mut self.heard, a, b),
        };
        match session.handle_datagram(now, from, to, &mut datagram) {
            Ok(Received::Rtp {
                receiver,
                sequence,
                repaired,
                packet,
            }) => heard.push(Heard {
                receiver: receiver.0,
                sequence,
                timestamp: packet.header.timestamp,
                marker: packet.header.marker,
                payload: packet.payload.to_vec(),
                repaired,
                at,
            }),
            Ok(Received::Counted { repaired, .. }) => {
                self.counted += 1;
                self.counted_repaired += u64::from(repaired);
            }
            Ok(_) => {}
            Err(reason) => self.dropped.push((end, reason)),
        }
    }

    /// The client sends one packet.
    pub(super) fn answer_back(&mut self, timestamp: u32, payload: &[u8]) -> Sealed {
        let (now, mut out) = (self.now(), vec![0; 1500]);
        let sealed = self
            .client
            .seal(SenderIndex(0), timestamp, false, payload, now, &mut out)
            .expect("connected");
        out.truncate(sealed.len);
        self.path.send(End::B, now, out);
        sealed
    }

    /// The server sends one packet.
    pub(super) fn send(&mut self, sender: usize, timestamp: u32, marker: bool, payload: &[u8]) {
        let (now, mut out) = (self.now(), vec![0; 1500]);
        let sealed = self
            .server
            .seal(
                SenderIndex(sender),
                timestamp,
                marker,
                payload,
                now,
                &mut out,
            )
            .expect("connected");
        out.truncate(sealed.len);
        if self.server.peer() == Some(self.addresses[1]) {
            self.path.send(End::A, now, out);
        }
        self.sent.insert(
            (sender, sealed.sequence),
            (timestamp, marker, payload.to_vec()),
        );
    }

    /// Sends 30 pictures a second of `packets` packets each, and 50 packets of
    /// sound, for `seconds`.
    pub(super) fn stream(&mut self, seconds: u32, packets: u8) {
        for tick in 0..seconds * 150 {
            if tick % 5 == 0 {
                let picture = tick / 5;
                for packet in 0..packets {
                    let payload = [&picture.to_be_bytes()[..], &[packet; 1100]].concat();
                    self.send(0, picture * 3000, packet + 1 == packets, &payload);
                }
            }
            if tick % 3 == 0 {
                let frame = tick / 3;
                self.send(1, frame * 960, false, &[frame as u8; 160]);
            }
            self.run_for(Duration::from_micros(6_666));
        }
    }

    fn drain(&mut self) {
        let now = self.now();
        let at = self.clock.elapsed();
        let mut out = Vec::new();
        self.poll_channels();
        while let Some((to, segment)) = self.server.poll_transmit_batch(now, &mut out) {
            // What goes to an address the client has left is lost.
            if to == self.addresses[1] {
                for datagram in out.chunks(segment) {
                    self.path.send(End::A, now, datagram.to_vec());
                }
            }
        }
        while let Some((to, segment)) = self.client.poll_transmit_batch(now, &mut out) {
            assert_eq!(to, self.addresses[0]);
            self.client_batches.push((segment, out.len()));
            for datagram in out.chunks(segment) {
                self.path.send(End::B, now, datagram.to_vec());
            }
        }
        while let Some(event) = self.client.poll_event() {
            self.client_events.push((at, event));
        }
        while let Some(event) = self.server.poll_event() {
            if let Event::Nack { sender, lost, .. } = &event
                && self.answer_nacks
            {
                self.retransmit(sender.0, lost);
            }
            self.server_events.push((at, event));
        }
    }

    /// What the channels have to tell. Polled before their packets, which it makes.
    fn poll_channels(&mut self) {
        let now = self.now();
        let ends = [
            (&mut self.server, &mut self.server_channels),
            (&mut self.client, &mut self.client_channels),
        ];
        for (session, heard) in ends {
            if let Some(channels) = session.channels_mut() {
                heard.extend(std::iter::from_fn(|| channels.poll_event(now)));
            }
        }
    }

    fn retransmit(&mut self, sender: usize, lost: &[u64]) {
        let now = self.now();
        for sequence in lost {
            let (timestamp, marker, payload) = &self.sent[&(sender, *sequence)];
            let mut out = vec![0; 1500];
            let bytes = self.server.seal_retransmission(
                SenderIndex(sender),
                *sequence,
                *timestamp,
                *marker,
                payload,
                now,
                &mut out,
            );
            out.truncate(bytes.expect("sent before"));
            self.path.send(End::A, now, out);
        }
    }
}

fn kind(datagram: &[u8]) -> &'static str {
    match classify(datagram[0]) {
        DatagramKind::Stun => "stun",
        DatagramKind::Dtls => "dtls",
        DatagramKind::Rtp if is_rtcp(datagram) => "rtcp",
        DatagramKind::Rtp => "rtp",
        DatagramKind::Other => "other",
    }
}

/// DTLS flights differ by a few bytes from run to run: signatures are random
/// numbers in DER.
fn traced_size(datagram: &[u8]) -> u64 {
    if kind(datagram) == "dtls" {
        0
    } else {
        datagram.len() as u64
    }
}
