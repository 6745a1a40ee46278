//! Encoding of frames to H.264, one at a time and in real time.

mod openh264;

use std::time::Duration;

use bytes::Bytes;
use glassline_media::Bitrate;

pub use glassline_demux::y4m::Frame;
pub use openh264::OpenH264;

/// Configuration of an encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// Width in pixels, even and at least 16; width × height is at most 3840 × 2160.
    pub width: u32,
    /// Height in pixels, even and at least 16.
    pub height: u32,
    /// Highest frame rate, in frames per second.
    pub fps: f64,
    /// Whether luminance uses 0–255 instead of 16–235.
    pub full_range: bool,
    /// Bitrate at the beginning.
    pub bitrate: Bitrate,
    /// Longest time between keyframes without a request: a viewer that joins later waits for
    /// one, and a group that is late is dropped whole.
    pub keyframe_interval: Duration,
}

/// An encoder of one stream: no frame waits in it, and frames keep their order.
pub trait Encoder: Send {
    /// Encodes a frame that is shown `at` after the first. `None` if the encoder left the
    /// frame out to keep the bitrate.
    ///
    /// # Errors
    /// If the encoder refuses this frame, or all frames.
    fn encode(&mut self, frame: Frame<'_>, at: Duration) -> Result<Option<Encoded>, Error>;

    /// Sets the bitrate from the next frame on.
    fn set_bitrate(&mut self, rate: Bitrate);

    /// Makes the next frame a keyframe.
    fn request_keyframe(&mut self);
}

/// One frame as the encoder wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Annex-B bytes, with parameter sets if the frame is a keyframe.
    pub data: Bytes,
    /// Whether a decoder can start here.
    pub keyframe: bool,
}

/// Error of the encoder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The encoder cannot start.
    #[error("the H.264 encoder does not start for {width} x {height}: {detail}")]
    Start {
        /// Width of the video in pixels.
        width: u32,
        /// Height of the video in pixels.
        height: u32,
        /// The encoder's own text.
        detail: String,
    },
    /// The encoder refused a frame.
    #[error("the H.264 encoder refused frame {number}: {detail}")]
    Encode {
        /// Number of the frame, from 0.
        number: u64,
        /// The encoder's own text, or what is wrong with the frame.
        detail: String,
    },
}
