//! From an offer to an answer, and to a peer that is waited for.
//!
//! ```text
//!  offer ─► admit ─► Session::accept ─► Peer with its role ─► Registry: waits for STUN
//!                         └► answer
//! ```

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_hub::{Hub, Stream, StreamLifetime};
use glassline_media::{Codec, Track, WallClock};
use glassline_webrtc::{
    AcceptConfig, Certificate, DataConfig, Kinds, OpusOptions, Receiver, Redundancy, Secrets,
    Session,
};
use rand::RngCore;

use super::admission::Permit;
use super::data_channels::{DataChannelSetup, DataPolicy};
use super::offer::{ConnectionAddresses, Offer, OfferError};
use super::peer::{DataPublisher, Participant, Peer, Role, Viewer};
use super::record::{IceGeneration, SessionRecord};
use super::shard::Shared;
use crate::ingest::Voice;
use crate::ingest::library::{Library, Live};
use crate::messages::{Messages, Publication, Side};
use crate::rooms::{self, ParticipantId, RoomName, Rooms};
use crate::runtime::SessionId;

/// How offers are answered.
#[derive(Debug)]
pub(crate) struct Settings {
    /// The process's certificate.
    pub(crate) certificate: Arc<Certificate>,
    /// Where the shards listen.
    pub(crate) media: SocketAddr,
    /// For the NTP times of sender reports.
    pub(crate) wall: WallClock,
    /// Time that a peer has from its offer to media.
    pub(crate) handshake: Duration,
    /// What paces viewers; `None` sends frames as they come.
    pub(crate) pacing: Option<Algorithm>,
    /// How long a viewer's frames may wait here, if that is configured.
    pub(crate) lag: Option<Duration>,
    /// Data channels beside streams; `None` where they are off.
    pub(crate) data: Option<DataPolicy>,
}

/// Makes sessions out of offers, and changes them for their peers.
#[derive(Debug)]
pub(crate) struct Negotiator {
    pub(super) shared: Arc<Shared>,
    hub: Arc<Hub>,
    /// Files that are streams when they are asked for.
    library: Option<Arc<Library>>,
    settings: Settings,
}

/// An offer that was answered.
#[derive(Debug)]
pub(crate) struct Answered {
    pub(crate) record: Arc<SessionRecord>,
    pub(crate) answer: String,
    /// The user name fragment of its first ICE generation.
    pub(crate) ufrag: String,
}

/// Why somebody cannot join a room.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    /// The offer makes no session.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The offer would rather send another coding, or nothing.
    #[error("a room's voices are Opus, not {offered}")]
    NotOpus {
        /// What the offer would send.
        offered: &'static str,
    },
    /// As many participants or rooms as there may be.
    #[error(transparent)]
    Full(#[from] rooms::Full),
    /// There is no stream for the voice.
    #[error("{0}")]
    NoStream(String),
}

/// An offer that was answered, and is nobody's yet.
struct Accepted {
    session: Session,
    answer: String,
    ufrag: String,
    permit: Permit,
    now: Instant,
}

impl Negotiator {
    /// A negotiator of sessions that the shards of `shared` own, for the streams of `hub`
    /// and the files of `library`.
    pub(crate) const fn new(
        shared: Arc<Shared>,
        hub: Arc<Hub>,
        library: Option<Arc<Library>>,
        settings: Settings,
    ) -> Self {
        Self {
            shared,
            hub,
            library,
            settings,
        }
    }

    /// What the shards share, and the registry of all sessions.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Makes a viewer of the stream or file called `name` out of its offer. A file of the
    /// media folder begins to play for it. Needs a tokio runtime.
    pub(crate) async fn watch(&self, name: &str, offer: Offer<'_>) -> Result<Answered, OfferError> {
        if let Some(stream) = self.hub.stream(name) {
            return self.watch_stream(stream, offer);
        }
        let Some(live) = self.file(name).await? else {
            return Err(OfferError::NoStream(name.to_owned()));
        };
        let answered = self.watch_stream(Arc::clone(live.stream()), offer)?;
        live.play();
        // Connected, the viewer itself keeps the file going; until then this does.
        let handshake = self.settings.handshake;
        tokio::spawn(async move {
            tokio::time::sleep(handshake).await;
            drop(live);
        });
        Ok(answered)
    }

