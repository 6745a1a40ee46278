//! What an RTSP thread counts, read by metrics while it runs.

use glassline_rtsp::server::Answered;
use glassline_rtsp::{Method, Status};

use std::sync::Arc;

use crate::egress::rtsp::SendCounters;
use crate::ingest::rtsp::RecordCounters;
use crate::runtime::Counter;

/// One thread's counts since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted.
    pub accepted: Counter,
    /// Connections closed at once because there are as many as the limits allow.
    pub turned_away: Counter,
    /// Connections open now.
    pub open: Gauge,
    /// Clients that were sent media and reports now.
    pub playing: Gauge,
    /// What was sent to players, and responses.
    pub sent: Arc<SendCounters>,
    /// What publishers sent and were told.
    pub recorded: RecordCounters,
    /// Clients closed because they took nothing for too long.
    pub closed_stalled: Counter,
    /// Clients closed because they skipped time and again.
    pub closed_hopeless: Counter,
    /// Clients closed because they spoke no TLS where it is spoken, broke it, or were
    /// not done with its handshake in time.
    pub closed_tls: Counter,
    /// Packets of publishers with SRTP that their keys did not open.
    pub srtp_refused: Counter,
    /// Reports of clients with SRTP that their keys opened.
    pub srtcp_opened: Counter,
    /// Those that they did not.
    pub srtcp_refused: Counter,
    /// Commands lost because the thread's inbox was full.
    pub inbox_full: Counter,
    /// Requests answered.
    pub requests: Requests,
}

/// Methods of our own counts: those that have a name, other names, and what was no whole
/// request.
const METHODS: usize = Method::KNOWN + 2;

/// Requests by method and by the status of their answer.
#[derive(Debug)]
pub struct Requests([[Counter; Status::KNOWN.len()]; METHODS]);

impl Default for Requests {
    fn default() -> Self {
        Self(std::array::from_fn(|_| {
            std::array::from_fn(|_| Counter::default())
        }))
    }
}

impl Requests {
    pub(crate) fn add(&self, answered: &Answered) {
        let method = answered
            .method
            .as_ref()
            .map_or(Method::KNOWN + 1, |method| {
                let known = Method::names().position(|name| name == method.as_str());
                known.unwrap_or(Method::KNOWN)
            });
        let mut statuses = Status::KNOWN.iter();
        let status = statuses.position(|it| *it == answered.status);
        debug_assert!(status.is_some(), "we say what has a name: {answered:?}");
        if let Some(status) = status {
            self.0[method][status].add(1);
        }
    }

    /// Method, status and count of all that there were. Methods that have no meaning
    /// here are `other`, what was no whole request is `none`.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, Status, u64)> {
        let names = Method::names().chain(["other", "none"]);
        names.zip(&self.0).flat_map(|(name, counters)| {
            let counted = Status::KNOWN.iter().zip(counters);
            let counted = counted.map(move |(status, counter)| (name, *status, counter.get()));
            counted.filter(|(_, _, count)| *count > 0)
        })
    }
}

/// A number that one thread sets and others read.
#[derive(Debug, Default)]
pub struct Gauge(std::sync::atomic::AtomicU64);

impl Gauge {
    pub(super) fn set(&self, to: usize) {
        self.0
            .store(to as u64, std::sync::atomic::Ordering::Relaxed);
    }

    /// The number now.
    pub fn get(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}
