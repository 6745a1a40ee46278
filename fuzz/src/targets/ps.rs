//! Program streams and bare MPEG video: any bytes either fail with a reason or
//! play, and frames are sent in an order of times that never fall.

use std::io::Cursor;

use glassline_demux::{Demuxer, Format, Input, Options};
use glassline_media::{Codec, MediaTime};

pub(crate) fn run(bytes: &[u8]) {
    for format in [Format::MpegPs, Format::MpegVideo] {
        let input = Input {
            name: "fuzz.mpg".into(),
            format,
            data: Box::new(Cursor::new(bytes.to_vec())),
        };
        match Demuxer::new(vec![input], &Options::default()) {
            Ok(demuxer) => play(demuxer),
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn play(mut demuxer: Demuxer) {
    for seek_ms in [None, Some(100), Some(0)] {
        if let Some(ms) = seek_ms {
            let to = MediaTime::from_nanos(ms * 1_000_000);
            demuxer.seek(to).expect("memory can be read");
        }
        let mut last = None::<MediaTime>;
        for _ in 0..200 {
            let Some(frame) = demuxer.next_frame().expect("memory can be read") else {
                break;
            };
            assert!(!frame.data.is_empty());
            if demuxer.tracks()[frame.track].codec == Codec::MpegVideo {
                assert!(last.is_none_or(|last| last <= frame.decode_time));
                last = Some(frame.decode_time);
            }
        }
    }
}
