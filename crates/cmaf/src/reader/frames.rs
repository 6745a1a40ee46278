//! The coded frames of a file, as they were before they became samples.

use std::collections::VecDeque;
use std::path::Path;

use glassline_demux::{Frame, SampleForm};
use glassline_media::{MediaTime, Track, TrackIndex};

use super::{ReadAt, ReadError, RecordedFile, RecordedSample};

/// Longest sample that is read, in bytes: as long as a unit of any file may be.
const SAMPLE_BYTES_MAX: u32 = 16 << 20;

/// The frames of a recorded file in decoding order, from the beginning of any fragment on. One sample is
/// in memory at a time.
#[derive(derive_more::Debug)]
#[debug("FrameReader {{ next: {next:?}, waiting: {:?}, .. }}", self.waiting.len())]
pub struct FrameReader<S> {
    file: RecordedFile<S>,
    tracks: Vec<FrameTrack>,
    /// Position of the fragment that is read next.
    next: usize,
    /// Samples of the fragment that is read, which were not read yet.
    waiting: VecDeque<WaitingSample>,
}

/// A track of the file.
struct FrameTrack {
    form: SampleForm,
    /// Number of ticks of a second.
    timescale: u32,
}

/// A sample that is to be read.
struct WaitingSample {
    track: TrackIndex,
    decode_time: MediaTime,
    placed: RecordedSample,
}

impl<S: ReadAt> FrameReader<S> {
    /// Reads `file` from its first fragment on. Errors name the file `name`.
    ///
    /// # Errors
    /// [`ReadError`] if the header describes no track that can be played.
    pub fn new(file: RecordedFile<S>, name: &Path) -> Result<Self, ReadError> {
        let forms = SampleForm::of_header(name, &file.header().segment())?;
        let described = file.header().tracks();
        let tracks = forms.into_iter().filter_map(|form| {
            let position = form.number().checked_sub(1)? as usize;
            let timescale = described.get(position)?.timescale();
            Some(FrameTrack { form, timescale })
        });
        Ok(Self {
            tracks: tracks.collect(),
            file,
            next: 0,
            waiting: VecDeque::new(),
        })
    }

    /// Returns the recorded file that the frames are read from.
    pub const fn file(&self) -> &RecordedFile<S> {
        &self.file
    }

    /// Looks for fragments that were written since the file was opened. Returns their number.
    ///
    /// # Errors
    /// [`ReadError::Io`] if the bytes cannot be read.
    pub fn refresh(&mut self) -> Result<usize, ReadError> {
        self.file.refresh()
    }

    /// Returns the tracks that [`Frame::track`] counts, as far as they are known.
    pub fn tracks(&self) -> impl Iterator<Item = &Track> {
        self.tracks.iter().map(|it| it.form.track())
    }

    /// Returns the position of the fragment that the next frame is of.
    pub fn fragment(&self) -> usize {
        match self.waiting.is_empty() {
            true => self.next,
            false => self.next.saturating_sub(1),
        }
    }

    /// Continues with the first frame of the fragment at `position`.
    pub fn seek(&mut self, position: usize) {
        self.next = position;
        self.waiting.clear();
    }

    /// Returns the next frame, with times since the origin of the run; `None` behind the last whole
    /// fragment. More frames may follow after a [`refresh`](Self::refresh).
    ///
    /// # Errors
    /// [`ReadError`] if a fragment or sample cannot be read, or is damaged.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, ReadError> {
        while self.waiting.is_empty() {
            let Some(entry) = self.file.fragments().get(self.next).copied() else {
                return Ok(None);
            };
            let fragment = self.file.fragment(&entry)?;
            self.next += 1;
            for recorded in &fragment.tracks {
                let number = recorded.track.position + 1;
                let mut tracks = TrackIndex::enumerate(&self.tracks);
                let found = tracks.find(|(_, it)| it.form.number() as usize == number);
                let Some((track, of)) = found else {
                    continue;
                };
                let rate = of.timescale;
                self.waiting
                    .extend(recorded.samples().map(|placed| WaitingSample {
                        track,
                        decode_time: time(placed.decode_ticks, rate),
                        placed,
                    }));
            }
            let waiting = self.waiting.make_contiguous();
            waiting.sort_by_key(|it| (it.decode_time, it.track));
        }
        self.waiting
            .pop_front()
            .map(|it| self.read(&it))
            .transpose()
    }

    fn read(&mut self, waiting: &WaitingSample) -> Result<Frame, ReadError> {
        let RecordedSample { offset, sample, .. } = waiting.placed;
        if sample.size > SAMPLE_BYTES_MAX {
            let reason = "a sample is longer than any frame is";
            return Err(ReadError::Damaged { offset, reason });
        }
        let bytes = self.file.read(offset, sample.size as usize)?;
        let track = &mut self.tracks[waiting.track.get()];
        let data = track.form.frame_data(bytes, sample.sync)?;
        let rate = track.timescale;
        let duration = time(sample.duration.into(), rate);
        Ok(Frame {
            track: waiting.track,
            time: time(waiting.placed.presentation_ticks(), rate),
            decode_time: waiting.decode_time,
            duration: duration.saturating_since(MediaTime::ZERO),
            keyframe: sample.sync,
            after_loss: false,
            data,
        })
    }
}

fn time(ticks: u64, rate: u32) -> MediaTime {
    MediaTime::from_ticks(ticks.cast_signed(), rate)
}
