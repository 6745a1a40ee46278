//! Our records against those of `dimpl`, which is the other end here.

mod fragments;

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use dimpl::crypto::Dtls12CipherSuite;
use glassline_sim::Clock;

use super::*;

static OURS: LazyLock<Certificate> =
    LazyLock::new(|| Certificate::with_timer_seed(1).expect("a certificate"));
static THEIRS: LazyLock<(dimpl::DtlsCertificate, Fingerprint)> = LazyLock::new(|| {
    let certificate = Certificate::with_timer_seed(2).expect("a certificate");
    (certificate.for_dimpl(), certificate.fingerprint().clone())
});

const ROLES: [Role; 2] = [Role::Client, Role::Server];

/// An association of ours (A) and one of `dimpl` alone (B), connected by a wire.
///
/// This is not a `glassline_sim::Simulation`: time passes only when a test lets it, and records
/// are passed one by one, so that tests can lose, duplicate and forge them.
struct Pair {
    now: Instant,
    ours: Association,
    theirs: Dtls,
    /// Datagrams on their way to A.
    to_us: VecDeque<Vec<u8>>,
    to_them: VecDeque<Vec<u8>>,
    /// Packets that A has opened.
    packets: Vec<Vec<u8>>,
    /// Payloads that B has opened.
    payloads: Vec<Vec<u8>>,
    refused: Vec<OpenError>,
    connected: [bool; 2],
    closed: [bool; 2],
    their_deadline: Instant,
}

impl Pair {
    fn new(role: Role, choice: CipherChoice, theirs: &[Cipher]) -> Self {
        let now = Clock::new().now();
        let suites: Vec<Dtls12CipherSuite> = theirs.iter().map(|it| it.suite()).collect();
        let config = dimpl::Config::builder()
            .dtls12_cipher_suites(&suites)
            .flight_start_rto(Duration::from_millis(100))
            .use_server_cookie(false)
            .dangerously_set_rng_seed(3)
            .build()
            .expect("a configuration");
        let (certificate, fingerprint) = &*THEIRS;
        let mut theirs = Dtls::new_12(Arc::new(config), certificate.clone(), now);
        theirs.set_active(role == Role::Server);
        let expected = vec![fingerprint.clone()];
        let mut pair = Self {
            now,
            ours: Association::new(&OURS, role, expected, Some(choice), now),
            theirs,
            to_us: VecDeque::new(),
            to_them: VecDeque::new(),
            packets: Vec::new(),
            payloads: Vec::new(),
            refused: Vec::new(),
            connected: [false; 2],
            closed: [false; 2],
            their_deadline: now,
        };
        assert!(pair.ours.start(now).is_none());
        pair.theirs.handle_timeout(now).expect("started");
        pair.collect();
        pair
    }

    fn connected(role: Role, cipher: Cipher) -> Self {
        let mut pair = Self::new(role, CipherChoice::Only(cipher), &Cipher::ALL);
        pair.run();
        assert_eq!(pair.connected, [true; 2]);
        assert_eq!(pair.ours.sealer().expect("keys").cipher(), cipher);
        pair
    }

    fn collect(&mut self) {
        while let Some(datagram) = self.ours.poll_transmit() {
            self.to_them.push_back(datagram.into());
        }
        let mut buffer = vec![0; 4096];
        loop {
            match self.theirs.poll_output(&mut buffer) {
                Output::Packet(datagram) => self.to_us.push_back(datagram.to_vec()),
                Output::ApplicationData(payload) => self.payloads.push(payload.to_vec()),
                Output::Connected => self.connected[1] = true,
                Output::CloseNotify => self.closed[1] = true,
                Output::Timeout(at) => {
                    self.their_deadline = at;
                    return;
                }
                _ => {}
            }
        }
    }

    fn deliver_to_us(&mut self, mut datagram: Vec<u8>) {
        let packets = &mut self.packets;
        let progress = self
            .ours
            .handle_datagram(self.now, &mut datagram, |packet| {
                packets.push(packet.to_vec());
            });
        match progress {
            Ok(Some(Progress::Connected { .. })) => {
                self.connected[0] = true;
                self.ours.open_early(|packet| {
                    packets.push(packet.to_vec());
                });
            }
            Ok(Some(Progress::CloseNotify)) => self.closed[0] = true,
            Ok(None) => {}
            // Further output of the handshake changes nothing once there are keys.
            Ok(Some(Progress::Failed(_))) if self.connected[0] => {}
            Ok(Some(other)) => panic!("{other:?}"),
            Err(error) => self.refused.push(error),
        }
        self.collect();
    }

    fn deliver_to_them(&mut self, datagram: &[u8]) {
        self.theirs.handle_packet(datagram).expect("they take it");
        self.collect();
    }

