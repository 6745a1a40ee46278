//! One session with a camera, from the connection to its end.
//!
//! ```text
//! TCP, TLS ─┬► Client (RTSP) ─► description ─► choose ─► SETUP, PLAY
//!           └► frames ─┐
//! UDP ─► Senders ──────┴► Receiver ─► hub
//! reports, PLI ◄────────────┘
//! ```

use std::pin::pin;
use std::time::Instant;

use glassline_hub::{SourceNote, State};
use glassline_media::{Kind, Ssrc, Track, TrackIndex};
use glassline_rtp::payload::h265;
use glassline_rtsp::client::{Closed, Event, RequestedTransport};
use glassline_rtsp::sdp::Description;

use super::SessionEnd;
use super::failure::Failure;
use super::limits::{KEYFRAME, REPORTS};
use super::ports::Ports;
use super::receiver::Receiver;
use super::sink::Share;
use super::transport::CameraTransport;
use crate::feedback::{Feedback, KeyframeRequest, Reporter};
use crate::on_demand::OnDemand;
use crate::{CameraSource, Transport, UdpPorts};

/// Size of the buffer that a camera's connection and datagrams are read into.
const READ_BYTES: usize = 64 << 10;

/// Camera of a session and what it publishes, with the ports that the session may take.
#[derive(Clone, Copy, Debug)]
pub(super) struct Assignment<'a> {
    pub(super) camera: &'a CameraSource,
    pub(super) share: &'a dyn Share,
    /// The UDP ports that cameras may take; `None` for any.
    pub(super) udp_ports: Option<UdpPorts>,
}

/// Connects to the camera and publishes what it sends until something fails, or nobody needs the stream
/// any more. `transport` then holds the connection, also if this is dropped. `live_since` is set to the
/// time of the first unit that was published.
pub(super) async fn pull(
    assignment: Assignment<'_>,
    transport: &mut Option<CameraTransport>,
    on_demand: &OnDemand<'_>,
    live_since: &mut Option<Instant>,
) -> SessionEnd {
    let camera = assignment.camera;
    let range = camera.udp_ports.or(assignment.udp_ports);
    let opening = CameraTransport::open(camera, Ports::new(range, camera.reach));
    let transport = match opening.await {
        Ok(opened) => transport.insert(opened),
        Err(failure) => return SessionEnd::Failed(failure),
    };
    let session = CameraSession {
        camera,
        share: assignment.share,
        transport,
        receiver: None,
        playing_since: None,
    };
    session.run(on_demand, live_since).await
}

/// A session whose camera is connected.
struct CameraSession<'a> {
    camera: &'a CameraSource,
    share: &'a dyn Share,
    transport: &'a mut CameraTransport,
    /// The tracks that are used; `None` before the camera has described them.
    receiver: Option<Receiver>,
    /// When the camera granted PLAY.
    playing_since: Option<Instant>,
}

