use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr, UdpSocket};
use std::time::{Duration, UNIX_EPOCH};

use glassline_congestion::Algorithm;
use glassline_trust::Trust;
use proptest::prelude::*;

use super::*;
use crate::endpoint::{Limits, Listener};
use crate::{ClientEndpoint, CongestionControl, Identity};

/// Rates without time: so many packets of an address pass, and no more.
#[derive(Debug)]
struct CountedRates {
    unproven: u32,
    proven: u32,
    /// Retry packets that are left, and one.
    retries: u32,
    taken: HashMap<(IpAddr, bool), u32>,
}

impl CountedRates {
    fn new(unproven: u32, proven: u32) -> Self {
        Self {
            unproven,
            proven,
            retries: u32::MAX,
            taken: HashMap::new(),
        }
    }

    fn take(&mut self, peer: IpAddr, is_proven: bool) -> bool {
        let allowed = match is_proven {
            true => self.proven,
            false => self.unproven,
        };
        let taken = self.taken.entry((peer, is_proven)).or_default();
        *taken += 1;
        *taken <= allowed
    }
}

impl NewcomerRates for CountedRates {
    fn take_unproven(&mut self, peer: IpAddr, _: Instant) -> bool {
        self.take(peer, false)
    }

    fn take_proven(&mut self, peer: IpAddr, _: Instant) -> bool {
        self.take(peer, true)
    }

    fn take_retry(&mut self, _: IpAddr, _: Instant) -> bool {
        self.retries = self.retries.saturating_sub(1);
        self.retries > 0
    }
}

fn validator(unproven: u32, proven: u32) -> AddressValidator {
    AddressValidator {
        rates: Box::new(CountedRates::new(unproven, proven)),
        key: Arc::new(TokenKey::new(&[4; 16]).expect("a key")),
    }
}

fn client(last: u8) -> SocketAddr {
    (Ipv4Addr::new(192, 0, 2, last), 4000).into()
}

fn system() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

#[expect(clippy::disallowed_methods, reason = "nothing depends on the instant")]
fn now() -> Now {
    Now {
        instant: Instant::now(),
        system: system(),
    }
}

fn unread() -> Now {
    panic!("the clock is read for newcomers alone")
}

/// An Initial packet of `version` with `token`, padded.
fn initial(version: u32, token: &[u8]) -> Vec<u8> {
    let mut packet = vec![0xc3];
    packet.extend(version.to_be_bytes());
    packet.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0x40, token.len() as u8]);
    packet.extend(token);
    packet.resize(1200, 0);
    packet
}

#[test]
fn a_newcomer_above_the_rate_is_asked_for_a_proof_and_passes_with_it() {
    let mut validator = validator(2, 1);
    let first = initial(1, &[]);
    assert_eq!(validator.judge(&first, client(1), now), Verdict::Pass);
    assert_eq!(validator.judge(&first, client(1), now), Verdict::Pass);
    let Verdict::Retry(header) = validator.judge(&first, client(1), now) else {
        panic!("the third is asked");
    };
    let token = validator
        .key
        .seal_retry(client(1), header.destination, system(), 1);
    let second = initial(1, &token.expect("sealed"));
    assert_eq!(validator.judge(&second, client(1), now), Verdict::Pass);
    let again = validator.judge(&second, client(1), now);
    assert_eq!(again, Verdict::Drop, "proven addresses have a rate, too");
    assert_eq!(validator.judge(&first, client(2), now), Verdict::Pass);
}

#[test]
fn above_the_rate_of_answers_there_is_none() {
    let mut rates = CountedRates::new(0, 1);
    rates.retries = 3;
    let mut validator = AddressValidator {
        rates: Box::new(rates),
        ..validator(0, 0)
    };
    let first = initial(1, &[]);
    let mut is_answered = || match validator.judge(&first, client(1), now) {
        Verdict::Retry(_) => true,
        verdict => {
            assert_eq!(verdict, Verdict::Drop);
            false
        }
    };
    assert_eq!([(); 4].map(|()| is_answered()), [true, true, false, false]);
}

#[test]
fn a_token_of_another_proves_nothing() {
    let mut validator = validator(0, 100);
    let token = validator.key.seal_retry(client(1), &[1; 8], system(), 1);
    let stolen = initial(1, &token.expect("sealed"));
    let verdict = validator.judge(&stolen, client(2), now);
    assert!(matches!(verdict, Verdict::Retry(_)), "{verdict:?}");
    let made_up = initial(1, &[7; 70]);
    let verdict = validator.judge(&made_up, client(1), now);
    assert!(matches!(verdict, Verdict::Retry(_)), "{verdict:?}");
}

