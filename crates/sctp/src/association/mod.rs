use std::time::Instant;

use bytes::Bytes;

use crate::{Config, Dropped, Event, Report, ResetError, Secrets, SendError, SendOptions, State};

/// One SCTP association, without input or output.
///
/// Feed it packets, time and messages; take packets, events and the next deadline.
#[derive(Debug)]
pub struct Association {
    config: Config,
    #[expect(dead_code, reason = "the handshake uses them")]
    secrets: Secrets,
    state: State,
}

impl Association {
    /// One that is closed: [`connect`](Self::connect) it, or let the peer do so.
    pub fn new(config: Config, secrets: Secrets, _now: Instant) -> Self {
        Self {
            config,
            secrets,
            state: State::Closed,
        }
    }

    /// Sends an INIT. Both ends of a data channel do; that they meet is normal (RFC
    /// 9260 §5.2.1). Nothing happens unless it is closed and never was open.
    pub fn connect(&mut self, _now: Instant) {}

    /// A packet from the peer; call [`end_batch`](Self::end_batch) after the last that
    /// came together.
    ///
    /// # Errors
    /// What was thrown away of it, and why; the association goes on.
    pub fn handle_packet(&mut self, _packet: &[u8], _now: Instant) -> Result<(), Dropped> {
        Err(Dropped::State)
    }

    /// All packets that came together are in: decides on one SACK for all.
    pub fn end_batch(&mut self, _now: Instant) {}

    /// Writes one packet into `out`, if any may leave at `now`, and says how long it
    /// is. `out` should hold [`mtu`](Self::mtu) bytes, for probes `Config::mtu_max`;
    /// packets of bulk data all have the same size. Call until `None`.
    pub fn poll_transmit(&mut self, _now: Instant, _out: &mut [u8]) -> Option<usize> {
        None
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due; `None` for never. Ask
    /// again after every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Time has come; then ask [`poll_transmit`](Self::poll_transmit) again.
    pub fn handle_timeout(&mut self, _now: Instant) {}

    /// What happened next. Messages that are not taken close the receive window.
    pub fn poll_event(&mut self) -> Option<Event> {
        None
    }

    /// Hands over a message for `stream`, under payload protocol identifier `ppid`.
    ///
    /// # Errors
    /// Why it was not taken.
    pub fn send(
        &mut self,
        _stream: u16,
        _ppid: u32,
        _data: Bytes,
        _options: SendOptions,
        _now: Instant,
    ) -> Result<(), SendError> {
        Err(SendError::NotConnected)
    }

    /// Bytes that were handed over on `stream` and not yet sent once.
    pub fn buffered(&self, _stream: u16) -> usize {
        0
    }

    /// [`Event::BufferedLow`] comes when [`buffered`](Self::buffered) falls from above
    /// `bytes` to it or below; zero at first.
    pub fn set_buffered_low(&mut self, _stream: u16, _bytes: usize) {}

    /// How much of the path a stream gets beside others that have something to send:
    /// in proportion, 256 at first (RFC 8831 §6.4).
    pub fn set_priority(&mut self, _stream: u16, _priority: u16) {}

    /// Ends the outgoing side of streams (RFC 6525): what waits on them is sent first,
    /// no more is taken, and [`Event::StreamsReset`] comes when the peer agreed.
    ///
    /// # Errors
    /// Why it cannot.
    pub fn reset_streams(&mut self, _streams: &[u16], _now: Instant) -> Result<(), ResetError> {
        Err(ResetError::NotConnected)
    }

    /// Ends it in order: what was handed over is still sent (RFC 9260 §9.2).
    pub fn close(&mut self, _now: Instant) {}

    /// Ends it at once, and lets the peer know by an ABORT, if that arrives.
    pub fn abort(&mut self, _now: Instant) {}

    /// Bytes of an SCTP packet at present.
    pub const fn mtu(&self) -> usize {
        self.config.mtu
    }

    /// How it stands.
    pub fn report(&self) -> Report {
        Report {
            state: self.state,
            mtu: self.mtu(),
            ..Report::default()
        }
    }
}
