//! Statistics of every QUIC session, for operators.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use glassline_media::Bitrate;
use glassline_quic::moq::{Session, SessionStats};
use glassline_runtime::Counter;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;

/// Age from which on a publisher's report is outdated.
const FRESH: Duration = Duration::from_secs(5);

/// The streams that a session may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    Nothing,
    /// Streams, as a client.
    AsClient,
    /// Streams, as another server of the cluster.
    AsServer,
}

/// Statistics of one session.
#[derive(Debug)]
pub(super) struct Account {
    peer: String,
    opened: Instant,
    reads: Reads,
    session: Mutex<Weak<Session>>,
    state: Mutex<State>,
    received: Arc<Counter>,
}

#[derive(Debug, Default)]
struct State {
    /// First stream that the session published when an operator ended it, empty if it published
    /// none; `None` if no operator ended it.
    dismissed: Option<String>,
    publishes: Vec<String>,
    /// Bytes received at the latest measurement, its time, and the rate since the measurement
    /// before.
    goodput: Option<(u64, Instant)>,
    rate: Bitrate,
    /// Time of the latest measurement before which nothing more was received; `None` if there was
    /// none, or if bytes arrived since.
    silent_since: Option<Instant>,
}

impl State {
    /// Returns the number of bytes that had been received at the latest measurement.
    fn measured(&self) -> u64 {
        self.goodput.map_or(0, |(received, _)| received)
    }
}

impl Account {
    /// Returns the counter of bytes of frames that the session has sent.
    pub(super) fn received_bytes(&self) -> &Arc<Counter> {
        &self.received
    }

    /// Returns when the session was opened.
    pub(super) const fn opened(&self) -> Instant {
        self.opened
    }

    /// Returns the stream that the session published when an operator ended it, empty if it published
    /// none; `None` if no operator ended it.
    pub(super) fn dismissed(&self) -> Option<String> {
        self.state.lock().dismissed.clone()
    }

    /// Notes that the session begins to publish `stream`, or ends.
    pub(super) fn publishes(&self, stream: &str, begins: bool) {
        let mut state = self.state.lock();
        state.publishes.retain(|it| it != stream);
        if begins {
            state.publishes.push(stream.to_owned());
        }
    }

    /// Returns the names of the streams that the session publishes.
    pub(super) fn published(&self) -> Vec<String> {
        self.state.lock().publishes.clone()
    }

    /// Returns the number of broadcasts that the session publishes.
    pub(super) fn broadcasts(&self) -> usize {
        self.state.lock().publishes.len()
    }

    /// Returns whether the session is a client's that neither publishes nor reads anything. A session
    /// that waits for a stream is idle, and cheap to open anew.
    pub(super) fn is_idle(&self) -> bool {
        let is_reading = |session: Arc<Session>| session.stats().open_subscriptions > 0;
        self.reads != Reads::AsServer
            && self.broadcasts() == 0
            && !self.session().is_some_and(is_reading)
    }

    /// Measures the rates; called once a second.
    fn measure(&self, now: Instant) {
        let received = self.received.get();
        let mut state = self.state.lock();
        if let Some((before, at)) = state.goodput {
            state.rate = Bitrate::over(received - before, now.saturating_duration_since(at));
            state.silent_since = match received == before {
                true => state.silent_since.or(Some(at)),
                false => None,
            };
        }
        state.goodput = Some((received, now));
    }

    /// Returns the session if it publishes `stream` and no media arrived for at least `silence`.
    fn silent_publisher(
        &self,
        stream: &str,
        silence: Duration,
        now: Instant,
    ) -> Option<Arc<Session>> {
        let state = self.state.lock();
        let is_silent = state.silent_since.is_some_and(|since| {
            now.saturating_duration_since(since) >= silence
                && self.received.get() == state.measured()
        });
        let publishes = state.publishes.iter().any(|it| it == stream);
        drop(state);
        self.session().filter(|_| is_silent && publishes)
    }

