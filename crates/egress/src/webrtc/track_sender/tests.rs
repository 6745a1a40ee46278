use super::*;
use glassline_media::{LayerIndex, Stamps, Temporal, TrackIndex, UnitBuilder};

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
    of(Codec::H264)
}

fn of(codec: Codec) -> TrackSender {
    TrackSender::new(
        TrackIndex(0).into(),
        SenderIndex(0),
        codec,
        90_000,
        1_000_000,
    )
}

/// Returns the timestamp of a unit of the present leg.
fn timestamp(track_sender: &TrackSender, unit: &MediaUnit) -> u32 {
    track_sender.timestamp(unit, track_sender.legs.present())
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
    assert!(!track_sender.catch_up(vec![Arc::clone(&point)], None, now));
    assert_eq!(track_sender.offer(&point, now), OfferOutcome::Passed);
    assert_eq!(track_sender.offer(&idr, now), OfferOutcome::Queued);
    let next = unit(2, 1);
    assert_eq!(track_sender.offer(&next, now), OfferOutcome::Queued);
}

#[test]
fn a_new_viewer_starts_at_the_keyframe_and_time_is_squeezed_to_now() {
    let (mut track_sender, now) = (video(), Instant::now());
    let past: Vec<_> = (60..90).map(|index| unit(index, index == 60)).collect();
    assert!(track_sender.catch_up(past.clone(), None, now));
    assert_eq!(
        track_sender.offer(&past[29], now),
        OfferOutcome::Passed,
        "already in the past"
    );
    assert_eq!(
        track_sender.offer(&unit(90, false), now),
        OfferOutcome::Queued
    );
    let ticks = |index| timestamp(&track_sender, &unit(index, false)).wrapping_sub(1_000_000);
    assert_eq!(ticks(89), 89 * 3000);
    assert_eq!(ticks(90), 90 * 3000);
    let squeezed: Vec<u32> = (60..=89).map(ticks).collect();
    assert!(
        squeezed.windows(2).all(|pair| pair[0] < pair[1]),
        "order is kept"
    );
    let span = squeezed[29] - squeezed[0];
    assert!(span.abs_diff(29 * 3000 / 32) <= 1, "{span} ticks");
    let leg = track_sender.legs.present();
    assert!(leg.is_past(past[0].time) && !leg.is_past(past[29].time));
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
    assert!(track_sender.catch_up(past, None, start));
    let span = timestamp(&track_sender, &newest).wrapping_sub(timestamp(&track_sender, &oldest));
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
        track_sender.catch_up(past, None, now)
    };
    assert!(begins(long(60, 480_000)) && !begins(long(60, 600_000)));
    // The next keyframe of a "smart codec" may be a minute away.
    assert!(begins(long(300, 3_000_000)) && !begins(long(300, 9_000_000)));
}

#[test]
fn without_a_keyframe_the_viewer_waits_for_one() {
    let (mut track_sender, now) = (video(), Instant::now());
    assert!(!track_sender.catch_up(Vec::new(), None, now));
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
    let outcome = track_sender.offer(&unit(5, false), start + ms(1_720));
    assert_eq!(outcome, OfferOutcome::Queued);
    assert!(!track_sender.wants_keyframe());
    // Late frames leave until the next keyframe comes, with which they are dropped.
    let outcome = track_sender.offer(&unit(6, false), start + ms(1_740));
    assert_eq!(outcome, OfferOutcome::Queued);
    assert!(track_sender.wants_keyframe());
    let outcome = track_sender.offer(&unit(7, true), start + ms(1_800));
    assert_eq!(outcome, OfferOutcome::Skipped { frames: 6 });
    assert!(!track_sender.wants_keyframe());
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
    assert_eq!(outcome, OfferOutcome::Queued);
    assert!(track_sender.wants_keyframe());
    let outcome = track_sender.offer(&unit(3, false), late + SendLimits::PACED.late);
    assert_eq!(outcome, OfferOutcome::Skipped { frames: 3 });
}

/// A unit of a layer, with a picture ID of VP8 in each packet.
fn of_layer(layer: u8, index: u64, time_ms: i64, keyframe: bool) -> Arc<MediaUnit> {
    let mut builder = UnitBuilder::default();
    let id = u8::try_from(index).expect("small");
    builder.push(&[0x90, 0x80, 0x80, id, 1]);
    builder.push(&[0x80, 0x80, 0x80, id, 2]);
    let time = MediaTime::from_nanos(time_ms * 1_000_000);
    let stamps = Stamps::arrived(Instant::now());
    let unit = builder.build(TrackIndex(0), time, keyframe, stamps);
    let mut unit = unit.expect("packets");
    (unit.layer, unit.index, unit.first_packet) = (LayerIndex(layer), index, index * 2);
    Arc::new(unit)
}

