//! What a connection waits for, and since when.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_runtime::TokenBucket;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::eviction_rank::{ChangedRanks, EvictionRank, ListedRank};

/// Requests that a client may cancel a second, and at once, on one connection. Pages cancel a few
/// when they are left; a flood of them would have the server work for nothing (CVE-2023-44487).
const CANCELS_PER_S: f64 = 10.0;
const CANCELS_AT_ONCE: f64 = 100.0;

/// The times that a client has.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    /// From the accepted connection, or from the first byte of a further request, to the end of the
    /// request's header.
    pub(super) header: Duration,
    /// From the end of a response to the first byte of the next request.
    pub(super) idle: Duration,
    /// From a full send buffer to the next byte that the client takes.
    pub(super) write: Duration,
    /// From the end of the last response to the end of what the client still sends.
    pub(super) linger: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            // Pages ask for something every few seconds while they are open.
            idle: Duration::from_secs(60),
            write: Duration::from_secs(20),
            linger: Duration::from_secs(1),
        }
    }
}

/// The reason why a connection was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closed {
    /// The client or the server ended it in the ordinary way.
    Ended,
    /// No complete request header came in time.
    Header,
    /// No further request came in time.
    Idle,
    /// The client stopped reading.
    Stalled,
    /// A new connection needed its place.
    Evicted,
    /// The client canceled too many requests.
    Cancels,
    /// The TLS handshake failed, or the client did not speak TLS.
    Handshake,
}

/// The state of one connection, shared between the task that serves it and the listener that may
/// close it in favor of another.
#[derive(Debug)]
pub(super) struct Activity {
    state: Mutex<State>,
    evicted: Notify,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    /// Time at which the phase began.
    since: Instant,
    /// Whether a part of a request's header arrived in this phase.
    has_partial_header: bool,
    /// Requests whose response is not complete; HTTP/2 has several at the same time.
    requests: Vec<OpenRequest>,
    next_request: RequestId,
    cancels: TokenBucket,
    has_canceled_too_often: bool,
    /// Whether bytes of the client may be something else than a request, as in HTTP/2.
    is_multiplexed: bool,
    /// Time since which the client has taken no byte although there are some for it.
    blocked_since: Option<Instant>,
    /// Whether a request was granted: its response was no error.
    is_granted: bool,
    /// Whether the connection is to be closed in favor of a new one.
    is_evicted: bool,
    /// The table that has the connection; `None` before it has a place.
    listed: Option<ListedRank>,
}

/// Number of a request on its connection.
pub(super) type RequestId = u64;

/// A request in progress.
#[derive(Debug)]
struct OpenRequest {
    id: RequestId,
    /// Time at which the header was complete.
    begun: Instant,
    waits_for: WaitsFor,
}

/// The event that the end of a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// The server works on the response.
    Server,
    /// The client has not sent all of the request's body.
    Body,
    /// The client has not taken the response, which was ready at this time.
    Reader(Instant),
}

/// The phase of a connection while it has no request in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The header of a request is expected.
    Header,
    /// A response was sent, and a further request may follow.
    Idle,
    /// The last response was sent, and the client has not closed its end yet.
    Lingering,
}

impl Activity {
    /// Creates the state of a connection that was accepted at `now`.
    pub(super) fn new(now: Instant) -> Self {
        Self {
            state: Mutex::new(State {
                phase: Phase::Header,
                since: now,
                has_partial_header: false,
                requests: Vec::new(),
                next_request: 0,
                cancels: TokenBucket::new(CANCELS_PER_S, CANCELS_AT_ONCE),
                has_canceled_too_often: false,
                is_multiplexed: false,
                blocked_since: None,
                is_granted: false,
                is_evicted: false,
                listed: None,
            }),
            evicted: Notify::new(),
        }
    }

    /// Notes the table that has the connection as half open, under this number. From now on the number is
    /// among those that `changed` whenever the table does not know the rank.
    pub(super) fn list(&self, number: u64, changed: &Arc<ChangedRanks>) {
        self.change(|state| {
            state.listed = Some(ListedRank::half_open(number, changed));
        });
    }

    /// Returns the rank for the table, which knows it then.
    pub(super) fn changed_rank(&self) -> EvictionRank {
        let mut state = self.state.lock();
        let rank = state.rank();
        if let Some(listed) = &mut state.listed {
            listed.note_known(rank);
        }
        rank
    }

    /// Notes that the client speaks HTTP/2: bytes that arrive between two requests may be answers to
    /// the server's frames, and begin no request.
    pub(super) fn note_multiplexed(&self) {
        self.state.lock().is_multiplexed = true;
    }

    /// Notes that bytes of the client arrived.
    pub(super) fn note_read(&self, now: Instant) {
        let mut state = self.state.lock();
        if !state.requests.is_empty() || state.is_multiplexed {
            return;
        }
        if state.phase == Phase::Idle {
            state.begin(Phase::Header, now);
        }
        state.has_partial_header = true;
    }

