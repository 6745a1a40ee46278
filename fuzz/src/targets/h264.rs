//! H.264 payloads: any sequence of packets goes into the depacketizer, whose units stay
//! complete and bounded; then the input goes as NAL units through packets and back.

use glassline_media::annexb::nals;
use glassline_media::{MediaTime, Stamps, Track, TrackIndex, UnitBuilder, VideoParameters};
use glassline_rtp::h264::{nal, nal_type, packetize, payload_begins_keyframe};
use glassline_rtp::payload::{self, Depacketizer};

const UNIT_BYTES_MAX: usize = 4096;

pub(crate) fn run(bytes: &[u8]) {
    any_packets(bytes);
    there_and_back(bytes);
}

/// Each packet in the input has a byte of control (marker, new timestamp, skipped numbers), a
/// byte of length, and the payload.
fn any_packets(mut bytes: &[u8]) {
    let mut depacketizer = depacketizer(UNIT_BYTES_MAX);
    let (mut sequence, mut timestamp) = (0, 0u32);
    while let [control, len, rest @ ..] = bytes {
        let (payload, rest) = rest.split_at(rest.len().min(usize::from(*len)));
        bytes = rest;
        timestamp = timestamp.wrapping_add(u32::from(control >> 1 & 1));
        sequence += u64::from(control >> 2 & 3);
        payload_begins_keyframe(payload);
        depacketizer.push(sequence, timestamp, control & 1 == 1, payload);
        while let Some(unit) = depacketizer.poll() {
            assert!(unit.data.len() <= UNIT_BYTES_MAX);
            assert!(nals(&unit.data).count() > 0);
        }
    }
}

fn depacketizer(unit_bytes_max: usize) -> Depacketizer {
    let track = Track::h264(VideoParameters::default());
    Depacketizer::bounded(&track, unit_bytes_max).expect("H.264 is received")
}

/// Splits the input at zero bytes into NAL units of types that are carried, slices last.
fn there_and_back(bytes: &[u8]) {
    let Some((&size, bytes)) = bytes.split_first() else {
        return;
    };
    let payload_max = usize::from(size) + 3;
    let mut units = vec![vec![0x67, 1]];
    units.extend(bytes.split(|&byte| byte == 0).map(|body| {
        let kind = body.first().map_or(1, |first| first % 8 + 1);
        [&[0x60 | kind], body].concat()
    }));
    units.sort_by_key(|unit| nal_type(unit[0]) < nal::SEI);
    units.push(vec![0x41, 0x9a]);
    let mut builder = UnitBuilder::default();
    packetize(units.iter().map(Vec::as_slice), payload_max, &mut builder);
    let stamps = Stamps::arrived(std::time::Instant::now());
    let unit = builder
        .build(TrackIndex(0), MediaTime::ZERO, false, stamps)
        .expect("at least the parameter set");
    let mut depacketizer = depacketizer(payload::UNIT_BYTES_MAX);
    for (index, payload) in unit.payloads().enumerate() {
        assert!(payload.len() <= payload_max);
        depacketizer.push(index as u64, 0, unit.marker(index), payload);
    }
    let unit = depacketizer.poll().expect("nothing was lost");
    assert!(nals(&unit.data).eq(units.iter().map(Vec::as_slice)));
}