    /// The shared reading of a file.
    async fn file(&self, name: &str) -> Result<Option<Live>, OfferError> {
        let Some(library) = &self.library else {
            return Ok(None);
        };
        match library.find(name).await {
            Ok(title) => Ok(title.map(|title| title.live())),
            // Why stands in the log: the reason names paths of this machine.
            Err(_) => Err(OfferError::BrokenFile(name.to_owned())),
        }
    }

    /// Makes a viewer of `stream` out of its offer.
    fn watch_stream(&self, stream: Arc<Stream>, offer: Offer<'_>) -> Result<Answered, OfferError> {
        let data = self.data_beside(&stream, Side::Viewers);
        let tracks = stream.tracks();
        // Whoever wants nothing but messages needs no media.
        if tracks.is_empty() && !(data.is_some() && offer.media()?.is_none()) {
            return Err(not_live(&stream));
        }
        self.answer(stream, &tracks, offer, data)
    }

    /// Makes a viewer of `stream`, which must be live, out of its offer; its data channels
    /// are not the stream's.
    pub(crate) fn watch_with_data(
        &self,
        stream: Arc<Stream>,
        offer: Offer<'_>,
        data: DataChannelSetup,
    ) -> Result<Answered, OfferError> {
        let tracks = stream.tracks();
        if tracks.is_empty() {
            return Err(not_live(&stream));
        }
        self.answer(stream, &tracks, offer, Some(data))
    }

    /// Makes a publisher of messages beside `stream` out of its offer.
    pub(crate) fn publish_messages(
        &self,
        stream: Arc<Stream>,
        offer: Offer<'_>,
    ) -> Result<Answered, OfferError> {
        let data = self.data_beside(&stream, Side::Publisher);
        self.answer(stream, &[], offer, data)
    }

    /// Makes a participant of `room`, who is called `name`, out of its offer to speak.
    pub(crate) fn join_room(
        &self,
        rooms: &Arc<Rooms>,
        room: &RoomName,
        (id, name): (ParticipantId, &str),
        offer: Offer<'_>,
    ) -> Result<Answered, JoinError> {
        let accepted = self.accept(offer, &[], Kinds::AUDIO, None)?;
        let codec = accepted.session.receivers().first().map(Receiver::codec);
        if codec != Some(Codec::Opus) {
            let offered = codec.map_or("nothing", |it| it.encoding_name());
            return Err(JoinError::NotOpus { offered });
        }
        let session = draw_session_id();
        let stream = room.stream(&id);
        let seat = rooms.enter(room, id, name, session.clone())?;
        let stream = self.hub.admit(stream);
        let stream = stream.map_err(|error| JoinError::NoStream(error.to_string()))?;
        // The next one has another id, also if it is the same person.
        stream.set_lifetime(StreamLifetime::Transient);
        let publisher = stream.publish(vec![Track::audio(Codec::Opus, 1)], Instant::now());
        let publisher = publisher.map_err(|error| JoinError::NoStream(error.to_string()))?;
        let voice = Voice::new(publisher, seat);
        let role = |_: &Session, _: &Stream| Role::Participant(Participant::new(voice));
        Ok(self.keep(accepted, session, stream, role, None))
    }

    /// What data channels beside `stream` lead to; `None` where they are off.
    fn data_beside(&self, stream: &Stream, side: Side) -> Option<DataChannelSetup> {
        let policy = self.settings.data.as_ref()?;
        Some(DataChannelSetup::beside(stream, side, policy))
    }

    /// Answers an offer to be sent `tracks` and, if there is somebody to broker messages
    /// with, to do that.
    fn answer(
        &self,
        stream: Arc<Stream>,
        tracks: &[Track],
        offer: Offer<'_>,
        data: Option<DataChannelSetup>,
    ) -> Result<Answered, OfferError> {
        let config = data.as_ref();
        let config = config.map(|it| Messages::config(it.speaks, &it.bounds));
        let accepted = self.accept(offer, tracks, Kinds::NONE, config)?;
        let data = data.filter(|_| accepted.session.channels().is_some());
        let id = draw_session_id();
        let (now, lag) = (accepted.now, self.settings.lag);
        let broker = data.as_ref().map(|it| self.shared.brokers.of(&it.name));
        let publication = data
            .as_ref()
            .filter(|it| it.side == Side::Publisher)
            .zip(broker.as_ref())
            .map(|(_, broker)| Publication::new(Arc::clone(broker), id.clone()));
        let messages = data.zip(broker).map(|(data, broker)| {
            Messages::new(id.clone(), data.side, data.speaks, broker, data.bounds, now)
        });
        let role = |session: &Session, stream: &Stream| match publication {
            Some(publication) => Role::DataPublisher(DataPublisher::new(publication)),
            None => Role::Viewer(Viewer::new(session, stream, lag, now)),
        };
        Ok(self.keep(accepted, id, stream, role, messages))
    }

