mod audio;
mod avi;
mod containers;
mod damage;
mod dv;
mod entries;
mod files;
mod flac;
mod frames;
mod loops;
mod matroska;
mod mpeg4;
mod pictures;
mod reordered;
mod samples;
mod shipped_clip;

use std::io::Cursor;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use glassline_media::{Codec, Kind, MediaTime, TrackIndex};
use proptest::prelude::*;

use crate::elementary::annexb::{nal_type, nals};
use crate::synthetic::{
    AUD, SEI, Sequence, Slice, ogg_opus, opus_head, opus_packet, pps, progressive, slice, sps,
    stream,
};
use crate::{
    Demuxer, Error, Format, Frame, FrameRate, Input, Options, Reason, Warning, WarningReason,
    from_bytes, open,
};

const DEMO_VIDEO: &[u8] = include_bytes!("../../../../assets/demo.h264");
const DEMO_AUDIO: &[u8] = include_bytes!("../../../../assets/demo.ogg");

const ONCE: Options = Options {
    fps: None,
    once: true,
};

fn input(kind: Kind, bytes: &[u8]) -> Input {
    Input {
        name: PathBuf::from(if kind == Kind::Video {
            "v.h264"
        } else {
            "a.ogg"
        }),
        format: if kind == Kind::Video {
            Format::H264
        } else {
            Format::Ogg
        },
        data: Box::new(Cursor::new(Bytes::copy_from_slice(bytes))),
    }
}

fn video(bytes: &[u8], options: &Options) -> Result<Demuxer, Error> {
    Demuxer::new(vec![input(Kind::Video, bytes)], options)
}

fn audio(bytes: &[u8], options: &Options) -> Result<Demuxer, Error> {
    Demuxer::new(vec![input(Kind::Audio, bytes)], options)
}

/// A demuxer of one file in memory.
fn opened(format: Format, bytes: &[u8], options: &Options) -> Result<Demuxer, Error> {
    let input = Input {
        name: PathBuf::from("file"),
        format,
        data: Box::new(Cursor::new(Bytes::copy_from_slice(bytes))),
    };
    Demuxer::new(vec![input], options)
}

/// Cuts and damages a file, and sees that it fails with a reason, or plays with
/// times that rise, once, looped, and behind a seek.
fn play_damaged(
    format: Format,
    bytes: &[u8],
    cut: usize,
    damage: &[(usize, u8)],
) -> Result<(), TestCaseError> {
    let mut bytes = bytes.to_vec();
    for &(at, with) in damage {
        if let Some(byte) = bytes.get_mut(at) {
            *byte = with;
        }
    }
    bytes.truncate(cut);
    for once in [true, false] {
        let options = Options { fps: None, once };
        let mut demuxer = match opened(format, &bytes, &options) {
            Ok(demuxer) => demuxer,
            Err(error) => {
                prop_assert!(!error.to_string().is_empty());
                return Ok(());
            }
        };
        let middle = demuxer.duration() / 2;
        for seek in [None, Some(MediaTime::ZERO + middle)] {
            if let Some(time) = seek {
                demuxer.seek(time).expect("memory can be read");
            }
            let mut last = None::<Frame>;
            for frame in take(&mut demuxer, 200) {
                prop_assert!(!frame.data.is_empty() && !frame.duration.is_zero());
                prop_assert!(frame.time >= MediaTime::ZERO);
                prop_assert!(frame.decode_time <= frame.time);
                if let Some(last) = last {
                    prop_assert!(last.decode_time <= frame.decode_time);
                    let audio = demuxer.tracks()[0].kind() == Kind::Audio;
                    prop_assert!(!audio || last.time < frame.time);
                }
                last = Some(frame);
            }
            prop_assert!(last.is_some());
        }
    }
    Ok(())
}

fn both(video: &[u8], audio: &[u8], options: &Options) -> Demuxer {
    let inputs = vec![input(Kind::Video, video), input(Kind::Audio, audio)];
    Demuxer::new(inputs, options).expect("a good demuxer")
}

fn take(demuxer: &mut Demuxer, count: usize) -> Vec<Frame> {
    let next = || demuxer.next_frame().expect("memory can be read");
    std::iter::from_fn(next).take(count).collect()
}

fn all(mut demuxer: Demuxer) -> Vec<Frame> {
    take(&mut demuxer, usize::MAX)
}

fn failure(result: Result<Demuxer, Error>) -> Error {
    match result {
        Ok(_) => panic!("the demuxer should not open"),
        Err(error) => error,
    }
}

fn reasons(demuxer: &Demuxer) -> Vec<WarningReason> {
    let reason = |warning: &Warning| warning.reason.clone();
    demuxer.warnings().iter().map(reason).collect()
}

fn types(frame: &Frame) -> Vec<u8> {
    nals(&frame.data).map(nal_type).collect()
}

/// 20 ms packets with numbers from 0.
fn packets(count: usize) -> Vec<Vec<u8>> {
    (0..count).map(opus_packet).collect()
}

fn number(frame: &Frame) -> usize {
    u32::from_le_bytes(frame.data[1..5].try_into().expect("four bytes")) as usize
}

fn times_ms(frames: &[Frame]) -> Vec<f64> {
    let ms = |frame: &Frame| frame.time.nanos() as f64 / 1e6;
    frames.iter().map(ms).collect()
}
