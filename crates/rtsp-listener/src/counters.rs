//! Counters of an RTSP thread, read by metrics while the thread runs.

use glassline_rtsp::server::Answered;
use glassline_rtsp::{Method, Status};
use glassline_runtime::Counter;

use std::sync::Arc;

use glassline_egress::rtsp::SendCounters;
use glassline_ingest::rtsp::RecordCounters;

/// One thread's counts since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Connections accepted since the server started, refused ones included.
    pub accepted: Counter,
    /// Connections closed at once because the limit of connections was reached.
    pub turned_away: Counter,
    /// Connections refused because the client's address opened too many in a short time.
    pub refused_rate: Counter,
    /// Connections refused because the process had no descriptor left.
    pub refused_descriptors: Counter,
    /// Number of connections that are open now.
    pub open: Gauge,
    /// Clients that are being sent media and reports.
    pub playing: Gauge,
    /// Counts of data sent to players, responses included.
    pub sent: Arc<SendCounters>,
    /// Counts of packets from publishers and feedback to them.
    pub recorded: RecordCounters,
    /// Clients closed because they took no bytes for too long.
    pub closed_stalled: Counter,
    /// Clients whose token has expired.
    pub closed_expired: Counter,
    /// Clients closed because they skipped too often in a row.
    pub closed_too_slow: Counter,
    /// Clients closed because they did not speak TLS on a TLS port, violated it, or did not finish
    /// the handshake in time.
    pub closed_tls: Counter,
    /// Clients closed because the stream's source came back with other codecs.
    pub closed_tracks_changed: Counter,
    /// Clients closed because the stream was deleted.
    pub closed_deleted: Counter,
    /// Connections that neither played nor published, closed because others needed their places.
    pub closed_for_others: Counter,
    /// SRTP packets of publishers that were not authentic under the publisher's keys.
    pub srtp_refused: Counter,
    /// SRTCP packets of clients that were authentic.
    pub srtcp_opened: Counter,
    /// SRTCP packets of clients that were not authentic.
    pub srtcp_refused: Counter,
    /// Commands lost because the thread's inbox was full.
    pub inbox_full: Counter,
    /// Requests answered since the server started.
    pub requests: Requests,
}

/// Number of rows of [`Requests`]: the methods with a meaning here, all other methods, and data
/// that was no complete request.
const METHODS: usize = Method::KNOWN + 2;

/// Counts of requests by method and by the status of the answer.
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

    /// Iterates over method, status and count of all that occurred. Methods without a meaning here
    /// are `other`; data that was no complete request is `none`.
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
    pub(crate) fn set(&self, to: usize) {
        self.0
            .store(to as u64, std::sync::atomic::Ordering::Relaxed);
    }

    /// Returns the present number.
    pub fn get(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}
