//! Packets of FFmpeg and the units from which it made them (`testdata/README.md` describes
//! how), and byte sequences from the standards.

use super::*;
use crate::Packet;

/// Builds a JPEG frame of 64 x 48 pixels with these entropy-coded data.
pub(super) fn jpeg(scan: &[u8]) -> Vec<u8> {
    jpeg::tests::frame(scan)
}

/// Reads records that stand behind their lengths.
fn records(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (record, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)));
        records.push(record);
        bytes = rest;
    }
    records
}

fn received(codec: Codec, packets: &[u8]) -> Vec<Unit> {
    let mut depacketizer = Depacketizer::new(&track(codec)).expect("known");
    let mut units = Vec::new();
    for packet in records(packets) {
        let packet = Packet::parse(packet).expect("RTP");
        let header = packet.header;
        depacketizer.push(
            u64::from(header.sequence),
            header.timestamp,
            header.marker,
            packet.payload,
        );
        units.extend(std::iter::from_fn(|| depacketizer.poll()));
    }
    let counters = depacketizer.counters();
    assert_eq!(counters.malformed + counters.damaged + counters.lost, 0);
    units
}

fn data(units: &[Unit]) -> Vec<&[u8]> {
    units.iter().map(|unit| unit.data.as_slice()).collect()
}

fn keyframes(units: &[Unit]) -> Vec<bool> {
    units.iter().map(Unit::is_keyframe).collect()
}

#[test]
fn vp8_of_ffmpeg() {
    let units = received(Codec::Vp8, include_bytes!("../../../testdata/vp8.rtp"));
    let sent = records(include_bytes!("../../../testdata/vp8.units"));
    assert_eq!(data(&units), sent);
    assert_eq!(keyframes(&units), [true, false, false, true]);
}

#[test]
fn vp9_of_ffmpeg() {
    let units = received(Codec::Vp9, include_bytes!("../../../testdata/vp9.rtp"));
    let sent = records(include_bytes!("../../../testdata/vp9.units"));
    assert_eq!(data(&units), sent);
    assert_eq!(keyframes(&units), [true, false, false, true]);
}

#[test]
fn vp9_keyframes_of_ours_tell_their_size() {
    let sent = records(include_bytes!("../../../testdata/vp9.units"));
    let mut packetizer = Packetizer::new(&Track::new(Codec::Vp9));
    let keyframe = payloads(&mut packetizer, sent[0]);
    let descriptor = [0x8a, 0x80, 0, 0x10, 0, 96, 0, 64];
    assert_eq!(keyframe[0][..8], descriptor, "I, B, V; frame 0; 96 x 64");
    assert_eq!(keyframe[1][..3], [0x84, 0x80, 0], "E");
    let other = payloads(&mut packetizer, sent[1]);
    assert_eq!(other[0][..3], [0xcc, 0x80, 1], "I, P, B, E; frame 1");
}

#[test]
fn h265_of_ffmpeg() {
    let units = received(Codec::H265, include_bytes!("../../../testdata/h265.rtp"));
    let all = units.iter().flat_map(|unit| annexb::nals(&unit.data));
    let sent = annexb::nals(include_bytes!("../../../testdata/h265.units"));
    assert!(all.eq(sent));
    assert_eq!(keyframes(&units), [true, false, false, true]);
}

#[test]
fn h265_payloads_of_ours_have_the_headers_of_rfc_7798() {
    let units = received(Codec::H265, include_bytes!("../../../testdata/h265.rtp"));
    let mut out = UnitBuilder::default();
    h265::packetize(annexb::nals(&units[0].data), 400, &mut out);
    let stamps = Stamps::arrived(Instant::now());
    let unit = out
        .build(TrackIndex(0), MediaTime::ZERO, true, stamps)
        .expect("some");
    let heads = unit.payloads().map(|payload| payload[..3].to_vec());
    // An aggregate of type 48, then fragments of type 49 of an IDR_N_LP.
    let expected = [[0x60, 1, 0], [0x62, 1, 0x80 | 20], [0x62, 1, 0x40 | 20]];
    assert_eq!(heads.collect::<Vec<_>>(), expected);
}

#[test]
fn aac_of_ffmpeg_has_several_units_a_packet() {
    let units = received(Codec::Aac, include_bytes!("../../../testdata/aac.rtp"));
    let sent = records(include_bytes!("../../../testdata/aac.units"));
    assert_eq!(data(&units), sent);
    let first = units[0].timestamp;
    for (unit, number) in units.iter().zip(0..) {
        assert_eq!(unit.timestamp, first.wrapping_add(1024 * number));
    }
}

