//! What the targets of containers share: a file either fails with a reason or
//! plays, with times that do not fall, whole and from the middle, once and looped.

use std::io::Cursor;

use glassline_demux::{Demuxer, Format, Input, Options};
use glassline_media::MediaTime;

/// More units than any input that fits has where it is played once.
const UNITS_MAX: usize = 400;

pub(crate) fn open(format: Format, bytes: &[u8]) {
    for once in [true, false] {
        let input = Input {
            name: "fuzz".into(),
            format,
            data: Box::new(Cursor::new(bytes.to_vec())),
        };
        let options = Options { fps: None, once };
        match Demuxer::new(vec![input], &options) {
            Ok(mut demuxer) => {
                play(&mut demuxer);
                let middle = MediaTime::ZERO + demuxer.duration() / 2;
                let keyframe = demuxer.keyframe_at_or_before(middle);
                assert!(keyframe.is_none_or(|keyframe| keyframe <= middle));
                demuxer.seek(middle).expect("memory can be read");
                play(&mut demuxer);
                play(&mut demuxer.fork(true));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn play(demuxer: &mut Demuxer) {
    assert!(demuxer.tracks().iter().all(|track| track.channels > 0));
    assert!(demuxer.tracks().iter().all(|track| track.clock_rate > 0));
    let mut decoded = vec![None::<MediaTime>; demuxer.tracks().len()];
    for _ in 0..UNITS_MAX {
        let Some(frame) = demuxer.next_frame().expect("memory can be read") else {
            return;
        };
        assert!(!frame.data.is_empty() && !frame.duration.is_zero());
        assert!(frame.time >= MediaTime::ZERO && frame.decode_time <= frame.time);
        let last = decoded[frame.track].replace(frame.decode_time);
        assert!(last.is_none_or(|last| last <= frame.decode_time));
    }
}
