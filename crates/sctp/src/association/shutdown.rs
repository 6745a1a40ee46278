//! How an association ends: SHUTDOWN or ABORT (RFC 9260 §9).

use std::time::Instant;

use super::Association;
use crate::chunk::{Abort, Cause, Causes};
use crate::packet::{NoRoom, PacketBuilder};
use crate::sequence::{Tsn, narrow};
use crate::timer::{Backoff, Timer};
use crate::{CloseReason, Dropped, State, chunk};

/// State of the shutdown, and its messages that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Shutdown {
    /// Whether SHUTDOWN or SHUTDOWN ACK has to be sent now.
    pub(super) due: bool,
    /// T2: retransmits SHUTDOWN and SHUTDOWN ACK, and counts how often.
    pub(super) timer: Timer,
    /// Whether SHUTDOWN COMPLETE has to be sent.
    pub(super) complete: bool,
    /// The reason of an ABORT that has to be sent.
    pub(super) abort: Option<AbortReason>,
}

/// The reason why an ABORT is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AbortReason {
    /// The application called `abort`.
    Application,
    /// The peer broke the protocol; the text says how.
    Violation(&'static str),
    /// The peer sent a message above `Config::max_message_size`.
    TooLarge,
}

impl Association {
    /// Starts the shutdown, or ends the association if it is not established.
    pub(super) fn begin_shutdown(&mut self) {
        match self.state {
            State::Established => self.state = State::ShutdownPending,
            State::Closed | State::CookieWait | State::CookieEchoed => {
                self.end(CloseReason::Shutdown);
            }
            _ => {}
        }
        self.continue_shutdown();
    }

    /// Takes the next step of the shutdown if all queued data was acknowledged.
    pub(super) fn continue_shutdown(&mut self) {
        let next = match self.state {
            State::ShutdownPending => State::ShutdownSent,
            State::ShutdownReceived => State::ShutdownAckSent,
            _ => return,
        };
        if self.sender.is_drained() {
            self.state = next;
            self.shutdown.due = true;
        }
    }

    /// Handles T2: sends SHUTDOWN or SHUTDOWN ACK again, or gives up after
    /// `max_retransmissions`.
    pub(super) fn shutdown_timeout(&mut self, now: Instant) {
        if self.shutdown.timer.is_over(now) {
            self.shutdown.timer.stop();
            self.shutdown.due = true;
            let max = self.config.max_retransmissions;
            if max.is_some_and(|max| self.shutdown.timer.times > max) {
                self.end(CloseReason::PeerUnreachable);
            }
        }
    }

    /// Writes SHUTDOWN or SHUTDOWN ACK, by the state, and starts T2.
    pub(super) fn write_shutdown(
        &mut self,
        now: Instant,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        match self.state {
            State::ShutdownSent => chunk::Shutdown {
                cumulative_tsn: Tsn(narrow(self.receiver.cumulative())),
            }
            .write(packet)?,
            State::ShutdownAckSent => chunk::ShutdownAck.write(packet)?,
            _ => return Ok(()),
        }
        self.shutdown.due = false;
        let backoff = Backoff {
            first: self.sender.rto(),
            longest: self.config.rto_max,
        };
        self.shutdown.timer.start(now, backoff);
        Ok(())
    }

    /// Handles a SHUTDOWN, whose cumulative TSN the caller has processed.
    pub(super) fn on_shutdown(&mut self) {
        match self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
            }
            // Both ends are shutting down (§9.2).
            State::ShutdownSent => {
                self.state = State::ShutdownAckSent;
                self.shutdown.due = true;
            }
            State::ShutdownAckSent => self.shutdown.due = true,
            _ => {}
        }
        self.continue_shutdown();
    }

    /// Handles a SHUTDOWN ACK: the association ends.
    pub(super) fn on_shutdown_ack(&mut self) -> Result<(), Dropped> {
        match self.state {
            State::ShutdownSent | State::ShutdownAckSent => {
                self.end(CloseReason::Shutdown);
                self.shutdown.complete = true;
                Ok(())
            }
            State::Closed if self.is_over => {
                // Our SHUTDOWN COMPLETE got lost (§8.5.1 E).
                self.shutdown.complete = true;
                Ok(())
            }
            _ => Err(Dropped::State),
        }
    }

    /// Handles a SHUTDOWN COMPLETE: the association ends.
    pub(super) fn on_shutdown_complete(&mut self) {
        if self.state == State::ShutdownAckSent {
            self.end(CloseReason::Shutdown);
        }
    }

    /// Handles an ABORT: the association ends with the peer's first cause.
    pub(super) fn on_abort(&mut self, causes: Causes<'_>) {
        let first = causes.flatten().next();
        let text = match first {
            Some(
                Cause::UserInitiatedAbort(text)
                | Cause::ProtocolViolation(text)
                | Cause::Unknown { value: text, .. },
            ) => String::from_utf8_lossy(&text[..text.len().min(256)]).into_owned(),
            _ => String::new(),
        };
        self.end(CloseReason::AbortedByPeer {
            cause: first.map(|cause| cause.code()),
            text,
        });
    }

    /// Aborts the association because the peer broke the protocol; `what` says how.
    pub(super) fn abort_for_violation(&mut self, what: &'static str) {
        self.shutdown.abort = Some(AbortReason::Violation(what));
        self.end(CloseReason::Violation(what));
    }

    /// Writes an ABORT with its cause.
    pub(super) fn write_abort(
        &mut self,
        reason: AbortReason,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        let cause = match reason {
            AbortReason::Application => Cause::UserInitiatedAbort(b""),
            AbortReason::Violation(what) => Cause::ProtocolViolation(what.as_bytes()),
            AbortReason::TooLarge => Cause::ProtocolViolation(b"message above max-message-size"),
        };
        Abort {
            reflected_tag: false,
            causes: Causes::NONE,
        }
        .write_with(&[cause], packet)
    }
}