#[test]
fn jpeg_of_ffmpeg() {
    let units = received(Codec::Jpeg, include_bytes!("../../../testdata/jpeg.rtp"));
    let sent = records(include_bytes!("../../../testdata/jpeg.units"));
    assert_eq!(units.len(), sent.len());
    let mut packetizer = Packetizer::new(&Track::new(Codec::Jpeg));
    for (unit, sent) in units.iter().zip(sent) {
        // Headers are written again with the same meaning.
        let (ours, theirs) = (
            payloads(&mut packetizer, &unit.data),
            payloads(&mut packetizer, sent),
        );
        assert_eq!(ours, theirs);
        assert_eq!(ours[0][4..8], [1, 255, 12, 8], "4:2:0, 96 x 64");
    }
}

#[test]
fn ac3_fragments_are_told_apart_by_their_share() {
    // The first fragment has 5/8 of the frame or more, or less (RFC 4184 §4.1.1).
    let mut packetizer = Packetizer::new(&Track::new(Codec::Ac3));
    let heads = |packets: Vec<Vec<u8>>| -> Vec<[u8; 2]> {
        packets.iter().map(|it| [it[0], it[1]]).collect()
    };
    let frame = |len| unit(Codec::Ac3, 1, len, true);
    assert_eq!(heads(payloads(&mut packetizer, &frame(1000))), [[0, 1]]);
    assert_eq!(
        heads(payloads(&mut packetizer, &frame(1200))),
        [[2, 2], [3, 2]]
    );
}

#[test]
fn amr_payloads_are_those_of_rfc_4867() {
    // §4.3.1 and §4.3.2: no request, one frame of 12.2 kbit/s with good quality.
    let mut packetizer = Packetizer::new(&Track::new(Codec::Amr));
    let frame = [&[0x3c][..], &[5; 31]].concat();
    let payload = [&[0xf0][..], &frame].concat();
    assert_eq!(payloads(&mut packetizer, &frame), [payload]);
    let refused = packetizer.packetize(&frame[..20], &mut UnitBuilder::default());
    assert!(matches!(refused, Err(PacketizeError::Malformed { .. })));
}

#[test]
fn theora_payloads_begin_with_the_identifier_of_their_headers() {
    // RFC 5215 §2.2: identifier, no fragment, one packet, its length.
    let mut packetizer = Packetizer::new(&track(Codec::Theora));
    let payload = payloads(&mut packetizer, &[0x40, 7]);
    assert_eq!(payload, [[0xab, 0xcd, 0xef, 0x01, 0, 2, 0x40, 7]]);
    let fragments = payloads(&mut packetizer, &[0x40; 3000]);
    let kinds: Vec<u8> = fragments.iter().map(|it| it[3]).collect();
    assert_eq!(kinds, [0x40, 0x80, 0xc0]);
}

#[test]
fn mpeg_video_headers_repeat_those_of_the_frame() {
    // RFC 2250 §3.4: temporal reference 5, a P picture, forward code 7 as in MPEG-2.
    let video_frame = [0, 0, 1, 0, 0x01, 0x57, 0xff, 0xfb, 0x80];
    let slices = [&[0, 0, 1, 1][..], &[7; 2000], &[0, 0, 1, 2], &[8; 20]].concat();
    let mut packetizer = Packetizer::new(&Track::new(Codec::MpegVideo));
    let packets = payloads(&mut packetizer, &[&video_frame[..], &slices].concat());
    let heads: Vec<[u8; 4]> = packets
        .iter()
        .map(|it| [it[0], it[1], it[2], it[3]])
        .collect();
    // The frame's header alone, the first slice in two fragments, the second whole.
    let expected = [0x02, 0x12, 0x0a, 0x1a].map(|flags| [0, 5, flags, 7]);
    assert_eq!(heads, expected);
}

#[test]
fn av1_packets_have_the_aggregation_header_of_the_specification() {
    let mut packetizer = Packetizer::new(&Track::new(Codec::Av1));
    let delimiter = [0x12, 0];
    let keyframe = [&delimiter[..], &unit(Codec::Av1, 0, 1500, true)].concat();
    let packets = payloads(&mut packetizer, &keyframe);
    // N and Y with two elements, the first of them the sequence header of 5 bytes
    // without its size; then the rest of the frame.
    assert_eq!(packets[0][..4], [0x68, 5, 0x08, 0]);
    assert_eq!(packets[1][0], 0x90);
    assert_eq!(packets.len(), 2);
}
