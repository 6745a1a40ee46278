//! Sessions of MoQ that are authentic and hostile: after the handshake they send garbage.
//!
//! ```text
//! raw QUIC, WebTransport ─► Session, with the right to read or to publish
//!     requests: floods of subscriptions, broken messages, streams that are never finished
//!     data: groups that nobody asked for, broken frames, a second setup
//!     datagrams
//! ```

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use glassline_congestion::Algorithm;
use glassline_media::{Codec, MediaTime, Track, TrackIndex};
use glassline_quic::moq::{self, Address, Role, StreamKind, TrackConfig, UncheckedStream};
use glassline_quic::{ClientEndpoint, CongestionControl, Trust};
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};

use super::{Attack, STRANGER};
use crate::chaos::error::Error;

/// Longest time of one session; then another one is opened.
const SESSION: Duration = Duration::from_secs(1);

/// Pause of a session after each of its actions.
const PAUSE: Duration = Duration::from_millis(4);

/// Longest wait for the server's leave to open a stream or to write on one.
const PATIENCE: Duration = Duration::from_millis(100);

/// Most streams that a session holds open: more than a server allows at a time.
const HELD_MAX: usize = 1400;

/// A keyframe of H.264 as far as its first bytes: parameter sets, and a slice that ends at once.
const KEYFRAME: &[u8] = &[
    0, 0, 0, 1, 0x67, 0x42, 0xc0, 0x1f, 0xda, 0x01, 0x40, 0x16, 0xec, 0x04, 0x40, 0, 0, 0, 1, 0x68,
    0xce, 0x3c, 0x80, 0, 0, 0, 1, 0x65, 0x88, 0x84, 0x80,
];

/// Counts of all sessions, and the sign to end.
#[derive(Debug, Default)]
struct Shared {
    is_over: AtomicBool,
    opened: AtomicU64,
    refused: AtomicU64,
    sent: AtomicU64,
    /// Streams that the server did not allow, or stopped.
    stopped: AtomicU64,
    /// Sessions that the server ended.
    ended: AtomicU64,
}

impl Attack<'_> {
    /// Holds `count` hostile sessions, by turns on raw QUIC and WebTransport, as readers and
    /// publishers; each is replaced after a second, or when the server has ended it.
    pub(super) fn send_hostile_sessions(&mut self) -> Result<(), Error> {
        let configuration = &self.deployment.configuration;
        let shared = Arc::new(Shared::default());
        let runtime = super::connections::runtime()?;
        for index in 0..self.action.count.max(1) {
            let scheme = ["moq", "https"][index % 2];
            let role = [Role::Subscriber, Role::Both][index / 2 % 2];
            let (name, token) = match role {
                Role::Subscriber => ("demo".to_owned(), &configuration.read_token),
                _ => (format!("hostile-{index}"), &configuration.publish_token),
            };
            let url = format!("{scheme}://{}/{name}?token={token}", configuration.quic);
            let hostile = Hostile {
                address: Address::parse(&url).map_err(std::io::Error::other)?,
                role,
                random: StdRng::seed_from_u64(self.random.random()),
                shared: Arc::clone(&shared),
            };
            runtime.spawn(hostile.run());
        }
        let waited = self.wait(self.action.time);
        shared.is_over.store(true, Ordering::Relaxed);
        // Sessions say goodbye, so that the server need not wait for their silence.
        runtime.shutdown_timeout(4 * PATIENCE);
        waited?;
        let get = |count: &AtomicU64| count.load(Ordering::Relaxed);
        self.outcome.sent = get(&shared.sent);
        self.outcome.refused = get(&shared.stopped);
        let (opened, refused) = (get(&shared.opened), get(&shared.refused));
        let ended = get(&shared.ended);
        self.note(format!(
            "{opened} sessions, of which the server ended {ended}; {refused} could not be opened"
        ));
        if opened == 0 && self.action.time > SESSION {
            self.late("no session from another address was accepted".to_owned());
        }
        Ok(())
    }
}