    /// Notes that the client took bytes.
    pub(super) fn note_written(&self) {
        self.change(|state| state.blocked_since = None);
    }

    /// Notes that the client's send buffer is full.
    pub(super) fn note_blocked(&self, now: Instant) {
        self.change(|state| {
            state.blocked_since.get_or_insert(now);
        });
    }

    /// Notes that the header of a request is complete. Returns the request's number.
    pub(super) fn begin_request(&self, now: Instant) -> RequestId {
        self.change(|state| {
            let id = state.next_request;
            state.next_request += 1;
            let waits_for = WaitsFor::Server;
            state.requests.push(OpenRequest {
                id,
                begun: now,
                waits_for,
            });
            id
        })
    }

    /// Notes that a request was granted.
    pub(super) fn note_granted(&self) {
        self.change(|state| state.is_granted = true);
    }

    /// Notes what a request waits for.
    pub(super) fn note_waiting(&self, id: RequestId, waits_for: WaitsFor) {
        self.change(|state| {
            if let Some(request) = state.requests.iter_mut().find(|it| it.id == id) {
                request.waits_for = waits_for;
            }
        });
    }

    /// Notes that the client gave up a request before it was answered.
    pub(super) fn note_canceled(&self, now: Instant) {
        let mut state = self.state.lock();
        let is_allowed = state.cancels.take(now);
        state.has_canceled_too_often |= !is_allowed;
    }

    /// Notes that the response to a request is complete, or that nobody waits for it any more.
    pub(super) fn end_request(&self, id: RequestId, now: Instant) {
        self.change(|state| {
            state.requests.retain(|request| request.id != id);
            if state.requests.is_empty() {
                state.begin(Phase::Idle, now);
            }
        });
    }

    /// Notes that the last response was sent.
    pub(super) fn begin_to_linger(&self, now: Instant) {
        self.state.lock().begin(Phase::Lingering, now);
    }

    /// Returns whether a part of a request's header arrived, and not the whole of it.
    pub(super) fn has_partial_header(&self) -> bool {
        let state = self.state.lock();
        state.requests.is_empty() && state.has_partial_header
    }

    /// Returns whether a request has ever begun.
    pub(super) fn has_asked(&self) -> bool {
        self.state.lock().next_request > 0
    }

    /// Returns whether the server works on a request.
    pub(super) fn has_request(&self) -> bool {
        !self.state.lock().requests.is_empty()
    }

    /// Returns when the connection is to be closed unless the client does something, and why; `None`
    /// while the server works on a request.
    pub(super) fn deadline(&self, deadlines: &Deadlines) -> Option<(Instant, Closed)> {
        let state = self.state.lock();
        if state.has_canceled_too_often {
            return Some((state.since, Closed::Cancels));
        }
        if let Some(since) = state.blocked_since.or_else(|| state.unread_since()) {
            return Some((since + deadlines.write, Closed::Stalled));
        }
        match state.phase {
            _ if !state.requests.is_empty() => None,
            Phase::Header => Some((state.since + deadlines.header, Closed::Header)),
            Phase::Idle => Some((state.since + deadlines.idle, Closed::Idle)),
            Phase::Lingering => Some((state.since + deadlines.linger, Closed::Ended)),
        }
    }

    /// Returns how readily the connection is closed in favor of a new one.
    #[cfg(test)]
    pub(super) fn rank(&self) -> EvictionRank {
        self.state.lock().rank()
    }

    /// Asks the connection's task to close it.
    pub(super) fn evict(&self) {
        self.state.lock().is_evicted = true;
        self.evicted.notify_one();
    }

    /// Returns whether the connection is to be closed in favor of a new one.
    pub(super) fn is_evicted(&self) -> bool {
        self.state.lock().is_evicted
    }

    /// Waits until the connection is to be closed in favor of a new one.
    pub(super) async fn evicted(&self) {
        self.evicted.notified().await;
    }

    /// Changes the state, and tells the table if the rank is another one then.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let changed = change(&mut state);
        state.note_rank();
        changed
    }
}

impl State {
    fn rank(&self) -> EvictionRank {
        let is_busy = |request: &&OpenRequest| request.waits_for == WaitsFor::Server;
        let newest = self.requests.iter().filter(is_busy).map(|it| it.begun);
        match (newest.max(), self.blocked_since) {
            (Some(begun), None) => EvictionRank::Busy(begun),
            _ if self.is_granted => EvictionRank::Waiting,
            _ => EvictionRank::HalfOpen,
        }
    }

    fn note_rank(&mut self) {
        let rank = self.rank();
        if let Some(listed) = &mut self.listed {
            listed.note(rank);
        }
    }

    /// Returns the time since which the client has left a response lying, the longest first.
    fn unread_since(&self) -> Option<Instant> {
        let unread = self.requests.iter().filter_map(|it| match it.waits_for {
            WaitsFor::Reader(since) => Some(since),
            WaitsFor::Server | WaitsFor::Body => None,
        });
        unread.min()
    }

