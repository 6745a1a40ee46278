//! IVF files, which the reference encoders of VP8, VP9 and AV1 write (the format of libvpx's
//! `ivfenc`).
//!
//! ```text
//!  header, 32 bytes │ length, time │ frame │ length, time │ frame │ …
//! ```
//!
//! There is one track and no index. Nothing says which frames are keyframes, so their first bytes
//! are read. Behind a damaged length nothing can be found again.

use glassline_media::Codec;

use crate::Data;
use crate::container::coding::{self, Coding, Described};
use crate::container::growing::Growing;
use crate::container::indexed_track::{IndexedTrackBuilder, Sample, UNIT_BYTES_MAX};
use crate::container::{Container, InOnePiece, Primed, describe};
use crate::error::{Fault, Reason, WarningReason, Warnings};
use crate::window::Window;

/// Length of the header, which states it again.
const HEADER_BYTES: usize = 32;

/// Length of a frame's header: its length in 32 bits and its time in 64.
const FRAME_HEAD_BYTES: usize = 12;

/// Bytes of a frame that say whether it is a keyframe. Temporal units of AV1 may have metadata
/// before the first frame.
const START_BYTES: usize = 256;

/// Longest time in ns that a tick may last.
const TICK_NS_MAX: u64 = 10_000_000_000;