/// A peer that opens one session after the other.
struct Hostile {
    address: Address,
    role: Role,
    random: StdRng,
    shared: Arc<Shared>,
}

impl Hostile {
    async fn run(mut self) {
        while !self.shared.is_over.load(Ordering::Relaxed) {
            match self.open().await {
                Some(session) => {
                    self.shared.opened.fetch_add(1, Ordering::Relaxed);
                    self.misbehave(session).await;
                }
                None => {
                    self.shared.refused.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(PATIENCE).await;
                }
            }
        }
    }

    /// Opens a session as a good client does.
    async fn open(&self) -> Option<moq::Session> {
        let endpoint = ClientEndpoint::bind(SocketAddr::new(STRANGER, 0)).ok()?;
        let options = moq::Options {
            congestion: CongestionControl::new(Algorithm::Cubic),
            trust: Trust::Anyone,
            role: self.role,
        };
        moq::connect(&endpoint, &self.address, options).await.ok()
    }

    async fn misbehave(&mut self, session: moq::Session) {
        let _broadcast = self.announce(&session);
        let mut held = VecDeque::new();
        let end = Instant::now() + SESSION;
        while Instant::now() < end
            && !session.is_over()
            && !self.shared.is_over.load(Ordering::Relaxed)
        {
            let is_sent = self.act(&session, &mut held).await;
            let count = if is_sent {
                &self.shared.sent
            } else {
                &self.shared.stopped
            };
            count.fetch_add(1, Ordering::Relaxed);
            if held.len() > HELD_MAX {
                held.pop_front();
            }
            tokio::time::sleep(PAUSE).await;
        }
        if session.is_over() {
            self.shared.ended.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let _ = tokio::time::timeout(PATIENCE, session.close()).await;
    }

    /// Publishes a broadcast with one frame, so that the server subscribes to its tracks.
    fn announce(&self, session: &moq::Session) -> Option<moq::Broadcast> {
        let configs = vec![TrackConfig::new(Track::new(Codec::H264))];
        let mut broadcast = session.publish(self.address.name(), configs).ok()?;
        let frame = moq::Frame {
            time: MediaTime::ZERO,
            keyframe: true,
            data: Bytes::from_static(KEYFRAME),
        };
        broadcast.write(TrackIndex(0), &frame).ok()?;
        Some(broadcast)
    }

    /// Sends one garbage message; false if the server did not let it pass.
    async fn act(&mut self, session: &moq::Session, held: &mut VecDeque<UncheckedStream>) -> bool {
        let Some(kind) = kind(&mut self.random) else {
            let mut payload = vec![0; self.random.random_range(0..1100)];
            self.random.fill_bytes(&mut payload);
            return session.send_unchecked_datagram(&payload);
        };
        let bytes = message(&mut self.random, kind);
        let opened = tokio::time::timeout(PATIENCE, session.open_unchecked(kind)).await;
        let Ok(Some(mut stream)) = opened else {
            // Make room, so that later streams pass.
            held.truncate(held.len() / 2);
            return false;
        };
        let written = tokio::time::timeout(PATIENCE, stream.write(&bytes)).await;
        match self.random.random_range(0..4) {
            // Dropped, and so finished.
            0 => {}
            1 => stream.reset(self.random.random()),
            _ => held.push_back(stream),
        }
        written == Ok(true)
    }
}

/// Kind of the next stream; `None` for a datagram.
fn kind(random: &mut StdRng) -> Option<StreamKind> {
    match random.random_range(0..8) {
        0..5 => Some(StreamKind::Request),
        5..7 => Some(StreamKind::Data),
        _ => None,
    }
}

/// Beginning of a stream of moq-lite: its kind, and a message whose length or contents are wrong.
fn message(random: &mut StdRng, kind: StreamKind) -> Vec<u8> {
    let mut bytes = Vec::new();
    let (number, body) = match kind {
        StreamKind::Request => request(random),
        StreamKind::Data => data(random),
    };
    number_to(&mut bytes, number);
    let length = body.len() as u64;
    number_to(
        &mut bytes,
        match random.random_range(0..8) {
            0 => (1 << 62) - 1,
            1 => length + random.random_range(1..2000),
            2 => length.saturating_sub(random.random_range(1..9)),
            _ => length,
        },
    );
    bytes.extend(body);
    if random.random_ratio(1, 3) {
        let mut noise = vec![0; random.random_range(1..600)];
        random.fill_bytes(&mut noise);
        bytes.extend(noise);
    }
    bytes
}

/// Kind and message of a request: announcements, subscriptions, fetches, probes, unknown ones.
fn request(random: &mut StdRng) -> (u64, Vec<u8>) {
    let mut body = Vec::new();
    let names = ["demo", "quic", "", "../x", "catalog.json"];
    let tracks = ["catalog.json", "video0", "audio0", ""];
    let number = match random.random_range(0..10) {
        // Session, goaway, track and kinds that do not exist.
        0 => random.random_range(0..20),
        1 => 1,
        2 => 3,
        3 => 4,
        // Subscriptions are most of a flood.
        _ => 2,
    };
    if matches!(number, 2 | 6) {
        number_to(&mut body, random.random_range(0..8));
    }
    if number != 4 {
        text_to(&mut body, random, &names);
    }
    if matches!(number, 2 | 3) {
        text_to(&mut body, random, &tracks);
        body.push(random.random());
        for _ in 0..5 {
            let value = [
                0,
                1,
                random.random::<u64>() >> 2,
                u64::from(random.random::<u16>()),
            ];
            number_to(&mut body, value[random.random_range(0..value.len())]);
        }
    }
    (number, body)
}

/// Kind and message of data: groups of subscriptions, with frames of any size; a second setup.
fn data(random: &mut StdRng) -> (u64, Vec<u8>) {
    let number = match random.random_range(0..6) {
        0 => 1,
        1 => random.random_range(0..9),
        _ => 0,
    };
    let mut body = Vec::new();
    number_to(&mut body, random.random_range(0..6));
    number_to(&mut body, u64::from(random.random::<u8>()));
    number_to(&mut body, random.random_range(0..3));
    (number, body)
}

/// Appends an integer of variable length (RFC 9000 §16).
fn number_to(bytes: &mut Vec<u8>, number: u64) {
    match number {
        0..0x40 => bytes.push(number as u8),
        0x40..0x4000 => bytes.extend((number as u16 | 1 << 14).to_be_bytes()),
        0x4000..0x4000_0000 => bytes.extend((number as u32 | 2 << 30).to_be_bytes()),
        _ => bytes.extend((number | 3 << 62).to_be_bytes()),
    }
}

/// Appends one of `names`, or a long one, behind its length.
fn text_to(bytes: &mut Vec<u8>, random: &mut StdRng, names: &[&str]) {
    match names.get(random.random_range(0..=names.len())) {
        Some(name) => {
            number_to(bytes, name.len() as u64);
            bytes.extend(name.as_bytes());
        }
        None => {
            let length = random.random_range(1..1500);
            number_to(bytes, length as u64);
            bytes.extend(std::iter::repeat_n(random.random::<u8>(), length));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_sends_the_same_bytes_and_numbers_have_their_length() {
        let bytes = |seed| {
            let mut random = StdRng::seed_from_u64(seed);
            let kinds = [StreamKind::Request, StreamKind::Data].into_iter().cycle();
            let all = kinds.map(|kind| message(&mut random, kind)).take(200);
            all.collect::<Vec<_>>()
        };
        assert_eq!(bytes(1), bytes(1));
        assert_ne!(bytes(1), bytes(2));
        for (number, wanted) in [(63, 1), (64, 2), (16_384, 4), (1 << 30, 8)] {
            let mut written = Vec::new();
            number_to(&mut written, number);
            assert_eq!(written.len(), wanted, "{number}");
        }
    }
}
