//! One session with a camera, from the connection to its end.
//!
//! ```text
//! TCP ─┬► Client (RTSP) ─► description ─► choose ─► SETUP, PLAY
//!      └► frames ─┐
//! UDP ─► packets ─┴► Receiver ─► hub
//! ```

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{SourceNote, State, Stream};
use glassline_media::Track;
use glassline_rtp::payload::h265;
use glassline_rtsp::client::{Event, RequestedTransport};
use glassline_rtsp::sdp::Description;

use super::SessionEnd;
use super::connection::{CameraConnection, Purpose};
use super::failure::Failure;
use super::limits::KEYFRAME;
use super::on_demand::OnDemand;
use super::ports::Ports;
use super::receiver::Receiver;
use crate::ingest::{RtspSource, Transport};

/// Longest time that a camera has for the end of a session.
const FAREWELL: Duration = Duration::from_secs(1);

/// Size of the buffer that a camera's connection and datagrams are read into.
const READ_BYTES: usize = 64 << 10;

/// Connects to `camera` and publishes what it sends until something fails, or nobody needs the stream
/// any more. `live_since` is set to the time of the first unit that was published.
pub(super) async fn pull(
    camera: &RtspSource,
    stream: &Arc<Stream>,
    on_demand: &OnDemand<'_>,
    live_since: &mut Option<Instant>,
) -> SessionEnd {
    match CameraSession::connect(camera, stream).await {
        Ok(session) => session.run(on_demand, live_since).await,
        Err(failure) => SessionEnd::Failed(failure),
    }
}

/// A session whose camera is connected.
struct CameraSession<'a> {
    camera: &'a RtspSource,
    stream: &'a Arc<Stream>,
    connection: CameraConnection,
    /// The tracks' ports for packets by UDP.
    ports: Ports,
    /// The tracks that are used; `None` before the camera has described them.
    receiver: Option<Receiver<'a>>,
    /// When the camera granted PLAY.
    playing_since: Option<Instant>,
}

impl<'a> CameraSession<'a> {
    async fn connect(camera: &'a RtspSource, stream: &'a Arc<Stream>) -> Result<Self, Failure> {
        Ok(Self {
            camera,
            stream,
            connection: CameraConnection::open(camera, Purpose::Watch).await?,
            ports: Ports::default(),
            receiver: None,
            playing_since: None,
        })
    }

    async fn run(
        mut self,
        on_demand: &OnDemand<'_>,
        live_since: &mut Option<Instant>,
    ) -> SessionEnd {
        let mut buffer = vec![0; READ_BYTES];
        let mut unneeded = pin!(on_demand.unneeded());
        loop {
            tokio::select! {
                turned = self.turn(&mut buffer, live_since) => if let Err(failure) = turned {
                    return SessionEnd::Failed(self.connection.explained(failure));
                },
                () = &mut unneeded => {
                    self.leave(&mut buffer).await;
                    return SessionEnd::Unneeded;
                }
            }
        }
    }

    /// Ends the session with TEARDOWN, for whose response the camera has a second, and leaves the
    /// stream idle.
    async fn leave(&mut self, buffer: &mut [u8]) {
        match self.receiver.take() {
            Some(receiver) => receiver.leave(),
            None => self.stream.set_state(State::Idle),
        }
        self.connection.client.leave(Instant::now());
        let leaving = async {
            while !self.connection.client.is_closed() && self.connection.send().await.is_ok() {
                match self.connection.read(buffer).await {
                    Ok(count @ 1..) => self.take_bytes(&buffer[..count]),
                    _ => break,
                }
            }
        };
        let _ = tokio::time::timeout(FAREWELL, leaving).await;
    }

    /// Sends what waits, waits for something to happen, and handles what happened.
    async fn turn(
        &mut self,
        buffer: &mut [u8],
        live_since: &mut Option<Instant>,
    ) -> Result<(), Failure> {
        self.connection.send().await?;
        let deadline = self.deadline();
        let wake = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let peer = self.connection.peer;
        tokio::select! {
            read = self.connection.read(buffer) => match read? {
                0 => self.connection.client.handle_end(),
                count => self.take_bytes(&buffer[..count]),
            },
            (datagram, end) = self.ports.receive(peer) => {
                if let Some(receiver) = &mut self.receiver {
                    let bytes = &self.ports.buffer()[..end];
                    receiver.take(datagram.track, datagram.is_control, bytes, Instant::now());
                }
            }
            () = wake => {}
        }
        let now = Instant::now();
        self.connection.client.handle_timeout(now);
        while let Some(event) = self.connection.client.poll_event() {
            self.on_event(event, now)?;
        }
        self.check(now, live_since)
    }

