//! An SCTP association: state machine, handshake, timers, and the sending and receiving
//! half that do the work.
//!
//! [`Association`] owns both halves and decides what a packet carries; `incoming` reads
//! packets, `transmit` writes them, `handshake`, `heartbeat` and `shutdown` hold the state
//! of their phase. Nothing here knows DTLS or sockets. Sources: RFC 9260, and the
//! extensions listed at the crate root.

mod cookie;
mod handshake;
mod heartbeat;
mod incoming;
mod resets;
mod shutdown;
mod transmit;
mod unchecked;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::chunk::parameter::Extensions;
use crate::receive::Receiver;
use crate::reset::StreamResets;
use crate::send::Sender;
use crate::{CloseReason, Config, Dropped, Event, Report, Secrets, SendError, SendOptions, State};

use handshake::Handshake;
use heartbeat::Heartbeats;
use shutdown::{AbortReason, Shutdown};

/// Smallest packet size that is ever used, in bytes.
const MTU_MIN: usize = 512;

/// Retransmission time-outs in a row after which the packet size is suspected, and falls
/// back to `Config::mtu` if it is larger.
const BLACK_HOLE_TIMEOUTS: u32 = 2;

/// One SCTP association, without input or output.
///
/// The caller passes in packets, the time and messages, and takes out packets, events and
/// the next deadline.
///
/// ```
/// use std::time::Instant;
///
/// use bytes::Bytes;
/// use glassline_sctp::{Association, Config, Event, Secrets, SendOptions};
///
/// /// Carries packets both ways until neither end has any.
/// fn exchange(ends: &mut [Association; 2], now: Instant) {
///     let mut packet = [0; 2048];
///     let mut idle = 0;
///     let mut from = 0;
///     while idle < 2 {
///         let to = 1 - from;
///         idle += 1;
///         while let Some(len) = ends[from].poll_transmit(now, &mut packet) {
///             ends[to].handle_packet(&packet[..len], now).expect("a good packet");
///             idle = 0;
///         }
///         ends[to].end_batch(now);
///         from = to;
///     }
/// }
///
/// let now = Instant::now();
/// let mut ends = [1, 2].map(|random| {
///     Association::new(Config::default(), Secrets::from_random([random; 40]), now)
/// });
/// ends[0].connect(now);
/// exchange(&mut ends, now);
/// assert!(matches!(ends[0].poll_event(), Some(Event::Connected { .. })));
/// assert!(matches!(ends[1].poll_event(), Some(Event::Connected { .. })));
///
/// let hello = Bytes::from_static(b"hello");
/// ends[0].send(0, 51, hello.clone(), SendOptions::default(), now)?;
/// exchange(&mut ends, now);
/// let event = ends[1].poll_event();
/// assert!(matches!(event, Some(Event::Message { data, .. }) if data == hello));
/// # Ok::<(), glassline_sctp::SendError>(())
/// ```
#[derive(Debug)]
pub struct Association {
    config: Config,
    secrets: Secrets,
    /// When the object was created: the origin of the times in state cookies.
    made: Instant,
    state: State,
    /// Whether the association has ended; an ended association does not begin again.
    is_over: bool,
    /// Verification tag of packets to us.
    own_tag: u32,
    /// First TSN that we send.
    own_tsn: u32,
    /// Verification tag of packets to the peer; zero while unknown.
    peer_tag: u32,
    /// Extensions that the peer supports.
    extensions: Extensions,
    /// Whether both ends interleave messages (RFC 8260).
    interleaving: bool,
    /// Whether packets leave without a checksum (RFC 9653).
    zero_checksum: bool,
    /// Streams that we may send on.
    outgoing_streams: u16,
    /// Streams that the peer may send on.
    incoming_streams: u16,
    handshake: Handshake,
    shutdown: Shutdown,
    heartbeat: Heartbeats,
    resets: StreamResets,
    sender: Sender,
    receiver: Receiver,
    /// Round trip that the handshake or a heartbeat measured, used until data measures it.
    /// An end that sends no data has no other.
    round_trip: Option<Duration>,
    /// The beginning of an unrecognized chunk, to be reported to the peer.
    unknown: Option<Vec<u8>>,
    /// Time-outs since the last sign of life from the peer.
    errors: u32,
    /// When pacing lets the next packet leave, if pacing is what holds it back.
    pace_at: Option<Instant>,
    /// Events that need not keep their order relative to messages.
    unordered_events: VecDeque<Event>,
    /// Events that keep their order relative to messages, oldest first.
    events: VecDeque<OrderedEvent>,
    /// Messages that the application has taken.
    messages_read: u64,
    /// Packets written since the beginning.
    packets_sent: u64,
    /// Packets handed in since the beginning.
    packets_received: u64,
    /// Packets that were dropped, wholly or partly.
    dropped: u64,
}

