//! Sources that the server pulls from: again and again, whenever their stream is needed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{State, Stream};
use glassline_runtime::{Heartbeat, Part, Supervisor};
use tokio::sync::watch;

use super::backoff::Backoff;
use super::on_demand::{self, OnDemand, Supply};

/// Time of publishing after which a session counts as working, so that the next pause is short
/// again. A source that answers and then sends nothing usable is not called more often for that.
const WORKED: Duration = Duration::from_secs(5);

/// Pause before the next attempt after a failure that nobody can fix within seconds, such as a wrong
/// password.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// Interval at which the task of a source shows that it makes progress.
const BEAT: Duration = Duration::from_millis(500);

/// A source that the server connects to, or starts.
pub(super) trait Pulled: Send {
    /// Name of this kind of source in the log.
    const KIND: &'static str;

    /// Returns the source for people, without its secrets.
    fn shown(&self) -> String;

    /// Connects, and publishes what comes until something fails or the stream is not needed any more.
    /// `live_since` is set to the time of the first unit that was published. May be dropped.
    fn pull(
        &mut self,
        on_demand: &OnDemand<'_>,
        live_since: &mut Option<Instant>,
    ) -> impl Future<Output = PullEnd> + Send;

    /// Ends what the last [`pull`](Self::pull) left: says goodbye. May be dropped, and begun anew.
    fn part(&mut self) -> impl Future<Output = ()> + Send;
}

/// The end of one connection to a source.
#[derive(Debug)]
pub(super) enum PullEnd {
    /// The source, the network or the server failed.
    Failed {
        /// The reason for people.
        detail: String,
        /// Whether trying again soon does harm, or is of no use.
        is_lasting: bool,
    },
    /// The source was left, because nobody needs its stream.
    Unneeded,
}

/// Loop that keeps a pulled source running, and ends it.
pub(super) struct Life {
    pub(super) supervisor: Arc<Supervisor>,
    pub(super) stopped: watch::Receiver<bool>,
    /// Time without receivers after which the source is left; `None` if it stays connected.
    pub(super) idle: Option<Duration>,
}

/// Publishes what `source` brings into `stream` until the server is stopped. Requests that come before
/// the first poll wait for a source on demand, too.
pub(super) fn run(
    source: impl Pulled,
    stream: Arc<Stream>,
    life: Life,
) -> impl Future<Output = ()> + Send {
    if life.idle.is_some() {
        on_demand::begin_idle(&stream);
    }
    supply(source, stream, life)
}

/// Publishes what `source` brings for `supply` until the server is stopped.
pub(super) async fn supply(mut source: impl Pulled, supply: impl Supply, life: Life) {
    let Life {
        supervisor,
        mut stopped,
        idle,
    } = life;
    tokio::select! {
        never = pull_while_needed(&mut source, &supply, &supervisor, idle) => never,
        // A dropped sender means that the server ends.
        _ = stopped.wait_for(|stop| *stop) => {}
    }
    part(&mut source, &supervisor).await;
}

/// Connects again and again, whenever the source is needed.
async fn pull_while_needed<S: Pulled>(
    source: &mut S,
    supply: &dyn Supply,
    supervisor: &Arc<Supervisor>,
    idle: Option<Duration>,
) -> ! {
    let on_demand = OnDemand::new(supply, idle);
    let stream = supply.stream();
    let (kind, shown) = (S::KIND, source.shown());
    let mut backoff = Backoff::new();
    let mut next_attempt = Instant::now();
    loop {
        on_demand.needed().await;
        // Nobody expects signs of life while the source is left alone.
        let heartbeat = supervisor.register(Part::Source, &format!("{kind} {}", stream.name()));
        let mut live_since = None;
        let pulling = async {
            tokio::time::sleep_until(next_attempt.into()).await;
            source.pull(&on_demand, &mut live_since).await
        };
        // A source whose data makes the server panic is down, like one that is broken.
        let pulling = async {
            tokio::select! {
                end = pulling => end,
                never = beat(&heartbeat) => never,
            }
        };
        let pulled = supervisor.catch_task(Part::Source, pulling).await;
        let (detail, is_lasting) = match pulled {
            Ok(PullEnd::Unneeded) => {
                tracing::info!(stream = %stream.name(), source = shown, "nobody watches: {kind} left");
                part(source, supervisor).await;
                backoff.reset();
                continue;
            }
            Ok(PullEnd::Failed { detail, is_lasting }) => (detail, is_lasting),
            Err(panicked) => (format!("reading the {kind}: {panicked}"), false),
        };
        let known = supply.state().detail() == Some(&detail);
        if known {
            tracing::debug!(stream = %stream.name(), source = shown, detail, "{kind} still down");
        } else {
            tracing::warn!(stream = %stream.name(), source = shown, detail, "{kind} down");
        }
        supply.set_state(State::Down { detail });
        if live_since.is_some_and(|since: Instant| since.elapsed() >= WORKED) {
            backoff.reset();
        }
        let pause = if is_lasting {
            LONG_PAUSE
        } else {
            backoff.pause()
        };
        next_attempt = Instant::now() + pause;
        part(source, supervisor).await;
    }
}

/// Ends what the last connection left.
async fn part(source: &mut impl Pulled, supervisor: &Supervisor) {
    // What the source sends meanwhile is read like everything else of it.
    let _ = supervisor.catch_task(Part::Source, source.part()).await;
}

/// Shows again and again that the task makes progress.
async fn beat(heartbeat: &Heartbeat) -> ! {
    let mut ticks = tokio::time::interval(BEAT);
    loop {
        ticks.tick().await;
        heartbeat.beat();
    }
}
