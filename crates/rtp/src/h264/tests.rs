use std::time::Instant;

use glassline_media::annexb::nals;
use glassline_media::{
    MediaTime, MediaUnit, PAYLOAD_BYTES_MAX, Stamps, Track, TrackIndex, UnitBuilder,
    VideoParameters,
};
use proptest::prelude::*;

use super::*;
use crate::payload::nal_units::{is_without_keyframe, recovery};
use crate::payload::{Counters, Depacketizer, Recovery, UNIT_BYTES_MAX, Unit};

const SPS_UNIT: &[u8] = &[0x67, 0x42, 0xc0, 0x1f, 0xda];
const PPS_UNIT: &[u8] = &[0x68, 0xce, 0x3c, 0x80];
const SEI_UNIT: &[u8] = &[0x06, 0x05, 0x01, 0x80];
const AUD_UNIT: &[u8] = &[0x09, 0x10];

/// Builds a slice whose `first_mb_in_slice` is zero.
fn slice(header: u8, len: usize) -> Vec<u8> {
    let mut unit = vec![header, 0x88];
    // Zeros at the end belong to no NAL unit.
    unit.extend((2..len).map(|i| 1 + (i % 255) as u8));
    unit
}

fn depacketizer() -> Depacketizer {
    bounded(UNIT_BYTES_MAX)
}

fn bounded(unit_bytes_max: usize) -> Depacketizer {
    let track = Track::h264(VideoParameters::default());
    Depacketizer::bounded(&track, unit_bytes_max).expect("known")
}

fn idr(len: usize) -> Vec<u8> {
    slice(0x65, len)
}

fn packets(units: &[&[u8]], payload_max: usize) -> Vec<Vec<u8>> {
    media_unit(units, payload_max).map_or(Vec::new(), |unit| {
        unit.payloads().map(<[u8]>::to_vec).collect()
    })
}

fn media_unit(units: &[&[u8]], payload_max: usize) -> Option<MediaUnit> {
    let mut builder = UnitBuilder::default();
    packetize(units.iter().copied(), payload_max, &mut builder);
    let stamps = Stamps::arrived(Instant::now());
    builder.build(TrackIndex(0), MediaTime::ZERO, false, stamps)
}

/// Pushes access units into a depacketizer, except for the packets in `lost`. Sequence numbers
/// are consecutive from 100, timestamps rise by 3000 per unit, and the last packet of a unit
/// has the marker.
fn receive(units: &[Vec<Vec<u8>>], lost: &[u64]) -> (Vec<Unit>, Counters) {
    let mut depacketizer = depacketizer();
    let mut out = Vec::new();
    let mut sequence = 100;
    for (unit, timestamp) in units.iter().zip((0..).step_by(3000)) {
        for (index, packet) in unit.iter().enumerate() {
            if !lost.contains(&sequence) {
                depacketizer.push(sequence, timestamp, index + 1 == unit.len(), packet);
                out.extend(std::iter::from_fn(|| depacketizer.poll()));
            }
            sequence += 1;
        }
    }
    (out, depacketizer.counters())
}

#[test]
fn parameter_sets_travel_with_a_frame_that_fits() {
    let idr = idr(100);
    let packets = packets(&[AUD_UNIT, SPS_UNIT, PPS_UNIT, SEI_UNIT, &idr], 1150);
    assert_eq!(packets.len(), 1);
    let mut expected = vec![0x78];
    for unit in [SPS_UNIT, PPS_UNIT, SEI_UNIT, &idr] {
        expected.extend((unit.len() as u16).to_be_bytes());
        expected.extend(unit);
    }
    assert_eq!(packets[0], expected);
}

#[test]
fn parameter_sets_of_a_large_frame_go_ahead_in_one_packet() {
    let idr = idr(3000);
    let packets = packets(&[SPS_UNIT, PPS_UNIT, &idr], 1150);
    assert_eq!(packets.len(), 4);
    assert_eq!(nal_type(packets[0][0]), nal::STAP_A);
    assert!(packets.iter().all(|packet| packet.len() <= 1150));
    assert!(payload_begins_keyframe(&packets[0]));
    assert!(payload_begins_keyframe(&packets[1]));
    assert!(!payload_begins_keyframe(&packets[2]));
}

