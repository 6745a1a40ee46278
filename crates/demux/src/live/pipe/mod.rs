//! Media that a pipe brings: timed units as they arrive, without seeking and without an index.
//!
//! ```text
//! first bytes ► sniff ► PipeReader (Matroska, FLV, Ogg, Annex B, frames of audio) ► PipeUnit
//!                                                                                     │
//!                  Frame, in the order of arrival ◄── PipeDemuxer: tracks, time zero ◄┘
//! ```
//!
//! The tracks are known before the first frame is handed out: units wait until each announced track
//! has one, or for a second of media. Memory is bounded by the largest unit and these.

mod audio;
mod elementary;
mod frames;

use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};

use glassline_media::Track;

use crate::audio::ac3::Ac3;
use crate::audio::adts::Adts;
use crate::audio::mpeg_audio::MpegAudio;
use crate::container::growing::GrowingReader;
use crate::container::transport::TransportPipe;
use crate::container::{flv, ivf, matroska, ogg};
use crate::error::{Fault, Reason};
use crate::live::arriving::ArrivingUnits;
use crate::pipe_reader::PipeReader;
use crate::sniff;
use crate::window::Window;
use crate::{Error, Frame, FrameRate, Warning};
use audio::AudioReader;
use elementary::ElementaryReader;
use frames::FrameReader;

/// How many of the first bytes are looked at, in turn: a pipe may bring few bytes a second.
const SNIFFED_BYTES: [usize; 3] = [16, 1024, sniff::SNIFF_BYTES];

/// The frames of a pipe as they arrive.
///
/// Its methods wait for the pipe: the caller's reader decides for how long, and ends the demuxer by
/// an error.
pub struct PipeDemuxer {
    name: PathBuf,
    reader: Box<dyn PipeReader>,
    units: ArrivingUnits,
    has_ended: bool,
    /// The reason why the pipe ended, until the frames before that are handed out.
    failure: Option<Fault>,
}

impl PipeDemuxer {
    /// Waits for the first media of a pipe and tells its tracks.
    ///
    /// `name`: the pipe in errors. `fps`: frames per second of H.264 and H.265 in Annex-B form that
    /// state none, and of Motion JPEG.
    ///
    /// # Errors
    /// The bytes are of an unknown format, of one that needs the whole file, or damaged; or the pipe
    /// cannot be read.
    pub fn open(name: &Path, pipe: Box<dyn Read + Send>, fps: Option<f64>) -> Result<Self, Error> {
        Self::begin(name, pipe, fps).map_err(|fault| fault.of(name))
    }

    fn begin(name: &Path, pipe: Box<dyn Read + Send>, fps: Option<f64>) -> Result<Self, Fault> {
        let mut demuxer = Self {
            name: name.to_owned(),
            reader: reader(pipe, fps)?,
            units: ArrivingUnits::default(),
            has_ended: false,
            failure: None,
        };
        while !demuxer.has_ended && !demuxer.is_settled() {
            demuxer.read();
        }
        if let Some(fault) = demuxer
            .failure
            .take_if(|_| demuxer.units.waiting.is_empty())
        {
            return Err(fault);
        }
        let tracks = demuxer.reader.tracks();
        demuxer.units.settle(&tracks)?;
        Ok(demuxer)
    }

    fn is_settled(&mut self) -> bool {
        let tracks = self.reader.tracks().len();
        self.units.is_settled(tracks, self.reader.has_all_tracks())
    }

    /// Returns the tracks, video first.
    pub fn tracks(&self) -> &[Track] {
        &self.units.tracks
    }

    /// Takes the warnings since the last call, which are meant for the user.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        let mut warnings = self.reader.take_warnings();
        warnings.append(&mut self.units.jumps);
        warnings.of(&self.name).collect()
    }

    /// Waits for the next frame; `None` at the end of the pipe.
    ///
    /// Frames come in the order of the pipe. A `decode_time` never falls within a track, and says
    /// when a frame is to be sent at the latest.
    ///
    /// # Errors
    /// The bytes are damaged beyond what can be skipped, or the pipe cannot be read. The demuxer has
    /// then ended.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, Error> {
        loop {
            if let Some(frame) = self.units.next_frame() {
                return Ok(Some(frame));
            }
            if let Some(fault) = self.failure.take() {
                return Err(fault.of(&self.name));
            }
            if self.has_ended {
                return Ok(None);
            }
            self.read();
        }
    }

    /// Reads the next units, or notes the end.
    fn read(&mut self) {
        match self.reader.read(&mut self.units.waiting) {
            Ok(more) => self.has_ended = !more,
            Err(fault) => {
                self.has_ended = true;
                self.failure = Some(fault);
            }
        }
    }

    /// Returns the bytes of the pipe behind the end, if another file follows the first one there:
    /// two writers that took turns, or two files that one writer joined.
    pub fn into_rest(self) -> Option<Box<dyn Read + Send>> {
        self.has_ended.then(|| self.reader.into_rest()).flatten()
    }
}

/// Looks at the first bytes of a pipe, and returns the reader of their format.
fn reader(mut pipe: Box<dyn Read + Send>, fps: Option<f64>) -> Result<Box<dyn PipeReader>, Fault> {
    let rate = match fps {
        Some(fps) => {
            Some(FrameRate::from_decimal(fps).ok_or_else(|| Fault::whole(Reason::FrameRate(fps)))?)
        }
        None => None,
    };
    let mut head = Vec::new();
    let mut found = None;
    for wanted in SNIFFED_BYTES {
        let room = wanted.saturating_sub(head.len()) as u64;
        let read = pipe.by_ref().take(room).read_to_end(&mut head);
        read.map_err(|error| Fault::at(0, Reason::Read(error)))?;
        found = sniff::looks_like(&head);
        if found.is_some() || head.len() < wanted {
            break;
        }
    }
    if head.is_empty() {
        return Err(Fault::at(0, Reason::Empty));
    }
    let pipe: Box<dyn Read + Send> = Box::new(Cursor::new(head).chain(pipe));
    let window = |pipe| Window::of_pipe(pipe);
    Ok(match found {
        Some(sniff::MATROSKA) => {
            let reading = matroska::Reading::new(window(pipe));
            Box::new(GrowingReader::new(reading))
        }
        Some(sniff::FLV) => Box::new(GrowingReader::new(flv::Reading::new(window(pipe)))),
        Some(sniff::TRANSPORT_STREAM) => Box::new(TransportPipe::new(pipe)),
        Some(sniff::IVF) => Box::new(GrowingReader::new(ivf::Reading::new(window(pipe)))),
        Some(sniff::OGG) => Box::new(ogg::OggPipe::new(pipe)),
        Some(sniff::H264 | sniff::H265) => Box::new(ElementaryReader::new(pipe, rate)),
        Some(sniff::MOTION_JPEG) => Box::new(FrameReader::new(pipe, rate)),
        Some(sniff::AAC) => Box::new(AudioReader::new(&Adts, window(pipe))),
        Some(sniff::MPEG_AUDIO) => Box::new(AudioReader::new(&MpegAudio, window(pipe))),
        Some(sniff::AC3) => Box::new(AudioReader::new(&Ac3, window(pipe))),
        Some(found) => {
            let why = match found {
                sniff::MP4 => {
                    ": the part that says where its frames are (moov) may come last, so it is \
                     read from files only"
                }
                _ => "",
            };
            return Err(Fault::at(0, Reason::NotFromPipe { found, why }));
        }
        None => return Err(Fault::at(0, Reason::UnknownPipe)),
    })
}

#[cfg(test)]
mod tests;
