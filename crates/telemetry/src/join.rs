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
pub enum JoinPart {
    /// The part that the HTTP server knows.
    Request(Box<RequestPart>),
    /// The part that the thread of the session knows.
    Peer(Box<PeerPart>),
}

/// The part of a trace that the exchange of offer and answer tells.
#[derive(Debug)]
pub struct RequestPart {
    /// The trace that the join belongs to.
    pub context: TraceContext,
    /// The route of the request, such as `/{stream}/whep`.
    pub route: String,
    /// Name of the stream, file or room.
    pub stream: String,
    /// The role that the client wants.
    pub role: &'static str,
    /// Address that the request came from.
    pub client: IpAddr,
    /// Time at which the request arrived.
    pub started: Instant,
    /// When the client's rights were known; `None` if the request was refused before.
    pub admitted: Option<Instant>,
    /// Time at which this part ended.
    pub ended: Instant,
    /// Status of the answer.
    pub status: u16,
    /// The stage at which the request was refused, and why; `None` if it was not.
    pub refusal: Option<(&'static str, String)>,
    /// The session that the request made; `None` if it was refused.
    pub session: Option<SessionId>,
}

/// The part of a trace that the peer tells once media flows, or once it never will.
#[derive(Debug)]
pub struct PeerPart {
    /// Session that the offer has created.
    pub session: SessionId,
    /// Times of the steps towards the first media.
    pub steps: Steps,
    /// Time at which this part ended.
    pub ended: Instant,
    /// The way in which the join ended.
    pub outcome: Outcome,
}

/// When a connection passed each step; `None` if it did not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steps {
    /// The first authentic connectivity check arrived.
    pub heard: Option<Instant>,
    /// ICE has a path to the peer.
    pub path: Option<Instant>,
    /// The handshake of DTLS is done.
    pub connected: Option<Instant>,
    /// The first keyframe is there: to be sent to a viewer, or arrived of a publisher.
    pub keyframe: Option<Instant>,
    /// The first packet of media was handed to the kernel, or arrived of a publisher.
    pub packet: Option<Instant>,
}

/// How a join ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Media flows: the join succeeded.
    Connected,
    /// The client left before media flowed, or the server ended the session for a reason that is no
    /// failure.
    Left,
    /// The connection failed before media flowed.
    Failed {
        /// The stage at which the connection failed.
        stage: &'static str,
        /// The reason as people read it.
        reason: String,
        /// The remedy; `None` if the reason tells it.
        remedy: Option<String>,
    },
}

/// The sending end of the queue of parts. Sending never waits.
#[derive(Clone, Debug)]
pub struct JoinSender {
    parts: mpsc::Sender<JoinPart>,
    /// Counters of the parts that the queue had no place for.
    pub counters: Arc<TelemetryCounters>,
}

impl JoinSender {
    /// Adds a part to the queue, or drops and counts it if the queue is full.
    pub fn send(&self, part: JoinPart) {
        if self.parts.try_send(part).is_err() {
            self.counters.queue_full.add(1);
        }
    }
}

/// Creates the queue of parts.
pub fn queue(counters: &Arc<TelemetryCounters>) -> (JoinSender, mpsc::Receiver<JoinPart>) {
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
