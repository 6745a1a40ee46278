//! Tests of the sender with a session that is connected, and a viewer that opens what it gets.

mod adaptive;
mod layers;
mod named_layer;
mod narrow;
mod other_stream;
mod ramp;
mod repairs;
mod scene;
mod tcp;

use std::time::Duration;

use glassline_congestion::Algorithm;
use glassline_media::{Forwarded, LayerIndex, MediaTime, Stamps, TrackLayer, UnitBuilder};
use glassline_webrtc::{Kinds, SenderIndex};

use super::*;
use crate::webrtc::track_sender::LegNumber;
use scene::{AUDIO, Scene, VIDEO, sizes, tracks, unit};

#[test]
fn a_viewer_starts_with_the_newest_keyframe_and_asks_for_one_if_there_is_none() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    assert!(!sender.is_empty());
    scene.start(&mut sender, 0);
    assert!(scene.publisher.keyframe_wanted());
    assert!(sender.is_idle());
    assert_eq!(scene.offer(&mut sender, VIDEO, 10, false, &[100]), 0);
    assert!(sender.is_idle(), "nothing can be decoded");
    assert!(scene.publisher.keyframe_wanted(), "again");
    assert!(sender.missed(&scene.stream).is_empty());
    scene.offer(&mut sender, VIDEO, 20, true, &[100, 200]);
    assert!(!scene.publisher.keyframe_wanted());
    assert!(!sender.is_idle());
    let (finished, arrived) = scene.flush(&mut sender, 21);
    assert_eq!(sizes(&arrived), [(true, 100), (true, 200)]);
    assert_eq!([false, true], [arrived[0].marker, arrived[1].marker]);
    assert_eq!(arrived[1].sequence, arrived[0].sequence + 1);
    assert!(sender.is_idle() && finished.len() == 1);
    assert_eq!(
        (finished[0].paced, finished[0].read_at),
        (scene.at(21), scene.at(20))
    );
    assert_eq!(finished[0].timestamp, arrived[0].timestamp);
    assert_eq!(finished[0].published, scene.at(20));

    let mut late = scene.sender();
    scene.publish(VIDEO, 40, false, &[300]);
    scene.start(&mut late, 50);
    assert!(!scene.publisher.keyframe_wanted(), "there is one");
    scene.publish(VIDEO, 60, false, &[400]);
    scene.publish(AUDIO, 60, true, &[50]);
    let missed = late.missed(&scene.stream);
    assert_eq!(missed.len(), 1, "audio has not begun");
    assert_eq!(missed[0].payload_bytes(), 400);
    let (finished, mut arrived) = scene.flush(&mut late, 61);
    assert!(finished.is_empty(), "the past is not accounted");
    let (finished, live) = scene.flush(&mut late, 62);
    arrived.extend(live);
    assert_eq!(sizes(&arrived), [(true, 100), (true, 200), (true, 300)]);
    assert_eq!(finished.len(), 1);
    let span = arrived[2].timestamp.wrapping_sub(arrived[0].timestamp);
    assert!(span.abs_diff(20 * 90 / 32) <= 1, "squeezed: {span}");
    late.request_keyframe(SenderIndex(2), &scene.stream, scene.start);
    assert!(
        !scene.publisher.keyframe_wanted(),
        "there is no such sender"
    );
    late.request_keyframe(SenderIndex(0), &scene.stream, scene.start);
    assert!(scene.publisher.keyframe_wanted());
}

#[test]
fn large_frames_are_spread_and_audio_passes_them() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    scene.start(&mut sender, 0);
    scene.offer(&mut sender, AUDIO, 0, true, &[60]);
    let now = scene.at(0);
    assert_eq!(
        sender.deadline(&mut scene.session, now),
        None,
        "no video waits"
    );
    scene.offer(&mut sender, VIDEO, 0, true, &[1000; 60]);
    assert_eq!(
        sender.deadline(&mut scene.session, now),
        None,
        "it may leave"
    );
    let (_, arrived) = scene.flush(&mut sender, 0);
    let audio = (false, 60);
    let mut expected = vec![(true, 1000); 20];
    expected.insert(0, audio);
    assert_eq!(sizes(&arrived), expected, "audio first");
    assert!(!sender.is_idle());
    assert_eq!(sender.deadline(&mut scene.session, now), Some(scene.at(1)));
    assert_eq!(scene.flush(&mut sender, 0).1, []);
    let late = scene.at(7);
    assert_eq!(sender.deadline(&mut scene.session, late), Some(late));
    assert_eq!(scene.flush(&mut sender, 7).1.len(), 20);
    scene.offer(&mut sender, AUDIO, 8, true, &[61]);
    let (finished, arrived) = scene.flush(&mut sender, 8);
    expected.remove(0);
    expected.push((false, 61));
    assert_eq!(sizes(&arrived), expected, "audio rides behind the end");
    assert_eq!(finished.len(), 1);
    assert!(arrived[19].marker && !arrived[20].marker && !arrived[18].marker);
    let now = scene.at(8);
    assert_eq!(sender.deadline(&mut scene.session, now), None);
}