    /// Delivers everything on the wire.
    fn run(&mut self) {
        while let Some(datagram) = self.to_us.pop_front() {
            self.deliver_to_us(datagram);
            while let Some(datagram) = self.to_them.pop_front() {
                self.deliver_to_them(&datagram);
            }
        }
        while let Some(datagram) = self.to_them.pop_front() {
            self.deliver_to_them(&datagram);
            if !self.to_us.is_empty() {
                return self.run();
            }
        }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
        let progress = self.ours.handle_timeout(self.now);
        assert!(progress.is_none(), "{progress:?}");
        self.theirs.handle_timeout(self.now).expect("time passes");
        self.collect();
    }

    fn seal(&mut self, payload: &[u8]) -> Vec<u8> {
        let sealer = self.ours.sealer().expect("connected");
        let offset = sealer.payload_offset();
        let mut record = vec![0; payload.len() + sealer.overhead()];
        record[offset..offset + payload.len()].copy_from_slice(payload);
        sealer
            .seal(ContentType::ApplicationData, &mut record, payload.len())
            .expect("sealed");
        record
    }
}

fn every_case() -> impl Iterator<Item = (Role, Cipher)> {
    ROLES
        .into_iter()
        .flat_map(|role| Cipher::ALL.map(|cipher| (role, cipher)))
}

#[test]
fn records_cross_in_both_directions_with_every_cipher_in_both_roles() {
    for (role, cipher) in every_case() {
        let mut pair = Pair::connected(role, cipher);
        for turn in 0..200_usize {
            let payload = vec![turn as u8; turn * 7];
            let record = pair.seal(&payload);
            pair.deliver_to_them(&record);
            pair.theirs.send_application_data(&payload).expect("sent");
            pair.collect();
            pair.run();
            assert_eq!(pair.packets.last(), Some(&payload), "{role:?} {cipher}");
            assert_eq!(pair.payloads.last(), Some(&payload), "{role:?} {cipher}");
        }
        assert_eq!((pair.packets.len(), pair.payloads.len()), (200, 200));
        let counts = pair.ours.record_counts().expect("data");
        assert_eq!((counts.opened, counts.forged), (200, 0));
    }
}

/// `dimpl` packs what it sends at once into one datagram.
#[test]
fn several_records_in_a_datagram_are_opened_one_by_one() {
    let mut pair = Pair::connected(Role::Server, Cipher::Aes128Gcm);
    for payload in [&b"one"[..], b"two", b"three"] {
        pair.theirs.send_application_data(payload).expect("sent");
    }
    pair.collect();
    assert_eq!(pair.to_us.len(), 1);
    pair.run();
    assert_eq!(pair.packets, [&b"one"[..], b"two", b"three"]);
    let joined = [pair.seal(b"four"), pair.seal(b"five")].concat();
    pair.deliver_to_them(&joined);
    assert_eq!(pair.payloads, [&b"four"[..], b"five"]);
}

/// The client's order decides, among the ciphers that the server accepts.
#[test]
fn the_preferred_cipher_comes_first_and_the_forced_one_alone() {
    for cipher in Cipher::ALL {
        let mut pair = Pair::new(Role::Client, CipherChoice::Prefer(cipher), &Cipher::ALL);
        pair.run();
        assert_eq!(pair.ours.sealer().expect("keys").cipher(), cipher);

        let other = Cipher::ALL[(cipher.index() + 1) % 3];
        let mut pair = Pair::new(Role::Client, CipherChoice::Prefer(cipher), &[other]);
        pair.run();
        assert_eq!(pair.ours.sealer().expect("keys").cipher(), other);

        let mut pair = Pair::new(Role::Server, CipherChoice::Only(cipher), &[cipher]);
        pair.run();
        assert_eq!(pair.ours.sealer().expect("keys").cipher(), cipher);
    }
}

/// Our Finished is lost, and data arrives before its repetition. The repetition, whose number
/// is below that of the data, is still accepted.
#[test]
fn a_lost_last_flight_is_repeated_beside_data() {
    for cipher in Cipher::ALL {
        let mut pair = Pair::new(Role::Server, CipherChoice::Only(cipher), &Cipher::ALL);
        while !pair.connected[0] {
            match pair.to_us.pop_front() {
                Some(datagram) => pair.deliver_to_us(datagram),
                None => {
                    let datagram = pair.to_them.pop_front().expect("a flight");
                    pair.deliver_to_them(&datagram);
                }
            }
        }
        assert_eq!(pair.connected, [true, false]);
        assert!(!pair.to_them.is_empty());
        pair.to_them.clear();
        for _ in 0..5 {
            let record = pair.seal(b"early");
            pair.deliver_to_them(&record);
        }
        pair.pass(Duration::from_millis(150));
        assert!(!pair.to_us.is_empty(), "they repeat their flight");
        pair.run();
        assert_eq!(pair.connected, [true, true], "{cipher}");
        let record = pair.seal(b"after");
        pair.deliver_to_them(&record);
        assert_eq!(pair.payloads.last().expect("opened"), b"after");
        pair.theirs.send_application_data(b"back").expect("sent");
        pair.collect();
        pair.run();
        assert_eq!(pair.packets, [b"back"]);
    }
}

