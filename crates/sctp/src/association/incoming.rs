//! Handles packets and their chunks from the peer.

use std::time::Instant;

use super::{AbortReason, Association};
use crate::chunk::parameter::{OutgoingReset, Parameter, ReConfigResult};
use crate::chunk::{Cause, Chunk, ReConfig};
use crate::packet::Packet;
use crate::receive::{DataOutcome, ReassemblyError};
use crate::reset::ResetResult;
use crate::{CloseReason, Direction, Dropped, Event, ParseError, State};

impl Association {
    /// Checks a packet and handles its chunks in order. Returns the last reason why a part
    /// of it was dropped.
    pub(super) fn process_packet(&mut self, bytes: &[u8], now: Instant) -> Result<(), Dropped> {
        let packet = Packet::parse(bytes, self.config.zero_checksum)?;
        let header = packet.header;
        if header.destination_port != self.config.local_port
            || header.source_port != self.config.remote_port
        {
            return Err(Dropped::Port {
                source_port: header.source_port,
                destination_port: header.destination_port,
            });
        }
        let mut chunks = packet.chunks();
        let mut result = Ok(());
        let mut first = true;
        let mut has_sack = false;
        for chunk in &mut chunks {
            let chunk = chunk?;
            if first {
                self.check_tag(&chunk, header.verification_tag)?;
                first = false;
            }
            // One SACK tells everything; more in a packet would only cost time.
            if matches!(chunk, Chunk::Sack(_)) && std::mem::replace(&mut has_sack, true) {
                continue;
            }
            // A chunk that is dropped does not prevent the others from being handled.
            if let Err(dropped) = self.process_chunk(&chunk, header.verification_tag, now) {
                result = Err(dropped);
            }
            if self.is_over {
                break;
            }
        }
        self.receiver.end_packet();
        result
    }

    /// Checks the verification tag by the rules for the packet's first chunk (RFC 9260
    /// §8.5).
    fn check_tag(&self, first: &Chunk<'_>, tag: u32) -> Result<(), Dropped> {
        let reflected = |reflected: bool| reflected && tag == self.peer_tag;
        let ours = tag == self.own_tag;
        let valid = match first {
            Chunk::Init(_) => tag == 0,
            Chunk::Abort(abort) => ours || reflected(abort.reflected_tag),
            Chunk::ShutdownComplete(complete) => ours || reflected(complete.reflected_tag),
            // `on_cookie_echo` compares the tag with the one in the cookie.
            Chunk::CookieEcho(_) => true,
            _ => ours,
        };
        valid.then_some(()).ok_or(Dropped::Tag)
    }

