use glassline_voice::SignalDelay;
use proptest::prelude::*;

use super::sampled::SAMPLED_MAX;
use super::*;

const SSRC: Ssrc = Ssrc(7);

/// The time `us` µs after the call's begin.
fn at(begin: Instant, us: u64) -> Instant {
    begin + Duration::from_micros(us)
}

const fn us(us: u64) -> Duration {
    Duration::from_micros(us)
}

/// Send stamps of frame `number` of 10 ms, with every stage.
fn spoken(begin: Instant, number: u64) -> SendStamps {
    let first = number * 10_000;
    let stamp = |after: u64| at(begin, first + after);
    SendStamps {
        timestamp: (number + 3) * 480,
        duration: us(10_000),
        captured: stamp(0),
        delivered: stamp(12_000),
        framed: stamp(13_000),
        preprocessed: stamp(13_200),
        encode_began: stamp(13_230),
        encoded: stamp(13_330),
        enqueued: Some(stamp(13_331)),
        paced: Some(stamp(13_333)),
        handed_over: Some(stamp(13_336)),
        dequeued: Some(stamp(13_340)),
        sent: Some(stamp(13_345)),
        signal: SignalDelay {
            resample: us(300),
            preprocess: us(7_600),
            encode: us(6_500),
        },
        encoded_something: true,
    }
}

/// Playout stamps of the same frame at the other end, `network` µs later.
fn heard(begin: Instant, number: u64, network: u64) -> PlayoutStamps {
    let first = number * 10_000 + 13_345 + network;
    let stamp = |after: u64| at(begin, first + after);
    PlayoutStamps {
        ssrc: SSRC,
        // The receiver joined after the stream's first wrap.
        timestamp: (number + 3) * 480 + (1 << 32),
        sequence: Some(number as u16),
        arrived: stamp(0),
        opened: stamp(5),
        inserted: stamp(9),
        pulled: stamp(4_009),
        decode: us(30),
        mix: us(4),
        resample: us(6),
        called: stamp(4_009),
        played: stamp(14_009),
        operation: Operation::Normal,
        signal: SignalDelay {
            resample: us(200),
            ..SignalDelay::default()
        },
    }
}

fn again(timestamp: u32, at: Instant, why: DuplicateReason) -> DuplicateRecord {
    let ssrc = SSRC;
    DuplicateRecord {
        ssrc,
        timestamp,
        at,
        why,
    }
}

fn count(report: &Report, stage: Stage) -> (u64, u64, u64) {
    let table = report.table(stage);
    table.map_or((0, 0, 0), |it| (it.count, it.unmatched, it.lost))
}

#[test]
fn the_stages_of_each_frame_add_up_to_mouth_to_ear() {
    let begin = Instant::now();
    let mut join = Join::new();
    for number in 0..100 {
        join.record_sent(SSRC, spoken(begin, number), None);
        join.record_played(heard(begin, number, 20_000 + number * 10), None);
    }
    let report = join.finish("test");
    assert_eq!(report.frames.len(), 100);
    for frame in &report.frames {
        let whole = frame.stages_ms.get(Stage::MouthToEar);
        assert_eq!(Some(frame.stages_ms.sum()), whole);
    }
    // 13345 + 20000 + 14009 µs on the clock, 14600 in the samples.
    let first = report.frames[0].mouth_to_ear_ms;
    assert!((first - 61.954).abs() < 1e-6, "{first}");
    let whole = report.table(Stage::MouthToEar).expect("joined");
    let mean = whole.mean_ms.expect("joined");
    assert!(
        (report.mean_ms() - mean).abs() < 0.001,
        "{}",
        report.mean_ms()
    );
    let ms = |stage| report.table(stage).and_then(|it| it.p50_ms).expect("seen");
    let wanted = [
        (Stage::Capture, 10.0),
        (Stage::Reframe, 3.0),
        (Stage::Preprocess, 0.2),
        (Stage::PreprocessSignal, 7.6),
        (Stage::Encode, 0.13),
        (Stage::EncodeQueue, 0.03),
        (Stage::EncodeOperation, 0.1),
        (Stage::EncodeLookAhead, 6.5),
        (Stage::Send, 0.015),
        (Stage::SendEnqueue, 0.001),
        (Stage::SendPace, 0.002),
        (Stage::SendHandOver, 0.003),
        (Stage::SendQueue, 0.004),
        (Stage::SendSocket, 0.005),
        (Stage::Open, 0.009),
        (Stage::JitterBuffer, 4.0),
        (Stage::Mixer, 0.034),
        (Stage::Resample, 0.006),
        (Stage::ResampleSignal, 0.5),
        (Stage::Playout, 9.96),
    ];
    for (stage, wanted) in wanted {
        assert!((ms(stage) - wanted).abs() < 1e-9, "{stage}: {}", ms(stage));
    }
}

