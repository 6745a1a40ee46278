//! Ownership of peers: adoption, and moves from shard to shard.
//!
//! A peer waits in the registry until its first authentic STUN request arrives at a shard, which
//! adopts it. Requests that arrive at another shard are sent to the owner. The owner hands the peer
//! over once ICE has chosen an address whose datagrams arrive at that other shard.

use std::sync::Arc;
use std::time::Instant;

use glassline_hub::Stream;
use glassline_media::LayerIndex;
use glassline_runtime::Key;
use glassline_runtime::SessionId;
use glassline_runtime::StreamSubscription;
use glassline_webrtc::stun_is_authentic;

use super::Worker;
use super::datagrams::Path;
use crate::sessions::peer::{Peer, Served};
use crate::sessions::record::{SessionLocation, SessionRecord};
use crate::sessions::shard::command::{Command, Forwarded};

impl Worker {
    /// Handles a STUN request for a known session from an unknown address.
    pub(super) fn on_unknown_stun(
        &mut self,
        record: &Arc<SessionRecord>,
        bytes: &mut [u8],
        path: Path,
        now: Instant,
    ) {
        let mut state = record.state();
        match std::mem::replace(&mut state.location, SessionLocation::Gone) {
            SessionLocation::Waiting(mut peer) => {
                self.serving.begin_joining(record.id.clone());
                let accepted =
                    peer.session
                        .handle_datagram(now, path.source, path.destination, bytes);
                if accepted.is_err() {
                    // The request is not authentic. The real peer may still come.
                    self.counters.refused.add(1);
                    state.location = SessionLocation::Waiting(peer);
                    self.serving.end_joining();
                    return;
                }
                state.location = SessionLocation::Shard(self.index);
                drop(state);
                peer.note_address(path.source, path.local, now);
                peer.heard();
                let key = self.adopt(peer, now);
                self.peers.link(path.source, key, now);
                if self.peers.by_address(path.source) != Some(key) {
                    self.peers.sightings.note(path.source, record, now);
                }
                self.serving.end_joining();
                self.serve(key, now);
            }
            SessionLocation::Shard(index) => {
                state.location = SessionLocation::Shard(index);
                let is_authentic =
                    index == self.index || stun_is_authentic(bytes, &state.ice.ours.pwd);
                drop(state);
                if is_authentic {
                    self.on_stun_for_owned(record, index, bytes, path, now);
                } else {
                    // What strangers make up is not worth another shard's time.
                    self.counters.refused.add(1);
                }
            }
            SessionLocation::Gone => self.counters.stray.add(1),
        }
    }

    /// Handles a STUN request from an unknown address for a peer that a shard owns.
    fn on_stun_for_owned(
        &mut self,
        record: &Arc<SessionRecord>,
        owner: usize,
        bytes: &mut [u8],
        path: Path,
        now: Instant,
    ) {
        if owner != self.index && path.source.is_tcp() {
            // The answer can leave only where the connection is, so the connection goes there.
            return;
        }
        if owner != self.index {
            if self.peers.sightings.note(path.source, record, now) {
                self.forward(record, owner, bytes, path);
            } else {
                self.counters.refused.add(1);
            }
            return;
        }
        let Some(key) = self.peers.by_session(&record.id) else {
            return;
        };
        if !self.dispatch_datagram(key, bytes, path, now) {
            self.counters.refused.add(1);
        } else if self.peers.by_address(path.source) != Some(key) {
            self.peers.sightings.note(path.source, record, now);
        }
    }

    /// Sends a datagram to the shard `owner` of the session that it is for.
    pub(super) fn forward(&self, record: &SessionRecord, owner: usize, bytes: &[u8], path: Path) {
        let datagram = Box::new(Forwarded {
            bytes: bytes.to_vec(),
            source: path.source,
            destination: path.destination,
            local: path.local,
        });
        let forward = Command::Forward {
            session: record.id.clone(),
            from: self.index,
            datagram,
        };
        if let Some(shard) = self.shared.shard(owner) {
            // A full inbox is counted by the handle; the peer repeats its STUN request.
            let _ = shard.send(forward);
        }
    }

