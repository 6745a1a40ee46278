//! The socket and the session of a WHIP publisher, on a thread of their own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_net::{ReceiveBatch, UdpSocket};
use glassline_webrtc::{CloseReason, Session, TransportAddress};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::publication::Publication;
use crate::publish::uplink::Settings;

const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);
/// Datagrams that are received at once.
const BATCH: usize = 16;
/// Longest wait of the thread.
const IDLE: Duration = Duration::from_millis(20);

/// The state that the thread and the uplink share.
#[derive(Debug)]
pub(super) struct Transport {
    state: Mutex<Publication>,
    waker: Waker,
    /// Notified when the session is connected, and when it has ended.
    pub(super) changed: Notify,
}

impl Transport {
    /// Starts the thread of `session`, whose addresses at `socket` are `local`.
    pub(super) fn start(
        session: Session,
        socket: UdpSocket,
        local: Vec<SocketAddr>,
        settings: &Settings,
    ) -> io::Result<Arc<Self>> {
        let poll = Poll::new()?;
        let descriptor = socket.as_raw_fd();
        let (registry, source) = (poll.registry(), &mut SourceFd(&descriptor));
        registry.register(source, SOCKET, Interest::READABLE)?;
        let transport = Arc::new(Self {
            waker: Waker::new(registry, WAKER)?,
            state: Mutex::new(Publication::new(session, settings)),
            changed: Notify::new(),
        });
        let link = Link {
            transport: Arc::clone(&transport),
            socket,
            local,
            buffer: Vec::new(),
        };
        std::thread::Builder::new()
            .name("whip".to_owned())
            .spawn(move || link.run(poll))?;
        Ok(transport)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Publication> {
        self.state.lock()
    }

    /// Lets the thread send what was queued.
    pub(super) fn wake(&self) {
        // The thread looks at intervals of IDLE without it.
        let _ = self.waker.wake();
    }

    /// Ends the session with a farewell.
    pub(super) fn finish(&self) {
        self.lock().is_finished = true;
        self.wake();
    }
}

/// The thread's own part.
struct Link {
    transport: Arc<Transport>,
    socket: UdpSocket,
    local: Vec<SocketAddr>,
    buffer: Vec<u8>,
}

impl Link {
    fn run(mut self, mut poll: Poll) {
        let transport = Arc::clone(&self.transport);
        let mut batch = ReceiveBatch::new(BATCH);
        let mut events = Events::with_capacity(4);
        loop {
            let received = self.socket.receive_batch(&mut batch);
            let mut state = transport.lock();
            if let Err(error) = received {
                tracing::debug!(%error, "cannot receive from the WHIP server");
            } else {
                self.receive(&mut state, &mut batch);
            }
            let now = Instant::now();
            if state.session.poll_timeout().is_some_and(|at| at <= now) {
                state.session.handle_timeout(now);
            }
            state.session.end_batch(now);
            if state.is_finished {
                state.session.close(now);
            }
            self.send(&mut state, now);
            if state.ended.is_some() {
                drop(state);
                transport.changed.notify_one();
                return;
            }
            let due = [state.poll_timeout(now), Some(now + IDLE)];
            let next = due.into_iter().flatten().min();
            drop(state);
            let wait = next.map(|at| at.saturating_duration_since(now));
            // A full batch means that more may wait.
            let wait = wait.filter(|_| batch.len() < batch.capacity());
            if let Err(error) = poll.poll(&mut events, wait.or(Some(Duration::ZERO)))
                && error.kind() != io::ErrorKind::Interrupted
            {
                tracing::warn!(%error, "the WHIP session ends: its socket cannot be waited for");
                transport.lock().ended = Some(CloseReason::Local);
                transport.changed.notify_one();
                return;
            }
        }
    }

    fn receive(&self, state: &mut Publication, batch: &mut ReceiveBatch) {
        let now = Instant::now();
        for datagram in batch.iter_mut().filter(|it| !it.truncated) {
            let to = self.arrived_at(datagram.destination);
            let from = datagram.source;
            match state.session.handle_datagram(now, from, to, datagram.bytes) {
                Ok(_) => state.heard = Some(now),
                Err(reason) => tracing::trace!(reason = reason.label(), "datagram dropped"),
            }
        }
    }

    /// Returns the candidate address that a datagram was sent to.
    fn arrived_at(&self, ip: Option<IpAddr>) -> SocketAddr {
        let port = self.socket.local_addr().port();
        ip.map_or(self.local[0], |ip| SocketAddr::new(ip, port))
    }

    /// Handles the session's events, and sends what the session and the queue have to send.
    fn send(&mut self, state: &mut Publication, now: Instant) {
        let peer = state.session.peer();
        if state.attend(now, &mut |bytes| self.transmit(bytes, peer)) {
            self.transport.changed.notify_one();
        }
        let peer = state.session.peer();
        state.send(now, &mut |bytes| self.transmit(bytes, peer));
        while let Some(to) = state.session.poll_transmit(&mut self.buffer) {
            self.transmit(&self.buffer, Some(to));
        }
    }

    fn transmit(&self, bytes: &[u8], to: Option<TransportAddress>) {
        if let Some(to) = to
            && let Err(error) = self.socket.send(bytes, to.socket)
        {
            // A lost datagram is requested again.
            tracing::trace!(%error, %to, "datagram not sent");
        }
    }
}
