//! Decides what the next packet carries, and in which order.

use std::time::Instant;

use super::Association;
use super::handshake::ExpiredCookie;
use crate::State;
use crate::chunk::{Cause, CookieAck, Error, HeartbeatAck, ShutdownComplete};
use crate::packet::{Checksum, HEADER_BYTES, NoRoom, PacketBuilder};
use crate::timer::Backoff;

impl Association {
    /// Writes the next packet into `out` and returns its length; `None` if none may leave.
    pub(super) fn write_packet(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        if let Some(len) = self.write_alone(now, out) {
            return Some(len);
        }
        if !self.is_open() {
            return None;
        }
        let checksum = if self.zero_checksum {
            Checksum::Zero
        } else {
            Checksum::Crc32c
        };
        if let Some(len) = self.write_bundle(now, out, checksum) {
            return Some(len);
        }
        self.write_path_probe(now, out, checksum)
    }

    /// Writes a packet of the handshake or of the end, each of which travels alone.
    fn write_alone(&mut self, now: Instant, out: &mut [u8]) -> Option<usize> {
        let crc = Checksum::Crc32c;
        if let Some(init_ack) = self.handshake.init_ack.take() {
            let header = self.header(init_ack.tag());
            return finish(out, header, crc, |packet| {
                self.write_init_ack(&init_ack, packet)
            });
        }
        if let Some(ExpiredCookie { over, tag }) = self.handshake.stale.take() {
            let header = self.header(tag);
            return finish(out, header, crc, |packet| {
                Error::write_causes(&[Cause::StaleCookie(over)], packet)
            });
        }
        if let Some(reason) = self.shutdown.abort.take() {
            let header = self.header(self.peer_tag);
            return finish(out, header, crc, |packet| self.write_abort(reason, packet));
        }
        if std::mem::take(&mut self.shutdown.complete) {
            let header = self.header(self.peer_tag);
            let complete = ShutdownComplete {
                reflected_tag: false,
            };
            return finish(out, header, crc, |packet| complete.write(packet));
        }
        match self.state {
            State::CookieWait if self.handshake.due => {
                let header = self.header(0);
                finish(out, header, crc, |packet| self.write_init(now, packet))
            }
            State::CookieEchoed if self.handshake.due => {
                let header = self.header(self.peer_tag);
                finish(out, header, crc, |packet| {
                    self.write_cookie_echo(now, packet)
                })
            }
            _ => None,
        }
    }

    /// Writes control chunks that are due, and as much data as fits and may leave.
    fn write_bundle(&mut self, now: Instant, out: &mut [u8], checksum: Checksum) -> Option<usize> {
        let limit = self.sender.packet_limit().min(out.len());
        let header = self.header(self.peer_tag);
        let mut packet = PacketBuilder::new(&mut out[..limit], header).ok()?;
        let sends = self.may_send_data();
        let answers = self.receiver.is_sack_due()
            || self.receiver.has_sack() && sends && self.sender.would_write(now);
        if self.has_control() {
            self.write_control(now, &mut packet);
        }
        if answers {
            self.receiver.write_sack(&mut packet);
        }
        if sends {
            let data = self.sender.write_data(now, &mut packet);
            if data {
                self.heartbeat.postpone(&self.config, now);
                let len = packet.finish(checksum);
                self.sender.on_packet(now, len);
                return Some(len);
            }
        }
        if packet.is_empty() {
            return None;
        }
        Some(packet.finish(checksum))
    }

    /// Whether the state allows data to be sent.
    fn may_send_data(&self) -> bool {
        matches!(
            self.state,
            State::Established | State::ShutdownPending | State::ShutdownReceived
        )
    }

    /// Whether a control chunk other than a SACK is due, all of which are rare.
    fn has_control(&self) -> bool {
        self.handshake.cookie_ack
            || self.unknown.is_some()
            || self.heartbeat.has_answers()
            || self.heartbeat.is_due()
            || self.resets.is_due()
            || self.sender.is_forward_due()
            || self.shutdown.due
    }

    /// Appends the control chunks that are due and fit.
    fn write_control(&mut self, now: Instant, packet: &mut PacketBuilder<'_>) {
        if self.handshake.cookie_ack && CookieAck.write(packet).is_ok() {
            self.handshake.cookie_ack = false;
        }
        if let Some(whole) = self.unknown.take() {
            // If there is no room, the report to the peer is left out.
            let _ = Error::write_causes(&[Cause::UnrecognizedChunk(&whole)], packet);
        }
        while let Some(info) = self.heartbeat.take_answer() {
            if (HeartbeatAck { info: &info }).write(packet).is_err() {
                if packet.is_empty() {
                    continue;
                }
                self.heartbeat.on_heartbeat(&info);
                break;
            }
        }
        let rto = self.sender.rto();
        self.heartbeat.write(packet, now, rto);
        let backoff = Backoff {
            first: rto,
            longest: self.config.rto_max,
        };
        self.resets.write(packet, now, backoff);
        self.sender.write_forward(now, packet);
        if self.shutdown.due && self.write_shutdown(now, packet).is_ok() {
            self.shutdown.due = false;
        }
    }

    /// Writes an MTU probe: a packet larger than any before.
    fn write_path_probe(
        &mut self,
        now: Instant,
        out: &mut [u8],
        checksum: Checksum,
    ) -> Option<usize> {
        if self.state != State::Established {
            return None;
        }
        let size = self.heartbeat.probe()?;
        if size > out.len() {
            self.heartbeat.refuse_probe();
            return None;
        }
        let header = self.header(self.peer_tag);
        let mut packet = PacketBuilder::new(&mut out[..size], header).ok()?;
        let rto = self.sender.rto();
        self.heartbeat.write_probe(&mut packet, now, rto);
        (!packet.is_empty()).then(|| packet.finish(checksum))
    }
}

/// Writes a packet of what `write` appends, and returns its length.
fn finish(
    out: &mut [u8],
    header: crate::packet::Header,
    checksum: Checksum,
    write: impl FnOnce(&mut PacketBuilder<'_>) -> Result<(), NoRoom>,
) -> Option<usize> {
    let mut packet = PacketBuilder::new(out, header).ok()?;
    write(&mut packet).ok()?;
    debug_assert!(packet.len() > HEADER_BYTES, "no packet without a chunk");
    Some(packet.finish(checksum))
}
