//! Joins a page's report with the server's stamps.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use glassline_media::Stage;
use glassline_runtime::Clock;
use serde::Deserialize;

use super::account::{FrameSample, Joined};
use super::frame_columns;
use super::frame_stamps::FrameStamps;
use crate::CaptureLog;
use crate::FrameCode;

/// Most frames of one report: several seconds at 120 frames a second.
pub(super) const FRAMES_MAX: usize = 1000;

/// Interval of a session's reports, a little less than that of pages, whose timers vary.
const INTERVAL: Duration = Duration::from_millis(900);

/// Most reports that come together.
const BURST: u32 = 8;

/// Furthest that a frame code may lie ahead of the present, in ms, to belong to the present loop of
/// the clip; a code further ahead belongs to the loop before.
const AHEAD_MAX_MS: f64 = 500.0;

/// The measurements of a page since its last report. Times are on the page's own clock
/// (`performance.now()`), in ms.
#[derive(Clone, Debug, Deserialize)]
pub struct Report {
    /// Server clock minus page clock, in nanoseconds.
    pub offset_ns: f64,
    /// Uncertainty of `offset_ns` in ns: half the shortest round trip.
    pub error_ns: f64,
    /// All frames that were presented: a list of objects, or columns of numbers.
    #[serde(deserialize_with = "frame_columns::read")]
    pub frames: Vec<FrameReport>,
    /// Frames whose own measurements could not be joined in the page.
    #[serde(default)]
    pub unmatched: u64,
    /// Frames that were dropped before they were presented.
    #[serde(default)]
    pub lost: u64,
    /// Whether the answer lists the latest frames, which is most of its length.
    #[serde(default = "yes")]
    pub details: bool,
}

const fn yes() -> bool {
    true
}

/// The measurements of a page for one frame.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct FrameReport {
    /// RTP timestamp of the frame.
    pub rtp_timestamp: u32,
    /// Time at which the frame's last packet arrived.
    pub received_ms: Option<f64>,
    /// Time at which the frame was presented.
    pub presented_ms: f64,
    /// Time that the frame spent in the decoder, in ms.
    pub decode_ms: Option<f64>,
    /// Time that the frame spent in the jitter buffer, in ms.
    pub jitter_buffer_ms: Option<f64>,
    /// The number that is drawn into the frame, if it could be read.
    pub code: Option<u32>,
}

/// How many more reports of a session are taken: one a second, and a few that were held back on the
/// way.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReportAllowance {
    /// Instant at which the allowance is whole again.
    full_at: Option<Instant>,
}

impl ReportAllowance {
    /// Takes one report from the allowance. Returns false if there is none left.
    pub fn take(&mut self, now: Instant) -> bool {
        let full_at = self.full_at.map_or(now, |at| at.max(now)) + INTERVAL;
        let is_allowed = full_at.saturating_duration_since(now) <= INTERVAL * BURST;
        if is_allowed {
            self.full_at = Some(full_at);
        }
        is_allowed
    }

    /// Returns whether a report was ever taken.
    pub const fn has_been_taken(&self) -> bool {
        self.full_at.is_some()
    }
}

/// The reason why a report was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// The report has too many frames.
    #[error("`frames` has {count} entries, at most {FRAMES_MAX} are allowed")]
    TooManyFrames {
        /// Number of frames in the report.
        count: usize,
    },
    /// A number of the report is infinite or not a number.
    #[error("`{field}` is not a finite number")]
    NotFinite {
        /// Name of the field.
        field: &'static str,
    },
}

impl Report {
    /// Reads the body of a request.
    ///
    /// # Errors
    /// Returns the error of the first place that is wrong.
    pub fn read(body: &[u8]) -> Result<Self, serde_json::Error> {
        // In a text that is known to be UTF-8, names of fields need not be looked at for it.
        match std::str::from_utf8(body) {
            Ok(text) => serde_json::from_str(text),
            Err(_) => serde_json::from_slice(body),
        }
    }

    /// Checks limits and numbers.
    ///
    /// # Errors
    /// Returns [`ReportError`], which names the field.
    pub fn check(&self) -> Result<(), ReportError> {
        if self.frames.len() > FRAMES_MAX {
            return Err(ReportError::TooManyFrames {
                count: self.frames.len(),
            });
        }
        let finite = |value: f64, field| {
            if value.is_finite() {
                Ok(())
            } else {
                Err(ReportError::NotFinite { field })
            }
        };
        finite(self.offset_ns, "offset_ns")?;
        finite(self.error_ns, "error_ns")?;
        for frame in &self.frames {
            finite(frame.presented_ms, "presented_ms")?;
            finite(frame.received_ms.unwrap_or(0.0), "received_ms")?;
            finite(frame.decode_ms.unwrap_or(0.0), "decode_ms")?;
            finite(frame.jitter_buffer_ms.unwrap_or(0.0), "jitter_buffer_ms")?;
        }
        Ok(())
    }

