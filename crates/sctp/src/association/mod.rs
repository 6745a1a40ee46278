//! An association: handshake, timers, and the two halves that do the work.

mod cookie;
mod handshake;
mod heartbeat;
mod incoming;
mod shutdown;
mod transmit;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::chunk::parameter::Extensions;
use crate::receive::Receiver;
use crate::reset::Resets;
use crate::send::Sender;
use crate::{
    CloseReason, Config, Dropped, Event, Report, ResetError, Secrets, SendError, SendOptions, State,
};

use handshake::Handshake;
use heartbeat::Heartbeats;
use shutdown::{Farewell, Shutdown};

/// Smallest packet that is ever planned for.
const MTU_MIN: usize = 512;

/// So many time-outs in a row are laid to the size of the packets, if that can be it.
const BLACK_HOLE_TIMEOUTS: u32 = 2;

/// One SCTP association, without input or output.
///
/// Feed it packets, time and messages; take packets, events and the next deadline.
#[derive(Debug)]
pub struct Association {
    config: Config,
    secrets: Secrets,
    /// Cookies tell their age since then.
    made: Instant,
    state: State,
    /// It was open, or gave up: it does not begin again.
    is_over: bool,
    own_tag: u32,
    own_tsn: u32,
    /// Zero while unknown.
    peer_tag: u32,
    extensions: Extensions,
    interleaving: bool,
    zero_checksum: bool,
    outgoing_streams: u16,
    incoming_streams: u16,
    handshake: Handshake,
    shutdown: Shutdown,
    heartbeat: Heartbeats,
    resets: Resets,
    sender: Sender,
    receiver: Receiver,
    /// Measured by handshake and heartbeats, until data tells it: all that an end has
    /// that sends none.
    round_trip: Option<Duration>,
    /// A chunk of the peer's that is not known, to be told of.
    unknown: Option<Vec<u8>>,
    /// Time-outs since the peer was heard of.
    errors: u32,
    pace_at: Option<Instant>,
    /// Events that have no place among the messages.
    notices: VecDeque<Event>,
    /// Events that have a place among the messages, in order.
    events: VecDeque<Awaiting>,
    messages_read: u64,
    packets_sent: u64,
    packets_received: u64,
    dropped: u64,
}

/// An event that messages come before.
#[derive(Debug)]
struct Awaiting {
    /// It is told once so many messages have been read.
    messages: u64,
    event: Event,
}