#[test]
fn packets_of_connections_pass_and_are_not_counted() {
    let mut validator = validator(0, 0);
    for first in [0x40, 0x7f, 0xe0, 0xd0] {
        let mut packet = initial(1, &[]);
        packet[0] = first;
        assert_eq!(validator.judge(&packet, client(1), unread), Verdict::Pass);
    }
    assert_eq!(validator.judge(&[], client(1), unread), Verdict::Pass);
}

#[test]
fn versions_without_a_retry_packet_are_dropped_above_the_rate() {
    let mut validator = validator(2, 0);
    let (draft, unknown) = (initial(0xff00_001d, &[]), initial(0x6b33_43cf, &[]));
    assert_eq!(validator.judge(&draft, client(1), now), Verdict::Pass);
    assert_eq!(validator.judge(&unknown, client(1), now), Verdict::Pass);
    assert_eq!(validator.judge(&draft, client(1), now), Verdict::Drop);
    assert_eq!(validator.judge(&unknown, client(1), now), Verdict::Drop);
    let short = validator.judge(&unknown[..1199], client(2), now);
    assert_eq!(short, Verdict::Drop, "no answer to a short datagram");
}

proptest! {
    #[test]
    fn no_newcomer_passes_without_a_proof(
        beginning in prop::sample::select(vec![
            initial(1, &[]), initial(1, &[7; 60]), initial(0xff00_001e, &[]), initial(2, &[]),
        ]),
        changes in prop::collection::vec((0usize..40, any::<u8>()), 0..6),
    ) {
        let mut datagram = beginning;
        for (at, byte) in changes {
            datagram[at] = byte;
        }
        first_packet(&datagram, now().instant);
    }
}

fn congestion() -> CongestionControl {
    CongestionControl::new(Algorithm::Cubic)
}

/// A listener on `address` that lets `unproven` packets of an address pass; it accepts whoever comes.
fn listen(address: IpAddr, unproven: u32) -> (SocketAddr, Arc<AddressValidationCounters>) {
    let identity = Identity::self_signed(vec!["localhost".to_owned()], system());
    let identity = identity.expect("a certificate");
    let rates = Box::new(CountedRates::new(unproven, 1000));
    let protocols = vec![b"test".to_vec()];
    let listener = Listener::bind((address, 0).into(), &identity, protocols, Some(rates));
    let listener = listener.expect("a free port");
    let address = listener.local_addr().expect("bound");
    let counters = Arc::clone(listener.validation());
    tokio::spawn(async move {
        let mut connections = Vec::new();
        while let Some(arrived) = listener.next(congestion, |_| false).await {
            let connecting = arrived.connecting.expect("a good first datagram");
            connections.extend(connecting.await.ok());
        }
    });
    (address, counters)
}

async fn connect(server: SocketAddr) -> noq::Connection {
    let endpoint = ClientEndpoint::new().expect("a socket");
    let protocols = vec![b"test".to_vec()];
    let (trust, limits) = (Trust::Anyone, Limits::Client);
    let dialled = endpoint.dial(server, "localhost", &trust, protocols, congestion(), limits);
    dialled.await.expect("it accepts")
}

#[tokio::test]
async fn a_client_that_is_asked_for_a_proof_connects() {
    for address in [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()] {
        let (server, counters) = listen(address, 0);
        let _connection = connect(server).await;
        assert!(counters.retried() >= 1, "noq has read our token");
        assert_eq!(counters.dropped(), 0);
    }
}

#[tokio::test]
async fn a_client_that_is_not_asked_connects_without() {
    let (server, counters) = listen(Ipv4Addr::LOCALHOST.into(), 1000);
    let _connection = connect(server).await;
    assert_eq!((counters.retried(), counters.dropped()), (0, 0));
}

#[tokio::test]
async fn a_flood_is_answered_in_batches_and_others_connect() {
    let (server, counters) = listen(Ipv4Addr::LOCALHOST.into(), 20);
    let flooder = UdpSocket::bind((Ipv4Addr::new(127, 0, 0, 2), 0)).expect("an address");
    let patience = Some(Duration::from_secs(10));
    flooder.set_read_timeout(patience).expect("a timeout");
    for _ in 0..5 {
        for _ in 0..40 {
            let sent = flooder.send_to(&initial(1, &[]), server);
            sent.expect("loopback takes it");
        }
        let _connection = connect(server).await;
    }
    let mut packet = [0; 1500];
    let (length, from) = flooder.recv_from(&mut packet).expect("a Retry packet");
    assert_eq!((from, &packet[1..5]), (server, &[0, 0, 0, 1][..]));
    assert!((60..200).contains(&length), "{length} bytes");
    assert!((1..=180).contains(&counters.retried()));
}
