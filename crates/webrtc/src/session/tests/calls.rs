//! Audio in both directions in one session.

use glassline_sim::Loss;

use super::*;
use crate::sdp::Redundancy;

fn call(opus: sdp::OpusOptions) -> Setup {
    Setup {
        tracks: vec![Track::audio(Codec::Opus, 1)],
        client_tracks: vec![Track::audio(Codec::Opus, 1)],
        receive: Kinds::AUDIO,
        server_receive: Kinds::AUDIO,
        opus: [opus; 2],
        ..Setup::default()
    }
}

const VOICE: sdp::OpusOptions = sdp::OpusOptions {
    fec: true,
    dtx: true,
    redundancy: Redundancy::Always,
    stereo: true,
};

#[test]
fn both_ends_hear_each_other_and_learn_how_they_are_heard() {
    let mut pair = Pair::connected(call(VOICE));
    for frame in 0..300u32 {
        pair.send(0, frame * 480, frame == 0, &[1, frame as u8]);
        pair.answer_back(frame * 480, &[2, frame as u8]);
        pair.run_for(ms(10));
    }
    pair.run_for(ms(100));
    for (received, voice) in [(&pair.client.received, 1), (&pair.server.received, 2)] {
        assert_eq!(received.len(), 300);
        for (frame, it) in received.iter().enumerate() {
            assert_eq!(it.payload, [voice, frame as u8]);
            assert_eq!(it.timestamp, frame as u32 * 480);
        }
    }
    for events in [&pair.server.events, &pair.client.events] {
        let rtt = events.iter().find_map(|(_, event)| match event {
            Event::ReceiverReport { rtt, .. } => *rtt,
            _ => None,
        });
        let rtt = rtt.expect("a round trip by reports").as_millis();
        assert!((49..=52).contains(&rtt), "{rtt}");
    }
    assert_eq!([&pair.server.dropped, &pair.client.dropped], [&[]; 2]);
    for session in [&pair.server, &pair.client] {
        // The SSRC of the media is also that of the reports.
        assert_eq!(session.rtcp_ssrc, session.senders()[0].ssrc);
        let stated = sdp::OpusParameters::parse(&session.senders()[0].parameters);
        assert!(stated.fec && stated.dtx);
    }
}

#[test]
fn numbers_that_are_left_out_are_losses_to_the_peer() {
    let mut pair = Pair::connected(call(VOICE));
    for frame in 0..100u32 {
        if frame == 50 {
            assert!(pair.server.skip(SenderIndex(0), 3));
        }
        pair.send(0, frame * 480, false, &[1, frame as u8]);
        pair.run_for(ms(10));
    }
    pair.run_for(ms(100));
    let sequences: Vec<u64> = pair.client.received.iter().map(|it| it.sequence).collect();
    assert_eq!(sequences.len(), 100, "none of them is repeated or lost");
    assert_eq!(sequences[99] - sequences[0], 102);
    assert_eq!(sequences[50] - sequences[49], 4);
    assert!(!pair.server.skip(SenderIndex(0), SKIP_MAX + 1));
    assert!(!pair.server.skip(SenderIndex(7), 1), "no such sender");
}

#[test]
fn packets_with_copies_come_under_their_own_payload_type() {
    let mut pair = Pair::connected(call(VOICE));
    assert!(pair.client.set_redundant(SenderIndex(0), true));
    pair.answer_back(0, b"copies");
    assert!(pair.client.set_redundant(SenderIndex(0), false));
    pair.answer_back(480, b"plain");
    pair.run_for(ms(100));
    let received: Vec<&[u8]> = pair
        .server
        .received
        .iter()
        .map(|it| &it.payload[..])
        .collect();
    assert_eq!(received, [&b"copies"[..], b"plain"]);
    let receiver = &pair.server.receivers()[0];
    let red = pair.client.senders()[0].red_payload_type.expect("agreed");
    assert!(receiver.is_redundant(red));
    assert!(!receiver.is_redundant(pair.client.senders()[0].payload_type));
    assert_eq!(receiver.totals().received, 2, "one stream");

    let mut plain = Pair::connected(call(sdp::OpusOptions::default()));
    assert!(
        !plain.client.set_redundant(SenderIndex(0), true),
        "not agreed on"
    );
}

#[test]
fn lost_audio_is_not_asked_for_again_and_its_loss_is_told() {
    let mut setup = call(VOICE);
    setup.conditions = setup.conditions.with_loss(Loss::Random(0.2));
    let mut pair = Pair::connected(setup);
    for frame in 0..500u32 {
        pair.answer_back(frame * 480, &[7; 60]);
        pair.run_for(ms(10));
    }
    pair.run_for(ms(500));
    assert_eq!(pair.server.nacked(), 0);
    let arrived = pair.server.received.len();
    assert!((340..460).contains(&arrived), "{arrived}");
    let reported = pair.client.events.iter().any(|(_, event)| {
        matches!(event, Event::ReceiverReport { fraction_lost, .. } if *fraction_lost > 15)
    });
    assert!(reported, "the sender learns of it");
}

#[test]
fn who_hangs_up_is_known_to_the_other_at_once() {
    for client_hangs_up in [true, false] {
        let mut pair = Pair::connected(call(VOICE));
        let now = pair.now();
        match client_hangs_up {
            true => pair.client.close(now),
            false => pair.server.close(now),
        }
        pair.run_for(ms(200));
        let events = match client_hangs_up {
            true => &pair.server.events,
            false => &pair.client.events,
        };
        let last = events.last().map(|(_, event)| event.clone());
        assert_eq!(last, Some(Event::Closed(CloseReason::Peer)));
    }
}
