//! RTP and RTCP bytes, payload formats, loss repair and receive statistics.
//!
//! ```text
//! access unit ─► payload::Packetizer ─► payloads ─► write_header ─► (seal) ─► wire
//! wire ─► (open) ─► Packet::parse ─► SequenceExtender ─┬► order::InOrder ─► payload::Depacketizer ─► access unit
//!                                                      ├► receive::ReceiveStatistics ─► report blocks
//!                                                      ├► nack::NackGenerator ─► lost numbers to ask for
//!                                                      └► twcc::Recorder ─► transport feedback
//! wire ─► rtcp::parse ─► reports, NACK, PLI, FIR, transport feedback ─► twcc::SendHistory
//! ```
//!
//! No sockets, clock or encryption: instants and decrypted bytes come in from
//! outside. Everything read from the network is checked and bounded; nothing
//! here panics on it. Numbers that wrap on the wire are widened once, in
//! [`SequenceExtender`] and [`TimestampExtender`], and compared only wide.
//!
//! Sources: RFC 3550 (RTP, RTCP), RFC 8285 (header extensions), RFC 4585 and
//! 5104 (feedback), RFC 4588 (RTX), RFC 6184 (H.264), RFC 7587 and 6716 (Opus), RFC 2198 (redundancy), the
//! payload formats that `media::Codec` names with each codec,
//! draft-holmer-rmcat-transport-wide-cc-extensions-01.

#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "a test may anchor virtual time anywhere"
    )
)]

mod error;
mod extensions;
pub mod h264;
pub mod nack;
pub mod opus;
pub mod order;
mod packet;
pub mod payload;
pub mod receive;
pub mod red;
pub mod rtcp;
pub mod rtx;
mod sequence;
pub mod twcc;

pub use error::ParseError;
pub use extensions::{Extensions, ExtensionsIter};
pub use packet::{HEADER_BYTES, Header, Packet, header_size, write_header};
pub use sequence::{SequenceExtender, TimestampExtender};
