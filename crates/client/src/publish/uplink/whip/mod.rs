//! WHIP (RFC 9725): publishes a stream over WebRTC, to any server that takes it.
//!
//! ```text
//! unit ─► PacketizedTracks ─► Outgoing ─ budget ─► SessionCarrier ─► socket
//!            transport-wide feedback, or receiver reports ─┘│ NACK: sent again
//! source ◄─ keyframe wanted ◄─ PLI, FIR ───────────────────┘
//! ```
//!
//! A server that takes no transport-wide feedback (TWCC) is sent to by its receiver reports.
//!
//! The session has a thread of its own, because NACKs are answered at once. A session that breaks is
//! given up: the publisher connects anew.

mod carrier;
mod publication;
mod transport;

use std::net::SocketAddr;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_media::{Bitrate, Codec, Track, TrackIndex, WallClock};
use glassline_net::{BindError, Options, UdpSocket};
use glassline_trust::Trust;
use glassline_webrtc::{
    Certificate, CloseReason, DialConfig, Secrets, SenderIndex, Session, SetAnswerError,
    SimulcastLayer,
};
use url::Url;

use super::futures::BoxFuture;
use super::packetized::{PacketizedTrack, PacketizedTracks};
use super::{Destination, Error, ROOM_BYTES, Settings, Uplink, UplinkFigures, layers};
use crate::publish::dispatch::Path;
use crate::publish::queue::SendAction;
use crate::publish::unit::Unit;
use crate::viewers::{bind_for, local_addresses_of_both_versions};
use crate::whep::{self, SessionAddress, SessionWatch};
use transport::Transport;

/// Time that ICE and DTLS may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Bytes that the socket holds in each direction: a large keyframe.
const SOCKET_BYTES: usize = 1 << 20;

static CERTIFICATE: LazyLock<Option<Arc<Certificate>>> =
    LazyLock::new(|| Certificate::generate().ok().map(Arc::new));

/// The endpoint of a WHIP server.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("Endpoint({self})")]
pub struct Endpoint {
    /// URL that offers are posted to.
    url: Url,
    /// Token that the header `Authorization: Bearer` carries; `None` sends no such header.
    token: Option<String>,
    trust: Trust,
}

impl Endpoint {
    /// Takes the token out of the query of `url` (`?token=…`): it is sent as bearer token.
    pub(super) fn new(mut url: Url, trust: Trust) -> Self {
        let pairs: Vec<(String, String)> = url.query_pairs().into_owned().collect();
        let (tokens, others): (Vec<_>, Vec<_>) =
            pairs.into_iter().partition(|(key, _)| key == "token");
        url.set_query(None);
        if !others.is_empty() {
            url.query_pairs_mut().extend_pairs(others);
        }
        url.set_fragment(None);
        Self {
            url,
            token: tokens.into_iter().next().map(|(_, token)| token),
            trust,
        }
    }

    /// Returns the same endpoint at another server of its cluster, with what the user wrote behind the
    /// URL of this one.
    fn at(&self, mut url: Url) -> Self {
        if let Some(query) = self.url.query() {
            let own = url.query().map(str::to_owned);
            let both = [own.as_deref(), Some(query)].into_iter().flatten();
            url.set_query(Some(&both.collect::<Vec<_>>().join("&")));
        }
        Self {
            url,
            ..self.clone()
        }
    }

    /// Returns whether WebRTC carries a track.
    pub(super) fn carries(track: &Track) -> bool {
        track.is_played_by_browsers()
    }
}

impl std::fmt::Display for Endpoint {
    /// Shows the URL without its query, which may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut url = self.url.clone();
        url.set_query(None);
        url.fmt(f)
    }
}

/// The reason why a WHIP session cannot be made, or has ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WhipError {
    /// The server cannot be reached, or refuses.
    #[error(transparent)]
    Signalling(#[from] whep::Error),
    /// The host has no address.
    #[error("the host cannot be resolved")]
    Unresolved,
    /// There is no way to the server, or no thread.
    #[error("no session can be started: {0}")]
    System(#[from] std::io::Error),
    /// There is no socket.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// No certificate can be made.
    #[error("the system gives no random numbers for a certificate")]
    NoCertificate,
    /// The answer is unusable.
    #[error("the answer is unusable: {0}")]
    Answer(#[from] SetAnswerError),
    /// A layer of the video has another codec than the best one.
    #[error(
        "the layer {layer} is {codec}, and by WHIP all layers of a video have one codec: publish by moq://"
    )]
    LayerCodec {
        /// Name of the layer.
        layer: String,
        /// Codec of the layer.
        codec: Codec,
    },
    /// The server takes none of the tracks.
    #[error("the server takes none of the tracks")]
    NothingTaken,
    /// Nothing arrives from the server any more, and it does not answer about the session.
    #[error("the server is lost: nothing arrived for 2 s, and the session is not found: {0}")]
    ServerLost(String),
    /// The session is over.
    #[error("the WebRTC session ended: {0}")]
    Closed(CloseReason),
}

