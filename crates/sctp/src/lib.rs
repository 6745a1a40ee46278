//! SCTP as data channels use it, without input or output.
//!
//! ```text
//!  message ─► send: queue ─ scheduler ─ outstanding data ───┐          poll_transmit
//!                    ▲  recovery (RACK, probe, T3)          ├─► packet ─────────────► DTLS
//!                    └─ glassline_congestion::Flow          │
//!  SACK, resets, handshake, heartbeats: association ────────┘
//!                                                              handle_packet, end_batch
//!  Event::Message ◄─ receive: streams ◄─ reassembly ◄─ data tracker ◄───────────── DTLS
//! ```
//!
//! - [`packet`], [`chunk`]: the wire format, one file per chunk, named as in the RFC.
//! - [`Association`]: RFC 9260 with partial reliability (RFC 3758), stream reconfiguration
//!   (RFC 6525), interleaving (RFC 8260), zero checksum (RFC 9653) and path MTU discovery
//!   (RFC 8899).
//! - [`channel`]: DCEP (RFC 8832) and data channels (RFC 8831) on top of an association.
//!
//! Packets come and go in batches: the caller hands in all that a read returned, ends the
//! batch with [`Association::end_batch`], and then takes packets of equal size until there
//! are none, so that one cipher run and one system call serve many packets, and few SACKs do.
//!
//! There is one path only: under DTLS and ICE there is no multi-homing. Nothing here reads a
//! clock or draws a random number; random numbers come in as [`Secrets`].

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

mod association;
pub mod channel;
pub mod chunk;
mod config;
mod error;
mod event;
pub mod packet;
mod parse;
mod receive;
mod report;
mod reset;
mod send;
mod sequence;
mod stream_map;
mod timer;

pub use association::Association;
pub use config::{Config, Reliability, Secrets, SendOptions};
pub use error::{Dropped, ResetError, SendError};
pub use event::{CloseReason, Direction, Event};
pub use glassline_congestion::Algorithm;
pub use parse::ParseError;
pub use report::{Report, State};
pub use sequence::{Mid, Ssn, Tsn};
