//! Opens files by their format. Only this module knows all readers.

use crate::audio::ac3::Ac3;
use crate::audio::adts::Adts;
use crate::audio::flac::Flac;
use crate::audio::frames::{Frames, Syntax as _};
use crate::audio::mpeg_audio::MpegAudio;
use crate::audio::tags;
use crate::container::wav::Wav;
use crate::container::{avi, flv, ivf, matroska, mp4, ogg, transport};
use crate::elementary::grammar::Grammar as _;
use crate::elementary::h264::H264;
use crate::elementary::h265::H265;
use crate::elementary::video::Video;
use crate::error::{Fault, Reason, Warnings};
use crate::format::Format;
use crate::legacy::amr::{self, Amr};
use crate::legacy::dv::Dv;
use crate::legacy::mpeg4_visual::Mpeg4Visual;
use crate::legacy::program::Program;
use crate::reader::Reader;
use crate::window::Window;
use crate::{Data, FrameRate, Options, sniff};

impl Format {
    /// Returns the name of the format in [`sniff`], and its name in error texts.
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
            Self::Mpeg4Visual => (sniff::MPEG4_VISUAL, "raw MPEG-4 visual video"),
            Self::Matroska => (sniff::MATROSKA, "a Matroska or WebM file"),
            Self::Mp4 => (sniff::MP4, "an MP4 or QuickTime file"),
            Self::Avi => (sniff::AVI, "an AVI file"),
            Self::Flv => (sniff::FLV, "an FLV file"),
            Self::Flac => (sniff::FLAC, "a FLAC file"),
            Self::Ivf => (sniff::IVF, "an IVF file"),
        }
    }

    /// Opens a file, unless its first bytes show another format.
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
            Self::MpegTs => transport::open(data, warnings)?,
            Self::Wav => Box::new(Wav::open(data, warnings)?),
            Self::Dv => Box::new(Dv::open(data, warnings)?),
            Self::Mpeg4Visual => Box::new(Mpeg4Visual::open(data, warnings)?),
            Self::Matroska => Box::new(matroska::open(data, warnings)?),
            Self::Mp4 => Box::new(mp4::open(data, warnings)?),
            Self::Avi => Box::new(avi::open(data, warnings)?),
            Self::Flv => Box::new(flv::open(data, warnings)?),
            Self::Ivf => Box::new(ivf::open(data, warnings)?),
            Self::Aac | Self::Ac3 | Self::Amr | Self::Flac | Self::MpegAudio => {
                self.open_audio(data, warnings)?
            }
        })
    }

    /// Opens an audio file without a container, whose format begins behind its tags.
    fn open_audio(
        self,
        data: Box<dyn Data>,
        warnings: &mut Warnings,
    ) -> Result<Box<dyn Reader>, Fault> {
        let mut window = Window::new(data)?;
        let range = tags::audio_within(&mut window)?;
        let head = window.peek(range.start, sniff::SNIFF_BYTES)?;
        let (is, expected) = self.names();
        sniff::check_bytes(head, range.start, is, expected)?;
        Ok(Box::new(match self {
            Self::Flac => return Ok(Box::new(Flac::open(window, range, warnings)?)),
            Self::Ac3 => Frames::open(&Ac3, window, range, warnings)?,
            Self::Amr => {
                let syntax = Amr::of(head).map_err(|reason| Fault::at(range.start, reason))?;
                Frames::open(&syntax, window, range, warnings)?
            }
            Self::MpegAudio => Frames::open(&MpegAudio, window, range, warnings)?,
            _ => Frames::open(&Adts, window, range, warnings)?,
        }))
    }
}
