//! Attempts to take a session over, to end it, or to aim its media at somebody else, by datagrams
//! with forged sources. Each was possible against some server.

use glassline_sim::Loss;
use is::stun::{StunMessage, TransId};

use super::*;

/// A pair, and somebody whose address is forged as the source of datagrams to the server.
pub(super) struct Scene {
    pub(super) pair: Pair,
    victim: Victim,
    /// Audio packets that the server sent.
    sent: u32,
}

/// A host that answers nothing.
struct Victim {
    address: SocketAddr,
    got: Vec<Vec<u8>>,
}

impl Node for Victim {
    fn is_at(&self, address: SocketAddr) -> bool {
        // Whatever its port is.
        address.ip() == self.address.ip()
    }

    fn handle(&mut self, _: Instant, datagram: Datagram) {
        self.got.push(datagram.bytes);
    }

    fn poll_transmit(&mut self, _: Instant) -> Option<Datagram> {
        None
    }

    fn poll_timeout(&mut self) -> Option<Instant> {
        None
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn state(&self) -> String {
        format!("{} datagrams", self.got.len())
    }
}

impl Simulation for Scene {
    fn with_nodes<R>(&mut self, run: impl FnOnce(&mut Network, &mut [&mut dyn Node]) -> R) -> R {
        let Pair {
            network,
            server,
            client,
        } = &mut self.pair;
        run(network, &mut [server, client, &mut self.victim])
    }
}

impl Scene {
    fn new(setup: Setup) -> Self {
        let mut pair = Pair::new(setup);
        let path = pair
            .network
            .add_path(Conditions::default(), Conditions::default());
        pair.network.join(path, 0, 2);
        Self {
            pair,
            victim: Victim {
                address: "203.0.113.9:7777".parse().expect("an address"),
                got: Vec::new(),
            },
            sent: 0,
        }
    }

    pub(super) fn connected(setup: Setup) -> Self {
        let mut scene = Self::new(setup);
        scene.run_for(ms(1000));
        assert!(scene.pair.server.is_connected() && scene.pair.client.is_connected());
        scene
    }

    /// Sends 50 packets of audio a second for `time`.
    pub(super) fn stream(&mut self, time: Duration) {
        let until = self.pair.now() + time;
        while self.pair.now() < until {
            if self.pair.server.is_connected() {
                self.pair
                    .send(1, self.sent * 960, false, &[self.sent as u8; 160]);
                self.sent += 1;
            }
            self.run_for(ms(20));
        }
    }

    /// A check of the client, as an attacker who has the session's credentials makes it.
    pub(super) fn check(&self, pwd: Option<&str>, nominate: bool) -> Vec<u8> {
        let server = self.pair.server.local_credentials();
        let client = self.pair.client.local_credentials();
        let username = format!("{}:{}", server.ufrag, client.ufrag);
        let request = StunMessage::binding_request(
            &username,
            TransId::new(),
            true,
            u64::MAX,
            0x6e00_01ff,
            nominate,
        );
        let mut out = vec![0; 512];
        let hmac = |key: &[u8], payloads: &[&[u8]]| {
            use aws_lc_rs::hmac;
            let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, key);
            let tag = hmac::sign(&key, &payloads.concat());
            tag.as_ref().try_into().expect("20 bytes")
        };
        let pwd = pwd.unwrap_or(&server.pwd).as_bytes();
        let bytes = request.to_bytes(Some(pwd), &mut out, hmac).expect("room");
        out.truncate(bytes);
        out
    }

    /// Passes a datagram to the server as if it came from `from`. Returns why it was dropped.
    pub(super) fn forge(&mut self, from: SocketAddr, bytes: Vec<u8>) -> Option<Dropped> {
        let (now, to) = (self.pair.now(), self.pair.server.address);
        let before = self.pair.server.dropped.len();
        self.pair.server.handle(now, Datagram { from, to, bytes });
        let dropped = &self.pair.server.dropped;
        (dropped.len() > before).then(|| dropped[before])
    }

    /// The session goes on: the client got everything that the server sent.
    pub(super) fn nothing_was_lost(&mut self) {
        self.stream(ms(200));
        self.run_for(ms(700));
        let (server, client) = (&self.pair.server, &self.pair.client);
        assert!(server.is_connected() && client.is_connected());
        assert_eq!(server.peer(), Some(client.address.into()));
        let received = client.received.len() + client.counted as usize;
        assert_eq!(received, self.sent as usize);
    }