/// An event that is reported after the messages that arrived before it.
#[derive(Debug)]
struct OrderedEvent {
    /// Count of messages read after which the event is reported.
    messages: u64,
    /// The event to report.
    event: Event,
}

impl Association {
    /// Returns an association that is closed. Either end may [`connect`](Self::connect).
    ///
    /// `now`: the caller's clock, the same as in all later calls.
    pub fn new(mut config: Config, secrets: Secrets, now: Instant) -> Self {
        config.mtu = config.mtu.max(MTU_MIN) & !3;
        let sender = Sender::new(&config, secrets.initial_tsn);
        let receiver = Receiver::new(&config);
        Self {
            made: now,
            state: State::Closed,
            is_over: false,
            own_tag: secrets.tag.max(1),
            own_tsn: secrets.initial_tsn,
            peer_tag: 0,
            extensions: Extensions::default(),
            interleaving: false,
            zero_checksum: false,
            outgoing_streams: config.streams,
            incoming_streams: config.streams,
            handshake: Handshake::default(),
            shutdown: Shutdown::default(),
            heartbeat: Heartbeats::default(),
            resets: StreamResets::default(),
            sender,
            receiver,
            round_trip: None,
            unknown: None,
            errors: 0,
            pace_at: None,
            unordered_events: VecDeque::new(),
            events: VecDeque::new(),
            messages_read: 0,
            packets_sent: 0,
            packets_received: 0,
            dropped: 0,
            config,
            secrets,
        }
    }

    /// Starts the handshake with an INIT. Both ends of a data channel may do so at once
    /// (RFC 9260 §5.2.1). Does nothing unless the association is closed and never was open.
    pub fn connect(&mut self, _now: Instant) {
        if self.state == State::Closed && !self.is_over {
            self.begin();
        }
    }

    /// Takes a packet from the peer. Call [`end_batch`](Self::end_batch) after the last
    /// packet of those that came together.
    ///
    /// # Errors
    /// [`Dropped`] says which part of the packet was dropped, and why. The association goes
    /// on.
    pub fn handle_packet(&mut self, packet: &[u8], now: Instant) -> Result<(), Dropped> {
        self.packets_received += 1;
        let result = self.process_packet(packet, now);
        self.dropped += u64::from(result.is_err());
        result
    }

    /// Ends a batch of packets that came together, and decides on the SACKs for them.
    pub fn end_batch(&mut self, now: Instant) {
        let round_trip = self.round_trip.or(self.sender.round_trip());
        let takes = self.receiver.end_batch(now, round_trip);
        if takes && self.state == State::Established && self.sender.is_drained() {
            self.heartbeat.measure(now);
        }
    }

