//! One thread's UDP ports, and the clients that use them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Instant;

use glassline_media::TrackIndex;
use glassline_net::ReceiveBatch;
use glassline_runtime::{Key, shrink};

use glassline_egress::rtsp::{Arrived, DatagramWriter, UdpAddresses, UdpPair};

/// Sends to clients by UDP, and assigns received datagrams to clients.
#[derive(Debug)]
pub(super) struct UdpClients {
    pub(super) writer: DatagramWriter,
    /// The client and track that each address belongs to.
    by_address: HashMap<SocketAddr, (Key, TrackIndex)>,
    /// The earliest time at which a client gets its next chunk.
    pub(super) paced_until: Option<Instant>,
}

/// A datagram from a client.
#[derive(Debug)]
pub(super) struct ClientDatagram<'a> {
    pub(super) client: Key,
    pub(super) track: TrackIndex,
    /// Whether the datagram arrived at the port for RTCP.
    pub(super) is_control: bool,
    pub(super) bytes: &'a [u8],
}

impl UdpClients {
    pub(super) fn new(sockets: UdpPair) -> Self {
        Self {
            writer: DatagramWriter::new(sockets),
            by_address: HashMap::new(),
            paced_until: None,
        }
    }

    /// Assigns datagrams from these addresses to this client's track from now on.
    pub(super) fn learn(&mut self, addresses: UdpAddresses, client: Key, track: TrackIndex) {
        for address in [addresses.media, addresses.control] {
            self.by_address.insert(address, (client, track));
        }
    }

    /// Removes the assignment of these addresses to this client.
    pub(super) fn forget(&mut self, addresses: UdpAddresses, client: Key) {
        for address in [addresses.media, addresses.control] {
            let owner = self.by_address.get(&address);
            if owner.is_some_and(|(owner, _)| *owner == client) {
                self.by_address.remove(&address);
            }
        }
        shrink(&mut self.by_address);
    }

    /// Returns the clients to whose ports datagrams did not get since the last call, because the port
    /// is closed.
    pub(super) fn take_refused(&self) -> Vec<(Key, SocketAddr)> {
        let mut refused = Vec::new();
        self.writer.sockets.take_refused(|destination| {
            if let Some((client, _)) = self.by_address.get(&destination) {
                refused.push((*client, destination));
            }
        });
        refused
    }

    /// Forgets all clients, and drops what was planned for them.
    pub(super) fn clear(&mut self) {
        self.writer.discard();
        self.by_address.clear();
        self.paced_until = None;
    }

    /// Reads the waiting datagrams of both ports, up to a limit, and hands those of clients to
    /// `take`. Returns whether more may wait.
    #[must_use]
    pub(super) fn receive(
        &self,
        batch: &mut ReceiveBatch,
        mut take: impl FnMut(ClientDatagram<'_>),
    ) -> bool {
        self.writer.sockets.receive(batch, |arrived| {
            let Arrived {
                source,
                is_control,
                bytes,
            } = arrived;
            if let Some((client, track)) = self.by_address.get(&source) {
                take(ClientDatagram {
                    client: *client,
                    track: *track,
                    is_control,
                    bytes,
                });
            }
        })
    }
}
