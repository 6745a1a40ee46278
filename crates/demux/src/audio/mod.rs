//! Audio codings: what their headers say, and bare files of audio frames.
//!
//! A container hands out whole packets, so that it needs only what a header says of
//! channels, sampling rate and duration. In a bare file [`frames`] finds the frames, too.

pub(crate) mod aac;
pub(crate) mod ac3;
pub(crate) mod adts;
pub(crate) mod frames;
pub(crate) mod mpeg_audio;
pub(crate) mod opus;
pub(crate) mod pcm;
pub(crate) mod tags;
pub(crate) mod vorbis;
