use super::*;
use glassline_media::{DecodeLead, MediaTime, Stamps, TrackIndex, UnitBuilder};
use proptest::prelude::*;
use std::time::Duration;

fn unit(packets: usize, keyframe: bool, at: Instant) -> MediaUnit {
    let mut builder = UnitBuilder::default();
    for packet in 0..packets {
        builder.push(&[u8::try_from(packet).unwrap_or(255); 100]);
    }
    builder
        .build(
            TrackIndex(0),
            MediaTime::ZERO,
            keyframe,
            Stamps::arrived(at),
        )
        .expect("has packets")
}

#[test]
fn temporal_layers_are_measured_apart() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut ring = Ring::default();
    for frame in 0..=60_u64 {
        // Layers 0, 2, 1, 2, with a packet of 100 bytes every 20 ms.
        let mut unit = unit(1, frame == 0, at(20 * frame));
        unit.temporal.layer = [0, 2, 1, 2][usize::try_from(frame % 4).expect("small")];
        ring.push(unit, &Limits::default());
    }
    let figures = ring.figures(at(1_200));
    let rates = figures.temporal_rates.of_layers().iter().map(|it| it.bps());
    assert_eq!(rates.collect::<Vec<_>>(), [10_000, 20_000, 40_000]);
    assert_eq!(figures.bitrate.bps(), 40_000);
    for frame in 0..200 {
        ring.push(unit(1, false, at(2_000 + 20 * frame)), &Limits::default());
    }
    let figures = ring.figures(at(6_000));
    assert!(
        figures.temporal_rates.of_layers().is_empty(),
        "it has ended"
    );
}

#[test]
fn the_distance_of_keyframes_is_that_of_their_times_however_they_arrive() {
    let start = Instant::now();
    let mut ring = Ring::default();
    for second in 0..4 {
        let mut keyframe = unit(1, true, start);
        keyframe.time = MediaTime::from_nanos(2_000_000_000 * second);
        ring.push(keyframe, &Limits::default());
    }
    let interval = ring.figures(start).keyframe_interval;
    assert_eq!(interval, Some(Duration::from_secs(2)));
}

#[test]
fn figures_are_those_of_the_last_two_seconds_and_of_the_present_source() {
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    let mut ring = Ring::default();
    assert_eq!(ring.figures(start), LayerFigures::default());
    for frame in 0..=200 {
        // Two packets of 100 bytes every 20 ms, and a keyframe every second.
        let mut unit = unit(2, frame % 50 == 0, at(20 * frame));
        unit.time = MediaTime::from_nanos(20_000_000 * frame.cast_signed());
        ring.push(unit, &Limits::default());
    }
    let figures = ring.figures(at(4100));
    assert!((figures.frame_rate - 50.0).abs() < 1e-9, "{figures:?}");
    assert_eq!(figures.bitrate.bps(), 80_000);
    assert_eq!(figures.keyframe_interval, Some(Duration::from_secs(1)));
    assert_eq!(figures.since_keyframe, Some(Duration::from_millis(100)));
    // Nothing came for a while.
    let late = ring.figures(at(9000));
    assert_eq!((late.frame_rate, late.bitrate.bps()), (0.0, 0));
    assert_eq!(late.since_keyframe, Some(Duration::from_secs(5)));
    ring.begin_source();
    ring.push(unit(1, true, at(60_000)), &Limits::default());
    let figures = ring.figures(at(60_010));
    assert_eq!(figures.keyframe_interval, None, "another source");
    assert_eq!(figures.since_keyframe, Some(Duration::from_millis(10)));
}

#[test]
fn packets_are_found_by_number_until_evicted() {
    let start = Instant::now();
    let limits = Limits::default();
    let mut ring = Ring::default();
    for frame in 0..90u32 {
        ring.push(
            unit(
                3,
                frame % 30 == 0,
                start + frame * Duration::from_millis(33),
            ),
            &limits,
        );
    }
    let (found, index) = ring.find(3 * 80 + 2).expect("recent");
    assert_eq!((found.index, index), (80, 2));
    assert!(ring.find(3 * 90).is_none(), "not yet published");
    assert!(ring.find(0).is_none(), "before the repair span");
    let mut gop = Vec::new();
    ring.since_keyframe(&mut gop);
    assert_eq!((gop[0].index, gop.len()), (60, 30));
    assert_eq!(ring.latest_keyframe().map(|unit| unit.index), Some(60));
}

