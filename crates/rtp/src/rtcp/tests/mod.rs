mod transport_feedback;

use std::time::Duration;

use glassline_media::{Bitrate, NtpTime};
use proptest::prelude::*;

use super::*;
use transport_feedback::{arrivals, feedback};

fn bytes_of(packet: &Packet<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    packet.write(&mut out);
    out
}

fn only(bytes: &[u8]) -> Packet<'_> {
    let mut packets = parse(bytes);
    let packet = packets.next().expect("one").expect("well-formed");
    assert_eq!(packets.next(), None);
    packet
}

const BLOCK: ReportBlock = ReportBlock {
    ssrc: Ssrc(0x0102_0304),
    fraction_lost: 0x40,
    cumulative_lost: -2,
    highest_sequence: 0x0001_fffe,
    jitter: 90,
    last_sr: 0xb44d_b705,
    delay_since_last_sr: 0x0005_4000,
};

#[test]
fn a_receiver_report_has_the_layout_of_rfc_3550_6_4_2() {
    let packet = Packet::ReceiverReport(ReceiverReport {
        ssrc: Ssrc(0x1111_1111),
        reports: vec![BLOCK],
    });
    let expected = [
        0x81, 201, 0, 7, 0x11, 0x11, 0x11, 0x11, 1, 2, 3, 4, 0x40, 0xff, 0xff, 0xfe, 0, 1, 0xff,
        0xfe, 0, 0, 0, 90, 0xb4, 0x4d, 0xb7, 0x05, 0, 5, 0x40, 0,
    ];
    assert_eq!(bytes_of(&packet), expected);
    assert_eq!(only(&expected), packet);
}

#[test]
fn the_round_trip_is_that_of_figure_2_of_rfc_3550() {
    // 10 Nov 1995 11:33:36.5 UTC minus 11:33:25.125 minus a delay of 5.25 s.
    let now = NtpTime(0xb44d_b705_2000_0000 + ((0xb710_8000 - 0xb705_2000) << 16));
    assert_eq!(now.compact(), 0xb710_8000);
    let block = ReportBlock {
        last_sr: 0xb705_2000,
        ..BLOCK
    };
    assert_eq!(block.round_trip(now), Some(Duration::from_millis(6125)));
}

#[test]
fn a_round_trip_without_sense_is_none_and_rounding_below_zero_is_zero() {
    let at = |units: u32| NtpTime(u64::from(units) << 16);
    let block = ReportBlock {
        last_sr: 1000,
        delay_since_last_sr: 500,
        ..BLOCK
    };
    assert_eq!(block.round_trip(at(1499)), Some(Duration::ZERO));
    assert_eq!(block.round_trip(at(1000)), None);
    assert_eq!(block.round_trip(at(1500 + (3601 << 16))), None);
    let unseen = ReportBlock {
        last_sr: 0,
        ..block
    };
    assert_eq!(unseen.round_trip(at(2000)), None);
}

#[test]
fn a_sender_report_has_the_layout_of_rfc_3550_6_4_1() {
    let packet = Packet::SenderReport(SenderReport {
        ssrc: Ssrc(1),
        ntp: NtpTime(0x0102_0304_0506_0708),
        rtp_timestamp: 2,
        packet_count: 3,
        octet_count: 4,
        reports: vec![],
    });
    let expected = [
        0x80, 200, 0, 6, 0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4,
    ];
    assert_eq!(bytes_of(&packet), expected);
    assert_eq!(only(&expected), packet);
}

#[test]
fn a_description_ends_its_items_with_at_least_one_null() {
    // SSRC and items of 4·n bytes: the null byte needs another word.
    let two = SourceDescription::cname(Ssrc(9), b"ab");
    let bytes = bytes_of(&Packet::SourceDescription(two.clone()));
    let expected = [0x81, 202, 0, 3, 0, 0, 0, 9, 1, 2, b'a', b'b', 0, 0, 0, 0];
    assert_eq!(bytes, expected);
    assert_eq!(only(&bytes), Packet::SourceDescription(two));
}

