//! The sockets of an RTSP publisher, on a thread of their own.

use std::io::{self, Read as _, Write as _};
use std::net::IpAddr;
use std::os::fd::{AsRawFd as _, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use glassline_media::TrackIndex;
use glassline_net::ReceiveBatch;
use glassline_rtsp::client::Event;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use super::RtspError;
use super::recording::Recording;
use crate::viewers::{ControlConnection, Ports};

const CONNECTION: Token = Token(0);
const WAKER: Token = Token(1);
const PORTS: Token = Token(2);

/// Datagrams that are received at once.
const BATCH: usize = 16;
/// Bytes that are read from the connection at once.
const READ_BYTES: usize = 16 << 10;
/// Longest wait of the thread.
const IDLE: Duration = Duration::from_millis(20);
/// Time between two looks at what TCP has not acknowledged, which no event tells.
const ACKNOWLEDGEMENTS: Duration = Duration::from_millis(3);

/// The state that the thread and the uplink share.
#[derive(Debug)]
pub(super) struct Transport {
    recording: Mutex<Recording>,
    waker: Waker,
    /// Notified when the server takes media, and when the session has ended.
    pub(super) changed: Notify,
    /// Whether the uplink is done with the session.
    is_finished: AtomicBool,
    /// Whether the thread has ended.
    is_over: AtomicBool,
}

impl Transport {
    /// Starts the thread of a session on `stream`. With media by UDP there is a pair of ports for
    /// each track; `server` is the address that they send to unless the server names another one.
    pub(super) fn start(
        recording: Recording,
        stream: ControlConnection,
        server: IpAddr,
        ports: Vec<Ports>,
    ) -> io::Result<Arc<Self>> {
        let poll = Poll::new()?;
        let descriptors = ports.iter().flat_map(Ports::descriptors);
        for descriptor in descriptors {
            register(&poll, descriptor, PORTS, Interest::READABLE)?;
        }
        let both = Interest::READABLE | Interest::WRITABLE;
        register(&poll, stream.as_raw_fd(), CONNECTION, both)?;
        let transport = Arc::new(Self {
            waker: Waker::new(poll.registry(), WAKER)?,
            recording: Mutex::new(recording),
            changed: Notify::new(),
            is_finished: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
        });
        let link = Link {
            transport: Arc::clone(&transport),
            stream,
            server,
            ports,
            buffer: vec![0; READ_BYTES],
            batch: ReceiveBatch::new(BATCH),
        };
        std::thread::Builder::new()
            .name("rtsp".to_owned())
            .spawn(move || link.run(poll))?;
        Ok(transport)
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Recording> {
        self.recording.lock()
    }

    /// Lets the thread send what was queued.
    pub(super) fn wake(&self) {
        // The thread looks at intervals of IDLE without it.
        let _ = self.waker.wake();
    }

    /// Ends the session by TEARDOWN.
    pub(super) fn finish(&self) {
        self.is_finished.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Returns whether the thread has ended, and with it the session.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

fn register(poll: &Poll, descriptor: RawFd, token: Token, interest: Interest) -> io::Result<()> {
    let registry = poll.registry();
    registry.register(&mut SourceFd(&descriptor), token, interest)
}

/// The thread's own part.
struct Link {
    transport: Arc<Transport>,
    stream: ControlConnection,
    server: IpAddr,
    ports: Vec<Ports>,
    buffer: Vec<u8>,
    batch: ReceiveBatch,
}

impl Link {
    fn run(mut self, mut poll: Poll) {
        let transport = Arc::clone(&self.transport);
        let mut events = Events::with_capacity(8);
        loop {
            let mut recording = transport.lock();
            let turned = self.turn(&mut recording);
            if let Err(error) = turned {
                recording.ended.get_or_insert(error);
                break;
            }
            let is_closed = self.attend(&mut recording);
            if is_closed || recording.ended.is_some() {
                break;
            }
            let now = Instant::now();
            let looks = recording
                .has_unacknowledged()
                .then_some(now + ACKNOWLEDGEMENTS);
            let due = [recording.poll_timeout(now), looks, Some(now + IDLE)];
            drop(recording);
            let next = due.into_iter().flatten().min();
            let wait = next.map(|at| at.saturating_duration_since(now));
            if let Err(error) = poll.poll(&mut events, wait)
                && error.kind() != io::ErrorKind::Interrupted
            {
                let mut recording = transport.lock();
                recording.ended.get_or_insert(RtspError::System(error));
                break;
            }
        }
        transport.is_over.store(true, Ordering::Relaxed);
        transport.changed.notify_one();
    }

    /// Receives, and sends what may leave.
    fn turn(&mut self, recording: &mut Recording) -> Result<(), RtspError> {
        self.receive_reports(recording).map_err(RtspError::Broken)?;
        self.read(recording).map_err(RtspError::Broken)?;
        let now = Instant::now();
        if recording.has_unacknowledged() {
            // A system that does not count them is trusted to have sent what it took.
            let in_kernel = glassline_net::unacknowledged_bytes(self.stream.socket());
            recording.on_unacknowledged(now, in_kernel.unwrap_or_default());
        }
        if self.transport.is_finished.load(Ordering::Relaxed) {
            recording.leave(now);
        }
        let ports = &self.ports;
        recording.send(now, &mut |track, control, bytes| {
            if let Some(ports) = ports.get(track.get()) {
                // A datagram that the system does not take counts as lost.
                match control {
                    true => ports.send_control(bytes),
                    false => ports.send_media(bytes),
                };
            }
        });
        self.write(recording).map_err(RtspError::Broken)
    }

    /// Handles the events of the session; returns whether it has ended.
    fn attend(&mut self, recording: &mut Recording) -> bool {
        while let Some(event) = recording.poll_event(Instant::now()) {
            match event {
                Event::SetUp { track, transport } => {
                    let Some(ports) = self.ports.get_mut(track.get()) else {
                        continue;
                    };
                    if transport.server_port.is_none() {
                        recording
                            .ended
                            .get_or_insert(RtspError::NoServerPorts(track));
                    }
                    let source = transport.source.as_ref();
                    let source = source.and_then(|text| text.parse().ok());
                    ports.set_server(source.unwrap_or(self.server), transport.server_port);
                }
                Event::Recording => self.transport.changed.notify_one(),
                Event::Closed(_) => return true,
                // A publisher describes and plays nothing.
                Event::Described(_) | Event::LeftOut { .. } | Event::Playing { .. } => {}
            }
        }
        false
    }

    /// Reads what the server sent in the connection.
    fn read(&mut self, recording: &mut Recording) -> io::Result<()> {
        loop {
            match self.stream.read(&mut self.buffer) {
                Ok(0) => {
                    recording.handle_end();
                    return Ok(());
                }
                Ok(count) => recording.handle_data(Instant::now(), &self.buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes what waits for the connection, as far as the connection has room.
    fn write(&mut self, recording: &mut Recording) -> io::Result<()> {
        while !recording.output().is_empty() {
            match self.stream.write(recording.output()) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => recording.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        match self.stream.flush() {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes RTCP from the ports, and empties those of RTP.
    fn receive_reports(&mut self, recording: &mut Recording) -> io::Result<()> {
        for (index, ports) in TrackIndex::enumerate(&self.ports) {
            ports.receive(true, &mut self.batch, |arrived, packet| {
                if let Some(packet) = packet {
                    recording.handle_control(arrived, index, packet);
                }
            })?;
            ports.receive(false, &mut self.batch, |_, _| {})?;
        }
        Ok(())
    }
}
