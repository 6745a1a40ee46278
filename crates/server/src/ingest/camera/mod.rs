//! Ingest from cameras that the server connects to over RTSP.
//!
//! ```text
//! Client (RTSP) ─► TrackPipeline (RTP order) ─► Assembler (access units, media units) ─► Publisher
//! ```
//!
//! A camera may be hostile or broken: every message and every queue is bounded. The server connects
//! again to a camera that fails, without an end; the stream shows why it is down.

mod failure;
mod limits;
mod ports;
mod receiver;
mod session;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{State, Stream};
use tokio::sync::watch;

use super::RtspSource;
use super::backoff::Backoff;
use crate::runtime::{Heartbeat, Part, Supervisor};

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
    pub(super) heartbeat: Heartbeat,
    pub(super) stopped: watch::Receiver<bool>,
}

/// Publishes what `camera` sends into `stream` until the server is stopped.
pub(super) async fn run(camera: RtspSource, stream: Arc<Stream>, life: Life) {
    let Life {
        supervisor,
        heartbeat,
        mut stopped,
    } = life;
    let pulling = async {
        let mut backoff = Backoff::new();
        loop {
            let mut live_since = None;
            // A camera whose data makes the server panic is down, like one that is broken.
            let pulling = async {
                tokio::select! {
                    failure = session::pull(&camera, &stream, &mut live_since) => failure,
                    never = beat(&heartbeat) => never,
                }
            };
            let pulled = supervisor.catch_task(Part::Source, pulling).await;
            let (detail, is_lasting) = match pulled {
                Ok(failure) => (failure.to_string(), failure.is_lasting()),
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
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                never = beat(&heartbeat) => never,
            }
        }
    };
    tokio::select! {
        () = pulling => {}
        // A dropped sender means that the server ends.
        _ = stopped.wait_for(|stop| *stop) => {}
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