#[test]
fn a_fragment_has_indicator_and_header_of_rfc_6184_5_8() {
    let unit = slice(0x41, 8);
    let packets = packets(&[&unit], 5);
    assert_eq!(
        packets,
        [
            vec![0x5c, 0x81, 0x88, 3, 4],
            vec![0x5c, 0x01, 5, 6, 7],
            vec![0x5c, 0x41, 8],
        ]
    );
}

#[test]
fn a_unit_without_idr_slices_is_known_by_its_payloads() {
    let is_without = |units: &[&[u8]], max| {
        let payloads = packets(units, max);
        is_without_keyframe::<H264>(payloads.iter().map(Vec::as_slice))
    };
    for len in [20, 3000] {
        let (idr, delta) = (idr(len), slice(0x41, len));
        assert!(!is_without(&[SPS_UNIT, PPS_UNIT, &idr], 1150), "{len}");
        assert!(is_without(&[SPS_UNIT, PPS_UNIT, &delta], 1150), "{len}");
    }
    assert!(!is_without(&[SPS_UNIT, PPS_UNIT], 1150), "no slices");
}

#[test]
fn fragments_are_equal_but_for_a_shorter_last() {
    for len in [1151, 1152, 2300, 2301, 10_007, 60_000] {
        let packets = packets(&[&idr(len)], PAYLOAD_BYTES_MAX);
        let (last, others) = packets.split_last().expect("fragments");
        assert!(others.iter().all(|packet| packet.len() == others[0].len()));
        assert!(last.len() <= others[0].len());
        assert!(others[0].len() - last.len() <= packets.len());
        assert_eq!(packets.len(), (len - 1).div_ceil(PAYLOAD_BYTES_MAX - 2));
    }
}

#[test]
fn delimiters_filler_and_nothing_make_no_packet() {
    assert!(packets(&[], 1150).is_empty());
    assert!(packets(&[AUD_UNIT, &[], &[0x0c, 0xff, 0x80], &[0x0a]], 1150).is_empty());
}

#[test]
fn the_forbidden_bit_and_the_highest_importance_are_kept() {
    let packets = packets(&[&[0x06, 1], &[0xa1, 0x80], &[0x41, 0]], 1150);
    assert_eq!(packets[0][0], 0x80 | 0x40 | nal::STAP_A);
}

fn group_of_pictures() -> Vec<Vec<Vec<u8>>> {
    vec![
        packets(&[SPS_UNIT, PPS_UNIT, &idr(3000)], 1150),
        packets(&[&slice(0x41, 2000)], 1150),
        packets(&[&slice(0x41, 50)], 1150),
        packets(&[&slice(0x41, 60)], 1150),
        packets(&[SPS_UNIT, PPS_UNIT, &idr(500)], 1150),
    ]
}

#[test]
fn whole_units_come_back_with_their_keyframes() {
    let (units, counters) = receive(&group_of_pictures(), &[]);
    assert_eq!(units.len(), 5);
    assert_eq!(counters.delivered, 5);
    assert_eq!(
        units.iter().map(Unit::is_keyframe).collect::<Vec<_>>(),
        [true, false, false, false, true]
    );
    assert!(units.iter().all(|unit| !unit.after_loss));
    let first: Vec<&[u8]> = nals(&units[0].data).collect();
    assert_eq!(first, [SPS_UNIT, PPS_UNIT, &idr(3000)]);
    assert_eq!(units[1].timestamp, 3000);
    assert_eq!(units[2].data[..5], [0, 0, 0, 1, 0x41]);
}

#[test]
fn a_lost_fragment_drops_its_unit_only() {
    // 100..=103 are the keyframe; each of the others is one unit.
    for lost in [101, 102, 103] {
        let (units, counters) = receive(&group_of_pictures(), &[lost]);
        assert_eq!(units.len(), 4, "{lost}");
        assert!(units[0].after_loss && !units[1].after_loss);
        assert_eq!((counters.damaged, counters.lost), (1, 1));
    }
}

#[test]
fn a_lost_single_packet_unit_does_not_take_the_next_with_it() {
    let (units, counters) = receive(&group_of_pictures(), &[106]);
    let times: Vec<u32> = units.iter().map(|unit| unit.timestamp).collect();
    assert_eq!(times, [0, 3000, 9000, 12_000]);
    assert!(units[2].after_loss);
    assert_eq!((counters.damaged, counters.lost), (0, 1));
}

