//! Media over QUIC: broadcasts published to a server, and read from one.
//!
//! ```text
//! connect ─► Session ─ publish ─► Broadcast ─ write(frame) ─► group per keyframe ─► stream
//! Origin ─ announce ─► AwaitedBroadcast ─ with_tracks ─► Broadcast
//! Server ─ accept ─► Incoming ─► SessionRequest ─ grant ─► Session
//! Session ─ announced, subscribe ─► BroadcastReader ─► TrackReader ─► ReceivedFrame
//! ```
//!
//! The wire protocol is moq-lite (`moq-net`), on raw QUIC or on WebTransport. A catalog
//! describes each broadcast (`hang`'s format, with the legacy container). Both change often, so
//! neither is visible outside of this module.
//!
//! Catalogs, the container and WebTransport sessions are implemented here, because the crates
//! for them bring dependencies for JSON and regular expressions, licenses that this project
//! does not accept, and root certificates of a browser.
//!
//! Groups that are later than their deadline are reset, not queued. Audio is sent before video,
//! and the newest group of a track before older ones.

// This module is a shell around moq-net: sessions run on tokio and read its clock.
#![expect(
    clippy::disallowed_methods,
    reason = "sessions run on sockets and read the clock"
)]

mod address;
mod awaited_broadcast;
mod broadcast;
mod broadcast_reader;
mod bursts;
mod capsules;
mod catalog;
mod codec;
mod control_datagrams;
mod ended;
mod error;
mod frame;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod keyframe_requests;
mod lag;
mod message_opener;
mod message_stream;
mod node_session;
mod origin;
mod published_track;
mod refusal;
mod request_opener;
mod request_stream;
mod server;
mod session;
mod session_stats;
mod stream;
mod track_config;
mod transport;
mod unchecked;
mod urgency;
mod version;
mod web;
mod write_error;

#[cfg(test)]
mod tests;

pub use address::{Address, AddressError, PORT};
pub use awaited_broadcast::AwaitedBroadcast;
pub use broadcast::Broadcast;
pub use broadcast_reader::{
    BroadcastReader, BroadcastTracks, ReceivedFrame, SubscribeError, TrackReader,
};
#[cfg(any(test, fuzzing))]
pub use bursts::parse_unit;
pub use bursts::{
    DrawnCode, KeyframeRequester, NodeClock, NodeName, NodeNameError, NodeRequest, NodeRequests,
    ObjectError, PATH_MAX, PeerClock, Provenance, ReadError, ReceivedUnit, RequestRefusal,
    SentStamps, UnitBroadcast, UnitBroadcastReader, UnitCatalog, UnitCatalogError, UnitReader,
};
pub use catalog::{Catalog, CatalogError, LAYERS_MAX, Rendition, UnsupportedRendition};
pub use codec::{Framing, is_carried};
pub use control_datagrams::{Report, RoundTrips};
pub use ended::Ended;
pub use frame::{BYTES_MAX as FRAME_BYTES_MAX, Frame, FrameError, parse as parse_frame};
pub use message_opener::MessageOpener;
pub use message_stream::{
    MESSAGES_VERSION, MessageReceiver, MessageRefusal, MessageRequest, MessageRequests,
    MessageSender, MessageStreamError,
};
pub use node_session::{NodeAddress, connect_node};
pub use origin::Origin;
pub use refusal::Refusal;
pub use request_stream::{RequestStream, RequestStreams};
pub use server::{Grant, HandshakeFault, Incoming, RequestError, Server, SessionRequest};
pub use session::{Announced, Announcement, ConnectError, Options, Role, Session, connect};
pub use session_stats::SessionStats;
pub use track_config::TrackConfig;
pub use unchecked::{StreamKind, UncheckedStream};
pub use web::{HandshakeError, Page};
pub use write_error::WriteError;
