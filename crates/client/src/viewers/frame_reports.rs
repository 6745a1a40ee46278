//! Reports of frames, as the player page posts them: each frame once, about once a second.
//!
//! ```text
//! signalling thread: GET …/clock ─► ServerClock ─┐
//! viewers' thread:   last packet of a frame ─► FrameReports ─ FrameReport ─► signalling thread: POST …/report
//!                                                   ▲─────── seconds until the next report ──────┘
//! ```

use std::iter;
use std::time::{Duration, Instant};

use glassline_trust::Trust;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::whep;

/// Most frames that wait for a report; servers take no more at once.
const FRAMES_MAX: usize = 1000;

/// Time between reports until the server names another one.
const INTERVAL: Duration = Duration::from_secs(1);

/// Longest wait for the server's clock, and for the answer to a report.
const PATIENCE: Duration = Duration::from_secs(10);

/// The clock of a server, as seen from a viewer whose clock begins at `epoch`.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    epoch: Instant,
    /// Server's clock minus the viewer's, in ns.
    offset_ns: f64,
    /// Half the round trip of the exchange, in ns.
    error_ns: f64,
}

/// Times of the server in an exchange (RFC 5905 §8), in ns.
#[derive(Deserialize)]
struct ClockTimes {
    received_ns: i64,
    sent_ns: i64,
}

impl ServerClock {
    /// Asks for the clock of the server that has the session at `location`.
    ///
    /// # Errors
    /// The text names the URL, and why it gave no clock.
    pub(super) fn ask(location: &Url, token: Option<&str>, trust: Trust) -> Result<Self, String> {
        let url = below(location, "clock");
        let epoch = Instant::now();
        let answer = whep::get(&url, token, trust, PATIENCE).map_err(|error| error.to_string())?;
        let round_trip_ns = epoch.elapsed().as_nanos() as f64;
        let times: ClockTimes = serde_json::from_str(&answer.text)
            .map_err(|error| format!("{url} answers with no clock: {error}"))?;
        let middle_ns = (times.received_ns as f64 + times.sent_ns as f64) / 2.0;
        Ok(Self {
            epoch,
            offset_ns: middle_ns - round_trip_ns / 2.0,
            error_ns: round_trip_ns / 2.0,
        })
    }

    /// Time of `at` on the viewer's clock, in µs.
    fn micros(&self, at: Instant) -> i64 {
        let since = at.saturating_duration_since(self.epoch).as_micros();
        i64::try_from(since).unwrap_or(i64::MAX)
    }
}

/// Frames of one viewer that no report has named yet.
#[derive(Debug)]
pub(super) struct FrameReports {
    /// URL that takes the reports.
    url: Url,
    clock: ServerClock,
    frames: Vec<Frame>,
    /// When the next report is due; `None` while one is on its way.
    due: Option<Instant>,
}

/// A frame that was received. A viewer that does not decode presents a frame when it is whole.
#[derive(Clone, Copy, Debug)]
struct Frame {
    rtp_timestamp: u32,
    /// Arrival of its last packet on the viewer's clock.
    received_us: i64,
}

/// Frames as player pages report them: each number is the difference to the one before in its column.
#[derive(Debug, Default, Serialize)]
struct Columns {
    rtp_timestamp: Vec<i64>,
    received_us: Vec<i64>,
    presented_us: Vec<i64>,
    decode_us: Vec<i64>,
    jitter_buffer_us: Vec<i64>,
}

impl Columns {
    fn of(frames: &[Frame]) -> Self {
        let steps = |of: fn(&Frame) -> i64| -> Vec<i64> {
            let before = iter::once(0).chain(frames.iter().map(of));
            frames
                .iter()
                .zip(before)
                .map(|(it, before)| of(it) - before)
                .collect()
        };
        let received_us = steps(|it| it.received_us);
        Self {
            rtp_timestamp: steps(|it| it.rtp_timestamp.into()),
            presented_us: received_us.clone(),
            received_us,
            decode_us: steps(|_| 0),
            jitter_buffer_us: steps(|_| 0),
        }
    }
}

/// Body of a report, as the API has it.
#[derive(Serialize)]
struct Body {
    offset_ns: f64,
    error_ns: f64,
    details: bool,
    frames: Columns,
}

/// The part of the server's answer that concerns the next report.
#[derive(Deserialize)]
struct Answer {
    /// Seconds until the next report.
    report_every_s: Option<f64>,
}

/// A report that is to be posted.
#[derive(Debug)]
pub(super) struct FrameReport {
    url: Url,
    body: String,
}

