//! Viewers that come long after the latest keyframe.

use super::*;

/// Time of the past in milliseconds, at 30 frames a second of 4 kB.
const PAST_MS: u64 = 30_000;
const FRAME: [usize; 4] = [1_000; 4];
const KEYFRAME: [usize; 60] = [1_000; 60];

/// Publishes a keyframe and what follows in half a minute; returns the number of packets.
fn publish_past(scene: &mut Scene) -> usize {
    scene.publish(VIDEO, 0, true, &KEYFRAME);
    let frames = (33..PAST_MS).step_by(33);
    let packets = KEYFRAME.len() + frames.clone().count() * FRAME.len();
    for ms in frames {
        scene.publish(VIDEO, ms, false, &FRAME);
    }
    packets
}

/// Returns the number and the bytes of the packets that leave in a tenth of a second from `ms` on.
fn leaving(scene: &mut Scene, sender: &mut StreamSender, ms: u64) -> (usize, usize) {
    let (mut packets, mut bytes) = (0, 0);
    for at in ms..ms + 100 {
        let now = scene.at(at);
        let due = sender.deadline(&mut scene.session, now);
        if due.is_none_or(|due| due <= now) {
            let sizes = scene.lose(sender, at);
            packets += sizes.len();
            bytes += sizes.iter().sum::<usize>();
        }
    }
    (packets, bytes)
}

/// The past of megabytes left at the rate of the network card, and a narrow path lost it.
#[test]
fn a_long_past_begins_at_some_times_the_streams_rate() {
    let mut scene = Scene::new();
    let all = publish_past(&mut scene);
    let mut sender = scene.sender();
    scene.start(&mut sender, PAST_MS);
    let (mut packets, bytes) = leaving(&mut scene, &mut sender, PAST_MS);
    // The keyframe and 64 KiB at once, and about 4 Mbit/s from then on.
    assert!((120_000..200_000).contains(&bytes), "{bytes}");
    let mut took = 100;
    while packets < all {
        packets += leaving(&mut scene, &mut sender, PAST_MS + took).0;
        took += 100;
        assert!(took < 3_000, "{packets} of {all}");
    }
    assert!(sender.is_idle());
    // Live frames leave as always.
    let live = PAST_MS + took;
    scene.offer(&mut sender, VIDEO, live, false, &[1_000; 20]);
    assert_eq!(scene.lose(&mut sender, live).len(), 20);
}

#[test]
fn a_loss_while_the_past_is_sent_slows_it_and_its_repair_down() {
    let mut scene = Scene::new();
    publish_past(&mut scene);
    let mut sender = scene.sender();
    scene.start(&mut sender, PAST_MS);
    for tenth in 0..10 {
        leaving(&mut scene, &mut sender, PAST_MS + tenth * 100);
    }
    let (_, before) = leaving(&mut scene, &mut sender, PAST_MS + 1_000);
    let late = PAST_MS + 1_100;
    scene.nack_video(&mut sender, late, 1..=200);
    let (_, behind) = leaving(&mut scene, &mut sender, late);
    assert!(behind < before * 3 / 4, "{behind} behind {before}");
}

#[test]
fn only_a_long_past_without_congestion_control_is_slowed_down() {
    let mut scene = Scene::new();
    publish_past(&mut scene);
    let mut sender = scene.sender();
    scene.start(&mut sender, PAST_MS);
    assert!(sender.ramp.is_some());
    let start = scene.start;
    let mut near = scene.sender();
    let keyframe = PAST_MS + 100;
    scene.publish(VIDEO, keyframe, true, &KEYFRAME);
    scene.start(&mut near, keyframe);
    assert!(near.ramp.is_none(), "a keyframe alone");
    let algorithm = Algorithm::Glide;
    assert!(scene.session.enable_congestion_control(algorithm, start));
    let mut paced = scene.sender();
    scene.publish(VIDEO, keyframe + 33, false, &[1_000; 200]);
    scene.start(&mut paced, keyframe + 40);
    assert!(paced.ramp.is_none() && !paced.is_idle());
}
