//! The header extension of packets of a recording (ONVIF Streaming Specification §6.3).
//!
//! ```text
//!  0                   1                   2                   3
//! │ 0xABAC                        │ length 3                      │
//! │ NTP timestamp: seconds since 1900                             │
//! │ NTP timestamp: fraction of a second                           │
//! │C│E│D│T│ 0     │ CSeq          │ 0                             │
//! ```
//!
//! The first packet of each frame has it.

use std::time::Duration;

use glassline_media::{MediaUnit, RecordedPlace};

/// Bytes of the extension.
pub(super) const REPLAY_EXTENSION_BYTES: usize = 16;

/// Bit of the first byte of an RTP header: an extension follows.
pub(super) const EXTENSION_BIT: u8 = 0x10;

/// Seconds from 1900, where NTP counts from, to 1970.
const NTP_OF_1970: u64 = 2_208_988_800;

/// The frame is one that a decoder can start with.
const CLEAN_POINT: u8 = 0x80;
/// Frames are missing behind this one.
const END_OF_SECTION: u8 = 0x40;
/// The frame does not follow the one that was sent before.
const DISCONTINUITY: u8 = 0x20;
/// Nothing is played behind the frame.
const TERMINAL: u8 = 0x10;

/// Returns the extension of the packet `place` of `unit`, for a client whose PLAY had the low byte `sequence` of
/// `CSeq`; `None` for a packet that has none.
pub(super) fn of_packet(
    unit: &MediaUnit,
    place: usize,
    sequence: u8,
) -> Option<[u8; REPLAY_EXTENSION_BYTES]> {
    let recorded = unit.recorded.filter(|_| unit.first && place == 0)?;
    let mut bytes = [0; REPLAY_EXTENSION_BYTES];
    bytes[..4].copy_from_slice(&[0xab, 0xac, 0, 3]);
    bytes[4..12].copy_from_slice(&ntp(recorded.wall_clock).to_be_bytes());
    bytes[12] = flags(recorded, unit.keyframe);
    bytes[13] = sequence;
    Some(bytes)
}

fn flags(recorded: RecordedPlace, keyframe: bool) -> u8 {
    let flags = [
        (keyframe, CLEAN_POINT),
        (recorded.ends_section, END_OF_SECTION),
        (recorded.is_discontinuous, DISCONTINUITY),
        (recorded.is_last, TERMINAL),
    ];
    let set = flags.iter().filter(|(is_set, _)| *is_set);
    set.fold(0, |all, (_, flag)| all | flag)
}

/// Returns a time since 1970 as an NTP timestamp (RFC 5905 §6), which begins anew in 2036.
fn ntp(since_1970: Duration) -> u64 {
    let seconds = since_1970.as_secs().wrapping_add(NTP_OF_1970);
    let fraction = (u64::from(since_1970.subsec_nanos()) << 32) / 1_000_000_000;
    seconds << 32 | fraction
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};

    use super::*;

    fn unit(keyframe: bool, recorded: Option<RecordedPlace>) -> MediaUnit {
        let mut builder = UnitBuilder::default();
        builder.push(&[7; 10]);
        builder.push(&[8; 10]);
        let stamps = Stamps::arrived(Instant::now());
        let unit = builder.build(TrackIndex(0), MediaTime::ZERO, keyframe, stamps);
        let mut unit = unit.expect("packets");
        unit.recorded = recorded;
        unit
    }

    #[test]
    fn the_first_packet_of_a_frame_says_when_it_was_recorded() {
        let place = RecordedPlace {
            // 2023-11-14T22:13:20.5Z
            wall_clock: Duration::from_millis(1_700_000_000_500),
            is_discontinuous: true,
            ends_section: false,
            is_last: false,
        };
        let key = unit(true, Some(place));
        let expected = [
            0xab, 0xac, 0x00, 0x03, 0xe8, 0xfe, 0x6f, 0x80, 0x80, 0x00, 0x00, 0x00, 0xa0, 0x2a, 0,
            0,
        ];
        assert_eq!(of_packet(&key, 0, 42), Some(expected));
        assert_eq!(of_packet(&key, 1, 42), None, "the first packet alone");
        assert_eq!(of_packet(&unit(true, None), 0, 42), None, "live");
        let last = RecordedPlace {
            is_discontinuous: false,
            ends_section: true,
            is_last: true,
            ..place
        };
        let bytes = of_packet(&unit(false, Some(last)), 0, 1).expect("one");
        assert_eq!(bytes[12..14], [0x50, 1]);
    }
}
