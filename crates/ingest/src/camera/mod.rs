//! Ingest from cameras that the server connects to over RTSP.
//!
//! ```text
//! Client (RTSP) ─► Receiver: UnitReceiver (access units) ─► LivePublisher ─► hub
//! ```
//!
//! A camera may be hostile or broken: every message and every queue is bounded. The server connects
//! again to a camera that fails, without an end; the stream shows why it is down. A camera on demand is
//! connected while somebody needs its stream.

mod connection;
mod failure;
mod limits;
mod ports;
mod receiver;
mod route;
mod senders;
mod session;
mod socket;
mod transport;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{State, Stream};
use glassline_runtime::{Heartbeat, Part, Supervisor};
use tokio::sync::watch;

use super::backoff::Backoff;
use super::on_demand::{self, OnDemand};
use super::{CameraSource, UdpPorts};
pub use connection::{CameraConnection, Purpose};
pub use failure::Failure;
use session::Assignment;
use transport::CameraTransport;

/// Time of publishing after which a session counts as working, so that the next pause is short
/// again. A camera that answers and then sends nothing usable is not called more often for that.
const WORKED: Duration = Duration::from_secs(5);

/// Pause before the next attempt when a camera refuses the password; nobody can fix that within
/// seconds.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// Interval at which the task of a camera shows that it makes progress.
const BEAT: Duration = Duration::from_millis(500);

/// What keeps the task of a camera running, and ends it.
pub(super) struct Life {
    pub(super) supervisor: Arc<Supervisor>,
    /// The UDP ports that cameras may take; `None` for any.
    pub(super) udp_ports: Option<UdpPorts>,
    pub(super) stopped: watch::Receiver<bool>,
}

/// The end of a session with a camera.
enum SessionEnd {
    /// The camera, the network or the server failed; the failure is the reason for people.
    Failed(Failure),
    /// The camera was left, because nobody needs its stream.
    Unneeded,
}

/// Publishes what `camera` sends into `stream` until the server is stopped. Requests that come before
/// the first poll wait for a camera on demand, too.
pub(super) fn run(
    camera: CameraSource,
    stream: Arc<Stream>,
    life: Life,
) -> impl Future<Output = ()> + Send {
    if camera.on_demand.is_some() {
        on_demand::begin_idle(&stream);
    }
    async move {
        let Life {
            supervisor,
            udp_ports,
            mut stopped,
        } = life;
        let assignment = Assignment {
            camera: &camera,
            stream: &stream,
            udp_ports,
        };
        let mut transport = None;
        tokio::select! {
            never = pull_while_needed(assignment, &mut transport, &supervisor) => never,
            // A dropped sender means that the server ends.
            _ = stopped.wait_for(|stop| *stop) => {}
        }
        part(&mut transport, &supervisor).await;
    }
}

/// Connects to a camera again and again, whenever its stream is needed. `transport` is that of a session
/// that the camera has not been told the end of.
async fn pull_while_needed(
    assignment: Assignment<'_>,
    transport: &mut Option<CameraTransport>,
    supervisor: &Arc<Supervisor>,
) -> ! {
    let Assignment { camera, stream, .. } = assignment;
    let on_demand = OnDemand::new(stream, camera.on_demand);
    let mut backoff = Backoff::new();
    let mut next_attempt = Instant::now();
    loop {
        on_demand.needed().await;
        // Nobody expects signs of life while the camera is left alone.
        let heartbeat = supervisor.register(Part::Source, &format!("camera {}", stream.name()));
        let mut live_since = None;
        let pulling = async {
            tokio::time::sleep_until(next_attempt.into()).await;
            session::pull(assignment, transport, &on_demand, &mut live_since).await
        };
        // A camera whose data makes the server panic is down, like one that is broken.
        let pulling = async {
            tokio::select! {
                end = pulling => end,
                never = beat(&heartbeat) => never,
            }
        };
        let pulled = supervisor.catch_task(Part::Source, pulling).await;
        let (detail, is_lasting) = match pulled {
            Ok(SessionEnd::Unneeded) => {
                tracing::info!(stream = %stream.name(), %camera, "nobody watches: camera left");
                part(transport, supervisor).await;
                backoff.reset();
                continue;
            }
            Ok(SessionEnd::Failed(failure)) => (failure.to_string(), failure.is_lasting()),
            Err(panicked) => (format!("reading the camera: {panicked}"), false),
        };
        let known = stream.state().detail() == Some(&detail);
        if known {
            tracing::debug!(stream = %stream.name(), %camera, detail, "camera still down");
        } else {
            tracing::warn!(stream = %stream.name(), %camera, detail, "camera down");
        }
        stream.set_state(State::Down { detail });
        if live_since.is_some_and(|since: Instant| since.elapsed() >= WORKED) {
            backoff.reset();
        }
        let pause = if is_lasting {
            LONG_PAUSE
        } else {
            backoff.pause()
        };
        next_attempt = Instant::now() + pause;
        part(transport, supervisor).await;
    }
}

/// Tells the camera goodbye, if it is connected. May be dropped, and begun anew.
async fn part(transport: &mut Option<CameraTransport>, supervisor: &Supervisor) {
    if let Some(leaving) = transport {
        // What the camera sends meanwhile is read like everything else of it.
        let _ = supervisor.catch_task(Part::Source, leaving.leave()).await;
        *transport = None;
    }
}

/// Shows again and again that the task makes progress.
async fn beat(heartbeat: &Heartbeat) -> ! {
    let mut ticks = tokio::time::interval(BEAT);
    loop {
        ticks.tick().await;
        heartbeat.beat();
    }
}
