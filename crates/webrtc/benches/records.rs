//! Cost of protecting one data channel record: our record layer, `dimpl`'s own path, and the
//! cipher alone, in one run.
//!
//! `cargo bench -p glassline-webrtc --bench records`. The result is in ns per record of 1150
//! bytes, the best of many alternating rounds. Ratios carry over to other machines.
#![expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]

#[path = "../../../benches/figure.rs"]
mod figure;

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aws_lc_rs::aead::{self, LessSafeKey, UnboundKey};
use dimpl::crypto::Dtls12CipherSuite as Suite;
use dimpl::{Dtls, Output};
use glassline_webrtc::dtls::Cipher;
use glassline_webrtc::dtls::record::{ContentType, Opener, Sealer};

const PAYLOAD_BYTES: usize = 1150;
/// Number of records that are sealed and then opened in one measurement: as many as one
/// segmented send has.
const BATCH: usize = 50;
const ROUNDS: usize = 400;

/// Result in ns per record.
#[derive(Clone, Copy)]
struct Cost {
    seal: f64,
    open: f64,
}

impl Cost {
    const WORST: Self = Self {
        seal: f64::INFINITY,
        open: f64::INFINITY,
    };

    fn sum(self) -> f64 {
        self.seal + self.open
    }

    fn better(self, other: Self) -> Self {
        Self {
            seal: self.seal.min(other.seal),
            open: self.open.min(other.open),
        }
    }
}

fn main() {
    println!(
        "{:<18} {:>6} {:>6} {:>6} │ {:>6} {:>6} {:>6} │ {:>6} {:>6} {:>6} │ {:>8} {:>10}",
        "cipher, ns/record",
        "seal",
        "open",
        "sum",
        "raw",
        "raw",
        "sum",
        "dimpl",
        "dimpl",
        "sum",
        "ours/raw",
        "ours/dimpl"
    );
    for cipher in Cipher::ALL {
        let mut ours = Ours::new(cipher);
        let mut raw = Raw::new(cipher);
        let mut dimpl = Dimpl::new(cipher);
        let [mut a, mut b, mut c] = [Cost::WORST; 3];
        for _ in 0..ROUNDS {
            a = a.better(ours.measure());
            b = b.better(raw.measure());
            c = c.better(dimpl.measure());
        }
        print!("{cipher:<18}");
        for cost in [a, b, c] {
            print!(
                " {:>6.0} {:>6.0} {:>6.0} │",
                cost.seal,
                cost.open,
                cost.sum()
            );
        }
        println!(" {:>8.2} {:>10.2}", a.sum() / b.sum(), a.sum() / c.sum());
        let record = format!("{cipher} record, sealed and opened");
        figure::print(
            &record,
            a.sum(),
            "ns",
            "less",
            Some(("cipher alone", b.sum())),
        );
        let beside = Some(("dimpl", c.sum()));
        figure::print(
            &format!("{record}, and dimpl"),
            a.sum(),
            "ns",
            "less",
            beside,
        );
    }
    println!("fastest here: {}", Cipher::fastest(Instant::now));
}

fn per_record(time: Duration) -> f64 {
    time.as_nanos() as f64 / BATCH as f64
}

/// The record layer of this crate.
struct Ours {
    sealer: Sealer,
    opener: Opener,
    batch: Vec<u8>,
}

impl Ours {
    fn new(cipher: Cipher) -> Self {
        let key = &[7; 32][..cipher.key_bytes()];
        let sealer = Sealer::new(cipher, key, &[1; 12]).expect("a key");
        let stride = PAYLOAD_BYTES + sealer.overhead();
        Self {
            sealer,
            opener: Opener::new(cipher, key, &[1; 12]).expect("a key"),
            batch: vec![0x5a; stride * BATCH],
        }
    }

    fn measure(&mut self) -> Cost {
        let stride = PAYLOAD_BYTES + self.sealer.overhead();
        let start = Instant::now();
        for record in self.batch.chunks_exact_mut(stride) {
            self.sealer
                .seal(ContentType::ApplicationData, record, PAYLOAD_BYTES)
                .expect("sealed");
        }
        let sealed = Instant::now();
        for record in self.batch.chunks_exact_mut(stride) {
            black_box(self.opener.open(record).expect("opened"));
        }
        Cost {
            seal: per_record(sealed - start),
            open: per_record(sealed.elapsed()),
        }
    }
}

/// The cipher alone, with a counted nonce and as much additional data.
struct Raw {
    key: LessSafeKey,
    batch: Vec<u8>,
}

