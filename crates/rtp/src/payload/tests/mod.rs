use std::time::Instant;

use glassline_media::{
    Codec, MediaTime, MediaUnit, PAYLOAD_BYTES_MAX, Stamps, Track, TrackIndex, UnitBuilder,
};
use proptest::prelude::*;

use super::*;

mod audio;
mod golden;
mod markers;

/// Codecs that are both packetized and depacketized.
fn both_ways() -> impl Iterator<Item = Codec> {
    Codec::all().filter(|codec| *codec != Codec::Vorbis)
}

fn track(codec: Codec) -> Track {
    let parameters = match codec {
        Codec::Aac => "mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3",
        Codec::Amr | Codec::AmrWb => "octet-align=1",
        Codec::Theora => "configuration=AAAAAavN7wAA",
        _ => "",
    };
    Track::new(codec).with_format_parameters(parameters)
}

/// Returns bytes without start codes and markers, the same for the same arguments.
fn noise(seed: usize, len: usize) -> Vec<u8> {
    (0..len)
        .map(|at| 1 + ((seed * 31 + at * 7) % 250) as u8)
        .collect()
}

/// Builds a unit of about `len` bytes in the codec's format, and a keyframe if it can be one.
fn unit(codec: Codec, seed: usize, len: usize, keyframe: bool) -> Vec<u8> {
    let body = noise(seed, len.max(16));
    let annexb = |nals: &[&[u8]]| {
        let framed = nals.iter().map(|nal| [&[0, 0, 0, 1], *nal].concat());
        framed.collect::<Vec<_>>().concat()
    };
    match codec {
        Codec::H264 if keyframe => annexb(&[
            &[0x67, 0x42, 0xc0, 0x1f],
            &[0x68, 0xce],
            &[&[0x65, 0x88], &body[..]].concat(),
        ]),
        Codec::H264 => annexb(&[&[&[0x41, 0x9a], &body[..]].concat()]),
        Codec::H265 if keyframe => annexb(&[
            &[0x40, 1, 0x0c],
            &[0x42, 1, 1],
            &[0x44, 1, 0xc1],
            &[&[0x26, 1, 0xaf], &body[..]].concat(),
        ]),
        Codec::H265 => annexb(&[&[&[0x02, 1, 0xd0], &body[..]].concat()]),
        Codec::Vp8 => [&[u8::from(!keyframe)], &body[..]].concat(),
        Codec::Vp9 if keyframe => [
            &[0x82, 0x49, 0x83, 0x42, 0, 0x27, 0xf0, 0x16, 0x70],
            &body[..],
        ]
        .concat(),
        Codec::Vp9 => [&[0x86], &body[..]].concat(),
        Codec::Av1 => {
            let obu = |header: u8, body: &[u8]| {
                let mut size = body.len();
                let mut bytes = vec![header | 2];
                while size >= 0x80 {
                    bytes.push(size as u8 | 0x80);
                    size >>= 7;
                }
                bytes.push(size as u8);
                [&bytes, body].concat()
            };
            let frame = obu(
                6 << 3,
                &[&[if keyframe { 0x10 } else { 0x30 }], &body[..]].concat(),
            );
            if keyframe {
                [obu(1 << 3, &[0, 0, 0, 1]), frame].concat()
            } else {
                frame
            }
        }
        Codec::Mpeg4Visual => [
            &[0, 0, 1, 0xb6, if keyframe { 0x10 } else { 0x50 }],
            &body[..],
        ]
        .concat(),
        Codec::MpegVideo => {
            let video_frame = [
                0,
                0,
                1,
                0,
                0x00,
                if keyframe { 0x0f } else { 0x17 },
                0xff,
                0xf8,
            ];
            let head: &[u8] = if keyframe {
                &[0, 0, 1, 0xb3, 0x16, 1, 0x20]
            } else {
                &[]
            };
            let slices = body
                .chunks(700)
                .zip(1..)
                .map(|(slice, row)| [&[0, 0, 1, row], slice].concat());
            [head, &video_frame, &slices.collect::<Vec<_>>().concat()].concat()
        }
        Codec::Jpeg => golden::jpeg(&body),
        Codec::Dv => {
            let mut frame = noise(seed, body.len().div_ceil(80) * 80);
            frame[..3].copy_from_slice(&[0x1f, 0x07, 0]);
            frame
        }
        Codec::MpegTs => {
            let packet = |number| {
                [
                    &[0x47, 0x40, u8::from(number > 0), 0x10],
                    &noise(seed, 184)[..],
                ]
                .concat()
            };
            (0..body.len().div_ceil(188)).flat_map(packet).collect()
        }
        Codec::Ac3 => [&[0x0b, 0x77], &body[..]].concat(),
        Codec::Amr => [&[0x3c], &noise(seed, 31)[..]].concat(),
        Codec::AmrWb => [&[0x44], &noise(seed, 60)[..]].concat(),
        Codec::MpegAudio => [&[0xff, 0xfd, 0xe4, 0x04], &noise(seed, 1148)[..]].concat(),
        Codec::Opus | Codec::Pcmu | Codec::Pcma | Codec::L16 | Codec::T140 => {
            noise(seed, len.clamp(1, PAYLOAD_BYTES_MAX))
        }
        Codec::Theora => [&[if keyframe { 0 } else { 0x40 }], &body[..]].concat(),
        Codec::Aac => noise(seed, len.clamp(1, 8191)),
        _ => body,
    }
}