impl CameraSession<'_> {
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
                    let failure = self.transport.connection.explained(failure);
                    return SessionEnd::Failed(self.transport.connection.located(failure));
                },
                () = &mut unneeded => {
                    match self.receiver.take() {
                        Some(receiver) => receiver.leave(),
                        None => self.share.set_state(State::Idle),
                    }
                    return SessionEnd::Unneeded;
                }
            }
        }
    }

    /// Sends what waits, waits for something to happen, and handles what happened.
    async fn turn(
        &mut self,
        buffer: &mut [u8],
        live_since: &mut Option<Instant>,
    ) -> Result<(), Failure> {
        self.transport.connection.send().await?;
        let deadline = self.deadline();
        let wake = async {
            match deadline {
                Some(at) => tokio::time::sleep_until(at.into()).await,
                None => std::future::pending().await,
            }
        };
        let CameraTransport {
            connection, ports, ..
        } = &mut *self.transport;
        tokio::select! {
            read = connection.read(buffer) => match read? {
                0 => connection.client.handle_end(),
                count => self.take_bytes(&buffer[..count]),
            },
            (datagram, end) = ports.receive() => {
                if let Some(receiver) = &mut self.receiver {
                    let bytes = &ports.buffer()[..end];
                    receiver.take(datagram.track, datagram.is_control, bytes, Instant::now());
                }
            }
            () = wake => {}
        }
        let now = Instant::now();
        self.transport.connection.client.handle_timeout(now);
        while let Some(event) = self.transport.connection.client.poll_event() {
            if let Event::Closed(Closed::Redirected { location }) = event {
                self.receiver = None;
                self.playing_since = None;
                return self.transport.follow(self.camera, &location).await;
            }
            self.on_event(event, now)?;
        }
        self.check(now, live_since)
    }

    fn take_bytes(&mut self, bytes: &[u8]) {
        let (client, receiver) = (&mut self.transport.connection.client, &mut self.receiver);
        let now = Instant::now();
        client.handle_data(now, bytes, |frame| {
            if let Some(receiver) = receiver {
                receiver.take(frame.track, frame.control, frame.payload, now);
            }
        });
    }

    fn on_event(&mut self, event: Event, now: Instant) -> Result<(), Failure> {
        let CameraTransport {
            connection,
            ports,
            goodbyes,
        } = &mut *self.transport;
        match event {
            Event::Described(description) => self.set_up(&description, now)?,
            Event::SetUp { track, transport } => ports.expect(track, connection.peer, &transport),
            Event::Playing { .. } => {
                self.playing_since = Some(now);
                if let Some(receiver) = &mut self.receiver {
                    receiver.start(now);
                    *goodbyes = receiver.goodbyes();
                }
            }
            Event::LeftOut { track, reason } => {
                tracing::info!(stream = %self.share.stream().name(), %reason, "track of the camera left out");
                if let Some(receiver) = &mut self.receiver {
                    receiver.leave_out(track, &reason)?;
                }
            }
            // A camera is played, not published to.
            Event::Recording => {}
            Event::Closed(reason) => return Err(connection.failure(reason)),
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
        let has_video = chosen
            .first()
            .is_some_and(|(_, it)| it.kind() == Kind::Video);
        if chosen.is_empty() || self.share.needs_video() && !has_video {
            let heard = chosen.iter().map(|(_, it)| it.codec.to_string());
            let offered = heard.chain(left_out).collect::<Vec<_>>().join(", ");
            return Err(Failure::NothingUsable { offered });
        }
        if !others.is_empty() {
            tracing::info!(stream = %self.share.stream().name(), skipped = others, "tracks of the camera left out");
        }
        let mut wanted = Vec::new();
        for (track, _) in &chosen {
            let transport = match self.camera.transport {
                Transport::Tcp => RequestedTransport::Interleaved,
                Transport::Udp => {
                    let formats = &description.tracks[*track].formats;
                    let types = formats.iter().map(|it| it.payload_type).collect();
                    let local = self.transport.connection.local;
                    let ports = self.transport.ports.bind(*track, local, types);
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
        let reporter = Reporter {
            ssrc: Ssrc(rand::random()),
            cname: format!("{:016x}", rand::random::<u64>()),
        };
        let offered = description.tracks[chosen[0].0].feedback;
        let feedback = Feedback::new(reporter, REPORTS, KeyframeRequest::offered(offered));
        let published = (self.share, note);
        let mut receiver = Receiver::new(chosen, by_datagrams, published, feedback, now)?;
        for (track, media) in TrackIndex::enumerate(&description.tracks) {
            receiver.expect_payload_types(track, media.payload_types());
        }
        self.receiver = Some(receiver);
        self.transport.connection.client.set_up(now, &wanted);
        Ok(())
    }

    /// Returns the next time at which something is due without anything having arrived.
    fn deadline(&self) -> Option<Instant> {
        let receiver = self.receiver.as_ref();
        let silent = receiver
            .filter(|_| self.playing_since.is_some())
            .map(|it| it.last_received + self.camera.timeout);
        let overdue = receiver.and_then(Receiver::deadline);
        [
            self.transport.connection.client.poll_timeout(),
            silent,
            overdue,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Publishes what waited for missing packets, and checks that packets and keyframes arrive.
    fn check(&mut self, now: Instant, live_since: &mut Option<Instant>) -> Result<(), Failure> {
        let Some(receiver) = &mut self.receiver else {
            return Ok(());
        };
        receiver.expire(now)?;
        if live_since.is_none()
            && let Some(since) = receiver.live_since()
        {
            tracing::info!(stream = %self.share.stream().name(), tracks = receiver.tracks(), "camera live");
            *live_since = Some(since);
        }
        let Some(since) = self.playing_since else {
            return Ok(());
        };
        for (track, packet) in receiver.poll_feedback(now, rand::random_range(0.5..1.5)) {
            self.transport.report(track, &packet);
        }
        let timeout = self.camera.timeout;
        if now.saturating_duration_since(receiver.last_received) >= timeout {
            let stranger = self.transport.ports.stranger();
            return Err(Failure::Silent { timeout, stranger });
        }
        if receiver.live_since().is_none() && now.saturating_duration_since(since) > KEYFRAME {
            return Err(match receiver.oversized() {
                0 => Failure::NoKeyframe {
                    lack: receiver.lack(),
                },
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
