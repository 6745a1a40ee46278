//! H.264 files: any bytes either fail with a reason or play, once and looped, are
//! sent in an order of rising times, none after it is shown, and have keyframes
//! that a decoder can start at.

use std::io::Cursor;

use glassline_demux::annexb::{nal_type, nals};
use glassline_demux::{Demuxer, Format, Input, Options};
use glassline_media::MediaTime;

pub(crate) fn run(bytes: &[u8]) {
    let mut units = nals(bytes);
    assert!(units.all(|unit| !unit.is_empty() && unit.last() != Some(&0)));
    for once in [true, false] {
        let input = Input {
            name: "fuzz.h264".into(),
            format: Format::H264,
            data: Box::new(Cursor::new(bytes.to_vec())),
        };
        let options = Options { fps: None, once };
        match Demuxer::new(vec![input], &options) {
            Ok(demuxer) => play(demuxer, once),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn play(mut demuxer: Demuxer, once: bool) {
    let video = &demuxer.tracks()[0].video;
    assert!(!video.sps.is_empty() && video.width > 0 && video.height > 0);
    let mut last = None::<MediaTime>;
    for index in 0..400 {
        let Some(frame) = demuxer.next_frame().expect("memory can be read") else {
            assert!(once && index > 0);
            return;
        };
        assert!(frame.keyframe || index > 0);
        assert!(frame.time >= MediaTime::ZERO && frame.decode_time <= frame.time);
        assert!(last.is_none_or(|last| last < frame.decode_time));
        if frame.keyframe {
            for needed in [nal_type::SPS, nal_type::PPS, nal_type::IDR] {
                assert!(nals(&frame.data).any(|unit| unit[0] & 0x1f == needed));
            }
        }
        last = Some(frame.decode_time);
    }
}