    /// The victim got nothing but STUN.
    fn victim_got_no_media(&self) {
        let mut others = self.victim.got.iter().filter(|it| kind(it) != "stun");
        assert_eq!(others.next(), None, "the victim was sent to");
    }
}

/// User names travel in the clear. Whoever saw one knows no password.
#[test]
fn a_sniffed_user_name_without_integrity_moves_nothing() {
    let mut scene = Scene::connected(Setup::default());
    for nominate in [true, false] {
        for pwd in ["", "not the password of this session"] {
            let forged = scene.check(Some(pwd), nominate);
            let dropped = scene.forge(scene.victim.address, forged);
            assert_eq!(dropped, Some(Dropped::ForeignStun), "{pwd:?}");
            scene.stream(ms(1000));
        }
        // MESSAGE-INTEGRITY may be absent altogether.
        let mut bare = scene.check(None, nominate);
        bare.truncate(bare.len() - 32);
        let attributes = u16::try_from(bare.len() - 20).expect("short");
        bare[2..4].copy_from_slice(&attributes.to_be_bytes());
        assert!(scene.forge(scene.victim.address, bare).is_some());
    }
    scene.nothing_was_lost();
    assert_eq!(scene.victim.got, [[]; 0]);
}

/// The test for a session whose handshake is under way.
#[test]
fn dtls_from_an_address_that_ice_did_not_validate_is_not_heard() {
    let mut scene = Scene::new(Setup::default());
    let hello = [
        &[22, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 60, 1][..],
        &[0; 59],
    ]
    .concat();
    let fatal_alert = [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 40];
    let close_notify = [21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0];
    for _ in 0..150 {
        for bytes in [&hello[..], &fatal_alert, &close_notify] {
            let dropped = scene.forge(scene.victim.address, bytes.to_vec());
            assert_eq!(dropped, Some(Dropped::UnknownAddress));
        }
        scene.run_for(ms(10));
    }
    scene.pair.server.dropped.clear();
    scene.nothing_was_lost();
    assert_eq!(scene.victim.got, [[]; 0]);
}

/// Media of the client that comes from elsewhere, be it copied or made up, changes no address:
/// neither before its authenticity is known nor after.
#[test]
fn media_from_another_source_rebinds_nothing() {
    let mut scene = Scene::connected(Setup {
        client_tracks: vec![Track::audio(Codec::Opus, 2)],
        server_receive: Kinds::ALL,
        ..Setup::default()
    });
    let victim = scene.victim.address;
    let (now, mut out) = (scene.pair.now(), vec![0; 1500]);
    let mut authentic = || {
        let sealed = scene
            .pair
            .client
            .seal(SenderIndex(0), 960, false, b"payload", now, &mut out);
        out[..sealed.expect("connected").len].to_vec()
    };
    let (first, second) = (authentic(), authentic());
    let forged = [&[0x80, 111, 0, 1], &[0; 60][..]].concat();
    for bytes in [&first, &forged] {
        let dropped = scene.forge(victim, bytes.clone());
        assert_eq!(dropped, Some(Dropped::UnknownAddress));
    }
    // An address that ICE knows but that was not nominated.
    let check = scene.check(None, false);
    assert_eq!(scene.forge(victim, check), None);
    assert!(scene.forge(victim, forged).is_some());
    assert_eq!(
        scene.forge(victim, second),
        None,
        "authentic media is taken"
    );
    scene.stream(ms(2000));
    scene.nothing_was_lost();
    scene.victim_got_no_media();
}

/// Damaged and made-up datagrams of every kind from the peer's own address end no session.
#[test]
fn failed_integrity_ends_nothing() {
    let mut scene = Scene::connected(Setup::default());
    let from = scene.pair.client.address;
    for round in 0..300_u32 {
        let mut stun = scene.check(Some("not the password"), true);
        // A response of the same transaction, and one that says that roles conflict (487).
        let mut success = stun.clone();
        success[..2].copy_from_slice(&[1, 1]);
        let mut failure = stun.clone();
        failure[..2].copy_from_slice(&[1, 17]);
        stun[30] ^= 1;
        let noise = round.to_be_bytes().repeat(12);
        let dtls = |kind: u8, epoch: u8| {
            let header = [kind, 254, 253, 0, epoch, 0, 0, 0, 0, 0, 0, 0, 48];
            [&header[..], &noise].concat()
        };
        let fatal_alert = vec![21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 2, 40];
        let close_notify = vec![21, 254, 253, 0, 0, 0, 0, 0, 0, 0, 8, 0, 2, 1, 0];
        let rtp = [&[0x80, 96], &noise[..]].concat();
        let rtcp = [&[0x80, 203], &noise[..]].concat();
        let all = [stun, success, failure, fatal_alert, close_notify, rtp, rtcp];
        let encrypted = [20, 21, 22, 23].map(|kind| dtls(kind, 1));
        for bytes in all.into_iter().chain(encrypted) {
            scene.forge(from, bytes);
        }
        scene.stream(ms(20));
    }
    scene.pair.server.dropped.clear();
    scene.nothing_was_lost();
}

