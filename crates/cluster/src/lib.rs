//! Which node has a stream: records, claims, liveness and placement, without sockets.
//!
//! ```text
//!  server ── publish, view, pull failed, drain ──►  Node  ── Request ──► engine (NATS, memory,
//!         ◄── Event: admitted, redirect, pull … ──        ◄── Answer ───        fixed)
//!                                                          ◄── Incoming ──
//! ```
//!
//! Nothing here reads a clock or draws a random number: time and seeds come in.

pub mod engine;
pub mod name;
pub mod record;

pub use name::{Key, NodeId, Region, StreamName};
