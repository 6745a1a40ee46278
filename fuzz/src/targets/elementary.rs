//! Files without a container, and WAV: any bytes, of the format that the first one
//! picks, either fail with a reason or play, once, looped and behind a seek, with
//! times that rise.

use std::io::Cursor;

use glassline_demux::{Demuxer, Format, Frame, Input, Options};
use glassline_media::{Kind, MediaTime};

const FORMATS: [Format; 7] = [
    Format::Aac,
    Format::Ac3,
    Format::Amr,
    Format::MpegAudio,
    Format::Wav,
    Format::Dv,
    Format::Mpeg4Visual,
];

/// Bytes of a DV frame that say what it is, and of the whole frame: random input
/// would hardly ever be that long.
const DV_HEAD_BYTES: usize = 640;
const DV_FRAME_BYTES: [usize; 2] = [120_000, 144_000];

pub(crate) fn run(bytes: &[u8]) {
    let Some((&first, rest)) = bytes.split_first() else {
        return;
    };
    let format = FORMATS[usize::from(first) % FORMATS.len()];
    let file = match format {
        Format::Dv => frames_of_dv(rest),
        _ => rest.to_vec(),
    };
    for once in [true, false] {
        let input = Input {
            name: "fuzz".into(),
            format,
            data: Box::new(Cursor::new(file.clone())),
        };
        let options = Options { fps: None, once };
        match Demuxer::new(vec![input], &options) {
            Ok(mut demuxer) => {
                assert!(play(&mut demuxer) > 0);
                let middle = MediaTime::ZERO + demuxer.duration() / 2;
                demuxer.seek(middle).expect("memory can be read");
                assert!(play(&mut demuxer) > 0);
                assert!(play(&mut demuxer.fork(true)) > 0);
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}

fn play(demuxer: &mut Demuxer) -> usize {
    let is_audio = demuxer.tracks()[0].kind() == Kind::Audio;
    let mut last = None::<Frame>;
    for count in 0..300 {
        let Some(frame) = demuxer.next_frame().expect("memory can be read") else {
            return count;
        };
        assert!(!frame.data.is_empty() && !frame.duration.is_zero());
        assert!(frame.time >= MediaTime::ZERO && frame.decode_time <= frame.time);
        if let Some(last) = last {
            assert!(last.decode_time <= frame.decode_time);
            assert!(!is_audio || last.time < frame.time);
        }
        last = Some(frame);
    }
    300
}

fn frames_of_dv(bytes: &[u8]) -> Vec<u8> {
    let fifty = bytes.get(3).is_some_and(|byte| byte & 0x80 != 0);
    let mut file = Vec::new();
    for head in bytes.chunks(DV_HEAD_BYTES).take(4) {
        let start = file.len();
        file.extend_from_slice(head);
        if head.len() == DV_HEAD_BYTES {
            file.resize(start + DV_FRAME_BYTES[usize::from(fifty)], 0);
        }
    }
    file
}
