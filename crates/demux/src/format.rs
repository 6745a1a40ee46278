//! Which files are read, and by which reader.

use std::path::Path;

use crate::audio::ac3::Ac3;
use crate::audio::adts::Adts;
use crate::audio::frames::{Frames, Syntax as _};
use crate::audio::mpeg_audio::MpegAudio;
use crate::audio::tags;
use crate::container::transport::Transport;
use crate::container::wav::Wav;
use crate::container::{matroska, mp4, ogg};
use crate::elementary::grammar::Grammar as _;
use crate::elementary::h264::H264;
use crate::elementary::h265::H265;
use crate::elementary::video::Video;
use crate::error::{Fault, Reason, Warnings};
use crate::legacy::amr::{self, Amr};
use crate::legacy::dv::Dv;
use crate::legacy::mpeg4_visual::Mpeg4Visual;
use crate::legacy::program::Program;
use crate::reader::Reader;
use crate::window::Window;
use crate::{Data, FrameRate, Options, sniff};

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

    /// Whether files of this format usually have pictures.
    pub const fn has_pictures(self) -> bool {
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
    const fn is_bare_audio(self) -> bool {
        matches!(self, Self::Aac | Self::Ac3 | Self::Amr | Self::MpegAudio)
    }

    /// What [`sniff`] calls such a file, and what users know it as.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::H264 => (sniff::H264, H264::EXPECTED),
            Self::H265 => (sniff::H265, H265::EXPECTED),
            Self::Ogg => (sniff::OGG, "an Ogg file"),
            Self::MpegPs => (sniff::PROGRAM_STREAM, "an MPEG program stream"),
            Self::MpegVideo => (sniff::MPEG_VIDEO, "MPEG-1 or MPEG-2 video"),
            Self::MpegTs => (sniff::TRANSPORT_STREAM, "an MPEG transport stream"),
            Self::Aac => (sniff::AAC, Adts.expected()),
            Self::Ac3 => (sniff::AC3, Ac3.expected()),
            Self::Amr => (sniff::AMR, amr::EXPECTED),
            Self::MpegAudio => (sniff::MPEG_AUDIO, MpegAudio.expected()),
            Self::Wav => (sniff::WAV, "a WAV file"),
            Self::Dv => (sniff::DV, "raw DV video"),
            Self::Mpeg4Visual => (sniff::MPEG4_VISUAL, "bare MPEG-4 visual video"),
            Self::Matroska => (sniff::MATROSKA, "a Matroska or WebM file"),
            Self::Mp4 => (sniff::MP4, "an MP4 or QuickTime file"),
        }
    }

    /// Reads a file through once, unless its first bytes show another format.
    pub(crate) fn open(
        self,
        mut data: Box<dyn Data>,
        options: &Options,
        warnings: &mut Warnings,
    ) -> Result<Box<dyn Reader>, Fault> {
        let rate = match (self, options.fps) {
            (Self::H264 | Self::H265, Some(fps)) => Some(
                FrameRate::from_decimal(fps).ok_or_else(|| Fault::whole(Reason::FrameRate(fps)))?,
            ),
            _ => None,
        };
        let (is, expected) = self.names();
        if !self.is_bare_audio() {
            sniff::check(&mut data, is, expected)?;
        }
        Ok(match self {
            Self::H264 => Box::new(Video::open::<H264>(data, rate, warnings)?),
            Self::H265 => Box::new(Video::open::<H265>(data, rate, warnings)?),
            Self::Ogg => Box::new(ogg::open(data, warnings)?),
            Self::MpegPs => Box::new(Program::open(data, warnings)?),
            Self::MpegVideo => Box::new(Program::open_bare(data, warnings)?),
            Self::MpegTs => Box::new(Transport::open(data, warnings)?),
            Self::Wav => Box::new(Wav::open(data, warnings)?),
            Self::Dv => Box::new(Dv::open(data, warnings)?),
            Self::Mpeg4Visual => Box::new(Mpeg4Visual::open(data, warnings)?),
            Self::Matroska => Box::new(matroska::open(data, warnings)?),
            Self::Mp4 => Box::new(mp4::open(data, warnings)?),
            Self::Aac | Self::Ac3 | Self::Amr | Self::MpegAudio => {
                Box::new(self.open_audio(data, warnings)?)
            }
        })
    }

    /// Reads a bare audio file through once: its format begins behind its tags.
    fn open_audio(self, data: Box<dyn Data>, warnings: &mut Warnings) -> Result<Frames, Fault> {
        let mut window = Window::new(data)?;
        let range = tags::sound_within(&mut window)?;
        let head = window.peek(range.start, sniff::SNIFF_BYTES)?;
        let (is, expected) = self.names();
        sniff::check_bytes(head, range.start, is, expected)?;
        match self {
            Self::Ac3 => Frames::open(&Ac3, window, range, warnings),
            Self::Amr => {
                let syntax = Amr::of(head).map_err(|reason| Fault::at(range.start, reason))?;
                Frames::open(&syntax, window, range, warnings)
            }
            Self::MpegAudio => Frames::open(&MpegAudio, window, range, warnings),
            _ => Frames::open(&Adts, window, range, warnings),
        }
    }
}
