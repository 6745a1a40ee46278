use super::*;
use glassline_media::{Stamps, TrackIndex, UnitBuilder};

const FRAME: Duration = Duration::from_nanos(33_333_333);

fn unit(index: u64, keyframe: bool) -> Arc<MediaUnit> {
    let mut builder = UnitBuilder::default();
    builder.push(b"one");
    builder.push(b"two");
    let time = MediaTime::from_ticks(i64::try_from(index).expect("small") * 3000, 90_000);
    let mut unit = builder
        .build(
            TrackIndex(0),
            time,
            keyframe,
            Stamps::arrived(Instant::now()),
        )
        .expect("packets");
    unit.index = index;
    unit.first_packet = index * 2;
    Arc::new(unit)
}

fn video() -> TrackSender {
    TrackSender::new(
        TrackIndex(0).into(),
        SenderIndex(0),
        Codec::H264,
        90_000,
        1_000_000,
    )
}

#[test]
fn a_viewer_waits_for_idr_slices_where_recovery_points_come() {
    let payloads = |kind: u8| [[0x67, 1], [0x68, 1], [0x60 | kind, 0x88]];
    let unit = |index, kind| {
        let mut builder = UnitBuilder::default();
        payloads(kind).iter().for_each(|it| builder.push(it));
        let stamps = Stamps::arrived(Instant::now());
        let unit = builder.build(TrackIndex(0), MediaTime::ZERO, true, stamps);
        let mut unit = unit.expect("packets");
        unit.index = index;
        Arc::new(unit)
    };
    let (mut track_sender, now) = (video(), Instant::now());
    let [point, idr] = [(0, 1), (1, 5)].map(|(index, kind)| unit(index, kind));
    assert!(is_recovery_point(Codec::H264, &point) && !is_recovery_point(Codec::H264, &idr));
    assert!(!track_sender.catch_up(vec![Arc::clone(&point)], now));
    assert_eq!(track_sender.offer(&point, now), OfferOutcome::Passed);
    assert_eq!(track_sender.offer(&idr, now), OfferOutcome::Queued);
    let next = unit(2, 1);
    assert_eq!(track_sender.offer(&next, now), OfferOutcome::Queued);
}

#[test]
fn a_new_viewer_starts_at_the_keyframe_and_time_is_squeezed_to_now() {
    let (mut track_sender, now) = (video(), Instant::now());
    let past: Vec<_> = (60..90).map(|index| unit(index, index == 60)).collect();
    assert!(track_sender.catch_up(past.clone(), now));
    assert_eq!(
        track_sender.offer(&past[29], now),
        OfferOutcome::Passed,
        "already in the past"
    );
    assert_eq!(
        track_sender.offer(&unit(90, false), now),
        OfferOutcome::Queued
    );
    let ticks = |index| {
        track_sender
            .timestamp(&unit(index, false))
            .wrapping_sub(1_000_000)
    };
    assert_eq!(ticks(89), 89 * 3000);
    assert_eq!(ticks(90), 90 * 3000);
    let squeezed: Vec<u32> = (60..=89).map(ticks).collect();
    assert!(
        squeezed.windows(2).all(|pair| pair[0] < pair[1]),
        "order is kept"
    );
    let span = squeezed[29] - squeezed[0];
    assert!(span.abs_diff(29 * 3000 / 32) <= 1, "{span} ticks");
    assert!(track_sender.is_past(past[0].time) && !track_sender.is_past(past[29].time));
}