    fn take_bytes(&mut self, bytes: &[u8]) {
        let (client, receiver) = (&mut self.connection.client, &mut self.receiver);
        let now = Instant::now();
        client.handle_data(now, bytes, |frame| {
            if let Some(receiver) = receiver {
                receiver.take(frame.track, frame.control, frame.payload, now);
            }
        });
    }

    fn on_event(&mut self, event: Event, now: Instant) -> Result<(), Failure> {
        match event {
            Event::Described(description) => self.set_up(&description, now)?,
            Event::SetUp { track, transport } => {
                if let Some(server) = transport.server_port {
                    self.ports.open_path(track, self.connection.peer, server);
                }
            }
            Event::Playing { .. } => {
                self.playing_since = Some(now);
                if let Some(receiver) = &mut self.receiver {
                    receiver.last_received = now;
                }
            }
            Event::LeftOut { track, reason } => {
                tracing::info!(stream = %self.stream.name(), %reason, "track of the camera left out");
                if let Some(receiver) = &mut self.receiver {
                    receiver.leave_out(track, &reason)?;
                }
            }
            // A camera is played, not published to.
            Event::Recording => {}
            Event::Closed(reason) => return Err(Failure::of(reason)),
        }
        Ok(())
    }

    fn set_up(&mut self, description: &Description, now: Instant) -> Result<(), Failure> {
        let choice = description.choose(|_| true);
        let (mut chosen, left_out) = (choice.tracks, choice.left_out);
        let others = left_out.join(", ");
        for (_, track) in &mut chosen {
            if let Some(size) = frame_size(track) {
                (track.video.width, track.video.height) = size;
            }
        }
        if chosen.is_empty() {
            return Err(Failure::NothingUsable { offered: others });
        }
        if !others.is_empty() {
            tracing::info!(stream = %self.stream.name(), skipped = others, "tracks of the camera left out");
        }
        let mut wanted = Vec::new();
        for (track, _) in &chosen {
            let transport = match self.camera.transport {
                Transport::Tcp => RequestedTransport::Interleaved,
                Transport::Udp => {
                    let local = self
                        .connection
                        .socket
                        .local_addr()
                        .map_err(Failure::Connection)?;
                    let ports = self.ports.bind(*track, local.ip());
                    RequestedTransport::Udp {
                        ports: ports.map_err(Failure::Ports)?,
                    }
                }
            };
            wanted.push((*track, transport));
        }
        let by_datagrams = self.camera.transport == Transport::Udp;
        let note = SourceNote {
            protocol: "camera",
            left_out,
        };
        let receiver = Receiver::new(chosen, by_datagrams, (self.stream, note), now)?;
        self.receiver = Some(receiver);
        self.connection.client.set_up(now, &wanted);
        Ok(())
    }

    /// Returns the next time at which something is due without anything having arrived.
    fn deadline(&self) -> Option<Instant> {
        let receiver = self.receiver.as_ref();
        let silent = receiver
            .filter(|_| self.playing_since.is_some())
            .map(|it| it.last_received + self.camera.timeout);
        let overdue = receiver.and_then(Receiver::deadline);
        [self.connection.client.poll_timeout(), silent, overdue]
            .into_iter()
            .flatten()
            .min()
    }

    /// Publishes what is complete, and checks that packets and keyframes arrive.
    fn check(&mut self, now: Instant, live_since: &mut Option<Instant>) -> Result<(), Failure> {
        let Some(receiver) = &mut self.receiver else {
            return Ok(());
        };
        receiver.publish(now, live_since)?;
        let Some(since) = self.playing_since else {
            return Ok(());
        };
        let timeout = self.camera.timeout;
        if now.saturating_duration_since(receiver.last_received) >= timeout {
            return Err(Failure::Silent { timeout });
        }
        if !receiver.is_live() && now.saturating_duration_since(since) > KEYFRAME {
            return Err(match receiver.oversized() {
                0 => Failure::NoKeyframe,
                dropped => Failure::FramesTooLarge { dropped },
            });
        }
        Ok(())
    }
}

/// Returns width and height in pixels, as far as the description has parameter sets.
fn frame_size(track: &Track) -> Option<(u32, u32)> {
    let mut sets = h265::sets_of(track);
    sets.push(track.video.sps.clone());
    let mut sizes = sets.iter();
    sizes.find_map(|set| glassline_demux::frame_size(track.codec, set))
}