#[test]
fn the_last_packet_is_padded_if_audio_may_follow_in_its_message() {
    for (receive, padding) in [
        (Kinds::ALL, 10),
        (
            Kinds {
                audio: false,
                ..Kinds::ALL
            },
            0,
        ),
    ] {
        let mut scene = Scene::of(receive);
        let mut sender = scene.sender();
        scene.start(&mut sender, 0);
        scene.offer(&mut sender, VIDEO, 0, true, &[500, 490]);
        let (_, arrived) = scene.flush(&mut sender, 0);
        let [first, last] = &arrived[..] else {
            panic!("{arrived:?}");
        };
        assert_eq!(first.datagram_bytes - last.datagram_bytes, 10 - padding);
        assert_eq!(last.bytes, 490);
    }
}

#[test]
fn frames_are_found_by_their_timestamp_and_their_delays_are_recorded() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    let table = StageTable::new(Duration::from_secs(10));
    let stages = Arc::new(Mutex::new(table));
    scene.start(&mut sender, 0);
    scene.offer(&mut sender, AUDIO, 0, true, &[60]);
    assert!(
        scene.flush(&mut sender, 0).0.is_empty(),
        "only video is followed"
    );
    scene.offer(&mut sender, VIDEO, 0, true, &[100]);
    let (finished, _) = scene.flush(&mut sender, 3);
    let [frame] = finished[..] else {
        panic!("{finished:?}");
    };
    let recorded = || {
        let mut stages = stages.lock();
        let summaries = stages.summaries(scene.at(5));
        summaries.into_iter().map(|(it, _)| it).collect::<Vec<_>>()
    };
    assert_eq!(sender.frame(frame.timestamp), None, "it has not left yet");
    sender.left(frame, scene.at(4));
    assert_eq!(recorded(), []);
    let found = sender.frame(frame.timestamp).expect("a recent frame");
    assert_eq!(found.sent - found.paced, Duration::from_millis(1));
    assert_eq!(found.paced - found.read_at, Duration::from_millis(3));
    assert_eq!(sender.frame(frame.timestamp + 1), None);
    sender.set_stages(Arc::clone(&stages));
    sender.left(frame, scene.at(4));
    assert_eq!(recorded(), [Stage::Pace, Stage::Send]);
}

#[test]
fn packets_that_the_source_lost_are_left_out_of_the_numbers() {
    let mut scene = Scene::of(Kinds::AUDIO);
    let mut sender = scene.sender();
    scene.start(&mut sender, 0);
    assert!(!scene.publisher.keyframe_wanted(), "no video");
    let mut arrived = Vec::new();
    for (ms, gap) in [(0, 0), (20, 0), (80, 2)] {
        let at = scene.at(ms);
        let forwarded = Forwarded {
            gap,
            timestamp: 9_000 + 48 * u32::try_from(ms).expect("soon"),
        };
        let time = MediaTime::from_ticks(i64::try_from(ms).expect("soon"), 1_000);
        let stamps = Stamps::arrived(at);
        let unit = UnitBuilder::forward(&[7; 40], forwarded, AUDIO, time, stamps);
        let unit = scene.publisher.push(unit.expect("a packet"), at);
        let unit = unit.expect("a track").expect("published");
        sender.offer(&unit, at, &scene.stream);
        arrived.extend(scene.flush(&mut sender, ms).1);
    }
    let numbers = arrived.iter().map(|it| it.sequence - arrived[0].sequence);
    assert_eq!(numbers.collect::<Vec<_>>(), [0, 1, 4]);
    let timestamps = arrived.iter().map(|it| it.timestamp);
    assert_eq!(timestamps.collect::<Vec<_>>(), [9_000, 9_960, 12_840]);
}

