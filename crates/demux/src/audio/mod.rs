//! Audio codings: their headers, and files of audio frames without a container.
//!
//! A container delivers whole packets, so only channels, sampling rate and duration are read
//! from their headers. In a file without a container, [`frames`] also finds the frames.

pub(crate) mod ac3;
pub(crate) mod adts;
pub(crate) mod flac;
pub(crate) mod frames;
pub(crate) mod mpeg_audio;
pub(crate) mod opus;
pub(crate) mod opus_control;
pub(crate) mod pcm;
pub(crate) mod tags;
pub(crate) mod vorbis;
