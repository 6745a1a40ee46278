//! Types that every part of the media path shares: coded frames, tracks, codecs, media time,
//! and the delay of each stage.
//!
//! ```text
//! demux ── coded frame ──► rtp ── RTP payloads ──► hub ── Arc<MediaUnit> ──► egress
//!                          └────────┬────────┘
//!                            UnitBuilder::build
//! ```
//!
//! - [`MediaUnit`] is one coded frame together with the RTP payloads that carry it. It is
//!   built once per stream with a [`UnitBuilder`] and shared by all viewers.
//! - [`Track`] describes one track of a stream: its [`Codec`], clock rate and parameters.
//! - [`MediaTime`] is a time on a stream's timeline; [`WallClock`] translates monotonic
//!   instants into calendar time.
//! - [`Stamps`] are the times at which a unit passed each [`Stage`]; [`StageTable`] holds the
//!   delays of every stage as [`Histogram`]s.
//!
//! This crate knows no protocol, opens no socket and reads no clock: instants are passed in
//! and are only compared and subtracted.
//!
//! # Example
//!
//! One access unit of 13 bytes, in two packets. The first byte of each payload stands for a
//! prefix that a payload format adds, such as the FU header of H.264:
//!
//! ```
//! use glassline_media::{MediaTime, Stamps, TrackIndex, UnitBuilder};
//! use std::time::Instant;
//!
//! let mut builder = UnitBuilder::with_capacity(15);
//! for (prefix, part) in [(b"1", &b"coded "[..]), (b"2", &b"frame 0"[..])] {
//!     builder.wire_only(prefix);
//!     builder.coded(part);
//!     builder.end_packet();
//! }
//! let keyframe = true;
//! let stamps = Stamps::arrived(Instant::now());
//! let unit = builder
//!     .build(TrackIndex(0), MediaTime::ZERO, keyframe, stamps)
//!     .expect("two packets");
//!
//! // An RTP sender reads packets; the last packet of a video frame carries the marker.
//! assert_eq!(unit.payload(0), Some(&b"1coded "[..]));
//! assert_eq!(unit.payload(1), Some(&b"2frame 0"[..]));
//! assert!(unit.marker(1));
//!
//! // A recorder reads the coded frame, without the prefixes.
//! let frame = unit.coded_frame().expect("not a forwarded packet");
//! assert_eq!(frame.to_vec(), b"coded frame 0");
//! ```
//! outside and are only compared and subtracted.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

pub mod aac;
pub mod annexb;
mod bits;
pub mod clock;
mod codec;
pub mod fields;
mod histogram;
mod opus;
mod stage;
mod time;
mod track;
mod unit;
mod units;

pub use bits::Bits;
pub use codec::{Codec, Kind};
pub use histogram::{Histogram, Summary, WindowedHistogram};
pub use opus::OpusStreams;
pub use stage::{Relay, Stage, StageTable, Stamps};
pub use time::{MediaTime, NtpTime, WallClock};
pub use track::{Layer, LayerAbsence, Track, VideoParameters};
pub use unit::{
    CodedFrame, DecodeLead, Forwarded, LayerIndex, MediaUnit, PAYLOAD_BYTES_MAX, PartsContent,
    PartsError, Payloads, RecordedPlace, Temporal, TrackIndex, TrackLayer, UnitBuilder, UnitParts,
};
pub use units::{Bitrate, Ssrc};