#[test]
fn a_lost_end_and_beginning_drop_both_units() {
    let frames = vec![
        packets(&[&slice(0x41, 3000)], 1150),
        packets(&[&slice(0x41, 3000)], 1150),
        packets(&[&slice(0x41, 50)], 1150),
    ];
    let (units, counters) = receive(&frames, &[102, 103]);
    assert_eq!(units.len(), 1);
    assert_eq!(units[0].timestamp, 6000);
    assert_eq!((counters.damaged, counters.lost), (2, 2));
}

#[test]
fn a_keyframe_that_lost_its_parameter_sets_is_damaged() {
    let keyframe = || packets(&[SPS_UNIT, PPS_UNIT, &idr(3000)], 1150);
    let (units, counters) = receive(&[keyframe(), keyframe()], &[104]);
    assert_eq!(units.len(), 1);
    assert_eq!(counters.damaged, 1);
    // A source that never sent parameter sets in band has sent them in its SDP.
    let bare = || packets(&[&idr(3000)], 1150);
    let (units, counters) = receive(&[bare(), bare(), bare()], &[103, 104, 105]);
    assert_eq!(units.len(), 2);
    assert_eq!(counters.damaged, 0);
}

#[test]
fn joining_in_the_middle_of_a_unit_waits_for_the_next() {
    let (units, counters) = receive(&group_of_pictures(), &[100, 101]);
    assert_eq!(units.len(), 4);
    assert!(units[0].after_loss, "what it refers to never came");
    assert_eq!((counters.damaged, counters.lost), (0, 0));
}

#[test]
fn a_unit_without_marker_ends_with_its_timestamp() {
    let mut depacketizer = depacketizer();
    depacketizer.push(1, 0, false, &idr(20));
    assert_eq!(depacketizer.poll(), None);
    depacketizer.push(2, 3000, true, &slice(0x41, 20));
    assert_eq!(depacketizer.poll().expect("the first").timestamp, 0);
    assert_eq!(depacketizer.poll().expect("the second").timestamp, 3000);
}

#[test]
fn padding_only_and_late_packets_change_nothing() {
    let mut depacketizer = depacketizer();
    let fragments = packets(&[&idr(2000)], 1150);
    depacketizer.push(1, 0, false, &fragments[0]);
    depacketizer.push(2, 9999, false, &[]);
    depacketizer.push(1, 0, false, &fragments[0]);
    depacketizer.push(3, 0, true, &fragments[1]);
    assert!(!depacketizer.poll().expect("whole").after_loss);
    assert_eq!(depacketizer.counters().late, 1);
}

#[test]
fn a_loss_seen_by_padding_still_damages_the_unit_behind_it() {
    let mut depacketizer = depacketizer();
    let fragments = packets(&[&idr(3000)], 1150);
    depacketizer.push(1, 0, true, &idr(20));
    // Packet 2, the first fragment, is lost; packet 3 is padding.
    depacketizer.push(3, 0, false, &[]);
    depacketizer.push(4, 3000, false, &fragments[1]);
    depacketizer.push(5, 3000, true, &fragments[2]);
    assert!(depacketizer.poll().is_some());
    assert_eq!(depacketizer.poll(), None);
    assert_eq!(depacketizer.counters().damaged, 1);
}

#[test]
fn kinds_of_interleaved_mode_are_counted_and_drop_their_unit() {
    for kind in [25, 26, 27, 29] {
        let mut depacketizer = depacketizer();
        depacketizer.push(1, 0, false, &idr(20));
        depacketizer.push(2, 0, true, &[kind, 0, 0, 0, 1, 0x65]);
        depacketizer.push(3, 1, true, &idr(20));
        assert!(depacketizer.poll().expect("the next").after_loss);
        let counters = depacketizer.counters();
        assert_eq!((counters.unsupported, counters.malformed), (1, 1));
    }
}

#[test]
fn reserved_kinds_are_ignored() {
    let mut depacketizer = depacketizer();
    depacketizer.push(1, 0, false, &idr(20));
    depacketizer.push(2, 0, true, &[31, 1]);
    assert_eq!(depacketizer.poll().expect("whole").data.len(), 24);
    assert_eq!(depacketizer.counters().unsupported, 0);
}

