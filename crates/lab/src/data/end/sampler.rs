//! Figures of an end over time.

use std::time::{Duration, Instant};

use glassline_sctp::channel::Channels;
use glassline_webrtc::Session;

use super::flows::Flows;
use crate::data::control::Sample;

/// Counts since a test began.
pub(super) struct Sampler {
    cpu_began: Duration,
    /// Time at which the next sample is due.
    pub(super) next: Instant,
    received_messages: u64,
    received_bytes: u64,
    /// The session's figures when the test began.
    base: Sample,
}

impl Sampler {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            cpu_began: Duration::ZERO,
            next: now,
            received_messages: 0,
            received_bytes: 0,
            base: Sample::default(),
        }
    }

    /// Starts counting now; the first sample is due after `interval`.
    pub(super) fn start(&mut self, session: &Session, now: Instant, interval: Duration) {
        *self = Self {
            cpu_began: glassline_net::thread_cpu(),
            base: figures(session),
            ..Self::new(now + interval)
        };
    }

    /// Counts a received message of `bytes` bytes.
    pub(super) const fn count(&mut self, bytes: usize) {
        self.received_messages += 1;
        self.received_bytes += bytes as u64;
    }

    /// Takes a sample at `since_start` after the test's begin.
    pub(super) fn sample(&self, session: &Session, flows: &Flows, since_start: Duration) -> Sample {
        let (cpu, figures) = (glassline_net::thread_cpu(), figures(session));
        Sample {
            at_ms: since_start.as_secs_f64() * 1e3,
            sent_bytes: figures.sent_bytes - self.base.sent_bytes,
            retransmitted_bytes: figures.retransmitted_bytes - self.base.retransmitted_bytes,
            lost_bytes: figures.lost_bytes - self.base.lost_bytes,
            timeouts: figures.timeouts - self.base.timeouts,
            received_messages: self.received_messages,
            received_bytes: self.received_bytes,
            refills: flows.refills,
            starved: flows.starved,
            cpu_s: Some(cpu.saturating_sub(self.cpu_began).as_secs_f64()),
            ..figures
        }
    }
}

/// Figures of `session` since it began.
fn figures(session: &Session) -> Sample {
    let report = session.channels().map(Channels::report);
    let report = report.unwrap_or_default();
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    Sample {
        sent_bytes: report.data_sent,
        rtt_ms: report.rtt.map(ms),
        cwnd_bytes: report.cwnd,
        in_flight_bytes: report.in_flight,
        pacing_mbps: report.pacing_rate.map(|rate| rate.bps() as f64 / 1e6),
        window_bytes: report.own_window_limit,
        peer_window_bytes: report.peer_rwnd,
        retransmitted_bytes: report.retransmitted,
        lost_bytes: report.lost,
        timeouts: report.timeouts,
        buffered_bytes: report.buffered,
        ..Sample::default()
    }
}
