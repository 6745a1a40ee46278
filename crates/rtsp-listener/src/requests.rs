//! Handles the requests of clients.
//!
//! A request changes its client's session and returns an [`Effect`] with what the thread has to do.

use std::sync::Arc;
use std::time::Duration;

use glassline_egress::rtsp::TrackTransport;
use glassline_hub::Stream;
use glassline_media::TrackIndex;
use glassline_rtsp::mikey::Cipher;
use glassline_rtsp::sdp::Description;
use glassline_rtsp::server::{
    Access, Answer, ClientCredentials, Event, Refusal, RequestId, SrtpPolicy,
};
use glassline_runtime::may_come;

use super::access::{self, Decision, Right};
use super::client::Role;
use super::client_scope::ClientScope;
use super::command::{ClaimOutcome, Found, LookupResult};
use super::effect::Effect;
use super::file_playback::PlayRequest;
use super::look_back::{LookBack, NamedInstant};
use super::media_folder;
use super::past;
use super::pending_request::{Credentials, PendingRequest, TrackRequest};
use super::publish_session::{ClaimedName, PublishSession, announced_name};
use super::recorded::Recorded;
use super::redirect::{self, Placing};
use super::setup::{self, Described};
use super::shared::Shared;
use super::wished_layer::WishedLayer;

/// Time after which a client should ask again for a stream that is not there yet.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Answers requests with the state that all threads share.
#[derive(Debug)]
pub(super) struct Requests {
    shared: Arc<Shared>,
}

impl Requests {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Handles an event of a client's connection. If it returns `None`, the answer comes later, or
    /// there is none.
    pub(super) fn handle(&self, event: Event, scope: &mut ClientScope<'_>) -> Option<Effect> {
        match event {
            Event::Authorize {
                id,
                access,
                path,
                query,
                credentials,
            } => Some(self.authorize(scope, id, access, path, query.as_deref(), credentials)),
            Event::Describe {
                id,
                path,
                query,
                of_past,
            } => {
                let cipher = self.cipher_for(scope, query.as_deref());
                let layer = WishedLayer::of(query.as_deref());
                if let Some(at) = NamedInstant::of(query.as_deref(), of_past) {
                    let request = PendingRequest::Describe { cipher, layer };
                    return Some(Effect::LookBack(id, LookBack { path, at, request }));
                }
                let placing = Placing::new(&self.shared, scope, &path, query.as_deref(), cipher);
                Some(match placing {
                    Some(placing) => Effect::ChooseServer(id, Box::new(placing)),
                    None => {
                        self.describe(scope, id, path, PendingRequest::Describe { cipher, layer })
                    }
                })
            }
            Event::SetUp {
                id,
                path,
                query,
                track,
                transport,
                access,
                of_past,
                srtp,
            } => {
                let request = TrackRequest {
                    track,
                    layer: WishedLayer::of(query.as_deref()),
                    transport,
                    srtp,
                };
                let at = NamedInstant::of(query.as_deref(), of_past);
                Some(match (access, at) {
                    (Access::Publish, _) => {
                        Effect::Answer(id, setup::set_up_recording(scope, &request))
                    }
                    (_, Some(at)) => past::set_up(&self.shared, scope, id, path, at, request),
                    (_, None) => self.set_up(scope, id, path, request),
                })
            }
            Event::Play {
                id,
                range,
                scale,
                speed,
                replay,
            } => {
                let request = PlayRequest {
                    range,
                    scale,
                    speed,
                    replay,
                };
                self.play(scope, id, &request)
            }
            Event::Pause { id } => Some(Effect::Answer(id, pause(scope))),
            Event::Announce {
                id,
                path,
                description,
                ..
            } => Some(self.announce(scope, id, &path, description)),
            Event::Record { id } => Some(Effect::Answer(id, record(scope))),
            Event::TearDown { track } => tear_down(scope, track),
            Event::TunnelGet { cookie } => Some(Effect::OpenTunnel { cookie }),
            Event::TunnelPost { cookie, rest } => Some(Effect::JoinTunnel { cookie, rest }),
            Event::Closed(reason) => Some(Effect::Close(reason)),
        }
    }

    /// Answers a request for what was looked up on a disk.
    pub(super) fn answer_found(
        &self,
        scope: &mut ClientScope<'_>,
        LookupResult { request, found, .. }: LookupResult,
    ) -> Answer {
        match found {
            Ok(Found::File(file)) => media_folder::answer_found(&self.shared, scope, file, request),
            Ok(Found::Past(found)) => past::answer_found(&self.shared, scope, *found, &request),
            Err(answer) => answer,
        }
    }

