//! H.264 payloads: any sequence of packets goes into the depacketizer, whose units stay
//! complete and bounded; then the input goes as NAL units through packets and back.

use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};
use glassline_rtp::h264::{Depacketizer, packetize, payload_begins_keyframe};

const UNIT_BYTES_MAX: usize = 4096;

pub(crate) fn run(bytes: &[u8]) {
    any_packets(bytes);
    there_and_back(bytes);
}

/// Each packet in the input has a byte of control (marker, new timestamp, skipped numbers), a
/// byte of length, and the payload.
fn any_packets(mut bytes: &[u8]) {
    let mut depacketizer = Depacketizer::new(UNIT_BYTES_MAX);
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
            assert!(unit.nals().count() > 0);
            let framed: usize = unit.nals().map(|unit| unit.len() + 4).sum();
            assert_eq!(framed, unit.data.len());
        }
    }
}

/// Splits the input at zero bytes into NAL units of types that are carried.
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
    let mut builder = UnitBuilder::default();
    packetize(units.iter().map(Vec::as_slice), payload_max, &mut builder);
    let stamps = Stamps::arrived(std::time::Instant::now());
    let unit = builder
        .build(TrackIndex(0), MediaTime::ZERO, false, stamps)
        .expect("at least the parameter set");
    let mut depacketizer = Depacketizer::default();
    for (index, payload) in unit.payloads().enumerate() {
        assert!(payload.len() <= payload_max);
        depacketizer.push(index as u64, 0, unit.marker(index), payload);
    }
    let unit = depacketizer.poll().expect("nothing was lost");
    assert!(unit.nals().eq(units.iter().map(Vec::as_slice)));
}
