//! Video of strangers that is encoded again: any access units of H.264, at any times, make frames
//! whose times rise, or a named error.
//!
//! The decoder is OpenH264's, in C++, which this target runs without a sanitizer.

use glassline_media::{Bitrate, MediaTime};
use glassline_transcode::{AccessUnit, VideoTranscoder};

pub(crate) fn run(bytes: &[u8]) {
    let mut transcoder = VideoTranscoder::new(Bitrate::from_bps(500_000));
    let (mut rest, mut frames) = (bytes, Vec::new());
    // Each record: flags, the time in units of 20 ms, the length of a unit in two bytes, its bytes.
    while let [flags, time, high, low, behind @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let (unit, next) = behind.split_at(length.min(behind.len()));
        let time = MediaTime::from_nanos(i64::from(*time) * 20_000_000);
        let unit = AccessUnit {
            data: unit,
            time,
            keyframe: flags & 1 != 0,
        };
        let encodes = flags & 2 == 0;
        if flags & 4 != 0 {
            transcoder.request_keyframe(0);
        }
        if flags & 8 != 0 {
            transcoder.leave_out();
        }
        if let Err(error) = transcoder.push(unit, encodes, &mut frames) {
            assert!(!error.to_string().is_empty());
        }
        rest = next;
    }
    assert!(frames.windows(2).all(|pair| pair[0].time < pair[1].time));
    let counts = transcoder.counts();
    assert_eq!(counts.frames_out, frames.len() as u64);
    assert!(counts.undecodable <= counts.frames_in);
}
