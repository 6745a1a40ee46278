//! Tests of FlexFEC: bytes made by hand, and losses that are rebuilt.

use glassline_media::Ssrc;
use proptest::prelude::*;

use super::header::Coverage;
use super::*;
use crate::{HEADER_BYTES, Header, Packet, write_header};

const MEDIA: Ssrc = Ssrc(0x0102_0304);

/// Returns the header and the payload of a packet, the header perhaps with an extension of zeros.
fn packet(sequence: u16, timestamp: u32, payload: &[u8], extends: bool) -> (Vec<u8>, Vec<u8>) {
    let header = Header {
        marker: sequence.is_multiple_of(3),
        payload_type: 96,
        sequence,
        timestamp,
        ssrc: MEDIA,
    };
    let elements: &[(u8, &[u8])] = if extends { &[(3, &[0, 0])] } else { &[] };
    let mut bytes = vec![0; 20];
    let length = write_header(&mut bytes, &header, elements);
    bytes.truncate(length);
    (bytes, payload.to_vec())
}

fn joined((header, payload): &(Vec<u8>, Vec<u8>)) -> Vec<u8> {
    [header.as_slice(), payload].concat()
}

#[test]
fn two_packets_give_these_bytes() {
    let mut encoder = Encoder::new(MEDIA);
    encoder.begin(1);
    // Version 2, marker, payload type 96, sequence number 65535, timestamp 0x01020304, three bytes.
    let first = [0x80, 0xe0, 0xff, 0xff, 1, 2, 3, 4, 1, 2, 3, 4];
    assert!(encoder.push(&first, &[0x11, 0x22, 0x33], 0));
    // Padding bit, payload type 97, sequence number 0, timestamp 0x01020305, one byte, padding 4.
    let second = [0xa0, 0x61, 0, 0, 1, 2, 3, 5, 1, 2, 3, 4];
    assert!(encoder.push(&second, &[0x44], 4));
    assert_eq!((encoder.span(), encoder.parities()), (2, 1));
    let mut payloads = Vec::new();
    encoder.end(|it| payloads.push(it));
    #[rustfmt::skip]
    let expected = [
        0x20, 0x81, 0, 3 ^ 5, // P, M and payload type, lengths
        0, 0, 0, 1, // timestamps
        1, 0, 0, 0, // one SSRC
        1, 2, 3, 4,
        0xff, 0xff, // base
        0x80 | 0x60, 0, // the mask ends here; packets 0 and 1
        0x11 ^ 0x44, 0x22, 0x33, 0, 4,
    ];
    assert_eq!(payloads, [expected]);
    assert_eq!(encoder.span(), 0);
    assert!(!encoder.push(&first, &[], 0), "there is no group");
}

#[test]
fn masks_have_as_many_parts_as_they_need() {
    for (mask, bytes) in [
        (1, &[0xc0, 0][..]),
        (1 << 14 | 1, &[0xc0, 1]),
        (1 << 15 | 1, &[0x40, 0, 0xc0, 0, 0, 0]),
        (1 << 45 | 1, &[0x40, 0, 0x80, 0, 0, 1]),
        (
            1 << 46 | 1,
            &[0x40, 0, 0, 0, 0, 0, 0xc0, 0, 0, 0, 0, 0, 0, 0],
        ),
        (
            1 << 108 | 1,
            &[0x40, 0, 0, 0, 0, 0, 0x80, 0, 0, 0, 0, 0, 0, 1],
        ),
    ] {
        let coverage = Coverage { base: 7, mask };
        let mut out = Vec::new();
        coverage.write([0; 8], MEDIA, &mut out);
        assert_eq!(&out[18..], bytes, "{mask:b}");
        assert_eq!(Coverage::read(&out, MEDIA), Ok((coverage, out.len())));
        for cut in 0..out.len() {
            let short = InvalidFlexFec::Short { bytes: cut };
            assert_eq!(Coverage::read(&out[..cut], MEDIA), Err(short));
        }
    }
}