#[test]
fn a_device_that_plays_within_its_call_takes_nothing_twice() {
    let begin = Instant::now();
    let mut join = Join::new();
    let mut heard = heard(begin, 0, 1_000);
    heard.played = heard.pulled + us(10);
    join.record_sent(SSRC, spoken(begin, 0), None);
    join.record_played(heard, None);
    let report = join.finish("test");
    let way = report.frames[0].stages_ms;
    assert_eq!(Some(way.sum()), way.get(Stage::MouthToEar));
    assert_eq!(way.get(Stage::Playout), Some(0));
    assert_eq!(way.get(Stage::Resample), Some(0));
    assert_eq!(way.get(Stage::Decode), Some(10_000));
    // The operation took as long as it took.
    assert_eq!(
        report.table(Stage::Decode).and_then(|it| it.p50_ms),
        Some(0.03)
    );
}

#[test]
fn a_packet_that_arrives_within_the_call_that_sends_it_takes_no_time() {
    let begin = Instant::now();
    let mut join = Join::new();
    let mut spoken = spoken(begin, 0);
    spoken.sent = Some(at(begin, 13_640));
    join.record_sent(SSRC, spoken, None);
    join.record_played(heard(begin, 0, 100), None);
    let report = join.finish("test");
    let way = report.frames[0].stages_ms;
    assert_eq!(Some(way.sum()), way.get(Stage::MouthToEar));
    assert_eq!(way.get(Stage::Network), Some(0));
    assert_eq!(way.get(Stage::SendSocket), Some(105_000));
    // The call itself took as long as it took.
    let socket = report.table(Stage::SendSocket).expect("sent");
    assert_eq!(socket.p50_ms, Some(0.3));
}

#[test]
fn what_was_lost_late_or_unknown_is_counted_where_it_was_seen_last() {
    let begin = Instant::now();
    let mut join = Join::new();
    for number in 0..10 {
        join.record_sent(SSRC, spoken(begin, number), None);
    }
    for number in (0..10).filter(|it| ![2, 5, 7].contains(it)) {
        join.record_played(heard(begin, number, 5_000), None);
    }
    let number = |number: u32| (number + 3) * 480;
    // 5 came too late; 4 came twice; 99 was never sent.
    join.duplicate(again(number(5), at(begin, 250_000), DuplicateReason::Late));
    join.duplicate(again(
        number(4),
        at(begin, 65_000),
        DuplicateReason::Duplicate,
    ));
    join.duplicate(again(
        number(99),
        at(begin, 90_000),
        DuplicateReason::Duplicate,
    ));
    join.record_played(heard(begin, 50, 0), None);
    let report = join.finish("test");
    assert_eq!(count(&report, Stage::Network), (8, 2, 2));
    assert_eq!(count(&report, Stage::JitterBuffer), (8, 0, 1));
    assert_eq!(count(&report, Stage::MouthToEar), (7, 1, 3));
    let kinds: Vec<_> = report.copies.iter().map(|it| (it.kind, it.count)).collect();
    assert_eq!(
        kinds,
        [(DuplicateReason::Duplicate, 2), (DuplicateReason::Late, 1)]
    );
    let after = report.copies[0].after_max_ms.expect("4 came twice");
    assert!((after - 6.655).abs() < 1e-9, "{after}");
}

