//! Datagrams that came in, each to its peer.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use glassline_net::{PathErrorKind, ReceiveBatch};
use glassline_webrtc::{Received, stun_username};

use super::Worker;
use crate::runtime::Key;

/// Datagrams taken before media gets its turn again.
const BATCHES_PER_TURN: usize = 8;

/// Where a datagram came from and went to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) source: SocketAddr,
    /// As the session knows it: one of its candidates.
    pub(super) destination: SocketAddr,
    /// For replies from a wildcard socket.
    pub(super) local: Option<IpAddr>,
}

impl Worker {
    /// Takes what waits in the socket, as much as media leaves time for.
    pub(super) fn receive(&mut self, batch: &mut ReceiveBatch) {
        for _ in 0..BATCHES_PER_TURN {
            match self.outbox.socket().receive_batch(batch) {
                Ok(0) => return,
                Ok(_) => {}
                Err(error) => {
                    // An answer to an earlier datagram shows up here, too; what waits
                    // behind it is not told of again.
                    tracing::debug!(%error, shard = self.index, "receive");
                    self.take_path_errors();
                    continue;
                }
            }
            let now = Instant::now();
            self.counters.received.add(batch.len() as u64);
            for datagram in batch.iter_mut() {
                let path = Path {
                    source: datagram.source,
                    destination: self.destination(datagram.destination),
                    local: datagram.destination,
                };
                self.on_datagram(datagram.bytes, path, now);
            }
            self.end_batch(now);
            self.dispatch();
            if batch.len() < batch.capacity() {
                return;
            }
        }
        // More may wait; an edge-triggered poll would not tell again.
        self.waker.wake();
    }

    /// Counts what the network answered. Nothing else comes of it: anybody could
    /// forge it, and a viewer that is gone is silent soon enough.
    pub(super) fn take_path_errors(&self) {
        while let Some(error) = self.outbox.socket().take_path_error() {
            let counter = match error.kind {
                PathErrorKind::Refused => &self.counters.send.peer_refused,
                PathErrorKind::Unreachable => &self.counters.send.unreachable,
                PathErrorKind::TooLarge => &self.counters.send.too_large,
                _ => &self.counters.send.unsendable,
            };
            counter.add(1);
            tracing::trace!(destination = %error.destination, kind = ?error.kind, "answered");
        }
    }

    /// Our address as viewers know it.
    fn destination(&self, local: Option<IpAddr>) -> SocketAddr {
        let actual = local.unwrap_or(self.local.ip());
        let advertised = self
            .shared
            .advertise
            .iter()
            .find(|ip| ip.is_ipv4() == actual.is_ipv4());
        SocketAddr::new(advertised.copied().unwrap_or(actual), self.local.port())
    }

    fn on_datagram(&mut self, bytes: &mut [u8], path: Path, now: Instant) {
        let ufrag = stun_username(bytes).map(|(ours, _)| ours);
        if let Some(key) = self.peers.by_address(path.source)
            && let Some(peer) = self.peers.get_mut(key)
            // The address may have a new owner: a page that was reloaded.
            && ufrag.is_none_or(|ufrag| ufrag == peer.session.local_credentials().ufrag)
        {
            self.dispatch_datagram(key, bytes, path, now);
            return;
        }
        match ufrag.and_then(|ufrag| self.shared.registry.by_ufrag(ufrag)) {
            Some(record) => self.on_unknown_stun(&record, bytes, path, now),
            None => self.counters.stray.add(1),
        }
    }

    /// A datagram for viewer `key` of this shard.
    pub(super) fn dispatch_datagram(
        &mut self,
        key: Key,
        bytes: &mut [u8],
        path: Path,
        now: Instant,
    ) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        match peer
            .session
            .handle_datagram(now, path.source, path.destination, bytes)
        {
            Ok(received) => {
                if let Received::Rtp {
                    receiver,
                    sequence,
                    packet,
                    ..
                } = received
                {
                    peer.on_packet((receiver, sequence), &packet, now, &self.counters);
                }
                if peer.broker().is_some() && self.talking.last() != Some(&key) {
                    self.talking.push(key);
                }
                peer.unmute(path.source);
                if let Some(forgotten) = peer.note_address(path.source, path.local) {
                    self.peers.unlink(forgotten, key);
                }
                self.peers.link(path.source, key);
            }
            Err(_) => self.counters.refused.add(1),
        }
        self.serve(key, now);
    }

    /// Acknowledges what came together, once for each session with data channels.
    fn end_batch(&mut self, now: Instant) {
        let mut talking = std::mem::take(&mut self.talking);
        talking.sort_unstable();
        talking.dedup();
        for key in talking.drain(..) {
            if let Some(peer) = self.peers.get_mut(key) {
                peer.end_batch(now);
                self.serve(key, now);
            }
        }
        self.talking = talking;
    }
}