    /// Checks the client's right to a stream.
    fn authorize(
        &self,
        scope: &ClientScope<'_>,
        id: RequestId,
        access: Access,
        path: String,
        query: Option<&str>,
        credentials: Option<ClientCredentials>,
    ) -> Effect {
        let (users, by) = (&self.shared.users, scope.client.requester());
        let mut login = access::login_of(by, query, credentials.as_ref());
        if access == Access::Read
            && let Some(user) = redirect::admitted(&self.shared, &path, query)
        {
            let answer = access::concluded(users, login, &path, Answer::Authorized { user });
            return Effect::Answer(id, answer);
        }
        let wanted = Right {
            access,
            path: &path,
        };
        match access::authorize(users, &mut login, wanted, query, credentials) {
            Decision::Now(answer) => {
                Effect::Answer(id, access::concluded(users, login, &path, answer))
            }
            Decision::Later(check) => {
                let credentials = Credentials {
                    login,
                    check,
                    access,
                    path,
                };
                Effect::Verify(id, credentials)
            }
        }
    }

    /// Returns the cipher for the tracks of a stream that the client asks for with this query;
    /// `None` for no SRTP.
    ///
    /// Clients cannot say in DESCRIBE that they support SRTP, and clients that do not support it
    /// cannot play a stream that is described as SRTP. So a client asks for it in the URL, with
    /// `?srtp`, or with `?srtp=gcm` for a cipher that costs a quarter.
    fn cipher_for(&self, scope: &ClientScope<'_>, query: Option<&str>) -> Option<Cipher> {
        if !scope.client.wire.is_secure() {
            return None;
        }
        let query = query.unwrap_or_default().as_bytes();
        let mut pairs = url::form_urlencoded::parse(query);
        let requested = pairs.find_map(|(name, value)| (name == "srtp").then_some(value));
        let requested = requested.map(|value| match value.as_ref() {
            "gcm" => Cipher::AesGcm128,
            _ => Cipher::AesCm128,
        });
        match self.shared.connection.get().srtp {
            SrtpPolicy::Off => None,
            SrtpPolicy::Optional => requested,
            SrtpPolicy::Required => requested.or(Some(Cipher::AesCm128)),
        }
    }

    fn describe(
        &self,
        scope: &mut ClientScope<'_>,
        id: RequestId,
        path: String,
        request: PendingRequest,
    ) -> Effect {
        if let Some(stream) = self.awaited(scope, &path) {
            return Effect::Await {
                id,
                stream,
                request,
            };
        }
        let answer = self.answer_awaited(scope, &path, &request);
        self.unless_looked_up(id, path, answer, request)
    }

    fn describe_now(
        &self,
        scope: &mut ClientScope<'_>,
        path: &str,
        cipher: Option<Cipher>,
        layer: &WishedLayer,
    ) -> Answer {
        let stream = self.stream(path);
        let stream = match stream.and_then(|it| layer.stream(&self.shared.layer_streams, it)) {
            Ok(stream) => stream,
            Err(refusal) => return Answer::Refused(refusal),
        };
        scope.client.note_described(&stream, stream.layout());
        let described = Described {
            name: stream.name().as_str(),
            tracks: &stream.tracks(),
            version: stream.totals().sources,
            duration: None,
            recorded: None,
            cipher,
        };
        setup::describe(scope, &described)
    }

    /// Answers a request for the stream called `name`, which has its tracks.
    pub(super) fn answer_awaited(
        &self,
        scope: &mut ClientScope<'_>,
        name: &str,
        request: &PendingRequest,
    ) -> Answer {
        match request {
            PendingRequest::Describe { cipher, layer } => {
                self.describe_now(scope, name, *cipher, layer)
            }
            PendingRequest::SetUp(request) => self.set_up_now(scope, name, request),
        }
    }

    /// Sets up a track to be sent.
    fn set_up(
        &self,
        scope: &mut ClientScope<'_>,
        id: RequestId,
        path: String,
        request: TrackRequest,
    ) -> Effect {
        if let Some(stream) = self.awaited(scope, &path).filter(|_| !plays_file(scope)) {
            let request = PendingRequest::SetUp(request);
            return Effect::Await {
                id,
                stream,
                request,
            };
        }
        let answer = self.set_up_now(scope, &path, &request);
        self.unless_looked_up(id, path, answer, PendingRequest::SetUp(request))
    }

    fn set_up_now(
        &self,
        scope: &mut ClientScope<'_>,
        path: &str,
        request: &TrackRequest,
    ) -> Answer {
        // A file that is being played is listed under its name, too; a session that began with the
        // file continues with it.
        let stream = if plays_file(scope) {
            Err(Refusal::NotFound)
        } else {
            let stream = self.stream(path);
            stream.and_then(|it| request.layer.stream(&self.shared.layer_streams, it))
        };
        match stream {
            Ok(stream) => setup::set_up_stream(&self.shared, scope, &stream, request),
            Err(refusal) => Answer::Refused(refusal),
        }
    }

