//! A publisher whose media the answering end receives.

use glassline_congestion::Algorithm;
use glassline_rtp as rtp;
use glassline_sim::Loss;

use super::*;

/// A publisher of VP8 video and Opus.
fn publication() -> Setup {
    Setup {
        tracks: Vec::new(),
        client_tracks: vec![Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)],
        receive: Kinds::NONE,
        server_receive: Kinds::NONE,
        publication: true,
        ..Setup::default()
    }
}

fn dtls_server(offer: &str) -> String {
    offer.replace("a=setup:actpass", "a=setup:passive")
}

#[test]
fn a_publisher_may_be_the_dtls_server() {
    let mut pair = Pair::connected(Setup {
        edit_offer: dtls_server,
        ..publication()
    });
    let sealed = pair.answer_back(0, b"frame");
    pair.run_for(ms(100));
    assert_eq!(pair.server.received[0].payload, b"frame");
    assert_eq!(
        pair.server.received[0].sequence as u16,
        sealed.sequence as u16
    );
}

#[test]
fn media_alone_keeps_a_publisher_alive_and_silence_ends_it() {
    let mut pair = Pair::connected(publication());
    // From now on the publisher sends nothing but media, and answers no check.
    let (now, sender) = (pair.now(), SenderIndex(0));
    let sealed = (0..450u32).map(|frame| {
        let mut out = vec![0; 1500];
        let client = &mut pair.client.session;
        let sealed = client.seal(sender, frame * 9000, true, b"frame", now, &mut out);
        out.truncate(sealed.expect("connected").len);
        out
    });
    let sealed: Vec<_> = sealed.collect();
    pair.client.session.finish(CloseReason::Local);
    for datagram in sealed {
        pair.deliver(End::A, datagram);
        pair.run_for(ms(100));
    }
    assert!(!pair.server.is_closed(), "{}", pair.server.state());
    pair.run_for(ms(21_000));
    assert!(pair.server.is_closed());
    let closed = Event::Closed(CloseReason::Vanished);
    assert!(pair.server.events.iter().any(|(_, event)| *event == closed));
}

#[test]
fn checks_without_media_keep_a_publisher_alive_too() {
    let mut pair = Pair::connected(publication());
    pair.run_for(ms(60_000));
    assert!(pair.server.is_connected());
}

/// The first packet of an SSRC that the offer did not announce is bound by its MID or payload type.
#[test]
fn an_offer_without_ssrcs_is_bound_by_its_packets() {
    fn without_ssrcs(offer: &str) -> String {
        let kept = offer.lines().filter(|it| !it.starts_with("a=ssrc"));
        kept.map(|line| format!("{line}\r\n")).collect()
    }
    let mut pair = Pair::connected(Setup {
        edit_offer: without_ssrcs,
        ..publication()
    });
    assert_eq!(pair.server.receivers()[0].ssrc(), None);
    pair.answer_back(0, b"frame");
    pair.run_for(ms(50));
    let ssrc = pair.client.senders()[0].ssrc;
    assert_eq!(pair.server.receivers()[0].ssrc(), Some(ssrc));
    assert_eq!(pair.server.receivers()[1].ssrc(), None);
    assert_eq!(pair.server.received.len(), 1);
}

/// RFC 5506: a NACK, a PLI and transport feedback travel alone, for publishers that read no
/// compound packets.
#[test]
fn feedback_travels_in_packets_of_its_own() {
    let mut pair = Pair::connected(publication());
    let now = pair.now();
    assert!(pair.client.enable_congestion_control(Algorithm::Glide, now));
    assert!(
        !pair.server.request_keyframe(ReceiverIndex(1), now),
        "audio"
    );
    pair.answer_back(0, b"first");
    pair.run_for(ms(50));
    let now = pair.now();
    assert!(pair.server.request_keyframe(ReceiverIndex(0), now));
    assert!(pair.server.reports.are_lone);
    pair.run_for(ms(100));
    let requests = |event: &&(Duration, Event)| matches!(event.1, Event::KeyframeRequest { .. });
    assert_eq!(pair.client.events.iter().filter(requests).count(), 1);
    let feedback = |event: &&(Duration, Event)| matches!(event.1, Event::TransportFeedback { .. });
    assert!(pair.client.events.iter().any(|it| feedback(&it)));
}

/// Five percent of the packets are lost in each direction, at 50 ms of round trip.
#[test]
fn losses_are_repaired_within_150_ms() {
    let (mut lost, mut repaired, mut late) = (0, 0, 0);
    for seed in 1..=4 {
        let mut pair = Pair::connected(Setup {
            seed,
            conditions: Conditions {
                loss: Loss::Random(0.05),
                ..Conditions::delayed(ms(25))
            },
            ..publication()
        });
        let mut sent = Vec::new();
        for frame in 0..3000u32 {
            let at = pair.now();
            let sealed = pair.answer_back(frame * 450, &[7; 1000]);
            sent.push((sealed.sequence as u16, at - pair.server.start));
            pair.run_for(ms(5));
        }
        pair.run_for(ms(1000));
        for (sequence, at) in &sent[..2990] {
            let mut received = pair.server.received.iter();
            let found = received.find(|it| it.sequence as u16 == *sequence);
            // Not lost: the packet came after the one-way delay.
            let waited = found.map(|it| it.at - *at);
            if waited.is_some_and(|it| it < ms(30)) {
                continue;
            }
            lost += 1;
            match waited {
                Some(waited) if waited <= ms(25 + 5 + 150) => repaired += 1,
                _ => late += 1,
            }
        }
    }
    println!("{lost} lost, {repaired} repaired within 150 ms, {late} not");
    assert!(lost > 400);
    assert!(repaired * 100 >= lost * 99, "{repaired} of {lost}");
}

