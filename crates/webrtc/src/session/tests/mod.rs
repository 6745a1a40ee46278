//! Two sessions joined by simulated links, in virtual time.

mod calls;
mod codecs;
mod congestion_control;
mod data;
mod fec;
mod handshake;
mod hijack;
mod hostile;
mod media;
mod nominations;
mod nonces;
mod publishing;
mod tcp;

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use glassline_media::{Codec, Track, VideoParameters, WallClock};
use glassline_sctp::channel;
use glassline_sim::{Conditions, Datagram, End, Network, Node, Rng, Simulation};

use super::*;

/// Certificates of all tests. The retransmission timers of a handshake draw their jitter from
/// the seed, so that runs in virtual time are repeatable.
pub(crate) static SERVER: LazyLock<Arc<Certificate>> = LazyLock::new(|| certificate(1));
pub(crate) static CLIENT: LazyLock<Arc<Certificate>> = LazyLock::new(|| certificate(2));
pub(super) static STRANGER: LazyLock<Arc<Certificate>> = LazyLock::new(|| certificate(3));

fn certificate(seed: u64) -> Arc<Certificate> {
    Arc::new(Certificate::with_timer_seed(seed).expect("a certificate"))
}

pub(super) const fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub(crate) fn tracks() -> Vec<Track> {
    let video = VideoParameters {
        sps: vec![0x67, 0x42, 0xc0, 0x1f, 0xda],
        ..VideoParameters::default()
    };
    vec![Track::h264(video), Track::audio(Codec::Opus, 2)]
}

/// A packet of media that a session returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MediaPacket {
    pub(super) receiver: usize,
    pub(super) layer: usize,
    pub(super) sequence: u64,
    pub(super) timestamp: u32,
    pub(super) marker: bool,
    pub(super) payload: Vec<u8>,
    pub(super) repaired: bool,
    pub(super) at: Duration,
}

/// A session, its address, and its output. Times count from the start.
pub(super) struct Peer {
    session: Session,
    pub(super) address: SocketAddr,
    /// The only address to which it may send, if it is known.
    sends_to: Option<SocketAddr>,
    start: Instant,
    pub(super) events: Vec<(Duration, Event)>,
    pub(super) received: Vec<MediaPacket>,
    /// Events of the data channels that the test has not taken yet.
    pub(super) channel_events: Vec<channel::Event>,
    /// Segment size and number of bytes of each segmented send.
    pub(super) batches: Vec<(usize, usize)>,
    pub(super) counted: u64,
    pub(super) counted_repaired: u64,
    pub(super) dropped: Vec<Dropped>,
    /// Payloads by (sender, sequence number), to answer NACKs.
    sent: HashMap<(usize, u64), (u32, bool, Vec<u8>)>,
    /// Datagrams that are sent next.
    queue: VecDeque<Datagram>,
}

impl Deref for Peer {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

impl Peer {
    fn new(
        session: Session,
        address: SocketAddr,
        sends_to: Option<SocketAddr>,
        start: Instant,
    ) -> Self {
        Self {
            session,
            address,
            sends_to,
            start,
            events: Vec::new(),
            received: Vec::new(),
            channel_events: Vec::new(),
            batches: Vec::new(),
            counted: 0,
            counted_repaired: 0,
            dropped: Vec::new(),
            sent: HashMap::new(),
            queue: VecDeque::new(),
        }
    }

    /// Queues a datagram for the peer's current address.
    fn enqueue(&mut self, bytes: Vec<u8>) {
        if let Some(to) = self.session.peer() {
            let (from, to) = (self.address, to.socket);
            self.queue.push_back(Datagram { from, to, bytes });
        }
    }

    /// Passes a datagram to the session, and keeps what the session makes of it.
    fn take(
        &mut self,
        now: Instant,
        from: TransportAddress,
        to: TransportAddress,
        bytes: &mut [u8],
    ) {
        match self.session.handle_datagram(now, from, to, bytes) {
            Ok(Received::Rtp {
                receiver,
                layer,
                sequence,
                repaired,
                packet,
            }) => self.received.push(MediaPacket {
                receiver: receiver.0,
                layer: layer.0,
                sequence,
                timestamp: packet.header.timestamp,
                marker: packet.header.marker,
                payload: packet.payload.to_vec(),
                repaired,
                at: now - self.start,
            }),
            Ok(Received::Counted { repaired, .. }) => {
                self.counted += 1;
                self.counted_repaired += u64::from(repaired);
            }
            Ok(_) => {}
            Err(reason) => self.dropped.push(reason),
        }
        let mut rebuilt = Vec::new();
        while let Some(Received::Rtp {
            receiver,
            layer,
            sequence,
            repaired,
            packet,
        }) = self.session.poll_rebuilt(now, &mut rebuilt)
        {
            self.received.push(MediaPacket {
                receiver: receiver.0,
                layer: layer.0,
                sequence,
                timestamp: packet.header.timestamp,
                marker: packet.header.marker,
                payload: packet.payload.to_vec(),
                repaired,
                at: now - self.start,
            });
        }
    }

