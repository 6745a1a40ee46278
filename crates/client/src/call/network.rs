//! The network thread: receives from the socket and drives the session's timers.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use glassline_net::{ReceiveBatch, SendError, UdpSocket};
use glassline_rtp::red;
use glassline_voice::jitter::Packet;
use glassline_voice::{DuplicateReason, DuplicateRecord, Received as Arrival, Ssrc};
use glassline_webrtc::{
    CloseReason, DatagramKind, Dropped, Event, OpusParameters, Received, classify,
};
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token};

use super::signal::system;
use super::stamp_channels::StampChannels;
use super::stamping::Stamp;
use super::{BoundedSender, CallError, Ended, MediaTransport, Shared};

/// A voice packet for the loudspeaker.
pub(super) struct Incoming {
    pub(super) ssrc: Ssrc,
    /// Whether the payload is RED (RFC 2198).
    pub(super) is_redundant: bool,
    pub(super) packet: Packet,
    pub(super) received: Arrival,
}

/// Result of the negotiation, known when keys are established.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agreed {
    /// The media that we send; `None` if the peer accepts no audio.
    pub(super) sends: Option<Sends>,
    /// Whether the peer sends audio.
    pub(super) receives: bool,
}

/// Parameters of the audio that we send.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sends {
    pub(super) payload_type: u8,
    pub(super) has_redundancy: bool,
    /// Opus parameters that the peer asked for.
    pub(super) wanted: OpusParameters,
    pub(super) timestamp: u32,
}

/// Data of the network thread.
pub(super) struct Network {
    shared: Arc<Shared>,
    socket: Arc<UdpSocket>,
    local: SocketAddr,
    poll: Poll,
    packets: BoundedSender<Incoming>,
    duplicates: Stamp<DuplicateRecord>,
    stamp_channels: StampChannels,
    connected: Option<Sender<Agreed>>,
    was_connected: bool,
    out: Vec<u8>,
}

const BATCH: usize = 16;
const SOCKET: Token = Token(0);
/// Longest wait. Another thread may move the session's deadlines, which is noticed this late
/// at most.
const IDLE: Duration = Duration::from_millis(20);
/// Largest age of a kernel stamp. An older one was made before the calendar clock was set.
const AGE_MAX: Duration = Duration::from_secs(1);

impl Network {
    pub(super) fn new(
        shared: Arc<Shared>,
        packets: BoundedSender<Incoming>,
        duplicates: Stamp<DuplicateRecord>,
        stamp_channels: StampChannels,
        connected: Sender<Agreed>,
    ) -> Result<Self, CallError> {
        let (socket, local) = {
            let transport = shared.transport();
            (Arc::clone(&transport.socket), transport.local)
        };
        let poll = Poll::new().map_err(system("waiting for the socket"))?;
        let descriptor = socket.as_raw_fd();
        poll.registry()
            .register(&mut SourceFd(&descriptor), SOCKET, Interest::READABLE)
            .map_err(system("waiting for the socket"))?;
        Ok(Self {
            shared,
            socket,
            local,
            poll,
            packets,
            duplicates,
            stamp_channels,
            connected: Some(connected),
            was_connected: false,
            out: Vec::new(),
        })
    }

    /// Runs until the session ends or the call is stopped.
    pub(super) fn run(mut self) {
        if let Err(error) = self.work() {
            self.shared.end(Err(error));
        }
        let shared = Arc::clone(&self.shared);
        let mut transport = shared.transport();
        let now = Instant::now();
        self.stamp_channels.finish(&mut transport.session, now);
        self.transmit(&mut transport, now);
        transport.session.close(now);
        self.transmit(&mut transport, now);
        drop(transport);
        shared.end(Ok(Ended::ByUs));
    }

