//! The form of samples that another reader has found in a file.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use glassline_media::Track;

use crate::Error;
use crate::container::indexed_track::IndexedTrackBuilder;
use crate::error::{Fault, Reason, Warnings};
use crate::window::Window;

/// The form of a track's samples in MP4: the way from a sample to a [`Frame`](crate::Frame)'s data.
pub struct SampleForm {
    number: u32,
    builder: IndexedTrackBuilder,
    file: PathBuf,
}

impl SampleForm {
    /// Reads the forms of the tracks that the header of `file` describes, without those of tracks
    /// that cannot be played.
    ///
    /// # Errors
    /// Returns the fault of a damaged header, or of one in which no track can be played.
    pub fn of_header(file: &Path, header: &[u8]) -> Result<Vec<Self>, Error> {
        let read = || {
            let mut window = Window::new(Box::new(Cursor::new(header.to_vec())))?;
            let movie = super::read(&mut window, &mut Warnings::default())?;
            let missing = || Fault::whole(Reason::Damaged("the header describes no track"));
            movie.ok_or_else(missing)
        };
        let movie = read().map_err(|fault: Fault| fault.of(file))?;
        let forms = movie.tracks.into_iter().map(|state| Self {
            number: state.id,
            builder: state.builder,
            file: file.to_owned(),
        });
        Ok(forms.collect())
    }

    /// Returns the number of the track in the file, from one.
    pub const fn number(&self) -> u32 {
        self.number
    }

    /// Returns the track, as far as the header and the samples so far describe it.
    pub const fn track(&self) -> &Track {
        &self.builder.track
    }

    /// Converts a sample. `keyframe`: whether a decoder can start with it.
    ///
    /// # Errors
    /// Returns the fault of a damaged sample.
    pub fn frame_data(&mut self, sample: Vec<u8>, keyframe: bool) -> Result<Bytes, Error> {
        let converted = self.builder.convert(sample, keyframe);
        converted.map_err(|fault| fault.of(&self.file))
    }
}
