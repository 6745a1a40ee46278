//! Decides which data chunks go into the next packet.

use std::time::{Duration, Instant};

use super::Sender;
use super::outstanding::{ChunkState, Message, OutstandingChunk};
use super::send_queue::{FragmentRoom, OutgoingFragment};
use crate::chunk::{DATA_HEADER_BYTES, Data, DataFlags, I_DATA_HEADER_BYTES, IData};
use crate::packet::{HEADER_BYTES, PacketBuilder};
use crate::sequence::{Mid, Ssn, Tsn, narrow, narrow_short};

/// Shortest fragment, in bytes, of a message that would fit a packet of its own: such a
/// message is not split to fill a smaller rest of a packet, because it would be lost as
/// often as two. A message that is split anyway fills any rest, so that packets of bulk
/// data have one size, and one system call carries as many as it can.
const FRAGMENT_MIN: usize = 128;

/// Shortest wait for pacing: no timer is finer, and the pacer saves up more than that.
const PACING_STEP: Duration = Duration::from_micros(250);

/// Bytes that windows and pacing allow at one instant, until an acknowledgement or a timer
/// changes them.
#[derive(Clone, Copy, Debug)]
pub(super) struct SendAllowance {
    /// Instant for which the allowance holds.
    at: Instant,
    /// Bytes that may still leave.
    bytes: u64,
}

/// Which chunks of a packet ask the peer to acknowledge at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ImmediateAnswer {
    /// No chunk asks for an acknowledgement at once.
    Never,
    /// The chunk that empties the send queue asks for one.
    IfLast,
    /// Every chunk asks for one.
    Always,
}

impl Sender {
    /// Returns the bytes of a data chunk before its payload.
    pub(super) const fn header_bytes(&self) -> usize {
        if self.interleaving {
            I_DATA_HEADER_BYTES
        } else {
            DATA_HEADER_BYTES
        }
    }

    /// Returns the largest payload of a chunk, in bytes: as much as fits the smallest
    /// packet that is sure to pass. Larger packets carry several chunks, because a chunk
    /// cannot be fragmented again if larger packets cease to pass.
    fn chunk_max(&self) -> usize {
        self.mtu.min(self.mtu_sure) - HEADER_BYTES - self.header_bytes()
    }

    /// Whether there is something to write, if windows and pacing allow it.
    pub(crate) fn has_data(&self) -> bool {
        self.probe.is_due || !self.lost.is_empty() || !self.send_queue.is_empty()
    }

    /// Whether windows and pacing allow a packet to leave now. The result is remembered for
    /// further packets at the same instant.
    fn may_leave(&mut self, now: Instant) -> bool {
        let mtu = self.mtu as u64;
        let remembered = self.allowance.filter(|allowance| allowance.at == now);
        if remembered.is_some_and(|allowance| allowance.bytes >= mtu) {
            return true;
        }
        let window = self.flow.allowance();
        if window < mtu && self.flow.in_flight() > 0 {
            return false;
        }
        let paced = self.pacer.allowance(now, self.flow.pacing_rate());
        self.allowance = Some(SendAllowance {
            at: now,
            bytes: window.min(paced),
        });
        paced >= mtu
    }

    /// Whether a packet would probably carry data.
    pub(crate) fn would_write(&mut self, now: Instant) -> bool {
        self.probe.is_due || self.has_data() && self.may_leave(now)
    }

    /// Returns when pacing lets a packet leave, if only pacing holds it back now.
    pub(crate) fn pacing_deadline(&mut self, now: Instant) -> Option<Instant> {
        let mtu = self.mtu as u64;
        let window = self.flow.allowance() >= mtu || self.flow.in_flight() == 0;
        let rate = self.flow.pacing_rate();
        if !window || !self.has_data() || self.pacer.allowance(now, rate) >= mtu {
            // Something other than pacing holds it back, if anything does: a timer for this
            // would fire again and again without effect.
            return None;
        }
        // The timer waits for a few packets at a time: one for each would cost more than it
        // smooths.
        let at = self.pacer.deadline(now, rate, 8 * mtu)?;
        Some(at.max(now + PACING_STEP))
    }

