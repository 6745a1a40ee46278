//! What viewers had received at a moment, and what came between two moments.
//!
//! RTP time advances by a whole frame at a time, so that a single look is wrong
//! by up to a frame: 33 ms of a window of 5 s are 0.7 %, more than the loss that
//! matters. A mark is therefore several looks within a few frames' time, of which
//! each viewer's most advanced one counts, with its own time.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use glassline_client::viewers::{Flow, Id, Mode, Progress, State};

use crate::floor::Shape;

/// Looks of a mark at the edge of a window, [`READING_INTERVAL`] apart: several
/// frames' time.
pub(super) const EDGE_READINGS: usize = 16;

/// Looks of a mark within a window.
pub(super) const SAMPLE_READINGS: usize = 4;

/// Between the looks of a mark; in no simple ratio to frames or sweeps.
pub(super) const READING_INTERVAL: Duration = Duration::from_millis(17);

/// All good viewers at one moment.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    /// Of the last look, to which all counts belong.
    pub(super) at: Instant,
    pub(super) viewers: BTreeMap<Id, Reading>,
}

/// One viewer at the last look, and its most advanced position.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) state: State,
    is_verifying: bool,
    video: Flow,
    audio: Flow,
    frames: u64,
    damaged: u64,
    nacked: u64,
    video_position: Position,
    audio_position: Position,
}

/// How far the media was, when.
#[derive(Clone, Copy, Debug)]
struct Position {
    at: Instant,
    media: Duration,
}

impl Position {
    /// Whether this one is further ahead, as if both had been looked at together.
    fn leads(self, other: Self) -> bool {
        let later = self.at.saturating_duration_since(other.at);
        let earlier = other.at.saturating_duration_since(self.at);
        self.media + earlier > other.media + later
    }
}

impl Mark {
    pub(super) const fn nobody(at: Instant) -> Self {
        Self {
            at,
            viewers: BTreeMap::new(),
        }
    }

    /// Takes a look at `at` into the mark; `viewers` are the good ones.
    pub(super) fn look(&mut self, at: Instant, viewers: impl Iterator<Item = Progress>) {
        self.at = at;
        for now in viewers {
            let position = |flow: &Flow| Position {
                at,
                media: flow.media_time,
            };
            let (mut video_position, mut audio_position) =
                (position(&now.video), position(&now.audio));
            if let Some(before) = self.viewers.get(&now.id) {
                for (position, before) in [
                    (&mut video_position, before.video_position),
                    (&mut audio_position, before.audio_position),
                ] {
                    if !position.leads(before) {
                        *position = before;
                    }
                }
            }
            let reading = Reading {
                state: now.state,
                is_verifying: now.mode == Mode::Verify,
                video: now.video,
                audio: now.audio,
                frames: now.frames,
                damaged: now.damaged,
                nacked: now.nacked,
                video_position,
                audio_position,
            };
            self.viewers.insert(now.id, reading);
        }
    }

    /// Viewers that have media.
    pub(super) fn playing(&self) -> usize {
        let viewers = self.viewers.values();
        viewers
            .filter(|viewer| viewer.state == State::Playing)
            .count()
    }

    /// Viewers that ended.
    pub(super) fn ended(&self) -> usize {
        let viewers = self.viewers.values();
        viewers
            .filter(|viewer| viewer.state == State::Ended)
            .count()
    }

    /// What came since `earlier`, to viewers that played by then.
    pub(super) fn since(&self, earlier: &Self) -> Account {
        let mut account = Account {
            connected: self.playing(),
            failed: self.ended(),
            seconds: self.at.saturating_duration_since(earlier.at).as_secs_f64(),
            ..Account::default()
        };
        for (id, now) in &self.viewers {
            if let Some(before) = earlier.viewers.get(id)
                && before.state == State::Playing
            {
                account.add(before, now);
            }
        }
        account
    }
}