/// A viewer that got frames 0 and 1 of layer 3, at 0 and 33 ms, under the sequence numbers 100 to 103.
fn on_layer_3(start: Instant) -> (TrackSender, Arc<MediaUnit>) {
    let mut track_sender = of(Codec::Vp8);
    assert!(
        track_sender.switch_to(LayerMove::to(LayerIndex(3))),
        "a keyframe is needed"
    );
    assert!(track_sender.target().is_none(), "nothing was sent yet");
    let units = [of_layer(3, 0, 0, true), of_layer(3, 1, 33, false)];
    for (unit, sequence) in units.iter().zip([100, 102]) {
        assert_eq!(track_sender.offer(unit, start), OfferOutcome::Queued);
        let (leg, packet) = (track_sender.legs.number(), unit.first_packet);
        track_sender.note_sent(sequence, SentPacket { leg, packet }, 2);
        track_sender.advance(2, start);
    }
    let [_, last] = units;
    (track_sender, last)
}

#[test]
fn a_viewer_moves_at_a_keyframe_and_its_numbers_and_times_go_on() {
    let now = Instant::now();
    let (mut track_sender, last) = on_layer_3(now);
    assert!(track_sender.switch_to(LayerMove::to(LayerIndex(1))));
    assert!(
        !track_sender.switch_to(LayerMove::to(LayerIndex(1))),
        "it is on its way"
    );
    assert_eq!(
        track_sender.target().map(|it| it.layer),
        Some(LayerIndex(1))
    );
    let cross = |track_sender: &mut TrackSender, unit: &Arc<MediaUnit>| {
        track_sender.cross(unit, Some(&last), now)
    };
    assert!(
        !cross(&mut track_sender, &of_layer(1, 70, 50, false)),
        "no keyframe"
    );
    assert!(
        !cross(&mut track_sender, &of_layer(2, 70, 50, true)),
        "another layer"
    );
    let early = of_layer(1, 71, -42, true);
    assert!(!cross(&mut track_sender, &early), "76 ms would be a pause");
    let first = of_layer(1, 80, -20, true);
    assert!(cross(&mut track_sender, &first));
    assert_eq!(
        (track_sender.source.layer, track_sender.target()),
        (LayerIndex(1), None)
    );
    let next = of_layer(1, 81, 13, false);
    assert_eq!(track_sender.offer(&next, now), OfferOutcome::Queued);
    let ticks = |unit| timestamp(&track_sender, unit).wrapping_sub(1_000_000);
    assert_eq!([ticks(&first), ticks(&next)], [34 * 90, 67 * 90]);
    let mut payload = next.payload(1).expect("a packet").to_vec();
    let number_shift = *track_sender.legs.present().number_shift();
    number_shift.rewrite(Codec::Vp8, &mut payload);
    assert_eq!(payload, [0x80, 0x80, 0x80, 3, 2]);
    assert!(
        !track_sender.switch_to(LayerMove::to(LayerIndex(1))),
        "it is there"
    );
}

#[test]
fn what_left_on_another_layer_is_found_as_it_was() {
    let now = Instant::now();
    let (mut track_sender, last) = on_layer_3(now);
    track_sender.switch_to(LayerMove::to(LayerIndex(1)));
    let first = of_layer(1, 50, 40, true);
    assert!(track_sender.cross(&first, Some(&last), now));
    let (leg, packet) = (track_sender.legs.number(), first.first_packet);
    track_sender.note_sent(104, SentPacket { leg, packet }, 2);
    let found = |sequence| {
        let sent = track_sender.packet_of(sequence)?;
        let leg = track_sender.leg(sent.leg)?;
        Some((leg.layer().0, sent.packet, leg.number_shift().is_none()))
    };
    let expected = [Some((3, 3, true)), Some((1, 100, false)), None];
    assert_eq!([103, 104, 106].map(found), expected);
    let before = track_sender.packet_of(103).expect("sent");
    assert!(
        !track_sender.is_given_up(before),
        "the frame is still shown"
    );
    let ticks = track_sender
        .leg(before.leg)
        .map(|leg| track_sender.timestamp(&last, &leg));
    assert_eq!(ticks, Some(1_000_000 + 33 * 90));
}

#[test]
fn a_viewer_that_is_late_leaves_its_layer_without_what_waits() {
    let start = Instant::now();
    let (mut track_sender, _) = on_layer_3(start);
    let waiting = of_layer(3, 2, 66, false);
    track_sender.offer(&waiting, start);
    track_sender.switch_to(LayerMove::to(LayerIndex(1)));
    let first = of_layer(1, 50, 500, true);
    let late = start + Duration::from_millis(201);
    assert!(track_sender.cross(&first, Some(&waiting), late));
    let front = track_sender.front().expect("the keyframe");
    assert_eq!(front.unit.layer, LayerIndex(1));
    let before = track_sender.packet_of(103).expect("sent");
    assert!(track_sender.is_given_up(before));
}

