//! Files into timed access units.
//!
//! ```text
//! video.h264 ─ annexb ─► access units ─ index ─► Video ─┐
//!                                                       ├─ Source ─► Frame, in time order,
//! audio.ogg ─ page ─► OpusHead, packets ──────► Sound ──┘            over and over
//! ```
//!
//! [`open`] reads each file through once: it checks every page or start code,
//! and remembers where the pictures lie (16 bytes each; sound needs no index).
//! [`Source::next_frame`] then reads one unit at a time, so that a file of any
//! size needs little memory. Nothing here knows when a frame is due: frames carry
//! [`MediaTime`]s, and a shell with a clock sends them.
//!
//! Sources: ITU-T H.264 (clauses 7.3, 7.4.1.2, 8.2.1, annexes B and E), RFC 3533
//! (Ogg), RFC 7845 (Ogg/Opus), RFC 6716 §3.1 (Opus packets).

mod access_unit;
pub mod annexb;
mod error;
mod frame_rate;
mod opus;
mod page;
mod parameter_sets;
mod sniff;
mod sound;
mod source;
mod video;

#[cfg(test)]
mod synthetic;
#[cfg(test)]
mod tests;

use std::fs::File;
use std::io::{Cursor, Read, Seek};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use glassline_media::{Kind, MediaTime};

pub use error::{Error, Reason, Warning, WarningReason};
pub use frame_rate::FrameRate;
pub use source::Source;

/// One access unit: a picture, or a packet of sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Index into [`Source::tracks`].
    pub track: usize,
    /// When it is presented. Zero at the start of the source, never negative;
    /// within a track it rises, also from one loop to the next.
    pub time: MediaTime,
    /// How long it is presented, above zero.
    pub duration: Duration,
    /// A decoder can start here: an IDR picture together with its parameter
    /// sets. Always true for sound.
    pub keyframe: bool,
    /// H.264: Annex-B bytes, to be read with [`annexb::nals`]. Opus: one packet.
    pub data: Bytes,
}

/// How to read files.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Options {
    /// Pictures per second of a video whose bitstream does not say; else 30.
    /// Above 0, up to 1000.
    pub fps: Option<f64>,
    /// End after one pass instead of starting over.
    pub once: bool,
}

/// Anything that bytes can be read from in any order.
pub trait Data: Read + Seek + Send {}
impl<T: Read + Seek + Send> Data for T {}

/// One file, or what stands for one.
pub struct Input {
    /// What errors call it.
    pub name: PathBuf,
    /// Picture (H.264, Annex B) or sound (Opus in Ogg).
    pub kind: Kind,
    /// Its bytes, from the start.
    pub data: Box<dyn Data>,
}

impl Input {
    /// Opens a file whose extension says what it is: `.h264 .264 .h26l .avc` or
    /// `.ogg .opus`, in any case.
    pub fn file(path: &Path) -> Result<Self, Error> {
        let kind = kind_of(path)?;
        let failed = |error| Error::new(path, None, Reason::Open(error));
        let file = File::open(path).map_err(failed)?;
        let meta = file.metadata().map_err(failed)?;
        if meta.is_dir() {
            return Err(Error::new(path, None, Reason::Directory));
        }
        if meta.is_file() && meta.len() == 0 {
            return Err(Error::new(path, Some(0), Reason::Empty));
        }
        Ok(Self {
            name: path.to_owned(),
            kind,
            data: Box::new(file),
        })
    }
}

/// Opens files that become the tracks of one stream, in the order given; at most
/// one of pictures and one of sound.
///
/// Reads each through once. Errors name the file, the byte and the reason.
pub fn open(paths: &[PathBuf], options: &Options) -> Result<Source, Error> {
    let inputs = paths.iter().map(|path| Input::file(path));
    Source::new(inputs.collect::<Result<_, _>>()?, options)
}

/// A source from bytes in memory, such as the clip built into the binary, looped.
pub fn from_bytes(video: &'static [u8], audio: &'static [u8]) -> Result<Source, Error> {
    let input = |name: &str, kind, bytes: &'static [u8]| Input {
        name: name.into(),
        kind,
        data: Box::new(Cursor::new(bytes)),
    };
    let inputs = vec![
        input("built-in video", Kind::Video, video),
        input("built-in audio", Kind::Audio, audio),
    ];
    Source::new(inputs, &Options::default())
}

const VIDEO_EXTENSIONS: [&str; 4] = ["h264", "264", "h26l", "avc"];
const AUDIO_EXTENSIONS: [&str; 2] = ["ogg", "opus"];

fn kind_of(path: &Path) -> Result<Kind, Error> {
    let extension = path.extension().unwrap_or_default();
    let one_of = |known: &[&str]| known.iter().any(|k| extension.eq_ignore_ascii_case(k));
    if one_of(&VIDEO_EXTENSIONS) {
        Ok(Kind::Video)
    } else if one_of(&AUDIO_EXTENSIONS) {
        Ok(Kind::Audio)
    } else {
        Err(Error::new(path, None, Reason::UnknownExtension))
    }
}