impl WhipError {
    /// Whether trying again may help.
    pub(super) const fn is_transient(&self) -> bool {
        match self {
            Self::Signalling(error) => error.is_transient(),
            Self::Unresolved | Self::ServerLost(_) | Self::Closed(_) => true,
            _ => false,
        }
    }
}

/// A stream that is being published.
pub(super) struct Whip {
    endpoint: Endpoint,
    location: Option<Url>,
    /// Notices that the server is lost; `None` without a URL to ask for the session.
    watch: Option<SessionWatch>,
    /// URLs at other servers that take the same offer.
    alternates: Vec<Url>,
    transport: Arc<Transport>,
    tracks: PacketizedTracks,
}

/// Connects, and offers `tracks`. Returns when ICE and DTLS are done.
pub(super) async fn connect(
    endpoint: &Endpoint,
    tracks: &[Track],
    settings: &Settings,
) -> Result<Whip, WhipError> {
    let (dialled, offered) = (endpoint.clone(), tracks.to_vec());
    let zero = settings.zero;
    let offering = tokio::task::spawn_blocking(move || offer(&dialled, offered, zero));
    let offered = offering.await.map_err(std::io::Error::other)??;
    let Offered {
        session,
        socket,
        local,
        location,
        alternates,
    } = offered;
    let packetized = TrackIndex::enumerate(tracks).map(|(index, track)| {
        let mut senders = session.senders().iter().enumerate();
        let Some((place, it)) = senders.find(|(_, sender)| sender.track == index) else {
            tracing::warn!(
                codec = %track.codec,
                rows = track.video.height,
                "the WHIP server does not take this track"
            );
            return PacketizedTrack::left_out(track);
        };
        PacketizedTrack::new(track, place, it.timestamp_start, it.clock_rate)
    });
    let packetized = PacketizedTracks::new(packetized.collect());
    let transport = Transport::start(session, socket, local, settings)?;
    let mut whip = Whip {
        endpoint: endpoint.clone(),
        location,
        watch: None,
        alternates,
        transport,
        tracks: packetized,
    };
    whip.connected().await?;
    whip.watch = whip.location.clone().map(|location| {
        let asked = SessionAddress {
            location,
            token: endpoint.token.clone(),
            trust: endpoint.trust,
        };
        SessionWatch::start(asked, Instant::now())
    });
    Ok(whip)
}

/// A session whose offer was answered, with its socket.
struct Offered {
    session: Session,
    socket: UdpSocket,
    local: Vec<SocketAddr>,
    location: Option<Url>,
    alternates: Vec<Url>,
}

/// Posts an offer and takes the answer. Media time zero was at `zero`.
fn offer(endpoint: &Endpoint, tracks: Vec<Track>, zero: Instant) -> Result<Offered, WhipError> {
    let layers = simulcast(&tracks)?;
    let addresses = endpoint.url.socket_addrs(|| None).ok();
    let server = addresses.and_then(|all| all.into_iter().next());
    let server = server.ok_or(WhipError::Unresolved)?;
    let ips = local_addresses_of_both_versions(server)?;
    let options = Options {
        receive_buffer: Some(SOCKET_BYTES),
        send_buffer: Some(SOCKET_BYTES),
        ..Options::default()
    };
    let socket = bind_for(&ips, &options)?;
    let port = socket.local_addr().port();
    let local = ips.into_iter().map(|ip| SocketAddr::new(ip, port));
    let local: Vec<_> = local.collect();
    let now = Instant::now();
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let secrets = Secrets::expand(&rand::random());
    let wall = WallClock::new(now, unix.unwrap_or_default());
    let certificate = CERTIFICATE.clone().ok_or(WhipError::NoCertificate)?;
    let config = DialConfig {
        local: local.clone(),
        send: tracks,
        ..DialConfig::new(certificate, secrets, wall)
    };
    let (mut session, offer) = Session::dial_simulcast(config, &layers, now);
    let token = endpoint.token.as_deref();
    let answer = whep::post_offer(&endpoint.url, &offer, token, endpoint.trust)?;
    let taken = session.set_answer(&answer.sdp, Instant::now());
    let refused = match taken {
        Ok(()) if session.senders().is_empty() => Some(WhipError::NothingTaken),
        Ok(()) => None,
        Err(error) => Some(error.into()),
    };
    if let Some(error) = refused {
        if let Some(location) = &answer.location {
            // The server ends the session by itself, too, only later.
            let _ = whep::delete(location, token, endpoint.trust);
        }
        return Err(error);
    }
    session.set_handshake_deadline(Instant::now() + HANDSHAKE_MAX);
    for place in 0..session.senders().len() {
        let start = session.senders()[place].timestamp_start;
        session.anchor(SenderIndex(place), start, zero);
    }
    Ok(Offered {
        session,
        socket,
        local,
        location: answer.location,
        alternates: answer.alternates,
    })
}

