//! Which node has a stream: records, claims, liveness and placement, without sockets.
//!
//! ```text
//!  server ── publish, view, pull failed, drain ──►  Node  ── Request ──► engine: NATS,
//!         ◄── Event: admitted, redirect, pull … ──        ◄── Answer ─── memory
//!                                                         ◄── Incoming ─
//! ```
//!
//! Every stream has one record, which names its owner and an epoch. A node becomes the owner by
//! compare-and-swap, and holds the record without a lease: it is read again and written back when
//! the store lost it, and whoever sees a record with a higher epoch gives way. Other nodes are
//! judged by their beats and this node's own clock. Losing the engine stops no media.
//!
//! The crate does not know what a frame is, how nodes connect, or what NATS is. It reads no
//! clock and draws no random number: time and seeds come in.

mod config;
pub mod engine;
mod event;
mod liveness;
pub mod name;
mod node;
pub mod placement;
pub mod question;
pub mod record;
mod timers;

pub use config::{Config, Moment};
pub use event::{
    Access, Admission, Catalog, Event, Outcast, Policy, ProbeId, PublishDecision, PublisherId,
    PullId, Refusal, ViewDecision, ViewerId,
};
pub use liveness::SILENCE;
pub use name::{Key, NodeId, Region, StreamName};
pub use node::{Node, PATH_MAX, PeerView, ProbeResult, RunningPull};