    /// Returns the stream of `path` if it has no tracks yet, and gets some because somebody asks.
    /// A stream that another server may have is pulled for it.
    fn awaited(&self, scope: &ClientScope<'_>, path: &str) -> Option<Arc<Stream>> {
        let pulled = || {
            let directory = self.shared.directory.as_ref()?;
            directory.begin(path, scope.client.peer.ip())
        };
        let stream = self.shared.hub.stream(path).or_else(pulled);
        stream.filter(|it| may_come(it))
    }

    /// Returns the answer, unless a file may have the name that no stream has: then the file is
    /// looked up.
    fn unless_looked_up(
        &self,
        id: RequestId,
        path: String,
        answer: Answer,
        request: PendingRequest,
    ) -> Effect {
        let is_unknown = answer == Answer::Refused(Refusal::NotFound);
        if is_unknown && self.shared.library.is_some() {
            return Effect::LookUp { id, path, request };
        }
        Effect::Answer(id, answer)
    }

    /// Returns the stream of `path`, if there is one that has begun.
    fn stream(&self, path: &str) -> Result<Arc<Stream>, Refusal> {
        let stream = self.shared.hub.stream(path).ok_or(Refusal::NotFound)?;
        if stream.tracks().is_empty() {
            return Err(Refusal::Unavailable {
                retry_after: Some(RETRY_AFTER),
            });
        }
        Ok(stream)
    }

    /// Plays what is set up. Returns nothing if the answer comes with the first frame.
    fn play(
        &self,
        scope: &mut ClientScope<'_>,
        id: RequestId,
        request: &PlayRequest,
    ) -> Option<Effect> {
        let answer = if past::is_wanted(scope, request) {
            past::play(&self.shared, scope, id, request)?
        } else if plays_file(scope) {
            media_folder::play(scope, id, request)?
        } else {
            scope.play()
        };
        Some(Effect::Play(id, answer))
    }

    fn announce(
        &self,
        scope: &mut ClientScope<'_>,
        id: RequestId,
        path: &str,
        description: Box<Description>,
    ) -> Effect {
        let name = match announced_name(&self.shared.hub, path) {
            Ok(name) => name,
            Err(answer) => return Effect::Answer(id, answer),
        };
        let cluster = self.shared.directory.as_ref();
        if cluster.is_some_and(|it| it.member().is_some()) {
            return Effect::ClaimName {
                id,
                name,
                description,
            };
        }
        Effect::Answer(
            id,
            self.announce_now(scope, ClaimedName { name, claim: None }, &description),
        )
    }

    /// Answers ANNOUNCE once it is known whether the client has the name among several servers.
    pub(super) fn answer_claimed(
        &self,
        scope: &mut ClientScope<'_>,
        claimed: ClaimOutcome,
    ) -> Answer {
        match claimed.claim {
            Ok(claim) => {
                let name = claimed.name;
                self.announce_now(scope, ClaimedName { name, claim }, &claimed.description)
            }
            Err(answer) => answer,
        }
    }

    /// Answers ANNOUNCE of a stream that nobody else publishes, or to which the client has a claim
    /// among several servers.
    fn announce_now(
        &self,
        scope: &mut ClientScope<'_>,
        named: ClaimedName,
        description: &Description,
    ) -> Answer {
        if scope.client.player().is_some() {
            return Answer::Refused(Refusal::NotInThisState);
        }
        let (hub, keys) = (&self.shared.hub, &self.shared.context.keys);
        match PublishSession::announce(hub, keys, named, description, scope.now) {
            Ok(session) => {
                scope.client.role = Role::Publisher(Box::new(session));
                Answer::Announced
            }
            Err(refusal) => Answer::Refused(refusal),
        }
    }
}

/// Returns whether the client has set up a file of the media folder.
fn plays_file(scope: &ClientScope<'_>) -> bool {
    let session = scope.client.player();
    session.is_some_and(|session| matches!(session.recorded, Some(Recorded::File(_))))
}

fn pause(scope: &mut ClientScope<'_>) -> Answer {
    match scope.client.player_mut() {
        Some(session) => {
            session.rest();
            let range = session.recorded.as_ref().and_then(Recorded::pause);
            Answer::Paused { range }
        }
        None => Answer::Refused(Refusal::NotInThisState),
    }
}

fn record(scope: &mut ClientScope<'_>) -> Answer {
    let now = scope.now;
    match scope.client.publisher_mut() {
        Some(session) => {
            session.recording.start(now);
            Answer::Recording
        }
        None => Answer::Refused(Refusal::NotInThisState),
    }
}

/// Drops one track of a player, or everything that the client has set up.
fn tear_down(scope: &mut ClientScope<'_>, track: Option<TrackIndex>) -> Option<Effect> {
    let Some(track) = track else {
        return Some(Effect::Leave);
    };
    let session = scope.client.player_mut()?;
    let transport = session.forget(track);
    let is_last = session.transports.kind().is_none();
    if let (Some(TrackTransport::Udp { addresses, .. }), Some(udp)) = (transport, &mut scope.udp) {
        udp.forget(addresses, scope.key);
    }
    is_last.then_some(Effect::Leave)
}
