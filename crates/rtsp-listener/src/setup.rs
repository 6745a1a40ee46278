//! Describes and sets up tracks that are sent to clients or received from them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use glassline_egress::rtsp::{
    Channels, Keyring, MulticastMembership, StreamReader, TRACKS_MAX, TrackSrtp, TrackTransport,
    UdpAddresses,
};
use glassline_hub::Stream;
use glassline_media::{Track, TrackIndex};
use glassline_rtsp::mikey::Cipher;
use glassline_rtsp::range::Range;
use glassline_rtsp::sdp::{Presentation, Section};
use glassline_rtsp::server::{Answer, Refusal, SelectedTransport};
use glassline_runtime::Key;

use super::client::Role;
use super::client_scope::ClientScope;
use super::pending_request::TrackRequest;
use super::play_session::PlaySession;
use super::shared::Shared;

/// The content of a description of a stream or file.
pub(super) struct Described<'a> {
    pub(super) name: &'a str,
    pub(super) tracks: &'a [Track],
    /// Version of the description, which changes with its content.
    pub(super) version: u64,
    /// Duration of a file; `None` for a live stream.
    pub(super) duration: Option<Duration>,
    /// The recorded range in calendar time; `None` if that is not told.
    pub(super) recorded: Option<Range>,
    /// Cipher of the tracks if they are sent as SRTP.
    pub(super) cipher: Option<Cipher>,
}

/// Describes a stream or file to a client, with fresh keys if its tracks go as SRTP.
pub(super) fn describe(scope: &mut ClientScope<'_>, of: &Described<'_>) -> Answer {
    let context = &scope.streams.context;
    let tracks = &of.tracks[..of.tracks.len().min(TRACKS_MAX)];
    let mut sections: Vec<_> = tracks.iter().cloned().map(Section::new).collect();
    scope.client.keyring = of.cipher.map(|cipher| {
        let numbers = |track| context.keys.track(of.name, track);
        let sources = TrackIndex::first(tracks.len()).map(|track| numbers(track).ssrc);
        let keyring = Keyring::draw(cipher, sources);
        for (track, section) in TrackIndex::enumerate(&mut sections) {
            section.key_management = keyring.message(track, context.clock.wall().ntp(scope.now));
        }
        Box::new(keyring)
    });
    Answer::Described(Box::new(Presentation {
        name: of.name.to_owned(),
        information: String::new(),
        version: of.version,
        address: scope.client.local.ip().to_canonical(),
        duration: of.duration,
        recorded: of.recorded.clone(),
        tracks: sections,
    }))
}

/// Sets up a track of `stream` for a player.
pub(super) fn set_up_stream(
    shared: &Shared,
    scope: &mut ClientScope<'_>,
    stream: &Arc<Stream>,
    request: &TrackRequest,
) -> Answer {
    let answer = try_set_up(shared, scope, stream, request);
    answer.unwrap_or_else(Answer::Refused)
}

fn try_set_up(
    shared: &Shared,
    scope: &mut ClientScope<'_>,
    stream: &Arc<Stream>,
    request: &TrackRequest,
) -> Result<Answer, Refusal> {
    // The client would depacketize the new tracks by the description of the old ones.
    if scope.client.was_described_others(stream, stream.layout()) {
        return Err(Refusal::Gone);
    }
    let track = request.index(stream.tracks().len().min(TRACKS_MAX))?;
    if let Some(session) = scope.client.player() {
        if !Arc::ptr_eq(&session.stream, stream) {
            return Err(Refusal::AggregateNotAllowed);
        }
        let reader = scope.streams.get(session.reader);
        if !reader.is_some_and(StreamReader::is_current) {
            // The stream's tracks changed since the first SETUP; the session is about to end.
            return Err(Refusal::Gone);
        }
        if !session.accepts(request.transport) {
            return Err(Refusal::UnsupportedTransport);
        }
    }
    let membership = match (request.transport, &shared.multicast) {
        (SelectedTransport::Multicast, Some(multicast)) => {
            let membership = multicast.groups.join(stream, track);
            Some(membership.ok_or(Refusal::NotEnoughBandwidth)?)
        }
        _ => None,
    };
    let reader = scope.streams.subscribe(stream, scope.now);
    let subscribed = scope.streams.get(reader).map(StreamReader::layout);
    let set_up = match subscribed {
        // The tracks changed since the check above.
        Some(layout) if scope.client.was_described_others(stream, layout) => Err(Refusal::Gone),
        _ => set_up_track(scope, reader, track, membership, request),
    };
    if set_up.is_err() && scope.client.reader() != Some(reader) {
        // No client on this thread may have the stream now.
        scope.streams.leave(reader, scope.key);
    }
    let (transport, answer) = set_up?;
    if scope.client.player().is_none() {
        let session = PlaySession::new(reader, Arc::clone(stream));
        scope.client.role = Role::Player(Box::new(session));
        scope.streams.join(reader, scope.key);
    }
    if let Some(session) = scope.client.player_mut() {
        session.transports.set(track, transport);
    }
    Ok(answer)
}