#[test]
fn padded_aggregates_are_read_up_to_their_padding() {
    let unit = [&[0, 3, 0x67, 0x42, 1][..], &[0, 3, 0x65, 0x88, 9]].concat();
    let padding: [&[u8]; 5] = [&[], &[0], &[0, 0], &[0, 0, 0, 0, 0], &[7]];
    for padding in padding {
        for between in [&[][..], &[0, 0], &[0, 1, 31]] {
            let (sps, idr) = unit.split_at(5);
            let payload = [&[0x78], sps, between, idr, padding].concat();
            let mut depacketizer = depacketizer();
            depacketizer.push(1, 0, true, &payload);
            let whole = depacketizer.poll().expect("a frame");
            assert_eq!(
                whole.data,
                [0, 0, 0, 1, 0x67, 0x42, 1, 0, 0, 0, 1, 0x65, 0x88, 9],
                "{payload:x?}"
            );
        }
    }
}

#[test]
fn malformed_payloads_drop_their_unit() {
    let whole: &[u8] = &[0x7c, 0xc6, 0x80];
    let malformed: [&[&[u8]]; 6] = [
        &[&[0x78, 0, 9, 0x67]],
        &[&[0x78, 0, 1, 0x78]],
        &[&[0x7c]],
        &[&[0x7c, 0x05, 1]],
        // The sender marks last fragments.
        &[whole, &[0x7c, 0x85, 0x88], &[0x65, 0x88]],
        &[whole, &[0x7c, 0x85, 0x88], &[0x7c, 0x85, 0x88]],
    ];
    for packets in malformed {
        let mut depacketizer = depacketizer();
        depacketizer.push(0, 0, false, SPS_UNIT);
        for (packet, sequence) in packets.iter().zip(1..) {
            depacketizer.push(sequence, 0, false, packet);
        }
        depacketizer.push(10, 0, true, &[]);
        depacketizer.push(11, 1, true, &idr(20));
        assert_eq!(depacketizer.counters().malformed, 1, "{packets:x?}");
        assert_eq!(depacketizer.counters().delivered, 0, "IDR lost its SPS");
    }
}

#[test]
fn a_fragmented_unit_cut_short_by_its_sender_is_malformed() {
    let mut depacketizer = depacketizer();
    depacketizer.push(1, 0, true, &[0x7c, 0xc5, 0x88]);
    assert!(depacketizer.poll().is_some(), "the sender marks its end");
    depacketizer.push(2, 1, true, &[0x7c, 0x85, 0x88]);
    depacketizer.push(3, 2, true, &idr(20));
    assert_eq!(
        depacketizer.poll(),
        None,
        "its marker was within a NAL unit"
    );
    assert_eq!(depacketizer.counters().malformed, 1);
}

#[test]
fn a_unit_beyond_the_bound_is_dropped_and_its_memory_freed() {
    let mut depacketizer = bounded(10_000);
    let fragments = packets(&[&idr(30_000)], 1150);
    for (fragment, sequence) in fragments.iter().zip(0..) {
        depacketizer.push(
            sequence,
            0,
            sequence + 1 == fragments.len() as u64,
            fragment,
        );
    }
    depacketizer.push(fragments.len() as u64, 1, true, &idr(50));
    assert_eq!(depacketizer.poll().expect("the next").timestamp, 1);
    assert_eq!(depacketizer.counters().oversized, 1);
}

#[test]
fn units_nobody_polls_for_are_bounded() {
    let mut depacketizer = depacketizer();
    for sequence in 0..20u32 {
        depacketizer.push(u64::from(sequence), sequence, true, &idr(10));
    }
    let first = depacketizer.poll().expect("the oldest kept");
    assert_eq!(first.timestamp, 12);
    assert!(first.after_loss);
    assert_eq!(depacketizer.counters().overrun, 12);
}

