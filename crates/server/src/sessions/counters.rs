//! Counters of shards and of connections for media over TCP, read by metrics.

use std::sync::Arc;

use glassline_egress::webrtc::SendCounters;
use glassline_ingest::{VoiceCounters, WhipCounters};
use glassline_messages::DataCounters;
use glassline_runtime::Counter;

use crate::sessions::peer::TalkCounters;

/// One shard's counts since the server started.
#[derive(Debug, Default)]
pub struct Counters {
    /// Keyframe requests (PLI and FIR) from viewers.
    pub keyframe_requests: Counter,
    /// Datagrams received since the server started.
    pub received: Counter,
    /// Datagrams that belong to no session and are not a valid first STUN request.
    pub stray: Counter,
    /// Datagrams that a session refused because they were malformed, replayed or not authentic.
    pub refused: Counter,
    /// Viewers whose media began.
    pub joined: Counter,
    /// Viewers handed over to another shard.
    pub moves: Counter,
    /// Sessions that ended before their handshake was done.
    pub handshakes_failed: Counter,
    /// Sessions closed because the stream's source came back with other codecs.
    pub closed_tracks_changed: Counter,
    /// Sessions closed because the stream was deleted.
    pub closed_deleted: Counter,
    /// Sessions closed because the video turned out to have B-frames.
    pub closed_reordered: Counter,
    /// Commands lost because the shard's inbox was full.
    pub inbox_full: Counter,
    /// Counts of media sent to viewers, shared with the outbox.
    pub send: Arc<SendCounters>,
    /// Counts of voice packets received from participants of rooms.
    pub voice: VoiceCounters,
    /// Counts of packets received from talkers.
    pub talk: TalkCounters,
    /// Counts of packets received from publishers.
    pub whip: WhipCounters,
    /// Counts of messages on data channels.
    pub data: DataCounters,
}

/// Connections for media over TCP since the server started.
#[derive(Debug, Default)]
pub(crate) struct TcpCounters {
    /// Connections that were accepted, refused ones included.
    pub(crate) accepted: Counter,
    /// Connections that were closed at once: too many, too fast, or no descriptor was left.
    pub(crate) refused: Counter,
    /// Connections that were closed because their first frame was no check of a session, or came
    /// too late.
    pub(crate) strangers: Counter,
    /// Connections that were handed to the shard of their session.
    pub(crate) handed_over: Counter,
}