#[test]
fn a_cleared_ring_has_no_units_and_counts_on() {
    let start = Instant::now();
    let limits = Limits::default();
    let mut ring = Ring::default();
    for _ in 0..3 {
        ring.push(unit(2, true, start), &limits);
    }
    ring.clear();
    let mut out = Vec::new();
    ring.since_keyframe(&mut out);
    assert!(out.is_empty(), "the keyframe is gone");
    assert!(ring.latest_keyframe().is_none());
    assert!(ring.find(5).is_none());
    assert_eq!((ring.bytes(), ring.next_index()), (0, 3));
    let next = ring.push(unit(2, false, start), &limits);
    assert_eq!((next.index, next.first_packet), (3, 6));
    ring.since_keyframe(&mut out);
    assert!(out.is_empty(), "no keyframe has come yet");
}

#[test]
fn a_reader_that_fell_behind_learns_how_far() {
    let start = Instant::now();
    let limits = Limits {
        ring_bytes: 2_000,
        ..Limits::default()
    };
    let mut ring = Ring::default();
    for _ in 0..50 {
        ring.push(unit(1, true, start), &limits);
    }
    let mut out = Vec::new();
    let gone = ring.read_from(10, &mut out);
    assert!(gone > 0);
    assert_eq!(out[0].index, 10 + gone);
    assert_eq!(out.last().map(|unit| unit.index), Some(49));
}

const MS: Duration = Duration::from_millis(1);

/// Numbers of the units that a reader from the beginning gets.
fn kept(ring: &Ring) -> Vec<u64> {
    let mut out = Vec::new();
    ring.read_from(0, &mut out);
    out.iter().map(|unit| unit.index).collect()
}

/// A ring with one-packet units that were published at these times in ms, keyframes first.
fn ring_at(limits: &Limits, start: Instant, units: &[(u32, bool)]) -> Ring {
    let mut ring = Ring::default();
    for (ms, keyframe) in units {
        ring.push(unit(1, *keyframe, start + *ms * MS), limits);
    }
    ring
}

#[test]
fn a_unit_before_the_keyframe_stays_for_the_repair_span_and_no_longer() {
    let limits = Limits {
        repair_span: 100 * MS,
        ..Limits::default()
    };
    let start = Instant::now();
    let times = |last| [(0, true), (10, true), (last, false)];
    assert_eq!(kept(&ring_at(&limits, start, &times(100))), [0, 1, 2]);
    assert_eq!(kept(&ring_at(&limits, start, &times(101))), [1, 2]);
    // The latest keyframe itself stays however old, since viewers begin with it.
    assert_eq!(kept(&ring_at(&limits, start, &times(5_000))), [1, 2]);
}

#[test]
fn without_a_keyframe_a_unit_stays_for_the_ring_span_and_no_longer() {
    let limits = Limits {
        ring_span: 1_000 * MS,
        repair_span: 100 * MS,
        ..Limits::default()
    };
    let start = Instant::now();
    let times = |last| [(0, false), (500, false), (last, false)];
    assert_eq!(kept(&ring_at(&limits, start, &times(1_000))), [0, 1, 2]);
    assert_eq!(kept(&ring_at(&limits, start, &times(1_001))), [1, 2]);
}