#[test]
fn payloads_of_other_variants_are_refused() {
    let mut valid = Vec::new();
    Coverage { base: 1, mask: 3 }.write([0; 8], MEDIA, &mut valid);
    let refused = |place: usize, byte: u8| {
        let mut bytes = valid.clone();
        bytes[place] = byte;
        bytes.extend_from_slice(&[0; 12]);
        Decoder::new(MEDIA).on_repair(&bytes)
    };
    assert_eq!(refused(0, 0x80), Err(InvalidFlexFec::Variant));
    assert_eq!(refused(0, 0x40), Err(InvalidFlexFec::Variant));
    assert_eq!(refused(8, 2), Err(InvalidFlexFec::OtherStreams));
    assert_eq!(refused(12, 9), Err(InvalidFlexFec::OtherStreams));
    assert_eq!(refused(18, 0x80), Err(InvalidFlexFec::Mask), "empty");
    assert_eq!(refused(18, 0x60), Err(InvalidFlexFec::Mask), "no end");
    assert_eq!(refused(0, 0), Ok(()));
}

#[test]
fn what_contradicts_itself_rebuilds_nothing() {
    let packets = [1, 2].map(|it| packet(it, 90, &[7; 30], false));
    let mut encoder = Encoder::new(MEDIA);
    encoder.begin(1);
    assert!(
        packets
            .iter()
            .all(|(header, payload)| encoder.push(header, payload, 0))
    );
    let mut payloads = Vec::new();
    encoder.end(|it| payloads.push(it));
    for (place, byte) in [(2, 1), (3, 77)] {
        let mut payload = payloads[0].clone();
        payload[place] = byte;
        let mut decoder = Decoder::new(MEDIA);
        decoder.on_media(&joined(&packets[0]));
        assert_eq!(decoder.on_repair(&payload), Ok(()));
        assert_eq!(decoder.poll(), None, "a length beyond the payload");
    }
    let mut decoder = Decoder::new(MEDIA);
    decoder.on_media(&[joined(&packets[0]), vec![1; 9]].concat());
    assert_eq!(decoder.on_repair(&payloads[0]), Ok(()));
    assert_eq!(decoder.poll(), None, "a packet longer than the payload");
}

#[test]
fn a_fec_packet_is_forgotten_before_sequence_numbers_come_again() {
    let packets = [1, 2, 3].map(|it| packet(it, 90, &[7; 30], false));
    let mut encoder = Encoder::new(MEDIA);
    encoder.begin(1);
    assert!(
        packets
            .iter()
            .all(|(header, payload)| encoder.push(header, payload, 0))
    );
    let mut decoder = Decoder::new(MEDIA);
    encoder.end(|it| decoder.on_repair(&it).expect("ours"));
    decoder.on_media(&joined(&packets[0]));
    for step in 1..=10 {
        decoder.on_media(&joined(&packet(step * 300, 90, &[1], false)));
    }
    decoder.on_media(&joined(&packets[1]));
    assert_eq!(decoder.poll(), None);
}

#[test]
fn a_rebuilt_packet_lets_another_parity_rebuild_one() {
    let packets = [1, 2, 3].map(|it| packet(it, 90, &[it as u8; 30], true));
    let mut repairs = Vec::new();
    for pair in [[0, 1], [1, 2]] {
        let mut encoder = Encoder::new(MEDIA);
        encoder.begin(1);
        for place in pair {
            let (header, payload) = &packets[place];
            assert!(encoder.push(header, payload, 0));
        }
        encoder.end(|it| repairs.push(it));
    }
    let mut decoder = Decoder::new(MEDIA);
    for repair in &repairs {
        decoder.on_repair(repair).expect("ours");
    }
    assert_eq!(decoder.poll(), None);
    decoder.on_media(&joined(&packets[2]));
    let rebuilt = [decoder.poll(), decoder.poll(), decoder.poll()];
    let wanted = [Some(joined(&packets[1])), Some(joined(&packets[0])), None];
    assert_eq!(rebuilt, wanted);
}

