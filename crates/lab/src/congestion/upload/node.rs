//! One end of a connection with its application.

use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use noq_proto::{
    ClientConfig, Connection, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, Event,
    FourTuple, ServerConfig,
};

use super::credentials::{Credentials, SERVER_NAME};

/// Most datagrams that the transport makes at once, as with segmentation offload.
const DATAGRAMS_AT_A_TIME: NonZeroUsize = NonZeroUsize::new(10).expect("not zero");

/// A smaller datagram had room for more data, so that nothing more is to be sent now and the
/// transport need not be asked again. No datagram's limit is below 1200 bytes.
const ROOMY_BYTES: usize = 1000;

/// Application on a connection.
pub(crate) trait Application: Send {
    /// Handles an event of the connection.
    fn on_event(&mut self, now: Instant, event: Event, connection: &mut Connection);

    /// Does what is due at `now`, including reading and writing. Called after anything happened
    /// at this end.
    fn turn(&mut self, now: Instant, connection: &mut Connection);

    /// Time of the next call of `turn` if nothing else happens.
    fn due(&self) -> Option<Instant>;
}

/// An endpoint with at most one connection.
pub(crate) struct Node<A> {
    endpoint: Endpoint,
    connection: Option<(ConnectionHandle, Connection)>,
    pub(crate) application: A,
    due: Option<Instant>,
    buffer: Vec<u8>,
    response: Vec<u8>,
}

impl<A: Application> Node<A> {
    /// Makes the end that connects to `server` at `now`.
    pub(crate) fn client(
        application: A,
        config: ClientConfig,
        server: SocketAddr,
        seed: u64,
        now: Instant,
    ) -> Self {
        let mut node = Self::new(application, None, seed);
        let connection = node.endpoint.connect(now, config, server, SERVER_NAME);
        node.connection = Some(connection.expect("a valid address and name"));
        node.due = Some(now);
        node
    }

    /// Makes the end that waits for a client.
    pub(crate) fn server(application: A, config: ServerConfig, seed: u64) -> Self {
        Self::new(application, Some(Arc::new(config)), seed)
    }

    fn new(application: A, server: Option<Arc<ServerConfig>>, seed: u64) -> Self {
        let config = Arc::new(Credentials::endpoint(seed));
        Self {
            endpoint: Endpoint::new(config, server, true),
            connection: None,
            application,
            due: None,
            buffer: Vec::new(),
            response: Vec::new(),
        }
    }

    /// Handles a datagram from `remote`. A call of [`turn`](Self::turn) must follow.
    pub(crate) fn handle_datagram(
        &mut self,
        now: Instant,
        remote: SocketAddr,
        ecn: Option<EcnCodepoint>,
        datagram: BytesMut,
    ) {
        self.response.clear();
        let path = FourTuple::new(remote, None);
        let event = self
            .endpoint
            .handle(now, path, ecn, datagram, &mut self.response);
        match event {
            Some(DatagramEvent::ConnectionEvent(_, event)) => {
                if let Some((_, connection)) = &mut self.connection {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if self.connection.is_some() {
                    self.endpoint.ignore(incoming);
                } else if let Ok(accepted) =
                    self.endpoint
                        .accept(incoming, now, &mut self.response, None)
                {
                    self.connection = Some(accepted);
                }
            }
            // A stateless reset: there is no connection to close.
            Some(DatagramEvent::Response(_)) | None => {}
        }
    }

    /// Does what is due at `now`, and passes every datagram to `send`, with its destination and
    /// ECN mark.
    pub(crate) fn turn(
        &mut self,
        now: Instant,
        mut send: impl FnMut(&[u8], SocketAddr, Option<EcnCodepoint>),
    ) {
        let Some((handle, connection)) = &mut self.connection else {
            return;
        };
        if connection.poll_timeout().is_some_and(|due| due <= now) {
            connection.handle_timeout(now);
        }
        loop {
            while let Some(event) = connection.poll() {
                self.application.on_event(now, event, connection);
            }
            self.application.turn(now, connection);
            self.buffer.clear();
            while let Some(transmit) =
                connection.poll_transmit(now, DATAGRAMS_AT_A_TIME, &mut self.buffer)
            {
                let bytes = transmit.segment_size.unwrap_or(transmit.size).max(1);
                for datagram in self.buffer[..transmit.size].chunks(bytes) {
                    send(datagram, transmit.destination, transmit.ecn);
                }
                let last = self.buffer[..transmit.size].chunks(bytes).next_back();
                let has_room = last.is_some_and(|last| last.len() < ROOMY_BYTES);
                self.buffer.clear();
                if has_room && !connection.is_handshaking() {
                    break;
                }
            }
            let mut told = false;
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                    told = true;
                }
            }
            if !told {
                break;
            }
        }
        let due = [connection.poll_timeout(), self.application.due()];
        self.due = due.into_iter().flatten().min();
    }

    /// Time of the next [`turn`](Self::turn) if no datagram arrives.
    pub(crate) const fn due(&self) -> Option<Instant> {
        self.due
    }
}
