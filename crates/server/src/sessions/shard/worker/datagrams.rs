//! Reads datagrams from the socket and hands each to its peer.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use glassline_egress::webrtc::SendCounters;
use glassline_net::{PathErrorKind, ReceiveBatch};
use glassline_runtime::{Counter, Key};
use glassline_webrtc::{
    DatagramKind, Received, TransportAddress, classify, is_stun_response, stun_username,
};

use super::Worker;
use super::sightings::Passed;
use crate::sessions::peer::PacketPlace;
use crate::sessions::record::SessionLocation;

/// Batches of datagrams that are read before media is served again.
pub(super) const BATCHES_PER_TURN: usize = 8;

/// The two addresses of a received datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) source: TransportAddress,
    /// The server's address that the datagram arrived at.
    pub(super) destination: TransportAddress,
    /// The IP address that the datagram arrived at, for replies from a wildcard socket.
    pub(super) local: Option<IpAddr>,
}

impl Worker {
    /// Reads the waiting datagrams, up to a limit that leaves time for media.
    pub(super) fn receive(&mut self) {
        // A panic loses the batch, and another one takes its place.
        let batch = self.batch.take();
        let mut batch = batch.unwrap_or_else(|| ReceiveBatch::new(ReceiveBatch::CAPACITY_MAX));
        self.receive_batches(&mut batch);
        self.batch = Some(batch);
    }

