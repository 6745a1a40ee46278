//! Counters of one HTTP listener, read by metrics while it serves.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use glassline_runtime::{ConnectionRefusal, Counter};

use super::activity::Closed;

/// The counts of one listener since the server started.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    /// Connections accepted, those included that were refused.
    pub(crate) accepted: Counter,
    /// Connections refused because all places of the listener were taken.
    pub(crate) refused_limit: Counter,
    /// Connections refused because all places of the client's address were taken.
    pub(crate) refused_address: Counter,
    /// Connections refused because the client's address opened too many in a short time.
    pub(crate) refused_rate: Counter,
    /// Connections refused because the process had no descriptor left.
    pub(crate) refused_descriptors: Counter,
    /// Connections closed because no complete request header came in time.
    pub(crate) closed_header: Counter,
    /// Connections closed because no further request came in time.
    pub(crate) closed_idle: Counter,
    /// Connections closed because the client stopped reading.
    pub(crate) closed_stalled: Counter,
    /// Connections closed to make room for a new one.
    pub(crate) closed_evicted: Counter,
    /// Connections closed because the client canceled too many requests.
    pub(crate) closed_cancels: Counter,
    /// Connections closed because their TLS handshake failed.
    pub(crate) closed_handshake: Counter,
    open: AtomicUsize,
}

impl Counters {
    /// Returns the number of connections that are open now.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    pub(super) fn note_refused(&self, refusal: ConnectionRefusal) {
        match refusal {
            ConnectionRefusal::Total { .. } => self.refused_limit.add(1),
            ConnectionRefusal::Source { .. } => self.refused_address.add(1),
        }
    }

    fn note_closed(&self, closed: Closed) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        match closed {
            Closed::Ended => {}
            Closed::Header => self.closed_header.add(1),
            Closed::Idle => self.closed_idle.add(1),
            Closed::Stalled => self.closed_stalled.add(1),
            Closed::Evicted => self.closed_evicted.add(1),
            Closed::Cancels => self.closed_cancels.add(1),
            Closed::Handshake => self.closed_handshake.add(1),
        }
    }
}

/// A connection that is counted as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenConnection {
    counters: Arc<Counters>,
    /// The reason of the end, as far as it is known.
    pub(super) closed: Closed,
}

impl OpenConnection {
    pub(super) fn new(counters: Arc<Counters>) -> Self {
        counters.open.fetch_add(1, Ordering::Relaxed);
        Self {
            counters,
            closed: Closed::Ended,
        }
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.counters.note_closed(self.closed);
    }
}

/// The counters of all listeners.
#[derive(Clone, Debug, Default)]
pub(crate) struct ListenerCounters {
    /// Counters of the listener for viewers.
    pub(crate) public: Arc<Counters>,
    /// Counters of the listener for viewers within TLS.
    pub(crate) public_tls: Arc<Counters>,
    /// Counters of the listener for operators.
    pub(crate) admin: Arc<Counters>,
    /// Counters of the listener for operators within TLS.
    pub(crate) admin_tls: Arc<Counters>,
}
