//! Viewers of HLS, on two threads for all of them.
//!
//! ```text
//! Viewers::join ─► a task: watch ─ Connections ─► any server
//!                    │ parts, requests
//!                    ▼
//! Viewers::progress ◄ Watching: Playback (a model of the buffer), counts
//! ```
//!
//! Media is not decoded: a part counts as the duration that its playlist says. Bytes are those of HTTP.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_hls::reader::DateTime;
use glassline_media::Histogram;
use glassline_trust::Trust;
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::task::AbortHandle;
use url::Url;

use super::flow::{FrameGaps, Recent};
use super::{Conduct, Flow, Id, Mode, Options, Progress, State};
use connection::Connections;
use playback::Playback;

mod connection;
mod playback;
#[cfg(test)]
mod tests;
mod watch;

/// Figures that only viewers of HLS have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HlsFigures {
    /// Requests of playlists, parts and segments.
    pub requests: u64,
    /// Times at which the buffer was empty.
    pub stalls: u64,
    /// Time without media after the beginning.
    pub stalled: Duration,
    /// Distance from live of what plays, by the dates of the playlist and this machine's calendar.
    pub latency: Option<Duration>,
}

/// All viewers of HLS of one pool.
#[derive(Debug)]
pub(super) struct Viewers {
    /// Threads, from the first viewer on; or why there are none.
    runtime: OnceLock<io::Result<Runtime>>,
    all: Mutex<BTreeMap<Id, Viewing>>,
    trust: Trust,
    token: Option<String>,
}

#[derive(Debug)]
struct Viewing {
    watching: Arc<Watching>,
    task: Option<AbortHandle>,
}

impl Viewers {
    pub(super) fn new(options: &Options) -> Self {
        Self {
            runtime: OnceLock::new(),
            all: Mutex::default(),
            trust: options.trust,
            token: options.token.clone(),
        }
    }

    pub(super) fn join(&self, id: Id, url: Url) {
        let watching = Arc::new(Watching::new());
        let connections = Connections::new(self.trust, self.token.clone());
        let task = match self.runtime.get_or_init(threads) {
            Ok(runtime) => {
                let watching = Arc::clone(&watching);
                let task = runtime.spawn(async move {
                    let reason = watch::watch(&connections, &url, &watching).await;
                    watching.end(reason);
                });
                Some(task.abort_handle())
            }
            Err(error) => {
                watching.end(format!("cannot start threads for viewers of HLS: {error}"));
                None
            }
        };
        self.all.lock().insert(id, Viewing { watching, task });
    }

    /// Ends a viewer and forgets it.
    pub(super) fn leave(&self, id: Id) {
        let viewing = self.all.lock().remove(&id);
        if let Some(task) = viewing.and_then(|it| it.task) {
            task.abort();
        }
    }

    pub(super) fn progress(&self) -> Vec<Progress> {
        self.all
            .lock()
            .iter()
            .map(|(id, it)| it.watching.progress(*id))
            .collect()
    }

    /// Moves times between parts since the last query into a histogram.
    pub(super) fn take_gaps(&self, into: &mut Histogram) {
        self.all
            .lock()
            .values()
            .for_each(|it| it.watching.0.lock().gaps.take_recent(into));
    }

    /// Moves delays from the date of a part's first sample to its arrival into a histogram.
    pub(super) fn take_delays(&self, into: &mut Histogram) {
        self.all
            .lock()
            .values()
            .for_each(|it| it.watching.0.lock().delays.take(into));
    }
}

impl Drop for Viewers {
    fn drop(&mut self) {
        if let Some(Ok(runtime)) = self.runtime.take() {
            // Viewers of HLS say no farewell.
            runtime.shutdown_background();
        }
    }
}

/// Starts the threads of all viewers.
fn threads() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("hls-viewers")
        .enable_all()
        .build()
}

/// Counts of one viewer so far.
#[derive(Debug)]
struct Watching(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    state: State,
    failure: Option<Arc<str>>,
    started: Instant,
    first: Option<Instant>,
    flow: Flow,
    requests: u64,
    playback: Playback,
    /// Date of the media at the beginning of the playback.
    begins: Option<DateTime>,
    gaps: FrameGaps,
    delays: Recent,
}

impl Watching {
    fn new() -> Self {
        let now = Instant::now();
        Self(Mutex::new(Seen {
            state: State::Signalling,
            failure: None,
            started: now,
            first: None,
            flow: Flow::default(),
            requests: 0,
            playback: Playback::new(1, now),
            begins: None,
            gaps: FrameGaps::default(),
            delays: Recent::default(),
        }))
    }

    /// Notes that the playlists are there.
    fn begin(&self, tracks: usize) {
        let mut seen = self.0.lock();
        seen.state = State::Connected;
        seen.playback = Playback::new(tracks, Instant::now());
    }

    fn requested(&self, requests: u64, bytes: u64) {
        let mut seen = self.0.lock();
        seen.requests += requests;
        seen.flow.bytes += bytes;
    }

    /// Notes that the viewer goes on at another place of the stream.
    fn jumped(&self) {
        self.0.lock().begins = None;
    }

    fn arrived(&self, track: usize, duration: Duration, date: Option<DateTime>) {
        let now = Instant::now();
        let mut seen = self.0.lock();
        seen.state = State::Playing;
        seen.first.get_or_insert(now);
        seen.flow.expected += 1;
        seen.flow.received += 1;
        let played = seen.playback.position();
        seen.playback.add(now, track, duration);
        if track > 0 {
            return;
        }
        seen.gaps.on_frame(now);
        if let Some(date) = date {
            if seen.begins.is_none() {
                let played = i64::try_from(played.as_nanos()).unwrap_or(i64::MAX);
                seen.begins = Some(DateTime(date.0.saturating_sub(played)));
            }
            if let Some(delay) = since(date) {
                seen.delays.push(delay);
            }
        }
    }

    fn end(&self, reason: String) {
        let mut seen = self.0.lock();
        seen.state = State::Ended;
        seen.failure = Some(reason.into());
    }

    fn progress(&self, id: Id) -> Progress {
        let mut seen = self.0.lock();
        seen.playback.advance(Instant::now());
        let position = seen.playback.position();
        let begins = seen.begins.filter(|_| !seen.playback.is_filling());
        let join_time = seen
            .first
            .map(|it| it.saturating_duration_since(seen.started));
        Progress {
            id,
            mode: Mode::Count,
            conduct: Conduct::Good,
            state: seen.state,
            failure: seen.failure.clone(),
            connect_time: join_time,
            join_time,
            video: Flow {
                media_time: position,
                ..seen.flow
            },
            audio: Flow::default(),
            frames: 0,
            damaged: 0,
            nacked: 0,
            hls: Some(HlsFigures {
                requests: seen.requests,
                stalls: seen.playback.stalls(),
                stalled: seen.playback.stalled(),
                latency: begins.and_then(|it| since(it.after(position))),
            }),
        }
    }
}

/// Time since a date by this machine's calendar; `None` if the date is to come.
fn since(date: DateTime) -> Option<Duration> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    now.checked_sub(Duration::from_nanos(u64::try_from(date.0).ok()?))
}