    fn work(&mut self) -> Result<(), CallError> {
        let shared = Arc::clone(&self.shared);
        let mut batch = ReceiveBatch::new(BATCH);
        let mut events = Events::with_capacity(4);
        while !shared.stop.load(Ordering::Relaxed) {
            let count = self
                .socket
                .receive_batch(&mut batch)
                .map_err(system("receiving datagrams"))?;
            let mut transport = shared.transport();
            self.receive(&mut transport, &mut batch);
            let now = Instant::now();
            if transport.session.poll_timeout().is_some_and(|at| at <= now) {
                transport.session.handle_timeout(now);
            }
            transport.session.end_batch(now);
            self.stamp_channels.receive(&mut transport.session, now);
            self.stamp_channels.work(&mut transport.session, now);
            self.transmit(&mut transport, now);
            while let Some(event) = transport.session.poll_event() {
                self.handle(&mut transport, &event);
            }
            let next = [
                transport.session.poll_timeout(),
                self.stamp_channels.poll_timeout(),
            ];
            let next = next.into_iter().flatten().min();
            drop(transport);
            if shared.is_over() || count == BATCH {
                continue;
            }
            let wait = next.map_or(IDLE, |at| at.saturating_duration_since(now));
            match self.poll.poll(&mut events, Some(wait.min(IDLE))) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                result => result.map_err(system("waiting for the socket"))?,
            }
        }
        Ok(())
    }

    fn receive(&mut self, transport: &mut MediaTransport, batch: &mut ReceiveBatch) {
        if batch.is_empty() {
            return;
        }
        let clocks = Clocks::read();
        let (mut dropped, count) = (0, batch.len() as u64);
        for datagram in batch.iter_mut() {
            let arrived = clocks.instant(datagram.arrived);
            let to = self.arrived_at(datagram.destination);
            let named = clear_header(datagram.bytes);
            let handled =
                transport
                    .session
                    .handle_datagram(clocks.now, datagram.source, to, datagram.bytes);
            let (receiver, packet) = match handled {
                Ok(Received::Rtp {
                    receiver, packet, ..
                }) => (receiver, packet),
                Ok(_) => {
                    self.stamp_channels.receive(&mut transport.session, arrived);
                    continue;
                }
                Err(why) => {
                    dropped += 1;
                    self.dropped(why, named, arrived);
                    continue;
                }
            };
            let opened = Instant::now();
            let packet_in = Packet {
                sequence: packet.header.sequence,
                timestamp: packet.header.timestamp,
                payload: Bytes::copy_from_slice(packet.payload),
            };
            let (ssrc, payload_type) = (packet.header.ssrc, packet.header.payload_type);
            // The first one stays, because a leg carries one voice.
            self.shared.voice.get_or_init(|| ssrc);
            let is_redundant = transport.session.receivers()[receiver.0].is_redundant(payload_type);
            if is_redundant {
                self.copies(ssrc, &packet_in, arrived);
            }
            self.packets.push(Incoming {
                ssrc,
                is_redundant,
                packet: packet_in,
                received: Arrival {
                    arrived,
                    opened,
                    inserted: Instant::now(),
                },
            });
        }
        if dropped < count {
            *self.shared.heard() = Some(clocks.now);
        }
        if dropped > 0 {
            self.shared.figures().dropped += dropped;
        }
    }

    /// Records a datagram that the session dropped, if the network had duplicated it.
    fn dropped(&self, why: Dropped, named: Option<(Ssrc, u32)>, at: Instant) {
        if let (Dropped::Replayed | Dropped::Duplicate, Some((ssrc, timestamp))) = (why, named) {
            let why = DuplicateReason::Duplicate;
            self.duplicates.push(DuplicateRecord {
                ssrc,
                timestamp,
                at,
                why,
            });
        }
    }

    /// Records the copies in a RED packet. A packet that cannot be parsed is counted where it
    /// is played.
    fn copies(&self, ssrc: Ssrc, packet: &Packet, at: Instant) {
        let blocks = red::blocks(&packet.payload).unwrap_or_default();
        for block in blocks.iter().filter(|it| it.offset > 0) {
            self.duplicates.push(DuplicateRecord {
                ssrc,
                timestamp: packet.timestamp.wrapping_sub(block.offset),
                at,
                why: DuplicateReason::Redundant,
            });
        }
    }

    fn arrived_at(&self, ip: Option<IpAddr>) -> SocketAddr {
        ip.map_or(self.local, |ip| SocketAddr::new(ip, self.local.port()))
    }

    fn transmit(&mut self, transport: &mut MediaTransport, now: Instant) {
        while let Some((to, segment)) = transport.session.poll_transmit_batch(now, &mut self.out) {
            // Datagrams are few and small: a segmented send is not worthwhile.
            for datagram in self.out.chunks(segment.max(1)) {
                match self.socket.send(datagram, to.socket) {
                    Ok(()) => {}
                    Err(SendError::WouldBlock) => self.shared.figures().unsent += 1,
                    // The peer or the route is gone, which ICE notices.
                    Err(error) => tracing::debug!(%error, %to, "a datagram was not sent"),
                }
            }
        }
    }

    fn handle(&mut self, transport: &mut MediaTransport, event: &Event) {
        match event {
            Event::Connected { profile } => {
                self.was_connected = true;
                let mut figures = self.shared.figures();
                figures.is_connected = true;
                figures.protection = profile.map(glassline_webrtc::srtp::Profile::name);
                figures.peer = transport.session.peer().map(|it| it.socket);
                drop(figures);
                if let Some(connected) = self.connected.take() {
                    // The receiver ends only with the call.
                    let _ = connected.send(agreed(transport));
                }
            }
            Event::AddressChanged { peer } => {
                self.shared.figures().peer = Some(peer.socket);
            }
            Event::ReceiverReport {
                fraction_lost, rtt, ..
            } => {
                let lost = u64::from(*fraction_lost);
                self.shared.lost_256.store(lost, Ordering::Relaxed);
                let mut figures = self.shared.figures();
                figures.lost_ratio = Some(f64::from(*fraction_lost) / 256.0);
                figures.rtt = rtt.or(figures.rtt);
            }
            Event::Closed(reason) => self.shared.end(self.end_of(*reason)),
            _ => {}
        }
    }

    fn end_of(&self, reason: CloseReason) -> Result<Ended, CallError> {
        let peer = self.shared.figures().peer;
        match reason {
            CloseReason::Local => Ok(Ended::ByUs),
            CloseReason::Peer if self.was_connected => Ok(Ended::ByPeer),
            CloseReason::Vanished => Err(match peer {
                Some(peer) => CallError::Vanished { peer },
                None => CallError::Closed(reason),
            }),
            _ if !self.was_connected => Err(CallError::NotConnected {
                peer: peer.map_or_else(|| "the peer".to_owned(), |it| it.to_string()),
                reason,
            }),
            _ => Err(CallError::Closed(reason)),
        }
    }
}