/// What came to viewers between two marks.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    /// Viewers that have media at the end.
    pub(super) connected: usize,
    /// Viewers that ended until then.
    pub(super) failed: usize,
    /// Between the marks.
    pub(super) seconds: f64,
    /// Viewers that played at the beginning.
    pub(super) watched: usize,
    pub(super) expected: u64,
    pub(super) received: u64,
    pub(super) recovered: u64,
    pub(super) nacked: u64,
    pub(super) bytes: u64,
    pub(super) frames_verified: u64,
    pub(super) frames_damaged: u64,
    frames: u64,
    video: Flow,
    audio: Flow,
    ratio_sum: f64,
    slowest: Option<f64>,
}

impl Account {
    fn add(&mut self, before: &Reading, now: &Reading) {
        let video = grown(&now.video, &before.video);
        let audio = grown(&now.audio, &before.audio);
        let total = video.and(audio);
        self.watched += 1;
        self.expected += total.expected;
        self.received += total.received;
        self.recovered += total.recovered;
        self.nacked += now.nacked.saturating_sub(before.nacked);
        self.bytes += total.bytes;
        self.video = self.video.and(video);
        self.audio = self.audio.and(audio);
        let frames = now.frames.saturating_sub(before.frames);
        self.frames += frames;
        if now.is_verifying {
            self.frames_verified += frames;
            self.frames_damaged += now.damaged.saturating_sub(before.damaged);
        }
        let (from, to) = if now.video.received > 0 {
            (before.video_position, now.video_position)
        } else {
            (before.audio_position, now.audio_position)
        };
        let wall = to.at.saturating_duration_since(from.at).as_secs_f64();
        let advanced = to.media.saturating_sub(from.media).as_secs_f64();
        let kept = 1.0 - total.lost() as f64 / total.expected.max(1) as f64;
        let ratio = if wall > 0.0 {
            advanced / wall * kept
        } else {
            0.0
        };
        self.ratio_sum += ratio;
        self.slowest = Some(self.slowest.map_or(ratio, |slowest| slowest.min(ratio)));
    }

    /// Mean of the viewers; `None` if nobody was watched.
    pub(super) fn delivered_ratio(&self) -> Option<f64> {
        (self.watched > 0).then(|| self.ratio_sum / self.watched as f64)
    }

    pub(super) const fn slowest_ratio(&self) -> Option<f64> {
        self.slowest
    }

    /// `None` if nothing was expected.
    pub(super) fn loss_ratio(&self) -> Option<f64> {
        let lost = self.expected.saturating_sub(self.received + self.recovered);
        (self.expected > 0).then(|| lost as f64 / self.expected as f64)
    }

    pub(super) const fn packets(&self) -> u64 {
        self.received + self.recovered
    }

    pub(super) fn packets_per_second(&self) -> f64 {
        self.packets() as f64 / self.seconds.max(1e-9)
    }

    pub(super) fn mbps(&self) -> f64 {
        self.bytes as f64 * 8.0 / 1e6 / self.seconds.max(1e-9)
    }

    /// What one viewer got, for the floor.
    pub(super) fn shape(&self) -> Shape {
        let viewer_seconds = (self.watched as f64 * self.seconds).max(1e-9);
        let packets = |flow: &Flow| flow.received + flow.recovered;
        let rate = |count: u64| count as f64 / viewer_seconds;
        let size = |flow: &Flow| flow.bytes as f64 / packets(flow).max(1) as f64;
        Shape {
            frames_per_second: rate(self.frames),
            video_packets_per_second: rate(packets(&self.video)),
            video_datagram_bytes: size(&self.video),
            audio_packets_per_second: rate(packets(&self.audio)),
            audio_datagram_bytes: size(&self.audio),
        }
    }
}

/// What `now` has more than `before`; media time is not used.
fn grown(now: &Flow, before: &Flow) -> Flow {
    Flow {
        expected: now.expected.saturating_sub(before.expected),
        received: now.received.saturating_sub(before.received),
        recovered: now.recovered.saturating_sub(before.recovered),
        bytes: now.bytes.saturating_sub(before.bytes),
        media_time: Duration::ZERO,
    }
}
