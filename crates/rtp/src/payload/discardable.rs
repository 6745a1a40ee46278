//! Frames to which no other frame refers, so that they may be left out.

use glassline_media::{Codec, MediaUnit};

use super::nal_units::aggregated;

/// Bits of `nal_ref_idc` in the first byte of a NAL unit, and of a payload of RFC 6184 §5.3.
const REFERENCE: u8 = 0x60;
/// Bits of the type.
const TYPE: u8 = 0x1f;
/// Type of a slice of a picture that is no IDR picture (H.264 table 7-1).
const SLICE: u8 = 1;
/// Types of payloads with several NAL units (STAP-A), and with a part of one (FU-A).
const AGGREGATE: u8 = 24;
const FRAGMENT: u8 = 28;

/// Returns whether `unit` is a whole frame to which no other frame refers: one of H.264 whose slices have a
/// `nal_ref_idc` of 0 (§7.4.1). False for every other codec, whose payloads have numbers that would show a gap.
pub fn is_discardable(codec: Codec, unit: &MediaUnit) -> bool {
    if codec != Codec::H264 || unit.keyframe || !unit.first || !unit.last {
        return false;
    }
    let mut has_slice = false;
    let mut payloads = unit.payloads();
    payloads.all(|payload| is_unreferenced(payload, &mut has_slice)) && has_slice
}

/// Returns whether a payload has no NAL unit to which others refer. Notes in `has_slice` whether there is a
/// slice in it.
fn is_unreferenced(payload: &[u8], has_slice: &mut bool) -> bool {
    let Some(first) = payload.first() else {
        return true;
    };
    let mut note = |unit: u8| {
        *has_slice |= unit & TYPE == SLICE;
        unit & REFERENCE == 0
    };
    match first & TYPE {
        _ if first & REFERENCE != 0 => false,
        FRAGMENT => payload.get(1).is_some_and(|header| note(header & TYPE)),
        AGGREGATE => aggregated(&payload[1..])
            .flatten()
            .all(|unit| note(unit[0])),
        _ => note(*first),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, Track, TrackIndex, UnitBuilder, VideoParameters};
    use proptest::prelude::*;

    use super::*;
    use crate::payload::Packetizer;

    fn unit(payloads: &[&[u8]]) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        payloads.iter().for_each(|payload| builder.push(payload));
        built(builder)
    }

    fn built(mut builder: UnitBuilder) -> MediaUnit {
        let (time, stamps) = (MediaTime::from_nanos(0), Stamps::arrived(Instant::now()));
        let unit = builder.build(TrackIndex(0), time, false, stamps);
        unit.expect("a packet")
    }

    fn is_left_out(payloads: &[&[u8]]) -> bool {
        is_discardable(Codec::H264, &unit(payloads))
    }

    #[test]
    fn frames_without_references_are_known_in_every_form_of_a_payload() {
        assert!(is_left_out(&[&[0x01, 9]]));
        assert!(!is_left_out(&[&[0x41, 9]]));
        assert!(
            is_left_out(&[&[0x09, 0xf0], &[0x06, 1], &[0x01, 9]]),
            "behind a delimiter"
        );
        assert!(!is_left_out(&[&[0x09, 0xf0], &[0x06, 1]]), "no slice");
        assert!(!is_left_out(&[&[0x01, 9], &[0x21, 9]]), "one slice of two");
        assert!(
            is_left_out(&[&[0x1c, 0x81, 7], &[0x1c, 0x41, 7]]),
            "fragments"
        );
        assert!(!is_left_out(&[&[0x5c, 0x81, 7]]));
        assert!(
            is_left_out(&[&[24, 0, 2, 0x06, 1, 0, 2, 0x01, 9]]),
            "an aggregate"
        );
        assert!(
            !is_left_out(&[&[24, 0, 2, 0x06, 1, 0, 2, 0x61, 9]]),
            "it says otherwise"
        );
        let slice = unit(&[&[0x01, 9]]);
        assert!(!is_discardable(Codec::Vp8, &slice));
        let mut part = unit(&[&[0x01, 9]]);
        part.last = false;
        assert!(
            !is_discardable(Codec::H264, &part),
            "more of the frame follows"
        );
        let mut keyframe = unit(&[&[0x01, 9]]);
        keyframe.keyframe = true;
        assert!(!is_discardable(Codec::H264, &keyframe));
    }

    proptest! {
        #[test]
        fn a_frame_is_known_by_its_slices_however_it_is_packetized(
            sizes in prop::collection::vec(1_usize..3_000, 1..4),
            importance in 0_u8..4,
        ) {
            let mut access_unit = vec![0, 0, 0, 1, 0x09, 0xf0];
            for size in sizes {
                access_unit.extend([0, 0, 1, importance << 5 | SLICE]);
                access_unit.extend(std::iter::repeat_n(0x5a, size));
            }
            let mut builder = UnitBuilder::default();
            let mut packetizer = Packetizer::new(&Track::h264(VideoParameters::default()));
            packetizer.packetize(&access_unit, &mut builder).expect("H.264");
            let unit = built(builder);
            prop_assert_eq!(is_discardable(Codec::H264, &unit), importance == 0);
        }

        #[test]
        fn any_payload_is_read(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 1..40), 1..4)) {
            let payloads: Vec<&[u8]> = payloads.iter().map(Vec::as_slice).collect();
            let is_left = is_left_out(&payloads);
            let refers = payloads.iter().any(|it| it[0] & REFERENCE != 0);
            prop_assert!(!(is_left && refers));
        }
    }
}