/// Returns the layers of the video among `tracks`.
fn simulcast(tracks: &[Track]) -> Result<Vec<SimulcastLayer>, WhipError> {
    let layers = layers::named(tracks);
    let codecs = layers.iter().map(|it| tracks[it.track].codec);
    let top = codecs.clone().next();
    if let Some((layer, codec)) = layers.iter().zip(codecs).find(|(_, it)| Some(*it) != top) {
        return Err(WhipError::LayerCodec {
            layer: layer.name.clone(),
            codec,
        });
    }
    let layers = layers.into_iter().map(|it| SimulcastLayer {
        track: it.track,
        rid: it.name,
    });
    Ok(layers.collect())
}

impl Whip {
    /// Waits until media may be sent.
    async fn connected(&self) -> Result<(), WhipError> {
        loop {
            {
                let state = self.transport.lock();
                if let Some(reason) = state.ended {
                    return Err(WhipError::Closed(reason));
                }
                if state.session.is_connected() {
                    return Ok(());
                }
            }
            self.transport.changed.notified().await;
        }
    }

    /// Queues the packets of a unit.
    fn push(&mut self, unit: &Unit) -> Result<(), Error> {
        if let Some(packets) = self.tracks.packetize(unit)? {
            let (sender, timestamp) = (packets.sender, packets.timestamp);
            let mut state = self.transport.lock();
            state.outgoing.push(sender, timestamp, packets.unit);
            drop(state);
            self.transport.wake();
        }
        Ok(())
    }
}

impl Uplink for Whip {
    fn path(&mut self, _: Instant) -> Path {
        self.transport.lock().path()
    }

    fn figures(&self) -> UplinkFigures {
        let state = self.transport.lock();
        let report = state.session.path_report();
        let senders = state.session.senders().iter();
        let payload = senders.map(|it| it.counts().payload_bytes).sum();
        let sent_bytes = report.as_ref().map_or(payload, |it| it.sent_bytes);
        let lost_bytes = report.as_ref().map_or(0, |it| it.lost_bytes);
        let in_flight = report.as_ref().map_or(0, |it| it.in_flight);
        UplinkFigures {
            sent_bytes,
            delivered_bytes: sent_bytes.saturating_sub(lost_bytes + in_flight),
            lost_bytes,
            transport_rtt: report.and_then(|it| it.round_trip).or(state.round_trip),
            app_rtt: None,
            is_wanted: state.session.is_connected(),
            feedback: Some(state.feedback()),
        }
    }

    fn room(&mut self) -> u64 {
        ROOM_BYTES.saturating_sub(self.transport.lock().outgoing.waiting_bytes())
    }

    fn execute(&mut self, action: SendAction) -> Result<(), Error> {
        match action {
            SendAction::Send { unit, .. } => self.push(&unit),
            // RTP has no groups: what was given to the session is sent.
            SendAction::Reset { .. } => Ok(()),
        }
    }

    fn tell_bitrate(&mut self, _: Bitrate) {}

    fn take_keyframe_request(&mut self) -> bool {
        std::mem::take(&mut self.transport.lock().keyframe_wanted)
    }

    fn ended(&mut self) -> Option<Error> {
        let state = self.transport.lock();
        let (ended, heard) = (state.ended, state.heard);
        drop(state);
        if let Some(reason) = ended {
            return Some(WhipError::Closed(reason).into());
        }
        let lost = self.watch.as_mut()?.look(Instant::now(), heard?);
        lost.map(|why| WhipError::ServerLost(why).into())
    }

    fn alternates(&self) -> Vec<Destination> {
        let later = self.watch.as_ref().map(SessionWatch::alternates);
        let later = later.filter(|urls| !urls.is_empty());
        let urls = later.unwrap_or(&self.alternates).iter().cloned();
        let endpoints = urls.map(|url| self.endpoint.at(url));
        endpoints.map(Destination::Whip).collect()
    }

    fn finish(self: Box<Self>) -> BoxFuture<()> {
        Box::pin(async move {
            let (endpoint, location) = (self.endpoint.clone(), self.location.clone());
            // Dropped, it says goodbye by DTLS. By then the last packets are sent.
            let sent = async {
                while self.transport.lock().outgoing.waiting_bytes() > 0 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            };
            let _ = tokio::time::timeout(Duration::from_secs(1), sent).await;
            if let Some(location) = location {
                let deleting = tokio::task::spawn_blocking(move || {
                    let token = endpoint.token.as_deref();
                    if let Err(error) = whep::delete(&location, token, endpoint.trust) {
                        tracing::debug!(%error, "the WHIP session was not deleted; the server notices its end");
                    }
                });
                let _ = deleting.await;
            }
        })
    }
}

impl Drop for Whip {
    fn drop(&mut self) {
        self.transport.finish();
    }
}

#[cfg(test)]
mod tests;