/// mediamtx#1763: cameras space keyframes by tens of seconds when little moves.
#[test]
fn ninety_seconds_since_the_keyframe_are_caught_up_and_no_live_frame_is_dropped_meanwhile() {
    let (mut track_sender, start) = (video(), Instant::now());
    let past: Vec<_> = (0..2_700).map(|index| unit(index, index == 0)).collect();
    let packets =
        |units: &[Arc<MediaUnit>]| -> usize { units.iter().map(|unit| unit.packet_count()).sum() };
    let (oldest, newest) = (Arc::clone(&past[0]), Arc::clone(&past[2_699]));
    let waiting = packets(&past);
    assert!(track_sender.catch_up(past, start));
    let span = track_sender
        .timestamp(&newest)
        .wrapping_sub(track_sender.timestamp(&oldest));
    assert!(span <= 90_000 * 5 / 8, "{span} ticks");
    // The path takes two seconds for it.
    let live: Vec<_> = (2_700..2_760).map(|index| unit(index, false)).collect();
    for (at, unit) in (1..).zip(&live) {
        let outcome = track_sender.offer(unit, start + at * FRAME);
        assert_eq!(outcome, OfferOutcome::Queued);
    }
    for _ in 0..waiting {
        track_sender.advance(1, start);
    }
    let caught_up = start + 61 * FRAME;
    let next = unit(2_760, false);
    assert_eq!(track_sender.offer(&next, caught_up), OfferOutcome::Queued);
    // A path that takes no live frame within that time is too slow.
    let late = start + CATCH_UP_MAX;
    let outcome = track_sender.offer(&unit(2_761, false), late);
    assert_eq!(outcome, OfferOutcome::Skipped { frames: 62 });
}

#[test]
fn a_viewer_under_congestion_control_waits_for_the_next_keyframe_where_keyframes_are_near() {
    let now = Instant::now();
    let long = |frames: u64, bytes: usize| -> Vec<_> {
        let packet = vec![7; 1_000];
        let units = (0..frames).map(|index| {
            let mut builder = UnitBuilder::default();
            let packets = bytes / 1_000 / usize::try_from(frames).expect("few");
            (0..packets).for_each(|_| builder.push(&packet));
            let time = MediaTime::from_ticks(i64::try_from(index).expect("small") * 3000, 90_000);
            let stamps = Stamps::arrived(now);
            let unit = builder.build(TrackIndex(0), time, index == 0, stamps);
            Arc::new(unit.expect("packets"))
        });
        units.collect()
    };
    let begins = |past: Vec<_>| {
        let mut track_sender = video();
        track_sender.set_limits(SendLimits::PACED);
        track_sender.catch_up(past, now)
    };
    assert!(begins(long(60, 480_000)) && !begins(long(60, 600_000)));
    // The next keyframe of a "smart codec" may be a minute away.
    assert!(begins(long(300, 3_000_000)) && !begins(long(300, 9_000_000)));
}

#[test]
fn without_a_keyframe_the_viewer_waits_for_one() {
    let (mut track_sender, now) = (video(), Instant::now());
    assert!(!track_sender.catch_up(Vec::new(), now));
    assert_eq!(
        track_sender.offer(&unit(7, false), now),
        OfferOutcome::Passed
    );
    assert_eq!(
        track_sender.offer(&unit(8, true), now),
        OfferOutcome::Queued
    );
    assert_eq!(
        track_sender.offer(&unit(9, false), now),
        OfferOutcome::Queued
    );
    // The shard missed a unit: frames after the gap cannot be decoded.
    assert_eq!(
        track_sender.offer(&unit(12, false), now),
        OfferOutcome::Passed
    );
    assert!(track_sender.wants_keyframe());
}

#[test]
fn a_slow_viewer_skips_to_the_next_keyframe_and_is_counted() {
    let (mut track_sender, start) = (video(), Instant::now());
    assert_eq!(
        track_sender.offer(&unit(0, true), start),
        OfferOutcome::Queued
    );
    track_sender.advance(1, start);
    for index in 1..6 {
        assert_eq!(
            track_sender.offer(&unit(index, false), start + FRAME),
            OfferOutcome::Queued
        );
    }
    let late = start + FRAME + SendLimits::UNPACED.wait + FRAME;
    assert_eq!(
        track_sender.offer(&unit(6, false), late),
        OfferOutcome::Skipped { frames: 6 }
    );
    assert_eq!(
        track_sender.front().map(|queued| queued.unit.index),
        Some(0),
        "half a frame is finished"
    );
    assert!(track_sender.advance(1, late));
    assert_eq!(
        track_sender.offer(&unit(7, false), late),
        OfferOutcome::Passed
    );
    assert_eq!(
        track_sender.offer(&unit(8, true), late),
        OfferOutcome::Queued
    );
}