fn packetized(packetizer: &mut Packetizer, unit: &[u8]) -> Option<MediaUnit> {
    let mut builder = UnitBuilder::default();
    packetizer
        .packetize(unit, &mut builder)
        .expect("a valid unit");
    let stamps = Stamps::arrived(Instant::now());
    builder.build(TrackIndex(0), MediaTime::ZERO, false, stamps)
}

fn payloads(packetizer: &mut Packetizer, unit: &[u8]) -> Vec<Vec<u8>> {
    packetized(packetizer, unit).map_or(Vec::new(), |unit| {
        unit.payloads().map(<[u8]>::to_vec).collect()
    })
}

/// Distance of the timestamps of two units.
const STEP: u32 = 3000;

/// Sends units, numbered from 100, without the packets `lost`; returns what arrives.
fn receive(codec: Codec, units: &[Vec<u8>], lost: &[u64]) -> (Vec<Unit>, Counters) {
    let track = track(codec);
    let mut packetizer = Packetizer::new(&track);
    let mut depacketizer = Depacketizer::new(&track).expect("both ways");
    let mut out = Vec::new();
    let mut sequence = 100;
    for (unit, timestamp) in units.iter().zip((0..).step_by(STEP as usize)) {
        let packets = payloads(&mut packetizer, unit);
        for (index, packet) in packets.iter().enumerate() {
            if !lost.contains(&sequence) {
                let marker = codec.marks_frames() && index + 1 == packets.len();
                depacketizer.push(sequence, timestamp, marker, packet);
                out.extend(std::iter::from_fn(|| depacketizer.poll()));
            }
            sequence += 1;
        }
    }
    (out, depacketizer.counters())
}

fn group(codec: Codec, sizes: &[usize]) -> Vec<Vec<u8>> {
    let sizes = sizes.iter().enumerate();
    sizes
        .map(|(index, &len)| unit(codec, index, len, index % 5 == 0))
        .collect()
}

#[test]
fn the_coded_frame_is_read_by_reference_as_it_went_in() {
    for codec in Codec::all() {
        let mut packetizer = Packetizer::new(&track(codec));
        for (seed, len) in [3000, 20, 900, 1146, 1151, 5000, 7, 20_000]
            .into_iter()
            .enumerate()
        {
            let sent = unit(codec, seed, len, seed % 3 == 0);
            let made = packetized(&mut packetizer, &sent).expect("packets");
            let frame = made.coded_frame().expect("it was packetized here");
            assert!(frame.to_vec() == sent, "{codec}, {len} bytes");
            assert_eq!(frame.byte_count(), sent.len(), "{codec}");
        }
    }
}

#[test]
fn units_of_every_codec_come_back_as_they_were() {
    let sizes = [3000, 20, 900, 1146, 1151, 5000, 7];
    for codec in both_ways() {
        let sent = group(codec, &sizes);
        let (units, counters) = receive(codec, &sent, &[]);
        let came: Vec<u8> = units.iter().flat_map(|unit| unit.data.clone()).collect();
        assert!(came == sent.concat(), "{codec}");
        assert!(units.iter().all(|unit| !unit.after_loss), "{codec}");
        assert_eq!(
            counters.malformed + counters.damaged + counters.lost,
            0,
            "{codec}"
        );
        if codec != Codec::MpegTs {
            let times: Vec<u32> = units.iter().map(|unit| unit.timestamp).collect();
            assert_eq!(times, [0, 1, 2, 3, 4, 5, 6].map(|it| it * STEP), "{codec}");
        }
    }
}

