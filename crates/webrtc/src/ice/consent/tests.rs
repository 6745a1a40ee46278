use std::collections::HashSet;
use std::net::SocketAddr;

use is::Sha1HmacProvider;
use is::stun::StunMessage;

use super::super::integrity::HMAC_SHA1;
use super::*;

const PATH: &str = "198.51.100.7:40000";

fn address(text: &str) -> TransportAddress {
    TransportAddress::udp(text.parse().expect("an address"))
}

fn port(of: &str, port: u16) -> TransportAddress {
    SocketAddr::new(address(of).socket.ip(), port).into()
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// An ICE-lite end in virtual time, and the peer whose password it knows.
struct Scene {
    consent: Consent,
    start: Instant,
    now: Instant,
    path: Option<TransportAddress>,
    local: IceCredentials,
    remote: IceCredentials,
}

impl Scene {
    #[expect(clippy::disallowed_methods, reason = "virtual time may begin anywhere")]
    fn new() -> Self {
        let credentials = |name: &str| IceCredentials {
            ufrag: name.to_owned(),
            pwd: format!("{name}0123456789abcdef0123456"),
        };
        let now = Instant::now();
        Self {
            consent: Consent::new(&[7; 32], 1, now),
            start: now,
            now,
            path: None,
            local: credentials("server"),
            remote: credentials("peer5"),
        }
    }

    /// A session whose handshake came over [`PATH`].
    fn connected() -> Self {
        let mut scene = Self::new();
        scene.path = Some(address(PATH));
        scene.consent.prove(address(PATH), here(), scene.now);
        scene.consent.connect(scene.path, scene.now);
        scene
    }

    fn ask(&mut self, of: TransportAddress) {
        self.consent.ask(of, here(), self.path, self.now);
    }

    /// Returns the destination of the next check and the check.
    fn check(&mut self) -> Option<(TransportAddress, Vec<u8>)> {
        let mut out = Vec::new();
        let sent = self
            .consent
            .poll_transmit(&mut out, &self.local, &self.remote);
        let (from, to) = sent?;
        assert_eq!(from, here());
        Some((to, out))
    }

    /// Passes the time to the next timer; returns whether there is one.
    fn wait(&mut self) -> bool {
        let Some(at) = self.consent.poll_timeout() else {
            return false;
        };
        assert!(at >= self.now, "a timer in the past");
        self.now = at;
        self.consent.handle_timeout(self.path, self.now);
        true
    }

    /// Returns the answer of somebody who has the password `pwd` to a check.
    fn answer(check: &[u8], pwd: &str) -> Vec<u8> {
        let request = StunMessage::parse(check).expect("a check");
        let reply = StunMessage::binding_reply(request.trans_id(), here().socket);
        let mut out = vec![0; 256];
        let hmac = |key: &[u8], payloads: &[&[u8]]| HMAC_SHA1.sha1_hmac(key, payloads);
        let bytes = reply.to_bytes(Some(pwd.as_bytes()), &mut out, hmac);
        out.truncate(bytes.expect("room"));
        out
    }

    fn respond(&mut self, source: TransportAddress, check: &[u8]) -> bool {
        let pwd = self.remote.pwd.clone();
        self.take(source, &Self::answer(check, &pwd))
    }

    fn take(&mut self, source: TransportAddress, datagram: &[u8]) -> bool {
        let pwd = &self.remote.pwd;
        self.consent
            .take_response(source, datagram, pwd, self.path, self.now)
    }
}

/// Address of the server.
fn here() -> TransportAddress {
    address("192.0.2.1:8189")
}

fn transaction(check: &[u8]) -> &[u8] {
    &check[8..20]
}

#[test]
fn the_path_is_asked_every_four_to_six_seconds_with_a_new_transaction_each_time() {
    let mut scene = Scene::connected();
    let mut seen = HashSet::new();
    let mut before = scene.now;
    for _ in 0..40 {
        assert!(scene.wait());
        let (to, check) = scene.check().expect("a check");
        assert_eq!(to, address(PATH));
        assert_eq!(scene.check(), None, "one at a time");
        let pause = scene.now - before;
        assert!((ms(4000)..=ms(6000)).contains(&pause), "{pause:?}");
        before = scene.now;
        assert!(seen.insert(transaction(&check).to_vec()), "used before");
        assert!(scene.respond(address(PATH), &check));
        assert!(scene.consent.is_proven(address(PATH), scene.now));
        assert_eq!(scene.consent.deadline(scene.path), Some(scene.now + VALID));
    }
}

#[test]
fn a_silent_address_is_asked_six_times_in_five_seconds_and_then_no_more() {
    let mut scene = Scene::connected();
    let other = address("203.0.113.9:7777");
    scene.ask(other);
    let mut asked = Vec::new();
    let mut seen = HashSet::new();
    while scene.now < scene.start + ms(5000) {
        while let Some((to, check)) = scene.check() {
            if to == other {
                asked.push((scene.now - scene.start).as_millis());
                seen.insert(transaction(&check).to_vec());
            } else {
                assert!(scene.respond(to, &check));
            }
        }
        scene.wait();
    }
    assert_eq!(asked, [0, 100, 300, 700, 1500, 3000]);
    assert_eq!(seen.len(), 1, "retransmissions of one request");
    assert!(!scene.consent.is_proven(other, scene.now));
    let mut renewed = 0;
    while renewed < 20 {
        assert!(scene.wait());
        while let Some((to, check)) = scene.check() {
            assert_eq!(to, address(PATH));
            assert!(scene.respond(to, &check));
            renewed += 1;
        }
    }
}

#[test]
fn an_address_that_was_asked_rests_for_ten_seconds() {
    let mut scene = Scene::new();
    let other = address("203.0.113.9:7777");
    scene.ask(other);
    assert!(scene.check().is_some());
    for (at, is_asked) in [(1, false), (9_999, false), (10_000, true)] {
        scene.now = scene.start + ms(at);
        scene.ask(other);
        assert_eq!(scene.check().is_some(), is_asked, "after {at} ms");
    }
}

#[test]
fn only_the_owner_of_an_address_proves_it() {
    let mut scene = Scene::new();
    let other = address("203.0.113.9:7777");
    scene.ask(other);
    let (_, check) = scene.check().expect("a check");
    let pwd = scene.remote.pwd.clone();
    let answer = Scene::answer(&check, &pwd);
    assert!(!scene.take(address(PATH), &answer), "another source");
    let ours = scene.local.pwd.clone();
    assert!(
        !scene.take(other, &Scene::answer(&check, &ours)),
        "password"
    );
    let mut guessed = check.clone();
    guessed[8] ^= 1;
    // The fingerprint covers the transaction.
    let guessed = Scene::answer(&refreshed(&guessed, &scene), &pwd);
    assert!(!scene.take(other, &guessed), "transaction");
    assert!(!scene.take(other, &check), "the request itself");
    assert!(!scene.consent.is_proven(other, scene.now));
    assert!(scene.take(other, &answer));
    assert!(scene.consent.is_proven(other, scene.now));
    assert_eq!(scene.consent.latest(), Some((other, here())));
    assert!(
        !scene.wait(),
        "an address beside the path is not asked again"
    );
}

/// Returns the request `check` with the right fingerprint for its transaction.
fn refreshed(check: &[u8], scene: &Scene) -> Vec<u8> {
    let mut out = Vec::new();
    let transaction = transaction(check).try_into().expect("12 bytes");
    check::write_request(&mut out, transaction, &scene.local, &scene.remote, 1);
    out
}

#[test]
fn a_proof_counts_for_thirty_seconds() {
    let mut scene = Scene::new();
    let other = address("203.0.113.9:7777");
    scene.consent.prove(other, here(), scene.now);
    let after = |time| scene.consent.is_proven(other, scene.now + time);
    assert!(after(ms(29_999)));
    assert!(!after(ms(30_000)));
    scene.now += ms(29_999);
    scene.ask(other);
    assert_eq!(scene.check(), None, "what is proven is not asked");
    scene.now += ms(1);
    scene.ask(other);
    assert!(scene.check().is_some());
}

#[test]
fn sixteen_rounds_begin_at_once_and_four_more_each_second() {
    let mut scene = Scene::new();
    let mut port = 1000;
    let mut rounds = |scene: &mut Scene| {
        let mut begun = 0;
        for _ in 0..100 {
            port += 1;
            scene.ask(self::port(PATH, port));
            begun += usize::from(scene.check().is_some());
        }
        begun
    };
    assert_eq!(rounds(&mut scene), 16);
    scene.now += ms(249);
    assert_eq!(rounds(&mut scene), 0);
    scene.now += ms(1);
    assert_eq!(rounds(&mut scene), 1);
    scene.now += ms(1000);
    assert_eq!(rounds(&mut scene), 4);
    scene.now += ms(3_600_000);
    assert_eq!(rounds(&mut scene), 16, "no more after a silence");
}

#[test]
fn sixteen_addresses_are_remembered_and_the_path_always() {
    let mut scene = Scene::connected();
    for port in 1..=40 {
        scene.now += ms(1000);
        scene.ask(self::port("203.0.113.9:1", port));
        while let Some((to, check)) = scene.check() {
            scene.respond(to, &check);
        }
        assert!(scene.consent.addresses.len() <= ADDRESSES_MAX);
        scene.consent.handle_timeout(scene.path, scene.now);
    }
    assert_eq!(scene.consent.addresses.len(), ADDRESSES_MAX);
    assert!(scene.consent.find(address(PATH)).is_some());
    let newest: HashSet<_> = (26..=40).collect();
    let kept: HashSet<_> = scene
        .consent
        .addresses
        .iter()
        .filter(|it| it.address != address(PATH))
        .map(|it| it.address.socket.port())
        .collect();
    assert_eq!(kept, newest, "the oldest make room");
}

#[test]
fn the_end_comes_thirty_seconds_after_the_last_answer_and_not_without_any() {
    let mut scene = Scene::new();
    let path = Some(address(PATH));
    assert_eq!(scene.consent.deadline(path), None, "no handshake yet");
    scene.consent.connect(path, scene.now);
    assert_eq!(scene.consent.deadline(None), None, "no path");
    let unproven = scene.consent.deadline(path);
    assert_eq!(unproven, Some(scene.now + UNPROVEN_MAX));
    // Some publishers answer no check at all: the handshake was their proof.
    let mut scene = Scene::connected();
    assert_eq!(scene.consent.deadline(scene.path), None);
    assert!(scene.wait());
    let (_, check) = scene.check().expect("a check");
    assert!(scene.respond(address(PATH), &check));
    assert_eq!(scene.consent.deadline(scene.path), Some(scene.now + VALID));
}

#[test]
fn a_restart_keeps_the_consent_for_the_path_alone() {
    let mut scene = Scene::connected();
    assert!(scene.wait());
    let (_, check) = scene.check().expect("a check");
    assert!(scene.respond(address(PATH), &check));
    let other = address("203.0.113.9:7777");
    scene.ask(other);
    let (_, stale) = scene.check().expect("a check");
    scene.ask(address("203.0.113.9:7778"));
    scene.consent.restart(scene.path, scene.now);
    assert_eq!(scene.check(), None, "nothing under the old credentials");
    assert!(!scene.respond(other, &stale));
    assert!(!scene.respond(address(PATH), &check), "an answer twice");
    assert!(scene.consent.is_proven(address(PATH), scene.now));
    let before = scene.now;
    assert!(scene.wait());
    assert_eq!(scene.now - before, INTERVAL_MIN);
    let (to, fresh) = scene.check().expect("a check");
    assert_eq!(to, address(PATH));
    assert_ne!(transaction(&fresh), transaction(&check));
}
