//! Notes for operators what happens to streams, and what has changed in other parts of the server, which
//! are looked at once a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use glassline_events::{
    Event, EventKind, EventLog, Load, READING, Reading, Severity, StreamObserver,
};
use glassline_hub::Status;
use glassline_rooms as rooms;
use glassline_runtime::{HubEvents, Part, calendar, spawn_kept};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::app::App;

/// Interval between two looks at certificates, threads and the cluster. A state that begins and ends
/// between two of them is no event.
const INTERVAL: Duration = Duration::from_secs(1);

/// Number of looks from one at the cluster to the next.
const CLUSTER_LOOKS: u64 = 3;

/// Looks at the server until `stopped` becomes true, and notes what has changed in `log`.
pub(super) fn spawn(
    app: &App,
    log: &Arc<EventLog>,
    stopped: &watch::Receiver<bool>,
) -> JoinHandle<()> {
    let (app, log, until) = (app.clone(), Arc::clone(log), stopped.clone());
    let supervisor = Arc::clone(&app.supervisor);
    let observe = move || observe(app.clone(), Arc::clone(&log), until.clone());
    spawn_kept(
        &supervisor,
        Part::Background.task("events"),
        stopped,
        observe,
    )
}

async fn observe(app: App, log: Arc<EventLog>, mut stopped: watch::Receiver<bool>) {
    let mut observer = Observer::default();
    let mut streams = StreamObserver::new(|name| app.stored.sources.fetches(name));
    let mut happens = HubEvents::new(&app.hub);
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let events = tokio::select! {
            happened = happens.next() => {
                let mut events = streams.observe(&happened);
                // Voices of rooms are private, and no event.
                events.retain(|it| !rooms::is_voice(&it.subject));
                events
            }
            _ = ticks.tick() => observer.look(&app),
            _ = stopped.wait_for(|stop| *stop) => return,
        };
        for event in events {
            log.note(event, Instant::now(), calendar::now());
        }
    }
}

/// The state at the look before.
#[derive(Debug, Default)]
struct Observer {
    certificates: BTreeMap<&'static str, CertificateSeen>,
    /// Threads that make no progress.
    stuck: Vec<String>,
    /// State of each server of the cluster, and of the connection to NATS under an empty name.
    cluster: BTreeMap<String, &'static str>,
    /// Whether this server drains.
    is_draining: bool,
    looks: u64,
}

#[derive(Debug, PartialEq, Eq)]
struct CertificateSeen {
    not_after: Option<SystemTime>,
    problem: Option<String>,
}

impl Observer {
    fn look(&mut self, app: &App) -> Vec<Event> {
        let mut events = Vec::new();
        self.look_at_certificates(app, &mut events);
        self.look_at_threads(app, &mut events);
        if self.looks.is_multiple_of(READING.as_secs()) {
            app.http.history.note(reading(app));
        }
        // The view of a cluster counts what each server has.
        if self.looks.is_multiple_of(CLUSTER_LOOKS) {
            self.look_at_cluster(app, &mut events);
        }
        self.looks += 1;
        events
    }

    fn look_at_certificates(&mut self, app: &App, events: &mut Vec<Event>) {
        for store in app.tls.certificates.iter() {
            let status = store.status();
            let seen = CertificateSeen {
                not_after: status.not_after,
                problem: status.problem,
            };
            let source = status.source;
            let (problem, not_after) = (seen.problem.clone(), seen.not_after);
            let before = self.certificates.insert(source, seen);
            let (was_problem, was_after) = before.map_or_else(
                || (None, not_after),
                |before| (before.problem, before.not_after),
            );
            let mut note = |severity, text: &str, reason| {
                let kind = EventKind::Certificate;
                events.push(event(kind, severity, source, text, reason));
            };
            if problem.is_some() && problem != was_problem {
                note(Severity::Bad, "was not renewed", problem);
            } else if not_after != was_after {
                note(Severity::Good, "was renewed", None);
            } else if problem.is_none() && was_problem.is_some() {
                note(Severity::Good, "was read again", None);
            }
        }
    }

    fn look_at_threads(&mut self, app: &App, events: &mut Vec<Event>) {
        let threads = app.supervisor.threads().into_iter();
        let stuck: Vec<String> = threads
            .filter(|it| it.is_stuck)
            .map(|it| it.thread)
            .collect();
        let kind = EventKind::Server;
        for thread in stuck.iter().filter(|it| !self.stuck.contains(it)) {
            let text = format!("thread {thread} makes no progress");
            events.push(event(kind, Severity::Bad, "", &text, None));
        }
        for thread in self.stuck.iter().filter(|it| !stuck.contains(it)) {
            let text = format!("thread {thread} makes progress again");
            events.push(event(kind, Severity::Good, "", &text, None));
        }
        self.stuck = stuck;
    }

    fn look_at_cluster(&mut self, app: &App, events: &mut Vec<Event>) {
        let Some(member) = app.sessions.directory().and_then(|it| it.member()) else {
            return;
        };
        let kind = EventKind::Cluster;
        let is_draining = member.is_draining();
        if is_draining != self.is_draining {
            let text = match is_draining {
                true => "drains: it takes no new publishers and sends viewers away",
                false => "serves again",
            };
            events.push(event(kind, Severity::Neutral, "", text, None));
            self.is_draining = is_draining;
        }
        let view = member.nodes_view();
        let engine = (String::new(), view.engine.state, view.engine.failure);
        let others = view.nodes.into_iter().filter(|it| it.name != view.node);
        let others = others.map(|it| (it.name, it.state, None));
        let seen: Vec<_> = std::iter::once(engine).chain(others).collect();
        let mut states = BTreeMap::new();
        for (name, state, reason) in seen {
            let before = self.cluster.get(&name).copied();
            states.insert(name.clone(), state);
            let severity = match state {
                "connected" | "serving" => Severity::Good,
                "away" | "dead" => Severity::Bad,
                _ => Severity::Neutral,
            };
            // The first heartbeats after the start are no events.
            if before.is_none_or(|it| it == state) && severity != Severity::Bad
                || before == Some(state)
            {
                continue;
            }
            let (subject, text) = match name.as_str() {
                "" => ("NATS", format!("is {state}")),
                name => (name, format!("is {state}")),
            };
            events.push(event(kind, severity, subject, &text, reason));
        }
        self.cluster = states;
    }
}

/// Reads how busy the server is. The numbers are at hand: no thread is asked.
fn reading(app: &App) -> Reading {
    let now = Instant::now();
    let mut load = Load {
        memory_mib: glassline_net::rss_bytes().map_or(0, |bytes| saturated(bytes >> 20)),
        ..Load::default()
    };
    for stream in app.hub.streams() {
        if !rooms::is_voice(stream.name().as_str()) {
            load.streams += 1;
            let status = stream.status(now);
            load.broken += u32::from(matches!(status, Status::Hangs | Status::Unreachable));
            load.viewers = load.viewers.saturating_add(saturated(stream.viewers()));
            load.in_bps = load.in_bps.saturating_add(stream.bitrate(now).bps());
        }
    }
    Reading {
        at: app.clock.uptime(),
        cpu: glassline_net::process_cpu(),
        load,
    }
}

/// Returns a number that is larger in theory alone.
fn saturated(number: impl TryInto<u32>) -> u32 {
    number.try_into().unwrap_or(u32::MAX)
}

fn event(
    kind: EventKind,
    severity: Severity,
    subject: &str,
    text: &str,
    reason: Option<String>,
) -> Event {
    Event {
        kind,
        severity,
        subject: subject.to_owned(),
        text: text.to_owned(),
        reason,
    }
}
