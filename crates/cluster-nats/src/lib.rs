//! The engine of a cluster in NATS: records in JetStream, heartbeats and questions as core messages.
//!
//! ```text
//!            Engine::request(Request) ─► Pledge ─► a task a call ─► Store, Connection ─► nats-server
//!  core     ◄── EngineEvents::next: Answer ◄──┘                                                  │
//!           ◄── EngineEvents::next: Incoming ◄─ Queue ◄─ readers: beats, questions, changes ◄────┘
//! ```
//!
//! One task keeps a session: it connects, makes and checks the two buckets, and starts anew with a
//! fresh client when the connection or a bucket is lost, so that nothing queued in an old client is
//! sent late. Nothing waits for the core: what does not fit into the queue is dropped and counted.
//!
//! The engine decides nothing: which node has a stream is the business of `glassline-cluster`. Only
//! this crate knows async-nats, and of it only core messages. The requests to JetStream are written
//! here, because its error codes and time-outs decide whether a write may have been applied.
//!
//! Sources: NATS client protocol and JetStream API reference (docs.nats.io), ADR-8 (key-value
//! stores), ADR-15 (acknowledgement subjects), ADR-43 (TTL of a message).

#![expect(
    clippy::disallowed_methods,
    reason = "an engine talks to servers in real time and draws its own jitter"
)]

mod api;
mod backoff;
mod bucket;
mod connection;
mod delivery;
mod engine;
mod link;
mod monitoring;
mod options;
mod queue;
mod session;
mod status;
mod store;
mod trial;
mod watch;

pub use api::parse_message_headers;
pub use connection::{ConnectFailure, FailureKind};
pub use delivery::{Delivery, DeliveryError};
pub use engine::{Busy, Engine};
pub use monitoring::{SyncError, parse_sync_always};
pub use options::{Login, Options, ServerUrl, ServerUrlError, TlsFiles};
pub use queue::{Dropped, EngineEvent, EngineEvents};
pub use status::{Link, Status};
pub use trial::{Tried, try_servers};
