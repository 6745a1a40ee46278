//! Handles the commands that other threads sent to the shard.

use std::time::Instant;

use glassline_runtime::{Key, SessionId};

use super::Worker;
use crate::sessions::peer::Dismissal;
use crate::sessions::record::SessionLocation;
use crate::sessions::shard::command::Command;

impl Worker {
    /// Handles the commands that arrived since the last call.
    pub(super) fn process_commands(&mut self) {
        while let Ok(command) = self.commands.try_recv() {
            self.serving.end();
            let now = Instant::now();
            match command {
                Command::Adopt(peer, connections) => {
                    self.add_connections(connections);
                    self.adopt_moved(peer, now);
                }
                Command::Connect(connected) => self.take_connection(connected, now),
                Command::Forward {
                    session,
                    from,
                    datagram,
                } => self.take_forwarded(&session, from, *datagram),
                Command::Leave { ref session, .. }
                | Command::Evict(ref session)
                | Command::Trickle(ref session, _)
                | Command::LayerRequest(ref session, _)
                | Command::GoOver { ref session, .. }
                | Command::Restart { ref session, .. }
                | Command::Arrivals { ref session, .. }
                | Command::Stamps { ref session, .. } => match self.peers.by_session(session) {
                    Some(key) => self.change(key, command, now),
                    None => self.pass_on(&session.clone(), command),
                },
                Command::Stop => {
                    // First of all, so that a panic for one peer does not keep the shard running.
                    self.stopping = true;
                    for key in self.peers.keys() {
                        if let Some(peer) = self.peers.get_mut(key) {
                            self.serving.begin(key);
                            peer.session.close(now);
                        }
                        self.serve(key, now);
                    }
                }
            }
        }
        self.dispatch();
    }

    /// Applies a command to one of the shard's peers, and serves the peer at once.
    fn change(&mut self, key: Key, command: Command, now: Instant) {
        let Some(peer) = self.peers.get_mut(key) else {
            return;
        };
        self.serving.begin(key);
        match command {
            Command::Leave { done, .. } => {
                peer.dismiss(Dismissal::Left, now);
                self.serve(key, now);
                // The requester may have stopped waiting.
                let _ = done.send(());
                return;
            }
            Command::Evict(_) if peer.is_joined() => return,
            Command::Evict(_) => peer.dismiss(Dismissal::Evicted, now),
            Command::Trickle(_, candidates) => {
                for candidate in &candidates {
                    peer.session.add_remote_candidate(candidate, now);
                }
            }
            Command::LayerRequest(_, request) => peer.request_layer(request, now),
            Command::GoOver { to, done, .. } => {
                // The requester may have stopped waiting.
                let _ = done.send(self.go_over(key, &to, now));
            }
            Command::Restart { ours, theirs, .. } => peer.session.restart_ice(ours, theirs, now),
            Command::Stamps {
                timestamps, reply, ..
            } => {
                let stamps = timestamps.into_iter().map(|it| peer.frame(it)).collect();
                // The requester may have stopped waiting; the reply is then dropped.
                let _ = reply.send(stamps);
                return;
            }
            Command::Arrivals { reply, .. } => {
                if let Some(arrivals) = peer.arrivals(now) {
                    let _ = reply.send(arrivals);
                }
                return;
            }
            _ => return,
        }
        self.serve(key, now);
    }

    /// Sends a command to the shard that owns the session now, because the peer moved while the
    /// command was on its way.
    fn pass_on(&self, session: &SessionId, command: Command) {
        let Some(record) = self.shared.registry.by_id(session) else {
            return;
        };
        if let SessionLocation::Shard(index) = record.state().location
            && index != self.index
            && let Some(shard) = self.shared.shard(index)
        {
            // A full inbox is counted by the handle.
            let _ = shard.send(command);
        }
    }
}
