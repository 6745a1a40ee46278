//! File formats by name and extension.

use std::fmt;
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
    /// IVF with VP8, VP9 or AV1, which the reference encoders write.
    Ivf,
}

/// Formats that a pipe may have, for error texts.
pub(crate) const PIPE_FORMATS: &str = "Matroska, an MPEG transport stream, FLV, Ogg, IVF, H.264 or H.265 in Annex-B form, Motion JPEG, AAC with ADTS headers, MP3 or AC-3";

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
    ("oga", Format::Ogg),
    ("ogx", Format::Ogg),
    ("spx", Format::Ogg),
    ("mpg", Format::MpegPs),
    ("mpeg", Format::MpegPs),
    ("vob", Format::MpegPs),
    ("m2p", Format::MpegPs),
    ("m2v", Format::MpegVideo),
    ("mpv", Format::MpegVideo),
    ("m1v", Format::MpegVideo),
    ("ts", Format::MpegTs),
    ("mts", Format::MpegTs),
    ("m2ts", Format::MpegTs),
    ("m2t", Format::MpegTs),
    ("tp", Format::MpegTs),
    ("trp", Format::MpegTs),
    ("aac", Format::Aac),
    ("adts", Format::Aac),
    ("ac3", Format::Ac3),
    ("amr", Format::Amr),
    ("awb", Format::Amr),
    ("mp3", Format::MpegAudio),
    ("mp2", Format::MpegAudio),
    ("mpa", Format::MpegAudio),
    ("wav", Format::Wav),
    ("wave", Format::Wav),
    ("dv", Format::Dv),
    ("dif", Format::Dv),
    ("m4e", Format::Mpeg4Visual),
    ("mp4v", Format::Mpeg4Visual),
    ("mkv", Format::Matroska),
    ("webm", Format::Matroska),
    ("mka", Format::Matroska),
    ("mk3d", Format::Matroska),
    ("weba", Format::Matroska),
    ("mp4", Format::Mp4),
    ("m4v", Format::Mp4),
    ("m4a", Format::Mp4),
    ("mov", Format::Mp4),
    ("qt", Format::Mp4),
    ("3gp", Format::Mp4),
    ("3g2", Format::Mp4),
    ("f4v", Format::Mp4),
    ("m4b", Format::Mp4),
    ("avi", Format::Avi),
    ("divx", Format::Avi),
    ("flv", Format::Flv),
    ("flac", Format::Flac),
    ("ivf", Format::Ivf),
];

/// Extensions of media that are not read, in lower case: what such a file is, and whether it
/// usually has video.
const UNREAD: &[(&str, &str, bool)] = &[
    ("aif", "AIFF", false),
    ("aifc", "AIFF", false),
    ("aiff", "AIFF", false),
    ("amv", "AMV video", true),
    ("ape", "Monkey's Audio", false),
    ("asf", "ASF (Windows Media)", true),
    ("au", "AU audio", false),
    ("caf", "CAF (Core Audio)", false),
    ("dff", "DSD audio", false),
    ("dsf", "DSD audio", false),
    ("dts", "DTS audio", false),
    ("ec3", "E-AC-3", false),
    ("eac3", "E-AC-3", false),
    ("gif", "GIF", true),
    ("gxf", "GXF", true),
    ("mjpeg", "Motion JPEG without a container", true),
    ("mjpg", "Motion JPEG without a container", true),
    ("mlp", "Dolby TrueHD", false),
    ("mpc", "Musepack", false),
    ("mxf", "MXF", true),
    ("nut", "NUT", true),
    ("obu", "AV1 without a container", true),
    ("ra", "RealAudio", false),
    ("rm", "RealMedia", true),
    ("rmvb", "RealMedia", true),
    ("snd", "AU audio", false),
    ("swf", "Flash", true),
    ("thd", "Dolby TrueHD", false),
    ("tta", "TTA", false),
    ("wma", "Windows Media Audio", false),
    ("wmv", "Windows Media Video", true),
    ("wtv", "WTV", true),
    ("wv", "WavPack", false),
    ("y4m", "uncompressed video (Y4M)", true),
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

    /// Returns why a file of this name is not read although it holds media, and how to convert it;
    /// `None` for names of files that are read, and of files that are no media.
    pub fn unread(path: &Path) -> Option<Unread> {
        let extension = path.extension()?;
        let mut unread = UNREAD.iter();
        let (_, kind, video) = unread.find(|(known, ..)| extension.eq_ignore_ascii_case(known))?;
        Some(Unread {
            kind,
            command: conversion(path, *video),
        })
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
                | Self::Ivf
        )
    }

    /// Returns whether the format consists of audio frames between tags, without a container.
    pub(crate) const fn is_bare_audio(self) -> bool {
        matches!(
            self,
            Self::Aac | Self::Ac3 | Self::Amr | Self::Flac | Self::MpegAudio
        )
    }
}

/// A file of a format that is known and not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unread {
    /// Name of the format.
    pub kind: &'static str,
    /// Command that converts the file, to be run in its folder.
    pub command: String,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, command } = self;
        write!(f, "{kind} is not read; convert it with: {command}")
    }
}

/// Returns a command of FFmpeg that writes what every receiver plays, beside the file.
fn conversion(path: &Path, video: bool) -> String {
    let mut to = path.file_stem().unwrap_or_default().to_owned();
    let codings = match video {
        true => "-c:v libx264 -bf 0 -pix_fmt yuv420p -c:a libopus",
        false => "-c:a libopus",
    };
    to.push(if video { ".mkv" } else { ".ogg" });
    let from = quoted(&path.file_name().unwrap_or_default().to_string_lossy());
    let to = quoted(&to.to_string_lossy());
    format!("ffmpeg -i {from} {codings} {to}")
}

/// Quotes a name for a shell, where that is needed.
fn quoted(name: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-+,".contains(c);
    // A name with a leading hyphen would be an option.
    let name = match name.starts_with('-') {
        true => format!("./{name}"),
        false => name.to_owned(),
    };
    match name.trim_start_matches("./").chars().all(is_plain) {
        true => name,
        false => format!("'{}'", name.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_that_is_not_read_is_named_with_a_command_to_convert_it() {
        let told = |name: &str| Format::unread(Path::new(name)).map(|it| it.to_string());
        assert_eq!(
            told("/media/clip.AIFF").as_deref(),
            Some("AIFF is not read; convert it with: ffmpeg -i clip.AIFF -c:a libopus clip.ogg")
        );
        assert_eq!(
            told("it's here.wmv").as_deref(),
            Some(
                "Windows Media Video is not read; convert it with: ffmpeg -i 'it'\\''s here.wmv' \
                 -c:v libx264 -bf 0 -pix_fmt yuv420p -c:a libopus 'it'\\''s here.mkv'"
            )
        );
        assert_eq!(quoted("-y.gif"), "./-y.gif");
        for none in ["a.mp4", "notes.txt", "wmv", ".wmv"] {
            assert_eq!(told(none), None, "{none}");
        }
    }

    #[test]
    fn no_extension_is_both_read_and_unread() {
        let known: Vec<&str> = EXTENSIONS.iter().map(|(known, _)| *known).collect();
        assert!(UNREAD.iter().all(|(unread, ..)| !known.contains(unread)));
    }
}
