//! Tests of what a viewer missed: when the packets leave again, and which do not.

use glassline_runtime::Counter;

use super::*;

/// Publishes a keyframe that arrives at 0 ms, and a frame of these packets at 33 ms that is lost.
/// Returns the sizes of the lost datagrams.
fn lose(scene: &mut Scene, sender: &mut StreamSender, packets: &[usize]) -> Vec<usize> {
    scene.start(sender, 0);
    scene.offer(sender, VIDEO, 0, true, &[100]);
    assert_eq!(scene.flush(sender, 0).1.len(), 1);
    scene.offer(sender, VIDEO, 33, false, packets);
    let mut lost = Vec::new();
    for ms in 33..60 {
        lost.extend(scene.lose(sender, ms));
    }
    assert!(sender.is_idle() && lost.len() == packets.len());
    lost
}

/// Packets sent again, those that the ring no longer held, and those that were dropped.
fn counts(scene: &Scene) -> [u64; 3] {
    let counters = &scene.counters;
    [
        &counters.retransmissions,
        &counters.unrepairable,
        &counters.dropped_repairs,
    ]
    .map(Counter::get)
}

#[test]
fn lost_packets_are_sent_again_as_they_were() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    let lost = lose(&mut scene, &mut sender, &[100, 200, 300]);
    scene.nack_video(&mut sender, 70, [2, 1]);
    assert!(!sender.is_idle());
    let now = scene.at(70);
    assert_eq!(sender.deadline(&mut scene.session, now), Some(now));
    let (finished, arrived) = scene.flush(&mut sender, 70);
    assert!(finished.is_empty() && sender.is_idle());
    assert_eq!(sizes(&arrived), [(true, 200), (true, 300)]);
    assert!(arrived.iter().all(|it| it.is_repaired));
    assert_eq!([false, true], [arrived[0].marker, arrived[1].marker]);
    assert_eq!(arrived[1].sequence, arrived[0].sequence + 1);
    assert_eq!(arrived[1].timestamp, arrived[0].timestamp);
    // With RTX, a retransmission has the original number in two bytes.
    let again: Vec<_> = arrived.iter().map(|it| it.datagram_bytes).collect();
    assert_eq!(again, [lost[1] + 2, lost[2] + 2]);
    assert_eq!(counts(&scene), [2, 0, 0]);
    // One that has not left yet, one that never will have, and a lost one.
    scene.nack_video(&mut sender, 71, [0, 5, 3]);
    assert_eq!(sizes(&scene.flush(&mut sender, 71).1), [(true, 100)]);
    assert_eq!(counts(&scene), [3, 2, 0]);
    let nack = Nack {
        sender: SenderIndex(7),
        lost: &[1, 2],
    };
    sender.repair(&scene.stream, nack, now, &scene.counters);
    assert!(sender.is_idle(), "there is no such sender");
    assert_eq!(counts(&scene), [3, 2, 0]);
}

#[test]
fn a_packet_that_waits_is_not_queued_twice() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    lose(&mut scene, &mut sender, &[100, 200, 300]);
    scene.nack_video(&mut sender, 70, [2, 1]);
    scene.nack_video(&mut sender, 71, [3, 2, 1, 1]);
    let (_, arrived) = scene.flush(&mut sender, 72);
    assert_eq!(sizes(&arrived), [(true, 200), (true, 300), (true, 100)]);
    assert_eq!(counts(&scene), [3, 0, 0]);
}

#[test]
fn a_lost_burst_is_spread_and_the_next_frame_follows() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    lose(&mut scene, &mut sender, &[1000; 100]);
    scene.nack_video(&mut sender, 70, (1..=100).rev());
    scene.offer(&mut sender, VIDEO, 70, false, &[50]);
    scene.offer(&mut sender, AUDIO, 70, true, &[60]);
    let mut rounds = Vec::new();
    for ms in 70..75 {
        let (_, arrived) = scene.flush(&mut sender, ms);
        let repaired = arrived.iter().filter(|it| it.is_repaired).count();
        rounds.push((repaired, arrived.len() - repaired));
        assert_eq!(scene.flush(&mut sender, ms).1, []);
        let now = scene.at(ms);
        let next = (ms < 74).then(|| scene.at(ms + 1));
        assert_eq!(sender.deadline(&mut scene.session, now), next);
    }
    // Audio does not wait, and video comes with the last repairs.
    assert_eq!(rounds, [(20, 1), (20, 0), (20, 0), (20, 0), (20, 1)]);
    assert_eq!(counts(&scene), [100, 0, 0]);
}

