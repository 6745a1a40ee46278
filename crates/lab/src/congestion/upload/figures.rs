//! Figures of a session, from the observations of both ends and of the network.

use std::time::{Duration, Instant};

use glassline_media::Bitrate;
use glassline_quic::CongestionStats;
use glassline_sim::SendOutcome;

use super::publisher::Published;
use super::receiver::Received;
use super::wire::StreamBytes;
use crate::congestion::session::{Measured, Spread};

/// The counts of the publisher's datagrams.
#[derive(Clone, Debug, Default)]
pub(crate) struct DatagramCounts {
    sent: u64,
    dropped: u64,
    policed: u64,
    lost: u64,
    /// When a policer first dropped one.
    policed_first: Option<Instant>,
    /// How long each that arrived had waited in the queue.
    queued_us: Vec<u32>,
}

impl DatagramCounts {
    /// Counts a datagram that was sent at `now`.
    pub(crate) fn count(&mut self, now: Instant, fate: SendOutcome) {
        self.sent += 1;
        match fate {
            SendOutcome::Arrives(_) => {}
            SendOutcome::Dropped => self.dropped += 1,
            SendOutcome::Lost => self.lost += 1,
            SendOutcome::Policed => {
                self.policed += 1;
                self.policed_first.get_or_insert(now);
            }
        }
    }

    /// Counts a datagram that arrived, and its time in the queue.
    pub(crate) fn arrived(&mut self, queued: Duration) {
        let micros = u32::try_from(queued.as_micros()).unwrap_or(u32::MAX);
        self.queued_us.push(micros);
    }
}

/// All observations of one upload.
pub(crate) struct Findings {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    /// The application's constant share of every ping's round trip.
    pub(crate) processing: Duration,
    pub(crate) published: Published,
    pub(crate) received: Received,
    pub(crate) stream_bytes: StreamBytes,
    pub(crate) round_trips_us: Vec<u32>,
    pub(crate) observed: CongestionStats,
    pub(crate) datagrams: DatagramCounts,
}

impl Findings {
    /// Computes the figures. The caller adds the competing flows' goodput and the digest.
    pub(crate) fn measured(self) -> Measured {
        let published = &self.published;
        let started = published.started.unwrap_or(self.end);
        let time = self.end.saturating_duration_since(started);
        let pings = published.answered.iter().chain(&published.unanswered);
        let app_rtts: Vec<f64> = pings.map(|it| millis(*it + self.processing)).collect();
        let bytes = self.stream_bytes;
        let totals = self.observed.totals;
        let vanished = self.datagrams.dropped + self.datagrams.policed + self.datagrams.lost;
        let since_start = |at: Instant| at.saturating_duration_since(self.start);
        Measured {
            setup_ms: published.started.map(|at| millis(since_start(at))),
            broken: published
                .broken
                .as_ref()
                .map(|(at, reason)| (since_start(*at).as_secs_f64(), reason.clone())),
            goodput_mbps: mbps(self.received.bytes, time),
            sent_mbps: mbps(published.written_bytes, time),
            bitrate_mbps: in_mbps(Some(published.target_mean)),
            // Without a connection no ping is answered: the round trip is at least the session's
            // duration.
            app_rtt_ms: mean(&app_rtts).unwrap_or_else(|| millis(since_start(self.end))),
            pings_answered: published.answered.len() as u64,
            pings_unanswered: published.unanswered.len() as u64,
            transport_rtt_ms: Spread::of_micros(self.round_trips_us),
            rtx_overhead: share(bytes.again, bytes.acked),
            spurious_overhead: share(bytes.spurious, bytes.acked),
            lost_overhead: share(totals.lost, totals.delivered),
            loss_ratio: share(vanished, self.datagrams.sent),
            queue_ms: Spread::of_micros(self.datagrams.queued_us),
            dropped_datagrams: self.datagrams.dropped,
            policed_datagrams: self.datagrams.policed,
            policed_after_s: published.policed.map(|at| {
                let first = self.datagrams.policed_first.unwrap_or(self.start);
                at.saturating_duration_since(first).as_secs_f64()
            }),
            unread_packets: bytes.unread_packets,
            dropped_groups: published.dropped_groups,
            dropped_bytes: published.dropped_bytes,
            backlog_bytes_max: published.backlog_bytes_max,
            ..Measured::default()
        }
    }
}

/// Rate in 10⁶ bit/s; 0 for a time of zero.
pub(crate) fn mbps(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() {
        return 0.0;
    }
    bytes as f64 * 8.0 / time.as_secs_f64() / 1e6
}

/// Rate in 10⁶ bit/s; 0 for `None`.
pub(crate) fn in_mbps(rate: Option<Bitrate>) -> f64 {
    rate.map_or(0.0, |rate| rate.bps() as f64 / 1e6)
}

pub(crate) fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