/// The attacker is a peer itself: its checks are authentic, and it names the victim as source.
#[test]
fn a_forged_nomination_aims_no_media_at_a_victim() {
    let mut scene = Scene::connected(Setup::default());
    let mut forged = 0;
    for second in 0..90_u16 {
        let check = scene.check(None, true);
        assert_eq!(scene.forge(scene.victim.address, check), None);
        // Another port of the victim each time.
        let check = scene.check(None, true);
        let mut elsewhere = scene.victim.address;
        elsewhere.set_port(10_000 + second);
        scene.forge(elsewhere, check);
        forged += 2;
        scene.stream(ms(1000));
    }
    scene.nothing_was_lost();
    scene.victim_got_no_media();
    let is_request = |it: &&Vec<u8>| it[..2] == [0, 1];
    let checks = scene.victim.got.iter().filter(is_request).count();
    let responses = scene.victim.got.len() - checks;
    assert!(
        responses <= forged,
        "{responses} responses to {forged} requests"
    );
    assert!(checks <= 100 * 6, "{checks} checks to 91 addresses in 90 s");
    let bytes: usize = scene.victim.got.iter().map(Vec::len).sum();
    assert!(bytes < 120_000, "{bytes} bytes");
}

/// A flood of authentic checks with ever new sources is answered, but checked at a bounded rate.
#[test]
fn forged_sources_are_checked_at_a_bounded_rate() {
    let mut scene = Scene::connected(Setup::default());
    for port in 1..5000 {
        let check = scene.check(None, true);
        let mut source = scene.victim.address;
        source.set_port(port);
        scene.forge(source, check);
        if port % 10 == 0 {
            scene.run_for(ms(10));
        }
    }
    let checks = scene.victim.got.iter().filter(|it| it[..2] == [0, 1]);
    let checks = checks.count();
    assert!(checks <= (16 + 5 * 4 + 1) * 6, "{checks} checks in 5 s");
    scene.nothing_was_lost();
    scene.victim_got_no_media();
}

/// Runs for `time`. The server's checks are lost, if `is_deaf`.
fn run_without_checks(scene: &mut Scene, is_deaf: bool, time: Duration) {
    let here = scene.pair.client.address;
    let until = scene.pair.now() + time;
    while scene.pair.now() < until {
        scene.run_for(ms(1));
        let soon = scene.pair.now() + ms(1);
        while let Some(datagram) = scene.pair.network.intercept(soon) {
            let is_check = datagram.bytes[..2] == [0, 1] && datagram.to == here;
            if !(is_deaf && is_check) {
                let end = if datagram.to == here { End::B } else { End::A };
                scene.pair.deliver(end, datagram.bytes);
            }
        }
    }
}

/// Peers that answer no check, or none after the handshake, keep what the handshake proved, and
/// get no more.
#[test]
fn a_peer_that_answers_no_check_stays_where_its_handshake_was() {
    // On the long path the server's flight is repeated, to the same address.
    for (is_deaf_at_first, delay) in [(true, ms(25)), (false, ms(25)), (true, ms(600))] {
        let mut scene = Scene::new(Setup {
            conditions: Conditions::delayed(delay),
            ..Setup::default()
        });
        let here = scene.pair.client.address;
        run_without_checks(&mut scene, is_deaf_at_first, delay * 40);
        assert!(scene.pair.server.is_connected() && scene.pair.client.is_connected());
        for _ in 0..30 {
            let check = scene.check(None, true);
            assert_eq!(scene.forge(scene.victim.address, check), None);
            scene.pair.send(1, 0, false, b"payload");
            run_without_checks(&mut scene, true, ms(2_000));
        }
        assert!(scene.pair.server.is_connected(), "its own checks go on");
        assert_eq!(scene.pair.server.peer(), Some(here.into()));
        scene.victim_got_no_media();
    }
}

