//! The socket and the session of a WHIP publisher, on a thread of their own.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_net::{ReceiveBatch, UdpSocket};
use glassline_webrtc::{CloseReason, Event, Session, TransportAddress};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use tokio::sync::Notify;

use super::outgoing::Outgoing;

const SOCKET: Token = Token(0);
const WAKER: Token = Token(1);
/// Datagrams that are received at once.
const BATCH: usize = 16;
/// Longest wait of the thread.
const IDLE: Duration = Duration::from_millis(20);

/// What the thread and the uplink share.
#[derive(Debug)]
pub(super) struct Transport {
    state: Mutex<TransportState>,
    waker: Waker,
    /// Notified when the session is connected, and when it has ended.
    pub(super) changed: Notify,
}

/// The session of a publisher, and what is under way in it.
#[derive(Debug)]
pub(super) struct TransportState {
    pub(super) session: Session,
    pub(super) outgoing: Outgoing,
    /// Why the session is over.
    pub(super) ended: Option<CloseReason>,
    /// Whether the server asked for a keyframe.
    pub(super) keyframe_wanted: bool,
    /// Round-trip time by the latest receiver report.
    pub(super) round_trip: Option<Duration>,
    /// Whether the uplink is done with the session.
    is_finished: bool,
}

impl Transport {
    /// Starts the thread of `session`, whose addresses at `socket` are `local`.
    pub(super) fn start(
        session: Session,
        socket: UdpSocket,
        local: Vec<SocketAddr>,
        algorithm: Algorithm,
    ) -> io::Result<Arc<Self>> {
        let poll = Poll::new()?;
        let descriptor = socket.as_raw_fd();
        let (registry, source) = (poll.registry(), &mut SourceFd(&descriptor));
        registry.register(source, SOCKET, Interest::READABLE)?;
        let transport = Arc::new(Self {
            waker: Waker::new(registry, WAKER)?,
            state: Mutex::new(TransportState {
                session,
                outgoing: Outgoing::default(),
                ended: None,
                keyframe_wanted: false,
                round_trip: None,
                is_finished: false,
            }),
            changed: Notify::new(),
        });
        let link = Link {
            transport: Arc::clone(&transport),
            socket,
            local,
            algorithm,
            buffer: Vec::new(),
        };
        std::thread::Builder::new()
            .name("whip".to_owned())
            .spawn(move || link.run(poll))?;
        Ok(transport)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, TransportState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
    algorithm: Algorithm,
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
            self.attend(&mut state, now);
            self.send(&mut state, now);
            if state.ended.is_some() {
                drop(state);
                transport.changed.notify_one();
                return;
            }
            let due = [
                state.session.poll_timeout(),
                due(&mut state, now),
                Some(now + IDLE),
            ];
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

    fn receive(&self, state: &mut TransportState, batch: &mut ReceiveBatch) {
        let now = Instant::now();
        for datagram in batch.iter_mut().filter(|it| !it.truncated) {
            let to = self.arrived_at(datagram.destination);
            let from = datagram.source;
            if let Err(reason) = state.session.handle_datagram(now, from, to, datagram.bytes) {
                tracing::trace!(reason = reason.label(), "datagram dropped");
            }
        }
    }

    /// Returns the candidate address that a datagram was sent to.
    fn arrived_at(&self, ip: Option<IpAddr>) -> SocketAddr {
        let port = self.socket.local_addr().port();
        ip.map_or(self.local[0], |ip| SocketAddr::new(ip, port))
    }

    /// Handles the session's events: a NACK is answered at once.
    fn attend(&self, state: &mut TransportState, now: Instant) {
        while let Some(event) = state.session.poll_event() {
            match event {
                Event::Connected { .. } => {
                    // A server without transport-wide feedback is sent to without control.
                    let _ = state.session.enable_congestion_control(self.algorithm, now);
                    self.transport.changed.notify_one();
                }
                Event::Nack { sender, lost, .. } => {
                    let peer = state.session.peer();
                    let TransportState {
                        session, outgoing, ..
                    } = state;
                    outgoing.send_again(session, (sender, &lost), now, |bytes| {
                        self.transmit(bytes, peer);
                    });
                }
                Event::KeyframeRequest { .. } => state.keyframe_wanted = true,
                Event::ReceiverReport { rtt, .. } => state.round_trip = rtt.or(state.round_trip),
                Event::Closed(reason) => state.ended = Some(reason),
                _ => {}
            }
        }
    }

    /// Sends what the session and the queue have to send.
    fn send(&mut self, state: &mut TransportState, now: Instant) {
        let peer = state.session.peer();
        let TransportState {
            session, outgoing, ..
        } = state;
        outgoing.send(session, now, |bytes| self.transmit(bytes, peer));
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

/// Returns when the next packet may be sent.
fn due(state: &mut TransportState, now: Instant) -> Option<Instant> {
    state.outgoing.due(&mut state.session, now)
}
