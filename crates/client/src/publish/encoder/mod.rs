//! Frames into H.264, one at a time and in real time.

mod openh264;

use std::time::Duration;

use bytes::Bytes;
use glassline_media::Bitrate;

pub use glassline_demux::y4m::Frame;
pub use openh264::OpenH264;

/// What frames come in, and how they shall come out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Pixels, even, at least 16 and together at most 3840 × 2160.
    pub width: u32,
    /// Likewise.
    pub height: u32,
    /// Frames per second, the most that come.
    pub fps: f64,
    /// Luminance uses 0–255 and not 16–235.
    pub full_range: bool,
    /// To begin with.
    pub bitrate: Bitrate,
    /// A keyframe at least this often, without being asked: who comes late waits for
    /// one, and a group that is late is dropped whole.
    pub keyframe_interval: Duration,
}

/// An encoder of one stream: no frame waits in it, none comes out in another order.
pub trait Encoder: Send {
    /// Encodes a frame that is shown `at` after the first. `None`: left out to keep
    /// the bitrate.
    ///
    /// # Errors
    /// The encoder refuses the frame, or all.
    fn encode(&mut self, frame: Frame<'_>, at: Duration) -> Result<Option<Encoded>, Error>;

    /// Aims at `rate` from the next frame on.
    fn set_bitrate(&mut self, rate: Bitrate);

    /// The next frame becomes one that a decoder can start at.
    fn request_keyframe(&mut self);
}

/// An encoded frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Annex-B bytes, with parameter sets if it is a keyframe.
    pub data: Bytes,
    /// A decoder can start here.
    pub keyframe: bool,
}

/// The encoder failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot begin.
    #[error("the H.264 encoder does not start for {width} x {height}: {detail}")]
    Start {
        /// Of the frames.
        width: u32,
        /// Likewise.
        height: u32,
        /// What it said.
        detail: String,
    },
    /// It refused a frame.
    #[error("the H.264 encoder refused frame {number}: {detail}")]
    Encode {
        /// Counted from 0.
        number: u64,
        /// What it said.
        detail: String,
    },
}