    /// Handles a datagram for one of this shard's peers that arrived at shard `from`. If the peer
    /// has chosen that address, the peer moves there.
    pub(super) fn take_forwarded(
        &mut self,
        session: &SessionId,
        from: usize,
        mut datagram: Forwarded,
    ) {
        let now = Instant::now();
        let Some(key) = self.peers.by_session(session) else {
            return;
        };
        let path = Path {
            source: datagram.source,
            destination: datagram.destination,
            local: datagram.local,
        };
        if !self.hand_to_peer(key, &mut datagram.bytes, path, now) {
            self.counters.refused.add(1);
            return;
        }
        // A peer may move before its handshake is done: one with two networks may be seen from one
        // first and then choose the other. Where this server has two addresses, the kernel may lead
        // datagrams from one address of the peer to two shards.
        let peer = self.peers.get_mut(key);
        let moved = peer.is_some_and(|it| it.session.is_path(path.source, path.destination));
        // The data of this datagram alone is acknowledged: the peer may leave now.
        self.end_batch(now);
        if self.serve(key, now) == Served::Alive && moved {
            self.hand_over(key, from, now);
        }
    }

    fn hand_over(&mut self, key: Key, to: usize, now: Instant) {
        let peer = self.peers.get_mut(key);
        let record = peer.and_then(|peer| self.shared.registry.by_id(peer.id()));
        let (Some(record), Some(shard)) = (record, self.shared.shard(to).cloned()) else {
            return;
        };
        let mut state = record.state();
        // The session was deleted: the command to release it waits in this shard's inbox, not in
        // the other's.
        if !matches!(state.location, SessionLocation::Shard(owner) if owner == self.index) {
            return;
        }
        // Datagrams sealed here must leave before those that the other shard will seal.
        self.dispatch();
        self.serving.begin(key);
        let Some(peer) = self.release(key) else {
            return;
        };
        self.serving.begin_joining(record.id.clone());
        let connections = self.take_connections(peer.addresses());
        match shard.send(Command::Adopt(peer, connections)) {
            Ok(()) => {
                state.location = SessionLocation::Shard(to);
                self.counters.moves.add(1);
                self.serving.end_joining();
            }
            // The other shard's inbox is full: the peer stays, and its next request tries again.
            Err(Command::Adopt(peer, connections)) => {
                drop(state);
                self.add_connections(connections);
                let key = self.adopt(peer, now);
                self.serving.end_joining();
                self.serve(key, now);
            }
            Err(_) => self.serving.end_joining(),
        }
    }

    /// Takes over a peer that another shard handed over.
    pub(super) fn adopt_moved(&mut self, peer: Box<Peer>, now: Instant) {
        // The session may have been removed because this shard started anew.
        if self.shared.registry.by_id(peer.id()).is_none() {
            return;
        }
        self.serving.begin_joining(peer.id().clone());
        let key = self.adopt(peer, now);
        if let Some(peer) = self.peers.get_mut(key) {
            let layout = peer.stream().layout();
            if !peer.close_if_superseded(layout, now, &self.counters) {
                peer.resume(now, &self.counters);
            }
        }
        self.serving.end_joining();
        self.serve(key, now);
    }

    /// Makes `peer` a peer of this shard.
    pub(super) fn adopt(&mut self, peer: Box<Peer>, now: Instant) -> Key {
        let key = self.peers.insert(peer, now);
        self.subscribe_to_broker(key);
        self.read_for(key, now);
        key
    }

    /// Sends a viewer the stream `to` from now on. Returns false if that does not suit its session.
    pub(super) fn go_over(&mut self, key: Key, to: &Arc<Stream>, now: Instant) -> bool {
        let Some(peer) = self.peers.get_mut(key) else {
            return false;
        };
        let from = Arc::clone(peer.stream());
        if !peer.go_over(to, now) {
            return false;
        }
        self.read_no_more_for(key, &from);
        // The shard reads the stream before the viewer begins with what the hub keeps of it, so that no
        // unit is between.
        self.read_for(key, now);
        if let Some(peer) = self.peers.get_mut(key) {
            peer.start_anew(now);
        }
        true
    }

    /// Reads the stream of a peer, unless the peer gets none.
    fn read_for(&mut self, key: Key, now: Instant) {
        let Some(peer) = self.peers.get_mut(key).filter(|it| it.is_sent_to()) else {
            // A participant or publisher of messages gets no stream.
            return;
        };
        let stream = Arc::clone(peer.stream());
        let index = self
            .streams
            .iter()
            .position(|subscription| Arc::ptr_eq(subscription.stream(), &stream));
        let index = index.unwrap_or_else(|| {
            let stages = self.shared.latencies.stages(stream.name(), self.index);
            self.streams.push(StreamSubscription::new(
                &stream,
                Arc::clone(&self.waker) as _,
                stages,
            ));
            self.streams.len() - 1
        });
        self.streams[index].viewers.push(key);
        if let Some(peer) = self.peers.get_mut(key) {
            peer.set_stages(Arc::clone(&self.streams[index].stages));
            let layers = peer.layers();
            // The stream may prefer another layer since the offer, or since another shard had the peer.
            let mut of_source = layers
                .iter()
                .filter(|it| it.layer != LayerIndex::TRANSCODED);
            let is_outdated = of_source.any(|it| *it != stream.preferred(it.track));
            self.streams[index].add(layers);
            if is_outdated {
                self.choose_layers(index, now);
            }
        }
    }

