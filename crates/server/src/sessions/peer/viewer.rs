//! The role of a peer that is sent a stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{Stream, ViewerToken};
use glassline_webrtc::Session;

use crate::egress::webrtc::StreamSender;

/// How often the log says that one viewer is too slow: the log must not become the slow
/// part.
const SKIP_LOGGED: Duration = Duration::from_secs(10);

/// What only a viewer needs: its sender, and its place in the stream's count.
#[derive(Debug)]
pub(crate) struct Viewer {
    pub(super) sender: StreamSender,
    /// Counts it among the stream's viewers, from the handshake on.
    token: Option<ViewerToken>,
    last_skip_logged: Option<Instant>,
    /// When what its feedback tells was shown last.
    pub(super) path_shown: Option<Instant>,
}

impl Viewer {
    /// A viewer of `stream` by `session`, whose handshake is still to come. A frame
    /// waits for it no longer than `lag`, if there is one.
    pub(crate) fn new(
        session: &Session,
        stream: &Stream,
        lag: Option<Duration>,
        now: Instant,
    ) -> Self {
        Self {
            sender: StreamSender::new(session, stream, lag, now),
            token: None,
            last_skip_logged: None,
            path_shown: None,
        }
    }

    /// The session has keys: media begins.
    pub(super) fn start(&mut self, session: &mut Session, stream: &Arc<Stream>, now: Instant) {
        self.token = Some(stream.viewer());
        self.sender.start(session, stream, now);
    }

    /// Whether the log should say that bursts were dropped at `now`.
    pub(super) fn log_skip(&mut self, now: Instant) -> bool {
        let quiet = self
            .last_skip_logged
            .is_none_or(|at| now.saturating_duration_since(at) > SKIP_LOGGED);
        if quiet {
            self.last_skip_logged = Some(now);
        }
        quiet
    }
}