#[test]
fn a_redundant_copy_is_heard_but_the_packet_stays_lost() {
    let begin = Instant::now();
    let mut join = Join::new();
    join.record_sent(SSRC, spoken(begin, 0), None);
    let mut copy = heard(begin, 0, 25_000);
    copy.operation = Operation::Repeated;
    copy.sequence = None;
    join.record_played(copy, None);
    // Then the packet itself arrives, which now is a copy.
    join.record_played(heard(begin, 0, 40_000), None);
    let report = join.finish("test");
    assert_eq!(count(&report, Stage::Network), (0, 0, 1));
    assert_eq!(count(&report, Stage::MouthToEar), (1, 0, 0));
    let kinds: Vec<_> = report.copies.iter().map(|it| (it.kind, it.count)).collect();
    assert_eq!(
        kinds,
        [
            (DuplicateReason::Duplicate, 1),
            (DuplicateReason::Redundant, 1)
        ]
    );
}

#[test]
fn copies_along_with_later_packets_are_rows_of_the_first() {
    let begin = Instant::now();
    let number = |number: u32| (number + 3) * 480;
    // The ends' queues may be drained in any order.
    for is_told_first in [true, false] {
        let mut join = Join::new();
        for number in 0..4 {
            join.record_sent(SSRC, spoken(begin, number), None);
        }
        let mut played = heard(begin, 1, 25_000);
        played.operation = Operation::Repeated;
        played.sequence = None;
        let copied = |join: &mut Join| {
            for (frame, us) in [(0, 28_345), (2, 48_345), (3, 68_345)] {
                join.duplicate(again(
                    number(frame),
                    at(begin, us),
                    DuplicateReason::Redundant,
                ));
            }
            join.duplicate(again(number(1), played.arrived, DuplicateReason::Redundant));
        };
        if is_told_first {
            copied(&mut join);
        }
        join.record_played(heard(begin, 0, 5_000), None);
        join.record_played(played, None);
        join.record_played(heard(begin, 2, 5_000), None);
        if !is_told_first {
            copied(&mut join);
        }
        let report = join.finish("test");
        // The fourth frame was in a copy, and neither the packet nor its copy was played.
        assert_eq!(count(&report, Stage::Network), (2, 0, 2));
        assert_eq!(count(&report, Stage::MouthToEar), (3, 0, 1));
        let kinds: Vec<_> = report.copies.iter().map(|it| (it.kind, it.count)).collect();
        assert_eq!(kinds, [(DuplicateReason::Redundant, 4)], "{is_told_first}");
        assert_eq!(report.copies[0].after_max_ms, Some(25.0));
    }
}

#[test]
fn what_only_one_end_could_tell_at_begin_and_end_is_not_lost() {
    let begin = Instant::now();
    let mut join = Join::with_remote_end();
    for number in 0..20 {
        join.record_sent(SSRC, spoken(begin, number), None);
    }
    for number in (1..10).filter(|it| *it != 4) {
        join.record_played(heard(begin, number, 5_000), Some(us(100)));
    }
    // The far end's records begin with frame 1.
    let report = join.finish_remote("test");
    assert_eq!(count(&report, Stage::Network), (8, 0, 1));
    assert_eq!(count(&report, Stage::MouthToEar), (8, 0, 1));
    assert_eq!(count(&report, Stage::Send).0, 20);
    assert!(report.notes[0].contains("11 frames"), "{:?}", report.notes);
}

#[test]
fn encoding_counts_where_it_made_a_packet_or_took_long() {
    let begin = Instant::now();
    let mut join = Join::new();
    for number in 0..4 {
        let mut frame = spoken(begin, number);
        frame.encoded_something = number % 2 == 1;
        if number == 2 {
            frame.encoded = frame.encode_began + us(501);
        }
        join.record_sent(SSRC, frame, None);
    }
    let report = join.finish("test");
    assert_eq!(count(&report, Stage::EncodeOperation).0, 3);
    assert_eq!(count(&report, Stage::Preprocess).0, 4);
    assert_eq!(count(&report, Stage::Network), (0, 0, 2), "two were sent");
}