#[test]
fn a_viewer_that_is_too_slow_is_counted_and_another_lag_may_be_set() {
    for (lag, limit) in [(None, 200), (Some(50), 50)] {
        let mut scene = Scene::new();
        let delivery = Delivery {
            lag: lag.map(Duration::from_millis),
            ..Delivery::default()
        };
        let mut sender =
            StreamSender::new(&scene.session, &scene.stream, &[], delivery, scene.start);
        scene.start(&mut sender, 0);
        assert!(scene.publisher.keyframe_wanted());
        scene.offer(&mut sender, VIDEO, 0, true, &[100]);
        assert_eq!(scene.offer(&mut sender, VIDEO, limit, false, &[100]), 0);
        assert!(!scene.publisher.keyframe_wanted());
        let dropped = scene.offer(&mut sender, VIDEO, limit + 1, false, &[100]);
        assert_eq!(dropped, 3);
        assert!(scene.publisher.keyframe_wanted());
        assert!(sender.is_idle());
    }
}

#[test]
fn congestion_control_decides_when_it_is_enabled() {
    let mut scene = Scene::new();
    let start = scene.start;
    let algorithm = Algorithm::Glide;
    assert!(scene.session.enable_congestion_control(algorithm, start));
    let mut sender = scene.sender();
    scene.start(&mut sender, 0);
    scene.offer(&mut sender, VIDEO, 0, true, &[1000; 400]);
    scene.offer(&mut sender, AUDIO, 0, true, &[60]);
    let budget = scene.session.budget(start).expect("enabled");
    let (_, arrived) = scene.flush(&mut sender, 0);
    assert_eq!(sizes(&arrived)[0], (false, 60), "audio first");
    let video = arrived.len() - 1;
    assert!(video > 0 && video < 400, "{video}");
    let spent: usize = arrived.iter().map(|it| it.datagram_bytes).sum();
    assert!(spent as u64 <= budget, "{spent} of {budget}");
    assert!(!sender.is_idle());
    let next = sender.deadline(&mut scene.session, start);
    assert!(next.is_none_or(|at| at > start), "not now");
}

#[test]
fn what_a_viewer_gets_is_known_by_layer() {
    let scene = Scene::new();
    let sender = scene.sender();
    let base = [VIDEO, AUDIO].map(TrackLayer::from);
    let mut layers: Vec<_> = sender.layers().collect();
    layers.sort();
    assert_eq!(layers, base);
    assert_eq!(sender.transcoded().count(), 0);
    let start = scene.start;
    let layer = LayerIndex::TRANSCODED;
    let expected = TrackLayer {
        track: VIDEO,
        layer,
    };
    let fixed = [expected];
    let mut transcoded = StreamSender::new(
        &scene.session,
        &scene.stream,
        &fixed,
        Delivery::default(),
        start,
    );
    assert_eq!(transcoded.transcoded().collect::<Vec<_>>(), [expected]);
    let reordered = |is_reordered| {
        let mut tracks = tracks();
        tracks[0].video.reordered = is_reordered;
        tracks
    };
    assert!(sender.is_reordered(&reordered(true)) && !sender.is_reordered(&reordered(false)));
    assert!(!transcoded.is_reordered(&reordered(true)));
    assert!(!sender.is_reordered(&[]));

    let rendition = scene.stream.publish_rendition(VIDEO, scene.stream.layout());
    transcoded.request_keyframe(SenderIndex(0), &scene.stream, scene.start);
    assert!(rendition.keyframe_wanted() && !scene.publisher.keyframe_wanted());
}

/// A frame of three packets, whose payloads have 1000, 1000 and 200 bytes.
fn queued(sent: usize) -> Queued {
    let now = Instant::now();
    Queued {
        unit: Arc::new(unit(VIDEO, now, 0, true, &[1000, 1000, 200])),
        leg: LegNumber::default(),
        read_at: now,
        sent,
    }
}

#[test]
fn a_budget_allows_whole_packets_with_what_sealing_adds() {
    let counts = |sent, budgets: [u64; 4]| {
        let queued = queued(sent);
        budgets.map(|bytes| affordable(&queued, bytes))
    };
    assert_eq!(counts(0, [0, 1_039, 1_040, 2_079]), [0, 0, 1, 1]);
    assert_eq!(counts(0, [2_080, 2_319, 2_320, 90_000]), [2, 2, 3, 3]);
    assert_eq!(counts(2, [239, 240, 1_040, 90_000]), [0, 1, 1, 1]);
    assert_eq!(counts(3, [0, 240, 1_040, 90_000]), [0; 4]);
    let bytes = |index| packet_bytes(&queued(0).unit, index);
    assert_eq!([0, 2].map(bytes), [1_040, 240]);
}