    fn receive_batches(&mut self, batch: &mut ReceiveBatch) {
        for _ in 0..BATCHES_PER_TURN {
            self.serving.end();
            match self.outbox.socket().receive_batch(batch) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    // The error may be an ICMP answer to an earlier datagram. The poll does not
                    // report again the datagrams that wait behind it.
                    tracing::debug!(%error, shard = self.index, "the UDP socket reports an error");
                    self.take_path_errors();
                    continue;
                }
            }
            let now = Instant::now();
            self.counters.received.add(batch.len() as u64);
            let may_wait = batch.len() == batch.capacity();
            let mut datagrams = batch.iter_mut().peekable();
            while let Some(datagram) = datagrams.next() {
                if let Some(next) = datagrams.peek() {
                    self.prefetch(next.source.into());
                }
                let path = Path {
                    source: datagram.source.into(),
                    destination: self.destination(datagram.destination).into(),
                    local: datagram.destination,
                };
                self.on_datagram(datagram.bytes, path, now);
            }
            self.end_batch(now);
            self.dispatch();
            if !may_wait {
                return;
            }
        }
        // More datagrams may wait, and an edge-triggered poll does not report them again.
        self.waker.wake();
    }

    /// Loads the memory of the session at an address into the cache, ahead of its datagram.
    fn prefetch(&mut self, source: TransportAddress) {
        let key = self.peers.by_address(source);
        if let Some(peer) = key.and_then(|key| self.peers.get_mut(key)) {
            std::hint::black_box(peer.prefetch());
        }
    }

    /// Counts the ICMP errors that the network returned. Nothing else is done about them: anybody
    /// could forge one, and the session of a viewer that is gone times out.
    pub(super) fn take_path_errors(&self) {
        while let Some(error) = self.outbox.socket().take_path_error() {
            path_error_counter(&self.counters.send, error.kind).add(1);
            tracing::trace!(destination = %error.destination, kind = ?error.kind, "ICMP error received");
        }
    }

    /// Returns the server's address that a datagram arrived at, as far as the system tells. The session
    /// knows which of its candidates that is.
    pub(super) fn destination(&self, local: Option<IpAddr>) -> SocketAddr {
        SocketAddr::new(local.unwrap_or(self.local.ip()), self.local.port())
    }

    pub(super) fn on_datagram(&mut self, bytes: &mut [u8], path: Path, now: Instant) {
        let ufrag = stun_username(bytes).map(|(ours, _)| ours);
        if let Some(key) = self.peers.by_address(path.source)
            && let Some(peer) = self.peers.get_mut(key)
            // The address may belong to another session now, for example of a page that was
            // reloaded.
            && ufrag.is_none_or(|ufrag| ufrag == peer.session.local_credentials().ufrag)
        {
            let is_response = is_stun_response(bytes);
            let is_taken = self.dispatch_datagram(key, bytes, path, now);
            // The address may still lead to a session that used it before, and the response be for
            // the one that is to replace it. (Data cannot be read again: it was opened in place.)
            if !(is_taken || is_response && self.on_sighted(bytes, path, now)) {
                self.counters.refused.add(1);
            }
            return;
        }
        if let Some(ufrag) = ufrag {
            match self.shared.registry.by_ufrag(ufrag) {
                Some(record) => self.on_unknown_stun(&record, bytes, path, now),
                None => self.counters.stray.add(1),
            }
        } else if !self.on_sighted(bytes, path, now) {
            self.counters.stray.add(1);
        }
    }

    /// Hands a datagram that names no session to the session that was seen at the address: the
    /// response to a check, or data. Returns false if there is none.
    fn on_sighted(&mut self, bytes: &mut [u8], path: Path, now: Instant) -> bool {
        let kind = match bytes.first().map(|first| classify(*first)) {
            Some(DatagramKind::Rtp | DatagramKind::Dtls) => Passed::Data,
            _ if is_stun_response(bytes) => Passed::Response,
            _ => return false,
        };
        let Some(record) = self.peers.sightings.take(path.source, kind, now) else {
            return false;
        };
        let SessionLocation::Shard(owner) = record.state().location else {
            return false;
        };
        if owner != self.index {
            self.forward(&record, owner, bytes, path);
            return true;
        }
        let key = self.peers.by_session(&record.id);
        key.is_some_and(|key| self.dispatch_datagram(key, bytes, path, now))
    }

    /// Hands a datagram to the peer `key` of this shard. Returns whether the peer took it.
    pub(super) fn dispatch_datagram(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        path: Path,
        now: Instant,
    ) -> bool {
        let is_taken = self.hand_to_peer(key, bytes, path, now);
        // A refused datagram changes nothing, and a flood of them must cost little.
        if is_taken {
            self.peers.link(path.source, key, now);
            self.serve(key, now);
        }
        is_taken
    }

    /// Lets the peer `key` read a datagram, without serving the peer. Returns whether the peer took
    /// it.
    pub(super) fn hand_to_peer(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        path: Path,
        now: Instant,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(key) else {
            return false;
        };
        self.serving.begin(key);
        let received = peer
            .session
            .handle_datagram(now, path.source, path.destination, bytes);
        let Ok(received) = received else {
            return false;
        };
        if let Received::Rtp {
            receiver,
            layer,
            sequence,
            packet,
            ..
        } = received
        {
            let place = PacketPlace {
                receiver,
                layer,
                sequence,
            };
            peer.on_packet(place, &packet, now, &self.counters);
        }
        if peer.broker().is_some() && self.with_new_data.last() != Some(&key) {
            self.with_new_data.push(key);
        }
        peer.unmute(path.source);
        if let Some(forgotten) = peer.note_address(path.source, path.local, now) {
            self.forget_address(forgotten, key);
        }
        true
    }

    /// Lets each session with data channels acknowledge the records of this read together.
    pub(super) fn end_batch(&mut self, now: Instant) {
        let mut with_new_data = std::mem::take(&mut self.with_new_data);
        with_new_data.sort_unstable();
        with_new_data.dedup();
        for key in with_new_data.drain(..) {
            if let Some(peer) = self.peers.get_mut(key) {
                self.serving.begin(key);
                peer.end_batch(now);
                self.serve(key, now);
            }
        }
        self.with_new_data = with_new_data;
    }
}

/// Returns the counter of ICMP errors of one kind.
fn path_error_counter(counters: &SendCounters, kind: PathErrorKind) -> &Counter {
    match kind {
        PathErrorKind::Refused => &counters.peer_refused,
        PathErrorKind::Unreachable => &counters.unreachable,
        PathErrorKind::TooLarge => &counters.too_large,
        _ => &counters.unsendable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_a_counter_of_its_own() {
        let counters = SendCounters::default();
        let kinds = [
            PathErrorKind::Refused,
            PathErrorKind::Unreachable,
            PathErrorKind::TooLarge,
        ];
        for (times, kind) in (1..).zip(kinds) {
            path_error_counter(&counters, kind).add(times);
        }
        assert_eq!(counters.peer_refused.get(), 1);
        assert_eq!(counters.unreachable.get(), 2);
        assert_eq!(counters.too_large.get(), 3);
        assert_eq!(counters.unsendable.get(), 0);
    }
}