    /// Appends data chunks to the packet; returns whether there are any. If so, the caller
    /// reports the packet's size by [`on_packet`](Self::on_packet).
    pub(crate) fn write_data(&mut self, now: Instant, packet: &mut PacketBuilder<'_>) -> bool {
        if !self.has_data() {
            self.flow.on_app_limited();
            return false;
        }
        let probe = std::mem::take(&mut self.probe.is_due);
        if !probe && !self.may_leave(now) {
            return false;
        }
        let first_new = self.outstanding.next_tsn();
        let mut written = self.write_lost(now, packet);
        if self.lost.is_empty() {
            written |= self.write_new(now, packet, probe);
        }
        if probe {
            self.counts.probes += 1;
            if !written {
                written = self.write_probe(now, packet);
            } else if self.outstanding.next_tsn() == first_new {
                self.probe.tsn = None;
            }
        }
        if !written && self.send_queue.is_empty() && self.lost.is_empty() {
            // Not if the peer's window is the limit: a controller that probes for the
            // path's bandwidth would probe for ever (Linux does the same).
            self.flow.on_app_limited();
        }
        written
    }

    /// Records that a packet of `bytes` with data was sent.
    pub(crate) fn on_packet(&mut self, now: Instant, bytes: usize) {
        let number = self.next_packet;
        self.next_packet += 1;
        self.flow.on_sent(now, number, bytes as u64);
        self.pacer.sent(bytes as u64);
        if let Some(allowance) = &mut self.allowance {
            allowance.bytes = allowance.bytes.saturating_sub(bytes as u64);
        }
        let alone = self.flow.in_flight() <= self.mtu as u64;
        let trips = self.flow.round_trips();
        self.recovery.on_packet(now, trips, alone);
    }

    /// Appends chunks to be retransmitted, lowest TSN first: data that waits for them at
    /// the peer then waits least.
    fn write_lost(&mut self, now: Instant, packet: &mut PacketBuilder<'_>) -> bool {
        let mut written = false;
        while let Some(&tsn) = self.lost.first() {
            let Some(chunk) = self.outstanding.get(tsn) else {
                self.lost.pop_first();
                continue;
            };
            let message = chunk.message;
            let expired = self
                .outstanding
                .message(message)
                .is_some_and(|it| it.content.limits.is_expired(now));
            if expired {
                self.abandon_message(message);
                self.lost.remove(&tsn);
                self.forward.advance(&self.outstanding);
                continue;
            }
            if !self.write_again(tsn, now, packet) {
                break;
            }
            self.lost.pop_first();
            written = true;
        }
        written
    }

    /// Retransmits chunk `tsn`; false if it does not fit.
    fn write_again(&mut self, tsn: u64, now: Instant, packet: &mut PacketBuilder<'_>) -> bool {
        let Some(&chunk) = self.outstanding.get(tsn) else {
            return false;
        };
        let header = self.header_bytes();
        if usize::from(chunk.len) + header > packet.room() {
            return false;
        }
        let Some(message) = self.outstanding.message(chunk.message) else {
            return false;
        };
        let flags = chunk.flags;
        if !write_chunk(packet, message, &chunk, tsn, flags, self.interleaving) {
            return false;
        }
        self.counts.retransmitted += u64::from(chunk.len);
        let number = self.next_packet;
        if let Some(chunk) = self.outstanding.get_mut(tsn) {
            chunk.packet_before = chunk.packet;
            chunk.packet = number;
            chunk.at = now;
            chunk.times = chunk.times.saturating_add(1);
            chunk.state = ChunkState::InFlight;
        }
        self.recovery.on_sent(number, tsn);
        true
    }

    /// Retransmits the newest chunk in flight as a probe, so that its acknowledgement shows
    /// what is missing.
    fn write_probe(&mut self, now: Instant, packet: &mut PacketBuilder<'_>) -> bool {
        let last = self.outstanding.next_tsn() - 1;
        let in_flight = |tsn: &u64| {
            let chunk = self.outstanding.get(*tsn);
            chunk.is_some_and(|chunk| chunk.state == ChunkState::InFlight)
        };
        let first = self.outstanding.cumulative() + 1;
        let Some(tsn) = (first..=last).rev().take(64).find(in_flight) else {
            return false;
        };
        let before = self.outstanding.get(tsn).map(|chunk| chunk.packet);
        if !self.write_again(tsn, now, packet) {
            return false;
        }
        // The chunk is not known to be lost: only one of the two transmissions counts as in
        // flight.
        self.flow.on_discarded(before);
        self.probe.tsn = Some(tsn);
        true
    }

