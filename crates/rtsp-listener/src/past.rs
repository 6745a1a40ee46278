//! Requests for the recordings of a stream, with an instant in the URL (`?at=`) or in PLAY
//! (`Range: clock=`).

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use glassline_egress::rtsp::TransportKind;
use glassline_hub::StreamName;
use glassline_playback::{NoFootage, Past, PastFrom};
use glassline_rtsp::range::Range;
use glassline_rtsp::server::{Answer, Refusal, RequestId};

use super::client_scope::ClientScope;
use super::effect::Effect;
use super::file_playback::PlayRequest;
use super::look_back::{LookBack, NamedInstant};
use super::own_stream;
use super::past_playback::{PastPlayback, refused};
use super::pending_request::{PendingRequest, TrackRequest};
use super::recorded::Recorded;
use super::setup::{self, Described};
use super::shared::Shared;
use super::wished_layer::WishedLayer;

/// Answer to a server without recordings.
const NONE_KEPT: &str =
    "this server keeps no recordings: the setting `recordings.folder` names their folder";

/// Finds what is recorded of the stream `path` from `at` on, of a layer that is recorded by itself if the URL
/// names one.
///
/// # Errors
/// Returns the answer if there is nothing.
pub(super) async fn find(
    shared: &Shared,
    path: &str,
    at: NamedInstant,
    layer: &WishedLayer,
) -> Result<PastFrom, Answer> {
    let at = at.get()?;
    let name = StreamName::parse(path).map_err(|_| Answer::Refused(Refusal::NotFound))?;
    let layer = layer.text();
    let of = shared.playback.subject(name, layer.map(str::to_owned));
    let of = of.ok_or_else(|| refused(NONE_KEPT))?;
    let found = shared.playback.past(of, at).await;
    found.map_err(|error| match (&error, layer) {
        (NoFootage::Nothing, Some(layer)) => refused(&format!(
            "nothing of the layer '{layer}' of '{path}' is recorded by itself from then on; without layer=, the \
             best one is played"
        )),
        _ => no_footage(&error, path),
    })
}

/// Answers a request whose URL names an instant from which something is recorded.
pub(super) fn answer_found(
    shared: &Shared,
    scope: &mut ClientScope<'_>,
    found: PastFrom,
    request: &PendingRequest,
) -> Answer {
    let track_request = match request {
        PendingRequest::Describe { cipher, .. } => {
            let since_1970 = |at: SystemTime| at.duration_since(UNIX_EPOCH).unwrap_or_default();
            let described = Described {
                name: found.past.stream().as_str(),
                tracks: found.tracks(),
                version: 1,
                duration: Some(found.length()),
                recorded: Some(Range::Clock {
                    start: since_1970(found.begins),
                    end: Some(since_1970(found.until)),
                }),
                cipher: *cipher,
            };
            return setup::describe(scope, &described);
        }
        PendingRequest::SetUp(track_request) => track_request,
    };
    let stream = found.past.stream().clone();
    let client = scope.client.peer.ip();
    let reading = match shared.playback.open_past(found.past, client) {
        Ok(reading) => reading,
        Err(error) => return no_footage(&error, stream.as_str()),
    };
    let private = Arc::clone(reading.reading.stream());
    let answer = setup::set_up_stream(shared, scope, &private, track_request);
    if let Some(session) = scope.client.player_mut()
        && Arc::ptr_eq(&session.stream, &private)
    {
        let past = match found.at {
            None => PastPlayback::from_the_beginning(stream, reading, found.begins),
            Some(at) => PastPlayback::at(stream, reading, at),
        };
        session.recorded = Some(Recorded::Past(past));
    }
    answer
}

/// Sets up a track of a session whose URL names an instant.
pub(super) fn set_up(
    shared: &Shared,
    scope: &mut ClientScope<'_>,
    id: RequestId,
    path: String,
    at: NamedInstant,
    request: TrackRequest,
) -> Effect {
    let Some(session) = scope.client.player() else {
        let request = PendingRequest::SetUp(request);
        return Effect::LookBack(id, LookBack { path, at, request });
    };
    let answer = match &session.recorded {
        Some(Recorded::Past(_)) => {
            let stream = Arc::clone(&session.stream);
            setup::set_up_stream(shared, scope, &stream, &request)
        }
        _ => Answer::Refused(Refusal::AggregateNotAllowed),
    };
    Effect::Answer(id, answer)
}

