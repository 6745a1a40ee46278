//! The parts of a join, as its request and its peer tell them.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use glassline_runtime::SessionId;
use tokio::sync::mpsc;

use super::counters::TelemetryCounters;
use super::trace_context::TraceContext;

/// Most parts that wait to be assembled. A part has 2 KiB at most.
const QUEUE_MAX: usize = 2_048;

/// One part of a join.
#[derive(Debug)]
pub(crate) enum JoinPart {
    Request(Box<RequestPart>),
    Peer(Box<PeerPart>),
}

/// The part of a trace that the exchange of offer and answer tells.
#[derive(Debug)]
pub(crate) struct RequestPart {
    pub(crate) context: TraceContext,
    /// The route of the request, such as `/{stream}/whep`.
    pub(crate) route: String,
    /// Name of the stream, file or room.
    pub(crate) stream: String,
    /// The role that the client wants.
    pub(crate) role: &'static str,
    pub(crate) client: IpAddr,
    pub(crate) started: Instant,
    /// When the client's rights were known; `None` if the request was refused before.
    pub(crate) admitted: Option<Instant>,
    pub(crate) ended: Instant,
    /// Status of the answer.
    pub(crate) status: u16,
    /// The stage at which the request was refused, and why; `None` if it was not.
    pub(crate) refusal: Option<(&'static str, String)>,
    /// The session that the request made; `None` if it was refused.
    pub(crate) session: Option<SessionId>,
}

/// The part of a trace that the peer tells once media flows, or once it never will.
#[derive(Debug)]
pub(crate) struct PeerPart {
    pub(crate) session: SessionId,
    pub(crate) steps: Steps,
    pub(crate) ended: Instant,
    pub(crate) outcome: Outcome,
}

/// When a connection passed each step; `None` if it did not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Steps {
    /// The first authentic connectivity check arrived.
    pub(crate) heard: Option<Instant>,
    /// ICE has a path to the peer.
    pub(crate) path: Option<Instant>,
    /// The handshake of DTLS is done.
    pub(crate) connected: Option<Instant>,
    /// The first keyframe is there: to be sent to a viewer, or arrived of a publisher.
    pub(crate) keyframe: Option<Instant>,
    /// The first packet of media was handed to the kernel, or arrived of a publisher.
    pub(crate) packet: Option<Instant>,
}

/// How a join ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// Media flows: the join succeeded.
    Connected,
    /// The client left before media flowed, or the server ended the session for a reason that is no
    /// failure.
    Left,
    Failed {
        /// The stage at which the connection failed.
        stage: &'static str,
        reason: String,
        /// The remedy; `None` if the reason tells it.
        remedy: Option<String>,
    },
}

/// The sending end of the queue of parts. Sending never waits.
#[derive(Clone, Debug)]
pub(crate) struct JoinSender {
    parts: mpsc::Sender<JoinPart>,
    pub(crate) counters: Arc<TelemetryCounters>,
}

impl JoinSender {
    /// Adds a part to the queue, or drops and counts it if the queue is full.
    pub(crate) fn send(&self, part: JoinPart) {
        if self.parts.try_send(part).is_err() {
            self.counters.queue_full.add(1);
        }
    }
}

/// Creates the queue of parts.
pub(crate) fn queue(counters: &Arc<TelemetryCounters>) -> (JoinSender, mpsc::Receiver<JoinPart>) {
    let (parts, waiting) = mpsc::channel(QUEUE_MAX);
    let counters = Arc::clone(counters);
    (JoinSender { parts, counters }, waiting)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_queue_drops_and_counts_and_never_waits() {
        let counters = Arc::<TelemetryCounters>::default();
        let (sender, waiting) = queue(&counters);
        let now = Instant::now();
        for number in 0..QUEUE_MAX + 7 {
            sender.send(JoinPart::Peer(Box::new(PeerPart {
                session: SessionId::new(&number.to_string()),
                steps: Steps::default(),
                ended: now,
                outcome: Outcome::Connected,
            })));
        }
        assert_eq!(counters.queue_full.get(), 7);
        drop(waiting);
    }
}
