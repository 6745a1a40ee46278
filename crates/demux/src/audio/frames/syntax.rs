//! What a coding tells the reader of bare audio files.

use std::fmt;

use glassline_media::Track;

use crate::error::Reason;

/// How the bytes of a bare audio file make frames, and what track they become.
pub(crate) trait Syntax {
    /// What users know such a file as.
    fn expected(&self) -> &'static str;

    /// What errors call one frame.
    fn frame_name(&self) -> &'static str;

    /// Bytes of the magic number before the first frame.
    fn magic_bytes(&self) -> u64 {
        0
    }

    /// Bytes of a frame that [`frame`](Self::frame) and [`refusal`](Self::refusal) need.
    fn head_bytes(&self) -> usize;

    /// Frames that must follow one that was looked for: headers of a byte are
    /// found everywhere.
    fn witnesses(&self) -> usize {
        2
    }

    /// The frame whose header begins `head`.
    fn frame(&self, head: &[u8]) -> Option<FrameHeader>;

    /// Why a file that begins with `head` is not served, though it is of the format.
    fn refusal(&self, _head: &[u8]) -> Option<Reason> {
        None
    }

    /// Bytes of a frame that [`is_directory`](Self::is_directory) needs; 0 where no
    /// file has a directory.
    fn directory_bytes(&self) -> usize {
        0
    }

    /// Whether the frame that `bytes` begin with is a directory of the file for
    /// players that seek, and holds no audio.
    fn is_directory(&self, _bytes: &[u8]) -> bool {
        false
    }

    /// The track that frames of `form` make.
    fn track(&self, form: &Form) -> Track;
}

/// What the header of an audio frame says.
#[derive(Clone, Copy)]
pub(crate) struct FrameHeader {
    /// Bytes of the header that are no part of the unit.
    pub(crate) header_bytes: u16,
    /// Bytes in all, above zero.
    pub(crate) bytes: u16,
    pub(crate) form: Form,
}

/// What a track says once for all its frames.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// Samples per second.
    pub(crate) rate: u32,
    /// Samples of each frame.
    pub(crate) samples: u32,
    pub(crate) channels: u8,
    /// Whatever else a decoder is set up with.
    pub(crate) setup: [u8; 2],
}

impl FrameHeader {
    /// A frame whose header is part of the unit.
    pub(crate) fn whole(bytes: u16, form: Form) -> Self {
        Self {
            header_bytes: 0,
            bytes,
            form,
        }
    }
}

impl Form {
    /// A form without further setup.
    pub(crate) fn new(rate: u32, samples: u32, channels: u8) -> Self {
        Self {
            rate,
            samples,
            channels,
            setup: [0; 2],
        }
    }

    /// Whether frames of both can be on one track. Decoders take it from each
    /// frame how many channels there are, unless `setup` says it.
    pub(crate) fn fits(&self, other: &Self) -> bool {
        (self.rate, self.samples, self.setup) == (other.rate, other.samples, other.setup)
    }
}

impl fmt::Display for Form {
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