/// mediamtx#1763: cameras space keyframes by tens of seconds when little moves.
#[test]
fn the_latest_keyframe_and_what_follows_stay_beyond_the_ring_span_within_its_bytes() {
    let start = Instant::now();
    let bytes = unit(1, false, start).memory_bytes();
    let limits = |units: usize| Limits {
        ring_bytes: units * bytes,
        ring_span: 1_000 * MS,
        repair_span: 100 * MS,
        ..Limits::default()
    };
    let frames = |count: u32| (0..count).map(|it| (it * 500, it == 0)).collect::<Vec<_>>();
    let all: Vec<u64> = (0..90).collect();
    assert_eq!(kept(&ring_at(&limits(90), start, &frames(90))), all);
    // Without room for the keyframe, what follows is of no use to late viewers.
    assert_eq!(
        kept(&ring_at(&limits(89), start, &frames(90))),
        [87, 88, 89]
    );
    let mut next = frames(90);
    next.push((45_000, true));
    assert_eq!(
        kept(&ring_at(&limits(200), start, &next)),
        [90],
        "the next one"
    );
}

#[test]
fn a_ring_holds_its_bytes_to_the_last_one() {
    let start = Instant::now();
    let bytes = unit(1, false, start).memory_bytes();
    let of_bytes = |ring_bytes| Limits {
        ring_bytes,
        ..Limits::default()
    };
    let four = [(0, true), (1, false), (2, false), (3, false)];
    let ring = ring_at(&of_bytes(3 * bytes), start, &four);
    assert_eq!((kept(&ring), ring.bytes()), (vec![1, 2, 3], 3 * bytes));
    let ring = ring_at(&of_bytes(3 * bytes - 1), start, &four);
    assert_eq!((kept(&ring), ring.bytes()), (vec![2, 3], 2 * bytes));
    let ring = ring_at(&of_bytes(0), start, &four);
    assert_eq!((kept(&ring), ring.bytes()), (vec![3], bytes), "the newest");
}

#[test]
fn a_viewer_begins_with_the_first_part_of_the_latest_keyframe() {
    let limits = Limits::default();
    let start = Instant::now();
    let mut ring = Ring::default();
    let begins = |ring: &Ring| {
        let mut out = Vec::new();
        ring.since_keyframe(&mut out);
        out.iter().map(|unit| unit.index).collect::<Vec<_>>()
    };
    let part = |keyframe, first| {
        let mut part = unit(1, keyframe, start);
        part.first = first;
        part
    };
    ring.push(part(false, true), &limits);
    assert!(begins(&ring).is_empty(), "there was no keyframe");
    ring.push(part(true, true), &limits);
    assert_eq!(begins(&ring), [1]);
    ring.push(part(true, false), &limits);
    assert_eq!(begins(&ring), [1, 2], "its second part is no beginning");
    ring.push(part(false, true), &limits);
    assert_eq!(begins(&ring), [1, 2, 3]);
    assert_eq!(ring.next_index(), 4);
}

#[test]
fn a_viewer_begins_with_a_keyframe_only_while_the_ring_has_it() {
    let start = Instant::now();
    let bytes = unit(1, false, start).memory_bytes();
    let limits = Limits {
        ring_bytes: 2 * bytes,
        ..Limits::default()
    };
    let count = |units: &[(u32, bool)]| {
        let mut out = Vec::new();
        ring_at(&limits, start, units).since_keyframe(&mut out);
        out.len()
    };
    assert_eq!(count(&[(0, false), (1, true), (2, false)]), 2, "the oldest");
    assert_eq!(count(&[(0, true), (1, false), (2, false)]), 0, "it left");
    assert_eq!(count(&[]), 0);
}

#[test]
fn a_reader_skips_what_it_has_and_misses_nothing_that_is_kept() {
    let start = Instant::now();
    let ring = ring_at(
        &Limits::default(),
        start,
        &[(0, true), (1, false), (2, false)],
    );
    let read = |index| {
        let mut out = Vec::new();
        let missed = ring.read_from(index, &mut out);
        let indices = out.iter().map(|unit| unit.index);
        (missed, indices.collect::<Vec<_>>())
    };
    assert_eq!(read(0), (0, vec![0, 1, 2]));
    assert_eq!(read(2), (0, vec![2]));
    assert_eq!(read(3), (0, vec![]));
    assert_eq!(read(u64::MAX), (0, vec![]));
    let empty = Ring::default();
    assert_eq!(empty.read_from(0, &mut Vec::new()), 0);
    assert_eq!((empty.bytes(), empty.next_index()), (0, 0));
}