    /// Drops all but the first measurement of each frame, so that the shard is asked once.
    pub fn without_doubles(mut self) -> Self {
        // Most pages tell of their frames in order.
        let times = self.frames.iter().map(|frame| frame.rtp_timestamp);
        if times.is_sorted_by(|before, after| before < after) {
            return self;
        }
        let mut seen = HashSet::with_capacity(self.frames.len());
        self.frames.retain(|frame| seen.insert(frame.rtp_timestamp));
        self
    }

    /// Returns the RTP timestamps of all frames, to ask the shard for its stamps.
    pub fn timestamps(&self) -> Vec<u32> {
        self.frames
            .iter()
            .map(|frame| frame.rtp_timestamp)
            .collect()
    }
}

/// Knowledge of when the frames of a stream were made, beyond the server's own stamps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origins<'a> {
    /// The code that is drawn into each frame.
    pub code: Option<&'a FrameCode>,
    /// Capture times that a publisher has sent.
    pub captures: Option<&'a CaptureLog>,
}

impl<'a> Origins<'a> {
    /// Returns the origins of frames into which `code` is drawn.
    pub const fn drawn(code: &'a FrameCode) -> Self {
        Self {
            code: Some(code),
            captures: None,
        }
    }
}

/// Joins `report` with the server's `stamps` of the same frames, in the same order.
///
/// Each joined frame's stages add up to `presented − origin` exactly, or to `presented − captured` for
/// a frame whose capture time is in `origins`. The glass-to-glass delay is measured independently of
/// them, from the code drawn into the frame.
pub fn join(
    report: &Report,
    stamps: &[Option<FrameStamps>],
    origins: Origins<'_>,
    clock: &Clock,
) -> Joined {
    let mut joined = Joined {
        frames: Vec::with_capacity(report.frames.len()),
        unmatched: report.unmatched,
        lost: report.lost,
    };
    for (place, frame) in report.frames.iter().enumerate() {
        let stamps = stamps.get(place).and_then(Option::as_ref);
        match stamps.and_then(|stamps| sample(report, frame, stamps, origins, clock)) {
            Some(sample) => joined.frames.push(sample),
            None => joined.unmatched = joined.unmatched.saturating_add(1),
        }
    }
    joined
}

fn sample(
    report: &Report,
    frame: &FrameReport,
    stamps: &FrameStamps,
    Origins { code, captures }: Origins<'_>,
    clock: &Clock,
) -> Option<FrameSample> {
    let on_server_ms = |page_ms: f64| page_ms + report.offset_ns / 1e6;
    let received_ms = on_server_ms(frame.received_ms?);
    let presented_ms = on_server_ms(frame.presented_ms);
    let sent_ms = nanos_to_ms(clock.nanos(stamps.sent));

    let mut stages_ms = [0.0; Stage::ALL.len()];
    for (stage, delay) in stamps.stages() {
        stages_ms[stage.index()] = delay.as_secs_f64() * 1e3;
    }
    let captured = captures.and_then(|captures| captures.find(stamps.origin));
    for (stage, ms) in captured.iter().flat_map(|frame| frame.stages_ms) {
        stages_ms[stage.index()] = ms;
    }
    stages_ms[Stage::Network.index()] = received_ms - sent_ms;
    // The time between arrival and presentation is divided without a remainder: the decoder's own
    // figure, then the jitter buffer's, and the rest is rendering.
    let within = (presented_ms - received_ms).max(0.0);
    let decode = frame.decode_ms.unwrap_or(0.0).clamp(0.0, within);
    let buffered = frame
        .jitter_buffer_ms
        .unwrap_or(0.0)
        .clamp(0.0, within - decode);
    stages_ms[Stage::Decode.index()] = decode;
    stages_ms[Stage::JitterBuffer.index()] = buffered;
    stages_ms[Stage::Render.index()] = presented_ms - received_ms - decode - buffered;

    let number = frame.code.zip(code);
    // A page draws its time into a frame some time before the browser captures the frame.
    let drawn = captures.filter(|_| number.is_some());
    let drawn_ms = drawn.and_then(|it| it.clock()?.drawn_ms).unwrap_or(0.0);
    // Without its capture time, the stages of a publisher's frame begin later than its code.
    let is_whole = captures.is_none() || captured.is_some();
    Some(FrameSample {
        timestamp: frame.rtp_timestamp,
        is_captured: captured.is_some(),
        is_relayed: stamps.relay.is_some(),
        stages_ms,
        glass_ms: number
            .filter(|_| is_whole)
            .map(|(number, code)| glass_ms(number, code, presented_ms, clock)),
        error_ms: report.error_ns.max(0.0) / 1e6
            + captured.map_or(0.0, |frame| frame.error_ms)
            + stamps.relay.map_or(0.0, |it| it.error.as_secs_f64() * 1e3)
            + drawn_ms,
    })
}

