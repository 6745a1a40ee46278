//! Cameras that are pulled from over RTSP.
//!
//! ```text
//! retina (RTSP, RTP order) ─► Assembler (access units, bursts) ─► Publisher
//! ```
//!
//! retina speaks RTSP to real cameras with all their quirks; its raw packets
//! are taken rather than its frames, because it has no Opus and because the
//! arrival of every packet counts here. A camera that fails is called again,
//! for ever; its stream says why it is down.

mod session;

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{State, Stream};
use tokio::sync::watch;

use super::RtspSource;
use super::backoff::Backoff;

/// A session that lasted this long worked, so the next pause is short again.
const WORKED: Duration = Duration::from_secs(5);

/// For a camera that refuses our password; nobody can mend that within seconds.
const LONG_PAUSE: Duration = Duration::from_secs(30);

/// Publishes what `camera` sends into `stream` until `stopped` says so.
pub(super) async fn run(
    camera: RtspSource,
    stream: Arc<Stream>,
    mut stopped: watch::Receiver<bool>,
) {
    let pulling = async {
        let mut backoff = Backoff::new();
        loop {
            let began = Instant::now();
            let failure = session::pull(&camera, &stream).await;
            let detail = failure.to_string();
            let known = stream.state().detail() == Some(&detail);
            if known {
                tracing::debug!(stream = %stream.name(), %camera, detail, "camera still down");
            } else {
                tracing::warn!(stream = %stream.name(), %camera, detail, "camera down");
            }
            stream.set_state(State::Down { detail });
            if began.elapsed() >= WORKED {
                backoff.reset();
            }
            let pause = if failure.is_lasting() {
                LONG_PAUSE
            } else {
                backoff.pause()
            };
            tokio::time::sleep(pause).await;
        }
    };
    tokio::select! {
        () = pulling => {}
        // A sender that is gone means the server is, too.
        _ = stopped.wait_for(|stop| *stop) => {}
    }
}
