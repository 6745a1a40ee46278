//! This project's congestion controllers in place of noq's own.

use std::any::Any;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::{Algorithm, Controller, Flow, Totals};
use glassline_media::Bitrate;
use noq_proto::RttEstimator;
use noq_proto::congestion::{self as noq, ControllerFactory, ControllerMetrics};
use parking_lot::Mutex;

/// Datagram size that is assumed before the first packet: the least of QUIC (RFC 9000 §14), in
/// bytes.
const LEAST_DATAGRAM: u64 = 1200;

type Start = dyn Fn(u64) -> Box<dyn Controller> + Send + Sync;

/// Congestion control for one QUIC connection.
///
/// Each connection needs a value of its own, because a [`CongestionMonitor`] shows the state of
/// one connection. A new path of the connection (RFC 9000 §9.4) starts a new controller and
/// continues the same totals.
#[derive(Clone, derive_more::Debug)]
#[debug("CongestionControl {{ monitor: {monitor:?}, .. }}")]
pub struct CongestionControl {
    start: Arc<Start>,
    monitor: CongestionMonitor,
}

impl CongestionControl {
    /// Uses `algorithm` with its usual settings.
    pub fn new(algorithm: Algorithm) -> Self {
        Self::with(move |mtu| algorithm.start(mtu))
    }

    /// Uses the controllers that `start` creates. The argument of `start` is the datagram size
    /// in bytes.
    pub fn with(start: impl Fn(u64) -> Box<dyn Controller> + Send + Sync + 'static) -> Self {
        Self {
            start: Arc::new(start),
            monitor: CongestionMonitor::default(),
        }
    }

    /// Returns a handle that shows the connection's state from other threads.
    pub fn monitor(&self) -> CongestionMonitor {
        self.monitor.clone()
    }
}

impl ControllerFactory for CongestionControl {
    fn build(self: Arc<Self>, _: Instant, mtu: u16) -> Box<dyn noq::Controller> {
        let mtu = u64::from(mtu).max(LEAST_DATAGRAM);
        let controller = (self.start)(mtu);
        let adapter = ControllerAdapter {
            initial_window: controller.window(),
            flow: Flow::new(controller),
            sent: VecDeque::new(),
            next: 0,
            acked: Vec::new(),
            acked_at: None,
            lost: Vec::new(),
            spurious: false,
            before: self.monitor.get(),
            monitor: self.monitor.clone(),
        };
        adapter.show(false);
        Box::new(adapter)
    }
}

/// A handle that shows the state of a connection's congestion control, from any thread.
#[derive(Clone, Debug, Default)]
pub struct CongestionMonitor(Arc<Mutex<CongestionStats>>);

impl CongestionMonitor {
    /// Returns the present state.
    pub fn get(&self) -> CongestionStats {
        *self.0.lock()
    }
}

/// State of a connection's congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CongestionStats {
    /// Bytes of QUIC packets so far.
    pub totals: Totals,
    /// Number of bytes in flight.
    pub in_flight: u64,
    /// Congestion window in bytes.
    pub window: u64,
    /// Rate at which packets are paced; `None` before a round trip was measured.
    pub pacing_rate: Option<Bitrate>,
    /// Estimated rate that the path can carry; `None` before a measurement.
    pub deliverable_rate: Option<Bitrate>,
    /// Whether the application has sent too little to fill the window. The path may then carry
    /// more than `deliverable_rate`.
    pub app_limited: bool,
    /// Round-trip time of the newest packet of the latest acknowledgement, including the peer's
    /// delay.
    pub rtt: Option<Duration>,
    /// Smoothed round-trip time; `None` before the first sample.
    pub smoothed_rtt: Option<Duration>,
    /// Least round-trip time of the last ten seconds.
    pub least_rtt: Option<Duration>,
    /// Number of acknowledgements that gave a round-trip time.
    pub rtts: u64,
    /// Sum of these round-trip times; divided by `rtts`, it is their mean.
    pub rtt_sum: Duration,
    /// Whether the controller is in slow start.
    pub starting: bool,
    /// Whether the controller believes that a policer drops packets above its rate.
    pub policed: bool,
}

/// A packet in flight, or one that is acknowledged or lost and waits behind packets that are
/// not.
#[derive(Clone, Copy, Debug)]
struct Sent {
    /// Packet number in its space. Packets of other spaces may have the same number during the
    /// handshake.
    packet: u64,
    at: Instant,
    open: bool,
}

/// A congestion controller of this project behind noq's interface.
///
/// noq identifies packets by numbers that three spaces share, and does not report when keys or
/// paths are dropped with packets in flight. So packets are numbered anew in the order of
/// sending, and what noq no longer counts as in flight is discarded, oldest first.
#[derive(Clone, Debug)]
struct ControllerAdapter {
    flow: Flow,
    initial_window: u64,
    /// Packets in the order of sending; the first has number `next - sent.len()`.
    sent: VecDeque<Sent>,
    next: u64,
    /// Packets of the acknowledgement that is being processed.
    acked: Vec<u64>,
    acked_at: Option<Instant>,
    /// Packets of the loss event that is being processed.
    lost: Vec<u64>,
    spurious: bool,
    /// Totals of the connection's earlier paths.
    before: CongestionStats,
    monitor: CongestionMonitor,
}

impl ControllerAdapter {
    fn number(&self, place: usize) -> u64 {
        self.next - self.sent.len() as u64 + place as u64
    }