#[test]
fn packets_are_found_at_the_edges_of_units() {
    let (limits, start) = (Limits::default(), Instant::now());
    let mut ring = Ring::default();
    for packets in [2, 1, 3] {
        ring.push(unit(packets, false, start), &limits);
    }
    let found = (0..7).map(|number| ring.find(number).map(|(unit, at)| (unit.index, at)));
    let wanted = [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)];
    let wanted = wanted.map(Some).into_iter().chain([None]);
    assert!(found.eq(wanted));
    assert!(Ring::default().find(0).is_none());
}

proptest! {
    #[test]
    fn bytes_stay_bounded_and_numbers_gapless(
        shape in prop::collection::vec((1usize..20, any::<bool>(), 0u64..100), 1..200),
    ) {
        let start = Instant::now();
        let limits = Limits { ring_bytes: 20_000, ..Limits::default() };
        let mut ring = Ring::default();
        let (mut at, mut packets) = (start, 0u64);
        for (count, keyframe, gap) in shape {
            at += Duration::from_millis(gap);
            let pushed = ring.push(unit(count, keyframe, at), &limits);
            prop_assert_eq!(pushed.first_packet, packets);
            packets += count as u64;
            prop_assert!(ring.bytes() <= limits.ring_bytes || ring.units.len() == 1);
            prop_assert_eq!(ring.bytes(), ring.units.iter().map(|b| b.memory_bytes()).sum::<usize>());
            let (found, index) = ring.find(packets - 1).expect("the newest is kept");
            prop_assert_eq!((found.index, index), (pushed.index, count - 1));
        }
    }
}

/// The memory of a camera: what comes since the latest keyframe, and what may still be repaired. The
/// exception for the latest keyframe costs nothing where keyframes are at most a ring's span apart.
#[test]
fn a_ring_whose_keyframes_are_within_its_span_keeps_nothing_older() {
    let limits = Limits::default();
    let start = Instant::now();
    let bytes = unit(1, false, start).memory_bytes();
    const FRAME_MS: u32 = 40;
    for interval_ms in [400, 2_000, 10_000, 20_000_u32] {
        let mut ring = Ring::default();
        for ms in (0..60_000).step_by(FRAME_MS as usize) {
            let now = start + ms * MS;
            ring.push(unit(1, ms % interval_ms == 0, now), &limits);
            let age = now - ring.units[0].stamps.published;
            let keyframe_age = ms % interval_ms * MS;
            assert!(age <= limits.ring_span, "{interval_ms}: {age:?}");
            assert!(age <= keyframe_age.max(limits.repair_span), "{interval_ms}");
        }
        let most = limits.repair_span.max(interval_ms * MS).as_millis() / u128::from(FRAME_MS);
        assert!(ring.bytes() / bytes <= most as usize + 1, "{interval_ms}");
    }
}

proptest! {
    /// Sources begin anew, and some reorder frames without a word.
    #[test]
    fn decode_times_never_fall_and_are_kept_where_they_rise(
        frames in prop::collection::vec((-200_000i64..400_000, -50i32..400), 1..100),
    ) {
        let (start, mut ring) = (Instant::now(), Ring::default());
        let (mut time, mut before) = (MediaTime::ZERO, None::<MediaTime>);
        for (step_us, lead_ms) in frames {
            time = MediaTime::from_nanos(time.nanos() + step_us * 1000);
            let mut unit = unit(1, true, start);
            (unit.time, unit.decode_lead) = (time, DecodeLead::from_micros(lead_ms * 1000));
            let stated = unit.decode_time();
            let kept = ring.push(unit, &Limits::default());
            prop_assert_eq!(kept.time, time);
            let expected = before.map_or(stated, |before| before.max(stated));
            prop_assert!(kept.decode_time().nanos().abs_diff(expected.nanos()) < 1000);
            prop_assert!(before.is_none_or(|before| before <= kept.decode_time()));
            if before.is_none_or(|before| before <= stated) {
                prop_assert_eq!(kept.decode_time(), stated);
            }
            before = Some(kept.decode_time());
        }
    }
}
