//! Voice without devices: from packets to a steady stream of samples.
//!
//! ```text
//! packet ─► jitter::Buffer ─┬─ Queue: order, duplicates, wraps, bounds
//!  (RED blocks too)         ├─ Target: how long to wait, from arrivals and from underruns
//!                           ├─ Decoder (yours): speech, FEC, concealment, comfort noise
//!                           ├─ Tape: what was played, what is decoded and not yet played
//!                           │    ├─ stretch: a pitch period less, or one more
//!                           │    └─ expand: goes on when there is nothing
//!                           └─► pull(now): 2.5 ms, 10 ms, as the device asks
//!
//! device's periods ─► Reframer ─► frames of one length, with the time of each
//! ```
//!
//! Where the ends are two hosts, [`far`] carries the stamps of one to the other, and
//! [`clock`] places them on its clock.
//!
//! No clock, no device, no codec: `now` and the decoder come in. The same packets at
//! the same times give the same samples. What a packet's wait is, is counted here;
//! what it is compared with is the laboratory's.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

#[cfg(test)]
mod call;
pub mod clock;
mod codec;
mod expand;
pub mod far;
pub mod jitter;
mod limit;
pub mod listener;
mod meter;
mod mix;
pub mod opus;
mod pitch;
mod player;
pub mod preprocess;
mod reframe;
mod resample;
pub mod speaker;
mod stamps;
mod stretch;
mod tape;

pub use codec::{Decoder, Encoder, Format, L16, Undecodable, Unencodable};
pub use glassline_media::{Bitrate, Ssrc};
pub use listener::Listener;
pub use player::Player;
pub use reframe::{Captured, Reframer};
pub use speaker::Speaker;
pub use stamps::{Again, CameAgain, Heard, Operation, Received, Record, SignalDelay, Spoken};