    /// Takes the session's events and answers NACKs.
    fn attend(&mut self, now: Instant) {
        // Channels are polled before their packets, since polling creates some.
        if let Some(channels) = self.session.channels_mut() {
            let events = std::iter::from_fn(|| channels.poll_event(now));
            self.channel_events.extend(events);
        }
        while let Some(event) = self.session.poll_event() {
            if let Event::Nack { sender, lost, .. } = &event {
                self.retransmit(sender.0, lost, now);
            }
            self.events.push((now - self.start, event));
        }
    }

    fn retransmit(&mut self, sender: usize, lost: &[u64], now: Instant) {
        for sequence in lost {
            let Some((timestamp, marker, payload)) = self.sent.get(&(sender, *sequence)) else {
                continue;
            };
            let mut out = vec![0; 1500];
            let bytes = self.session.seal_retransmission(
                SenderIndex(sender),
                *sequence,
                *timestamp,
                *marker,
                payload,
                now,
                &mut out,
            );
            out.truncate(bytes.expect("sent before"));
            self.enqueue(out);
        }
    }
}

impl Node for Peer {
    fn is_at(&self, address: SocketAddr) -> bool {
        address == self.address
    }

    fn handle(&mut self, now: Instant, datagram: Datagram) {
        let Datagram {
            from,
            to,
            mut bytes,
        } = datagram;
        self.take(now, from.into(), to.into(), &mut bytes);
    }

    fn end_batch(&mut self, now: Instant) {
        self.session.end_batch(now);
    }

    fn poll_transmit(&mut self, now: Instant) -> Option<Datagram> {
        self.attend(now);
        let mut out = Vec::new();
        if self.queue.is_empty()
            && let Some((to, segment)) = self.session.poll_transmit_batch(now, &mut out)
        {
            let to = to.socket;
            assert!(self.sends_to.is_none_or(|only| only == to), "to {to}");
            self.batches.push((segment, out.len()));
            let from = self.address;
            let datagrams = out.chunks(segment).map(<[u8]>::to_vec);
            let datagrams = datagrams.map(|bytes| Datagram { from, to, bytes });
            self.queue.extend(datagrams);
            self.attend(now);
        }
        self.queue.pop_front()
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        self.session.poll_timeout()
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.session.handle_timeout(now);
    }

    fn state(&self) -> String {
        let (session, last) = (&self.session, self.events.last());
        let (connected, closed) = (session.is_connected(), session.is_closed());
        format!("connected {connected}, closed {closed}, last event {last:?}")
    }
}

/// A server (A) and a client (B) with a network between them.
pub(super) struct Pair {
    pub(super) network: Network,
    pub(super) server: Peer,
    pub(super) client: Peer,
}

impl Simulation for Pair {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        run(&mut self.network, &mut [&mut self.server, &mut self.client])
    }
}

/// Configuration of a pair.
pub(super) struct Setup {
    pub(super) conditions: Conditions,
    pub(super) seed: u64,
    pub(super) mode: ReceiveMode,
    /// Tracks of the server.
    pub(super) tracks: Vec<Track>,
    /// Data channels of each end, and the media that the client requests in addition.
    pub(super) server_data: Option<DataConfig>,
    pub(super) client_data: Option<DataConfig>,
    pub(super) receive: Kinds,
    /// Tracks of the client, what the server receives of them, and the Opus options of both
    /// ends.
    pub(super) client_tracks: Vec<Track>,
    pub(super) server_receive: Kinds,
    pub(super) opus: [sdp::OpusOptions; 2],
    pub(super) server: Arc<Certificate>,
    /// Edits the offer and the answer in transit.
    pub(super) edit_offer: fn(&str) -> String,
    pub(super) edit_answer: fn(&str) -> String,
    /// Edits the random values of the server.
    pub(super) edit_secrets: fn(&mut Secrets),
    /// Whether the server takes the offer as a publisher's.
    pub(super) publication: bool,
    /// Tracks of the client that are layers of one video.
    pub(super) layers: Vec<SimulcastLayer>,
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
            publication: false,
            layers: Vec::new(),
        }
    }
}