impl Raw {
    fn new(cipher: Cipher) -> Self {
        let algorithm = match cipher {
            Cipher::Aes128Gcm => &aead::AES_128_GCM,
            Cipher::Aes256Gcm => &aead::AES_256_GCM,
            Cipher::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        };
        let key = UnboundKey::new(algorithm, &[7; 32][..cipher.key_bytes()]).expect("a key");
        Self {
            key: LessSafeKey::new(key),
            batch: vec![0x5a; (PAYLOAD_BYTES + 16) * BATCH],
        }
    }

    fn measure(&mut self) -> Cost {
        let stride = PAYLOAD_BYTES + 16;
        let nonce = |number: usize| {
            let mut bytes = [1; 12];
            bytes[4..].copy_from_slice(&number.to_be_bytes());
            aead::Nonce::assume_unique_for_key(bytes)
        };
        let start = Instant::now();
        for (number, record) in self.batch.chunks_exact_mut(stride).enumerate() {
            let (payload, tag) = record.split_at_mut(PAYLOAD_BYTES);
            let made = self
                .key
                .seal_in_place_separate_tag(nonce(number), aead::Aad::from([0; 13]), payload)
                .expect("sealed");
            tag.copy_from_slice(made.as_ref());
        }
        let sealed = Instant::now();
        for (number, record) in self.batch.chunks_exact_mut(stride).enumerate() {
            let opened = self
                .key
                .open_in_place(nonce(number), aead::Aad::from([0; 13]), record);
            black_box(opened.expect("opened"));
        }
        Cost {
            seal: per_record(sealed - start),
            open: per_record(sealed.elapsed()),
        }
    }
}

/// `dimpl` at both ends, one record per datagram.
struct Dimpl {
    client: Dtls,
    server: Dtls,
}

impl Dimpl {
    fn new(cipher: Cipher) -> Self {
        let suite = match cipher {
            Cipher::Aes128Gcm => Suite::ECDHE_ECDSA_AES128_GCM_SHA256,
            Cipher::Aes256Gcm => Suite::ECDHE_ECDSA_AES256_GCM_SHA384,
            Cipher::ChaCha20Poly1305 => Suite::ECDHE_ECDSA_CHACHA20_POLY1305_SHA256,
        };
        let now = Instant::now();
        let config = dimpl::Config::builder()
            .dtls12_cipher_suites(&[suite])
            .max_queue_rx(2 * BATCH)
            .build()
            .expect("a configuration");
        let config = Arc::new(config);
        let end = |active| {
            let certificate =
                dimpl::certificate::generate_self_signed_certificate().expect("a certificate");
            let mut dtls = Dtls::new_12(Arc::clone(&config), certificate, now);
            dtls.set_active(active);
            dtls
        };
        let (mut client, mut server) = (end(true), end(false));
        client.handle_timeout(now).expect("started");
        server.handle_timeout(now).expect("started");
        let mut connected = [false; 2];
        while connected != [true; 2] {
            connected[0] |= pass(&mut client, &mut server);
            connected[1] |= pass(&mut server, &mut client);
        }
        Self { client, server }
    }

    fn measure(&mut self) -> Cost {
        let mut buffer = vec![0; 2048];
        let payload = [0x5a; PAYLOAD_BYTES];
        // The queue's buffers are ours: they are allocated before, so that they do not count.
        let mut spare: Vec<Vec<u8>> = (0..BATCH).map(|_| vec![0; 2048]).collect();
        let start = Instant::now();
        for datagram in &mut spare {
            self.client.send_application_data(&payload).expect("sent");
            if let Output::Packet(packet) = self.client.poll_output(&mut datagram[..]) {
                let bytes = packet.len();
                datagram.truncate(bytes);
            }
        }
        let sealed = Instant::now();
        for datagram in &spare {
            self.server.handle_packet(datagram).expect("taken");
            while let Output::ApplicationData(payload) = self.server.poll_output(&mut buffer) {
                black_box(payload);
            }
        }
        Cost {
            seal: per_record(sealed - start),
            open: per_record(sealed.elapsed()),
        }
    }
}

/// Passes on what `from` sends. Returns true once it is connected.
fn pass(from: &mut Dtls, to: &mut Dtls) -> bool {
    let mut connected = false;
    let mut buffer = vec![0; 4096];
    loop {
        match from.poll_output(&mut buffer) {
            Output::Packet(packet) => to.handle_packet(packet).expect("taken"),
            Output::Connected => connected = true,
            Output::Timeout(_) => return connected,
            _ => {}
        }
    }
}