#[test]
fn keyframes_are_known_from_others() {
    for codec in [
        Codec::H264,
        Codec::H265,
        Codec::Vp8,
        Codec::Vp9,
        Codec::Av1,
        Codec::Mpeg4Visual,
        Codec::MpegVideo,
        Codec::Theora,
    ] {
        let (units, _) = receive(
            codec,
            &group(codec, &[2000, 10, 1200, 4000, 9, 50, 60]),
            &[],
        );
        let keyframes: Vec<bool> = units.iter().map(Unit::is_keyframe).collect();
        let expected = [true, false, false, false, false, true, false];
        assert_eq!(keyframes, expected, "{codec}");
    }
    let (units, _) = receive(
        Codec::MpegTs,
        &[unit(Codec::MpegTs, 0, 188 * 12, true)],
        &[],
    );
    let keyframes: Vec<bool> = units.iter().map(Unit::is_keyframe).collect();
    assert_eq!(
        keyframes,
        [true, false],
        "the first six packets have the program table"
    );
}

#[test]
fn payloads_fit_and_are_equal_but_for_the_last() {
    for codec in both_ways() {
        let mut packetizer = Packetizer::new(&track(codec));
        let unit = unit(codec, 1, 6000, true);
        let packets = payloads(&mut packetizer, &unit);
        assert!(
            packets
                .iter()
                .all(|packet| packet.len() <= PAYLOAD_BYTES_MAX),
            "{codec}"
        );
        let Some((last, others)) = packets.split_last().filter(|(_, it)| !it.is_empty()) else {
            continue;
        };
        // Parameter sets precede in a packet of their own; slices are single packets.
        let others = match codec {
            Codec::H264 | Codec::H265 => &others[1..],
            Codec::MpegVideo => continue,
            _ => others,
        };
        assert!(
            others.iter().all(|packet| packet.len() == others[0].len()),
            "{codec}"
        );
        assert!(last.len() <= others[0].len(), "{codec}");
    }
}

#[test]
fn what_cannot_be_cut_must_fit() {
    for codec in [Codec::Opus, Codec::Pcma, Codec::L16, Codec::T140] {
        let mut packetizer = Packetizer::new(&track(codec));
        let mut out = UnitBuilder::default();
        assert_eq!(packetizer.packetize(&[1; 1150], &mut out), Ok(()));
        assert_eq!(out.packet_count(), 1);
        let refused = packetizer.packetize(&[1; 1151], &mut out);
        let long = matches!(
            refused,
            Err(PacketizeError::TooLong {
                bytes: 1151,
                max: 1150
            })
        );
        assert!(long, "{refused:?}");
    }
}

#[test]
fn modes_that_are_not_read_are_refused_by_name() {
    let refused = |codec, parameters: &str| {
        let track = Track::new(codec).with_format_parameters(parameters);
        Depacketizer::new(&track).expect_err("not read").to_string()
    };
    for (codec, parameters, named) in [
        (Codec::Amr, "", "octet-align=0"),
        (
            Codec::AmrWb,
            "octet-align=1; interleaving=30",
            "interleaving=30",
        ),
        (
            Codec::Aac,
            "sizelength=13;indexlength=3;ctsdeltalength=16",
            "ctsdeltalength=16",
        ),
        (Codec::Vorbis, "", "Vorbis"),
    ] {
        let text = refused(codec, parameters);
        assert!(text.contains(named), "{text}");
    }
}

#[test]
fn a_unit_beyond_the_bound_is_dropped() {
    for codec in both_ways().filter(|codec| codec.kind() == glassline_media::Kind::Video) {
        let track = track(codec);
        let mut depacketizer = Depacketizer::bounded(&track, 4000).expect("known");
        let mut packetizer = Packetizer::new(&track);
        let mut sequence = 0;
        for (len, timestamp) in [(20_000, 0), (200, 1)] {
            let packets = payloads(&mut packetizer, &unit(codec, 0, len, true));
            for (index, packet) in packets.iter().enumerate() {
                depacketizer.push(sequence, timestamp, index + 1 == packets.len(), packet);
                sequence += 1;
            }
        }
        if codec != Codec::MpegTs {
            assert_eq!(
                depacketizer.poll().expect("the next").timestamp,
                1,
                "{codec}"
            );
            assert_eq!(depacketizer.counters().oversized, 1, "{codec}");
        }
    }
}

#[test]
fn parameters_are_found_in_any_case_and_without_quotes() {
    let text = "profile-level-id=1; SizeLength = 13;config=\"1210\"; empty";
    assert_eq!(parameter(text, "sizelength"), Some("13"));
    assert_eq!(parameter(text, "Config"), Some("1210"));
    assert_eq!(parameter(text, "empty"), None);
}

fn codec() -> impl Strategy<Value = Codec> {
    prop::sample::select(both_ways().collect::<Vec<_>>())
}