#[test]
fn items_other_than_cname_are_skipped() {
    let bytes = [
        0x82, 202, 0, 6, 0, 0, 0, 1, 6, 3, b'n', b'v', b't', 1, 1, b'c', 0, 0, 0, 0, 0, 0, 0, 2, 0,
        0, 0, 0,
    ];
    let Packet::SourceDescription(description) = only(&bytes) else {
        panic!("a description");
    };
    assert_eq!(description.chunks.len(), 2);
    assert_eq!(description.chunks[0].cname, b"c");
    assert_eq!(description.chunks[1].cname, b"");
}

#[test]
fn a_nack_packs_seventeen_numbers_into_an_item() {
    let nack = Nack::new(Ssrc(1), Ssrc(2), [0xfff8, 0xfff9, 8, 9, 400]);
    assert_eq!(
        nack.items,
        [
            NackItem {
                first: 0xfff8,
                following: 0x8001
            },
            NackItem {
                first: 9,
                following: 0
            },
            NackItem {
                first: 400,
                following: 0
            },
        ]
    );
    assert_eq!(nack.lost().collect::<Vec<_>>(), [0xfff8, 0xfff9, 8, 9, 400]);
    let bytes = bytes_of(&Packet::Nack(nack));
    assert_eq!(
        bytes[..16],
        [
            0x81, 205, 0, 5, 0, 0, 0, 1, 0, 0, 0, 2, 0xff, 0xf8, 0x80, 0x01
        ]
    );
}

#[test]
fn keyframe_requests_have_the_layouts_of_rfc_4585_and_5104() {
    let pli = Packet::PictureLossIndication(PictureLossIndication {
        sender: Ssrc(1),
        media: Ssrc(2),
    });
    let bytes = bytes_of(&pli);
    assert_eq!(bytes, [0x81, 206, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2]);
    assert_eq!(only(&bytes), pli);
    let fir = Packet::FullIntraRequest(FullIntraRequest {
        sender: Ssrc(1),
        requests: vec![(Ssrc(2), 7)],
    });
    let bytes = bytes_of(&fir);
    let expected = [
        0x84, 206, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 7, 0, 0, 0,
    ];
    assert_eq!(bytes, expected);
    assert_eq!(only(&bytes), fir);
}

#[test]
fn an_estimate_is_mantissa_and_exponent() {
    // As libwebrtc sends it: 0x20000 << 1 = 262,144 bit/s for one source.
    let bytes = [
        0x8f, 206, 0, 5, 0, 0, 0, 1, 0, 0, 0, 0, b'R', b'E', b'M', b'B', 1, 0x06, 0, 0, 0, 0, 0, 9,
    ];
    let remb = Remb {
        sender: Ssrc(1),
        bitrate: Bitrate::from_bps(0x20000 << 1),
        sources: vec![Ssrc(9)],
    };
    assert_eq!(only(&bytes), Packet::Remb(remb.clone()));
    let mut out = Vec::new();
    remb.write(&mut out);
    let Packet::Remb(again) = only(&out) else {
        panic!("an estimate");
    };
    assert_eq!(again, remb);
}

#[test]
fn an_estimate_beyond_64_bits_is_read_as_the_largest_that_can_be_written() {
    let bytes = [
        0x8f, 206, 0, 4, 0, 0, 0, 1, 0, 0, 0, 0, b'R', b'E', b'M', b'B', 0, 0xf6, 0xf6, 0xf6,
    ];
    let Packet::Remb(remb) = only(&bytes) else {
        panic!("an estimate");
    };
    assert_eq!(remb.bitrate.bps(), 0x3_ffff << 46);
    let written = bytes_of(&Packet::Remb(remb.clone()));
    assert_eq!(only(&written), Packet::Remb(remb));
}