/// Returns packets in a row, some with extensions.
fn packets(first: u16, bodies: &[(Vec<u8>, bool)]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let numbered = (0..).zip(bodies);
    let packet = |(place, (payload, extends)): (u16, &(Vec<u8>, bool))| {
        let sequence = first.wrapping_add(place);
        packet(sequence, u32::from(place / 4) * 3_000, payload, *extends)
    };
    numbered.map(packet).collect()
}

proptest! {
    #[test]
    fn as_many_consecutive_losses_as_parities_are_rebuilt_byte_for_byte(
        first in any::<u16>(),
        bodies in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), any::<bool>()), 1..=PACKETS_MAX),
        parities in 1usize..8,
        at in any::<prop::sample::Index>(),
    ) {
        let packets = packets(first, &bodies);
        let mut encoder = Encoder::new(MEDIA);
        encoder.begin(parities);
        for (header, payload) in &packets {
            prop_assert!(encoder.push(header, payload, 0));
        }
        let bytes_max = encoder.payload_bytes_max();
        let mut repairs = Vec::new();
        encoder.end(|it| repairs.push(it));
        prop_assert_eq!(repairs.len(), parities.min(packets.len()));
        prop_assert!(repairs.iter().all(|it| it.len() <= bytes_max));
        let lost = at.index(packets.len());
        let lost = lost..(lost + parities).min(packets.len());
        let mut decoder = Decoder::new(MEDIA);
        for (place, packet) in packets.iter().enumerate() {
            if !lost.contains(&place) {
                decoder.on_media(&joined(packet));
            }
        }
        for repair in repairs.iter().rev() {
            decoder.on_repair(repair).expect("ours");
        }
        let mut rebuilt: Vec<_> = std::iter::from_fn(|| decoder.poll()).collect();
        rebuilt.sort_by_key(|it| u16::from_be_bytes([it[2], it[3]]).wrapping_sub(first));
        let wanted: Vec<_> = packets[lost].iter().map(joined).collect();
        prop_assert_eq!(&rebuilt, &wanted);
        for packet in rebuilt {
            prop_assert!(Packet::parse(&packet).is_ok());
        }
    }

    #[test]
    fn one_loss_of_each_parity_is_rebuilt_and_no_other_packet_is_invented(
        first in any::<u16>(),
        bodies in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), any::<bool>()), 1..60),
        parities in 1usize..6,
        lost in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let packets = packets(first, &bodies);
        let lost: Vec<usize> = lost.iter().map(|it| it.index(packets.len())).collect();
        let mut encoder = Encoder::new(MEDIA);
        encoder.begin(parities);
        let mut decoder = Decoder::new(MEDIA);
        for (place, packet) in packets.iter().enumerate() {
            prop_assert!(encoder.push(&packet.0, &packet.1, 0));
            if !lost.contains(&place) {
                decoder.on_media(&joined(packet));
            }
        }
        encoder.end(|it| decoder.on_repair(&it).expect("ours"));
        let rebuilt: Vec<_> = std::iter::from_fn(|| decoder.poll()).collect();
        for row in 0..parities {
            let of_row: Vec<_> = (row..packets.len()).step_by(parities).filter(|it| lost.contains(it)).collect();
            let found = of_row.iter().filter(|it| rebuilt.contains(&joined(&packets[**it]))).count();
            prop_assert_eq!(found, if of_row.len() == 1 { 1 } else { 0 });
        }
        prop_assert!(rebuilt.len() <= parities);
    }

    #[test]
    fn a_group_ends_where_the_mask_does(first in any::<u16>(), skipped in 1u16..300) {
        let mut encoder = Encoder::new(MEDIA);
        encoder.begin(2);
        let (header, _) = packet(first, 0, &[], false);
        prop_assert!(encoder.push(&header, b"x", 0));
        let (next, _) = packet(first.wrapping_add(skipped), 0, &[], false);
        prop_assert_eq!(encoder.push(&next, b"x", 0), usize::from(skipped) < PACKETS_MAX);
        prop_assert!(!encoder.push(&next[..HEADER_BYTES - 1], b"x", 0));
    }
}
