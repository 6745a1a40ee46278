//! What the reader of audio files needs to know about a coding.

use std::fmt;

use glassline_media::Track;

use crate::error::Reason;

/// The syntax of an audio file without a container: how its bytes form frames, and which track
/// they make.
pub(crate) trait Syntax {
    /// Name of the file's format, for error texts.
    fn expected(&self) -> &'static str;

    /// Name of one frame, for error texts.
    fn frame_name(&self) -> &'static str;

    /// Length of the magic number before the first frame, in bytes.
    fn magic_bytes(&self) -> u64 {
        0
    }

    /// Bytes of a frame that [`frame`](Self::frame) and [`refusal`](Self::refusal) need.
    fn head_bytes(&self) -> usize;

    /// Number of frames that must follow a frame that was found by a search, because headers of
    /// few bytes also occur by chance.
    fn witnesses(&self) -> usize {
        2
    }

    /// Parses the frame header that `head` begins with.
    fn frame(&self, head: &[u8]) -> Option<FrameHeader>;

    /// Returns why a file that begins with `head` cannot be played although its format is
    /// known.
    fn refusal(&self, _head: &[u8]) -> Option<Reason> {
        None
    }

    /// Bytes of a frame that [`is_directory`](Self::is_directory) needs; 0 where files have no
    /// directory.
    fn directory_bytes(&self) -> usize {
        0
    }

    /// Returns whether the frame at the start of `bytes` holds no audio but a directory of the
    /// file, which players use to seek.
    fn is_directory(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// Returns the track of frames with this form.
    fn track(&self, format: &StreamFormat) -> Track;
}

/// Fields of an audio frame's header.
#[derive(Clone, Copy)]
pub(crate) struct FrameHeader {
    /// Bytes of the header that do not belong to the unit.
    pub(crate) header_bytes: u16,
    /// Length of the frame in bytes with its header, above zero.
    pub(crate) bytes: u16,
    pub(crate) format: StreamFormat,
}

/// Properties that all frames of a track share.
#[derive(Clone, Copy)]
pub(crate) struct StreamFormat {
    /// Sampling rate in Hz.
    pub(crate) rate: u32,
    /// Samples of each channel in a frame.
    pub(crate) samples: u32,
    pub(crate) channels: u8,
    /// Further values that configure a decoder; their meaning depends on the coding.
    pub(crate) setup: [u8; 2],
}

impl FrameHeader {
    /// Describes a frame whose header belongs to the unit.
    pub(crate) fn whole(bytes: u16, format: StreamFormat) -> Self {
        Self {
            header_bytes: 0,
            bytes,
            format,
        }
    }
}

impl StreamFormat {
    /// Describes a form without further configuration.
    pub(crate) fn new(rate: u32, samples: u32, channels: u8) -> Self {
        Self {
            rate,
            samples,
            channels,
            setup: [0; 2],
        }
    }

    /// Returns whether frames of both forms can be on one track. The number of channels may
    /// differ, because decoders read it from each frame unless `setup` contains it.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        (self.rate, self.samples, self.setup) == (other.rate, other.samples, other.setup)
    }
}

impl fmt::Display for StreamFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rate,
            samples,
            channels,
            ..
        } = self;
        write!(
            f,
            "audio of {rate} Hz, {channels} channels and {samples} samples a frame"
        )
    }
}