/// Returns the transport of a player's track, and the answer's transport header.
fn set_up_track(
    scope: &mut ClientScope<'_>,
    reader: Key,
    track: TrackIndex,
    membership: Option<MulticastMembership>,
    request: &TrackRequest,
) -> Result<(TrackTransport, Answer), Refusal> {
    let reader = scope.streams.get(reader).ok_or(Refusal::Internal)?;
    let ssrc = reader
        .template(track)
        .ok_or(Refusal::NotFound)?
        .numbers
        .ssrc;
    let client = &mut *scope.client;
    let srtp = match request.srtp.as_deref() {
        Some(offered) => {
            let before = match &mut client.role {
                Role::Player(session) => session.transports.take_srtp(track),
                Role::Idle | Role::Publisher(_) => None,
            };
            let (keyring, keys) = (client.keyring.as_deref_mut(), offered.keys.as_ref());
            Some(TrackSrtp::renew(before, keyring, track, ssrc, keys)?)
        }
        None => None,
    };
    let keys = srtp.as_ref().map(|srtp| {
        let time = scope.streams.context.clock.wall().ntp(scope.now);
        srtp.message(time)
    });
    let multicast = membership.as_ref().map(MulticastMembership::group);
    let (transport, server_ports) = match membership {
        Some(membership) => (TrackTransport::Multicast(membership), None),
        None => transport(scope, track, request.transport, srtp)?,
    };
    let answer = Answer::SetUp {
        ssrc: Some(ssrc),
        server_ports,
        multicast,
        keys,
    };
    Ok((transport, answer))
}

/// Sets up a track that a publisher has announced.
pub(super) fn set_up_recording(scope: &mut ClientScope<'_>, request: &TrackRequest) -> Answer {
    let answer = try_set_up_recording(scope, request);
    answer.unwrap_or_else(Answer::Refused)
}

fn try_set_up_recording(
    scope: &mut ClientScope<'_>,
    request: &TrackRequest,
) -> Result<Answer, Refusal> {
    let session = scope.client.publisher_mut();
    let session = session.ok_or(Refusal::NotInThisState)?;
    let track = request.index(session.recording.tracks())?;
    let srtp = match request.srtp.as_deref() {
        Some(offered) => {
            let before = session.transports.take_srtp(track);
            Some(session.srtp(track, before, offered)?)
        }
        None => None,
    };
    let (transport, server_ports) = transport(scope, track, request.transport, srtp)?;
    let time = scope.streams.context.clock.wall().ntp(scope.now);
    let session = scope.client.publisher_mut();
    let session = session.ok_or(Refusal::NotInThisState)?;
    let keys = session.set_up(track, transport, time);
    Ok(Answer::SetUp {
        ssrc: None,
        server_ports,
        multicast: None,
        keys,
    })
}

/// Returns the transport of a track for this client alone, and the server's ports if the track goes
/// by UDP.
fn transport(
    scope: &mut ClientScope<'_>,
    track: TrackIndex,
    selected: SelectedTransport,
    srtp: Option<Box<TrackSrtp>>,
) -> Result<(TrackTransport, Option<(u16, u16)>), Refusal> {
    match selected {
        SelectedTransport::Interleaved {
            channels: (media, control),
        } => {
            let channels = Channels { media, control };
            Ok((TrackTransport::Interleaved { channels, srtp }, None))
        }
        SelectedTransport::Udp {
            client_ports: (media, control),
            destination,
        } => {
            let udp = scope.udp.as_mut().ok_or(Refusal::UnsupportedTransport)?;
            let before = scope.client.role.transports();
            if let Some(TrackTransport::Udp { addresses, .. }) =
                before.and_then(|before| before.get(track))
            {
                udp.forget(*addresses, scope.key);
            }
            let addresses = UdpAddresses {
                media: SocketAddr::new(destination, media),
                control: SocketAddr::new(destination, control),
            };
            udp.learn(addresses, scope.key, track);
            let ports = udp.writer.sockets.ports();
            Ok((TrackTransport::Udp { addresses, srtp }, Some(ports)))
        }
        SelectedTransport::Multicast => Err(Refusal::UnsupportedTransport),
    }
}