#[test]
fn application_feedback_that_is_no_estimate_is_unknown() {
    let bytes = [
        0x8f, 206, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, b'X', b'X', b'X', b'X',
    ];
    assert!(matches!(only(&bytes), Packet::Unknown(_)));
}

#[test]
fn a_compound_walks_over_unknown_and_malformed_packets() {
    let mut bytes = Vec::new();
    // XR with a receiver reference time block (RFC 3611 §4.4).
    bytes.extend([
        0x80, 207, 0, 4, 0, 0, 0, 1, 4, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8,
    ]);
    // A receiver report whose count exceeds its blocks.
    bytes.extend([0x81, 201, 0, 1, 0, 0, 0, 1]);
    PictureLossIndication {
        sender: Ssrc(1),
        media: Ssrc(2),
    }
    .write(&mut bytes);
    // A length past the end.
    bytes.extend([0x80, 201, 0, 9, 0, 0, 0, 1]);
    let packets: Vec<_> = parse(&bytes).collect();
    assert!(matches!(
        packets[0],
        Ok(Packet::Unknown(Unknown {
            packet_type: 207,
            ..
        }))
    ));
    assert_eq!(
        packets[1],
        Err(ParseError::Truncated(Truncated {
            what: "report blocks",
            offset: 28,
            needed: 24,
            available: 0
        }))
    );
    assert!(matches!(packets[2], Ok(Packet::PictureLossIndication(_))));
    assert!(matches!(packets[3], Err(ParseError::Truncated(_))));
    assert_eq!(packets.len(), 4);
}

#[test]
fn padding_is_removed_and_checked() {
    let padded = [0xa1, 206, 0, 3, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4];
    assert!(matches!(only(&padded), Packet::PictureLossIndication(_)));
    let mut wrong = padded;
    for count in [0, 13] {
        wrong[15] = count;
        assert!(matches!(
            parse(&wrong).next(),
            Some(Err(ParseError::Value { .. }))
        ));
    }
}

#[test]
fn rtcp_is_told_from_rtp_by_its_type() {
    assert!(is_rtcp(&[0x80, 200]));
    assert!(is_rtcp(&[0x81, 206]));
    assert!(!is_rtcp(&[0x80, 0x80 | 96]));
    assert!(!is_rtcp(&[0x80]));
}

fn block() -> impl Strategy<Value = ReportBlock> {
    let words = (any::<u32>(), any::<u32>(), any::<u32>(), any::<u32>());
    (any::<u32>(), any::<u8>(), -0x80_0000..0x80_0000, words).prop_map(
        |(ssrc, fraction_lost, cumulative_lost, words)| ReportBlock {
            ssrc: Ssrc(ssrc),
            fraction_lost,
            cumulative_lost,
            highest_sequence: words.0,
            jitter: words.1,
            last_sr: words.2,
            delay_since_last_sr: words.3,
        },
    )
}

/// Runs and single values of every symbol, so that each chunk format is chosen.
fn arrival_pattern() -> impl Strategy<Value = Vec<Option<i64>>> {
    let stretch = prop_oneof![
        (1usize..40).prop_map(|len| vec![None; len]),
        (1usize..40, 0i64..256).prop_map(|(len, step)| vec![Some(step); len]),
        prop::collection::vec(prop::option::of(-32_768i64..32_768), 1..20),
    ];
    prop::collection::vec(stretch, 1..12).prop_map(|stretches| {
        let mut at = 1 << 20;
        let mut first = true;
        let mut place = |step: i64| {
            // The first arrival decides the reference time, so it has no step.
            at += if std::mem::take(&mut first) { 0 } else { step };
            at
        };
        let steps = stretches.concat().into_iter();
        steps.map(|step| step.map(&mut place)).collect()
    })
}