    /// Marks the packet at `place` as acknowledged or lost. Returns its number the first time.
    fn settle(&mut self, place: usize) -> Option<u64> {
        let number = self.number(place);
        let sent = self.sent.get_mut(place)?;
        std::mem::take(&mut sent.open).then_some(number)
    }

    fn forget_settled(&mut self) {
        while self.sent.front().is_some_and(|sent| !sent.open) {
            self.sent.pop_front();
        }
    }

    /// Finds a packet by its send time. Several packets may leave at one instant; `packet`
    /// distinguishes them.
    fn find_by_time(&self, at: Instant, packet: u64) -> Option<usize> {
        let first = self.sent.partition_point(|sent| sent.at < at);
        let same_time = self.sent.range(first..).take_while(|sent| sent.at == at);
        let mut places = (first..).zip(same_time);
        let found = places.find(|(_, sent)| sent.open && sent.packet == packet);
        found.map(|(place, _)| place)
    }

    /// Finds a packet from the oldest on, because lost packets are among the oldest.
    fn find_oldest(&self, packet: u64) -> Option<usize> {
        let is_it = |sent: &Sent| sent.open && sent.packet == packet;
        self.sent.iter().position(is_it)
    }

    fn settle_spurious(&mut self, now: Instant) {
        if std::mem::take(&mut self.spurious) {
            self.flow.on_spurious_loss(now);
        }
    }

    fn flush_acked(&mut self) {
        if let Some(now) = self.acked_at.take() {
            let acked = std::mem::take(&mut self.acked);
            self.flow
                .on_acked(now, acked.iter().copied(), Duration::ZERO);
            self.acked = acked;
            self.acked.clear();
        }
    }

    /// Discards packets that are in flight here but not in noq.
    fn reconcile(&mut self, in_flight: u64) {
        while self.flow.in_flight() > in_flight {
            let Some(place) = self.sent.iter().position(|sent| sent.open) else {
                break;
            };
            let number = self.settle(place);
            self.flow.on_discarded(number);
            self.forget_settled();
        }
    }

    /// Updates the shared state. `measured`: whether a round-trip time was just measured.
    fn show(&self, measured: bool) {
        let trips = self.flow.round_trips();
        let (totals, before) = (self.flow.totals(), self.before.totals);
        let mut seen = self.monitor.0.lock();
        let latest = trips.latest();
        *seen = CongestionStats {
            totals: Totals {
                sent: before.sent + totals.sent,
                delivered: before.delivered + totals.delivered,
                lost: before.lost + totals.lost,
                spurious: before.spurious + totals.spurious,
            },
            in_flight: self.flow.in_flight(),
            window: self.flow.window(),
            pacing_rate: self.flow.pacing_rate(),
            deliverable_rate: self.flow.deliverable_rate(),
            app_limited: self.flow.is_app_limited(),
            rtt: latest.or(seen.rtt),
            smoothed_rtt: trips.smoothed().or(seen.smoothed_rtt),
            least_rtt: trips.least().or(seen.least_rtt),
            rtts: seen.rtts + u64::from(measured),
            rtt_sum: seen.rtt_sum + latest.filter(|_| measured).unwrap_or_default(),
            starting: self.flow.controller().is_starting(),
            policed: self.flow.controller().path_model().policed,
        };
    }
}

impl noq::Controller for ControllerAdapter {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, packet: u64) {
        self.settle_spurious(now);
        let bytes = u64::from(bytes);
        self.flow.on_sent(now, self.next, bytes);
        self.next += 1;
        self.sent.push_back(Sent {
            packet,
            at: now,
            open: true,
        });
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        _: u64,
        packet: u64,
        _: bool,
        _: &RttEstimator,
    ) {
        self.settle_spurious(now);
        self.acked_at = Some(now);
        if let Some(place) = self.find_by_time(sent, packet)
            && let Some(number) = self.settle(place)
        {
            self.acked.push(number);
        }
    }

    fn on_end_acks(&mut self, _: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        let measured = !self.acked.is_empty();
        self.flush_acked();
        if app_limited {
            self.flow.on_app_limited();
        }
        self.forget_settled();
        self.reconcile(in_flight);
        self.show(measured);
    }

    fn on_packet_lost(&mut self, _: u16, packet: u64, _: Instant) {
        if let Some(place) = self.find_oldest(packet)
            && let Some(number) = self.settle(place)
        {
            self.lost.push(number);
        }
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        _: Instant,
        is_persistent: bool,
        is_ecn: bool,
        _: u64,
        _: u64,
    ) {
        if is_ecn {
            self.flow.on_marked(now);
        } else {
            self.flow.on_lost(now, self.lost.drain(..), is_persistent);
            self.forget_settled();
        }
        self.show(false);
    }

    fn on_spurious_congestion_event(&mut self) {
        // This call has no time; the acknowledgement that follows has one.
        self.spurious = true;
    }

    fn on_mtu_update(&mut self, bytes: u16) {
        self.flow.on_mtu(u64::from(bytes));
    }

    fn window(&self) -> u64 {
        self.flow.window().max(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = self.flow.pacing_rate().map(|rate| (rate.bps() / 8).max(1));
        metrics.bandwidth_estimate = self.flow.deliverable_rate().map(Bitrate::bps);
        metrics
    }

    fn clone_box(&self) -> Box<dyn noq::Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests;
