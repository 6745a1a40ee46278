//! Makes a WebRTC peer out of an SDP offer. The peer then waits for its first datagram.
//!
//! ```text
//!  offer ─► admit ─► Session::accept ─► Peer with its role ─► Registry: waits for STUN
//!                         └► answer
//! ```

use std::sync::Arc;
use std::time::Instant;

use glassline_cluster_member::Directory;
use glassline_hub::{Hub, Stream, StreamLifetime, StreamName, TrackLayout};
use glassline_ingest::Voice;
use glassline_ingest::library::{Library, SharedReading};
use glassline_ingest::whip::Reservations;
use glassline_media::{Codec, Track};
use glassline_messages::{MessageLinks, Messages, Publication, Side};
use glassline_rooms::{self as rooms, Newcomer, RoomName, Rooms};
use glassline_runtime::{SessionId, await_tracks, may_come};
use glassline_transcoding::{BrowserTracks, Transcoders};
use glassline_webrtc::{
    AcceptConfig, AcceptError, DataConfig, Kinds, OpusOptions, Receiver, Redundancy, Secrets,
    Session,
};
use rand::RngCore;

use super::admission::Admitted;
use super::data_channels::DataChannelSetup;
use super::offer::{ConnectionAddresses, Offer, OfferError};
use super::peer::{Connecting, DataPublisher, Participant, Peer, Role, Viewer};
use super::record::{IceGeneration, SessionRecord};
use super::settings::{SessionDefaults, Settings};
use super::shard::Shared;
use crate::talk::Loudspeakers;

/// Makes sessions out of SDP offers, and changes sessions for their peers.
#[derive(Debug)]
pub(crate) struct Negotiator {
    pub(super) shared: Arc<Shared>,
    pub(super) hub: Arc<Hub>,
    /// The media folder, whose files become streams on request; `None` if no folder is configured.
    library: Option<Arc<Library>>,
    /// Streams of other servers; `None` for a server alone.
    directory: Option<Arc<Directory>>,
    /// Transcodes audio that browsers cannot play.
    pub(super) transcoders: Arc<Transcoders>,
    /// The cameras that somebody may talk to.
    pub(super) loudspeakers: Arc<Loudspeakers>,
    pub(super) settings: Settings,
    /// The streams that WHIP sessions publish.
    pub(super) reservations: Arc<Reservations>,
}

/// The answer to an offer, and the session that it made.
#[derive(Debug)]
pub(crate) struct AnsweredOffer {
    pub(crate) record: Arc<SessionRecord>,
    pub(crate) answer: String,
    /// The server's ICE user name fragment in the first ICE generation.
    pub(crate) ufrag: String,
}

