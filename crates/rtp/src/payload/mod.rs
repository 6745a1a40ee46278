//! RTP payload formats in both directions, one module per codec.
//!
//! ```text
//! access unit ─► Packetizer::packetize ─► UnitBuilder (payloads) ─► hub
//! packets in order ─► Depacketizer ─► Unit::data, the same bytes
//! ```
//!
//! [`Packetizer::packetize`] states what an access unit is for each codec; that does not depend
//! on the container or network from which it came. Payloads have at most
//! [`PAYLOAD_BYTES_MAX`] bytes and contain nothing that depends on a receiver.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use glassline_media::{Codec, MediaUnit, PAYLOAD_BYTES_MAX, Track, UnitBuilder, annexb};

use crate::h264;

mod aac;
mod ac3;
mod amr;
mod assembly;
mod av1;
mod depacketizer;
mod discardable;
mod dv;
pub mod h265;
mod jpeg;
mod latm;
mod mpeg4_visual;
mod mpeg_audio;
mod mpeg_ts;
mod mpeg_video;
mod multiopus;
pub(crate) mod nal_units;
mod parameter_sets;
mod picture_id;
mod picture_numbers;
mod vp8;
mod vp9;
mod xiph;

use picture_id::PictureId;
use xiph::Identifier;

pub use assembly::{Entry, UnsupportedFormat};
pub use depacketizer::{Counters, Depacketizer, UNIT_BYTES_MAX, Unit};
pub use discardable::is_discardable;
pub use latm::latm_parameters;
pub use parameter_sets::ParameterSets;
pub use picture_numbers::{FrameNumbers, NumberShift};

/// Splits the access units of one track into RTP payloads.
///
/// A packetizer keeps what a format counts from unit to unit, such as VP8's picture ID.
#[derive(Clone, Debug)]
pub struct Packetizer {
    codec: Codec,
    /// Picture ID of the next frame, for VP8 and VP9.
    picture_id: PictureId,
    /// Identifier of the packed headers, for Vorbis and Theora.
    identifier: Identifier,
}

/// The codec's payload format cannot carry an access unit. The caller counts the unit and omits
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PacketizeError {
    /// A unit that cannot be split is longer than a datagram can carry.
    #[error("an access unit of {bytes} bytes is too long for RTP: at most {max} bytes fit")]
    TooLong {
        /// Size of the unit.
        bytes: usize,
        /// Largest size that fits.
        max: usize,
    },
    /// The bytes are not an access unit of the codec.
    #[error("not an access unit of {codec}: {reason}")]
    Malformed {
        /// Codec of the track.
        codec: Codec,
        /// The fault of the bytes.
        reason: &'static str,
    },
    /// The unit uses a feature of the codec that the payload format cannot represent.
    #[error("RTP cannot carry {codec} with {what}")]
    UnsupportedFeature {
        /// Codec of the track.
        codec: Codec,
        /// Feature that the payload format cannot represent.
        what: &'static str,
    },
}

impl Packetizer {
    /// Creates a packetizer for units of `track`.
    pub fn new(track: &Track) -> Self {
        Self {
            codec: track.codec,
            picture_id: PictureId::default(),
            identifier: Identifier::of(track),
        }
    }

    /// Appends the payloads of one access unit to `out`; none if the unit contains nothing to
    /// send.
    ///
    /// An access unit is, by codec:
    /// - H.264, H.265: Annex B bytes.
    /// - VP8: a frame; VP9: a frame or superframe.
    /// - AV1: a temporal unit, each OBU with its size.
    /// - MPEG-4 visual, MPEG-1/2 video: a frame with the headers before it.
    /// - JPEG: a baseline JFIF frame of 4:2:0 or 4:2:2 with any Huffman tables, up to
    ///   2040 pixels in width and height.
    /// - DV: a frame of DIF blocks of 80 bytes.
    /// - Theora, Vorbis, Opus: a packet.
    /// - MPEG transport stream: whole packets of 188 bytes.
    /// - AAC: an access unit without ADTS header, up to 8191 bytes.
    /// - AC-3, MPEG audio: a frame with its header.
    /// - AMR: a frame with its table of contents byte, as in files.
    /// - PCM: samples that fit a payload, L16 big-endian.
    /// - Text: UTF-8 that fits a payload.
    ///
    /// The fragments of a unit have equal sizes except for a shorter last one, so that they can
    /// be sent in one segmented send (GSO). MPEG-1/2 video is split at the ends of slices
    /// instead.
    ///
    /// # Errors
    /// [`PacketizeError`]. The caller then clears `out`, which may hold a part of the unit.
    pub fn packetize(&mut self, unit: &[u8], out: &mut UnitBuilder) -> Result<(), PacketizeError> {
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
            Codec::MultiOpus => multiopus::packetize(unit, max, out),
            Codec::Theora | Codec::Vorbis => xiph::packetize(unit, self.identifier, max, out),
            Codec::MpegTs => mpeg_ts::packetize(unit, max, out)?,
            Codec::Aac => aac::packetize(unit, max, out)?,
            Codec::Ac3 => ac3::packetize(unit, max, out)?,
            Codec::Amr | Codec::AmrWb => amr::packetize(self.codec, unit, out)?,
            Codec::MpegAudio => mpeg_audio::packetize(unit, max, out)?,
            // The codecs whose units are payloads as they are. A new codec comes here by
            // default.
            _ => whole(unit, out)?,
        }
        Ok(())
    }
}