/// The peer's Finished is late, and the data behind it arrives first.
#[test]
fn data_that_overtakes_the_last_flight_is_kept() {
    for cipher in Cipher::ALL {
        let mut pair = Pair::new(Role::Client, CipherChoice::Only(cipher), &Cipher::ALL);
        let mut finished = Vec::new();
        while !pair.connected[1] || !pair.to_them.is_empty() || !pair.to_us.is_empty() {
            if let Some(datagram) = pair.to_them.pop_front() {
                pair.deliver_to_them(&datagram);
            } else if pair.connected[1] {
                finished.extend(pair.to_us.pop_front());
            } else if let Some(datagram) = pair.to_us.pop_front() {
                pair.deliver_to_us(datagram);
            }
        }
        assert_eq!(pair.connected, [false, true]);
        for number in 0..20_u8 {
            pair.theirs
                .send_application_data(&[number; 1000])
                .expect("sent");
            pair.collect();
        }
        pair.run();
        assert!(pair.packets.is_empty());
        for datagram in finished {
            pair.deliver_to_us(datagram);
        }
        assert_eq!(pair.connected, [true, true]);
        let expected: Vec<_> = (0..8).map(|number: u8| vec![number; 1000]).collect();
        assert_eq!(pair.packets, expected);
        let counts = pair.ours.record_counts().expect("data");
        assert_eq!((counts.opened, counts.early_dropped), (8, 12));
    }
}

#[test]
fn repeated_and_foreign_records_are_counted_and_dropped() {
    let mut pair = Pair::connected(Role::Server, Cipher::Aes128Gcm);
    pair.theirs.send_application_data(b"once").expect("sent");
    pair.collect();
    let datagram = pair.to_us.pop_front().expect("a record");
    pair.deliver_to_us(datagram.clone());
    pair.deliver_to_us(datagram.clone());
    let mut forged = datagram.clone();
    forged[10] += 1;
    pair.deliver_to_us(forged);
    pair.deliver_to_us(datagram[..datagram.len() - 1].to_vec());
    let refused = [OpenError::Replayed, OpenError::Forged, OpenError::Malformed];
    assert_eq!(pair.refused, refused);
    assert_eq!(pair.packets, [b"once"]);
    let counts = pair.ours.record_counts().expect("data");
    assert_eq!((counts.opened, counts.replayed), (1, 1));
    assert_eq!((counts.forged, counts.malformed), (1, 1));
}

#[test]
fn a_record_that_comes_after_thousands_of_later_ones_is_stale() {
    let mut pair = Pair::connected(Role::Server, Cipher::Aes128Gcm);
    let record = |pair: &mut Pair| {
        pair.theirs.send_application_data(b"data").expect("sent");
        pair.collect();
        pair.to_us.pop_front().expect("a record")
    };
    let late = record(&mut pair);
    for _ in 0..2_100 {
        let datagram = record(&mut pair);
        pair.deliver_to_us(datagram);
    }
    pair.deliver_to_us(late);
    assert_eq!(pair.refused, [OpenError::Stale]);
    let counts = pair.ours.record_counts().expect("data");
    assert_eq!((counts.opened, counts.stale), (2_100, 1));
    assert_eq!(
        (counts.replayed, counts.forged, counts.malformed),
        (0, 0, 0)
    );
}

/// Both ends send close_notify, whoever closes first (RFC 5246 §7.2.1).
#[test]
fn goodbyes_are_said_and_answered() {
    for (role, cipher) in every_case() {
        let mut pair = Pair::connected(role, cipher);
        let record = pair.seal(b"data");
        pair.deliver_to_them(&record);
        let late = pair.seal(b"on its way");
        pair.ours.close(pair.now);
        assert!(pair.ours.sealer().is_none(), "nothing follows the goodbye");
        pair.collect();
        pair.run();
        assert_eq!(pair.closed, [true, true], "{role:?} {cipher}");
        pair.deliver_to_them(&late);
        assert_eq!(pair.payloads, [b"data"]);

        let mut pair = Pair::connected(role, cipher);
        pair.theirs.close().expect("closed");
        pair.collect();
        pair.run();
        assert!(pair.closed[0], "{role:?} {cipher}");
        assert!(pair.ours.sealer().is_none());
    }
}

