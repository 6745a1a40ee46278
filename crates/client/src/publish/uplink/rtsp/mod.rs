//! RTSP (RFC 2326, RECORD): publishes a stream within the RTSP connection or by UDP, to any server
//! that takes it.
//!
//! ```text
//! unit ─► PacketizedTracks ─► Recording ─► connection, or UDP ports
//!                                ▲
//! source ◄─ keyframe wanted ◄─ RTCP: receiver reports, PLI, FIR
//! ```
//!
//! The session has a thread of its own. A session that breaks is given up: the publisher connects
//! anew.

mod recording;
mod stream_flow;
mod track;
mod transport;

use std::io;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_media::{Bitrate, Codec, Track, TrackIndex, WallClock};
use glassline_rtsp::client::{Closed, Config, RequestedTransport};
use glassline_trust::Trust;
use url::Url;

use super::futures::BoxFuture;
use super::packetized::{PacketizedTrack, PacketizedTracks};
use super::{Error, Feedback, ROOM_BYTES, Settings, Uplink, UplinkFigures};
use crate::publish::dispatch::Path;
use crate::publish::queue::SendAction;
use crate::viewers::{Ports, RtspConnection, RtspTransport, connect_rtsp};
use recording::{Plan, Recording};
use track::Start;
use transport::Transport;

/// Bytes that a UDP socket holds in each direction: a large keyframe.
const SOCKET_BYTES: usize = 1 << 20;

/// Bytes that the kernel keeps unsent in the connection. Congestion control keeps less there; the
/// limit is for controllers whose window grows without loss.
const UNSENT_BYTES: u32 = 32 << 10;

/// A stream's URL at an RTSP server.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    url: Url,
    is_udp: bool,
    trust: Trust,
}

impl Endpoint {
    pub(super) const fn new(url: Url, trust: Trust) -> Self {
        Self {
            url,
            is_udp: false,
            trust,
        }
    }

    /// Returns the same endpoint with media by UDP; `None` for one within TLS, where media goes
    /// through the connection.
    pub(super) fn over_udp(mut self) -> Option<Self> {
        self.is_udp = true;
        (self.url.scheme() == "rtsp").then_some(self)
    }

    /// Returns whether RTP carries a track.
    pub(super) fn carries(track: &Track) -> bool {
        track.codec != Codec::T140
    }
}

impl std::fmt::Display for Endpoint {
    /// Shows the URL without user, password and query, which may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut url = self.url.clone();
        // These fail for URLs that cannot have a user, and which therefore have none.
        let _ = url.set_username("");
        let _ = url.set_password(None);
        url.set_query(None);
        url.fmt(f)
    }
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let by = if self.is_udp { "UDP" } else { "TCP" };
        write!(f, "Endpoint({self} by {by})")
    }
}

/// The reason why an RTSP session cannot be made, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RtspError {
    /// The server cannot be reached.
    #[error("{0}")]
    Connect(String),
    /// The session has ended, or the server refuses a request.
    #[error("{0}{advice}", advice = advice(.0))]
    Closed(Closed),
    /// There is no pair of UDP ports.
    #[error("cannot bind a pair of UDP ports: {0}")]
    Ports(io::Error),
    /// The server set up UDP without ports of its own.
    #[error("the server names no UDP ports for track {0}: publish by TCP, without --transport udp")]
    NoServerPorts(TrackIndex),
    /// The connection breaks.
    #[error("the connection broke: {0}")]
    Broken(io::Error),
    /// The server acknowledges nothing any more.
    #[error("the server has acknowledged nothing for 15 s")]
    Stalled,
    /// The system gives no thread, or the socket cannot be waited for.
    #[error("no session can be run: {0}")]
    System(io::Error),
}

/// The advice about a refusal to a user.
fn advice(reason: &Closed) -> &'static str {
    match reason {
        Closed::CredentialsMissing | Closed::CredentialsRefused { .. } => {
            "; or give the publish token (?token=… behind the URL, or --token)"
        }
        Closed::Refused { status, .. } => match status.0 {
            401 | 403 => {
                "; give the publish token (?token=… behind the URL, or --token), or a user \
                 (rtsp://NAME:PASSWORD@…)"
            }
            405 | 501 => "; the server takes no published streams",
            409 => "; another publisher has the stream",
            415 => "; the server takes none of the codecs",
            _ => "",
        },
        _ => "",
    }
}

impl RtspError {
    /// Whether trying again may help.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Broken(_) | Self::Stalled => true,
            Self::Closed(reason) => match reason {
                Closed::ByServer
                | Closed::ConnectionEnded { .. }
                | Closed::NoResponse { .. }
                | Closed::SessionLost => true,
                // The stream may still be that of the connection that broke.
                Closed::Refused { status, .. } => status.0 == 409 || status.0 >= 500,
                _ => false,
            },
            Self::Ports(_) | Self::NoServerPorts(_) | Self::System(_) => false,
        }
    }
}

/// A stream that is being published.
pub(super) struct Rtsp {
    transport: std::sync::Arc<Transport>,
    tracks: PacketizedTracks,
    feedback: Feedback,
}

