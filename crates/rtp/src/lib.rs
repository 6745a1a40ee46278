//! RTP and RTCP: packets, payload formats, loss repair and receive statistics.
//!
//! ```text
//! access unit ─► payload::Packetizer ─► payloads ─► write_header ─► (seal) ─► network
//! network ─► (open) ─► Packet::parse ─► SequenceExtender ─┬► reorder::ReorderBuffer ─► payload::Depacketizer ─► access unit
//!                                                         ├► receive::ReceiveStatistics ─► report blocks
//!                                                         ├► nack::NackGenerator ─► sequence numbers to request
//!                                                         └► twcc::Recorder ─► transport feedback
//! network ─► rtcp::parse ─► reports, NACK, PLI, FIR, transport feedback ─► twcc::SendHistory
//! ```
//!
//! The crate has no sockets, clock or encryption: instants and decrypted bytes are passed in.
//! Everything that comes from the network is checked and bounded, and never causes a panic.
//! Numbers that wrap on the wire are extended once, by [`SequenceExtender`] and
//! [`TimestampExtender`], and compared only in their extended form.
//!
//! # Example
//!
//! Packetizes one access unit, writes and parses the RTP packets, and depacketizes them:
//!
//! ```
//! use glassline_media::{Codec, MediaTime, Ssrc, Stamps, Track, TrackIndex, UnitBuilder};
//! use glassline_rtp::payload::{Depacketizer, Packetizer};
//! use glassline_rtp::{HEADER_BYTES, Header, Packet, SequenceExtender, write_header};
//! use std::time::Instant;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let track = Track::new(Codec::Vp8);
//! let frame = vec![0x30; 3000]; // of which three packets are made
//! let mut builder = UnitBuilder::default();
//! Packetizer::new(&track).packetize(&frame, &mut builder)?;
//! let stamps = Stamps::arrived(Instant::now());
//! let unit = builder
//!     .build(TrackIndex(0), MediaTime::ZERO, true, stamps)
//!     .ok_or("a frame has at least one packet")?;
//! assert_eq!(unit.packet_count(), 3);
//!
//! let mut sequences = SequenceExtender::new();
//! let mut depacketizer = Depacketizer::new(&track)?;
//! for index in 0..unit.packet_count() {
//!     let header = Header {
//!         marker: unit.marker(index),
//!         payload_type: 96,
//!         sequence: 65_534_u16.wrapping_add(index as u16),
//!         timestamp: 90_000,
//!         ssrc: Ssrc(0x1234_5678),
//!     };
//!     let mut datagram = vec![0; HEADER_BYTES];
//!     write_header(&mut datagram, &header, &[]);
//!     datagram.extend_from_slice(unit.payload(index).unwrap_or_default());
//!
//!     let received = Packet::parse(&datagram)?;
//!     depacketizer.push(
//!         sequences.extend(received.header.sequence),
//!         received.header.timestamp,
//!         received.header.marker,
//!         received.payload,
//!     );
//! }
//! let received = depacketizer.poll().ok_or("all packets arrived")?;
//! assert_eq!(received.data, frame);
//! # Ok(())
//! # }
//! ```
//!
//! # Sources
//!
//! RFC 3550 (RTP, RTCP), RFC 8285 (header extensions), RFC 4585 and 5104 (feedback), RFC 4588
//! (RTX), RFC 6184 (H.264), RFC 7587 and 6716 (Opus), RFC 2198 (redundancy),
//! draft-ietf-payload-flexible-fec-scheme-03 (FlexFEC), the payload
//! formats that `media::Codec` names with each codec, appendix A of AV1's payload format (dependency
//! descriptor), and draft-holmer-rmcat-transport-wide-cc-extensions-01.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

pub mod dependency_descriptor;
mod error;
mod extensions;
pub mod flexfec;
pub mod h264;
pub mod nack;
pub mod opus;
mod packet;
pub mod payload;
pub mod receive;
pub mod red;
pub mod reorder;
pub mod rtcp;
pub mod rtx;
mod sequence;
pub mod twcc;
pub mod units;

pub use error::ParseError;
pub use extensions::{Extensions, ExtensionsIter};
pub use packet::{HEADER_BYTES, Header, Packet, header_size, write_header};
pub use sequence::{SequenceExtender, TimestampExtender};
