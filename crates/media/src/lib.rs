//! The words that every part of the media path shares.
//!
//! ```text
//! demux ─ Frame ─► rtp ─ payloads ─► hub ─ Arc<MediaUnit> ─► egress
//!                                     every MediaUnit carries its Stamps
//! ```
//!
//! Nothing here knows a protocol, a socket or a clock: instants come in from
//! outside and are only compared and subtracted.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

pub mod annexb;
mod bits;
mod codec;
pub mod fields;
mod histogram;
mod stage;
mod time;
mod unit;
mod units;

pub use bits::Bits;
pub use codec::{Codec, Kind, Layer, Track, VideoParameters};
pub use histogram::{Histogram, Summary, Windowed};
pub use stage::{Stage, StageTable, Stamps};
pub use time::{MediaTime, NtpTime, WallClock};
pub use unit::{
    CodedFrame, Forwarded, LayerIndex, MediaUnit, PAYLOAD_BYTES_MAX, Payloads, TrackLayer,
    UnitBuilder,
};
pub use units::{Bitrate, Ssrc};
