//! File formats by name and extension.

use std::path::Path;

/// Format of a file's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// H.264 as a byte stream of Annex B.
    H264,
    /// H.265 as a byte stream of Annex B.
    H265,
    /// Ogg with Opus, Vorbis or Theora.
    Ogg,
    /// An MPEG program stream, such as the files of DVDs.
    MpegPs,
    /// MPEG-1 or MPEG-2 video without a container.
    MpegVideo,
    /// An MPEG transport stream with packets of 188, 192 or 204 bytes.
    MpegTs,
    /// AAC with ADTS headers.
    Aac,
    /// AC-3 without a container.
    Ac3,
    /// AMR or AMR-WB in the storage format of RFC 4867 §5.
    Amr,
    /// MPEG audio, such as MP3.
    MpegAudio,
    /// WAV with PCM samples or G.711.
    Wav,
    /// Raw DV at 25 Mbit/s.
    Dv,
    /// MPEG-4 visual without a container.
    Mpeg4Visual,
    /// Matroska (RFC 9559), or WebM, which is a subset of it.
    Matroska,
    /// MP4 (ISO/IEC 14496-14) or QuickTime, whole or in fragments.
    Mp4,
    /// AVI, also with the extensions of OpenDML.
    Avi,
    /// FLAC without a container.
    Flac,
    /// FLV, also with the codings of Enhanced RTMP.
    Flv,
}

/// Formats that a pipe may have, for error texts.
pub(crate) const PIPE_FORMATS: &str =
    "Matroska, FLV, Ogg, H.264 or H.265 in Annex-B form, AAC with ADTS headers, MP3 or AC-3";

/// Extensions in lower case, and their formats.
const EXTENSIONS: &[(&str, Format)] = &[
    ("h264", Format::H264),
    ("264", Format::H264),
    ("h26l", Format::H264),
    ("avc", Format::H264),
    ("265", Format::H265),
    ("h265", Format::H265),
    ("hevc", Format::H265),
    ("ogg", Format::Ogg),
    ("opus", Format::Ogg),
    ("ogv", Format::Ogg),
    ("mpg", Format::MpegPs),
    ("mpeg", Format::MpegPs),
    ("vob", Format::MpegPs),
    ("m2v", Format::MpegVideo),
    ("mpv", Format::MpegVideo),
    ("m1v", Format::MpegVideo),
    ("ts", Format::MpegTs),
    ("mts", Format::MpegTs),
    ("m2ts", Format::MpegTs),
    ("m2t", Format::MpegTs),
    ("aac", Format::Aac),
    ("adts", Format::Aac),
    ("ac3", Format::Ac3),
    ("amr", Format::Amr),
    ("awb", Format::Amr),
    ("mp3", Format::MpegAudio),
    ("mp2", Format::MpegAudio),
    ("mpa", Format::MpegAudio),
    ("wav", Format::Wav),
    ("dv", Format::Dv),
    ("dif", Format::Dv),
    ("m4e", Format::Mpeg4Visual),
    ("mp4v", Format::Mpeg4Visual),
    ("mkv", Format::Matroska),
    ("webm", Format::Matroska),
    ("mp4", Format::Mp4),
    ("m4v", Format::Mp4),
    ("m4a", Format::Mp4),
    ("mov", Format::Mp4),
    ("avi", Format::Avi),
    ("divx", Format::Avi),
    ("flv", Format::Flv),
    ("flac", Format::Flac),
];

impl Format {
    /// Returns the format that the extension of `path` stands for, in any case; `None` if it is
    /// unknown.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?;
        let known = EXTENSIONS
            .iter()
            .find(|(known, _)| extension.eq_ignore_ascii_case(known));
        known.map(|(_, format)| *format)
    }

    /// Returns whether files of this format usually contain video.
    pub const fn has_video(self) -> bool {
        matches!(
            self,
            Self::H264
                | Self::H265
                | Self::MpegTs
                | Self::MpegPs
                | Self::MpegVideo
                | Self::Dv
                | Self::Mpeg4Visual
                | Self::Matroska
                | Self::Mp4
                | Self::Avi
                | Self::Flv
        )
    }

    /// Returns all known extensions, in lower case.
    pub fn extensions() -> impl Iterator<Item = &'static str> {
        EXTENSIONS.iter().map(|(extension, _)| *extension)
    }

    /// Returns whether the format consists of audio frames between tags, without a container.
    pub(crate) const fn is_bare_audio(self) -> bool {
        matches!(
            self,
            Self::Aac | Self::Ac3 | Self::Amr | Self::Flac | Self::MpegAudio
        )
    }
}
