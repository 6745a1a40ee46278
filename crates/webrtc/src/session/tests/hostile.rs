use std::cell::RefCell;

use glassline_rtp::rtcp;
use proptest::prelude::*;

use super::*;

thread_local! {
    /// One connected pair for all cases: none of them may end it.
    static PAIR: RefCell<Pair> = RefCell::new(Pair::connected(Setup::default()));
}

#[test]
fn strangers_reach_neither_dtls_nor_media_keys() {
    let mut pair = Pair::connected(Setup::default());
    let stranger: SocketAddr = "203.0.113.9:9".parse().expect("an address");
    let now = pair.now();
    let to = pair.server.address;
    for first in [20, 63, 128, 191] {
        let mut datagram = vec![first; 64];
        let received = pair
            .server
            .handle_datagram(now, stranger, to, &mut datagram);
        assert!(matches!(received, Err(Dropped::UnknownAddress)));
    }
    let received = pair.server.handle_datagram(now, stranger, to, &mut []);
    assert!(matches!(received, Err(Dropped::Unknown)));
}

#[test]
fn media_before_the_handshake_is_dropped() {
    let mut pair = Pair::new(Setup::default());
    pair.deliver(End::A, vec![0x80, 200, 0, 0, 0, 0, 0, 0]);
    assert_eq!(pair.server.dropped, [Dropped::UnknownAddress]);
}

#[test]
fn a_closed_session_takes_nothing() {
    let mut pair = Pair::connected(Setup::default());
    let now = pair.now();
    pair.server.close(now);
    pair.deliver(End::A, vec![0x80; 40]);
    assert_eq!(pair.server.dropped, [Dropped::Closed]);
}

/// Authentic checks from ever new ports must not make the session grow, nor stop a viewer whose
/// NAT assigns a new port now and then.
#[test]
fn addresses_of_one_peer_are_bounded_and_the_latest_counts() {
    let mut pair = Pair::connected(Setup::default());
    for port in 1..60 {
        pair.client.address.set_port(port);
        // A check every 3 s; the path of the pair follows the last port.
        pair.run_for(ms(3_100));
        assert_eq!(pair.server.peer(), Some(pair.client.address.into()));
    }
    let mut address = pair.client.address;
    let remembered = (1..60).filter(|port| {
        address.set_port(*port);
        pair.server.ice.is_validated(address.into())
    });
    assert!(remembered.count() <= 24);
    assert!(pair.server.is_connected() && pair.client.is_connected());
    pair.send(0, 1, true, b"payload");
    pair.run_for(ms(100));
    assert_eq!(pair.client.received.len(), 1);
}

/// Feedback of 1,400 bytes can name 5,000 packets. Repeated requests must not make the server
/// send much more than the stream itself.
#[test]
fn a_peer_that_asks_for_everything_again_and_again_is_held_to_an_allowance() {
    let mut pair = Pair::connected(Setup::default());
    let media = pair.server.senders()[0].ssrc;
    let ask_for_all = |pair: &mut Pair| {
        let next = pair.server.senders()[0].next_sequence().expect("connected");
        let last = sender::wire(next - 1);
        let all = (0..REPAIRS_MAX as u16 / 2).rev();
        let all: Vec<u16> = all.map(|back| last.wrapping_sub(back)).collect();
        let mut packet = pair.client.empty_report();
        for names in all.chunks(NACK_LOST_MAX) {
            rtcp::Nack::new(Ssrc(1), media, names.iter().copied()).write(&mut packet);
        }
        pair.client.send_rtcp(packet);
        pair.run_for(ms(60));
    };
    for packet in 0..REPAIRS_MAX as u32 {
        pair.send(0, packet, false, b"payload");
    }
    pair.run_for(ms(100));
    for _ in 0..20 {
        ask_for_all(&mut pair);
    }
    let counts = pair.server.senders()[0].counts();
    assert_eq!(counts.retransmitted, REPAIRS_MAX, "{counts:?}");
    assert_eq!(counts.refused, 9 * REPAIRS_MAX, "{counts:?}");
    for packet in 0..100 {
        pair.send(0, 5000 + packet, false, b"payload");
    }
    ask_for_all(&mut pair);
    let counts = pair.server.senders()[0].counts();
    assert_eq!(counts.retransmitted, REPAIRS_MAX + 100, "{counts:?}");
    assert!(pair.server.is_connected());
}

