//! Access units into RTP payloads and back, one format a codec.
//!
//! ```text
//! demux::Frame.data ─► Packetizer::packetize ─► UnitBuilder (payloads) ─► hub
//! packets in order ─► Depacketizer ─► Unit.data, the same bytes
//! ```
//!
//! What goes in is what [`Packetizer::packetize`] says for each codec, the same
//! whatever container or network it came from. What comes out fits
//! [`PAYLOAD_BYTES_MAX`] and holds nothing of a receiver.

use glassline_media::{Codec, PAYLOAD_BYTES_MAX, Track, UnitBuilder, annexb};

use crate::h264;

mod aac;
mod ac3;
mod amr;
mod assembly;
mod av1;
mod depacketizer;
mod dv;
pub mod h265;
mod jpeg;
mod mpeg4_visual;
mod mpeg_audio;
mod mpeg_ts;
mod mpeg_video;
mod picture_id;
mod vp8;
mod vp9;
mod xiph;

pub use crate::h264::Counters;
use picture_id::PictureId;
use xiph::Identifier;

pub use assembly::Unreceivable;
pub use depacketizer::{Depacketizer, Unit};

/// Cuts the access units of one track into payloads.
///
/// Keeps what a format counts from unit to unit, such as VP8's picture number.
#[derive(Clone, Debug)]
pub struct Packetizer {
    codec: Codec,
    /// VP8 and VP9.
    picture_id: PictureId,
    /// Vorbis and Theora.
    identifier: Identifier,
}

/// An access unit that the codec's payload format cannot carry; it is to be
/// counted and left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Unsendable {
    /// A unit that cannot be cut is longer than a datagram takes.
    #[error("a packet of {bytes} bytes does not fit a datagram, which takes {max}")]
    TooLong {
        /// Its size.
        bytes: usize,
        /// What fits.
        max: usize,
    },
    /// The bytes are not what the codec says.
    #[error("not an access unit of {codec}: {reason}")]
    Malformed {
        /// What it should be.
        codec: Codec,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// An audio unit that the payload format has no room for.
    #[error("the RTP payload of {codec} has no room for {what}")]
    Unsuited {
        /// What it is.
        codec: Codec,
        /// What is too much.
        what: &'static str,
    },
}

impl Packetizer {
    /// For units of `track`.
    pub fn new(track: &Track) -> Self {
        Self {
            codec: track.codec,
            picture_id: PictureId::default(),
            identifier: Identifier::of(track),
        }
    }

    /// Appends the payloads of one access unit to `out`: none if there is nothing
    /// to send of it.
    ///
    /// What a unit is, by codec:
    /// - H.264, H.265: Annex-B bytes.
    /// - VP8: a frame; VP9: a frame or superframe.
    /// - AV1: a temporal unit, each OBU with its size.
    /// - MPEG-4 visual, MPEG-1/2 video: a frame with the headers before it.
    /// - JPEG: a baseline JFIF frame of 4:2:0 or 4:2:2 with the standard Huffman
    ///   tables, up to 2040 pixels either way.
    /// - DV: a frame of DIF blocks of 80 bytes.
    /// - Theora, Vorbis, Opus: a packet.
    /// - MPEG transport stream: whole packets of 188 bytes.
    /// - AAC: an access unit without ADTS header, up to 8191 bytes.
    /// - AC-3, MPEG audio: a frame with its header.
    /// - AMR: a frame with its table of contents byte, as files have it.
    /// - PCM: samples that fit a payload, L16 big-endian.
    /// - Text: UTF-8 that fits a payload.
    ///
    /// Fragments of a unit are equal but for a shorter last one, so that they go out
    /// in one segmented send; only those of MPEG-1/2 video end where slices do.
    ///
    /// # Errors
    /// [`Unsendable`]; `out` may hold a part of the unit then, and is to be dropped.
    pub fn packetize(&mut self, unit: &[u8], out: &mut UnitBuilder) -> Result<(), Unsendable> {
        let max = PAYLOAD_BYTES_MAX;
        match self.codec {
            Codec::H264 => h264::packetize(annexb::nals(unit), max, out),
            Codec::H265 => h265::packetize(annexb::nals(unit), max, out),
            Codec::Vp8 => vp8::packetize(unit, &mut self.picture_id, max, out),
            Codec::Vp9 => vp9::packetize(unit, &mut self.picture_id, max, out),
            Codec::Av1 => av1::packetize(unit, max, out)?,
            Codec::Mpeg4Visual => mpeg4_visual::packetize(unit, max, out),
            Codec::MpegVideo => mpeg_video::packetize(unit, max, out)?,
            Codec::Jpeg => jpeg::packetize(unit, max, out)?,
            Codec::Dv => dv::packetize(unit, max, out)?,
            Codec::Theora | Codec::Vorbis => xiph::packetize(unit, self.identifier, max, out),
            Codec::MpegTs => mpeg_ts::packetize(unit, max, out)?,
            Codec::Aac => aac::packetize(unit, max, out)?,
            Codec::Ac3 => ac3::packetize(unit, max, out)?,
            Codec::Amr | Codec::AmrWb => amr::packetize(self.codec, unit, out)?,
            Codec::MpegAudio => mpeg_audio::packetize(unit, max, out)?,
            // Those that are a payload as they are; a codec to come must be put here.
            _ => whole(unit, out)?,
        }
        Ok(())
    }
}

/// The value of one of a track's format parameters (SDP's `a=fmtp`), named in any
/// case, such as `sizelength`; quotes around it are removed.
pub fn parameter<'a>(parameters: &'a str, name: &str) -> Option<&'a str> {
    parameters.split(';').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let found = key.trim().eq_ignore_ascii_case(name);
        found.then(|| value.trim().trim_matches('"'))
    })
}

/// `bytes` in as few pieces of at most `room` bytes (at least 1) as there can be,
/// all of one size but for a shorter last: segmentation offload takes such in one
/// call.
fn equal_pieces(bytes: &[u8], room: usize) -> std::slice::Chunks<'_, u8> {
    let count = bytes.len().div_ceil(room.max(1)).max(1);
    bytes.chunks(bytes.len().div_ceil(count).max(1))
}

/// A unit that is a payload as it is, and cannot be cut.
fn whole(unit: &[u8], out: &mut UnitBuilder) -> Result<(), Unsendable> {
    if unit.len() > PAYLOAD_BYTES_MAX {
        return Err(Unsendable::TooLong {
            bytes: unit.len(),
            max: PAYLOAD_BYTES_MAX,
        });
    }
    out.push(unit);
    Ok(())
}

#[cfg(test)]
mod tests;
