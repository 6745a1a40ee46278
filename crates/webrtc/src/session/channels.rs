//! Data channels of a session: access for the owner, and the datagrams that carry them.

use std::time::Instant;

use glassline_sctp::channel::Channels;

use super::data::{DataCounts, SEGMENTS_MAX};
use super::{CloseReason, Session, State};
use crate::TransportAddress;
use crate::dtls::Cipher;
use crate::dtls::record::ContentType;

/// Most datagrams that are sent when the session closes: an ABORT is one, and others may wait
/// before it.
const CLOSE_DATAGRAMS_MAX: usize = 4;

impl Session {
    /// Returns the data channels; `None` if they were not configured, or the peer did not
    /// agree.
    pub fn channels(&self) -> Option<&Channels> {
        Some(&self.data.as_ref()?.channels)
    }

    /// Returns the data channels, to open them, send on them and poll their events. Their
    /// packets come and go by [`handle_datagram`](Self::handle_datagram),
    /// [`end_batch`](Self::end_batch) and [`poll_transmit_batch`](Self::poll_transmit_batch),
    /// and their deadline is part of [`poll_timeout`](Self::poll_timeout): poll these after
    /// using the channels.
    pub fn channels_mut(&mut self) -> Option<&mut Channels> {
        self.timeout = None;
        Some(&mut self.data.as_mut()?.channels)
    }

    /// Returns the cipher that the handshake agreed on for data; `None` before that, and
    /// without data.
    pub fn cipher(&mut self) -> Option<Cipher> {
        Some(self.dtls.as_mut()?.sealer()?.cipher())
    }

    /// Returns the counts of DTLS records with data; `None` without data channels.
    pub fn data_counts(&mut self) -> Option<DataCounts> {
        let refused = self.data.as_ref()?.refused;
        let dtls = self.dtls.as_mut()?;
        Some(DataCounts {
            records: dtls.record_counts()?,
            sealed: dtls.sealer().map_or(0, |sealer| sealer.sealed()),
            refused,
        })
    }

    /// States that all datagrams which arrived together were passed to
    /// [`handle_datagram`](Self::handle_datagram). The association then acknowledges all of
    /// them at once. Sessions with data channels require this call.
    pub fn end_batch(&mut self, now: Instant) {
        if let Some(data) = &mut self.data {
            self.timeout = None;
            data.end_batch(now);
        }
    }

    /// Writes datagrams over `out`, all of the same size except for the last, which may be
    /// shorter. Returns their destination and that size. Call until `None`.
    ///
    /// One segmented send (`UDP_SEGMENT`) carries them. Datagrams of
    /// [`poll_transmit`](Self::poll_transmit) come first, one at a time, so a session with data
    /// channels needs only this method.
    pub fn poll_transmit_batch(
        &mut self,
        now: Instant,
        out: &mut Vec<u8>,
    ) -> Option<(TransportAddress, usize)> {
        if let Some(destination) = self.poll_transmit(out) {
            return Some((destination, out.len()));
        }
        if self.state != State::Connected {
            return None;
        }
        let remote = self.ice.path()?;
        let local = self.ice.path_local().map_or(remote, |(local, _)| local);
        // A TURN frame encloses each datagram separately.
        let relayed = self
            .turn_allocations
            .iter()
            .any(|it| it.relayed().map(TransportAddress::udp) == Some(local));
        let segments_max = if relayed { 1 } else { SEGMENTS_MAX };
        loop {
            let segment = self.fill_batch(now, segments_max, out)?;
            if !relayed {
                return Some((remote, segment));
            }
            // The datagram waits for its TURN channel; there may be more.
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
                let ufrag = &self.local.ufrag;
                tracing::warn!(%error, ufrag, "closing the session: its data cannot be sealed");
                self.finish(CloseReason::KeysExhausted);
                None
            }
        }
    }

    /// Aborts the association, so that the peer's channels close at once.
    pub(super) fn abort_data(&mut self, now: Instant) {
        let Some(data) = &mut self.data else {
            return;
        };
        data.channels.abort(now);
        let Some(dtls) = &mut self.dtls else {
            return;
        };
        for _ in 0..CLOSE_DATAGRAMS_MAX {
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
