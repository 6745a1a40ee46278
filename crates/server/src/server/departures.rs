//! Viewers who are sent to other servers of the cluster.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::app::App;
use crate::config::Rebalance;
use crate::sessions::{ChangeError, EndReason, SessionRecord};
use crate::{quic, rtsp};

/// A stream that sent nothing for this long is on its way to another server, or has stopped.
const FLOWS: Duration = Duration::from_secs(1);

/// A viewer who is to be served by another server.
#[derive(Debug)]
pub(super) enum Viewer {
    Webrtc(Arc<SessionRecord>),
    Rtsp {
        thread: rtsp::Handle,
        address: SocketAddr,
        stream: String,
        since: Instant,
    },
    /// A session over QUIC that reads; it may read any number of streams.
    Moq {
        quic: Arc<quic::Shared>,
        id: u64,
    },
}

/// Returns the viewers of streams by WebRTC, RTSP and QUIC, without those of files.
pub(super) async fn viewers(app: &App) -> Vec<Viewer> {
    let sessions = app.sessions.viewers().into_iter();
    let mut viewers: Vec<Viewer> = sessions.map(Viewer::Webrtc).collect();
    let threads = app.rtsp.iter().flat_map(|rtsp| rtsp.threads());
    for thread in threads {
        // A thread without an answer ends, or is stuck; its players stay until the end.
        let clients = thread.clients().await.unwrap_or_default();
        for client in clients.into_iter().filter(rtsp::ClientView::is_player) {
            if app.hub.stream(&client.stream).is_some() {
                viewers.push(Viewer::Rtsp {
                    thread: thread.clone(),
                    address: client.address,
                    stream: client.stream,
                    since: client.since,
                });
            }
        }
    }
    if let Some(quic) = &app.quic {
        viewers.extend(quic.readers().into_iter().map(|id| Viewer::Moq {
            quic: Arc::clone(quic),
            id,
        }));
    }
    viewers
}

/// What became of a group of viewers who were to be sent away.
pub(super) struct SentGroup {
    /// Number of viewers who were sent away.
    pub(super) sent: usize,
    /// Viewers who are still here.
    pub(super) left: Vec<Viewer>,
}

/// Sends up to `group` viewers away, for the reason `why`. Viewers of a stream that is on its way from
/// this server to another one stay a little: they would find it nowhere.
pub(super) async fn send_group(
    app: &App,
    viewers: Vec<Viewer>,
    group: usize,
    why: EndReason,
) -> SentGroup {
    let mut left = Vec::new();
    let mut sent = 0;
    for viewer in viewers {
        let flows = viewer.stream().is_none_or(|name| flows(app, name));
        if sent == group || !flows {
            left.push(viewer);
            continue;
        }
        match viewer.send_away(app, why).await {
            Departure::Sent => sent += 1,
            Departure::Later => left.push(viewer),
            Departure::Gone => {}
        }
    }
    SentGroup { sent, left }
}

/// Returns whether media of the stream arrives.
fn flows(app: &App, name: &str) -> bool {
    app.hub.stream(name).is_some_and(|stream| {
        let silent = stream.silent_for(Instant::now());
        silent.is_some_and(|silent| silent < FLOWS)
    })
}

/// What became of a viewer who was to be sent away.
enum Departure {
    Sent,
    /// The thread that serves the viewer takes no command now.
    Later,
    /// The viewer left before.
    Gone,
}

impl Viewer {
    /// Returns the stream that is watched; `None` if that is not known.
    pub(super) fn stream(&self) -> Option<&str> {
        match self {
            Self::Webrtc(record) => Some(record.stream.as_str()),
            Self::Rtsp { stream, .. } => Some(stream),
            Self::Moq { .. } => None,
        }
    }

    /// Returns when the viewer came; `None` for a reader of MoQ, which is not led to another server.
    pub(super) fn came(&self) -> Option<Instant> {
        match self {
            Self::Webrtc(record) => Some(record.created()),
            Self::Rtsp { since, .. } => Some(*since),
            Self::Moq { .. } => None,
        }
    }

    /// Returns whether the viewer may be sent away although this server stays.
    pub(super) fn may_move(&self, which: Rebalance) -> bool {
        match which {
            Rebalance::Pages => matches!(self, Self::Webrtc(record) if record.has_reported()),
            Rebalance::All => !matches!(self, Self::Moq { .. }),
            Rebalance::Off => false,
        }
    }

    async fn send_away(&self, app: &App, why: EndReason) -> Departure {
        match self {
            Self::Webrtc(record) => match app.sessions.send_elsewhere(record, why).await {
                Ok(()) => Departure::Sent,
                Err(ChangeError::Busy) => Departure::Later,
                Err(_) => Departure::Gone,
            },
            Self::Rtsp {
                thread, address, ..
            } => match thread.send_elsewhere(*address).await {
                Some(true) => Departure::Sent,
                Some(false) => Departure::Gone,
                None => Departure::Later,
            },
            Self::Moq { quic, id } => match quic.send_elsewhere(*id) {
                true => Departure::Sent,
                false => Departure::Gone,
            },
        }
    }
}