    fn begin(&mut self, phase: Phase, now: Instant) {
        self.phase = phase;
        self.since = now;
        self.has_partial_header = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_phase_has_its_deadline() {
        let deadlines = Deadlines::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let activity = Activity::new(start);
        let deadline = || activity.deadline(&deadlines);
        assert_eq!(deadline(), Some((at(10), Closed::Header)));
        activity.note_read(at(9));
        assert_eq!(
            deadline(),
            Some((at(10), Closed::Header)),
            "no byte extends it"
        );
        let request = activity.begin_request(at(9));
        assert_eq!(deadline(), None, "the server works");
        activity.note_blocked(at(12));
        activity.note_blocked(at(13));
        assert_eq!(deadline(), Some((at(32), Closed::Stalled)));
        activity.note_written();
        activity.note_waiting(request, WaitsFor::Reader(at(13)));
        assert_eq!(deadline(), Some((at(33), Closed::Stalled)), "a full window");
        activity.end_request(request, at(14));
        assert_eq!(deadline(), Some((at(74), Closed::Idle)));
        activity.note_read(at(70));
        assert_eq!(
            deadline(),
            Some((at(80), Closed::Header)),
            "a second request"
        );
        activity.begin_to_linger(at(71));
        assert_eq!(deadline(), Some((at(72), Closed::Ended)));
    }

    #[test]
    fn only_a_client_that_is_waited_for_may_be_displaced() {
        let now = Instant::now();
        let activity = Activity::new(now);
        assert_eq!(activity.rank(), EvictionRank::HalfOpen);
        let request = activity.begin_request(now);
        assert_eq!(activity.rank(), EvictionRank::Busy(now));
        activity.note_waiting(request, WaitsFor::Body);
        assert_eq!(
            activity.rank(),
            EvictionRank::HalfOpen,
            "a body that does not come"
        );
        let other = activity.begin_request(now);
        assert_eq!(activity.rank(), EvictionRank::Busy(now), "one of two");
        activity.end_request(other, now);
        activity.note_waiting(request, WaitsFor::Server);
        activity.note_granted();
        assert_eq!(activity.rank(), EvictionRank::Busy(now));
        activity.note_blocked(now);
        assert_eq!(
            activity.rank(),
            EvictionRank::Waiting,
            "a response that is not read"
        );
        activity.note_written();
        activity.end_request(request, now);
        assert_eq!(activity.rank(), EvictionRank::Waiting);
    }

    #[test]
    fn the_newest_request_tells_since_when_the_server_works() {
        let now = Instant::now();
        let activity = Activity::new(now);
        let first = activity.begin_request(now);
        activity.note_granted();
        let later = now + Duration::from_secs(2);
        let second = activity.begin_request(later);
        assert_eq!(activity.rank(), EvictionRank::Busy(later));
        activity.end_request(second, later);
        assert_eq!(activity.rank(), EvictionRank::Busy(now));
        activity.end_request(first, later);
        assert_eq!(activity.rank(), EvictionRank::Waiting);
    }

    #[test]
    fn a_connection_that_had_a_request_before_its_place_is_told_of() {
        let now = Instant::now();
        let activity = Activity::new(now);
        activity.begin_request(now);
        let changed = Arc::<ChangedRanks>::default();
        activity.list(7, &changed);
        assert_eq!(changed.take(), [7]);
    }

    #[test]
    fn a_client_that_cancels_all_the_time_is_closed() {
        let now = Instant::now();
        let activity = Activity::new(now);
        activity.note_multiplexed();
        let cancel = |count: usize, at: Instant| {
            for _ in 0..count {
                let request = activity.begin_request(now);
                activity.note_canceled(at);
                activity.end_request(request, at);
            }
        };
        let closed = || {
            activity
                .deadline(&Deadlines::default())
                .map(|(_, closed)| closed)
        };
        cancel(100, now);
        assert_eq!(closed(), Some(Closed::Idle), "a page that was left");
        cancel(20, now + Duration::from_secs(2));
        assert_eq!(closed(), Some(Closed::Idle));
        cancel(1, now + Duration::from_secs(2));
        assert_eq!(closed(), Some(Closed::Cancels));
    }

    #[test]
    fn bytes_between_two_requests_of_http2_begin_none() {
        let now = Instant::now();
        let activity = Activity::new(now);
        activity.note_multiplexed();
        let deadlines = Deadlines::default();
        activity.note_read(now);
        assert_eq!(
            activity.deadline(&deadlines),
            Some((now + deadlines.header, Closed::Header))
        );
        let request = activity.begin_request(now);
        activity.end_request(request, now);
        activity.note_read(now + Duration::from_secs(5));
        assert_eq!(
            activity.deadline(&deadlines),
            Some((now + deadlines.idle, Closed::Idle))
        );
    }
}