/// Forty bytes of feedback claim 65,535 packets, and a datagram has room for 28 such claims.
#[test]
fn feedback_is_handled_as_far_as_there_can_be_something_to_say() {
    let mut claim = Vec::new();
    claim.extend_from_slice(&[0x80 | 15, 205, 0, 9, 0, 0, 0, 1, 0, 0, 0, 2]);
    claim.extend_from_slice(&[0, 0, 0xff, 0xff, 0, 0, 0, 0]);
    for run in [[0x1f, 0xff]; 8].into_iter().chain([[0, 7], [0, 0]]) {
        claim.extend_from_slice(&run);
    }
    let mut pair = Pair::connected(Setup::default());
    let now = pair.now();
    let algorithm = glassline_congestion::Algorithm::Glide;
    assert!(pair.server.enable_congestion_control(algorithm, now));
    pair.server.dropped.clear();
    pair.server.events.clear();
    let datagrams = 200;
    for number in 0..datagrams {
        pair.send(0, number as u32, false, b"payload");
        let mut packet = pair.client.empty_report();
        (0..28).for_each(|_| packet.extend_from_slice(&claim));
        pair.client.send_rtcp(packet);
        pair.run_for(ms(1));
    }
    let is_feedback = |it: &&(Duration, Event)| matches!(it.1, Event::TransportFeedback { .. });
    let handled = pair.server.events.iter().filter(is_feedback).count();
    // Two of a datagram, in all a burst of 64, and one for each 4 ms after that.
    assert!((100..=130).contains(&handled), "{handled}");
    let of_claims = |it: &&Dropped| **it == Dropped::ExcessFeedback;
    // Claims cost nothing where nothing that was sent waits for feedback.
    let counted = pair.server.dropped.iter().filter(of_claims).count();
    assert!((150..=datagrams).contains(&counted), "{counted}");
    assert!(pair.server.is_connected());
}

proptest! {
    #[test]
    fn noise_never_panics_nor_ends_the_session(
        mut noise in prop::collection::vec(any::<u8>(), 1..300),
        first in prop::sample::select(vec![0u8, 1, 20, 22, 23, 63, 0x80, 0x90, 0xb0, 191, 255]),
        second in prop::sample::select(vec![0u8, 1, 96, 102, 103, 111, 200, 205, 206, 0xe6]),
        to_server: bool,
    ) {
        noise[0] = first;
        if let Some(byte) = noise.get_mut(1) {
            *byte = second;
        }
        PAIR.with_borrow_mut(|pair| {
            pair.deliver(if to_server { End::A } else { End::B }, noise);
            pair.run_for(ms(1));
            pair.server.dropped.clear();
            pair.client.dropped.clear();
            prop_assert!(pair.server.is_connected() && pair.client.is_connected());
            Ok(())
        })?;
    }

    /// Datagrams of a real handshake and stream, damaged on the way.
    #[test]
    fn damaged_datagrams_never_panic(seed: u64, at in any::<prop::sample::Index>(), flip in 1u8..) {
        let mut pair = Pair::new(Setup { seed, ..Setup::default() });
        for _ in 0..60 {
            pair.run_for(ms(10));
            if pair.server.is_connected() && pair.client.is_connected() {
                pair.send(0, 1, true, &[7; 300]);
            }
            let now = pair.now() + ms(30);
            while let Some(original) = pair.network.intercept(now) {
                let end = if pair.server.is_at(original.to) { End::A } else { End::B };
                let mut damaged = original.bytes.clone();
                let position = at.index(damaged.len());
                damaged[position] ^= flip;
                pair.deliver(end, damaged);
                pair.deliver(end, original.bytes);
            }
        }
    }
}