    /// Writes one packet into `out` and returns its length, or `None` if no packet may
    /// leave at `now`. Call it until it returns `None`.
    ///
    /// `out` should hold [`mtu`](Self::mtu) bytes, or `Config::mtu_max` bytes so that MTU
    /// probes fit. Packets of bulk data all have the same size.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        let written = self.write_packet(now, out);
        if written.is_some() {
            self.packets_sent += 1;
        } else {
            let sends = self.is_open();
            self.pace_at = sends.then(|| self.sender.pacing_deadline(now)).flatten();
            self.report_buffered_low();
        }
        written
    }

    /// Returns when [`handle_timeout`](Self::handle_timeout) is due; `None` for never. The
    /// value may change with every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers = [
            self.handshake.timer.at,
            self.shutdown.timer.at,
            self.is_open().then(|| self.data_deadline()).flatten(),
        ];
        timers.into_iter().flatten().min()
    }

    /// Returns the earliest timer of an open association.
    fn data_deadline(&self) -> Option<Instant> {
        let timers = [
            self.sender.deadline(),
            self.receiver.deadline(),
            self.pace_at,
            self.heartbeat.deadline(),
            self.resets.deadline(),
        ];
        timers.into_iter().flatten().min()
    }

    /// Handles the timers that ran out by `now`. Afterwards call
    /// [`poll_transmit`](Self::poll_transmit).
    pub fn handle_timeout(&mut self, now: Instant) {
        self.handshake_timeout(now);
        self.shutdown_timeout(now);
        if !self.is_open() {
            return;
        }
        if self.pace_at.is_some_and(|at| now >= at) {
            self.pace_at = None;
        }
        self.receiver.handle_timeout(now);
        let timeouts = self.sender.timeouts();
        self.sender.handle_timeout(now);
        let mut failed = self.sender.timeouts() > timeouts;
        self.fall_back(timeouts, now);
        let mtu = self.sender.mtu();
        failed |= self.heartbeat.handle_timeout(&self.config, mtu, now);
        failed |= self.resets.handle_timeout(now);
        if failed {
            self.errors += 1;
            let max = self.config.max_retransmissions;
            if max.is_some_and(|max| self.errors > max) {
                self.end(CloseReason::PeerUnreachable);
            }
        }
    }

    /// Returns to the packet size that is sure to pass if repeated time-outs suggest that
    /// larger packets ceased to pass (RFC 8899 §4.3). `timeouts_before`: the count before
    /// the present call of `handle_timeout`.
    fn fall_back(&mut self, timeouts_before: u32, now: Instant) {
        let timeouts = self.sender.timeouts();
        let is_hole = timeouts > timeouts_before && timeouts >= BLACK_HOLE_TIMEOUTS;
        if is_hole && self.sender.mtu() > self.config.mtu {
            self.heartbeat.fall_back(now);
            self.set_mtu(self.config.mtu);
        }
    }

    /// Returns the next event. Messages that are not taken occupy the receive window, and
    /// so slow the peer down.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(notice) = self.unordered_events.pop_front() {
            return Some(notice);
        }
        let is_due = |it: &&OrderedEvent| it.messages <= self.messages_read;
        if self.events.front().filter(is_due).is_some() {
            return self.events.pop_front().map(|it| it.event);
        }
        if matches!(self.state, State::CookieWait | State::CookieEchoed) {
            // The peer's data overtook its COOKIE ACK: `Event::Connected` comes first.
            return None;
        }
        let message = self.receiver.next_message()?;
        self.messages_read += 1;
        Some(message)
    }

    /// Queues a message on `stream`. `ppid`: payload protocol identifier, which the peer's
    /// application gets with the message.
    ///
    /// # Errors
    /// [`SendError`] says why the message was refused; nothing of it is sent.
    pub fn send(
        &mut self,
        stream: u16,
        ppid: u32,
        data: Bytes,
        options: SendOptions,
        now: Instant,
    ) -> Result<(), SendError> {
        match self.state {
            State::Established => {}
            State::CookieWait | State::CookieEchoed => return Err(SendError::NotConnected),
            State::Closed if !self.is_over => return Err(SendError::NotConnected),
            _ => return Err(SendError::Closed),
        }
        if data.is_empty() {
            return Err(SendError::Empty { stream });
        }
        let streams = self.outgoing_streams;
        if stream >= streams {
            return Err(SendError::NoSuchStream { stream, streams });
        }
        if self.sender.send_queue.is_resetting(stream) {
            return Err(SendError::Resetting { stream });
        }
        let (buffered, limit) = (self.sender.occupied(), self.config.send_buffer_max);
        let size = data.len();
        // An empty buffer takes a message of any size.
        if buffered > 0 && buffered + size > limit {
            return Err(SendError::BufferFull {
                buffered,
                limit,
                size,
            });
        }
        self.sender.push(stream, ppid, data, options, now);
        Ok(())
    }

    /// Returns the bytes queued on `stream` that were not yet sent for the first time.
    pub fn buffered(&self, stream: u16) -> usize {
        self.sender.send_queue.buffered(stream)
    }

    /// Sets the threshold of [`Event::BufferedLow`], which comes when
    /// [`buffered`](Self::buffered) falls from above `bytes` to `bytes` or below. The
    /// threshold is zero at first.
    pub fn set_buffered_low(&mut self, stream: u16, bytes: usize) {
        self.sender.send_queue.set_low(stream, bytes);
    }

    /// Sets the weight of a stream against others that have something to send: each gets a
    /// share in proportion to its priority. The priority is 256 at first (RFC 8831 §6.4).
    pub fn set_priority(&mut self, stream: u16, priority: u16) {
        self.sender.send_queue.set_priority(stream, priority);
    }

    /// Shuts the association down: what was queued is still sent (RFC 9260 §9.2).
    pub fn close(&mut self, _now: Instant) {
        if !self.is_over {
            self.begin_shutdown();
        }
    }

    /// Ends the association at once, and tells the peer by an ABORT.
    pub fn abort(&mut self, _now: Instant) {
        if self.is_over {
            return;
        }
        if self.peer_tag != 0 {
            self.shutdown.abort = Some(AbortReason::Application);
        }
        self.end(CloseReason::Aborted);
    }

    /// Ends the association at once without telling the peer, because the transport below
    /// is gone.
    pub fn disconnect(&mut self) {
        self.end(CloseReason::Disconnected);
    }

    /// Returns the present size of a full SCTP packet, in bytes.
    pub const fn mtu(&self) -> usize {
        self.sender.mtu()
    }

    /// Sets the packet size, in bytes: the caller learnt that larger packets do not pass
    /// (EMSGSIZE, ICMP), or that they may be larger again.
    pub fn set_mtu(&mut self, mtu: usize) {
        let mtu = mtu.max(MTU_MIN) & !3;
        if mtu != self.sender.mtu() {
            self.sender.set_mtu(mtu);
            self.unordered_events.push_back(Event::MtuChanged { mtu });
        }
    }

    /// Returns state, round trips, windows and counters.
    pub fn report(&self) -> Report {
        let mut report = Report {
            state: self.state,
            packets_sent: self.packets_sent,
            packets_received: self.packets_received,
            dropped: self.dropped,
            zero_checksum: self.zero_checksum,
            ..Report::default()
        };
        self.sender.fill_report(&mut report);
        self.receiver.fill_report(&mut report);
        report.rtt = self.round_trip.or(report.rtt);
        report
    }

    /// Whether the association is established or shutting down.
    fn is_open(&self) -> bool {
        !matches!(
            self.state,
            State::Closed | State::CookieWait | State::CookieEchoed
        )
    }

    /// Queues an event behind the messages that arrived before it.
    fn push_event(&mut self, event: Event) {
        let messages = self.messages_read + self.receiver.unread();
        self.events.push_back(OrderedEvent { messages, event });
    }

    /// Ends the association for `reason`.
    fn end(&mut self, reason: CloseReason) {
        if self.is_over {
            return;
        }
        self.is_over = true;
        self.state = State::Closed;
        self.handshake = Handshake::default();
        self.shutdown.timer.stop();
        self.shutdown.due = false;
        self.pace_at = None;
        self.push_event(Event::Closed(reason));
    }

    /// Reports streams whose queue fell to the low threshold.
    fn report_buffered_low(&mut self) {
        if self.sender.send_queue.has_low() {
            let low = self.sender.send_queue.take_low();
            self.unordered_events
                .extend(low.map(|stream| Event::BufferedLow { stream }));
        }
    }
}