#[test]
fn a_viewer_whose_path_is_too_narrow_does_not_finish_a_frame_of_the_layer_it_leaves() {
    let now = Instant::now();
    for drops_waiting in [true, false] {
        let (mut track_sender, _) = on_layer_3(now);
        let large = of_layer(3, 2, 66, false);
        track_sender.offer(&large, now);
        track_sender.advance(1, now);
        track_sender.switch_to(LayerMove {
            drops_waiting,
            ..LayerMove::to(LayerIndex(1))
        });
        assert!(track_sender.cross(&of_layer(1, 50, 100, true), Some(&large), now));
        let front = track_sender.front().expect("a frame");
        let expected = if drops_waiting { (1, 0) } else { (3, 1) };
        assert_eq!((front.unit.layer.0, front.sent), expected);
        let before = track_sender.packet_of(103).expect("sent");
        assert_eq!(track_sender.is_given_up(before), drops_waiting);
    }
}

#[test]
fn a_viewer_moves_back_to_its_layer_before_it_left() {
    let now = Instant::now();
    let (mut track_sender, _) = on_layer_3(now);
    assert!(track_sender.switch_to(LayerMove::to(LayerIndex(1))));
    assert!(!track_sender.switch_to(LayerMove::to(LayerIndex(3))));
    assert!(track_sender.target().is_none());
    let next = of_layer(3, 2, 66, false);
    assert_eq!(track_sender.offer(&next, now), OfferOutcome::Queued);
}

#[test]
fn frames_to_which_no_other_refers_are_left_out_while_others_wait_and_no_others_are() {
    let unit = |index: u64, header: u8| {
        let mut builder = UnitBuilder::default();
        builder.push(&[header, 9]);
        let stamps = Stamps::arrived(Instant::now());
        let time = MediaTime::from_nanos(i64::try_from(index).expect("small") * 33_000_000);
        let unit = builder.build(TrackIndex(0), time, header == 0x65, stamps);
        let mut unit = unit.expect("a packet");
        unit.index = index;
        unit.first_packet = index;
        Arc::new(unit)
    };
    let (mut viewer, start) = (video(), Instant::now());
    let at = |ms| start + Duration::from_millis(ms);
    assert_eq!(viewer.offer(&unit(0, 0x65), at(0)), OfferOutcome::Queued);
    assert_eq!(
        viewer.offer(&unit(1, 0x01), at(33)),
        OfferOutcome::Queued,
        "soon"
    );
    let left_out = OfferOutcome::Skipped { frames: 1 };
    assert_eq!(viewer.offer(&unit(2, 0x01), at(66)), left_out);
    assert_eq!(viewer.offer(&unit(3, 0x41), at(99)), OfferOutcome::Queued);
    assert!(!viewer.wants_keyframe());
    viewer.may_leave_out(false);
    assert_eq!(viewer.offer(&unit(4, 0x01), at(132)), OfferOutcome::Queued);
    viewer.may_leave_out(true);
    for _ in 0..4 {
        viewer.advance(1, at(140));
    }
    assert_eq!(
        viewer.offer(&unit(5, 0x01), at(165)),
        OfferOutcome::Queued,
        "nothing waits"
    );
}

#[test]
fn frames_above_a_lower_limit_are_dropped_and_the_numbers_of_the_others_go_on() {
    let start = Instant::now();
    let temporal = |index: u64, layer: u8| {
        let time_ms = i64::try_from(index).expect("small") * 33;
        let unit = of_layer(0, index, time_ms, index == 0);
        let mut unit = Arc::into_inner(unit).expect("the only owner");
        unit.temporal = Temporal {
            layer,
            needs: layer.saturating_sub(1),
            opens: layer,
            discardable: layer == 2,
        };
        Arc::new(unit)
    };
    let mut viewer = of(Codec::Vp8);
    for (index, layer) in (0..).zip([0, 2, 1, 2, 0, 2]) {
        let outcome = viewer.offer(&temporal(index, layer), start);
        assert_eq!(outcome, OfferOutcome::Queued);
    }
    viewer.advance(2, start);
    viewer.advance(1, start);
    viewer.limit_temporal_layers(0);
    assert_eq!(viewer.offer(&temporal(6, 1), start), OfferOutcome::Passed);
    assert_eq!(viewer.offer(&temporal(7, 0), start), OfferOutcome::Queued);
    let shown = |queued: &Queued| {
        let mut payload = queued.unit.payload(0).expect("a packet").to_vec();
        let leg = viewer.leg(queued.leg).expect("the present one");
        leg.number_shift().rewrite(Codec::Vp8, &mut payload);
        (queued.unit.index, payload[3])
    };
    let waiting: Vec<_> = viewer.queue.iter().map(shown).collect();
    assert_eq!(
        waiting,
        [(1, 1), (4, 2), (7, 3)],
        "what has begun is finished"
    );
    assert!(viewer.needs_no_more(temporal(2, 1).temporal));
    assert!(!viewer.needs_no_more(temporal(4, 0).temporal));
}
