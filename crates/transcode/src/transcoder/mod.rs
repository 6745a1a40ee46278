//! One track of audio into Opus.

use glassline_media::{Codec, MediaTime};
use thiserror::Error;

use crate::decode::{Decoder, Format};
use crate::encode::{OpusFrame, Settings};
use crate::output::Output;
use crate::source::AudioSource;

/// Frames between two changes of the decoder's or the encoder's format. A source that changes more
/// often is damaged, and every change costs the time of many frames.
const FRAMES_BETWEEN_CHANGES: u32 = 25;

/// Failures from which the source is in [`Trouble`]: each frame without audio adds two, each other
/// frame takes one away, so that this is reached when more than a third of the frames fail.
const FAILURES: u32 = 20;

/// Most failures that are remembered, so that a source that was mended is out of trouble soon.
const FAILURES_MAX: u32 = 40;

/// Frames over which the pace of the source is measured.
const PACE_FRAMES: u32 = 50;

/// Steps of the alignment within [`PACE_FRAMES`] from which the pace is compared with the rate.
const PACE_STEPS: u32 = 5;

/// Difference between pace and rate that no clock explains, as a share.
const PACE_TOLERANCE: f64 = 0.03;

/// The reason why a frame made no audio. The next frame may.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The decoder refused the frame.
    #[error("{codec} cannot be decoded: {reason}")]
    Undecodable {
        /// Codec of the source.
        codec: Codec,
        /// The decoder's reason.
        reason: String,
    },
    /// Sample rate or channels changed again shortly after they had changed.
    #[error("sample rate or channels of the {codec} audio change all the time")]
    Unsteady {
        /// Codec of the source.
        codec: Codec,
    },
    /// The resampler or the encoder refused.
    #[error("Opus cannot be made: {reason}")]
    Encoder {
        /// Reason of the resampler or of libopus.
        reason: String,
    },
}

/// A trouble of a source that goes on, for people who look after the source.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Trouble {
    /// More than a third of the frames make no audio; holds the reason of the latest one.
    #[error("no audio, or audio with gaps: {0}")]
    LittleAudio(FrameError),
    /// The timestamps do not advance as the samples do, so audio is cut or filled all the time.
    #[error(
        "the timestamps advance as for {measured} Hz, but the audio is described as {stated} Hz: \
         correct the sample rate at the source"
    )]
    Pace {
        /// Sample rate of the decoded audio, in Hz.
        stated: u32,
        /// Sample rate that the timestamps stand for, in Hz.
        measured: u32,
    },
}

/// Counts of a transcoder since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Coded frames that came in.
    pub frames_in: u64,
    /// Opus frames that went out.
    pub frames_out: u64,
    /// Coded frames that made no audio.
    pub undecodable: u64,
    /// Times that samples were inserted or left out to stay on the timeline.
    pub steps: u64,
    /// Times that the output began again behind a gap, the first time included.
    pub restarts: u64,
    /// Times that decoder or encoder were made anew, because the frames have another format than
    /// the description or than the frames before.
    pub changes: u64,
}

/// Transcodes one track of audio into Opus.
#[derive(Debug)]
pub struct AudioTranscoder {
    source: AudioSource,
    settings: Settings,
    decoder: Option<Decoder>,
    output: Option<Output>,
    samples: Vec<f32>,
    counts: Counts,
    /// Frames since the format changed last.
    steady: u32,
    /// Recent frames that made no audio, as [`FAILURES`] counts them.
    failures: u32,
    /// The reason why the latest of them made none.
    failure: Option<FrameError>,
    /// The trouble with the source's timestamps, if there is any.
    off_pace: Option<Trouble>,
    pace: Pace,
}

impl AudioTranscoder {
    /// Creates a transcoder of `source`. Decoder and encoder are made with the first frame.
    pub fn new(source: AudioSource, settings: Settings) -> Self {
        Self {
            source,
            settings,
            decoder: None,
            output: None,
            samples: Vec::new(),
            counts: Counts::default(),
            steady: FRAMES_BETWEEN_CHANGES,
            failures: 0,
            failure: None,
            off_pace: None,
            pace: Pace::default(),
        }
    }

    /// Takes one coded frame whose first sample is due at `time`, and appends the Opus frames that
    /// are full to `frames`.
    ///
    /// # Errors
    /// Returns why the frame made no audio. The transcoder goes on with the next frame.
    pub fn push(
        &mut self,
        frame: &[u8],
        time: MediaTime,
        frames: &mut Vec<OpusFrame>,
    ) -> Result<(), FrameError> {
        let before = frames.len();
        self.counts.frames_in += 1;
        self.steady = self.steady.saturating_add(1);
        let result = self.transcode(frame, time, frames);
        self.counts.frames_out += (frames.len() - before) as u64;
        match &result {
            Ok(()) => self.failures = self.failures.saturating_sub(1),
            Err(error) => {
                self.counts.undecodable += 1;
                self.failures = (self.failures + 2).min(FAILURES_MAX);
                self.failure = Some(error.clone());
            }
        }
        if self.failures == 0 {
            self.failure = None;
        }
        result
    }

    /// Returns what is wrong with the source at present.
    pub fn trouble(&self) -> Option<Trouble> {
        let failure = self.failure.as_ref().filter(|_| self.failures >= FAILURES);
        let failure = failure.map(|error| Trouble::LittleAudio(error.clone()));
        failure.or_else(|| self.off_pace.clone())
    }

