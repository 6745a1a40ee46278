//! Each codec of browsers, from unit to unit, over a lossy path.

use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};
use glassline_rtp::payload::{Depacketizer, Packetizer};
use glassline_sim::Loss;

use super::*;

/// Builds a keyframe of the codec, of some thousand bytes.
fn keyframe(codec: Codec) -> Vec<u8> {
    let body: Vec<u8> = (0..5000u32).map(|at| 1 + (at % 250) as u8).collect();
    let head: &[u8] = match codec {
        Codec::H264 => &[0, 0, 0, 1, 0x65, 0x88],
        Codec::H265 => &[0, 0, 0, 1, 0x26, 1, 0xaf],
        Codec::Vp8 => &[0x10, 2, 0],
        Codec::Vp9 => &[0x82, 0x49, 0x83, 0x42, 0, 0x27, 0xf0, 0x16, 0x70],
        // A sequence header, then a frame of 1 + 5000 bytes.
        Codec::Av1 => &[0x0a, 1, 0, 0x32, 0x89, 0x27, 0x10],
        _ => &[],
    };
    let len = if codec.kind() == glassline_media::Kind::Video {
        5000
    } else {
        160
    };
    [head, &body[..len]].concat()
}

#[test]
fn every_codec_of_browsers_arrives_whole_over_a_lossy_path() {
    let codecs = Codec::all().filter(|codec| codec.is_played_by_browsers());
    for (codec, seed) in codecs.zip(1..) {
        let track = match codec {
            Codec::Opus => Track::audio(codec, 2),
            _ => Track::new(codec),
        };
        let mut pair = Pair::connected(Setup {
            conditions: Conditions::delayed(ms(25)).with_loss(Loss::Random(0.05)),
            seed,
            tracks: vec![track.clone()],
            ..Setup::default()
        });
        let unit = keyframe(codec);
        let mut packetizer = Packetizer::new(&track);
        for number in 0..30 {
            let mut builder = UnitBuilder::default();
            packetizer
                .packetize(&unit, &mut builder)
                .expect("a valid unit");
            let stamps = Stamps::arrived(pair.now());
            let unit = builder
                .build(TrackIndex(0), MediaTime::ZERO, true, stamps)
                .expect("packets");
            for (index, payload) in unit.payloads().enumerate() {
                let marker = codec.marks_frames() && unit.marker(index);
                pair.send(0, number * 3000, marker, payload);
            }
            pair.run_for(ms(33));
        }
        pair.run_for(ms(500));
        let mut received: Vec<_> = pair.client.received.iter().collect();
        received.sort_by_key(|it| it.sequence);
        let mut depacketizer = Depacketizer::new(&track).expect("known");
        let mut whole = 0;
        for it in received {
            depacketizer.push(it.sequence, it.timestamp, it.marker, &it.payload);
            while let Some(came) = depacketizer.poll() {
                assert!(came.data == unit && came.is_keyframe(), "{codec}");
                whole += 1;
            }
        }
        // Video is repaired, audio is not.
        let least = if codec.marks_frames() { 29 } else { 24 };
        assert!((least..=30).contains(&whole), "{codec}: {whole} of 30");
    }
}