/// Returns whether PLAY is for the recordings of what a client has set up.
pub(super) fn is_wanted(scope: &ClientScope<'_>, request: &PlayRequest) -> bool {
    let recorded = scope.client.player().and_then(|it| it.recorded.as_ref());
    match recorded {
        Some(Recorded::Past(_)) => true,
        Some(Recorded::File(_)) => false,
        None => matches!(request.range, Some(Range::Clock { .. })),
    }
}

/// Plays recordings, or seeks in them. Returns the answer, unless it is sent with the first frame.
pub(super) fn play(
    shared: &Shared,
    scope: &mut ClientScope<'_>,
    id: RequestId,
    request: &PlayRequest,
) -> Option<Answer> {
    let now = scope.now;
    let session = scope.client.player_mut()?;
    if session.is(TransportKind::Multicast) {
        return Some(refused("a multicast group gets the live stream alone"));
    }
    if let Some(Recorded::Past(past)) = &mut session.recorded {
        if past.is_left_by(request) {
            return Some(play_live(scope));
        }
        let play = match past.play(request) {
            Ok(play) => play,
            Err(answer) => return Some(answer),
        };
        session.rest();
        if let Some(Recorded::Past(past)) = &mut session.recorded {
            past.own_mut().play(play, id, now);
        }
        mark_packets(scope, request);
        return None;
    }
    let mut past = match open(shared, scope) {
        Ok(past) => past,
        Err(answer) => return Some(answer),
    };
    let play = match past.play(request) {
        Ok(play) => play,
        Err(answer) => return Some(answer),
    };
    scope.client.player_mut()?.rest();
    own_stream::change_to(scope, past.own().reading().stream());
    mark_packets(scope, request);
    past.own_mut().play(play, id, now);
    scope.client.player_mut()?.recorded = Some(Recorded::Past(past));
    None
}

/// Makes the packets say when their frames were recorded, if the client asks for that.
fn mark_packets(scope: &mut ClientScope<'_>, request: &PlayRequest) {
    if let Some((_, reader)) = scope.player_and_reader() {
        reader.replay(request.replay.map(|it| it.sequence));
    }
}

/// Opens the recordings of the live stream that a session has set up.
fn open(shared: &Shared, scope: &ClientScope<'_>) -> Result<PastPlayback, Answer> {
    let session = scope.client.player();
    let session = session.ok_or(Answer::Refused(Refusal::NotInThisState))?;
    let live = &session.stream;
    let name = live.name().clone();
    let of = shared.playback.subject(name.clone(), None);
    let past = Past::with_tracks(
        of.ok_or_else(|| refused(NONE_KEPT))?,
        live.tracks().to_vec(),
    );
    let reading = shared.playback.open_past(past, scope.client.peer.ip());
    let reading = reading.map_err(|error| no_footage(&error, name.as_str()))?;
    Ok(PastPlayback::beside(live, session.is_playing(), reading))
}

/// Goes back from the recordings to the live stream.
fn play_live(scope: &mut ClientScope<'_>) -> Answer {
    let Some(session) = scope.client.player_mut() else {
        return Answer::Refused(Refusal::NotInThisState);
    };
    session.rest();
    if !own_stream::return_to_live(scope) {
        return Answer::Refused(Refusal::NotInThisState);
    }
    let stream = scope.client.player().map(|it| Arc::clone(&it.stream));
    // The client would depacketize other tracks by the description of the old ones.
    match stream {
        Some(live) if scope.client.was_described_others(&live, live.layout()) => {
            Answer::Refused(Refusal::Gone)
        }
        _ => scope.play(),
    }
}

fn no_footage(error: &NoFootage, stream: &str) -> Answer {
    let refusal = match error {
        NoFootage::Nothing => {
            return refused(&format!("nothing of '{stream}' is recorded from then on"));
        }
        NoFootage::NothingFound(missing) => {
            return refused(&format!(
                "nothing of '{stream}' is recorded from then on by the servers that answer; {missing}"
            ));
        }
        NoFootage::Crowded => Refusal::NotEnoughBandwidth,
        NoFootage::Away(_) => Refusal::Unavailable { retry_after: None },
        _ => {
            tracing::warn!(%error, stream, "recordings cannot be played over RTSP");
            Refusal::Internal
        }
    };
    Answer::Explained {
        refusal,
        why: error.to_string(),
    }
}