impl FrameReports {
    /// Starts the reports of the session at `location`, the first of them a second after `now`.
    pub(super) fn begin(location: &Url, clock: ServerClock, now: Instant) -> Self {
        Self {
            url: below(location, "report"),
            clock,
            frames: Vec::new(),
            due: Some(now + INTERVAL),
        }
    }

    /// Notes the frame of this timestamp, whose last packet arrived at `arrived`. A frame that finds
    /// no room is left out, as pages leave it out.
    pub(super) fn note(&mut self, rtp_timestamp: u32, arrived: Instant) {
        if self.frames.len() < FRAMES_MAX {
            self.frames.push(Frame {
                rtp_timestamp,
                received_us: self.clock.micros(arrived),
            });
        }
    }

    /// Returns when the next report is due, if none is on its way.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.due
    }

    /// Takes the report that is due at `now`, if one is.
    pub(super) fn take(&mut self, now: Instant) -> Option<FrameReport> {
        self.due.take_if(|due| *due <= now)?;
        let body = Body {
            offset_ns: self.clock.offset_ns,
            error_ns: self.clock.error_ns,
            details: false,
            frames: Columns::of(&self.frames),
        };
        let body = serde_json::to_string(&body).expect("numbers and names become JSON");
        self.frames.clear();
        Some(FrameReport {
            url: self.url.clone(),
            body,
        })
    }

    /// Notes that the server took the last report, and wants the next one after `interval`.
    pub(super) fn taken(&mut self, interval: Duration, now: Instant) {
        self.due = Some(now + interval);
    }
}

impl FrameReport {
    /// Posts the report; returns the time until the next one.
    ///
    /// # Errors
    /// The text names the URL, and the reason why the report was not taken.
    pub(super) fn post(&self, token: Option<&str>, trust: Trust) -> Result<Duration, String> {
        let answer = whep::post_json(&self.url, &self.body, token, trust, PATIENCE)
            .map_err(|error| error.to_string())?;
        let answer: Answer = serde_json::from_str(&answer.text)
            .map_err(|error| format!("{} answers without a figure: {error}", self.url))?;
        let wanted = answer.report_every_s.filter(|it| it.is_finite());
        let wanted = wanted.map(|it| Duration::from_secs_f64(it.clamp(1.0, 60.0)));
        Ok(wanted.unwrap_or(INTERVAL))
    }
}

/// URL of a resource of the session at `location`.
fn below(location: &Url, resource: &str) -> Url {
    let mut url = location.clone();
    let path = format!("{}/{resource}", url.path().trim_end_matches('/'));
    url.set_path(&path);
    url
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reports(now: Instant) -> FrameReports {
        let location = Url::parse("http://h/s/whep/1?token=x").expect("a URL");
        let clock = ServerClock {
            epoch: now,
            offset_ns: 5e9,
            error_ns: 1e5,
        };
        FrameReports::begin(&location, clock, now)
    }

    #[test]
    fn each_frame_is_reported_once_and_the_next_report_waits_for_the_answer() {
        let now = Instant::now();
        let mut reports = reports(now);
        reports.note(3000, now + Duration::from_millis(20));
        reports.note(1500, now + Duration::from_millis(37));
        assert!(reports.take(now).is_none(), "not due yet");
        let due = reports.deadline().expect("a second from now");
        let report = reports.take(due).expect("due");
        assert_eq!(report.url.as_str(), "http://h/s/whep/1/report?token=x");
        let body: serde_json::Value = serde_json::from_str(&report.body).expect("JSON");
        let column = |name: &str| body["frames"][name].to_string();
        assert_eq!(column("rtp_timestamp"), "[3000,-1500]");
        assert_eq!(column("presented_us"), "[20000,17000]");
        assert_eq!(body["offset_ns"], 5e9);
        assert!(
            reports.take(due + INTERVAL * 9).is_none(),
            "one is under way"
        );
        reports.taken(INTERVAL * 3, due);
        assert_eq!(reports.deadline(), Some(due + INTERVAL * 3));
        let next = reports.take(due + INTERVAL * 3).expect("due");
        assert!(next.body.contains(r#""rtp_timestamp":[]"#), "{}", next.body);
    }

    #[test]
    fn frames_that_nobody_takes_are_bounded() {
        let now = Instant::now();
        let mut reports = reports(now);
        for timestamp in 0..2 * FRAMES_MAX as u32 {
            reports.note(timestamp, now);
        }
        assert_eq!(reports.frames.len(), FRAMES_MAX);
    }
}
