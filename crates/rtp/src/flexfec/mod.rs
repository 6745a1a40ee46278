//! FlexFEC as libwebrtc speaks it (`flexfec-03`): packets of parity on an SSRC of their own, from
//! which a receiver rebuilds lost packets of the media without asking for them.
//!
//! ```text
//! packets of a group ─► Encoder: parity 0 of packets 0, 2, 4 … ─► payloads of FEC packets
//!                                parity 1 of packets 1, 3, 5 …
//! media, FEC payloads ─► Decoder ─► packets that were lost
//! ```
//!
//! Each parity rebuilds one lost packet. With several of them, neighbors belong to different ones,
//! so that as many consecutive losses as there are parities are rebuilt.
//!
//! The source is draft-ietf-payload-flexible-fec-scheme-03, in the variant with a mask. The bytes
//! differ from those of RFC 8627. Of the draft, one protected SSRC is supported, and no
//! retransmission in FEC packets.
//!
//! Header extensions that a sender writes after the parity is made, such as the transport-wide
//! sequence number, count as zeros at both ends, as in libwebrtc. The caller passes headers with
//! these zeros.

mod decoder;
mod encoder;
mod header;

pub use decoder::Decoder;
pub use encoder::Encoder;
pub use header::{HEADER_BYTES_MAX, InvalidFlexFec, PACKETS_MAX};

#[cfg(test)]
mod tests;