/// A plaintext hello after data is from a stranger: it must neither make us repeat Finished nor
/// end the association.
#[test]
fn handshake_records_after_data_are_left_alone() {
    let mut pair = Pair::new(
        Role::Server,
        CipherChoice::Only(Cipher::Aes128Gcm),
        &Cipher::ALL,
    );
    let hello = pair.to_us.front().expect("a hello").clone();
    pair.run();
    pair.theirs.send_application_data(b"data").expect("sent");
    pair.collect();
    pair.run();
    for _ in 0..100 {
        pair.deliver_to_us(hello.clone());
        pair.pass(Duration::from_millis(500));
        assert!(pair.to_them.is_empty());
    }
    let record = pair.seal(b"still here");
    pair.deliver_to_them(&record);
    assert_eq!(pair.payloads, [b"still here"]);
}

/// Records of the handshake stay below our sequence numbers, however often the handshake
/// repeats.
#[test]
fn finished_is_not_repeated_into_our_numbers() {
    let mut pair = Pair::new(
        Role::Server,
        CipherChoice::Only(Cipher::ChaCha20Poly1305),
        &Cipher::ALL,
    );
    let hello = pair.to_us.front().expect("a hello").clone();
    pair.run();
    let mut numbers = Vec::new();
    for _ in 0..200 {
        pair.deliver_to_us(hello.clone());
        pair.now += Duration::from_secs(5);
        let progress = pair.ours.handle_timeout(pair.now);
        assert!(progress.is_none_or(|it| matches!(it, Progress::Failed(_))));
        pair.collect();
        for mut datagram in pair.to_them.drain(..) {
            let mut rest = &mut datagram[..];
            while let Some((record, after)) = record::split(rest) {
                if record[3..5] == [0, 1] {
                    numbers.push(u64::from(record[10]));
                }
                rest = after;
            }
        }
    }
    assert!(!numbers.is_empty(), "it does repeat");
    assert!(
        numbers
            .iter()
            .all(|&number| number < record::FIRST_SEQUENCE)
    );
    assert!(pair.ours.sealer().is_some(), "data goes on");
}

impl Pair {
    /// Puts every record on its way to us into a datagram of its own.
    fn split_to_us(&mut self) {
        let mut records = VecDeque::new();
        for mut datagram in self.to_us.drain(..) {
            let mut rest = &mut datagram[..];
            while let Some((record, after)) = record::split(rest) {
                records.push_back(record.to_vec());
                rest = after;
            }
        }
        self.to_us = records;
    }
}

#[test]
fn what_has_arrived_is_read_before_a_flight_is_repeated() {
    for role in ROLES {
        let mut pair = Pair::new(role, CipherChoice::Prefer(Cipher::Aes128Gcm), &Cipher::ALL);
        let mut flights = 0;
        while !pair.connected[0] {
            while let Some(datagram) = pair.to_them.pop_front() {
                pair.deliver_to_them(&datagram);
            }
            pair.split_to_us();
            // This end stood still, while all that it waits for has arrived.
            pair.now += Duration::from_millis(900);
            while let Some(datagram) = pair.to_us.pop_front() {
                assert!(pair.to_them.is_empty(), "{role:?} answers half a flight");
                pair.deliver_to_us(datagram);
            }
            flights += 1;
            assert!(flights < 4, "{role:?} does not connect");
        }
    }
}

#[test]
fn a_flight_that_is_lost_is_repeated_and_a_clients_last_one_only_after_a_second() {
    let choice = CipherChoice::Prefer(Cipher::Aes128Gcm);
    let mut pair = Pair::new(Role::Client, choice, &Cipher::ALL);
    pair.to_them.clear();
    pair.pass(Duration::from_millis(150));
    assert_eq!(pair.to_them.len(), 1, "the first flight, after some 100 ms");
    // The answer brings the last flight, which is lost.
    while pair.ours.trace().latest_sent != Some(Flight::ClientKeyExchange) {
        for datagram in std::mem::take(&mut pair.to_them) {
            pair.deliver_to_them(&datagram);
        }
        let datagram = pair.to_us.pop_front().expect("an answer");
        pair.deliver_to_us(datagram);
    }
    pair.to_them.clear();
    for _ in 0..9 {
        pair.pass(Duration::from_millis(100));
        assert!(pair.to_them.is_empty());
    }
    pair.pass(Duration::from_millis(101));
    assert!(!pair.to_them.is_empty());
    pair.run();
    assert_eq!(pair.connected, [true; 2]);
}
