//! One keyframe as a JPEG image, for previews.
//!
//! ```text
//! keyframe ─ OpenH264 ─► 4:2:0 of video range ─ smaller, if wanted ─► 4:2:0 of full range ─► JPEG
//! ```
//!
//! Each call has a decoder of its own, so that a damaged keyframe harms no later one.

mod jpeg;
mod planes;

use std::fmt;

use glassline_media::{Codec, Track};
use thiserror::Error;

use crate::FrameSize;
use crate::video::decoder::Decoder;
use crate::video::raw_frame::RawFrame;
pub(crate) use planes::Plane;
use planes::Planes;

/// Most pixels of a keyframe that is decoded: 4096 × 2304.
pub const STILL_PIXELS_MAX: usize = 4096 * 2304;

/// Most frames behind a recovery point that are decoded for an image. Encoders with intra refresh take a
/// second or two.
pub const RECOVERY_FRAMES_MAX: usize = 150;

/// Most pixels that are decoded for an image behind a recovery point: so many frames of 1080p, which take
/// about a second.
const RECOVERY_PIXELS_MAX: usize = RECOVERY_FRAMES_MAX * 1920 * 1088;

/// Times that the keyframe is handed to the decoder. The decoder keeps a picture back while pictures
/// of B-frames may come before it; the same keyframe once more ends that.
const TIMES_MAX: u64 = 3;

/// The most that an image may measure; its proportions are kept, and it is never enlarged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SizeLimit {
    /// Most pixels of a row; `None` does not limit.
    pub width: Option<u16>,
    /// Most rows; `None` does not limit.
    pub height: Option<u16>,
}

impl SizeLimit {
    /// Returns the largest size within the limit and not above `size`, in the proportions of `size`.
    pub fn fit(self, size: FrameSize) -> FrameSize {
        planes::fitted(size, self)
    }
}

/// A decoded keyframe, of which images of several sizes are made.
pub struct DecodedKeyframe {
    planes: Planes<'static>,
}

/// An image in JPEG's file format (JFIF).
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Still {{ bytes: {:?}, width: {width:?}, height: {height:?} }}", self.jpeg.len())]
pub struct Still {
    /// The JPEG file with its headers.
    pub jpeg: Vec<u8>,
    /// Pixels of a row.
    pub width: u16,
    /// Height of the picture in pixels.
    pub height: u16,
}

/// The reason why a keyframe does not become an image.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoStill {
    /// There is no decoder for the codec.
    #[error("there is no decoder for {codec}, only for H.264")]
    Codec {
        /// Codec of the track.
        codec: Codec,
    },
    /// The pictures are too large.
    #[error("the picture has {width} x {height} pixels, more than {STILL_PIXELS_MAX}")]
    Size {
        /// Pixels of a row.
        width: usize,
        /// Height of the picture in pixels.
        height: usize,
    },
    /// The picture behind a recovery point takes too many pixels to become right.
    #[error(
        "the source sends recovery points (intra refresh) in place of keyframes, and {frames} frames of \
         {width} x {height} pixels until a picture is right are not decoded for an image"
    )]
    Recovery {
        /// Number of frames.
        frames: usize,
        /// Pixels of a row.
        width: usize,
        /// Height of the picture in pixels.
        height: usize,
    },
    /// The file is no image that can be read.
    #[error("the file is no JPEG image that can be read: {reason}")]
    Jpeg {
        /// Text of the decoder.
        reason: String,
    },
    /// The encoder refuses the picture.
    #[error("the encoder failed: {reason}")]
    Encoder {
        /// Text of OpenH264.
        reason: String,
    },
    /// The decoder refuses the keyframe.
    #[error("the keyframe is damaged, or of a profile that OpenH264 does not decode ({reason})")]
    Decoder {
        /// Text or state of OpenH264.
        reason: String,
    },
}

/// Whether keyframes of `track` become images.
///
/// # Errors
/// Returns [`NoStill::Codec`] or [`NoStill::Size`] if no keyframe of the track does.
pub fn still_of(track: &Track) -> Result<(), NoStill> {
    let codec = track.codec;
    if codec != Codec::H264 {
        return Err(NoStill::Codec { codec });
    }
    fits(FrameSize::new(
        track.video.width as usize,
        track.video.height as usize,
    ))
}

