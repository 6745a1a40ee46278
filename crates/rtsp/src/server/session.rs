use std::fmt::Write;
use std::time::{Duration, Instant};

use glassline_media::TrackIndex;

use super::{Access, SetUp, State};
use crate::range::{Npt, Range};
use crate::sdp::Description;

/// The session of a connection.
#[derive(Debug)]
pub(super) struct Session {
    /// Identifier of the session in the `Session` header.
    pub(super) id: String,
    pub(super) path: String,
    /// The stream's URL, below which the tracks' control URLs are.
    pub(super) base: String,
    pub(super) access: Access,
    pub(super) state: State,
    pub(super) tracks: Vec<SetUp>,
    pub(super) position: Option<Position>,
    /// Whether a range of calendar time is played.
    pub(super) is_past: bool,
}

/// Position of playing in normal play time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    at: Duration,
    /// When playing passed `at`; `None` while paused.
    since: Option<Instant>,
    scale: f64,
}

impl Position {
    /// Returns the position at the start of a granted range; `None` for live and calendar
    /// ranges.
    pub(super) fn of(range: Option<&Range>, since: Option<Instant>, scale: f64) -> Option<Self> {
        let Some(Range::Npt {
            start: Some(Npt::At(at)),
            ..
        }) = range
        else {
            return None;
        };
        let at = *at;
        Some(Self { at, since, scale })
    }

    /// Returns the position at `now`, paused.
    pub(super) fn paused(self, now: Instant) -> Self {
        Self {
            at: self.at(now),
            since: None,
            ..self
        }
    }

    fn at(self, now: Instant) -> Duration {
        let passed = self.since.map(|since| now.saturating_duration_since(since));
        let moved = passed.unwrap_or_default().as_secs_f64() * self.scale;
        let seconds = (self.at.as_secs_f64() + moved).max(0.0);
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }
}

impl Session {
    /// Returns the value of the parameter `position`, in the form of a range; `npt=now` for
    /// live streams.
    pub(super) fn position(&self, now: Instant) -> String {
        let mut text = "npt=".to_owned();
        let _ = match self.position {
            Some(position) => write!(text, "{:.3}", position.at(now).as_secs_f64()),
            None => write!(text, "now"),
        };
        text
    }
}

/// The stream that a client has announced.
#[derive(Debug)]
pub(super) struct Announced {
    pub(super) path: String,
    pub(super) query: Option<String>,
    pub(super) base: String,
    /// Control URL of each track, absolute, without user and trailing slash.
    controls: Vec<String>,
}

impl Announced {
    /// Creates an announcement. The control URLs of `description` must be absolute.
    pub(super) fn new(
        path: String,
        query: Option<String>,
        base: String,
        description: &Description,
    ) -> Self {
        let controls = description.tracks.iter().map(|media| {
            let control = media.control.as_deref().unwrap_or_default();
            without_user(control).to_owned()
        });
        Self {
            path,
            query,
            base,
            controls: controls.collect(),
        }
    }

    /// Returns the track whose control URL is `uri`. Of several tracks with one URL, the first
    /// that is not set up.
    pub(super) fn track(&self, uri: &str, set_up: &[SetUp]) -> Option<TrackIndex> {
        let uri = without_user(uri);
        let mut same = Vec::new();
        for (track, control) in TrackIndex::enumerate(&self.controls) {
            if control == uri {
                same.push(track);
            }
        }
        let is_set_up = |track: TrackIndex| set_up.iter().any(|other| other.track == track);
        let fresh = same.iter().copied().find(|&track| !is_set_up(track));
        fresh.or(same.first().copied())
    }

    /// Returns whether the announcement has a track of this index.
    pub(super) fn has(&self, track: TrackIndex) -> bool {
        track.get() < self.controls.len()
    }
}

/// Returns the part of a URL from the host on, without a trailing slash: the part that
/// spellings of one URL share.
fn without_user(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority_end = rest.find(['/', '?']).unwrap_or(rest.len());
    let host_at = rest[..authority_end].rfind('@').map_or(0, |at| at + 1);
    rest[host_at..].trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_one_url_share_the_part_behind_the_user() {
        for url in [
            "rtsp://host/cam/track1",
            "rtsp://host/cam/track1/",
            "rtsp://user:pass@host/cam/track1",
            "rtsp://us@er:pass@host/cam/track1//",
            "host/cam/track1",
        ] {
            assert_eq!(without_user(url), "host/cam/track1", "{url}");
        }
        assert_eq!(
            without_user("rtsp://host/a@b"),
            "host/a@b",
            "no user, but a path"
        );
        assert_eq!(without_user("rtsp://host?u=a@b"), "host?u=a@b");
        assert_eq!(without_user("rtsp://u@host"), "host");
    }
}
