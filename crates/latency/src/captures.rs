//! When the frames of a publisher were captured, for publishers that tell how their clock relates to
//! the server's.
//!
//! ```text
//! page: report ─► PublisherClock ─┐
//! packets: capture times ─────────┴► CaptureLog: delay of each frame ─► reports of viewers
//! ```
//!
//! Nothing is written before the publisher's first report, and some seconds after its last one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_media::{NtpTime, Stage};
use parking_lot::Mutex;

/// Most frames that are kept: ten seconds at 60 frames a second.
const FRAMES_MAX: usize = 600;

/// Time after which a publisher's report no longer holds. Pages report once a second.
const REPORT_HOLDS: Duration = Duration::from_secs(5);

/// Longest plausible delay from capture to arrival, in ms; a larger value means that the times are
/// not those of captures.
const DELAY_MAX_MS: f64 = 60_000.0;

/// Seconds from the epoch of NTP to that of Unix (RFC 5905 §6).
const UNIX_EPOCH_NTP_S: f64 = 2_208_988_800.0;

/// The report of a publisher about its clock and its encoder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PublisherClock {
    /// The instant at which the server's clock is zero.
    pub epoch: Instant,
    /// The server's clock minus the publisher's calendar clock, by which it states capture times,
    /// in ms.
    pub offset_ms: f64,
    /// Uncertainty of `offset_ms` in ms.
    pub error_ms: f64,
    /// Mean time that a frame spends in the encoder, in ms.
    pub encode_ms: f64,
    /// Mean time from the encoder to the server, in ms: the publisher's pacer and half a round trip.
    pub uplink_ms: f64,
    /// If the frames have the server's time drawn into them: how long before its capture a frame may
    /// have been drawn, in ms.
    pub drawn_ms: Option<f64>,
}

/// The delays of one frame before the server has its first packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CapturedFrame {
    /// Arrival of the frame's first packet, which identifies the frame.
    pub origin: Instant,
    /// Delay of each stage in ms; their sum is measured, and divided by means.
    pub stages_ms: [(Stage, f64); 3],
    /// Uncertainty of the sum in ms.
    pub error_ms: f64,
}

/// The frames of a publisher with their capture times, shared between the thread that receives them
/// and those that answer reports.
#[derive(Debug, Default)]
pub struct CaptureLog {
    /// Whether the publisher reports, so that others need not take the lock.
    is_told: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    told: Option<(Instant, PublisherClock)>,
    frames: VecDeque<CapturedFrame>,
}

impl CaptureLog {
    /// Takes a report of the publisher.
    pub fn tell(&self, clock: PublisherClock, now: Instant) {
        self.inner.lock().told = Some((now, clock));
        self.is_told.store(true, Ordering::Relaxed);
    }

    /// Returns whether the publisher reports.
    pub fn is_told(&self) -> bool {
        self.is_told.load(Ordering::Relaxed)
    }

    /// Returns what the publisher reported, if that still holds.
    pub fn clock(&self) -> Option<PublisherClock> {
        if !self.is_told() {
            return None;
        }
        self.inner.lock().told.map(|(_, clock)| clock)
    }

    /// Forgets the publisher's report if none came for some seconds.
    pub fn expire(&self, now: Instant) {
        if !self.is_told() {
            return;
        }
        let mut inner = self.inner.lock();
        let old = |(at, _): (Instant, _)| now.saturating_duration_since(at) > REPORT_HOLDS;
        if inner.told.is_none_or(old) {
            *inner = Inner::default();
            self.is_told.store(false, Ordering::Relaxed);
        }
    }

    /// Notes that a frame that was captured at `captured` arrived at `origin`. Returns its delays, if
    /// they are plausible.
    pub fn note(&self, captured: NtpTime, origin: Instant) -> Option<CapturedFrame> {
        let mut inner = self.inner.lock();
        let (_, told) = inner.told?;
        let arrived_ms = origin.saturating_duration_since(told.epoch).as_secs_f64() * 1e3;
        let delay_ms = arrived_ms - (unix_ms(captured) + told.offset_ms);
        // A clock that is known to within an error lets a short delay seem negative.
        if !(-told.error_ms..=DELAY_MAX_MS).contains(&delay_ms) {
            return None;
        }
        let frame = CapturedFrame {
            origin,
            stages_ms: told.divide(delay_ms),
            error_ms: told.error_ms,
        };
        if inner.frames.len() == FRAMES_MAX {
            inner.frames.pop_front();
        }
        inner.frames.push_back(frame);
        Some(frame)
    }