#[test]
fn the_time_of_a_keyframe_does_not_count_for_what_waits_behind() {
    let ms = Duration::from_millis;
    let (mut track_sender, start) = (video(), Instant::now());
    track_sender.set_limits(SendLimits::PACED);
    track_sender.offer(&unit(0, true), start);
    track_sender.advance(1, start);
    for (index, at) in (1..).zip([33, 66, 700, 1_200]) {
        let outcome = track_sender.offer(&unit(index, false), start + ms(at));
        assert_eq!(outcome, OfferOutcome::Queued, "the keyframe is on its way");
    }
    // It takes 1.2 s, and frame 1 waits for 0.5 s at most after that.
    assert!(track_sender.advance(1, start + ms(1_200)));
    let outcome = track_sender.offer(&unit(5, false), start + ms(1_690));
    assert_eq!(outcome, OfferOutcome::Queued);
    let outcome = track_sender.offer(&unit(6, false), start + ms(1_710));
    assert_eq!(outcome, OfferOutcome::Skipped { frames: 6 });
    assert!(track_sender.wants_keyframe());
}

#[test]
fn a_new_keyframe_waits_for_nothing_that_is_late() {
    let ms = Duration::from_millis;
    let (mut track_sender, start) = (video(), Instant::now());
    track_sender.set_limits(SendLimits::PACED);
    track_sender.offer(&unit(0, true), start);
    track_sender.advance(2, start + ms(900));
    track_sender.offer(&unit(1, false), start + ms(400));
    let outcome = track_sender.offer(&unit(2, true), start + ms(1_000));
    assert_eq!(outcome, OfferOutcome::Skipped { frames: 1 });
    let next = track_sender.front().map(|queued| queued.unit.index);
    assert_eq!(next, Some(2));
    assert!(!track_sender.wants_keyframe());
}

#[test]
fn a_keyframe_that_takes_longer_than_two_seconds_holds_nothing_back() {
    let (mut track_sender, start) = (video(), Instant::now());
    track_sender.set_limits(SendLimits::PACED);
    track_sender.offer(&unit(0, true), start);
    track_sender.advance(1, start);
    track_sender.offer(&unit(1, false), start + FRAME);
    let late = start + SendLimits::PACED.keyframe + SendLimits::PACED.wait + FRAME;
    let outcome = track_sender.offer(&unit(2, false), late);
    assert_eq!(outcome, OfferOutcome::Skipped { frames: 2 });
}

#[test]
fn sequence_numbers_lead_back_to_packets_across_skips() {
    let mut track_sender = video();
    assert_eq!(track_sender.packet_of(0), None);
    for offset in 0..100u64 {
        track_sender.note_sent(65_500 + offset, 1000 + offset, 1);
    }
    track_sender.note_sent(65_600, 5000, 10);
    assert_eq!(track_sender.packet_of(65_500), Some(1000));
    assert_eq!(track_sender.packet_of(65_599), Some(1099));
    assert_eq!(track_sender.packet_of(65_605), Some(5005));
    assert_eq!(track_sender.packet_of(65_499), None, "before the first");
    assert_eq!(track_sender.packet_of(65_610), None, "not sent yet");
    for skip in 1..=RUNS_MAX as u64 {
        track_sender.note_sent(65_609 + skip, 10_000 * skip, 1);
    }
    assert_eq!(track_sender.packet_of(65_500), None, "too many skips ago");
}

#[test]
fn sequence_numbers_that_are_left_out_lead_to_no_packet() {
    let mut track_sender = video();
    track_sender.note_sent(100, 0, 3);
    // Packets 3 and 4 follow a gap of seven sequence numbers.
    track_sender.note_sent(110, 3, 2);
    // Packets are left out, and no sequence number.
    track_sender.note_sent(112, 9, 1);
    let found: Vec<_> = [100, 102, 103, 109, 110, 111, 112, 113]
        .map(|sequence| track_sender.packet_of(sequence))
        .into();
    let expected = [
        Some(0),
        Some(2),
        None,
        None,
        Some(3),
        Some(4),
        Some(9),
        None,
    ];
    assert_eq!(found, expected);
}