/// Returns what a receiver makes of the packets of a frame. Payloads of JPEG count its height and
/// width in blocks of 8 pixels (RFC 2435 §3.1.5); a frame keeps the exact ones.
fn as_received(codec: Codec, mut frame: Vec<u8>) -> Vec<u8> {
    /// Where the height and the width are, behind SOI, APP0, DQT and the first bytes of SOF0.
    const SIDES: std::ops::Range<usize> = 159..163;
    if codec == Codec::Jpeg {
        for side in frame[SIDES].as_chunks_mut().0 {
            *side = u16::from_be_bytes(*side).next_multiple_of(8).to_be_bytes();
        }
    }
    frame
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn what_is_delivered_under_loss_was_sent(
        codec in codec(),
        lost in prop::collection::vec(1u64..100, 0..20),
        sizes in prop::collection::vec(16usize..4000, 20),
    ) {
        let sent = group(codec, &sizes);
        // Losses before the first packet received cannot be detected.
        let lost: Vec<u64> = lost.into_iter().map(|number| number + 100).collect();
        let (units, counters) = receive(codec, &sent, &lost);
        let mut next = 0;
        for came in &units {
            let index = (came.timestamp / STEP) as usize;
            if codec == Codec::MpegTs {
                prop_assert!(came.data.len().is_multiple_of(188));
                continue;
            }
            prop_assert!(came.data == sent[index], "{codec}: unit {index}");
            prop_assert!(came.after_loss || index == next, "{codec}: unit {index}");
            next = index + 1;
        }
        prop_assert_eq!(counters.delivered, units.len() as u64);
        // After a loss, AV1 waits for a keyframe.
        if codec != Codec::Av1 {
            let whole = units.len() + 2 * lost.len();
            prop_assert!(whole >= sent.len(), "{}: a loss costs two units at most", codec);
        }
    }

    #[test]
    fn what_came_back_makes_the_same_packets(
        // H.264 sends all NAL units that it is given, including aggregates.
        codec in codec().prop_filter("H.264", |codec| *codec != Codec::H264),
        size in 1usize..4000,
        keyframe in any::<bool>(),
        damage in prop::collection::vec((0usize..4000, any::<u8>()), 0..8),
    ) {
        let mut unit = unit(codec, 1, size, keyframe);
        let len = unit.len();
        for (index, byte) in damage {
            unit[index % len] = byte;
        }
        let packets = |unit: &[u8]| {
            let mut builder = UnitBuilder::default();
            Packetizer::new(&track(codec)).packetize(unit, &mut builder).ok()?;
            let unit = builder.build(TrackIndex(0), MediaTime::ZERO, false, Stamps::arrived(Instant::now()))?;
            let payloads = unit.payloads().map(<[u8]>::to_vec).collect::<Vec<_>>();
            Some((payloads, as_received(codec, unit.coded_frame()?.to_vec())))
        };
        let sent = packets(&unit);
        let mut depacketizer = Depacketizer::new(&track(codec)).expect("known");
        let payloads = sent.as_ref().map_or(&[][..], |(payloads, _)| payloads);
        for (payload, number) in payloads.iter().zip(0..) {
            let marker = codec.marks_frames() && number as usize + 1 == payloads.len();
            depacketizer.push(number, 0, marker, payload);
        }
        let units = std::iter::from_fn(|| depacketizer.poll());
        let back: Vec<u8> = units.flat_map(|unit| unit.data).collect();
        // A unit that does not begin as its codec specifies looks like a part of another.
        if !back.is_empty() {
            prop_assert!(sent.as_ref().is_some_and(|(_, frame)| *frame == back), "{codec}: by reference");
            prop_assert_eq!(packets(&back), sent);
        }
    }

    #[test]
    fn nothing_from_a_network_panics_or_grows(
        codec in codec(),
        packets in prop::collection::vec(
            (0u64..3, 0u32..2, any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)), 0..40),
    ) {
        let mut depacketizer = Depacketizer::bounded(&track(codec), 1000).expect("known");
        let mut packetizer = Packetizer::new(&track(codec));
        let (mut sequence, mut timestamp) = (0, 0u32);
        for (step, tick, marker, payload) in packets {
            sequence += step;
            timestamp = timestamp.wrapping_add(tick);
            depacketizer.push(sequence, timestamp, marker, &payload);
            while let Some(unit) = depacketizer.poll() {
                prop_assert!(unit.data.len() <= 1000 && !unit.data.is_empty());
            }
            // Files may contain anything as well.
            let _ = packetizer.packetize(&payload, &mut UnitBuilder::default());
        }
    }
}