proptest! {
    #[test]
    fn reports_are_read_back(
        ssrc: u32, ntp: u64, rtp_timestamp: u32, packet_count: u32, octet_count: u32,
        reports in prop::collection::vec(block(), 0..=REPORTS_MAX),
    ) {
        let sender = Packet::SenderReport(SenderReport {
            ssrc: Ssrc(ssrc), ntp: NtpTime(ntp), rtp_timestamp, packet_count, octet_count,
            reports: reports.clone(),
        });
        let receiver = Packet::ReceiverReport(ReceiverReport { ssrc: Ssrc(ssrc), reports });
        let mut bytes = bytes_of(&sender);
        receiver.write(&mut bytes);
        let packets: Result<Vec<_>, _> = parse(&bytes).collect();
        prop_assert_eq!(packets, Ok(vec![sender, receiver]));
    }

    #[test]
    fn descriptions_and_farewells_are_read_back(
        sources in prop::collection::vec(any::<u32>(), 0..31),
        text in prop::collection::vec(any::<u8>(), 0..256),
    ) {
        let chunks = sources.iter().map(|&ssrc| Chunk { ssrc: Ssrc(ssrc), cname: &text }).collect();
        let description = Packet::SourceDescription(SourceDescription { chunks });
        let bye = Packet::Bye(Bye {
            sources: sources.iter().copied().map(Ssrc).collect(),
            reason: &text,
        });
        let mut bytes = bytes_of(&description);
        bye.write(&mut bytes);
        prop_assert_eq!(bytes.len() % 4, 0);
        let packets: Result<Vec<_>, _> = parse(&bytes).collect();
        prop_assert_eq!(packets, Ok(vec![description, bye]));
    }

    #[test]
    fn all_lost_numbers_are_asked_for(
        start: u16,
        steps in prop::collection::vec(1u16..40, 1..100),
    ) {
        let mut at = start;
        let lost: Vec<u16> = steps.into_iter().map(|step| { at = at.wrapping_add(step); at }).collect();
        let nack = Nack::new(Ssrc(1), Ssrc(2), lost.iter().copied());
        let bytes = bytes_of(&Packet::Nack(nack));
        let Packet::Nack(nack) = only(&bytes) else { panic!("a NACK") };
        prop_assert_eq!(nack.lost().collect::<Vec<_>>(), lost);
    }

    #[test]
    fn arrivals_are_read_back(base: u16, pattern in arrival_pattern()) {
        let bytes = feedback(base, &pattern);
        let expected: Vec<_> = (0u16..)
            .map(|index| base.wrapping_add(index))
            .zip(pattern.iter().copied())
            .collect();
        prop_assert_eq!(arrivals(&bytes), expected);
        let Packet::TransportFeedback(parsed) = only(&bytes) else { panic!("feedback") };
        prop_assert_eq!(bytes_of(&Packet::TransportFeedback(parsed)), bytes);
    }

    #[test]
    fn no_bytes_panic_and_what_is_read_can_be_written(
        kind in 199u8..209,
        format in 0u8..64,
        mut bytes in prop::collection::vec(any::<u8>(), 4..120),
    ) {
        bytes.truncate(bytes.len() & !3);
        let words = bytes.len() / 4 - 1;
        bytes[..4].copy_from_slice(&[0x80 | format, kind, 0, words as u8]);
        for packet in parse(&bytes).flatten() {
            let written = bytes_of(&packet);
            let again: Vec<_> = parse(&written).collect();
            prop_assert_eq!(again.len(), 1);
            if let Packet::TransportFeedback(feedback) = &packet {
                prop_assert_eq!(feedback.statuses().count(), usize::from(feedback.status_count));
            }
            if !matches!(packet, Packet::Unknown(_)) {
                prop_assert_eq!(&again[0], &Ok(packet));
            }
        }
    }
}

#[test]
fn padding_is_no_part_of_an_unknown_packet() {
    let packet = [0xa5, 204, 0, 2, 1, 2, 3, 4, 0, 0, 0, 4];
    let Packet::Unknown(unknown) = only(&packet) else {
        panic!("{:?}", only(&packet));
    };
    assert_eq!((unknown.format, unknown.packet_type), (5, 204));
    assert_eq!(unknown.body, [1, 2, 3, 4]);
}