#[test]
fn more_than_one_request_names_is_dropped_and_counted() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    lose(&mut scene, &mut sender, &[500; 300]);
    scene.nack_video(&mut sender, 70, 1..=256);
    scene.nack_video(&mut sender, 70, 250..=266);
    assert_eq!(counts(&scene), [0, 0, 10]);
    let arrived = (70..90).map(|ms| scene.flush(&mut sender, ms).1.len());
    assert_eq!(arrived.sum::<usize>(), 256);
    assert_eq!(counts(&scene), [256, 0, 10]);
}

#[test]
fn repairs_that_waited_too_long_are_dropped_and_counted() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    lose(&mut scene, &mut sender, &[100, 200, 300]);
    scene.nack_video(&mut sender, 70, [3]);
    scene.nack_video(&mut sender, 71, [1]);
    assert_eq!(sizes(&scene.flush(&mut sender, 271).1), [(true, 300)]);
    assert_eq!(counts(&scene), [1, 0, 1]);
}

#[test]
fn nothing_before_the_keyframe_that_a_slow_viewer_skipped_to_is_sent_again() {
    let mut scene = Scene::new();
    let mut sender = scene.sender();
    lose(&mut scene, &mut sender, &[100, 200, 300]);
    scene.offer(&mut sender, VIDEO, 66, false, &[100]);
    scene.nack_video(&mut sender, 270, [2, 1]);
    // The frame of 66 ms waited for too long.
    assert!(scene.offer(&mut sender, VIDEO, 280, false, &[100]) > 0);
    assert!(scene.publisher.keyframe_wanted());
    scene.offer(&mut sender, VIDEO, 300, true, &[400, 500]);
    assert_eq!(scene.lose(&mut sender, 301).len(), 2, "the keyframe alone");
    assert_eq!(counts(&scene), [0, 0, 2]);
    scene.nack_video(&mut sender, 310, [3, 1]);
    assert_eq!(sizes(&scene.flush(&mut sender, 311).1), [(true, 500)]);
    assert_eq!(counts(&scene), [1, 0, 3]);
}

#[test]
fn congestion_control_decides_what_leaves_again() {
    let mut scene = Scene::new();
    let start = scene.start;
    let algorithm = Algorithm::Glide;
    assert!(scene.session.enable_congestion_control(algorithm, start));
    let mut sender = scene.sender();
    scene.start(&mut sender, 0);
    scene.offer(&mut sender, VIDEO, 0, true, &[1000; 400]);
    let (mut ms, mut lost) = (0, 0);
    while lost < 2 {
        assert!(!scene.flush(&mut sender, ms).1.is_empty() || ms > 0);
        ms += 1;
        scene.report(ms);
        lost = scene.lose(&mut sender, ms).len();
    }
    let budget = scene.session.budget(scene.at(ms)).expect("enabled");
    assert!(budget < 1_040, "nothing new may leave: {budget}");
    scene.nack_video(&mut sender, ms, (1..=lost as u64).rev());
    let (mut repaired, mut live) = (0, 0);
    for ms in ms..ms + 199 {
        if ms % 20 == 0 {
            // Audio is not held back. What arrives brings a report of what did not.
            scene.offer(&mut sender, AUDIO, ms, true, &[60]);
        }
        scene.report(ms);
        let budget = scene.session.repair_budget(scene.at(ms)).expect("enabled");
        let (_, mut arrived) = scene.flush(&mut sender, ms);
        arrived.retain(|it| it.is_video);
        let bytes: usize = arrived.iter().map(|it| it.datagram_bytes).sum();
        assert!(bytes as u64 <= budget, "{bytes} of {budget} at {ms} ms");
        let (again, new) = arrived.iter().partition::<Vec<_>, _>(|it| it.is_repaired);
        assert!(live == 0 || again.is_empty(), "repairs go first");
        repaired += again.len();
        live += new.len();
        assert!(live == 0 || repaired == lost);
    }
    assert!(live > 0, "{repaired} of {lost} came");
    assert_eq!(counts(&scene), [lost as u64, 0, 0]);
}
