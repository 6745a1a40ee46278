//! Accepts connections, and makes room for them at a limit.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use glassline_runtime::{ConnectionPermit, ConnectionRefusal, SourcePrefix};
use mio::net::TcpStream;
use rustls::ServerConfig;

use super::Worker;
use crate::command::Command;
use crate::listener::{Accepted, SHED_PER_TURN};

/// Connections accepted, or refused, before clients are served.
const ACCEPTS_PER_TURN: usize = 32;

impl Worker {
    /// Accepts the connections that wait at listener `index`, up to a number.
    pub(super) fn accept(&mut self, index: usize) {
        let now = Instant::now();
        for _ in 0..ACCEPTS_PER_TURN {
            let counters = &self.clients.delivery.counters;
            match self.listeners.accept(index, counters, now) {
                Accepted::Nobody => return,
                Accepted::NoDescriptor => return self.shed(index, now),
                Accepted::Connection(stream, peer, tls) => {
                    counters.accepted.add(1);
                    if !self.rates.take(peer.ip(), now) {
                        counters.refused_rate.add(1);
                        glassline_net::refuse(stream.into());
                        continue;
                    }
                    let tls = tls.cloned();
                    self.adopt(stream, peer, tls.as_ref());
                }
            }
        }
        self.listeners.leave_rest(index, now);
    }

    /// Closes connections whose clients neither play nor publish, because the process has no
    /// descriptor left. If this thread has none, connections that wait to be accepted are refused,
    /// and the other threads are asked to make room.
    fn shed(&mut self, index: usize, now: Instant) {
        let closed = (0..SHED_PER_TURN).take_while(|_| self.clients.make_room(None));
        if closed.count() > 0 {
            return self.listeners.leave_rest(index, now);
        }
        let refused = self.listeners.refuse(index, now);
        let counters = &self.clients.delivery.counters;
        counters.refused_descriptors.add(refused);
        self.ask_others_for_room(None);
    }

    fn adopt(&mut self, stream: TcpStream, peer: SocketAddr, tls: Option<&Arc<ServerConfig>>) {
        let Some(permit) = self.admit(peer.ip()) else {
            self.clients.delivery.counters.turned_away.add(1);
            glassline_net::refuse(stream.into());
            return;
        };
        let now = Instant::now();
        if let Err(error) = self.clients.accept(stream, peer, tls, permit, now) {
            tracing::debug!(%peer, %error, "RTSP connection lost before it was set up");
        }
    }

    /// Returns the right to one more connection from `peer`. If the limit is reached, a connection
    /// that neither plays nor publishes is closed in favor of the new one: of the same source prefix
    /// if the limit of the source is reached, of any if that of the server is.
    fn admit(&mut self, peer: IpAddr) -> Option<ConnectionPermit> {
        if self.stopping.is_some() {
            return None;
        }
        let source = match self.shared.connections.admit(peer) {
            Ok(permit) => return Some(permit),
            Err(ConnectionRefusal::Source { .. }) => Some(SourcePrefix::from(peer)),
            Err(ConnectionRefusal::Total { .. }) => None,
        };
        if self.clients.make_room(source) {
            return self.shared.connections.admit(peer).ok();
        }
        // Such connections may be on other threads. The client's next attempt finds room.
        self.ask_others_for_room(source);
        None
    }

    /// Has each other thread close a connection that is not served, of `source` if that is given.
    fn ask_others_for_room(&self, source: Option<SourcePrefix>) {
        let threads = self.shared.threads().len();
        for thread in (0..threads).filter(|thread| *thread != self.index) {
            self.shared.send(thread, Command::MakeRoom(source));
        }
    }
}
