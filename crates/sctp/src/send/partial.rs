//! Partial reliability: messages that are abandoned (RFC 3758, RFC 8260 §2.3, RFC 7496).

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::Sender;
use super::outstanding::{ChunkState, Outstanding};
use crate::chunk::{DataFlags, ForwardTsn, IForwardTsn, SkippedMessage, SkippedStream};
use crate::packet::PacketBuilder;
use crate::sequence::{Mid, Ssn, Tsn, narrow, narrow_short};

/// Most streams or messages that one FORWARD TSN names, so that it fits any packet.
const SKIPPED_MAX: usize = 48;

/// The state of FORWARD TSN: up to where the peer shall not wait for data.
#[derive(Debug)]
pub(crate) struct ForwardTsnState {
    /// `Advanced.Peer.Ack.Point` (RFC 3758 §3.5).
    advanced: u64,
    /// Whether a FORWARD TSN has to be sent now.
    due: bool,
    /// When the FORWARD TSN is to be repeated.
    again_at: Option<Instant>,
}

impl ForwardTsnState {
    /// Returns the state before anything was sent; `advanced`: one less than the first TSN.
    pub(crate) const fn new(advanced: u64) -> Self {
        Self {
            advanced,
            due: false,
            again_at: None,
        }
    }

    /// Advances the acknowledgement point over acknowledged and abandoned chunks after the
    /// first gap.
    pub(crate) fn advance(&mut self, outstanding: &Outstanding) {
        let before = self.advanced;
        self.advanced = self.advanced.max(outstanding.cumulative());
        let mut tsn = self.advanced + 1;
        while let Some(chunk) = outstanding.get(tsn) {
            let message = outstanding.message(chunk.message);
            let abandoned = message.is_some_and(|it| it.abandoned);
            if !abandoned && chunk.state != ChunkState::Acked {
                break;
            }
            // Not into the middle of a message that is still wanted: the peer would discard
            // the part of it that has arrived.
            if abandoned || chunk.flags.has(DataFlags::END) {
                self.advanced = tsn;
            }
            tsn += 1;
        }
        if self.advanced == outstanding.cumulative() {
            self.due = false;
            self.again_at = None;
        } else if self.advanced > before {
            self.due = true;
        }
    }

    /// Returns when the FORWARD TSN is to be repeated.
    pub(crate) const fn deadline(&self) -> Option<Instant> {
        self.again_at
    }

    /// Makes the FORWARD TSN due again if its time has come.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        if self.again_at.is_some_and(|at| now >= at) {
            self.again_at = None;
            self.due = true;
        }
    }

    /// Whether a FORWARD TSN has to be sent now.
    pub(crate) const fn is_due(&self) -> bool {
        self.due
    }
}

impl Sender {
    /// Abandons an outstanding message, including what is unsent of it.
    pub(super) fn abandon_message(&mut self, number: u64) {
        let Some(message) = self.outstanding.message_mut(number) else {
            return;
        };
        if !message.abandoned {
            message.abandoned = true;
            self.counts.abandoned += 1;
            let stream = message.stream;
            self.send_queue.abandon(stream, number);
            self.outstanding.complete(number);
        }
        let is_of_it = |tsn: &u64| {
            let chunk = self.outstanding.get(*tsn);
            chunk.is_some_and(|chunk| chunk.message == number)
        };
        // The chunks of a message are adjacent, except with interleaving.
        let lost: Vec<u64> = self.lost.iter().copied().filter(is_of_it).collect();
        for tsn in lost {
            self.lost.remove(&tsn);
            if let Some(chunk) = self.outstanding.get_mut(tsn) {
                chunk.state = ChunkState::Abandoned;
            }
        }
    }

    /// Appends a FORWARD TSN or I-FORWARD-TSN if one is due.
    pub(crate) fn write_forward(&mut self, now: Instant, packet: &mut PacketBuilder<'_>) {
        if !self.forward.due {
            return;
        }
        // Ordered and unordered messages are counted separately; without interleaving only
        // ordered ones have a number.
        let mut skipped: BTreeMap<(u16, bool), u64> = BTreeMap::new();
        let mut reached = self.outstanding.cumulative();
        for tsn in reached + 1..=self.forward.advanced {
            let Some(chunk) = self.outstanding.get(tsn) else {
                break;
            };
            if let Some(message) = self.outstanding.message(chunk.message)
                && message.abandoned
                && (self.interleaving || !message.content.unordered)
            {
                let key = (message.stream, message.content.unordered);
                if skipped.len() == SKIPPED_MAX && !skipped.contains_key(&key) {
                    break;
                }
                let last = skipped.entry(key).or_insert(message.number);
                *last = (*last).max(message.number);
            }
            reached = tsn;
        }
        let to = Tsn(narrow(reached));
        let written = if self.interleaving {
            let messages = skipped.iter().map(|(key, number)| SkippedMessage {
                stream: key.0,
                unordered: key.1,
                mid: Mid(narrow(*number)),
            });
            IForwardTsn::write_messages(to, messages, packet)
        } else {
            let streams = skipped.iter().map(|(key, number)| SkippedStream {
                stream: key.0,
                ssn: Ssn(narrow_short(*number)),
            });
            ForwardTsn::write_streams(to, streams, packet)
        };
        if written.is_ok() {
            self.forward.due = false;
            let wait = self.rto().min(Duration::from_secs(1));
            self.forward.again_at = Some(now + wait);
        }
    }

    /// Whether a FORWARD TSN has to be sent now.
    pub(crate) const fn is_forward_due(&self) -> bool {
        self.forward.is_due()
    }
}