    /// Handles one chunk. `tag`: the packet's verification tag.
    fn process_chunk(&mut self, chunk: &Chunk<'_>, tag: u32, now: Instant) -> Result<(), Dropped> {
        match chunk {
            Chunk::Data(data) => {
                self.may_receive(!self.interleaving)?;
                self.check_data(data.stream, data.payload, data.tsn)?;
                let outcome = self.receiver.on_data(data);
                self.on_data_outcome(outcome)
            }
            Chunk::IData(data) => {
                self.may_receive(self.interleaving)?;
                self.check_data(data.stream, data.payload, data.tsn)?;
                let outcome = self.receiver.on_i_data(data);
                self.on_data_outcome(outcome)
            }
            Chunk::Sack(sack) => {
                if !self.is_open() {
                    return Err(Dropped::State);
                }
                self.errors = 0;
                if self.sender.on_sack(sack, now).is_err() {
                    self.abort_for_violation("a SACK acknowledges what was never sent");
                }
                self.after_sack();
                Ok(())
            }
            Chunk::Init(init) => self.on_init(init, now),
            Chunk::InitAck(ack) => self.on_init_ack(ack, now),
            Chunk::CookieEcho(echo) => {
                let before = self.state;
                self.on_cookie_echo(echo, tag, now)?;
                self.after_handshake(before, now);
                Ok(())
            }
            Chunk::CookieAck(_) => {
                let before = self.state;
                self.on_cookie_ack();
                self.after_handshake(before, now);
                Ok(())
            }
            Chunk::Heartbeat(heartbeat) => {
                if self.is_open() {
                    self.heartbeat.on_heartbeat(heartbeat.info);
                }
                Ok(())
            }
            Chunk::HeartbeatAck(ack) => {
                self.on_heartbeat_ack(ack.info, now);
                Ok(())
            }
            Chunk::ForwardTsn(forward) => {
                self.may_receive(!self.interleaving)?;
                self.receiver.on_forward(forward);
                self.perform_deferred();
                Ok(())
            }
            Chunk::IForwardTsn(forward) => {
                self.may_receive(self.interleaving)?;
                self.receiver.on_i_forward(forward);
                self.perform_deferred();
                Ok(())
            }
            Chunk::ReConfig(config) => self.on_re_config(config),
            Chunk::Abort(abort) => {
                if self.state != State::Closed {
                    self.on_abort(abort.causes);
                }
                Ok(())
            }
            Chunk::Shutdown(shutdown) => {
                if !self.is_open() {
                    return Err(Dropped::State);
                }
                if self
                    .sender
                    .on_cumulative(shutdown.cumulative_tsn, now)
                    .is_err()
                {
                    self.abort_for_violation("a SHUTDOWN acknowledges what was never sent");
                    return Ok(());
                }
                self.on_shutdown();
                Ok(())
            }
            Chunk::ShutdownAck(_) => self.on_shutdown_ack(),
            Chunk::ShutdownComplete(_) => {
                self.on_shutdown_complete();
                Ok(())
            }
            Chunk::Error(error) => {
                for cause in error.causes.flatten() {
                    if matches!(cause, Cause::StaleCookie(_)) {
                        self.on_stale_cookie();
                    }
                }
                Ok(())
            }
            Chunk::Pad(_) => Ok(()),
            Chunk::Unknown(unknown) => {
                if unknown.action().report && self.is_open() && self.unknown.is_none() {
                    let len = unknown.whole.len().min(UNKNOWN_BYTES_MAX);
                    self.unknown = Some(unknown.whole[..len].to_vec());
                }
                Ok(())
            }
        }
    }

    /// Checks that data chunks of this kind are allowed now. Data may also come while our
    /// COOKIE ECHO is unanswered, as the answer may be lost or late.
    fn may_receive(&self, right_kind: bool) -> Result<(), Dropped> {
        let state = matches!(
            self.state,
            State::CookieEchoed | State::Established | State::ShutdownPending | State::ShutdownSent
        );
        (state && right_kind).then_some(()).ok_or(Dropped::State)
    }

    /// Checks a data chunk's payload and stream before it is acknowledged.
    fn check_data(&mut self, stream: u16, payload: &[u8], tsn: crate::Tsn) -> Result<(), Dropped> {
        if payload.is_empty() {
            // RFC 9260 §6.2 asks for an ABORT.
            self.abort_for_violation("a DATA chunk without data");
            return Err(Dropped::State);
        }
        if stream >= self.incoming_streams {
            // §6.5: acknowledged, and not delivered.
            self.receiver.discard(tsn);
            return Err(Dropped::NoSuchStream { stream });
        }
        Ok(())
    }

    /// Reacts to what the receiving half did with a data chunk.
    fn on_data_outcome(&mut self, outcome: DataOutcome) -> Result<(), Dropped> {
        if self.state == State::ShutdownSent {
            // §9.2: answered by SACK and SHUTDOWN.
            self.shutdown.due = true;
            self.receiver.acknowledge();
        }
        match outcome {
            DataOutcome::Accepted => {
                self.perform_deferred();
                Ok(())
            }
            DataOutcome::Refused => Err(Dropped::ReceiveBufferFull),
            DataOutcome::Failed(ReassemblyError::TooLarge { stream }) => {
                self.shutdown.abort = Some(AbortReason::TooLarge);
                self.end(CloseReason::MessageTooLarge {
                    stream,
                    limit: self.config.max_message_size,
                });
                Ok(())
            }
            DataOutcome::Failed(ReassemblyError::Contradiction(what)) => {
                self.abort_for_violation(what);
                Ok(())
            }
            DataOutcome::Stuck => {
                self.abort_for_violation(
                    "fragments of unfinished messages fill the receive window",
                );
                Ok(())
            }
        }
    }

    /// Does what became possible by an acknowledgement.
    fn after_sack(&mut self) {
        if self.sender.round_trip().is_some() {
            self.round_trip = None;
        }
        self.prepare_resets();
        self.report_buffered_low();
        self.continue_shutdown();
    }

    /// Starts the heartbeats if the association has just become established.
    fn after_handshake(&mut self, before: State, now: Instant) {
        if before != State::Established && self.state == State::Established {
            self.heartbeat.begin(&self.config, self.sender.mtu(), now);
        }
    }