    /// Returns the session; `None` before its handshake and after its end.
    fn session(&self) -> Option<Arc<Session>> {
        let session = self.session.lock();
        session.upgrade()
    }

    fn view(&self, id: u64, now: Instant) -> Option<SessionView> {
        let session = self.session()?;
        let state = self.state.lock();
        let stats = session.stats();
        let publishes = !state.publishes.is_empty();
        Some(SessionView {
            id,
            peer: self.peer.clone(),
            version: session.version(),
            open_s: now.saturating_duration_since(self.opened).as_secs_f64(),
            publishes: state.publishes.clone(),
            reads: self.reads != Reads::Nothing,
            received_bytes: stats.received,
            sent_bytes: stats.sent,
            goodput_bps: publishes.then(|| state.rate.bps()),
            sender: if publishes {
                Sender::reported(&stats, now)
            } else {
                Sender::measured(&stats)
            },
        })
    }
}

/// One session as operators see it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "QuicSession")]
pub struct SessionView {
    /// Number of the session since the server started.
    pub id: u64,
    /// Address of the client, with its port.
    pub peer: String,
    /// Version of moq-lite that the session negotiated.
    version: &'static str,
    open_s: f64,
    /// Names of the streams that the session publishes.
    pub publishes: Vec<String>,
    /// Whether the session may read streams.
    reads: bool,
    /// Bytes of frames received from the session.
    received_bytes: u64,
    /// Bytes of frames sent to the session.
    sent_bytes: u64,
    /// Useful bits a second received over the last second.
    pub goodput_bps: Option<u64>,
    /// Statistics of the sender of media: those that a publisher reports, or the server's own.
    #[serde(flatten)]
    pub sender: Sender,
}

/// Statistics of the sender of media. A missing field is unknown.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Sender {
    pub(crate) app_rtt_ms: Option<f64>,
    pub(crate) transport_rtt_ms: Option<f64>,
    /// Bytes sent again, divided by bytes acknowledged.
    pub(crate) rtx_overhead_ratio: Option<f64>,
    /// Bit rate that the encoder was last set to.
    pub bitrate_bps: Option<u64>,
    /// Estimate of the rate that the path can carry, in bits a second.
    pub(crate) deliverable_bps: Option<u64>,
    /// Bytes of media that wait to be sent or acknowledged.
    pub(crate) backlog_bytes: Option<u64>,
    /// Groups that were given up because they were late.
    pub(crate) late_groups: Option<u64>,
}

impl Sender {
    fn reported(stats: &SessionStats, now: Instant) -> Self {
        let fresh = |at: Instant| now.saturating_duration_since(at) <= FRESH;
        let Some((report, _)) = stats.peer_report.filter(|(_, at)| fresh(*at)) else {
            // Other publishers report nothing, but the path to them is measured here.
            return Self {
                transport_rtt_ms: stats.congestion.smoothed_rtt.map(ms),
                ..Self::default()
            };
        };
        Self {
            app_rtt_ms: Some(ms(report.app_rtt)),
            transport_rtt_ms: Some(ms(report.transport_rtt)),
            rtx_overhead_ratio: ratio(report.lost, report.delivered),
            bitrate_bps: Some(report.bitrate.bps()).filter(|bps| *bps > 0),
            deliverable_bps: Some(report.deliverable.bps()).filter(|bps| *bps > 0),
            backlog_bytes: Some(report.backlog),
            late_groups: None,
        }
    }

    fn measured(stats: &SessionStats) -> Self {
        let seen = &stats.congestion;
        Self {
            app_rtt_ms: stats.round_trips.latest.map(ms),
            transport_rtt_ms: seen.smoothed_rtt.map(ms),
            rtx_overhead_ratio: ratio(seen.totals.lost, seen.totals.delivered),
            bitrate_bps: None,
            deliverable_bps: seen.deliverable_rate.map(Bitrate::bps),
            backlog_bytes: Some(stats.backlog),
            late_groups: Some(stats.late_groups),
        }
    }
}

fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn ratio(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

/// Statistics of all sessions.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    next: u64,
    accounts: BTreeMap<u64, Arc<Account>>,
    /// Number of sessions and of handshakes under way.
    taken: usize,
}

/// One session or handshake among the statistics, until it is dropped.
#[derive(Debug)]
pub(super) struct SessionEntry {
    accounts: Arc<Accounts>,
    id: u64,
}

impl Accounts {
    /// Counts one more session or handshake.
    pub(super) fn enter(self: &Arc<Self>) -> SessionEntry {
        let mut open = self.open.lock();
        open.taken += 1;
        open.next += 1;
        SessionEntry {
            accounts: Arc::clone(self),
            id: open.next,
        }
    }

    /// Returns the number of sessions and handshakes.
    pub(super) fn taken(&self) -> usize {
        self.open.lock().taken
    }

    pub(super) fn views(&self, now: Instant) -> Vec<SessionView> {
        let accounts: Vec<_> = {
            let open = self.open.lock();
            open.accounts
                .iter()
                .map(|(id, account)| (*id, Arc::clone(account)))
                .collect()
        };
        let views = accounts.iter();
        views
            .filter_map(|(id, account)| account.view(*id, now))
            .collect()
    }

    /// Returns the sessions of clients that may read and publish nothing.
    pub(super) fn readers(&self) -> Vec<u64> {
        let open = self.open.lock();
        let readers = open.accounts.iter().filter(|(_, account)| {
            account.reads == Reads::AsClient && account.state.lock().publishes.is_empty()
        });
        readers.map(|(id, _)| *id).collect()
    }

    /// Returns session `id`, which an operator is about to end, and notes that.
    pub(super) fn dismiss(&self, id: u64) -> Option<Arc<Session>> {
        let account = self.open.lock().accounts.get(&id).cloned()?;
        let session = account.session()?;
        let mut state = account.state.lock();
        let published = state.publishes.first().cloned();
        state.dismissed = Some(published.unwrap_or_default());
        drop(state);
        Some(session)
    }

    /// Returns session `id`; `None` before its handshake and after its end.
    pub(super) fn session(&self, id: u64) -> Option<Arc<Session>> {
        let account = self.open.lock().accounts.get(&id).cloned()?;
        account.session()
    }

    /// Returns the session that publishes `stream` if no media of it arrived for at least `silence`,
    /// by measurements a second apart.
    pub(super) fn silent_publisher(
        &self,
        stream: &str,
        silence: Duration,
        now: Instant,
    ) -> Option<Arc<Session>> {
        let accounts: Vec<_> = self.open.lock().accounts.values().cloned().collect();
        accounts
            .iter()
            .find_map(|account| account.silent_publisher(stream, silence, now))
    }

    pub(super) fn measure(&self, now: Instant) {
        let accounts: Vec<_> = self.open.lock().accounts.values().cloned().collect();
        for account in accounts {
            account.measure(now);
        }
    }
}

impl SessionEntry {
    /// Creates the statistics of the session that was admitted.
    pub(super) fn open(&self, session: &Arc<Session>, reads: Reads, now: Instant) -> Arc<Account> {
        let account = Arc::new(Account {
            peer: session.peer().to_string(),
            opened: now,
            reads,
            session: Mutex::new(Arc::downgrade(session)),
            state: Mutex::default(),
            received: Arc::default(),
        });
        let mut open = self.accounts.open.lock();
        open.accounts.insert(self.id, Arc::clone(&account));
        account
    }
}

impl Drop for SessionEntry {
    fn drop(&mut self) {
        let mut open = self.accounts.open.lock();
        open.taken -= 1;
        open.accounts.remove(&self.id);
    }
}