/// The reason why a participant cannot join a room.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    /// The offer makes no session.
    #[error(transparent)]
    Offer(#[from] OfferError),
    /// The offer sends no Opus audio, which rooms require.
    #[error("a room takes Opus audio, the offer sends {offered}")]
    NotOpus {
        /// The media that the offer sends instead.
        offered: &'static str,
    },
    /// The server has as many participants or rooms as configured.
    #[error(transparent)]
    Full(#[from] rooms::Full),
    /// The hub refused to make a stream for the participant's voice; holds the reason.
    #[error("{0}")]
    NoStream(String),
}

/// A session that is negotiated and has no peer yet, with its answer.
pub(super) struct Negotiated {
    pub(super) session: Session,
    answer: String,
    ufrag: String,
    connecting: Connecting,
    pub(super) now: Instant,
}

impl Negotiator {
    /// Creates a negotiator for the streams of `hub` and the files of `library`. The shards of
    /// `shared` own its sessions.
    pub(crate) fn new(
        shared: Arc<Shared>,
        hub: Arc<Hub>,
        library: Option<Arc<Library>>,
        directory: Option<Arc<Directory>>,
        transcoders: Arc<Transcoders>,
        loudspeakers: Arc<Loudspeakers>,
        settings: Settings,
    ) -> Self {
        Self {
            shared,
            hub,
            library,
            directory,
            transcoders,
            loudspeakers,
            settings,
            reservations: Arc::new(Reservations::new(Instant::now())),
        }
    }

    /// Replaces the settings of sessions that begin from now on; others keep theirs.
    pub(crate) fn set_defaults(&self, defaults: SessionDefaults) {
        self.shared.messages.set_policy(defaults.data);
        self.settings.defaults.replace(defaults);
    }

    /// Returns the messages beside streams.
    pub(crate) fn messages(&self) -> &MessageLinks {
        &self.shared.messages
    }

    /// Returns the streams of other servers; `None` for a server alone.
    pub(crate) const fn directory(&self) -> Option<&Arc<Directory>> {
        self.directory.as_ref()
    }

    /// Returns the state that all shards share, which includes the registry of all sessions.
    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// Makes a viewer of the stream or file `name`. A file of the media folder starts to play for
    /// the viewer. Needs a tokio runtime.
    ///
    /// # Errors
    /// Returns the [`OfferError`] to answer with.
    pub(crate) async fn watch(
        &self,
        name: &str,
        offer: Offer<'_>,
    ) -> Result<AnsweredOffer, OfferError> {
        if let Some(stream) = self.hub.stream(name) {
            return self.watch_awaited(stream, offer).await;
        }
        let Some(live) = self.file(name).await? else {
            let pulled = self.directory.as_ref();
            if pulled.is_some() {
                // Other servers are not asked because of an offer that is refused in any case.
                offer.media()?;
            }
            let pulled = pulled.and_then(|it| it.begin(name, offer.client()));
            let Some(stream) = pulled else {
                return Err(OfferError::NoStream(name.to_owned()));
            };
            return self.watch_awaited(stream, offer).await;
        };
        let answered = self.watch_stream(Arc::clone(live.stream()), offer)?;
        answered.record.set_file(name);
        live.play();
        // A connected viewer keeps the file playing. Until the handshake is done, this task does.
        let handshake = self.settings.defaults.get().handshake;
        tokio::spawn(async move {
            tokio::time::sleep(handshake).await;
            drop(live);
        });
        Ok(answered)
    }

    /// Makes a viewer of `past`, the recordings of the stream `name`. The session has no messages.
    ///
    /// # Errors
    /// Returns the [`OfferError`] to answer with.
    pub(crate) fn watch_past(
        &self,
        name: &StreamName,
        past: &Arc<Stream>,
        offer: Offer<'_>,
    ) -> Result<AnsweredOffer, OfferError> {
        let (layout, tracks) = (past.layout(), past.tracks());
        let answered = self.answer(Arc::clone(past), layout, &tracks, offer, None)?;
        answered.record.set_file(name.as_str());
        Ok(answered)
    }

    /// Makes a viewer of `stream`, once it has tracks.
    async fn watch_awaited(
        &self,
        stream: Arc<Stream>,
        offer: Offer<'_>,
    ) -> Result<AnsweredOffer, OfferError> {
        // A session that asks for messages only needs no media.
        let _demand = match may_come(&stream) && offer.media()?.is_some() {
            true => Some(await_tracks(&stream).await),
            false => None,
        };
        let name = stream.name().as_str();
        if stream.tracks().is_empty() && self.hub.stream(name).is_none() {
            // No other server has it either.
            return Err(OfferError::NoStream(name.to_owned()));
        }
        self.watch_stream(stream, offer)
    }

    /// Returns the shared playback of the file `name`, or `None` if there is no such file.
    async fn file(&self, name: &str) -> Result<Option<SharedReading>, OfferError> {
        let Some(library) = &self.library else {
            return Ok(None);
        };
        match library.find(name).await {
            Ok(media_file) => Ok(media_file.map(|media_file| media_file.live())),
            Err(error) => Err(OfferError::BrokenFile {
                name: name.to_owned(),
                why: error.for_clients(),
            }),
        }
    }

    /// Makes a viewer of `stream`.
    fn watch_stream(
        &self,
        stream: Arc<Stream>,
        offer: Offer<'_>,
    ) -> Result<AnsweredOffer, OfferError> {
        let data = self.data_beside(&stream, Side::Viewers);
        let (layout, tracks) = (stream.layout(), stream.tracks());
        // A session that asks for messages only needs no media.
        if tracks.is_empty() && !(data.is_some() && offer.media()?.is_none()) {
            return Err(not_live(&stream));
        }
        self.answer(stream, layout, &tracks, offer, data)
    }

    /// Makes a viewer of `stream`, which must be live, whose data channels are connected as `data`
    /// says and not to the stream's own messages.
    ///
    /// # Errors
    /// Returns the [`OfferError`] to answer with.
    pub(crate) fn watch_with_data(
        &self,
        stream: Arc<Stream>,
        offer: Offer<'_>,
        data: DataChannelSetup,
    ) -> Result<AnsweredOffer, OfferError> {
        let (layout, tracks) = (stream.layout(), stream.tracks());
        if tracks.is_empty() {
            return Err(not_live(&stream));
        }
        self.answer(stream, layout, &tracks, offer, Some(data))
    }

    /// Makes a publisher of messages next to `stream`. The publisher sends no media.
    ///
    /// # Errors
    /// Returns the [`OfferError`] to answer with.
    pub(crate) fn publish_messages(
        &self,
        stream: Arc<Stream>,
        offer: Offer<'_>,
    ) -> Result<AnsweredOffer, OfferError> {
        let data = self.data_beside(&stream, Side::Publisher);
        let layout = stream.layout();
        self.answer(stream, layout, &[], offer, data)
    }

    /// Makes a participant called `name` of `room` out of the participant's offer to send its
    /// voice.
    ///
    /// # Errors
    /// Returns the [`JoinError`] to answer with.
    pub(crate) fn join_room(
        &self,
        rooms: &Arc<Rooms>,
        room: &RoomName,
        newcomer: Newcomer<'_>,
        offer: Offer<'_>,
    ) -> Result<AnsweredOffer, JoinError> {
        let accepted = self.accept(offer, &[], Kinds::AUDIO, None)?;
        let codec = accepted.session.receivers().first().map(Receiver::codec);
        if codec != Some(Codec::Opus) {
            let offered = codec.map_or("nothing", |it| it.encoding_name());
            return Err(JoinError::NotOpus { offered });
        }
        let session = self.draw_session_id();
        let stream = room.stream(&newcomer.id);
        let membership = rooms.enter(room, newcomer, session.clone())?;
        let stream = self.hub.admit(stream);
        let stream = stream.map_err(|error| JoinError::NoStream(error.to_string()))?;
        // A participant that joins again gets another id, even if it is the same person.
        stream.set_lifetime(StreamLifetime::Transient);
        let publisher = stream.publish(vec![Track::audio(Codec::Opus, 1)], Instant::now());
        let publisher = publisher.map_err(|error| JoinError::NoStream(error.to_string()))?;
        let voice = Voice::new(publisher, membership);
        let role = |_: &Session, _: &Stream| Role::Participant(Participant::new(voice));
        Ok(self.keep(accepted, session, stream, role, None))
    }

    /// Returns the connection to the messages next to `stream`; `None` where data channels are
    /// turned off.
    pub(super) fn data_beside(&self, stream: &Stream, side: Side) -> Option<DataChannelSetup> {
        let policy = self.settings.defaults.get().data?;
        Some(DataChannelSetup::beside(stream, side, &policy))
    }

    /// Answers an offer to receive `tracks`, which are those of `layout`, and connects its data
    /// channels if `data` is there.
    fn answer(
        &self,
        stream: Arc<Stream>,
        layout: TrackLayout,
        tracks: &[Track],
        offer: Offer<'_>,
        data: Option<DataChannelSetup>,
    ) -> Result<AnsweredOffer, OfferError> {
        let config = data.as_ref();
        let config = config.map(|it| Messages::config(it.may_send, &it.bounds));
        let request = offer.layer_request(&stream)?;
        let BrowserTracks {
            tracks,
            substitutes,
            on_request,
        } = self.for_browser(&stream, layout, tracks, offer)?;
        let accepted = self.accept(offer, &tracks, Kinds::NONE, config);
        let accepted = accepted.map_err(|error| error.with_transcoding(on_request))?;
        let data = data.filter(|_| accepted.session.channels().is_some());
        let id = self.draw_session_id();
        let (now, delivery) = (accepted.now, self.settings.defaults.get().delivery);
        let brokers = &self.shared.messages.brokers;
        let broker = data.as_ref().map(|it| brokers.of(&it.name));
        let publishes = data.as_ref().filter(|it| it.side == Side::Publisher);
        let publication = publishes.zip(broker.as_ref());
        let publication =
            publication.map(|(_, broker)| Publication::new(Arc::clone(broker), id.clone()));
        let messages = data.zip(broker).map(|(data, broker)| {
            Messages::new(
                id.clone(),
                data.side,
                data.may_send,
                broker,
                data.bounds,
                now,
            )
        });
        let demand = stream.demand();
        let role = |session: &Session, _: &Stream| match publication {
            Some(publication) => Role::DataPublisher(DataPublisher::new(publication)),
            None => {
                let viewer = Viewer::new(session, demand, layout, substitutes, delivery, now);
                Role::Viewer(viewer.requesting(request, now))
            }
        };
        Ok(self.keep(accepted, id, stream, role, messages))
    }

    /// Negotiates an offer. `tracks` may be sent to the peer, `receive` may be received, and `data`
    /// holds the limits of data channels, if they are allowed.
    pub(super) fn accept(
        &self,
        offer: Offer<'_>,
        tracks: &[Track],
        receive: Kinds,
        data: Option<DataConfig>,
    ) -> Result<Negotiated, OfferError> {
        let opus = OpusOptions {
            // The server receives voices only, which are mono.
            stereo: false,
            redundancy: Redundancy::IfOffered,
            ..OpusOptions::default()
        };
        self.negotiate(offer, opus, |config_of| {
            let config = AcceptConfig {
                tracks,
                receive,
                ..config_of(data)
            };
            Session::accept(config, offer.sdp, Instant::now())
        })
    }

    /// Admits the session of an offer and makes it with `accept`, which is given a function from
    /// the limits of data channels to the configuration of a session without media.
    pub(super) fn negotiate(
        &self,
        offer: Offer<'_>,
        opus: OpusOptions,
        accept: impl FnOnce(
            &dyn Fn(Option<DataConfig>) -> AcceptConfig<'static>,
        ) -> Result<(Session, String), AcceptError>,
    ) -> Result<Negotiated, OfferError> {
        if let Some(outage) = self.shared.outage() {
            return Err(OfferError::NoMedia(outage));
        }
        let ConnectionAddresses { peer, local } = offer.connection;
        let now = Instant::now();
        let Admitted { permit, evicted } = self.shared.registry.admit(peer.ip(), now)?;
        if let Some(evicted) = evicted {
            self.evict(&evicted);
        }
        let secrets = draw_secrets();
        let ufrag = secrets.ufrag.clone();
        let settings = &self.settings;
        let wall = settings.clock.wall();
        let defaults = settings.defaults.get();
        let config_of = |data| AcceptConfig {
            local: self.candidates(local.ip(), offer.is_firefoxs()),
            opus,
            data,
            ..AcceptConfig::new(Arc::clone(&settings.certificate), secrets.clone(), wall)
        };
        let (mut session, answer) = accept(&config_of)?;
        // If the configured time overflows the clock, the session's own deadline remains.
        if let Some(deadline) = now.checked_add(defaults.handshake) {
            session.set_handshake_deadline(deadline);
        }
        // A peer that sends no feedback is not paced: its frames are sent as they come.
        if let Some(plan) = defaults.pacing {
            session.plan_congestion_control(plan, now);
        }
        Ok(Negotiated {
            session,
            answer,
            ufrag,
            connecting: Connecting::new(permit, offer.connection),
            now,
        })
    }

    /// Stores a peer with the role that `role` makes as session `id`, to wait for its first
    /// datagram.
    pub(super) fn keep(
        &self,
        accepted: Negotiated,
        id: SessionId,
        stream: Arc<Stream>,
        role: impl FnOnce(&Session, &Stream) -> Role,
        messages: Option<Messages>,
    ) -> AnsweredOffer {
        let Negotiated {
            session,
            answer,
            ufrag,
            connecting,
            now,
        } = accepted;
        let theirs = session
            .remote_credentials()
            .map_or_else(String::new, |theirs| theirs.ufrag.clone());
        let ice = IceGeneration {
            ours: session.local_credentials().clone(),
            theirs,
        };
        connecting.assign(&id);
        let role = role(&session, &stream);
        let mut peer = Peer::new(id, stream, session, role, connecting, now);
        self.shared.follow(&mut peer);
        if let Some(messages) = messages {
            peer = peer.with_messages(messages);
        }
        let record = self.shared.registry.insert(Box::new(peer), ice, now);
        AnsweredOffer {
            record,
            answer,
            ufrag,
        }
    }

    /// Draws the identifier of a session, which in a cluster names this server.
    pub(super) fn draw_session_id(&self) -> SessionId {
        let mut bytes = [0; 16];
        rand::rng().fill_bytes(&mut bytes);
        let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        match self.directory.as_ref().and_then(|it| it.member()) {
            Some(member) => SessionId::at(member.node(), &text),
            None => SessionId::new(&text),
        }
    }
}

/// Draws all random values of one session or one ICE generation.
pub(super) fn draw_secrets() -> Secrets {
    let mut seed = [0; 32];
    rand::rng().fill_bytes(&mut seed);
    Secrets::expand(&seed)
}

fn not_live(stream: &Stream) -> OfferError {
    OfferError::NotLive {
        stream: stream.name().clone(),
        state: stream.state(),
        status: stream.status(Instant::now()),
    }
}