    /// Answers an offer: `tracks` are what may be sent, `receive` what is taken, `data`
    /// how data channels are, if there may be any.
    fn accept(
        &self,
        offer: Offer<'_>,
        tracks: &[Track],
        receive: Kinds,
        data: Option<DataConfig>,
    ) -> Result<Accepted, OfferError> {
        let ConnectionAddresses { peer, local } = offer.connection;
        let permit = self.shared.registry.admit(peer.ip())?;
        let secrets = draw_secrets();
        let ufrag = secrets.ufrag.clone();
        let now = Instant::now();
        let settings = &self.settings;
        let config = AcceptConfig {
            certificate: Arc::clone(&settings.certificate),
            local: self.candidates(local.ip()),
            secrets,
            wall: settings.wall,
            tracks,
            receive,
            opus: OpusOptions {
                // What is received is a voice.
                stereo: false,
                redundancy: Redundancy::IfPreferred,
                ..OpusOptions::default()
            },
            data,
        };
        let (mut session, answer) = Session::accept(config, offer.sdp, now)?;
        // An absurd number of seconds leaves the session's own bound.
        if let Some(deadline) = now.checked_add(settings.handshake) {
            session.set_handshake_deadline(deadline);
        }
        if let Some(algorithm) = settings.pacing {
            // A peer that sends no feedback is sent frames as they come.
            session.steer(algorithm, now);
        }
        Ok(Accepted {
            session,
            answer,
            ufrag,
            permit,
            now,
        })
    }

    /// Lets a peer in the role that `role` makes wait for its first datagram, as session
    /// `id`.
    fn keep(
        &self,
        accepted: Accepted,
        id: SessionId,
        stream: Arc<Stream>,
        role: impl FnOnce(&Session, &Stream) -> Role,
        messages: Option<Messages>,
    ) -> Answered {
        let Accepted {
            session,
            answer,
            ufrag,
            permit,
            now,
        } = accepted;
        let theirs = session
            .remote_credentials()
            .map_or_else(String::new, |theirs| theirs.ufrag.clone());
        let ice = IceGeneration {
            ours: ufrag.clone(),
            theirs,
        };
        let role = role(&session, &stream);
        let mut peer = Peer::new(id, stream, session, role, permit, now);
        if let Some(messages) = messages {
            peer = peer.with_messages(messages);
        }
        let record = self.shared.registry.insert(Box::new(peer), ice, now);
        Answered {
            record,
            answer,
            ufrag,
        }
    }

    /// Our addresses for media: configured ones, the one listened on, or the one
    /// that the peer just reached.
    pub(super) fn candidates(&self, reached: IpAddr) -> Vec<SocketAddr> {
        let media = self.settings.media;
        let advertised = &self.shared.advertise;
        if !advertised.is_empty() {
            return advertised
                .iter()
                .map(|ip| SocketAddr::new(*ip, media.port()))
                .collect();
        }
        let ip = if media.ip().is_unspecified() {
            reached.to_canonical()
        } else {
            media.ip()
        };
        vec![SocketAddr::new(ip, media.port())]
    }
}

/// Everything random of one session or one ICE generation.
pub(super) fn draw_secrets() -> Secrets {
    let mut seed = [0; 32];
    rand::rng().fill_bytes(&mut seed);
    Secrets::expand(&seed)
}

fn draw_session_id() -> SessionId {
    let mut bytes = [0; 16];
    rand::rng().fill_bytes(&mut bytes);
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    SessionId::new(&text)
}

fn not_live(stream: &Stream) -> OfferError {
    OfferError::NotLive {
        stream: stream.name().clone(),
        state: stream.state(),
    }
}