/// A peer may name another address while its handshake is under way. Media waits for the proof
/// where it is known to receive.
#[test]
fn a_nomination_during_the_handshake_is_not_believed_after_it() {
    // So long a path that the nomination before is not held any more.
    let mut scene = Scene::new(Setup {
        conditions: Conditions::delayed(ms(600)),
        ..Setup::default()
    });
    let mut was_followed = false;
    while !scene.pair.server.is_connected() && scene.pair.network.elapsed() < ms(9_000) {
        if !was_followed {
            let check = scene.check(None, true);
            scene.forge(scene.victim.address, check);
            was_followed = scene.pair.server.peer() == Some(scene.victim.address.into());
        }
        scene.run_for(ms(10));
    }
    assert!(was_followed, "during the handshake it is followed at once");
    assert!(scene.pair.server.is_connected());
    scene.victim.got.clear();
    scene.stream(ms(3000));
    scene.run_for(ms(1000));
    scene.nothing_was_lost();
    scene.victim_got_no_media();
}

/// The way of a viewer behind a NAT that assigns another port, or that leaves its Wi-Fi.
#[test]
fn a_new_address_is_followed_after_one_round_trip() {
    let mut scene = Scene::connected(Setup::default());
    scene.stream(ms(2000));
    let moved: SocketAddr = "198.51.100.7:5000".parse().expect("an address");
    scene.pair.client.address = moved;
    let check = scene.check(None, true);
    scene.forge(moved, check);
    assert_ne!(scene.pair.server.peer(), Some(moved.into()));
    scene.run_for(ms(51));
    assert_eq!(scene.pair.server.peer(), Some(moved.into()));
    // Back again: the former address was proven a moment ago.
    let back: SocketAddr = "192.0.2.2:40000".parse().expect("an address");
    scene.pair.client.address = back;
    scene.run_for(ms(900));
    let check = scene.check(None, true);
    scene.forge(back, check);
    assert_eq!(scene.pair.server.peer(), Some(back.into()));
}

/// A check that comes before the nomination proves the address in time.
#[test]
fn an_address_that_was_checked_before_is_followed_at_once() {
    let mut scene = Scene::connected(Setup::default());
    scene.run_for(ms(2000));
    let second: SocketAddr = "198.51.100.7:5000".parse().expect("an address");
    let check = scene.check(None, false);
    // The check goes from the new address. The client hears there for a moment.
    let here = std::mem::replace(&mut scene.pair.client.address, second);
    scene.forge(second, check);
    scene.run_for(ms(51));
    scene.pair.client.address = here;
    assert_eq!(scene.pair.server.peer(), Some(here.into()));
    let check = scene.check(None, true);
    scene.forge(second, check);
    assert_eq!(scene.pair.server.peer(), Some(second.into()));
}

/// Somebody who left goes on sending authentic checks with its former address as the source.
#[test]
fn consent_that_is_not_renewed_ends_the_session() {
    let mut scene = Scene::connected(Setup::default());
    scene.run_for(ms(10_000));
    let former = scene.pair.client.address;
    scene.pair.client.address = "198.51.100.7:5000".parse().expect("an address");
    let dead = Conditions::default().with_loss(Loss::Random(1.0));
    scene.pair.network.set_conditions(&dead);
    let began = scene.pair.now();
    while scene.pair.server.is_connected() && scene.pair.now() - began < ms(60_000) {
        let check = scene.check(None, true);
        scene.forge(former, check);
        scene.run_for(ms(1000));
    }
    let took = scene.pair.now() - began;
    assert!(took > ms(20_000) && took <= ms(31_000), "{took:?}");
}

/// One lost response, or ten seconds of an outage, is no withdrawal.
#[test]
fn consent_outlasts_losses() {
    let mut scene = Scene::connected(Setup::default());
    let lossy = Conditions::delayed(ms(25)).with_loss(Loss::Random(0.4));
    scene.pair.network.set_conditions(&lossy);
    scene.run_for(ms(120_000));
    let dead = Conditions::default().with_loss(Loss::Random(1.0));
    scene.pair.network.set_conditions(&dead);
    scene.run_for(ms(8_000));
    scene
        .pair
        .network
        .set_conditions(&Conditions::delayed(ms(25)));
    scene.run_for(ms(60_000));
    assert!(scene.pair.server.is_connected() && scene.pair.client.is_connected());
}