fn agreed(transport: &MediaTransport) -> Agreed {
    let sends = transport.session.senders().first().map(|sender| Sends {
        payload_type: sender.payload_type,
        has_redundancy: sender.red_payload_type.is_some(),
        wanted: OpusParameters::parse(&sender.parameters),
        timestamp: sender.timestamp_start,
    });
    Agreed {
        sends,
        receives: transport.listens(),
    }
}

/// SSRC and timestamp of an RTP packet's header, which is not encrypted; it is not
/// authenticated yet.
fn clear_header(datagram: &[u8]) -> Option<(Ssrc, u32)> {
    let (header, _) = datagram.split_first_chunk::<12>()?;
    let is_rtcp = (64..96).contains(&(header[1] & 0x7f));
    (classify(header[0]) == DatagramKind::Rtp && !is_rtcp).then_some(())?;
    let word = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    Some((Ssrc(word(8)), word(4)))
}

/// Monotonic and calendar clock, read together: the kernel stamps arrivals by the calendar.
struct Clocks {
    now: Instant,
    calendar: Duration,
}

impl Clocks {
    fn read() -> Self {
        let calendar = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            now: Instant::now(),
            calendar: calendar.unwrap_or_default(),
        }
    }

    fn instant(&self, arrived: Option<Duration>) -> Instant {
        let age = arrived.and_then(|it| self.calendar.checked_sub(it));
        let age = age.filter(|age| *age < AGE_MAX).unwrap_or_default();
        self.now.checked_sub(age).unwrap_or(self.now)
    }
}