/// Returns the value of one of a track's format parameters (SDP's `a=fmtp`), such as
/// `sizelength`, without quotes. The name is compared ignoring case.
pub fn parameter<'a>(parameters: &'a str, name: &str) -> Option<&'a str> {
    parameters.split(';').find_map(|part| {
        let (key, value) = part.split_once('=')?;
        let found = key.trim().eq_ignore_ascii_case(name);
        found.then(|| value.trim().trim_matches('"'))
    })
}

/// Appends a format parameter to a track's format parameters.
pub fn push_parameter(parameters: &mut String, name: &str, value: &str) {
    if !parameters.is_empty() && !parameters.ends_with(';') {
        parameters.push(';');
    }
    parameters.push_str(name);
    parameters.push('=');
    parameters.push_str(value);
}

/// Returns whether a decoder can start with the unit although the unit is no IDR picture: a recovery
/// point, at which browsers and some decoders do not start.
pub fn is_recovery_point(codec: Codec, unit: &MediaUnit) -> bool {
    let payloads = || unit.payloads();
    unit.keyframe
        && match codec {
            Codec::H264 => nal_units::is_without_keyframe::<h264::H264>(payloads()),
            Codec::H265 => nal_units::is_without_keyframe::<h265::H265>(payloads()),
            _ => false,
        }
}

/// How the pictures become right that a decoder makes of a unit at which it starts, and of those behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// The unit is a keyframe: all decoders start, and its picture is right.
    Keyframe,
    /// The picture of the frame that comes so many frames later is right, and those behind it. Zero for
    /// I slices. An upper bound for H.265, which counts steps in the order of display.
    Frames(u32),
    /// Nothing says how long the refresh takes: until the next unit of this kind.
    Refresh,
}

/// Returns how a decoder recovers that starts with `unit`, an access unit of H.264 or H.265 in Annex B
/// form; [`Recovery::Keyframe`] for other codecs.
pub fn recovery(codec: Codec, unit: &[u8]) -> Recovery {
    match codec {
        Codec::H264 => nal_units::recovery::<h264::H264>(unit),
        Codec::H265 => nal_units::recovery::<h265::H265>(unit),
        _ => Recovery::Keyframe,
    }
}

/// Returns the parameter set that `text` holds in base64, as in `sprop-parameter-sets`; `None` for
/// an invalid or empty one. Some cameras leave the padding out.
pub fn parameter_set(text: &str) -> Option<Vec<u8>> {
    STANDARD_NO_PAD
        .decode(text.trim().trim_end_matches('='))
        .ok()
        .filter(|set| !set.is_empty())
}

/// Splits `bytes` into the fewest pieces of at most `room` bytes (at least 1), all of one size
/// except for a shorter last one, as segmentation offload needs.
fn equal_pieces(bytes: &[u8], room: usize) -> std::slice::Chunks<'_, u8> {
    let count = bytes.len().div_ceil(room.max(1)).max(1);
    bytes.chunks(bytes.len().div_ceil(count).max(1))
}

/// Appends a unit that is a payload as it is and cannot be split.
fn whole(unit: &[u8], out: &mut UnitBuilder) -> Result<(), PacketizeError> {
    if unit.len() > PAYLOAD_BYTES_MAX {
        return Err(PacketizeError::TooLong {
            bytes: unit.len(),
            max: PAYLOAD_BYTES_MAX,
        });
    }
    out.push(unit);
    Ok(())
}

#[cfg(test)]
mod tests;
