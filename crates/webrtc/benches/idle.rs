//! What an idle peer with one data channel keeps in memory.
//!
//! `cargo bench -p glassline-webrtc --bench idle`. Pairs of sessions connect in
//! memory, open a channel, say a word and fall silent; the process's resident memory
//! is then divided by the ends there are. Pages, not objects: what the allocator
//! holds back counts, too.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::WallClock;
use glassline_sctp::channel::{Event, Init, Message};
use glassline_webrtc::{
    AcceptConfig, Certificate, DataConfig, DialConfig, Kinds, ReceiveMode, Secrets, Session,
};

const PAIRS: usize = 500;

fn main() {
    let certificate = Arc::new(Certificate::generate().expect("a certificate"));
    let addresses: [SocketAddr; 2] = [
        "127.0.0.1:1000".parse().expect("an address"),
        "127.0.0.1:2000".parse().expect("an address"),
    ];
    // What the first pair needs of tables and pools is not every peer's.
    let mut pairs = vec![Pair::connect(&certificate, addresses, 0)];
    let before = resident_bytes();
    for number in 1..=PAIRS {
        pairs.push(Pair::connect(&certificate, addresses, number));
    }
    let per_end = (resident_bytes() - before) as f64 / (2 * PAIRS) as f64;
    println!(
        "{PAIRS} pairs connected, each with a channel: {:.1} kB an end",
        per_end / 1e3
    );
    assert!(
        pairs
            .iter()
            .all(|pair| pair.ends.iter().all(Session::is_connected))
    );
}

struct Pair {
    ends: [Session; 2],
}

impl Pair {
    fn connect(certificate: &Arc<Certificate>, addresses: [SocketAddr; 2], number: usize) -> Self {
        let mut now = Instant::now();
        let wall = WallClock::new(now, Duration::from_secs(1_700_000_000));
        let secrets = |end: u8| {
            let mut seed = [end; 32];
            seed[..8].copy_from_slice(&number.to_be_bytes());
            Secrets::expand(&seed)
        };
        let (mut client, offer) = Session::dial(
            DialConfig {
                certificate: Arc::clone(certificate),
                local: vec![addresses[1]],
                relays: Vec::new(),
                secrets: secrets(1),
                wall,
                receive: Kinds::NONE,
                mode: ReceiveMode::Open,
                data: Some(DataConfig::default()),
            },
            now,
        );
        let (server, answer) = Session::accept(
            AcceptConfig {
                certificate: Arc::clone(certificate),
                local: vec![addresses[0]],
                secrets: secrets(2),
                wall,
                tracks: &[],
                data: Some(DataConfig::default()),
            },
            &offer,
            now,
        )
        .expect("our own offer");
        client.set_answer(&answer, now).expect("our own answer");
        let channels = client.channels_mut().expect("data");
        let channel = channels.open(Init::default(), now).expect("a channel");
        let mut pair = Self {
            ends: [server, client],
        };
        let (mut said, mut heard) = (false, false);
        for _ in 0..400 {
            now += Duration::from_millis(5);
            pair.exchange(addresses, now);
            for end in &mut pair.ends {
                while let Some(event) = end.channels_mut().and_then(|it| it.poll_event(now)) {
                    heard |= matches!(event, Event::Message { .. });
                }
            }
            let channels = pair.ends[1].channels_mut().expect("data");
            said = said || channels.send(channel, Message::text("hello"), now).is_ok();
        }
        assert!(heard, "the word did not arrive");
        pair
    }

    fn exchange(&mut self, addresses: [SocketAddr; 2], now: Instant) {
        let mut out = Vec::new();
        for from in 0..2 {
            let to = 1 - from;
            self.ends[from].handle_timeout(now);
            while let Some((_, segment)) = self.ends[from].poll_transmit_batch(now, &mut out) {
                for datagram in out.chunks_mut(segment) {
                    let (source, destination) = (addresses[from], addresses[to]);
                    // What is refused is counted in the session.
                    let _ = self.ends[to].handle_datagram(now, source, destination, datagram);
                }
            }
            self.ends[to].end_batch(now);
            while self.ends[from].poll_event().is_some() {}
        }
    }
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let pages: u64 = statm
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .expect("a number of pages");
    pages * 4096
}