impl Association {
    /// One that is closed: [`connect`](Self::connect) it, or let the peer do so.
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
            resets: Resets::default(),
            sender,
            receiver,
            round_trip: None,
            unknown: None,
            errors: 0,
            pace_at: None,
            notices: VecDeque::new(),
            events: VecDeque::new(),
            messages_read: 0,
            packets_sent: 0,
            packets_received: 0,
            dropped: 0,
            config,
            secrets,
        }
    }

    /// Sends an INIT. Both ends of a data channel do; that they meet is normal (RFC
    /// 9260 §5.2.1). Nothing happens unless it is closed and never was open.
    pub fn connect(&mut self, _now: Instant) {
        if self.state == State::Closed && !self.is_over {
            self.begin();
        }
    }

    /// A packet from the peer; call [`end_batch`](Self::end_batch) after the last that
    /// came together.
    ///
    /// # Errors
    /// What was thrown away of it, and why; the association goes on.
    pub fn handle_packet(&mut self, packet: &[u8], now: Instant) -> Result<(), Dropped> {
        self.packets_received += 1;
        let result = self.take_packet(packet, now);
        self.dropped += u64::from(result.is_err());
        result
    }

    /// All packets that came together are in: decides on one SACK for all.
    pub fn end_batch(&mut self, now: Instant) {
        let round_trip = self.round_trip.or(self.sender.round_trip());
        let takes = self.receiver.end_batch(now, round_trip);
        if takes && self.state == State::Established && self.sender.is_drained() {
            self.heartbeat.measure(now);
        }
    }

    /// Writes one packet into `out`, if any may leave at `now`, and says how long it
    /// is. `out` should hold [`mtu`](Self::mtu) bytes, for probes `Config::mtu_max`;
    /// packets of bulk data all have the same size. Call until `None`.
    pub fn poll_transmit(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        let written = self.write_packet(now, out);
        if written.is_some() {
            self.packets_sent += 1;
        } else {
            let sends = self.is_open();
            self.pace_at = sends.then(|| self.sender.pacing_deadline(now)).flatten();
            self.note_low();
        }
        written
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due; `None` for never. Ask
    /// again after every other call.
    pub fn poll_timeout(&self) -> Option<Instant> {
        let timers = [
            self.handshake.timer.at,
            self.shutdown.timer.at,
            self.is_open().then(|| self.data_deadline()).flatten(),
        ];
        timers.into_iter().flatten().min()
    }

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

    /// Time has come; then ask [`poll_transmit`](Self::poll_transmit) again.
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

    /// Packets that passed once may cease to (RFC 8899 §4.3): back to those that are
    /// sure to.
    fn fall_back(&mut self, timeouts_before: u32, now: Instant) {
        let timeouts = self.sender.timeouts();
        let is_hole = timeouts > timeouts_before && timeouts >= BLACK_HOLE_TIMEOUTS;
        if is_hole && self.sender.mtu() > self.config.mtu {
            self.heartbeat.fall_back(now);
            self.set_mtu(self.config.mtu);
        }
    }

    /// What happened next. Messages that are not taken close the receive window.
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(notice) = self.notices.pop_front() {
            return Some(notice);
        }
        let is_due = |it: &&Awaiting| it.messages <= self.messages_read;
        if self.events.front().filter(is_due).is_some() {
            return self.events.pop_front().map(|it| it.event);
        }
        if matches!(self.state, State::CookieWait | State::CookieEchoed) {
            // The peer's data overtook its COOKIE ACK: first things first.
            return None;
        }
        let message = self.receiver.read()?;
        self.messages_read += 1;
        Some(message)
    }

    /// Hands over a message for `stream`, under payload protocol identifier `ppid`.
    ///
    /// # Errors
    /// Why it was not taken.
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
        if self.sender.streams.is_resetting(stream) {
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

    /// Bytes that were handed over on `stream` and not yet sent once.
    pub fn buffered(&self, stream: u16) -> usize {
        self.sender.streams.buffered(stream)
    }

    /// [`Event::BufferedLow`] comes when [`buffered`](Self::buffered) falls from above
    /// `bytes` to it or below; zero at first.
    pub fn set_buffered_low(&mut self, stream: u16, bytes: usize) {
        self.sender.streams.set_low(stream, bytes);
    }

    /// How much of the path a stream gets beside others that have something to send:
    /// in proportion, 256 at first (RFC 8831 §6.4).
    pub fn set_priority(&mut self, stream: u16, priority: u16) {
        self.sender.streams.set_priority(stream, priority);
    }

    /// Ends the outgoing side of streams (RFC 6525): what waits on them is sent first,
    /// no more is taken, and [`Event::StreamsReset`] comes when the peer agreed.
    ///
    /// # Errors
    /// Why it cannot; then none of them is.
    pub fn reset_streams(&mut self, streams: &[u16], _now: Instant) -> Result<(), ResetError> {
        if !self.is_open() {
            return Err(ResetError::NotConnected);
        }
        if !self.extensions.re_config {
            return Err(ResetError::Unsupported);
        }
        let known = self.outgoing_streams;
        if let Some(&stream) = streams.iter().find(|stream| **stream >= known) {
            return Err(ResetError::NoSuchStream {
                stream,
                streams: known,
            });
        }
        for stream in streams {
            self.sender.streams.set_resetting(*stream, true);
            self.resets.want(*stream);
        }
        self.prepare_resets();
        Ok(())
    }

    fn prepare_resets(&mut self) {
        let streams = &self.sender.streams;
        self.resets.prepare(
            |stream| streams.is_drained(stream),
            self.sender.last_tsn(),
            self.sender.cumulative(),
        );
    }

    /// Ends it in order: what was handed over is still sent (RFC 9260 §9.2).
    pub fn close(&mut self, _now: Instant) {
        if !self.is_over {
            self.begin_shutdown();
        }
    }

    /// Ends it at once, and lets the peer know by an ABORT, if that arrives.
    pub fn abort(&mut self, _now: Instant) {
        if self.is_over {
            return;
        }
        if self.peer_tag != 0 {
            self.shutdown.abort = Some(Farewell::Application);
        }
        self.end(CloseReason::Aborted);
    }

    /// What carries the packets is gone: ends it at once, and nobody is told.
    pub fn disconnect(&mut self) {
        self.end(CloseReason::Disconnected);
    }

    /// Bytes of an SCTP packet at present.
    pub const fn mtu(&self) -> usize {
        self.sender.mtu()
    }

    /// The shell learnt that packets larger than `mtu` do not pass (EMSGSIZE, ICMP), or
    /// that they may be larger again.
    pub fn set_mtu(&mut self, mtu: usize) {
        let mtu = mtu.max(MTU_MIN) & !3;
        if mtu != self.sender.mtu() {
            self.sender.set_mtu(mtu);
            self.notices.push_back(Event::MtuChanged { mtu });
        }
    }

    /// How it stands.
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

    /// Established, and not over.
    fn is_open(&self) -> bool {
        !matches!(
            self.state,
            State::Closed | State::CookieWait | State::CookieEchoed
        )
    }

    fn push_event(&mut self, event: Event) {
        let messages = self.messages_read + self.receiver.unread();
        self.events.push_back(Awaiting { messages, event });
    }

    /// It is over.
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

    fn note_low(&mut self) {
        if self.sender.streams.has_low() {
            let low = self.sender.streams.take_low();
            self.notices
                .extend(low.map(|stream| Event::BufferedLow { stream }));
        }
    }
}