fn unit() -> impl Strategy<Value = Vec<u8>> {
    let kind = prop::sample::select(vec![1u8, 5, 6, 7, 8]);
    (kind, 0u8..4, prop::collection::vec(1u8.., 0..5000)).prop_map(|(kind, importance, body)| {
        let mut unit = vec![importance << 5 | kind, 0x80];
        unit.extend(body);
        unit
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn units_survive_the_way_through_packets(
        units in prop::collection::vec(unit(), 1..8),
        payload_max in 40usize..1500,
    ) {
        let mut units: Vec<&[u8]> = units.iter().map(Vec::as_slice).collect();
        // Behind a slice, the others would begin the next unit. One slice is the last at least.
        units.sort_by_key(|unit| nal_type(unit[0]) < nal::SEI);
        let slice = slice(0x41, 30);
        units.push(&slice);
        let packets = packets(&units, payload_max);
        prop_assert!(packets.iter().all(|packet| packet.len() <= payload_max));
        let mut depacketizer = depacketizer();
        for (packet, sequence) in packets.iter().zip(0u64..) {
            let marker = sequence + 1 == packets.len() as u64;
            // The first packet may begin with a PPS, which does not certainly begin a unit.
            if sequence == 0 {
                depacketizer.push(0, u32::MAX, true, &idr(10));
                depacketizer.poll();
            }
            depacketizer.push(sequence + 1, 0, marker, packet);
        }
        let whole = depacketizer.poll().expect("a whole unit");
        prop_assert_eq!(nals(&whole.data).collect::<Vec<_>>(), units);
    }

    #[test]
    fn what_is_delivered_under_loss_was_sent(
        lost in prop::collection::vec(0u64..200, 0..40),
        sizes in prop::collection::vec(10usize..4000, 20),
    ) {
        let sent: Vec<_> = sizes
            .iter()
            .enumerate()
            .map(|(index, &len)| if index % 5 == 0 {
                vec![SPS_UNIT.to_vec(), PPS_UNIT.to_vec(), idr(len)]
            } else {
                vec![slice(0x41, len)]
            })
            .collect();
        let packets: Vec<_> = sent
            .iter()
            .map(|units| packets(&units.iter().map(Vec::as_slice).collect::<Vec<_>>(), 1150))
            .collect();
        // Losses before the first packet received cannot be detected.
        let lost: Vec<u64> = lost.into_iter().map(|number| number + 101).collect();
        let (units, counters) = receive(&packets, &lost);
        for unit in &units {
            let index = unit.timestamp as usize / 3000;
            prop_assert!(nals(&unit.data).eq(sent[index].iter().map(Vec::as_slice)), "unit {}", index);
        }
        let whole = units.len() as u64;
        prop_assert_eq!(counters.delivered, whole);
        prop_assert!(counters.damaged <= counters.lost + 1);
        prop_assert!(whole + 2 * lost.len() as u64 >= 20, "a loss costs two units at most");
    }

    #[test]
    fn no_payload_panics(
        packets in prop::collection::vec(
            (0u64..3, 0u32..2, any::<bool>(), prop::collection::vec(any::<u8>(), 0..20)), 0..50),
    ) {
        let mut depacketizer = bounded(100);
        let mut sequence = 0;
        for (step, timestamp, marker, payload) in packets {
            sequence += step;
            payload_begins_keyframe(&payload);
            depacketizer.push(sequence, timestamp, marker, &payload);
            if let Some(unit) = depacketizer.poll() {
                prop_assert!(unit.data.len() <= 100 && nals(&unit.data).count() > 0);
            }
        }
    }
}

#[test]
fn a_recovery_point_says_when_frames_are_right() {
    let unit = |units: &[&[u8]]| -> Vec<u8> {
        let coded = units
            .iter()
            .flat_map(|nal| [&[0, 0, 0, 1][..], nal].concat());
        coded.collect()
    };
    let point = |code: &[u8]| -> Vec<u8> {
        // Another message is in front, whose payload looks like a recovery point.
        let length = u8::try_from(code.len()).expect("short");
        [&[6, 5, 3, 6, 1, 0xff, 6, length][..], code, &[0x80]].concat()
    };
    let slice = slice(0x41, 20);
    let of = |sei: &[u8]| recovery::<H264>(&unit(&[SPS_UNIT, PPS_UNIT, sei, &slice]));
    let frames = Recovery::Frames;
    assert_eq!(of(&point(&[0x80])), frames(0));
    assert_eq!(of(&point(&[0x13, 0x10])), frames(8), "of x264");
    assert_eq!(of(&point(&[0, 0xfa, 0x20])), frames(499));
    assert_eq!(
        of(&point(&[0, 0, 0x80, 0, 0x20])),
        frames(65_535),
        "the largest"
    );
    assert_eq!(of(&point(&[0, 0, 3, 1, 0, 0x80])), frames(0), "no count");
    assert_eq!(of(SEI_UNIT), frames(0), "I slices have none");
    assert_eq!(of(&[6, 6]), frames(0), "cut off");
    let keyframe = recovery::<H264>(&unit(&[SPS_UNIT, PPS_UNIT, &idr(20)]));
    assert_eq!(keyframe, Recovery::Keyframe);
    assert_eq!(recovery::<H264>(&[]), frames(0));
    // A slice of type P (5).
    let predicted = recovery::<H264>(&unit(&[SPS_UNIT, PPS_UNIT, &[0x41, 0x9a, 1]]));
    assert_eq!(predicted, Recovery::Refresh);
}
