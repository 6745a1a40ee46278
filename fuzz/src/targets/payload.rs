//! Payload formats of every codec: any sequence of packets goes into the depacketizer, whose
//! units stay bounded; then the input goes as a unit through packets and back, and packetizing
//! it again gives the same packets.

use std::time::Instant;

use glassline_media::{
    Codec, MediaTime, PAYLOAD_BYTES_MAX, Stamps, Track, TrackIndex, UnitBuilder,
};
use glassline_rtp::payload::{Depacketizer, Packetizer};

const UNIT_BYTES_MAX: usize = 4096;

pub(crate) fn run(bytes: &[u8]) {
    let Some((&number, bytes)) = bytes.split_first() else {
        return;
    };
    let codecs: Vec<Codec> = Codec::all().collect();
    let codec = codecs[usize::from(number) % codecs.len()];
    let parameters = match codec {
        Codec::Amr | Codec::AmrWb => "octet-align=1",
        _ => "",
    };
    let track = Track::new(codec).with_format_parameters(parameters);
    any_packets(&track, bytes);
    if codec == Codec::Aac {
        // The other payload format of AAC, which is received only.
        any_packets(
            &track.clone().with_format_parameters("mode=MP4A-LATM"),
            bytes,
        );
    }
    // H.264 has its own target.
    if codec != Codec::H264 {
        there_and_back(&track, bytes);
    }
}

/// Each packet in the input has a byte of control (marker, new timestamp, skipped numbers), a
/// byte of length, and the payload.
fn any_packets(track: &Track, mut bytes: &[u8]) {
    let Ok(mut depacketizer) = Depacketizer::bounded(track, UNIT_BYTES_MAX) else {
        return;
    };
    let (mut sequence, mut timestamp) = (0, 0u32);
    while let [control, len, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        timestamp = timestamp.wrapping_add(u32::from(control >> 1 & 1));
        sequence += u64::from(control >> 2 & 3);
        depacketizer.push(sequence, timestamp, control & 1 == 1, payload);
        while let Some(unit) = depacketizer.poll() {
            assert!(!unit.data.is_empty() && unit.data.len() <= UNIT_BYTES_MAX);
        }
    }
}

fn there_and_back(track: &Track, unit: &[u8]) {
    let Some((packets, frame)) = packets(track, unit) else {
        return;
    };
    let Ok(mut depacketizer) = Depacketizer::new(track) else {
        return;
    };
    for (index, payload) in packets.iter().enumerate() {
        assert!(payload.len() <= PAYLOAD_BYTES_MAX);
        let marker = track.codec.marks_frames() && index + 1 == packets.len();
        depacketizer.push(index as u64, 0, marker, payload);
    }
    let units = std::iter::from_fn(|| depacketizer.poll());
    let back: Vec<u8> = units.flat_map(|unit| unit.data).collect();
    // A unit that does not begin as its codec specifies looks like a part of another.
    if back.is_empty() {
        return;
    }
    let again = self::packets(track, &back).expect("it was packetized before");
    if track.codec == Codec::Jpeg {
        // Packets count width and height in blocks of 8 pixels; the frame by reference is exact.
        assert_eq!((again.0, back.len()), (packets, frame.len()));
    } else {
        assert_eq!(frame, back, "the frame by reference");
        assert_eq!(again, (packets, frame));
    }
}

/// Returns the payloads, and the coded frame as it is read by reference.
fn packets(track: &Track, unit: &[u8]) -> Option<(Vec<Vec<u8>>, Vec<u8>)> {
    let mut builder = UnitBuilder::default();
    Packetizer::new(track).packetize(unit, &mut builder).ok()?;
    let stamps = Stamps::arrived(Instant::now());
    let unit = builder.build(TrackIndex(0), MediaTime::ZERO, false, stamps)?;
    let payloads = unit.payloads().map(<[u8]>::to_vec).collect();
    Some((payloads, unit.coded_frame()?.to_vec()))
}
