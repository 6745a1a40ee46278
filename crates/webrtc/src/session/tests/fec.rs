//! FEC packets between two sessions.

use glassline_congestion::Algorithm;
use glassline_rtp::flexfec::Encoder;

use super::*;

fn rebuilding() -> Pair {
    Pair::connected(Setup {
        mode: ReceiveMode::Rebuild,
        ..Setup::default()
    })
}

/// Sends packets of a frame, of which those in `lost` are lost, and a FEC packet.
fn send_frame(pair: &mut Pair, payloads: &[&[u8]], lost: &[usize]) {
    let (now, video) = (pair.now(), SenderIndex(0));
    let mut encoder = Encoder::new(pair.server.senders()[0].ssrc);
    encoder.begin(1);
    for (place, payload) in payloads.iter().enumerate() {
        let (mut out, marker) = (vec![0; 1500], place + 1 == payloads.len());
        let padding = if marker { 7 } else { 0 };
        let server = &mut pair.server;
        let sealed = server.seal_padded(video, 9_000, marker, payload, padding, now, &mut out);
        let sealed = sealed.expect("connected");
        let sender = &server.senders()[0];
        let header = sender.protected_header(sealed.sequence, 9_000, marker, padding);
        assert!(encoder.push(header.bytes(), payload, padding));
        out.truncate(sealed.len);
        if !lost.contains(&place) {
            server.enqueue(out);
        }
    }
    encoder.end(|payload| {
        let mut out = vec![0; 1500];
        let server = &mut pair.server;
        let bytes = server.seal_fec(video, 9_000, &payload, now, &mut out);
        out.truncate(bytes.expect("agreed"));
        server.enqueue(out);
    });
    pair.run_for(ms(60));
}

#[test]
fn a_lost_packet_is_rebuilt_before_it_is_asked_for() {
    for numbered in [false, true] {
        let mut pair = rebuilding();
        let now = pair.now();
        if numbered {
            assert!(pair.server.enable_congestion_control(Algorithm::Glide, now));
        }
        // The very first packet of a stream is not missed.
        for lost in [1, 2, 0] {
            pair.client.received.clear();
            send_frame(&mut pair, &[b"one", b"the second", b"three"], &[lost]);
            let mut received = std::mem::take(&mut pair.client.received);
            received.sort_by_key(|it| it.sequence);
            let payloads: Vec<_> = received.iter().map(|it| it.payload.as_slice()).collect();
            assert_eq!(payloads, [&b"one"[..], b"the second", b"three"]);
            let repaired: Vec<_> = received.iter().map(|it| it.repaired).collect();
            assert_eq!(repaired, [lost == 0, lost == 1, lost == 2]);
            assert!(received[2].marker && received.iter().all(|it| it.timestamp == 9_000));
        }
        let counts = pair.client.receivers()[0].fec_counts().expect("agreed");
        assert_eq!((counts.received, counts.rebuilt), (3, 3));
        let totals = pair.client.receivers()[0].totals();
        assert_eq!((totals.recovered, totals.missing()), (3, 0));
        let feedback = pair
            .server
            .events
            .iter()
            .any(|(_, it)| matches!(it, Event::TransportFeedback { .. }));
        assert_eq!(feedback, numbered);
    }
}

#[test]
fn fec_packets_are_in_transport_wide_feedback_and_in_what_is_sent() {
    let mut pair = rebuilding();
    let now = pair.now();
    assert!(pair.server.enable_congestion_control(Algorithm::Glide, now));
    send_frame(&mut pair, &[&[1; 900]], &[]);
    pair.run_for(ms(300));
    let report = pair.server.path_report().expect("controlled");
    assert!(
        report.sent_bytes > 1_900 && report.in_flight == 0,
        "{report:?}"
    );
    assert_eq!(report.lost_bytes, 0);
}

#[test]
fn without_an_offer_there_is_no_fec() {
    let mut pair = Pair::connected(Setup::default());
    assert_eq!(pair.server.senders()[0].fec(), None);
    assert_eq!(pair.client.receivers()[0].fec_counts(), None);
    let now = pair.now();
    let sealed = pair
        .server
        .seal_fec(SenderIndex(0), 0, &[0; 40], now, &mut [0; 1500]);
    assert_eq!(sealed, None);
    let pair = rebuilding();
    assert!(pair.server.senders()[0].fec().is_some());
    assert_eq!(pair.server.senders()[1].fec(), None, "audio has none");
}

#[test]
fn a_fec_packet_that_is_malformed_is_ignored() {
    let mut pair = rebuilding();
    let now = pair.now();
    for payload in [&[][..], &[0xff; 40], &[0; 40]] {
        let mut out = vec![0; 1500];
        let bytes = pair
            .server
            .seal_fec(SenderIndex(0), 0, payload, now, &mut out);
        out.truncate(bytes.expect("agreed"));
        pair.server.enqueue(out);
    }
    send_frame(&mut pair, &[b"one", b"two"], &[1]);
    assert_eq!(pair.client.received.len(), 2);
    assert!(pair.client.dropped.is_empty());
}
