//! Playback of files of the media folder, shared by clients or private to one.
//!
//! A client that simply plays from the start joins the shared reading. A client that asks for a
//! position, a scale or a speed gets a reading of its own, whose stream replaces the shared one in
//! its session.

use std::sync::Arc;

use glassline_egress::rtsp::TransportKind;
use glassline_ingest::library::{MediaFile, Started};
use glassline_media::TrackIndex;
use glassline_rtsp::server::{Answer, Refusal, RequestId};

use super::client_scope::ClientScope;
use super::file_playback::{FilePlayback, PlayRequest};
use super::own_reading::{OwnReading, ReadingStart};
use super::own_stream;
use super::pending_request::{PendingRequest, TrackRequest};
use super::recorded::Recorded;
use super::setup::{self, Described};
use super::shared::Shared;

/// Answers a request for a file of the media folder.
pub(super) fn answer_found(
    shared: &Shared,
    scope: &mut ClientScope<'_>,
    media_file: Arc<MediaFile>,
    request: PendingRequest,
) -> Answer {
    let track_request = match request {
        PendingRequest::Describe { cipher, .. } => {
            let described = Described {
                name: media_file.name(),
                tracks: media_file.tracks(),
                version: 1,
                duration: Some(media_file.duration()),
                recorded: None,
                cipher,
            };
            return setup::describe(scope, &described);
        }
        PendingRequest::SetUp(track_request) => track_request,
    };
    let Some(session) = scope.client.player() else {
        return set_up_file(shared, scope, media_file, &track_request);
    };
    match &session.recorded {
        // This is a further track of the file that the session has already.
        Some(Recorded::File(file)) if Arc::ptr_eq(&file.media_file, &media_file) => {
            let stream = Arc::clone(&session.stream);
            setup::set_up_stream(shared, scope, &stream, &track_request)
        }
        _ => Answer::Refused(Refusal::AggregateNotAllowed),
    }
}

fn set_up_file(
    shared: &Shared,
    scope: &mut ClientScope<'_>,
    media_file: Arc<MediaFile>,
    track_request: &TrackRequest,
) -> Answer {
    let live = media_file.live();
    let stream = Arc::clone(live.stream());
    let answer = setup::set_up_stream(shared, scope, &stream, track_request);
    if let Some(session) = scope.client.player_mut() {
        session.recorded = Some(Recorded::File(FilePlayback::new(media_file, live)));
    }
    answer
}

/// Starts to play the file of a session. Returns the answer, unless it is sent with the first frame
/// ([`answer_start`]).
pub(super) fn play(
    scope: &mut ClientScope<'_>,
    id: RequestId,
    request: &PlayRequest,
) -> Option<Answer> {
    let session = scope.client.player_mut()?;
    let is_multicast = session.is(TransportKind::Multicast);
    let file = file_of(scope)?;
    // A multicast group cannot have a private reading.
    if !file.is_private() && (request.is_plain() || is_multicast) {
        file.play_live();
        return Some(scope.play());
    }
    let play = match request.play(file.media_file.duration()) {
        Ok(play) => play,
        Err(refusal) => return Some(Answer::Refused(refusal)),
    };
    scope.client.player_mut()?.rest();
    let now = scope.now;
    let file = file_of(scope)?;
    if let Some(own) = file.own_mut() {
        own.play(play, id, now);
        return None;
    }
    let private = match file.media_file.fork(None) {
        Ok(private) => private,
        Err(full) => {
            tracing::warn!(%full, "RTSP client may not seek or change the speed of a file: rtsp.media_clients is reached");
            return Some(Answer::Refused(Refusal::NotEnoughBandwidth));
        }
    };
    own_stream::change_to(scope, private.stream());
    let mut own = OwnReading::new(private);
    own.play(play, id, now);
    file_of(scope)?.set_own(own);
    None
}

fn file_of<'a>(scope: &'a mut ClientScope<'_>) -> Option<&'a mut FilePlayback> {
    match scope.client.player_mut()?.recorded.as_mut()? {
        Recorded::File(file) => Some(file),
        Recorded::Past(_) => None,
    }
}

/// Answers a PLAY request whose reading has begun, or failed.
pub(super) fn answer_start(scope: &mut ClientScope<'_>) -> Option<(RequestId, Answer)> {
    let recorded = scope.client.player_mut()?.recorded.as_mut()?;
    let (id, start) = recorded.own_mut()?.take_start(scope.now)?;
    let answer = match start {
        ReadingStart::Begun(started) => begin(scope, &started),
        ReadingStart::Failed(answer) => {
            own_stream::return_unbegun(scope);
            answer
        }
    };
    Some((id, answer))
}

fn begin(scope: &mut ClientScope<'_>, started: &Started) -> Answer {
    let now = scope.now;
    let Some((session, reader)) = scope.player_and_reader() else {
        return Answer::Refused(Refusal::Internal);
    };
    let is_new = |track: TrackIndex, number: u64| {
        let first = started.first_packets.get(track.get());
        first.is_none_or(|first| number >= *first)
    };
    let mut entries = reader.ring.since(reader.ring.first());
    let begin = entries.find_map(|(number, entry)| {
        let unit = entry.unit()?;
        is_new(unit.track, unit.first_packet).then_some(number)
    });
    let continues = started.continues.then_some(&reader.ring);
    session.play_from(begin.unwrap_or(reader.ring.end()), continues, now);
    let starts = session.transports.iter().map(|(track, transport)| {
        let first = started.first_packets.get(track.get()).copied();
        reader.start(track, transport.srtp(), first, Some(started.time))
    });
    let starts = starts.collect();
    if let Some(Recorded::Past(past)) = &mut session.recorded {
        past.note_begun();
    }
    let recorded = session.recorded.as_ref();
    Answer::Playing {
        range: recorded.map(|it| it.range(started.from, started.until)),
        scale: Some(started.scale),
        speed: Some(started.speed),
        starts,
    }
}