    /// Handles a HEARTBEAT ACK: a round-trip sample, and perhaps a larger MTU.
    fn on_heartbeat_ack(&mut self, info: &[u8], now: Instant) {
        let outcome = self.heartbeat.on_answer(info, now);
        if let Some(round_trip) = outcome.round_trip {
            self.errors = 0;
            self.round_trip = Some(round_trip);
        }
        if let Some(mtu) = outcome.mtu {
            self.set_mtu(mtu);
        }
    }

    /// Handles requests and responses of stream reconfiguration (RFC 6525).
    fn on_re_config(&mut self, config: &ReConfig<'_>) -> Result<(), Dropped> {
        if !self.is_open() {
            return Err(Dropped::State);
        }
        for parameter in config.parameters {
            match parameter? {
                Parameter::OutgoingReset(reset) => self.on_outgoing_reset(&reset),
                Parameter::IncomingReset(reset) => {
                    // Streams on which nothing was sent are as if they had been reset.
                    let queue = &self.sender.send_queue;
                    let used = reset.streams.iter().filter(|stream| queue.is_used(*stream));
                    let streams: Vec<u16> = used.collect();
                    self.resets.on_request(reset.request, |resets| {
                        streams
                            .iter()
                            .for_each(|stream| resets.request_reset(*stream));
                        ReConfigResult::PERFORMED
                    });
                    for stream in streams {
                        self.sender.send_queue.set_resetting(stream, true);
                    }
                    self.prepare_resets();
                }
                Parameter::Response(response) => {
                    self.on_reset_response(response.response, response.result);
                }
                Parameter::TsnReset(request) => self.deny(request),
                Parameter::AddOutgoingStreams(add) | Parameter::AddIncomingStreams(add) => {
                    self.deny(add.request);
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Denies a request that we do not support.
    fn deny(&mut self, request: u32) {
        self.resets.on_request(request, |_| ReConfigResult::DENIED);
    }

    /// Handles the peer's reset of its outgoing streams, at once if all of their data is
    /// here.
    fn on_outgoing_reset(&mut self, reset: &OutgoingReset<'_>) {
        let last = self.receiver.widen(reset.last_tsn);
        let here = last <= self.receiver.cumulative();
        let streams: Vec<u16> = reset.streams.iter().collect();
        let mut performed = false;
        self.resets.on_request(reset.request, |resets| {
            if here {
                performed = true;
                ReConfigResult::PERFORMED
            } else {
                resets.defer(reset.request, last, streams.clone());
                ReConfigResult::IN_PROGRESS
            }
        });
        if performed {
            self.perform_reset(streams);
        }
    }

    /// Performs the peer's resets that waited for data which has arrived by now.
    fn perform_deferred(&mut self) {
        if !self.resets.has_deferred() {
            return;
        }
        let cumulative = self.receiver.cumulative();
        while let Some(streams) = self.resets.take_deferred(cumulative) {
            self.perform_reset(streams);
        }
    }

    /// Resets incoming streams and reports that; an empty list means all of them.
    fn perform_reset(&mut self, streams: Vec<u16>) {
        self.receiver.reset(&streams);
        self.push_event(Event::StreamsReset {
            direction: Direction::Incoming,
            streams,
        });
    }

    /// Handles the peer's response to our reset request.
    fn on_reset_response(&mut self, number: u32, result: ReConfigResult) {
        match self.resets.on_response(number, result) {
            Some(ResetResult::Done(streams)) => {
                for stream in &streams {
                    self.sender.send_queue.restart(*stream);
                }
                self.push_event(Event::StreamsReset {
                    direction: Direction::Outgoing,
                    streams,
                });
            }
            Some(ResetResult::Refused(streams)) => {
                for stream in &streams {
                    self.sender.send_queue.set_resetting(*stream, false);
                }
                self.push_event(Event::ResetRefused { streams });
            }
            None => {}
        }
        self.prepare_resets();
    }
}

/// Bytes of an unrecognized chunk that are sent back to the peer in an ERROR chunk, at
/// most.
const UNKNOWN_BYTES_MAX: usize = 256;

impl From<ParseError> for Dropped {
    fn from(error: ParseError) -> Self {
        match error {
            ParseError::Checksum { .. } => Self::Checksum,
            error => Self::Malformed(error),
        }
    }
}
