//! Four makes of association behind one trait, so that each test, and the benchmark,
//! can set any against any.

mod dcsctp;
mod ours;
mod sctp_proto;
mod usrsctp;

use std::time::Instant;

use bytes::Bytes;
use glassline_sctp::SendOptions;

pub(crate) use dcsctp::Dcsctp;
pub(crate) use ours::Ours;
pub(crate) use sctp_proto::SctpProto;
pub(crate) use usrsctp::Usrsctp;

/// One end of an association.
pub(crate) trait Peer {
    /// Begins the handshake.
    fn connect(&mut self, now: Instant);

    /// A packet arrived.
    fn handle(&mut self, packet: &[u8], now: Instant);

    /// The last of those that arrived together has been handed in.
    fn end_batch(&mut self, now: Instant);

    /// The next packet to be sent at `now`, if there is one, in `out`.
    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool;

    /// When [`Self::on_deadline`] is due.
    fn deadline(&self) -> Option<Instant>;

    /// It is.
    fn on_deadline(&mut self, now: Instant);

    /// What happened next.
    fn poll(&mut self, now: Instant) -> Option<Happened>;

    /// Takes a message, or has no room for it now.
    fn send(&mut self, stream: u16, data: &Bytes, options: SendOptions, now: Instant) -> bool;

    /// Bytes of a stream that were taken and not yet sent.
    fn buffered(&mut self, stream: u16) -> usize;

    /// Ends the outgoing side of a stream.
    fn reset(&mut self, stream: u16, now: Instant);

    /// Ends the association in order.
    fn shutdown(&mut self, now: Instant);

    /// How it did, for a person.
    fn figures(&self) -> Figures;
}

/// What the benchmark tells of an end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Packets or bytes sent again, in the unit of `sent`.
    pub(crate) resent: u64,
    /// Messages are interleaved.
    pub(crate) interleaving: bool,
    /// Packets leave without a checksum.
    pub(crate) zero_checksum: bool,
}

/// What happened at an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Connected,
    Message {
        stream: u16,
        data: Bytes,
    },
    /// The peer ended its outgoing side of streams.
    PeerReset(Vec<u16>),
    /// Our outgoing side of streams has ended.
    Reset(Vec<u16>),
    Closed(String),
}

/// What both ends of a pair are told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Bytes of an SCTP packet.
    pub(crate) mtu: usize,
    /// Receive window; for ours the ceiling.
    pub(crate) window: usize,
    /// Bytes that may wait or be in flight.
    pub(crate) send_buffer: usize,
    pub(crate) zero_checksum: bool,
    pub(crate) interleaving: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            mtu: 1160,
            window: 4 << 20,
            send_buffer: 4 << 20,
            zero_checksum: true,
            interleaving: false,
        }
    }
}

/// Binary data, to all of them.
const PPID: u32 = 53;