    /// Returns the frame whose first packet arrived at `origin`, if its capture time is known.
    pub fn find(&self, origin: Instant) -> Option<CapturedFrame> {
        if !self.is_told() {
            return None;
        }
        let inner = self.inner.lock();
        let mut frames = inner.frames.iter().rev();
        frames.find(|frame| frame.origin == origin).copied()
    }
}

impl PublisherClock {
    /// Divides the time from capture to arrival between the stages. What neither encoder nor uplink
    /// explain passed before the encoder.
    fn divide(&self, delay_ms: f64) -> [(Stage, f64); 3] {
        let whole = delay_ms.max(0.0);
        let encode = self.encode_ms.clamp(0.0, whole);
        let uplink = self.uplink_ms.clamp(0.0, whole - encode);
        [
            (Stage::Capture, delay_ms - encode - uplink),
            (Stage::Encode, encode),
            (Stage::Uplink, uplink),
        ]
    }
}

/// Returns an NTP time in ms since 1970.
// A quarter of a microsecond is lost.
fn unix_ms(time: NtpTime) -> f64 {
    let (seconds, fraction) = ((time.0 >> 32) as f64, (time.0 & 0xffff_ffff) as f64);
    (seconds - UNIX_EPOCH_NTP_S) * 1e3 + fraction * 1e3 / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIX_MS: u64 = 1_763_000_000_000;

    fn told(epoch: Instant) -> PublisherClock {
        PublisherClock {
            epoch,
            // The publisher's calendar says UNIX_MS when the server's clock says 0.
            offset_ms: -1_763_000_000_000.0,
            error_ms: 2.0,
            encode_ms: 8.0,
            uplink_ms: 3.0,
            drawn_ms: None,
        }
    }

    fn captured(ms: u64) -> NtpTime {
        NtpTime::from_unix(Duration::from_millis(UNIX_MS + ms))
    }

    #[test]
    fn the_delay_of_a_frame_is_measured_and_divided() {
        let (start, log) = (Instant::now(), CaptureLog::default());
        let at = |ms| start + Duration::from_millis(ms);
        assert_eq!(log.note(captured(100), at(130)), None, "no report");
        log.tell(told(start), start);
        let frame = log.note(captured(100), at(130)).expect("known");
        let delays = frame.stages_ms.map(|(_, ms)| ms);
        let sum: f64 = delays.iter().sum();
        assert!((sum - 30.0).abs() < 1e-3, "{sum}");
        assert!((delays[0] - 19.0).abs() < 1e-3 && (delays[1] - 8.0).abs() < 1e-9);
        assert_eq!(log.find(at(130)), Some(frame));
        assert_eq!(log.find(at(131)), None, "another frame");
        // Shorter than the means: nothing is left for the time before the encoder.
        let short = log.note(captured(200), at(205)).expect("known");
        let short = short.stages_ms.map(|(_, ms)| ms);
        assert!(short[0].abs() < 1e-3 && (short[1] - 5.0).abs() < 1e-3 && short[2].abs() < 1e-3);
        // Within the error of the clocks a frame may seem to arrive before its capture.
        let early = log.note(captured(301), at(300)).expect("known");
        assert!((early.stages_ms[0].1 + 1.0).abs() < 1e-3);
        assert_eq!(log.note(captured(310), at(300)), None, "not a capture time");
        assert_eq!(
            log.note(captured(0), at(70_000)),
            None,
            "not a capture time"
        );
    }

    #[test]
    fn reports_hold_for_some_seconds_and_the_log_is_bounded() {
        let (start, log) = (Instant::now(), CaptureLog::default());
        log.tell(told(start), start);
        for frame in 0..2 * FRAMES_MAX as u64 {
            let origin = start + Duration::from_millis(frame);
            assert!(log.note(captured(frame), origin).is_some());
        }
        assert_eq!(log.inner.lock().frames.len(), FRAMES_MAX);
        log.expire(start + Duration::from_secs(4));
        assert_eq!(log.clock(), Some(told(start)));
        log.expire(start + Duration::from_secs(6));
        assert!(!log.is_told() && log.clock().is_none());
        assert!(log.inner.lock().frames.is_empty());
    }
}
