//! H.265 files: any bytes either fail with a reason or play, once and looped, and
//! from wherever a seek leads, in an order of rising times.

use std::io::Cursor;

use glassline_demux::{Demuxer, Format, Input, Options};
use glassline_media::MediaTime;

pub(crate) fn run(bytes: &[u8]) {
    for once in [true, false] {
        let input = Input {
            name: "fuzz.h265".into(),
            format: Format::H265,
            data: Box::new(Cursor::new(bytes.to_vec())),
        };
        match Demuxer::new(vec![input], &Options { fps: None, once }) {
            Ok(demuxer) => play(demuxer),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn play(mut demuxer: Demuxer) {
    let track = &demuxer.tracks()[0];
    assert!(track.video.width > 0 && track.video.height > 0);
    assert!(track.format_parameters.contains("sprop-vps="));
    for seek_ms in [None, Some(100), Some(0)] {
        if let Some(ms) = seek_ms {
            let to = MediaTime::from_nanos(ms * 1_000_000);
            demuxer.seek(to).expect("memory can be read");
        }
        let mut last = None::<MediaTime>;
        for index in 0..200 {
            let Some(frame) = demuxer.next_frame().expect("memory can be read") else {
                break;
            };
            assert!(frame.keyframe || index > 0);
            assert!(frame.time >= MediaTime::ZERO && frame.decode_time <= frame.time);
            assert!(last.is_none_or(|last| last < frame.decode_time));
            last = Some(frame.decode_time);
        }
    }
}
