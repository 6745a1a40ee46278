//! The end, in order or at once (RFC 9260 §9).

use std::time::Instant;

use super::Association;
use crate::chunk::{Abort, Cause, Causes};
use crate::packet::{NoRoom, PacketBuilder};
use crate::sequence::{Tsn, narrow};
use crate::timer::{Timer, Waits};
use crate::{CloseReason, Dropped, State, chunk};

/// What of the goodbye is under way.
#[derive(Debug, Default)]
pub(super) struct Shutdown {
    /// SHUTDOWN or SHUTDOWN ACK is to be sent now.
    pub(super) due: bool,
    /// T2.
    pub(super) timer: Timer,
    /// SHUTDOWN COMPLETE is to be sent.
    pub(super) complete: bool,
    /// ABORT is to be sent, for this.
    pub(super) abort: Option<Farewell>,
}

/// Why an ABORT is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Farewell {
    Application,
    Violation(&'static str),
    TooLarge,
}

impl Association {
    pub(super) fn begin_shutdown(&mut self) {
        match self.state {
            State::Established => self.state = State::ShutdownPending,
            State::Closed | State::CookieWait | State::CookieEchoed => {
                self.end(CloseReason::Shutdown);
            }
            _ => {}
        }
        self.go_on_closing();
    }

    /// All that was handed over has arrived: the next step.
    pub(super) fn go_on_closing(&mut self) {
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

    /// T2 ran out.
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
        let waits = Waits {
            first: self.sender.rto(),
            longest: self.config.rto_max,
        };
        self.shutdown.timer.start(now, waits);
        Ok(())
    }

    /// SHUTDOWN; the caller has taken its cumulative TSN.
    pub(super) fn on_shutdown(&mut self) {
        match self.state {
            State::Established | State::ShutdownPending => {
                self.state = State::ShutdownReceived;
            }
            // Both want it (§9.2).
            State::ShutdownSent => {
                self.state = State::ShutdownAckSent;
                self.shutdown.due = true;
            }
            State::ShutdownAckSent => self.shutdown.due = true,
            _ => {}
        }
        self.go_on_closing();
    }

    pub(super) fn on_shutdown_ack(&mut self) -> Result<(), Dropped> {
        match self.state {
            State::ShutdownSent | State::ShutdownAckSent => {
                self.end(CloseReason::Shutdown);
                self.shutdown.complete = true;
                Ok(())
            }
            State::Closed if self.is_over => {
                // Ours got lost (§8.5.1 E).
                self.shutdown.complete = true;
                Ok(())
            }
            _ => Err(Dropped::State),
        }
    }

    pub(super) fn on_shutdown_complete(&mut self) {
        if self.state == State::ShutdownAckSent {
            self.end(CloseReason::Shutdown);
        }
    }

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

    /// The peer broke the protocol.
    pub(super) fn violate(&mut self, what: &'static str) {
        self.shutdown.abort = Some(Farewell::Violation(what));
        self.end(CloseReason::Violation(what));
    }

    pub(super) fn write_abort(
        &mut self,
        farewell: Farewell,
        packet: &mut PacketBuilder<'_>,
    ) -> Result<(), NoRoom> {
        let cause = match farewell {
            Farewell::Application => Cause::UserInitiatedAbort(b""),
            Farewell::Violation(what) => Cause::ProtocolViolation(what.as_bytes()),
            Farewell::TooLarge => Cause::ProtocolViolation(b"message above max-message-size"),
        };
        Abort {
            reflected_tag: false,
            causes: Causes::NONE,
        }
        .write_with(&[cause], packet)
    }
}