    /// Returns the counts since the transcoder was created.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns sample rate in Hz and channels of the decoded audio; `None` before the first frame.
    pub fn decoded(&self) -> Option<(u32, usize)> {
        let format = self.output.as_ref().map(Output::format);
        format.map(|format| (format.rate, format.channels))
    }

    fn transcode(
        &mut self,
        frame: &[u8],
        time: MediaTime,
        frames: &mut Vec<OpusFrame>,
    ) -> Result<(), FrameError> {
        let mut samples = std::mem::take(&mut self.samples);
        let format = self.decode(frame, &mut samples);
        let result = format.and_then(|format| self.encode(format, &samples, time, frames));
        self.samples = samples;
        result
    }

    /// Decodes a frame, with a new decoder if the frame contradicts the description.
    fn decode(&mut self, frame: &[u8], samples: &mut Vec<f32>) -> Result<Format, FrameError> {
        let codec = self.source.codec;
        let contradicted = self.decoder.as_ref();
        if let Some(channels) = contradicted.and_then(|it| it.contradicted_channels(frame)) {
            self.begin_change()?;
            self.source.channels = channels;
            self.decoder = None;
        }
        if self.decoder.is_none() {
            let mut decoder = Decoder::new(&self.source);
            if let Ok(made) = &decoder
                && let Some(channels) = made.contradicted_channels(frame)
            {
                self.counts.changes += 1;
                self.source.channels = channels;
                decoder = Decoder::new(&self.source);
            }
            self.decoder = Some(decoder.map_err(|it| undecodable(codec, it.0))?);
        }
        let Some(decoder) = &mut self.decoder else {
            return Err(undecodable(codec, "no decoder".to_owned()));
        };
        let decoded = decoder.decode(frame, samples);
        decoded.map_err(|it| undecodable(codec, it.0))
    }

    fn encode(
        &mut self,
        format: Format,
        samples: &[f32],
        time: MediaTime,
        frames: &mut Vec<OpusFrame>,
    ) -> Result<(), FrameError> {
        let encoder = |reason| FrameError::Encoder { reason };
        let mut floor = None;
        if let Some(output) = &mut self.output
            && output.format() != format
        {
            output.flush(frames).map_err(encoder)?;
            floor = output.end();
            self.begin_change()?;
            self.output = None;
        }
        if self.output.is_none() {
            self.output = Some(Output::new(format, self.settings).map_err(encoder)?);
            self.pace = Pace::default();
        }
        let Some(output) = &mut self.output else {
            return Ok(());
        };
        let aligned = output.push(samples, time, floor, frames).map_err(encoder)?;
        self.counts.steps += u64::from(aligned.stepped);
        self.counts.restarts += u64::from(aligned.restarted);
        let count = samples.len() / format.channels;
        let window = self.pace.note(time, count, aligned.stepped);
        if let Some(window) = window {
            self.off_pace = window.trouble(format.rate);
        }
        Ok(())
    }

    /// Notes that decoder or output are about to be made anew.
    fn begin_change(&mut self) -> Result<(), FrameError> {
        if self.steady == 0 {
            // The decoder was made anew for this very frame.
            return Ok(());
        }
        if self.steady < FRAMES_BETWEEN_CHANGES {
            return Err(FrameError::Unsteady {
                codec: self.source.codec,
            });
        }
        self.steady = 0;
        self.counts.changes += 1;
        Ok(())
    }
}

fn undecodable(codec: Codec, reason: String) -> FrameError {
    FrameError::Undecodable { codec, reason }
}

/// The pace at which the timestamps of a source advance.
#[derive(Clone, Copy, Debug, Default)]
struct Pace {
    since: Option<MediaTime>,
    frames: u32,
    samples: usize,
    steps: u32,
}

impl Pace {
    /// Notes a frame of `count` samples at `time`. Returns the window that ended before the frame,
    /// if one did.
    fn note(&mut self, time: MediaTime, count: usize, stepped: bool) -> Option<PaceWindow> {
        let window = match self.since {
            Some(since) if self.frames >= PACE_FRAMES => Some(PaceWindow {
                seconds: time.saturating_since(since).as_secs_f64(),
                samples: self.samples,
                steps: self.steps,
            }),
            _ => None,
        };
        if window.is_some() || self.since.is_none() {
            *self = Self {
                since: Some(time),
                ..Self::default()
            };
        }
        self.frames += 1;
        self.samples += count;
        self.steps += u32::from(stepped);
        window
    }
}

/// The samples that came in a span of the source's timestamps.
#[derive(Clone, Copy, Debug)]
struct PaceWindow {
    seconds: f64,
    samples: usize,
    steps: u32,
}

impl PaceWindow {
    /// Returns the trouble of a source whose frames are described as `stated` Hz, if the timestamps
    /// stand for another rate.
    fn trouble(self, stated: u32) -> Option<Trouble> {
        let measured = self.samples as f64 / self.seconds;
        let is_off = (measured / f64::from(stated) - 1.0).abs() > PACE_TOLERANCE;
        (self.steps >= PACE_STEPS && is_off && measured.is_finite()).then_some(Trouble::Pace {
            stated,
            measured: measured.round() as u32,
        })
    }
}

#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod tests;