impl Pair {
    pub(super) fn new(setup: Setup) -> Self {
        let network = Network::pair(setup.conditions, setup.seed)
            .with_traced(|datagram| (kind(datagram), traced_size(datagram)));
        let now = network.now();
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
        let (mut client, offer) = Session::dial_simulcast(
            DialConfig {
                certificate: CLIENT.clone(),
                local: vec![addresses[1]],
                turn_allocations: Vec::new(),
                data: setup.client_data,
                secrets: secrets(),
                wall,
                send: setup.client_tracks,
                receive: setup.receive,
                opus: setup.opus[1],
                mode: setup.mode,
            },
            &setup.layers,
            now,
        );
        let mut drawn = secrets();
        (setup.edit_secrets)(&mut drawn);
        let config = AcceptConfig {
            certificate: setup.server,
            local: vec![addresses[0].into()],
            secrets: drawn,
            wall,
            tracks: &setup.tracks,
            receive: setup.server_receive,
            opus: setup.opus[0],
            data: setup.server_data,
        };
        let offer = (setup.edit_offer)(&offer);
        let accepted = if setup.publication {
            Session::accept_publication(config, &offer, ms(250), now)
        } else {
            Session::accept(config, &offer, now)
        };
        let (server, answer) = accepted.expect("our own offer");
        client
            .set_answer(&(setup.edit_answer)(&answer), now)
            .expect("our own answer");
        Self {
            network,
            server: Peer::new(server, addresses[0], None, now),
            client: Peer::new(client, addresses[1], Some(addresses[0]), now),
        }
    }

    /// Creates a pair that has connected over a perfect path, which then changes as `setup`
    /// states.
    pub(super) fn connected(setup: Setup) -> Self {
        let conditions = setup.conditions.clone();
        let perfect = Setup {
            conditions: Conditions::delayed(conditions.delay),
            ..setup
        };
        let mut pair = Self::new(perfect);
        pair.run_for(ms(1000));
        assert!(pair.server.is_connected() && pair.client.is_connected());
        pair.network.set_conditions(&conditions);
        pair
    }

    pub(super) fn now(&self) -> Instant {
        self.network.now()
    }

    /// Passes a datagram to an end as if it came from the other one.
    pub(super) fn deliver(&mut self, end: End, bytes: Vec<u8>) {
        let now = self.now();
        let (peer, other) = match end {
            End::A => (&mut self.server, &self.client),
            End::B => (&mut self.client, &self.server),
        };
        let (from, to) = (other.address, peer.address);
        peer.handle(now, Datagram { from, to, bytes });
    }

    /// Sends one packet from the client.
    pub(super) fn answer_back(&mut self, timestamp: u32, payload: &[u8]) -> Sealed {
        let (now, mut out) = (self.now(), vec![0; 1500]);
        let sealed = self
            .client
            .seal(SenderIndex(0), timestamp, false, payload, now, &mut out)
            .expect("connected");
        out.truncate(sealed.len);
        let sent = (timestamp, false, payload.to_vec());
        self.client.sent.insert((0, sealed.sequence), sent);
        self.client.enqueue(out);
        sealed
    }

    /// Sends one packet from the server.
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
        self.server.enqueue(out);
        self.server.sent.insert(
            (sender, sealed.sequence),
            (timestamp, marker, payload.to_vec()),
        );
    }

    /// Sends 30 frames a second of `packets` packets each, and 50 packets of audio a second,
    /// for `seconds`.
    pub(super) fn stream(&mut self, seconds: u32, packets: u8) {
        for tick in 0..seconds * 150 {
            if tick % 5 == 0 {
                let video_frame = tick / 5;
                for packet in 0..packets {
                    let payload = [&video_frame.to_be_bytes()[..], &[packet; 1100]].concat();
                    self.send(0, video_frame * 3000, packet + 1 == packets, &payload);
                }
            }
            if tick % 3 == 0 {
                let frame = tick / 3;
                self.send(1, frame * 960, false, &[frame as u8; 160]);
            }
            self.run_for(Duration::from_micros(6_666));
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

/// Signatures are random numbers in DER, so the lengths of DTLS flights differ from run to run.
fn traced_size(datagram: &[u8]) -> u64 {
    match kind(datagram) {
        "dtls" => 0,
        _ => datagram.len() as u64,
    }
}
