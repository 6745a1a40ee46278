//! The peer drops media, and the server sends it again from the shared ring.

use std::collections::HashSet;
use std::time::Duration;

use glassline_media::Kind;

use crate::peer::Peer;
use crate::running::Running;
use crate::source::{Film, Source, VIDEO};

const LOSS: f64 = 0.05;

/// Loses for some seconds, then lets the last requests come true.
fn lose(peer: &mut Peer<'_>) {
    peer.loss = LOSS;
    peer.run_for(Duration::from_secs(6));
    peer.loss = 0.0;
    peer.run_for(Duration::from_millis(1500));
    peer.session.close(std::time::Instant::now());
    peer.drain();
}

/// Checks that every video packet from the first to the last is there once, and is what the source
/// published. Returns the numbers of packets lost at first and missing at the end.
pub(crate) fn account(peer: &Peer<'_>, source: &Source) -> (usize, usize) {
    let received = peer.in_order(Kind::Video);
    let first = received[0].sequence;
    let span = usize::try_from(received.last().expect("some").sequence - first + 1).expect("few");
    let numbers: HashSet<u64> = received.iter().map(|it| it.sequence).collect();
    assert_eq!(
        numbers.len(),
        received.len(),
        "a packet was handed out twice"
    );

    let published = source.payloads(VIDEO);
    let begin = published
        .iter()
        .position(|payload| *payload == received[0].payload)
        .expect("the first packet was published");
    for packet in &received {
        let place = begin + usize::try_from(packet.sequence - first).expect("few");
        assert!(
            packet.payload == published[place],
            "packet {} is not what was published",
            packet.sequence
        );
    }
    let repaired = received.iter().filter(|it| it.repaired).count();
    let missing = span - received.len();
    (repaired + missing, missing)
}

#[test]
fn five_percent_loss_is_repaired_by_rtx() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    lose(&mut peer);
    let (lost, missing) = account(&peer, &source);
    assert!(lost > 50, "only {lost} lost, the test tests nothing");
    assert!(
        missing * 100 <= lost,
        "{missing} of {lost} lost packets stay lost"
    );
    assert!(running.total("retransmissions_total") >= lost as u64 - missing as u64);
    let twice = repeats(&peer);
    assert_eq!(twice, 0, "retransmissions have an SSRC of their own");
}

/// A sealed packet that goes out twice must be the same datagram: its nonce is.
#[test]
fn without_rtx_five_percent_loss_is_repaired_byte_for_byte() {
    let running = Running::start(2);
    let source = Source::start(&running.stream(), Film::default());
    let without_rtx = |offer: &str| offer.replace(" rtx/90000", " unknown/90000");
    let mut peer = Peer::offering(&running, without_rtx).expect("answered");
    peer.await_media();
    lose(&mut peer);
    let (lost, missing) = account(&peer, &source);
    assert!(lost > 50, "only {lost} lost, the test tests nothing");
    assert!(
        missing * 100 <= lost,
        "{missing} of {lost} lost packets stay lost"
    );
    assert!(repeats(&peer) > 50, "repeats come under the first number");
}

/// Returns the number of datagrams with the SSRC and sequence number of a dropped one; each must
/// equal it.
fn repeats(peer: &Peer<'_>) -> usize {
    let name = |datagram: &[u8]| -> [u8; 6] {
        let mut name = [0; 6];
        name[..2].copy_from_slice(&datagram[2..4]);
        name[2..].copy_from_slice(&datagram[8..12]);
        name
    };
    let lost: std::collections::HashMap<_, _> = peer
        .discarded
        .iter()
        .map(|datagram| (name(datagram), datagram))
        .collect();
    let mut repeats = 0;
    for datagram in &peer.arrived {
        if let Some(first) = lost.get(&name(datagram)) {
            assert_eq!(datagram, *first, "one nonce, two plaintexts");
            repeats += 1;
        }
    }
    repeats
}