/// Reads and indexes a file.
pub(crate) fn open(data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Container, Fault> {
    let mut reading = Reading::new(Window::new(data)?);
    while reading.advance()? {}
    warnings.append(&mut reading.warnings);
    let mut primed = Vec::new();
    if let Some(track) = reading.track {
        let indexed = track.builder.finish(false, warnings);
        primed.extend(indexed.map(|indexed| Primed {
            indexed,
            priming_ns: 0,
        }));
    }
    Container::new(Box::new(InOnePiece(reading.window.into_data())), primed)
}

/// The state of reading a file or a pipe.
pub(crate) struct Reading {
    window: Window,
    warnings: Warnings,
    /// Offset of the next frame; 0 before the header of the file.
    at: u64,
    track: Option<IvfTrack>,
}

struct IvfTrack {
    builder: IndexedTrackBuilder,
    /// Seconds of a tick as numerator and denominator.
    tick: (u32, u32),
}

impl Growing for Reading {
    fn advance(&mut self) -> Result<bool, Fault> {
        if self.at == 0 {
            return self.read_header().map(|()| true);
        }
        let at = self.at;
        let head = self.window.peek(at, FRAME_HEAD_BYTES)?;
        let Some(&[a, b, c, d, ref time @ ..]) = head.first_chunk::<FRAME_HEAD_BYTES>() else {
            if !head.is_empty() {
                self.warnings.add(Some(at), WarningReason::Truncated);
            }
            return Ok(false);
        };
        let length = u32::from_le_bytes([a, b, c, d]);
        let ticks = time
            .first_chunk()
            .map_or(0, |time| u64::from_le_bytes(*time));
        if length > UNIT_BYTES_MAX {
            let reason = Reason::Damaged("a frame's length is larger than any frame");
            return self.stop_at(at, reason);
        }
        let offset = at + FRAME_HEAD_BYTES as u64;
        let end = offset + u64::from(length);
        if end > self.window.file_bytes() {
            self.warnings.add(Some(at), WarningReason::Truncated);
            return Ok(false);
        }
        self.take(offset, length, ticks)?;
        self.at = end;
        Ok(true)
    }

    fn position(&self) -> u64 {
        self.at
    }

    fn window(&mut self) -> &mut Window {
        &mut self.window
    }

    fn builders(&mut self) -> Vec<&mut IndexedTrackBuilder> {
        let builder = self.track.as_mut().map(|track| &mut track.builder);
        builder.into_iter().collect()
    }

    fn has_all_tracks(&self) -> bool {
        self.track.is_some()
    }

    fn states_decoding_times(&self) -> bool {
        false
    }

    fn take_warnings(&mut self) -> Warnings {
        std::mem::take(&mut self.warnings)
    }

    fn into_window(self) -> Window {
        self.window
    }
}

impl Reading {
    pub(crate) fn new(window: Window) -> Self {
        Self {
            window,
            warnings: Warnings::default(),
            at: 0,
            track: None,
        }
    }

    fn read_header(&mut self) -> Result<(), Fault> {
        let damaged = |what| Fault::at(0, Reason::Damaged(what));
        let head = self.window.peek(0, HEADER_BYTES)?;
        let Some(head) = head.first_chunk::<HEADER_BYTES>().copied() else {
            return Err(damaged("the IVF header is cut short"));
        };
        let short = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let long =
            |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        if !head.starts_with(b"DKIF") {
            return Err(damaged("there is no IVF header"));
        }
        // Some writers leave the length out.
        let length = short(6).max(HEADER_BYTES as u16);
        let size = (u32::from(short(12)), u32::from(short(14)));
        let (per_second, seconds) = (long(16), long(20));
        let tick_ns = u64::from(seconds) * 1_000_000_000 / u64::from(per_second.max(1));
        if per_second == 0 || seconds == 0 || tick_ns > TICK_NS_MAX {
            return Err(damaged("the header states an impossible frame rate"));
        }
        let described = match &head[8..12] {
            b"VP80" => describe::plain_frames(Codec::Vp8, size),
            b"VP90" => describe::vp9(size),
            b"AV01" => describe::av1_in_stream(size),
            other => {
                let name = String::from_utf8_lossy(other).escape_debug().to_string();
                let what = format!("its coding is not supported: {name}");
                return Err(Fault::at(8, Reason::NothingToPlay(what)));
            }
        };
        self.track = Some(IvfTrack {
            builder: IndexedTrackBuilder::new(described, 1_000, None),
            tick: (seconds, per_second),
        });
        self.at = length.into();
        Ok(())
    }

    /// Ends the track where the lengths of frames stop making sense, or fails if nothing came
    /// before.
    fn stop_at(&mut self, at: u64, reason: Reason) -> Result<bool, Fault> {
        let has_begun = self.track.as_ref().is_some_and(|it| it.builder.has_begun());
        if !has_begun {
            return Err(Fault::at(at, reason));
        }
        let bytes = self.window.file_bytes().saturating_sub(at);
        self.warnings.add(Some(at), WarningReason::Skipped(bytes));
        Ok(false)
    }

    fn take(&mut self, offset: u64, length: u32, ticks: u64) -> Result<(), Fault> {
        let Some(track) = &mut self.track else {
            return Ok(());
        };
        let start = self.window.peek(offset, START_BYTES.min(length as usize))?;
        let keyframe = is_keyframe(track.builder.track.codec, start);
        if let Coding::Av1(_) = track.builder.coding()
            && track.builder.track.format_parameters.is_empty()
        {
            track.builder.track.format_parameters = Described::av1_parameters(start);
        }
        let (seconds, per_second) = track.tick;
        let nanos =
            u128::from(ticks) * u128::from(seconds) * 1_000_000_000 / u128::from(per_second.max(1));
        let sample = Sample {
            offset,
            length: length.into(),
            start_ns: i64::try_from(nanos).unwrap_or(i64::MAX),
            decode_ns: None,
            duration_ns: None,
            keyframe,
        };
        track.builder.push(sample, &mut self.window)?;
        Ok(())
    }
}

/// Returns whether a decoder can start at a frame that begins with `start` (RFC 6386 §9.1; VP9
/// bitstream specification §6.2; AV1 bitstream specification §5.9.2).
fn is_keyframe(codec: Codec, start: &[u8]) -> bool {
    let Some(&first) = start.first() else {
        return false;
    };
    match codec {
        Codec::Vp8 => first & 1 == 0,
        Codec::Vp9 => {
            // Marker, low and high bit of the profile, and a reserved bit in profile 3.
            let used = if first >> 4 & 3 == 3 { 5 } else { 4 };
            let flags = first << used;
            first >> 6 == 2 && flags & 0x80 == 0 && flags & 0x40 == 0
        }
        _ => coding::is_shown_key_frame(start).unwrap_or(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Demuxer, Format, Input, Options, PipeDemuxer};
    use proptest::prelude::*;
    use std::io::Cursor;
    use std::path::Path;

    fn header(coding: &[u8; 4], rate: u32) -> Vec<u8> {
        let mut header = b"DKIF\0\0\x20\0".to_vec();
        header.extend(coding);
        header.extend([64, 0, 48, 0]);
        header.extend(rate.to_le_bytes());
        header.extend([1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
        header
    }

    fn frame(ticks: u64, body: &[u8]) -> Vec<u8> {
        let mut frame = (body.len() as u32).to_le_bytes().to_vec();
        frame.extend(ticks.to_le_bytes());
        frame.extend(body);
        frame
    }

    fn vp8() -> Vec<u8> {
        let mut file = header(b"VP80", 25);
        for (ticks, body) in [(0, b"\x10key"), (1, b"\x11one"), (3, b"\x11two")] {
            file.extend(frame(ticks, body));
        }
        file
    }

    fn open_bytes(bytes: &[u8]) -> Result<Demuxer, crate::Error> {
        let input = Input {
            name: "clip.ivf".into(),
            format: Format::Ivf,
            data: Box::new(Cursor::new(bytes.to_vec())),
        };
        let options = Options {
            once: true,
            ..Options::default()
        };
        Demuxer::new(vec![input], &options)
    }

    fn frames(demuxer: &mut Demuxer) -> Vec<(i64, bool, Vec<u8>)> {
        let next = || demuxer.next_frame().expect("memory can be read");
        std::iter::from_fn(next)
            .map(|it| (it.time.nanos() / 1_000_000, it.keyframe, it.data.to_vec()))
            .collect()
    }

    #[test]
    fn frames_have_the_times_of_the_file_and_keyframes_are_told_by_their_bytes() {
        let mut demuxer = open_bytes(&vp8()).expect("a good file");
        let video = &demuxer.tracks()[0].video;
        assert_eq!((video.width, video.height), (64, 48));
        let expected = [
            (0, true, b"\x10key".to_vec()),
            (40, false, b"\x11one".to_vec()),
            (120, false, b"\x11two".to_vec()),
        ];
        assert_eq!(frames(&mut demuxer), expected);
    }

    #[test]
    fn a_pipe_brings_the_same_frames() {
        let pipe = Box::new(Cursor::new(vp8()));
        let mut demuxer = PipeDemuxer::open(Path::new("pipe"), pipe, None).expect("good");
        assert_eq!(demuxer.tracks()[0].codec, Codec::Vp8);
        let next = || demuxer.next_frame().expect("memory can be read");
        let times: Vec<_> = std::iter::from_fn(next)
            .map(|it| (it.time.nanos() / 1_000_000, it.keyframe))
            .collect();
        assert_eq!(times, [(0, true), (40, false), (120, false)]);
    }

    #[test]
    fn keyframes_of_each_coding_are_recognized() {
        for (codec, start, expected) in [
            (Codec::Vp8, [0x10, 0x02].as_slice(), true),
            (Codec::Vp8, &[0x11], false),
            (Codec::Vp9, &[0x82], true),
            (Codec::Vp9, &[0x86], false),
            (Codec::Vp9, &[0x88], false),
            (Codec::Vp9, &[0xb1], true),
            (Codec::Av1, &[0x12, 0, 0x0a, 1, 0, 0x32, 1, 0x10], true),
            (Codec::Av1, &[0x12, 0, 0x32, 1, 0x30], false),
            (Codec::Av1, &[0x12, 0, 0x7a, 2, 0, 0, 0x1a, 1, 0x10], true),
            (Codec::Av1, &[0x12, 0], false),
            (Codec::Vp8, &[], false),
        ] {
            assert_eq!(is_keyframe(codec, start), expected, "{codec} {start:x?}");
        }
    }

    #[test]
    fn what_ffmpeg_writes_is_read() {
        let vp8: &[u8] = include_bytes!("../../samples/vp8.ivf");
        let av1: &[u8] = include_bytes!("../../samples/av1.ivf");
        for (bytes, codec, count, keyframes) in [
            (vp8, Codec::Vp8, 25, vec![0, 480, 960]),
            (av1, Codec::Av1, 15, vec![0, 320]),
        ] {
            let mut demuxer = open_bytes(bytes).expect("a good file");
            assert_eq!(demuxer.tracks()[0].codec, codec);
            assert_eq!(demuxer.warnings(), []);
            let frames = frames(&mut demuxer);
            assert_eq!(frames.len(), count);
            let keys = frames.iter().filter(|(_, keyframe, _)| *keyframe);
            assert!(keys.map(|(ms, ..)| *ms).eq(keyframes), "{codec}");
        }
    }

    #[test]
    fn another_coding_and_a_cut_file_are_told() {
        let error = open_bytes(&header(b"H263", 25)).map(drop);
        let text = error.expect_err("no such coding").to_string();
        assert!(text.contains("H263"), "{text}");
        let whole = vp8();
        let mut cut = open_bytes(&whole[..whole.len() - 1]).expect("two frames");
        assert_eq!(frames(&mut cut).len(), 2);
        assert_eq!(cut.warnings()[0].reason, WarningReason::Truncated);
        assert!(open_bytes(&header(b"VP80", 0)).is_err(), "no rate");
    }

    proptest! {
        #[test]
        fn damage_fails_with_a_reason_or_plays(
            damage in prop::collection::vec((0usize..120, any::<u8>()), 0..8),
            cut in 0usize..120,
        ) {
            let mut bytes = vp8();
            for (at, with) in damage {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = with;
                }
            }
            bytes.truncate(cut);
            match open_bytes(&bytes) {
                Ok(mut demuxer) => prop_assert!(frames(&mut demuxer).len() <= 3),
                Err(error) => prop_assert!(!error.to_string().is_empty()),
            }
        }
    }
}
