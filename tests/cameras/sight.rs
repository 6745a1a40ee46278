//! What a viewer sees of the fake camera's film: which frames come, when, and whether they are whole.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::{MediaTime, annexb};

use super::media::{Frame, Media};
use super::row::{Film, Row, Video};

/// The frames that a viewer has seen, compared with those of the film.
pub(crate) struct Sight {
    film: Film,
    media: Arc<Media>,
    /// Index of the latest frame in the film.
    latest: Option<usize>,
    latest_time: Option<MediaTime>,
    first_at: Option<Instant>,
    latest_at: Option<Instant>,
    pub(crate) frames: usize,
    /// Units without any slice, such as parameter sets alone.
    empty: usize,
    /// Units that are no whole frame of the film.
    pub(crate) damaged: usize,
    /// Places where frames are missing, come twice or are out of order.
    pub(crate) breaks: usize,
    /// Frames whose time is not behind that of the one before.
    pub(crate) steps_back: usize,
    /// Longest time between two frames.
    pub(crate) gap: Duration,
    pub(crate) sounds: usize,
}

impl Sight {
    pub(crate) fn of(row: &Row, media: Arc<Media>) -> Sight {
        Sight {
            film: row.film,
            media,
            latest: None,
            latest_time: None,
            first_at: None,
            latest_at: None,
            frames: 0,
            empty: 0,
            damaged: 0,
            breaks: 0,
            steps_back: 0,
            gap: Duration::ZERO,
            sounds: 0,
        }
    }

    /// Time since the first frame; zero before it.
    pub(crate) fn seen_for(&self, now: Instant) -> Duration {
        let first = self.first_at.unwrap_or(now);
        now.saturating_duration_since(first)
    }

    /// Takes an access unit of video in Annex B form.
    pub(crate) fn take(&mut self, data: &[u8], time: MediaTime, at: Instant) {
        let video = self.media.video;
        let slices: Vec<&[u8]> = annexb::nals(data).filter(|it| video.is_slice(it)).collect();
        if slices.is_empty() {
            self.empty += 1;
            return;
        }
        let expected = self.latest.map(|it| (it + 1) % self.media.frames.len());
        let is_at = |index: usize| is_frame(&self.media.frames[index], &slices, video);
        let found = match expected.filter(|it| is_at(*it)) {
            Some(index) => Some(index),
            None => (0..self.media.frames.len()).find(|it| is_at(*it)),
        };
        let Some(found) = found else {
            self.damaged += 1;
            return;
        };
        self.breaks += usize::from(expected.is_some_and(|it| it != found));
        self.latest = Some(found);
        let goes_on = self.latest_time.is_none_or(|before| before < time);
        // B-frames are sent behind the frame that is shown after them.
        let is_free = self.film == Film::BFramesAtFirst;
        self.steps_back += usize::from(!goes_on && !is_free);
        self.latest_time = Some(time);
        self.note_gap(at);
        self.first_at.get_or_insert(at);
        self.latest_at = Some(at);
        self.frames += 1;
    }

    /// Takes the end of the observation into account.
    pub(crate) fn note_gap(&mut self, now: Instant) {
        if let Some(latest) = self.latest_at {
            self.gap = self.gap.max(now.saturating_duration_since(latest));
        }
    }

    /// Frames a second within `time`.
    pub(crate) fn rate(&self, time: Duration) -> f64 {
        self.frames as f64 / time.as_secs_f64().max(0.001)
    }

    pub(crate) fn wanted_rate(&self) -> f64 {
        f64::from(self.media.frames_per_second)
    }

    /// Checks that the whole film was seen from its beginning for `time`.
    pub(crate) fn whole_film(&self, time: Duration) -> Result<(), String> {
        let sent = (time.as_secs_f64() * self.wanted_rate()) as usize;
        // The latest frames may still be incomplete.
        let is_all = self.frames + 3 >= sent && self.damaged == 0 && self.breaks == 0;
        match is_all {
            true => Ok(()),
            false => Err(format!("{sent} frames were sent: {self}")),
        }
    }

    /// Returns what is wrong with the frames; `may_break` where the camera itself begins anew.
    pub(crate) fn fault(&self, may_break: bool) -> Option<String> {
        let is_right = self.empty + self.damaged == 0
            && self.steps_back == 0
            && (self.breaks == 0 || may_break);
        (!is_right).then(|| format!("the frames are not those of the film: {self}"))
    }
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Sight {
            frames,
            empty,
            damaged,
            breaks,
            steps_back,
            ..
        } = self;
        write!(
            f,
            "{frames} whole, {empty} empty, {damaged} damaged, {breaks} breaks, {steps_back} steps back"
        )
    }
}

/// Whether the slices are those of the frame.
fn is_frame(frame: &Frame, slices: &[&[u8]], video: Video) -> bool {
    let own = frame.nals.iter().filter(|it| video.is_slice(it));
    own.map(Vec::as_slice).eq(slices.iter().copied())
}
