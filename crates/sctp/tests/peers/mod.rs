//! Four SCTP implementations behind one trait, so that each test and the benchmark can run
//! any against any.

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
    /// Starts the handshake as the end that sends INIT.
    fn connect(&mut self, now: Instant);

    /// Handles a packet that arrived.
    fn handle(&mut self, packet: &[u8], now: Instant);

    /// Ends a batch of packets that arrived together.
    fn end_batch(&mut self, now: Instant);

    /// Writes the next packet to be sent at `now` into `out`; false if there is none.
    fn transmit(&mut self, now: Instant, out: &mut Vec<u8>) -> bool;

    /// Returns when [`Self::on_deadline`] is due.
    fn deadline(&self) -> Option<Instant>;

    /// Handles the deadline that [`Self::deadline`] announced.
    fn on_deadline(&mut self, now: Instant);

    /// Returns the next event.
    fn poll(&mut self, now: Instant) -> Option<Happened>;

    /// Queues a message; false if there is no room for it now.
    fn send(&mut self, stream: u16, data: &Bytes, options: SendOptions, now: Instant) -> bool;

    /// Returns the bytes queued on a stream that were not yet sent.
    fn buffered(&mut self, stream: u16) -> usize;

    /// Resets the outgoing side of a stream.
    fn reset(&mut self, stream: u16, now: Instant);

    /// Shuts the association down.
    fn shutdown(&mut self, now: Instant);

    /// Returns statistics for the benchmark.
    fn figures(&self) -> Figures;
}

/// Statistics of an end for the benchmark.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Figures {
    /// Retransmitted packets or bytes, in the unit of `sent`.
    pub(crate) resent: u64,
    /// Whether messages are interleaved.
    pub(crate) interleaving: bool,
    /// Whether packets leave without a checksum.
    pub(crate) zero_checksum: bool,
}

/// An event of an end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    Connected,
    Message {
        stream: u16,
        data: Bytes,
    },
    /// The peer reset its outgoing side of streams.
    PeerReset(Vec<u16>),
    /// Our outgoing side of streams was reset.
    Reset(Vec<u16>),
    Closed(String),
}

/// Configuration of both ends of a pair.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setup {
    /// Size of an SCTP packet, in bytes.
    pub(crate) mtu: usize,
    /// Receive window in bytes; for ours the largest.
    pub(crate) window: usize,
    /// Most bytes that may wait or be in flight.
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

/// Payload protocol identifier of binary data.
const PPID: u32 = 53;
