//! Tracks as CMAF describes them: a sample entry, a timescale, and the conversion of coded frames to
//! samples.
//!
//! H.264 and H.265 have their parameter sets in the sample entry (`avc1`, `hvc1`), not in the samples:
//! Apple's players take no other kind, and a change of parameters then shows in the header.

mod audio;
mod av1;
mod codec_string;
mod nal_video;
mod vpx;

use bytes::{BufMut as _, Bytes};
use glassline_media::{Codec, Kind, MediaUnit, Track, TrackIndex};

use crate::boxes::{BoxKind, put_box};
use crate::sample::Conversion;

/// Video timescale in Hz, which all clocks of video in RTP have.
const VIDEO_TIMESCALE: u32 = 90_000;

/// Most bytes at the start of a keyframe that are searched for parameters.
const SCAN_BYTES_MAX: usize = 64 << 10;

/// One track of a header: what a player must know before the first sample.
///
/// Two tracks are equal if the samples of one can follow those of the other under one header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CmafTrack {
    pub(crate) kind: Kind,
    pub(crate) timescale: u32,
    /// Width and height in pixels; zero for audio.
    pub(crate) size: (u16, u16),
    /// Sample entry: a box in the `stsd` box.
    pub(crate) entry: Bytes,
}

/// The reason why a track has no place in a CMAF file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrackError {
    /// The codec has no form in MP4 that this crate writes.
    #[error(
        "track {track} has the codec {codec}, which has no place in MP4 files here: H.264, H.265, VP8, VP9, AV1, AAC, Opus, G.711 and 16-bit PCM have one"
    )]
    Codec {
        /// Position of the track in its stream.
        track: TrackIndex,
        /// Codec of the track.
        codec: Codec,
    },
    /// The parameters of the track are missing or cannot be read.
    #[error("track {track} ({codec}) cannot be described in an MP4 header: {reason}")]
    Parameters {
        /// Position of the track in its stream.
        track: TrackIndex,
        /// Codec of the track.
        codec: Codec,
        /// The missing or damaged part.
        reason: &'static str,
    },
}

/// A track with the conversion of its frames.
#[derive(Clone, Debug)]
pub(crate) struct Described {
    pub(crate) track: CmafTrack,
    pub(crate) conversion: Conversion,
}

impl CmafTrack {
    /// Describes `track` from its parameters and from `keyframe`, which holds the parameter sets of
    /// H.264 and H.265, and the headers of VP8, VP9 and AV1. Any unit does for audio.
    ///
    /// # Errors
    /// [`TrackError`] if MP4 has no place for the codec, or if the parameters are not there.
    pub fn new(track: &Track, keyframe: &MediaUnit) -> Result<Self, TrackError> {
        describe(track, keyframe).map(|described| described.track)
    }

    /// Returns whether files and fragments can hold `track`.
    pub fn is_carried(track: &Track) -> bool {
        matches!(
            track.codec,
            Codec::H264
                | Codec::H265
                | Codec::Vp8
                | Codec::Vp9
                | Codec::Av1
                | Codec::Aac
                | Codec::Opus
                | Codec::Pcmu
                | Codec::Pcma
                | Codec::L16
        )
    }

    /// Returns the media type.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the number of ticks of a second in which the samples are timed: 90,000 for video, the
    /// sampling rate for audio.
    pub fn timescale(&self) -> u32 {
        self.timescale
    }

    /// Returns width and height in pixels; `None` for audio, and if they are unknown.
    pub fn size(&self) -> Option<(u16, u16)> {
        (self.size != (0, 0)).then_some(self.size)
    }

    /// Returns the number of channels; `None` for video.
    pub fn channels(&self) -> Option<u16> {
        audio::channels(&self.entry).filter(|_| self.kind == Kind::Audio)
    }

    /// Returns the type of the sample entry, which names the codec.
    pub(crate) fn entry_kind(&self) -> Option<&[u8]> {
        self.entry.get(4..8)
    }

    /// Returns the codec with its parameters as playlists and browsers name it (RFC 6381), such as
    /// `avc1.64001f`.
    pub fn codec_string(&self) -> String {
        codec_string::of_entry(&self.entry)
    }
}

impl Described {
    /// Returns whether samples of `other` can follow under this description: parameter sets that a
    /// later keyframe leaves out are still known.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        match (&self.conversion, &other.conversion) {
            (Conversion::Nals(known), Conversion::Nals(sets)) => known.include(sets),
            _ => self.track == other.track,
        }
    }
}

/// Describes the track of audio at position `source` of its stream, whose parameters are in the
/// description of the track alone.
pub(crate) fn describe_audio(source: TrackIndex, track: &Track) -> Result<Described, TrackError> {
    let described = match track.codec {
        Codec::Aac => audio::aac(track),
        Codec::Opus => Ok(audio::opus(track)),
        _ => audio::flac(track),
    };
    described.map_err(|reason| TrackError::Parameters {
        track: source,
        codec: track.codec,
        reason,
    })
}

/// Describes a track from its parameters and a keyframe.
pub(crate) fn describe(track: &Track, keyframe: &MediaUnit) -> Result<Described, TrackError> {
    let described = match track.codec {
        Codec::H264 => nal_video::h264(track, keyframe),
        Codec::H265 => nal_video::h265(keyframe),
        Codec::Vp8 => vpx::vp8(track, keyframe),
        Codec::Vp9 => vpx::vp9(track, keyframe),
        Codec::Av1 => av1::describe(keyframe),
        Codec::Aac | Codec::Opus | Codec::Pcmu | Codec::Pcma | Codec::L16 => {
            return describe_audio(keyframe.track, track);
        }
        codec => {
            return Err(TrackError::Codec {
                track: keyframe.track,
                codec,
            });
        }
    };
    described.map_err(|reason| TrackError::Parameters {
        track: keyframe.track,
        codec: track.codec,
        reason,
    })
}

/// Returns the first bytes of a frame, as many as are searched for parameters.
fn start_of(unit: &MediaUnit) -> Vec<u8> {
    let mut start = Vec::new();
    for piece in unit.coded_frame().iter().flat_map(|frame| frame.pieces()) {
        let room = SCAN_BYTES_MAX - start.len();
        start.extend_from_slice(&piece[..piece.len().min(room)]);
        if start.len() == SCAN_BYTES_MAX {
            break;
        }
    }
    start
}

/// Returns a video track whose sample entry is `kind` with the box that `configuration` appends.
fn video_track(
    kind: &BoxKind,
    (width, height): (u32, u32),
    configuration: impl FnOnce(&mut Vec<u8>),
) -> CmafTrack {
    let side = |pixels: u32| u16::try_from(pixels).unwrap_or(u16::MAX);
    let size = (side(width), side(height));
    let mut entry = Vec::new();
    put_box(&mut entry, kind, |out| {
        // ISO/IEC 14496-12 §12.1.3: reserved bytes, data reference, size, 72 dpi, one frame a sample,
        // no name of a compressor, 24 bits of colour.
        out.put_bytes(0, 6);
        out.put_u16(1);
        out.put_bytes(0, 16);
        out.put_u16(size.0);
        out.put_u16(size.1);
        out.put_u32(0x48_0000);
        out.put_u32(0x48_0000);
        out.put_u32(0);
        out.put_u16(1);
        out.put_bytes(0, 32);
        out.put_u16(24);
        out.put_i16(-1);
        configuration(out);
    });
    CmafTrack {
        kind: Kind::Video,
        timescale: VIDEO_TIMESCALE,
        size,
        entry: entry.into(),
    }
}