    /// Removes a peer from all tables of this shard.
    pub(super) fn release(&mut self, key: Key) -> Option<Box<Peer>> {
        let peer = self.peers.remove(key)?;
        self.unsubscribe_from_broker(key, &peer);
        self.read_no_more_for(key, peer.stream());
        Some(peer)
    }

    /// Reads `stream` no more for a peer, and not at all if that was the last one.
    fn read_no_more_for(&mut self, key: Key, stream: &Arc<Stream>) {
        if let Some(index) = self
            .streams
            .iter()
            .position(|subscription| Arc::ptr_eq(subscription.stream(), stream))
        {
            self.streams[index].viewers.retain(|other| *other != key);
            if self.streams[index].viewers.is_empty() {
                self.streams.swap_remove(index);
                // Another viewer took the freed position in the list and may be passed over in this
                // turn.
                self.waker.wake();
            } else if self.streams[index].reads_several() {
                self.trim_layers(index, Instant::now());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, SocketAddr};

    use glassline_rtp::rtcp::is_rtcp;
    use glassline_webrtc::{DatagramKind, classify, stun_check};

    use super::super::fuzzing::{Scene, in_scene};
    use super::super::tests::push;
    use super::*;

    /// Steps of 60 ms of the client's clock until it is connected, or reports.
    const STEPS_MAX: usize = 400;

    fn path(scene: &Scene, address: usize) -> Path {
        let source: SocketAddr = scene.address(0, address);
        Path {
            source: source.into(),
            destination: scene.media.into(),
            local: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        }
    }

    /// A report of client 0, which receives media from worker 0.
    fn report(scene: &mut Scene) -> Vec<u8> {
        for number in 0..STEPS_MAX {
            push(scene, i64::try_from(number).expect("small"), 1);
            scene.workers[0].publish();
            scene.receive(0);
            let mut datagram = scene.next_datagram(0);
            while let Some(bytes) = datagram {
                if classify(bytes[0]) == DatagramKind::Rtp && is_rtcp(&bytes) {
                    return bytes;
                }
                let here = path(scene, 0);
                scene.workers[0].on_datagram(&mut bytes.clone(), here, Instant::now());
                scene.workers[0].dispatch();
                datagram = scene.next_datagram(0);
            }
        }
        panic!("the client reports nothing");
    }

    fn counts(scene: &Scene) -> (u64, u64) {
        let [owner, other] = &scene.workers;
        (owner.counters.refused.get(), other.counters.stray.get())
    }

    #[test]
    fn reports_that_arrive_at_another_shard_reach_the_owner_of_a_sighted_address() {
        in_scene(|scene| {
            scene.join(0);
            let joined = (0..STEPS_MAX).any(|_| {
                scene.send(0, 0, 0);
                scene.receive(0);
                scene.is_connected(0)
            });
            assert!(joined);
            let (here, now) = (path(scene, 1), Instant::now());
            let bytes = report(scene);
            let before = counts(scene);
            scene.workers[1].on_datagram(&mut bytes.clone(), here, now);
            assert_eq!(counts(scene), (before.0, before.1 + 1), "never seen there");
            // A check that nominates nothing: the peer stays with its shard.
            let ours = scene.record(0).state().ice.ours.clone();
            let mut check = stun_check([7; 12], scene.credentials(0), &ours, u64::MAX);
            scene.workers[1].on_datagram(&mut check, here, now);
            scene.workers[0].process_commands();
            let before = counts(scene);
            scene.workers[1].on_datagram(&mut bytes.clone(), here, now);
            scene.workers[0].process_commands();
            assert_eq!(counts(scene), before, "taken by the owner");
            let mut forged = bytes;
            let last = forged.len() - 1;
            forged[last] ^= 1;
            scene.workers[1].on_datagram(&mut forged, here, now);
            scene.workers[0].process_commands();
            assert_eq!(counts(scene), (before.0 + 1, before.1), "refused there");
            assert!(matches!(
                scene.record(0).state().location,
                SessionLocation::Shard(0)
            ));
            let mut passed = 0;
            while counts(scene).1 == before.1 {
                scene.workers[1].on_datagram(&mut forged, here, now);
                passed += 1;
            }
            assert!((40..60).contains(&passed), "{passed} at once");
        });
    }
}
