//! The places in the code of tasks that fail on request.

/// A place in the code of a task where a test can make the server fail. The name in a request is
/// that of the variant, such as `quic-session`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(
    debug_assertions,
    derive(serde::Deserialize, schemars::JsonSchema),
    serde(rename_all = "kebab-case")
)]
pub enum FaultPoint {
    /// The task of an HTTP connection, before its first request.
    HttpConnection,
    /// The handling of an HTTP request, before its rights are checked.
    HttpRequest,
    /// The task of a connection for media over TCP, before its first frame.
    MediaConnection,
    /// The collection of metrics, when half of them are written.
    Metrics,
    /// A participant's joining of a room, when the participant is in the room and not answered yet.
    RoomJoin,
    /// The opening of a file, whether for a configured source or of the media folder.
    OpenFile,
    /// The reading of users and certificates again.
    Reload,
    /// The search for participants of rooms whose users have lost their rights.
    LostParticipants,
    /// The look of the watchdog at all threads.
    Watchdog,
    /// A QUIC session that was granted.
    QuicSession,
    /// The ingest of a broadcast that a session has announced.
    QuicBroadcast,
    /// The reading of one track of such a broadcast.
    QuicTrack,
    /// The offering of one stream to readers over QUIC.
    QuicStream,
    /// The offering of all streams to readers over QUIC.
    QuicCollection,
    /// The search for a stream on other servers.
    OriginSearch,
}