/// Connects, and announces `tracks`. Returns when the server has granted RECORD.
pub(super) async fn connect(
    endpoint: &Endpoint,
    tracks: &[Track],
    settings: &Settings,
) -> Result<Rtsp, RtspError> {
    let dialled = endpoint.clone();
    let dialling = tokio::task::spawn_blocking(move || {
        let Endpoint { url, trust, .. } = dialled;
        connect_rtsp(&url, RtspTransport::Tcp, None, trust)
    });
    let connection = dialling.await.map_err(|it| RtspError::System(it.into()))?;
    let connection = connection.map_err(RtspError::Connect)?;
    // An option that the system lacks only lets more wait.
    let _ = glassline_net::set_unsent_limit(connection.stream.socket(), UNSENT_BYTES);
    let opened = open(endpoint, tracks, settings, connection)?;
    let rtsp = Rtsp {
        transport: opened.transport,
        tracks: opened.tracks,
        feedback: match endpoint.is_udp {
            true => Feedback::ReceiverReports,
            false => Feedback::Stream,
        },
    };
    rtsp.connected().await?;
    Ok(rtsp)
}

struct Opened {
    transport: std::sync::Arc<Transport>,
    tracks: PacketizedTracks,
}

/// Starts the thread of a session, which sends the first request.
fn open(
    endpoint: &Endpoint,
    tracks: &[Track],
    settings: &Settings,
    connection: RtspConnection,
) -> Result<Opened, RtspError> {
    let options = glassline_net::Options {
        receive_buffer: Some(SOCKET_BYTES),
        send_buffer: Some(SOCKET_BYTES),
        ..glassline_net::Options::default()
    };
    let (local, server) = (connection.local.ip(), connection.server.ip());
    let (mut ports, mut transports) = (Vec::new(), Vec::new());
    for _ in tracks {
        transports.push(if endpoint.is_udp {
            let pair = Ports::bind(local, server, &options).map_err(RtspError::Ports)?;
            let numbers = pair.numbers();
            ports.push(pair);
            RequestedTransport::Udp { ports: numbers }
        } else {
            RequestedTransport::Interleaved
        });
    }
    let starts: Vec<Start> = tracks
        .iter()
        .map(|_| Start {
            ssrc: rand::random(),
            sequence: rand::random(),
            timestamp: rand::random(),
        })
        .collect();
    let packetized = TrackIndex::enumerate(tracks)
        .zip(&starts)
        .map(|((index, track), start)| {
            PacketizedTrack::new(track, index.get(), start.timestamp, track.clock_rate)
        });
    let packetized = PacketizedTracks::new(packetized.collect());
    let now = Instant::now();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix = unix.unwrap_or_default();
    let mut client = Config::new(endpoint.url.clone(), rand::random());
    concat!("glassline/", env!("CARGO_PKG_VERSION")).clone_into(&mut client.user_agent);
    let plan = Plan {
        client,
        presentation: Recording::describe(tracks, local, unix.as_secs()),
        transports,
        tracks,
        starts,
        algorithm: settings.algorithm,
        start: settings.bitrate_start,
        wall: WallClock::new(now, unix),
        zero: settings.zero,
        name: format!("{:016x}", rand::random::<u64>()),
    };
    let recording = Recording::start(plan, now);
    let transport = Transport::start(recording, connection.stream, server, ports);
    Ok(Opened {
        transport: transport.map_err(RtspError::System)?,
        tracks: packetized,
    })
}

impl Rtsp {
    /// Waits until the server takes media.
    async fn connected(&self) -> Result<(), RtspError> {
        loop {
            {
                let mut recording = self.transport.lock();
                if let Some(reason) = recording.ended.take() {
                    return Err(reason);
                }
                if recording.is_on() {
                    return Ok(());
                }
            }
            self.transport.changed.notified().await;
        }
    }
}

impl Uplink for Rtsp {
    fn path(&mut self, _: Instant) -> Path {
        self.transport.lock().path()
    }

    fn figures(&self) -> UplinkFigures {
        let recording = self.transport.lock();
        let totals = recording.totals();
        UplinkFigures {
            sent_bytes: totals.sent,
            delivered_bytes: totals.sent.saturating_sub(totals.lost + totals.in_flight),
            lost_bytes: totals.lost,
            transport_rtt: totals.round_trip,
            app_rtt: None,
            is_wanted: recording.is_on(),
            feedback: Some(self.feedback),
        }
    }

    fn room(&mut self) -> u64 {
        ROOM_BYTES.saturating_sub(self.transport.lock().outgoing.waiting_bytes())
    }

    fn execute(&mut self, action: SendAction) -> Result<(), Error> {
        let SendAction::Send { unit, .. } = action else {
            // RTP has no groups: what was given to the session is sent.
            return Ok(());
        };
        if let Some(packets) = self.tracks.packetize(&unit)? {
            let (sender, timestamp) = (packets.sender, packets.timestamp);
            let mut recording = self.transport.lock();
            recording.outgoing.push(sender, timestamp, packets.unit);
            drop(recording);
            self.transport.wake();
        }
        Ok(())
    }

    fn tell_bitrate(&mut self, _: Bitrate) {}

    fn take_keyframe_request(&mut self) -> bool {
        std::mem::take(&mut self.transport.lock().keyframe_wanted)
    }

    fn ended(&mut self) -> Option<Error> {
        self.transport.lock().ended.take().map(Error::Rtsp)
    }

    fn finish(self: Box<Self>) -> BoxFuture<()> {
        Box::pin(async move {
            let sent = async {
                while !self.transport.lock().is_idle() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(1), sent).await;
            self.transport.finish();
            // The thread sends TEARDOWN, and waits a second at most for the response.
            let ended = async {
                while !self.transport.is_over() {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(2), ended).await;
        })
    }
}

impl Drop for Rtsp {
    fn drop(&mut self) {
        self.transport.finish();
    }
}

#[cfg(test)]
mod tests;