/// Layers are told apart by RID; a RID that was not offered is no layer.
#[test]
fn simulcast_layers_are_bound_by_rid() {
    fn simulcast(offer: &str) -> String {
        offer.replacen(
            "m=audio",
            "a=rid:hi send\r\na=rid:lo send\r\na=simulcast:send hi;lo\r\n\
             a=extmap:12 urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id\r\nm=audio",
            1,
        )
    }
    let mut pair = Pair::connected(Setup {
        edit_offer: |offer| {
            let offer = simulcast(offer);
            let kept = offer.lines().filter(|it| !it.starts_with("a=ssrc"));
            kept.map(|line| format!("{line}\r\n")).collect()
        },
        ..publication()
    });
    let rids: Vec<String> = pair.server.receivers()[0]
        .rids()
        .map(str::to_owned)
        .collect();
    assert_eq!(rids, ["hi", "lo"]);
    let layer_of = |pair: &mut Pair, ssrc: u32, rid: Option<&str>| {
        let header = rtp::Header {
            marker: true,
            payload_type: pair.client.senders()[0].payload_type,
            sequence: 1,
            timestamp: 0,
            ssrc: Ssrc(ssrc),
        };
        let mut bytes = vec![0; 200];
        let elements: Vec<(u8, &[u8])> = rid.iter().map(|it| (12, it.as_bytes())).collect();
        let end = rtp::write_header(&mut bytes, &header, &elements);
        bytes.truncate(end + 10);
        let packet = rtp::Packet::parse(&bytes).expect("written here");
        let receiver = &mut pair.server.session.receivers[0];
        receiver.bind(&packet).map(|(layer, _)| layer.0)
    };
    assert_eq!(layer_of(&mut pair, 1, Some("lo")), Some(1));
    assert_eq!(layer_of(&mut pair, 2, Some("hi")), Some(0));
    assert_eq!(layer_of(&mut pair, 3, Some("other")), None);
    assert_eq!(layer_of(&mut pair, 4, None), None, "no layer is named");
}

/// A publisher of three encodings of its video, and audio between them.
fn layers() -> Setup {
    let layer = |track, rid: &str| SimulcastLayer {
        track: TrackIndex(track),
        rid: rid.to_owned(),
    };
    let video = || Track::new(Codec::Vp8);
    Setup {
        client_tracks: vec![video(), Track::audio(Codec::Opus, 2), video(), video()],
        layers: vec![
            layer(0, "720p"),
            layer(2, "360p"),
            layer(3, "a-name-of-16-byt"),
        ],
        ..publication()
    }
}

#[test]
fn layers_of_a_video_share_a_line_and_are_told_by_their_packets() {
    let mut pair = Pair::connected(layers());
    let now = pair.now();
    assert!(pair.client.enable_congestion_control(Algorithm::Glide, now));
    let rids: Vec<_> = pair.server.receivers()[0].rids().collect();
    assert_eq!(rids, ["720p", "360p", "a-name-of-16-byt"]);
    let tracks = |pair: &Pair| -> Vec<_> {
        let senders = pair.client.senders().iter();
        senders.map(|it| it.track.get()).collect()
    };
    assert_eq!(tracks(&pair), [0, 2, 3, 1]);
    let mut out = vec![0; 1500];
    for sender in [2, 0, 1, 3] {
        let (payload, now) = (vec![b'x'; 30 + sender], pair.now());
        let index = SenderIndex(sender);
        let sealed = pair.client.seal(index, 90, false, &payload, now, &mut out);
        let len = sealed.expect("connected").len;
        pair.client.enqueue(out[..len].to_vec());
    }
    pair.run_for(ms(100));
    let arrived = pair.server.received.iter();
    let mut arrived: Vec<_> = arrived
        .map(|it| (it.payload.len() - 30, it.receiver, it.layer))
        .collect();
    arrived.sort_unstable();
    assert_eq!(arrived, [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 1, 0)]);
}

#[test]
fn a_server_without_simulcast_gets_the_best_layer_alone() {
    fn without_simulcast(answer: &str) -> String {
        let kept = answer
            .lines()
            .filter(|it| !it.starts_with("a=simulcast") && !it.starts_with("a=rid"));
        kept.map(|line| format!("{line}\r\n")).collect()
    }
    fn without_the_middle(answer: &str) -> String {
        answer
            .replace(";360p;", ";")
            .replace("a=rid:360p recv\r\n", "")
    }
    let senders = |edit_answer: fn(&str) -> String| -> Vec<_> {
        let pair = Pair::connected(Setup {
            edit_answer,
            ..layers()
        });
        let senders = pair.client.senders().iter();
        senders.map(|it| it.track.get()).collect()
    };
    assert_eq!(senders(without_simulcast), [0, 1]);
    assert_eq!(senders(without_the_middle), [0, 3, 1]);
}
