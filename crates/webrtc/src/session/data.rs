//! Data channels: packets of the SCTP association in DTLS records.

use std::time::Instant;

use glassline_sctp as sctp;
use sctp::channel::{Channels, Role as ChannelRole};

use super::config::{DataConfig, Secrets};
use crate::dtls::record::{ContentType, RecordCounts, SealError, Sealer};
use crate::sdp;
use crate::srtp::Role;

/// Most segments of one segmented send, a limit of the kernel.
pub(super) const SEGMENTS_MAX: usize = 64;
/// Most bytes of one segmented send, a limit of UDP.
const BATCH_BYTES_MAX: usize = 65_000;
/// Data channels of a session.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) channels: Channels,
    /// Largest packet that path MTU discovery tries, in bytes.
    mtu_max: usize,
    /// A sealed datagram that was longer than the others of its batch and is sent in the next
    /// one.
    pub(super) held: Vec<u8>,
    /// Number of packets that the association refused.
    pub(super) refused: u64,
}

/// Counts of a session's DTLS records of data. The SCTP association and the channels count for
/// themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataCounts {
    /// Counts of the records that arrived.
    pub records: RecordCounts,
    /// Number of records that were sealed.
    pub sealed: u64,
    /// Number of packets that were decrypted but refused by the association.
    pub refused: u64,
}

impl Data {
    pub(super) fn new(config: DataConfig, secrets: &Secrets, now: Instant) -> Self {
        let mtu_max = config.association.mtu_max;
        let secrets = sctp::Secrets::from_random(secrets.sctp);
        let association = sctp::Association::new(config.association, secrets, now);
        Self {
            // The real role is known with the answer; stream identifiers are assigned after
            // that.
            channels: Channels::new(association, ChannelRole::DtlsClient, config.limits),
            mtu_max,
            held: Vec::new(),
            refused: 0,
        }
    }

    /// Applies what both descriptions agree on.
    pub(super) fn agree(&mut self, role: Role, agreed: Option<&sdp::AgreedData>) {
        self.channels.set_role(match role {
            Role::Client => ChannelRole::DtlsClient,
            Role::Server => ChannelRole::DtlsServer,
        });
        let size = agreed.and_then(|agreed| agreed.remote.max_message_size);
        self.channels.set_peer_max_message_size(size);
    }

    /// Starts the association once there are keys.
    pub(super) fn connect(&mut self, now: Instant) {
        self.channels.connect(now);
    }

    /// Ends the association: messages are refused from now on.
    pub(super) fn disconnect(&mut self) {
        self.channels.disconnect();
    }

    pub(super) fn handle_packet(&mut self, packet: &[u8], now: Instant) {
        if self.channels.handle_packet(packet, now).is_err() {
            self.refused += 1;
        }
    }

    pub(super) fn end_batch(&mut self, now: Instant) {
        self.channels.end_batch(now);
    }

    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        self.channels.poll_timeout()
    }

    pub(super) fn handle_timeout(&mut self, now: Instant) {
        self.channels.handle_timeout(now);
    }

    /// Writes datagrams of equal size over `out`, of which the last may be shorter. Returns
    /// that size, or `None` if there is nothing to send.
    pub(super) fn fill(
        &mut self,
        sealer: &mut Sealer,
        now: Instant,
        segments_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, SealError> {
        let (offset, overhead) = (sealer.payload_offset(), sealer.overhead());
        let mut end = self.held.len();
        // Bytes of the batch before are overwritten, not cleared first.
        out.splice(..end.min(out.len()), self.held.drain(..));
        let mut segment = end;
        let mut segments = usize::from(segment > 0);
        while segments < segments_max {
            // Only the first datagram may be an MTU probe, since others cannot follow a longer
            // one.
            let room = match segments {
                0 => self.mtu_max.max(self.channels.mtu()),
                _ => self.channels.mtu(),
            };
            if segments > 0 && end + segment.max(room + overhead) > BATCH_BYTES_MAX {
                break;
            }
            if out.len() < end + overhead + room {
                out.resize(end + overhead + room, 0);
            }
            let datagram = &mut out[end..end + overhead + room];
            let packet = &mut datagram[offset..offset + room];
            let Some(bytes) = self.channels.poll_transmit(now, packet) else {
                break;
            };
            let sealed = sealer.seal(ContentType::ApplicationData, datagram, bytes)?;
            if segments > 0 && sealed > segment {
                self.held.extend_from_slice(&datagram[..sealed]);
                break;
            }
            end += sealed;
            segments += 1;
            if segments == 1 {
                segment = sealed;
            } else if sealed < segment {
                break;
            }
        }
        if segment == 0 {
            return Ok(None);
        }
        out.truncate(end);
        Ok(Some(segment))
    }
}
