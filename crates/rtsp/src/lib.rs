//! RTSP 1.0 without sockets: messages, interleaved frames, authentication,
//! session descriptions, and the state machines of both ends.
//!
//! ```text
//! TCP bytes ─► interleaved::Reader ─┬─ Message ─► client::Client, server::Connection
//!       tunnel (base64) ─┘          └─ Frame ───► RTP and RTCP, in place
//! events out, answers in ─► Request, Response ─► write ─► TCP bytes
//!   auth · transport · session · range · rtp_info · sdp: one header or body each
//! ```
//!
//! The pieces serve both ends: whatever one end writes, the other parses with the same type.
//! There is no clock, no randomness and no socket: the caller passes in instants, secrets and
//! bytes. Every length that a peer states is checked against a bound before anything is
//! allocated for it.
//!
//! Deviations of real implementations from the RFC are accepted where they can mean only one
//! thing; a comment at the place that reads them names them.
//!
//! Sources: RFC 2326 (RTSP 1.0), RFC 7616 and 2617 (digest), RFC 7617 (basic),
//! RFC 8866 (SDP), RFC 3551 (static payload types), Apple's tunnel through HTTP,
//! RFC 4567 and 3830 (keys of SRTP).

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

pub mod auth;
pub mod client;
pub mod interleaved;
pub mod message;
pub mod mikey;
mod output;
pub mod range;
pub mod replay;
pub mod rtp_info;
pub mod sdp;
pub mod server;
pub mod session;
pub mod transport;
pub mod tunnel;

pub use client::Client;
pub use message::{Headers, Limits, Message, Method, Request, Response, Status, Version};
