//! Audio that browsers cannot play, made into Opus on the same timeline, and video with B-frames
//! into video without.
//!
//! ```text
//! coded frame, media time ─► Decoder ─► samples ─┬─► Resampler ─► 48 kHz ─► Opus frames of 20 ms
//!                                                │       ▲ ratio, steps            │ media time
//!                                                └─► OutputClock ◄─────────────────┘
//! ```
//!
//! - [`AudioSource`] is what a track's description says of its audio. It is known before the first
//!   frame, so a session can be negotiated before anything is decoded; or it is [`Untranscodable`],
//!   with the reason and what to do.
//! - [`AudioTranscoder`] takes coded frames with their times and returns Opus frames with theirs.
//!   The times of both lie on one timeline: what is heard at a media time in the source is heard
//!   at that media time in Opus, even if the source's sampling clock runs fast or slow against its
//!   timestamps, if frames are lost, or if the timestamps jump.
//! - [`VideoSource`] and [`VideoTranscoder`] are the same for H.264 with B-frames, which OpenH264
//!   decodes and encodes again, in smaller sizes if a ladder is wished for.
//! - [`VoiceTranscoder`] makes a voice in Opus or G.711 into AAC or G.711 for the loudspeaker of a
//!   camera, with [`AacEncoder`].
//! - [`Still`] is one keyframe as a JPEG image.
//! - [`Placeholder`] is one keyframe in grey with a line of text, or an image, as H.264 to be repeated.
//! - [`Decoder`] is the first half of it, for tests that compare decoders.
//!
//! The crate reads no clock, opens no socket and starts no thread. The crates that decode are known
//! to one module only, `decode` (for video `video`), and nothing of them is in this interface.
//!
//! # Example
//!
//! 20 ms of 16-bit samples at 48 kHz are one frame of Opus:
//!
//! ```
//! use glassline_media::{Codec, MediaTime, Track};
//! use glassline_transcode::{AudioSource, AudioTranscoder, Settings};
//!
//! let track = Track::audio(Codec::L16, 1).with_clock_rate(48_000);
//! let source = AudioSource::of(&track)?;
//! let mut transcoder = AudioTranscoder::new(source, Settings::default());
//! let mut frames = Vec::new();
//! for number in 0..10 {
//!     let time = MediaTime::from_nanos(number * 20_000_000);
//!     transcoder.push(&[0; 960 * 2], time, &mut frames)?;
//! }
//! assert!(frames.len() >= 9);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod aac;
mod clock;
mod decode;
mod encode;
mod frame_size;
mod g711;
mod output;
mod placeholder;
mod resample;
mod source;
mod still;
mod transcoder;
mod video;
mod voice;

pub use aac::{AAC_FRAME_SAMPLES, AacEncoder, AacSettings, AacSettingsError};
pub use decode::{Decoder, Format, Undecodable};
pub use encode::{OpusFrame, Settings};
pub use frame_size::FrameSize;
pub use placeholder::{PLACEHOLDER_FPS, Placeholder, PlaceholderFrame};
pub use source::{AudioSource, Untranscodable};
pub use still::{
    DecodedKeyframe, NoStill, RECOVERY_FRAMES_MAX, STILL_PIXELS_MAX, SizeLimit, Still, still_of,
};
pub use transcoder::{AudioTranscoder, Counts, FrameError, Trouble};
pub use video::{
    AccessUnit, PIXELS_MAX, ProgramTranscoder, RungTarget, UntranscodableVideo, VideoError,
    VideoFrame, VideoSource, VideoTranscoder,
};
pub use voice::{VoiceError, VoiceFrame, VoiceTarget, VoiceTranscoder};

/// Sample rate of Opus in RTP, and of everything behind the resampler, in Hz (RFC 7587 §4.1).
const RATE: u32 = 48_000;

/// Samples of each channel in an Opus frame: 20 ms.
const FRAME_SAMPLES: usize = 960;
