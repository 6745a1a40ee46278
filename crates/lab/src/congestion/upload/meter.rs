//! Counts, at a connection's congestion controller, what the figures need.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use glassline_quic::CongestionControl;
use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use parking_lot::Mutex;

use super::wire::Wire;

/// Makes a [`CongestionControl`] for a connection, and counts the events that it gets.
pub(crate) struct Meter {
    congestion_control: Arc<CongestionControl>,
    account: Account,
    wire: Wire,
}

/// Round-trip times that a [`Meter`] recorded.
#[derive(Clone, Debug, Default)]
pub(crate) struct Account(Arc<Mutex<Vec<u32>>>);

impl Account {
    /// Round-trip time of every acknowledgement in µs: from sending the newest packet that the
    /// acknowledgement covers for the first time, with the peer's delay.
    pub(crate) fn round_trips_us(&self) -> Vec<u32> {
        self.0.lock().clone()
    }
}

impl Meter {
    pub(crate) fn new(congestion_control: CongestionControl, wire: Wire) -> Self {
        Self {
            congestion_control: Arc::new(congestion_control),
            account: Account::default(),
            wire,
        }
    }

    pub(crate) fn account(&self) -> Account {
        self.account.clone()
    }

    pub(super) fn wire(&self) -> Wire {
        self.wire.clone()
    }
}

impl ControllerFactory for Meter {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Box<dyn Controller> {
        Box::new(Metered {
            inner: Arc::clone(&self.congestion_control).build(now, mtu),
            account: self.account.clone(),
            wire: self.wire.clone(),
            acked: Vec::new(),
            newest: None,
        })
    }
}

#[derive(Debug)]
struct Metered {
    inner: Box<dyn Controller>,
    account: Account,
    wire: Wire,
    /// Numbers of the packets in the acknowledgement that is being processed.
    acked: Vec<u64>,
    newest: Option<Instant>,
}

impl Controller for Metered {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest_pn: u64) {
        self.inner.on_sent(now, bytes, largest_pn);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        self.inner.on_packet_sent(now, bytes, pn);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        pn: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.acked.push(pn);
        self.newest = self.newest.max(Some(sent));
        self.inner.on_ack(now, sent, bytes, pn, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, pn: Option<u64>) {
        if let Some(sent) = self.newest.take() {
            let micros = now.saturating_duration_since(sent).as_micros();
            let micros = u32::try_from(micros).unwrap_or(u32::MAX);
            let mut trips = self.account.0.lock();
            trips.push(micros);
        }
        self.wire.on_acked(&self.acked);
        self.acked.clear();
        self.inner.on_end_acks(now, in_flight, app_limited, pn);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        lost_bytes: u64,
        largest_lost_pn: u64,
    ) {
        self.inner.on_congestion_event(
            now,
            sent,
            is_persistent_congestion,
            is_ecn,
            lost_bytes,
            largest_lost_pn,
        );
    }

    fn on_packet_lost(&mut self, lost_bytes: u16, pn: u64, now: Instant) {
        self.wire.on_lost(pn);
        self.inner.on_packet_lost(lost_bytes, pn, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.inner.on_mtu_update(new_mtu);
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, delay: std::time::Duration) {
        self.inner.on_ack_frequency_update(threshold, delay);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        self.inner.metrics()
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        Box::new(Self {
            inner: self.inner.clone_box(),
            account: self.account.clone(),
            wire: self.wire.clone(),
            acked: self.acked.clone(),
            newest: self.newest,
        })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
