//! Formats by name and extension.

use std::path::Path;

/// What a file's bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// H.264 in Annex-B form.
    H264,
    /// H.265 in Annex-B form.
    H265,
    /// Ogg.
    Ogg,
    /// An MPEG program stream, as of DVDs.
    MpegPs,
    /// Bare MPEG-1 or MPEG-2 video.
    MpegVideo,
    /// An MPEG transport stream, packets of 188, 192 or 204 bytes.
    MpegTs,
    /// AAC with ADTS headers.
    Aac,
    /// AC-3.
    Ac3,
    /// AMR or AMR wideband.
    Amr,
    /// MPEG audio, such as MP3.
    MpegAudio,
    /// WAV with samples or G.711.
    Wav,
    /// Raw DV of 25 Mbit/s.
    Dv,
    /// Bare MPEG-4 visual.
    Mpeg4Visual,
    /// Matroska or WebM.
    Matroska,
    /// MP4 or QuickTime.
    Mp4,
}

/// Extensions, in lower case, and what they promise.
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
];

impl Format {
    /// What the extension of `path` promises, in any case; `None` if nothing.
    pub fn of(path: &Path) -> Option<Self> {
        let extension = path.extension()?;
        let known = EXTENSIONS
            .iter()
            .find(|(known, _)| extension.eq_ignore_ascii_case(known));
        known.map(|(_, format)| *format)
    }

    /// Whether files of this format usually have video.
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
        )
    }

    /// Every extension that is known, in lower case.
    pub fn extensions() -> impl Iterator<Item = &'static str> {
        EXTENSIONS.iter().map(|(extension, _)| *extension)
    }

    /// Audio frames one after the other, between tags.
    pub(crate) const fn is_bare_audio(self) -> bool {
        matches!(self, Self::Aac | Self::Ac3 | Self::Amr | Self::MpegAudio)
    }
}