    /// Appends new chunks as far as packet, windows and scheduler allow.
    fn write_new(&mut self, now: Instant, packet: &mut PacketBuilder<'_>, probe: bool) -> bool {
        let header = self.header_bytes();
        let chunk_max = self.chunk_max();
        let answer = if probe {
            ImmediateAnswer::Always
        } else {
            self.immediate_answer()
        };
        let mut written = false;
        let mut expired = 0;
        while packet.room() > header && !self.outstanding.is_full() {
            let room = FragmentRoom {
                packet: (packet.room() - header).min(chunk_max),
                peer: self.peer.largest,
            };
            let Some(fragment) = self.send_queue.peek(room, now, &mut expired) else {
                break;
            };
            let peer_room = self.peer_room();
            // With nothing outstanding, a packet may probe whether the peer's window is
            // open again (RFC 9260 §6.1 A).
            let probes_window = self.outstanding.bytes() == 0 && !written;
            if fragment.len as u64 > peer_room && !probes_window {
                break;
            }
            let fits_one = fragment.message_len <= chunk_max;
            if !fragment.ends && fits_one && fragment.len < FRAGMENT_MIN {
                break;
            }
            self.write_fragment(now, &fragment, answer, packet);
            written = true;
        }
        self.counts.abandoned += expired;
        written
    }

    /// Moves a fragment from the queue to the outstanding chunks, and appends it to the
    /// packet, where it fits.
    fn write_fragment(
        &mut self,
        now: Instant,
        fragment: &OutgoingFragment,
        answer: ImmediateAnswer,
        packet: &mut PacketBuilder<'_>,
    ) {
        let number = if fragment.begins {
            self.outstanding.next_message()
        } else {
            fragment.message
        };
        if let Some(content) = self.send_queue.take(fragment, number) {
            self.outstanding.begin(Message {
                stream: fragment.stream,
                number: fragment.number,
                content,
                chunks: 0,
                complete: false,
                abandoned: false,
            });
        }
        let flags = flags_of(fragment);
        let chunk = OutstandingChunk {
            message: number,
            packet: self.next_packet,
            packet_before: self.next_packet,
            at: now,
            offset: fragment.offset as u32,
            index: fragment.index,
            len: fragment.len as u16,
            times: 1,
            flags,
            state: ChunkState::InFlight,
        };
        let wire = match answer {
            ImmediateAnswer::Always => flags | DataFlags::IMMEDIATE,
            ImmediateAnswer::IfLast if self.send_queue.is_empty() => flags | DataFlags::IMMEDIATE,
            _ => flags,
        };
        let tsn = self.outstanding.next_tsn();
        if let Some(message) = self.outstanding.message(number) {
            write_chunk(packet, message, &chunk, tsn, wire, self.interleaving);
        }
        self.outstanding.push(chunk);
        self.recovery.on_sent(chunk.packet, tsn);
        self.counts.data_sent += fragment.len as u64;
    }

    /// Returns which chunks of the next packet ask the peer not to delay its acknowledgement
    /// (RFC 7053 §4): those that nothing follows for now. The acknowledgement of a single
    /// packet may be delayed, to travel with an answer.
    fn immediate_answer(&self) -> ImmediateAnswer {
        let mtu = self.mtu as u64;
        if self.flow.in_flight() <= mtu {
            ImmediateAnswer::Never
        } else if self.flow.allowance() < 2 * mtu {
            ImmediateAnswer::Always
        } else {
            ImmediateAnswer::IfLast
        }
    }
}

/// Returns the flags of a fragment's chunk.
fn flags_of(fragment: &OutgoingFragment) -> DataFlags {
    let mut flags = DataFlags(0);
    for (set, flag) in [
        (fragment.begins, DataFlags::BEGIN),
        (fragment.ends, DataFlags::END),
        (fragment.unordered, DataFlags::UNORDERED),
    ] {
        if set {
            flags = flags | flag;
        }
    }
    flags
}

/// Writes a chunk as DATA or I-DATA; false if it does not fit.
fn write_chunk(
    packet: &mut PacketBuilder<'_>,
    message: &Message,
    chunk: &OutstandingChunk,
    tsn: u64,
    flags: DataFlags,
    interleaving: bool,
) -> bool {
    let from = chunk.offset as usize;
    let payload = &message.content.data[from..from + usize::from(chunk.len)];
    let tsn = Tsn(narrow(tsn));
    let written = if interleaving {
        IData {
            flags,
            tsn,
            stream: message.stream,
            mid: Mid(narrow(message.number)),
            ppid: message.content.ppid,
            fsn: chunk.index,
            payload,
        }
        .write(packet)
    } else {
        Data {
            flags,
            tsn,
            stream: message.stream,
            ssn: Ssn(narrow_short(message.number)),
            ppid: message.content.ppid,
            payload,
        }
        .write(packet)
    };
    written.is_ok()
}
