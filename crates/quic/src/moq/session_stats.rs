//! Statistics of a session of either end.

use std::time::Instant;

use moq_net::stats;

use super::control_datagrams::{Report, RoundTrips};
use super::transport::Link;
use crate::CongestionStats;

/// Statistics of a session.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SessionStats {
    /// State of congestion control.
    pub congestion: CongestionStats,
    /// Round trips of the application.
    pub round_trips: RoundTrips,
    /// The peer's last report about its sending, and when it came.
    pub peer_report: Option<(Report, Instant)>,
    /// Bytes of frames that were handed to QUIC.
    pub sent: u64,
    /// Number of tracks that the peer has subscribed to.
    pub subscriptions: u64,
    /// Number of tracks that the peer is subscribed to.
    pub open_subscriptions: u64,
    /// Bytes of frames that were received.
    pub received: u64,
    /// Number of own groups that were dropped because they were late.
    pub late_groups: u64,
    /// Bytes of dropped groups that were never sent.
    pub unsent: u64,
    /// Bytes of frames that wait to be sent, and of packets that wait to be acknowledged.
    /// QUIC's own buffer between the two, at most about two congestion windows, is not
    /// included.
    pub backlog: u64,
}

/// Returns the statistics of the session on `link`.
pub(super) fn session_stats(link: &Link, stats: &stats::Registry) -> SessionStats {
    let congestion = link.monitor().get();
    let (mut sent, mut received) = (stats::Traffic::default(), stats::Traffic::default());
    for (_, role, traffic) in stats.snapshot().traffic() {
        match role {
            stats::Role::Publisher => sent.add(traffic),
            stats::Role::Subscriber => received.add(traffic),
        }
    }
    let waiting = link.queue.waiting(sent.bytes + sent.stale.bytes);
    SessionStats {
        congestion,
        round_trips: link.control.round_trips(Instant::now()),
        peer_report: link.control.report(),
        sent: sent.bytes,
        subscriptions: sent.subscriptions_started,
        open_subscriptions: sent.active_subscriptions(),
        received: received.bytes,
        late_groups: sent.stale.groups,
        backlog: congestion.in_flight + waiting,
        unsent: sent.stale.bytes,
    }
}
