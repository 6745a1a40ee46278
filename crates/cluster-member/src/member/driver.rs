//! The task that hands time and the engine's events to the core, and carries out its decisions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_cluster::Node;
use glassline_cluster::engine::Incoming;
use glassline_cluster::record::Beat;
use glassline_cluster_nats::{EngineEvent, EngineEvents};
use glassline_quic::Fingerprint;
use tokio::sync::watch;
use tokio::time::MissedTickBehavior;

use super::followed::LOOK;
use super::{Member, Reachable, moment};

/// Most events that are taken before the core's decisions are carried out.
const EVENTS_AT_ONCE: usize = 256;

/// Longest time from the server's stop until this server has given its streams up.
const FAREWELL: Duration = Duration::from_millis(1_500);

/// Time after which it is said again that another server has this one's name.
const WARN_AGAIN: Duration = Duration::from_secs(30);

/// Hands events to the core.
#[derive(Debug)]
pub(super) struct Driver {
    member: Arc<Member>,
    events: EngineEvents,
    reachable: Reachable,
    fingerprint: watch::Receiver<Fingerprint>,
    stopped: watch::Receiver<bool>,
    /// When the driver ends, once the server stops.
    until: Option<Instant>,
    /// When it was last said that another server has this one's name.
    warned: Option<Instant>,
}

/// The next step of the driver.
enum Step {
    Event(Option<EngineEvent>),
    Look,
    Describe,
    Leave,
    /// The core has something to carry out, or something is due.
    Nothing,
}

impl Driver {
    pub(super) fn new(
        member: Arc<Member>,
        events: EngineEvents,
        reachable: Reachable,
        fingerprint: watch::Receiver<Fingerprint>,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        let driver = Self {
            member,
            events,
            reachable,
            fingerprint,
            stopped,
            until: None,
            warned: None,
        };
        driver.describe();
        driver
    }

    /// Runs until the server has stopped and given its streams up.
    pub(super) async fn run(&mut self) {
        let mut looks = tokio::time::interval(LOOK);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.member.carry_out();
            if self.has_left() {
                return;
            }
            let due = self.member.core.lock().node.poll_timeout();
            let due = async {
                match due {
                    Some(at) => tokio::time::sleep_until(at.into()).await,
                    None => std::future::pending().await,
                }
            };
            let is_stopping = self.until.is_some();
            let step = tokio::select! {
                event = self.events.next() => Step::Event(event),
                () = self.member.changed.woken() => Step::Nothing,
                () = due => Step::Nothing,
                _ = looks.tick() => Step::Look,
                Ok(()) = self.fingerprint.changed() => Step::Describe,
                // A dropped sender means that the server ends.
                () = stop(&mut self.stopped), if !is_stopping => Step::Leave,
            };
            match step {
                Step::Event(Some(event)) => self.take(event),
                Step::Event(None) => return,
                Step::Look => {
                    self.member.look();
                    self.member.tell_names();
                }
                Step::Describe => self.describe(),
                Step::Leave => self.leave(),
                Step::Nothing => {}
            }
            self.member.keep_time();
        }
    }

    /// Takes an event and those that wait behind it.
    fn take(&mut self, first: EngineEvent) {
        let mut is_doubled = false;
        let mut core = self.member.core.lock();
        let rest = std::iter::from_fn(|| self.events.try_next());
        for event in std::iter::once(first).chain(rest.take(EVENTS_AT_ONCE)) {
            match event {
                EngineEvent::Answer(answer) => {
                    let answer = self.member.authentic.check_answer(answer);
                    core.node.handle_answer(moment(), answer);
                }
                EngineEvent::Incoming(incoming) => {
                    let incoming = self.member.authentic.check_incoming(incoming);
                    is_doubled |= is_of_another_process(&core.node, &incoming);
                    core.node.handle_incoming(moment(), incoming);
                }
            }
        }
        drop(core);
        if is_doubled {
            self.warn_of_double();
        }
    }

    /// Two servers of one name give each other's streams up.
    fn warn_of_double(&mut self) {
        let now = Instant::now();
        if self.warned.is_none_or(|at| now - at >= WARN_AGAIN) {
            self.warned = Some(now);
            let name = self.member.options.node.as_str();
            tracing::error!(
                name,
                "another server of the cluster has the same name: give each one its own `cluster.name`"
            );
        }
    }

    /// Tells the other servers how this one is reached.
    fn describe(&self) {
        let record = self.reachable.record(*self.fingerprint.borrow());
        self.member.core.lock().node.set_record(moment(), record);
    }

    /// Gives all streams up, because the server stops.
    fn leave(&mut self) {
        let now = moment();
        self.until = Some(now.at + FAREWELL);
        self.member.core.lock().node.leave(now);
    }

    fn has_left(&self) -> bool {
        self.until.is_some_and(|until| {
            let is_free = self.member.core.lock().node.holds_nothing();
            is_free || Instant::now() >= until
        })
    }
}

/// Returns whether a heartbeat under this server's name comes from another process.
fn is_of_another_process(node: &Node, incoming: &Incoming) -> bool {
    let Incoming::Beat {
        node: name,
        payload,
    } = incoming
    else {
        return false;
    };
    let is_own_name = name == node.id();
    is_own_name && Beat::parse(payload).is_ok_and(|beat| beat.inc != node.incarnation())
}

async fn stop(stopped: &mut watch::Receiver<bool>) {
    let _ = stopped.wait_for(|stop| *stop).await;
}

impl Member {
    /// Lets the core do what is due.
    fn keep_time(&self) {
        let (mut core, now) = (self.core.lock(), moment());
        if core.node.poll_timeout().is_some_and(|at| at <= now.at) {
            core.node.handle_timeout(now);
        }
    }
}