impl DecodedKeyframe {
    /// Decodes `keyframe`, an access unit of H.264 in Annex-B form with its parameter sets.
    ///
    /// # Errors
    /// Returns [`NoStill`]; another keyframe may succeed.
    pub fn of_h264(keyframe: &[u8]) -> Result<Self, NoStill> {
        let planes = decode_keyframe(keyframe, |decoded| Planes::of(decoded).into_owned())?;
        Ok(Self { planes })
    }

    /// Decodes `frames`, access units of H.264 in Annex-B form of which the first is a recovery point with
    /// its parameter sets. The picture of the frame at the place `right` is right, and becomes the image;
    /// further frames are for decoders that hold it back.
    ///
    /// # Errors
    /// Returns [`NoStill`]; a later recovery point may succeed.
    pub fn of_recovery(frames: &[Vec<u8>], right: usize) -> Result<Self, NoStill> {
        let refused = |reason: String| NoStill::Decoder { reason };
        let mut decoder = Decoder::new().map_err(refused)?;
        decoder.conceal(true);
        for (frame, number) in frames.iter().zip(0..) {
            let decoded = decoder.decode(frame, number);
            let decoded = decoded.map_err(|state| refused(format!("state {state:#x}")))?;
            let Some(decoded) = decoded else { continue };
            fits(decoded.frame.size)?;
            if frames.len().saturating_mul(decoded.frame.size.pixels()) > RECOVERY_PIXELS_MAX {
                let frames = frames.len();
                let FrameSize { width, height } = decoded.frame.size;
                return Err(NoStill::Recovery {
                    frames,
                    width,
                    height,
                });
            }
            if usize::try_from(decoded.number).is_ok_and(|number| number >= right) {
                let planes = Planes::of(&decoded.frame).into_owned();
                return Ok(Self { planes });
            }
        }
        Err(refused("no picture became right".to_owned()))
    }

    /// Returns the size of the frame.
    pub fn size(&self) -> FrameSize {
        self.planes.size()
    }

    /// Returns the bytes of memory that the frame takes.
    pub fn bytes(&self) -> usize {
        self.planes.bytes()
    }

    /// Encodes the frame in `size`, which [`SizeLimit::fit`] returns.
    ///
    /// # Errors
    /// Returns [`NoStill`] if the encoder refuses the frame.
    pub fn still(&self, size: FrameSize) -> Result<Still, NoStill> {
        jpeg::encode(&self.planes.scaled(size))
    }
}

impl fmt::Debug for DecodedKeyframe {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FrameSize { width, height } = self.size();
        formatter
            .debug_struct("DecodedKeyframe")
            .field("width", &width)
            .field("height", &height)
            .finish()
    }
}

impl Still {
    /// Decodes `keyframe`, an access unit of H.264 in Annex-B form with its parameter sets, and encodes
    /// its picture within `limit`. Takes some 10 ms for each million of pixels.
    ///
    /// # Errors
    /// Returns [`NoStill`]; another keyframe may succeed.
    pub fn of_h264(keyframe: &[u8], limit: SizeLimit) -> Result<Self, NoStill> {
        let image = decode_keyframe(keyframe, |decoded| {
            let planes = Planes::of(decoded);
            jpeg::encode(&planes.scaled(limit.fit(planes.size())))
        });
        image?
    }
}

/// Decodes `keyframe`, an access unit of H.264 in Annex-B form with its parameter sets, and returns what
/// `take` makes of its picture.
///
/// # Errors
/// Returns [`NoStill`] if there is no picture, or one that is too large.
pub(crate) fn decode_keyframe<T>(
    keyframe: &[u8],
    take: impl FnOnce(&RawFrame<'_>) -> T,
) -> Result<T, NoStill> {
    let refused = |reason: String| NoStill::Decoder { reason };
    let mut decoder = Decoder::new().map_err(refused)?;
    for number in 0..TIMES_MAX {
        let decoded = decoder.decode(keyframe, number);
        let decoded = decoded.map_err(|state| refused(format!("state {state:#x}")))?;
        if let Some(decoded) = decoded {
            fits(decoded.frame.size)?;
            return Ok(take(&decoded.frame));
        }
    }
    Err(refused("no picture".to_owned()))
}

pub(crate) fn fits(size: FrameSize) -> Result<(), NoStill> {
    let FrameSize { width, height } = size;
    match size.pixels() <= STILL_PIXELS_MAX {
        true => Ok(()),
        false => Err(NoStill::Size { width, height }),
    }
}

#[cfg(test)]
mod tests;
