//! Media files as timed access units.
//!
//! ```text
//! .h264 .265 .m4e .dv        start codes, DIF blocks ► frames ───┐
//! .ogg .mkv .mp4 .mpg .ts    pages, blocks, packets ─► tracks ───┼─► Reader
//! .aac .ac3 .amr .mp3 .wav   headers ► frames, samples ──────────┘     │
//!                                                                      ▼
//! Frame, in decoding order, in a loop ◄─────────────────────────── Demuxer
//! ```
//!
//! [`open`] reads each file once: it checks every page, header or start code, and stores an
//! index of the units: 8 bytes for a frame of audio, 16 to 24 for a video frame, nothing where
//! all units have one size (WAV, DV). [`Demuxer::next_frame`] then reads one unit at a time, so
//! that a file of any size needs little memory. This crate has no clock: frames carry
//! [`MediaTime`]s, and the caller sends them when they are due.
//!
//! A stream through a pipe cannot be read in advance: [`PipeDemuxer`] hands out the frames of some
//! formats as they arrive, [`PushedDemuxer`] those of bytes that are pushed, [`MotionJpeg`] finds pictures, [`live`] splits H.264 and H.265 into units, and [`y4m`] uncompressed
//! video into frames.
//!
//! Sources: ITU-T H.264 (clauses 7.3, 7.4.1.2, 8.2.1, annexes B and E), ITU-T H.265 (7.3,
//! 7.4.2.4.4, 8.3.1, annex E), ISO/IEC 13818-1 and 11172-1 (transport and program streams),
//! 13818-2 and 11172-2 (MPEG video), RFC 3533 (Ogg), RFC 7845 (Ogg/Opus), RFC 6716 §3.1 (Opus
//! packets), ISO/IEC 14496-2 (MPEG-4 visual), IEC 61834-2 and SMPTE 314M (DV), ISO/IEC 13818-7
//! §6.2 (ADTS), ATSC A/52 (AC-3), ISO/IEC 11172-3 and 13818-3 (MPEG audio), RFC 4867 §5 (AMR),
//! EBU Tech 3306 (WAV), RFC 9559 (Matroska), ISO/IEC 14496-12 to -15 (MP4). Each reader names
//! its own sources.

mod audio;
mod container;
mod data;
mod demuxer;
mod elementary;
mod error;
mod format;
mod frame_rate;
mod legacy;
mod length;
pub mod live;
mod open;
mod parameters;
mod pipe_reader;
mod reader;
mod sniff;
mod system_clock;
mod window;

#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use glassline_media::{MediaTime, TrackIndex};

pub use container::mp4::SampleForm;
pub use data::Data;
pub use demuxer::Demuxer;
pub use elementary::{annexb, frame_size};
pub use error::{Error, NotApart, Reason, Warning, WarningReason};
pub use format::{Format, Unread};
pub use frame_rate::FrameRate;
pub use live::motion_jpeg::{MotionJpeg, MotionJpegError};
pub use live::pipe::PipeDemuxer;
pub use live::pushed::PushedDemuxer;
pub use live::{reordering, y4m};

use data::SharedFile;

/// One access unit: a video frame, or a packet of audio.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Index of the track in [`Demuxer::tracks`].
    pub track: TrackIndex,
    /// Presentation time. It is zero at the start of the file, and never negative.
    pub time: MediaTime,
    /// Decoding time, at which the frame is sent. Within a track it never falls, also from one
    /// loop to the next. It differs from `time` where frames are reordered, and is then
    /// negative for the first frames.
    pub decode_time: MediaTime,
    /// Duration of the presentation, above zero.
    pub duration: Duration,
    /// Whether a decoder can start here: for video, a keyframe together with its parameter
    /// sets. Always true for audio.
    pub keyframe: bool,
    /// Whether frames of the track before this one are missing, because bytes were lost on their way.
    pub after_loss: bool,
    /// Coded data. H.264 and H.265: a byte stream of Annex B, to be read with [`annexb::nals`].
    /// VP8, VP9: a frame. AV1: a temporal unit, each OBU with its size. MPEG-4 visual and
    /// MPEG-1/2 video: a frame with the headers before it. DV: a frame of DIF blocks. JPEG: a
    /// frame. MPEG transport stream: whole packets of 188 bytes. Opus, Vorbis, Theora: a
    /// packet. AAC: an access unit without ADTS header. AC-3, MPEG audio: a frame with its
    /// header. AMR: a frame with its table of contents byte, as files store it. PCM: as many
    /// samples as fit a packet, L16 big-endian. Text: UTF-8.
    pub data: Bytes,
}

/// How files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Frames per second of video whose bitstream states no rate, above 0 and up to 1000. The
    /// default is 30.
    pub fps: Option<f64>,
    /// Whether the demuxer ends after one pass instead of looping.
    pub once: bool,
}

/// A file, or bytes in its place.
pub struct Input {
    /// Name of the input in errors and warnings.
    pub name: PathBuf,
    /// Format of the bytes.
    pub format: Format,
    /// The bytes, at their start.
    pub data: Box<dyn Data>,
}

impl Input {
    /// Opens a file, whose extension states its format ([`Format::of`]).
    pub fn file(path: &Path) -> Result<Self, Error> {
        let unknown = || Format::unread(path).map_or(Reason::UnknownExtension, Reason::Unread);
        let format = Format::of(path).ok_or_else(|| Error::new(path, None, unknown()))?;
        let failed = |error| Error::new(path, None, Reason::Open(error));
        // Asked before the file is opened: opening a named pipe waits until somebody writes to it.
        check_kind(&fs::metadata(path).map_err(failed)?)
            .map_err(|reason| Error::new(path, None, reason))?;
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if meta.len() == 0 {
            return Err(Error::new(path, Some(0), Reason::Empty));
        }
        Ok(Self {
            name: path.to_owned(),
            format,
            data: Box::new(SharedFile::new(file)),
        })
    }
}

/// Checks that a path is a regular file.
fn check_kind(meta: &fs::Metadata) -> Result<(), Reason> {
    let kind = meta.file_type();
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(Reason::Directory);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        for (is_it, kind) in [
            (kind.is_fifo(), "a named pipe"),
            (kind.is_socket(), "a socket"),
            (kind.is_char_device(), "a character device"),
            (kind.is_block_device(), "a block device"),
        ] {
            if is_it {
                return Err(Reason::NotAFile { kind });
            }
        }
    }
    Err(Reason::NotAFile {
        kind: "a special file",
    })
}

/// Opens files whose tracks become one stream, in the given order; at most one track of video
/// and one of audio.
///
/// Every file is read once. Errors name the file, the byte and the reason.
pub fn open(paths: &[PathBuf], options: &Options) -> Result<Demuxer, Error> {
    let inputs = paths.iter().map(|path| Input::file(path));
    Demuxer::new(inputs.collect::<Result<_, _>>()?, options)
}

/// Opens H.264 video and Ogg audio in memory, such as the clip built into the binary, as a
/// looped demuxer.
pub fn from_bytes(video: &'static [u8], audio: &'static [u8]) -> Result<Demuxer, Error> {
    let input = |name: &str, format, bytes: &'static [u8]| Input {
        name: name.into(),
        format,
        data: Box::new(Cursor::new(bytes)),
    };
    let inputs = vec![
        input("built-in video", Format::H264, video),
        input("built-in audio", Format::Ogg, audio),
    ];
    Demuxer::new(inputs, &Options::default())
}
