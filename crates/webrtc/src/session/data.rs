//! Data channels: packets of the association in and out of DTLS records.

use std::net::SocketAddr;
use std::time::Instant;

use glassline_sctp as sctp;
use sctp::channel::{Channels, Role as ChannelRole};

use super::config::{DataConfig, Secrets};
use super::{CloseReason, Session, State};
use crate::dtls::Cipher;
use crate::dtls::record::{ContentType, RecordCounts, SealError, Sealer};
use crate::sdp;
use crate::srtp::Role;

/// What one segmented send may hold: the kernel's bound on segments, and a UDP
/// payload's on bytes.
const SEGMENTS_MAX: usize = 64;
const BATCH_BYTES_MAX: usize = 65_000;
/// Datagrams of a farewell: an ABORT is one, and there may be something before it.
const FAREWELL_MAX: usize = 4;

/// The data half of a session.
#[derive(Debug)]
pub(super) struct Data {
    channels: Channels,
    /// The largest packet that path MTU discovery tries.
    mtu_max: usize,
    /// A sealed datagram that was too long to follow the others of its batch.
    held: Vec<u8>,
    /// Packets that the association refused.
    refused: u64,
}

/// How a session's data stands at its lower edge. What the association and the
/// channels count is theirs to tell.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DataCounts {
    /// Records that came.
    pub records: RecordCounts,
    /// Records sealed.
    pub sealed: u64,
    /// Packets that opened and that the association threw away.
    pub refused: u64,
}

impl Data {
    pub(super) fn new(config: DataConfig, secrets: &Secrets, now: Instant) -> Self {
        let mtu_max = config.association.mtu_max;
        let secrets = sctp::Secrets::from_random(secrets.sctp);
        let association = sctp::Association::new(config.association, secrets, now);
        Self {
            // Which it is shows with the answer; streams are numbered after that.
            channels: Channels::new(association, ChannelRole::DtlsClient, config.limits),
            mtu_max,
            held: Vec::new(),
            refused: 0,
        }
    }

    /// Both descriptions are there.
    pub(super) fn agree(&mut self, role: Role, agreed: Option<&sdp::AgreedData>) {
        self.channels.set_role(match role {
            Role::Client => ChannelRole::DtlsClient,
            Role::Server => ChannelRole::DtlsServer,
        });
        let size = agreed.and_then(|agreed| agreed.remote.max_message_size);
        self.channels.set_peer_max_message_size(size);
    }

    /// The keys are there.
    pub(super) fn connect(&mut self, now: Instant) {
        self.channels.connect(now);
    }

    /// The session is over: what is handed over from now on is refused.
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

    /// Writes datagrams of equal size over `out`, the last of which may be shorter;
    /// returns that size, or `None` if there are none.
    fn fill(
        &mut self,
        sealer: &mut Sealer,
        now: Instant,
        segments_max: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<usize>, SealError> {
        let (offset, overhead) = (sealer.payload_offset(), sealer.overhead());
        let mut end = self.held.len();
        // What is there from the batch before is written over, not cleared first.
        out.splice(..end.min(out.len()), self.held.drain(..));
        let mut segment = end;
        let mut segments = usize::from(segment > 0);
        while segments < segments_max {
            // Only the first may be a probe, which others cannot follow.
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

impl Session {
    /// The data channels; `None` where none were wanted, or the peer has none.
    pub fn channels(&self) -> Option<&Channels> {
        Some(&self.data.as_ref()?.channels)
    }

    /// The data channels, to be opened, sent on and polled for events. Their packets
    /// come and go by [`handle_datagram`](Self::handle_datagram),
    /// [`end_batch`](Self::end_batch) and
    /// [`poll_transmit_batch`](Self::poll_transmit_batch), and their deadline is part
    /// of [`poll_timeout`](Self::poll_timeout): drain the polls after using them.
    pub fn channels_mut(&mut self) -> Option<&mut Channels> {
        self.timeout = None;
        Some(&mut self.data.as_mut()?.channels)
    }

    /// The cipher that the handshake agreed on for data; `None` before, and without data.
    pub fn cipher(&mut self) -> Option<Cipher> {
        Some(self.dtls.as_mut()?.sealer()?.cipher())
    }

    /// What came and went below the channels; `None` without data.
    pub fn data_counts(&mut self) -> Option<DataCounts> {
        let refused = self.data.as_ref()?.refused;
        let dtls = self.dtls.as_mut()?;
        Some(DataCounts {
            records: dtls.record_counts()?,
            sealed: dtls.sealer().map_or(0, |sealer| sealer.sealed()),
            refused,
        })
    }

    /// All datagrams that came together were handed to
    /// [`handle_datagram`](Self::handle_datagram): what the association has to
    /// acknowledge, it acknowledges once for all of them. Sessions with data need it.
    pub fn end_batch(&mut self, now: Instant) {
        if let Some(data) = &mut self.data {
            self.timeout = None;
            data.end_batch(now);
        }
    }

    /// Writes datagrams over `out`, all of the same size but the last, which may be
    /// shorter; returns where they go and that size. Call until `None`.
    ///
    /// One segmented send (`UDP_SEGMENT`) carries them. What
    /// [`poll_transmit`](Self::poll_transmit) has comes first and alone, so a session
    /// with data needs only this.
    pub fn poll_transmit_batch(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<(SocketAddr, usize)> {
        if let Some(destination) = self.poll_transmit(out) {
            return Some((destination, out.len()));
        }
        if self.state != State::Connected {
            return None;
        }
        let remote = self.ice.path()?;
        let local = self.ice.path_local().map_or(remote, |(local, _)| local);
        // A relay's frame goes around every datagram by itself.
        let relayed = self.relays.iter().any(|it| it.relayed() == Some(local));
        let segments_max = if relayed { 1 } else { SEGMENTS_MAX };
        loop {
            let segment = self.fill_batch(now, segments_max, out)?;
            if !relayed {
                return Some((remote, segment));
            }
            // What has to wait in the relay is not the last there is.
            if let Some(server) = self.wrap_relayed(local, remote, out) {
                return Some((server, out.len()));
            }
        }
    }

    fn fill_batch(
        &mut self,
        now: Instant,
        segments_max: usize,
        out: &mut Vec<u8>,
    ) -> Option<usize> {
        let sealer = self.dtls.as_mut()?.sealer()?;
        let data = self.data.as_mut()?;
        self.timeout = None;
        match data.fill(sealer, now, segments_max, out) {
            Ok(segment) => segment,
            Err(error) => {
                tracing::warn!(%error, ufrag = self.local.ufrag, "data ends");
                self.finish(CloseReason::KeysExhausted);
                None
            }
        }
    }

    /// Ends the association, so that the peer's channels close at once.
    pub(super) fn abort_data(&mut self, now: Instant) {
        let Some(data) = &mut self.data else {
            return;
        };
        data.channels.abort(now);
        let Some(dtls) = &mut self.dtls else {
            return;
        };
        for _ in 0..FAREWELL_MAX {
            let Some(sealer) = dtls.sealer() else {
                return;
            };
            let (offset, overhead, room) = (
                sealer.payload_offset(),
                sealer.overhead(),
                data.channels.mtu(),
            );
            let mut datagram = vec![0; overhead + room];
            let packet = &mut datagram[offset..offset + room];
            let Some(bytes) = data.channels.poll_transmit(now, packet) else {
                return;
            };
            let sealed = sealer.seal(ContentType::ApplicationData, &mut datagram, bytes);
            let Ok(bytes) = sealed else {
                return;
            };
            datagram.truncate(bytes);
            dtls.queue(datagram);
        }
    }
}