#[test]
fn the_clocks_error_is_on_the_network_and_on_the_whole() {
    let begin = Instant::now();
    let mut join = Join::new();
    join.record_sent(SSRC, spoken(begin, 0), Some(us(400)));
    join.record_sent(SSRC, spoken(begin, 1), Some(us(300)));
    // The clocks disagree by more than the network's delay.
    let mut early = heard(begin, 0, 0);
    early.arrived -= us(200);
    join.record_played(early, None);
    join.record_played(heard(begin, 1, 100), None);
    let report = join.finish("test");
    let network = report.table(Stage::Network).expect("joined");
    assert_eq!(network.error_ms, Some(0.4));
    assert_eq!(network.rows[0].0.to_string(), "(...-0)");
    assert_eq!(
        report.table(Stage::MouthToEar).and_then(|it| it.error_ms),
        Some(0.4)
    );
    assert_eq!(report.table(Stage::Open).and_then(|it| it.error_ms), None);
}

#[test]
fn intervals_are_of_every_call_of_a_device() {
    let begin = Instant::now();
    let mut join = Join::new();
    for us in [0, 10_000, 20_500, 29_000] {
        join.capture_called(at(begin, us));
    }
    join.playout_called(begin);
    let report = join.finish("test");
    let rows = &report
        .table(Stage::CaptureInterval)
        .expect("four calls")
        .rows;
    let rows: Vec<_> = rows.iter().map(|it| (it.0.to_string(), it.1)).collect();
    assert_eq!(rows, [("8".to_owned(), 1), ("10".to_owned(), 2)]);
    assert!(report.table(Stage::PlayoutInterval).is_none());
}

#[test]
fn a_call_of_days_holds_seconds_of_records() {
    let begin = Instant::now();
    let mut join = Join::new();
    for number in 0..20_000 {
        join.record_sent(SSRC, spoken(begin, number), None);
        if number % 10 != 0 {
            join.record_played(heard(begin, number, 20_000), None);
        }
        assert!(join.waiting.len() <= 1_010, "{}", join.waiting.len());
        assert_eq!(join.waiting.len(), join.order.len());
    }
    let report = join.finish("test");
    assert_eq!(count(&report, Stage::Network), (18_000, 0, 2_000));
    assert!(report.frames.len() <= SAMPLED_MAX && report.frames.len() > SAMPLED_MAX / 3);
}

proptest! {
    /// In any order, every frame with records of both ends is joined, and every other frame is
    /// counted once.
    #[test]
    fn no_frame_is_lost_by_order(
        frames in proptest::collection::vec((any::<bool>(), any::<bool>(), 0u64..800_000), 1..60),
        order in proptest::collection::vec(any::<u32>(), 120),
    ) {
        let begin = Instant::now();
        let mut records = Vec::new();
        for (number, (is_spoken, is_heard, delay)) in frames.iter().enumerate() {
            let number = number as u64;
            records.extend(is_spoken.then_some((number, None)));
            records.extend(is_heard.then_some((number, Some(*delay))));
        }
        let mut keyed: Vec<_> = records.iter().zip(&order).collect();
        keyed.sort_by_key(|it| it.1);
        let mut join = Join::new();
        for ((number, delay), _) in keyed {
            match delay {
                None => join.record_sent(SSRC, spoken(begin, *number), None),
                Some(delay) => join.record_played(heard(begin, *number, *delay), None),
            }
        }
        let report = join.finish("test");
        let both = frames.iter().filter(|it| it.0 && it.1).count() as u64;
        let spoken = frames.iter().filter(|it| it.0).count() as u64;
        let heard = frames.iter().filter(|it| it.1).count() as u64;
        prop_assert_eq!(count(&report, Stage::Network), (both, heard - both, spoken - both));
        prop_assert_eq!(count(&report, Stage::JitterBuffer).0, heard);
        for frame in &report.frames {
            prop_assert_eq!(Some(frame.stages_ms.sum()), frame.stages_ms.get(Stage::MouthToEar));
        }
    }
}
