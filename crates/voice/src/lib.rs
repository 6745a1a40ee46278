//! Voice without devices: from captured samples to packets, and from packets to a steady
//! stream of samples.
//!
//! ```text
//! packet ─► jitter::Buffer ─┬─ Queue: order, duplicates, wraps, bounds
//!  (RED blocks too)         ├─ Target: playout delay, from arrivals and from underruns
//!                           ├─ Decoder (the caller's): speech, FEC, concealment, comfort noise
//!                           ├─ PlayoutBuffer: what was played, and what is decoded and not yet played
//!                           │    ├─ stretch: accelerate and preemptive expand, by a pitch period
//!                           │    └─ expand: continues the last audio when no packet is there
//!                           └─► pull(now): 2.5 ms, 10 ms, as the device asks
//!
//! device's periods ─► Reframer ─► frames of one length, each with its capture time
//! ```
//!
//! [`Speaker`] is the sending half of a call, [`Listener`] the receiving half. Where the ends
//! are two hosts, [`far`] carries the stamps of one to the other, and [`glassline_media::clock`] converts them
//! to the other's clock.
//!
//! The crate reads no clock, opens no device and fixes no codec: `now` and the decoder come
//! in. The same packets at the same times give the same samples. The crate counts how long
//! packets wait; comparing those waits with other jitter buffers is the laboratory's work.
//!
//! # Example
//!
//! Packets of 20 ms go into a jitter buffer, and audio comes out in pulls of 10 ms.
//!
//! ```
//! use std::time::{Duration, Instant};
//!
//! use glassline_voice::jitter::{Buffer, Config, Packet};
//! use glassline_voice::{Format, L16};
//!
//! let format = Format::new(8_000, 1).expect("8 kHz, mono");
//! let mut buffer = Buffer::new(Config::default(), L16::new(format));
//! let start = Instant::now();
//! let tone: Vec<f32> = (0..160).map(|n| 0.5 * (n as f32 * 0.157).sin()).collect();
//! let mut audio = Vec::new();
//! for number in 0..50u16 {
//!     let now = start + Duration::from_millis(20) * u32::from(number);
//!     let packet = Packet {
//!         sequence: number,
//!         timestamp: u32::from(number) * 160,
//!         payload: L16::encode(&tone).into(),
//!     };
//!     buffer.insert(packet, now)?;
//!     for pull in 0..2 {
//!         let mut out = [0.0; 80];
//!         buffer.pull(now + Duration::from_millis(10) * pull, &mut out);
//!         audio.extend(out);
//!     }
//! }
//! assert_eq!(audio.len(), 8_000);
//! assert!(audio.iter().any(|sample| sample.abs() > 0.4));
//! assert_eq!(buffer.report(start + Duration::from_secs(1)).counts.lost, 0);
//! # Ok::<(), glassline_voice::jitter::Refused>(())
//! ```

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

#[cfg(test)]
mod call;
mod codec;
mod expand;
pub mod far;
pub mod jitter;
mod limit;
pub mod listener;
mod marker;
mod meter;
mod mix;
pub mod opus;
mod pitch;
mod player;
mod playout_buffer;
pub mod preprocess;
mod reframe;
mod resample;
pub mod speaker;
mod stamps;
mod stretch;

pub use codec::{Decoder, Encoder, Format, L16, Undecodable, Unencodable};
pub use glassline_media::{Bitrate, Ssrc};
pub use listener::Listener;
pub use marker::Marks;
pub use player::Player;
pub use reframe::{Captured, Reframer};
pub use speaker::Speaker;
pub use stamps::{
    DuplicateReason, DuplicateRecord, Operation, PlayoutStamps, Received, Record, SendStamps,
    SignalDelay,
};