/// Returns the time from the capture of the frame with code `number` until `presented_ms`.
fn glass_ms(number: u32, code: &FrameCode, presented_ms: f64, clock: &Clock) -> f64 {
    let fps = f64::from(code.fps);
    let loop_ms = f64::from(code.frames) * 1e3 / fps;
    let first_ms = nanos_to_ms(clock.nanos(code.epoch)) + f64::from(number) * 1e3 / fps;
    let since_ms = presented_ms - first_ms + AHEAD_MAX_MS;
    since_ms.rem_euclid(loop_ms) - AHEAD_MAX_MS
}

// Exact for 104 days of nanoseconds, within a microsecond for years.
fn nanos_to_ms(nanos: i64) -> f64 {
    nanos as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(frames: Vec<FrameReport>) -> Report {
        Report {
            offset_ns: 5e9,
            error_ns: 2e5,
            frames,
            unmatched: 0,
            lost: 0,
            details: true,
        }
    }

    fn frame(received: f64, presented: f64, code: Option<u32>) -> FrameReport {
        FrameReport {
            rtp_timestamp: 9000,
            received_ms: Some(received),
            presented_ms: presented,
            decode_ms: Some(2.0),
            jitter_buffer_ms: Some(12.0),
            code,
        }
    }

    #[test]
    fn stages_add_up_to_the_whole_and_agree_with_the_burnt_in_code() {
        let clock = Clock::start();
        let base = Instant::now() + Duration::from_secs(100);
        let ms = |ms: u64| base + Duration::from_millis(ms);
        let stamps = FrameStamps {
            timestamp: 9000,
            origin: ms(0),
            published: ms(1),
            relay: None,
            read_at: ms(2),
            paced: ms(4),
            sent: ms(5),
        };
        let code = FrameCode {
            fps: 30,
            frames: 300,
            epoch: base - Duration::from_secs(3),
        };
        let page = |at: Instant| nanos_to_ms(clock.nanos(at)) - 5e3;
        // Frame 90 of the clip was due at `base`; presented 40 ms later.
        let report = report(vec![
            frame(page(ms(9)), page(ms(40)), Some(90)),
            frame(0.0, 0.0, None),
        ]);
        let joined = join(
            &report,
            &[Some(stamps), None],
            Origins::drawn(&code),
            &clock,
        );
        assert_eq!((joined.frames.len(), joined.unmatched), (1, 1));
        let sample = &joined.frames[0];
        let sum: f64 = sample.stages_ms.iter().sum();
        assert!((sum - 40.0).abs() < 1e-6, "{sum}");
        assert!((sample.glass_ms.expect("has a code") - 40.0).abs() < 1e-6);
        assert!((sample.stages_ms[Stage::Network.index()] - 4.0).abs() < 1e-6);
        assert!((sample.stages_ms[Stage::Render.index()] - 17.0).abs() < 1e-6);
    }

    #[test]
    fn a_wrong_code_shows_as_a_difference_not_as_agreement() {
        let clock = Clock::start();
        let base = Instant::now() + Duration::from_secs(100);
        let code = FrameCode {
            fps: 30,
            frames: 300,
            epoch: base,
        };
        let presented = nanos_to_ms(clock.nanos(base)) + 10_000.0 * 3.0 + 1_050.0;
        assert!(
            (glass_ms(30, &code, presented, &clock) - 50.0).abs() < 1e-6,
            "three loops later"
        );
        assert!(
            (glass_ms(29, &code, presented, &clock) - 83.333).abs() < 0.01,
            "one frame off"
        );
    }

    #[test]
    fn a_session_reports_once_a_second_and_catches_up() {
        let mut now = Instant::now();
        let mut allowance = ReportAllowance::default();
        for second in 0..100 {
            now += Duration::from_secs(1);
            assert!(allowance.take(now), "{second}");
        }
        let burst = (0..100).filter(|_| allowance.take(now)).count();
        assert!((6..=8).contains(&burst), "{burst}");
        now += Duration::from_secs(2);
        assert_eq!((0..100).filter(|_| allowance.take(now)).count(), 2);
    }

    #[test]
    fn the_shard_is_asked_once_for_each_frame() {
        let report = report(vec![frame(1.0, 2.0, None); 1_000]).without_doubles();
        assert_eq!(report.timestamps(), [9_000]);
    }

    #[test]
    fn absurd_reports_are_refused_by_field() {
        let refused = report(vec![frame(f64::NAN, 1.0, None)]).check();
        assert_eq!(
            refused,
            Err(ReportError::NotFinite {
                field: "received_ms"
            })
        );
        let many = report(vec![frame(0.0, 0.0, None); FRAMES_MAX + 1]).check();
        assert_eq!(
            many,
            Err(ReportError::TooManyFrames {
                count: FRAMES_MAX + 1
            })
        );
    }
}
