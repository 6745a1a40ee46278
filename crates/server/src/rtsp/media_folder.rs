//! Playback of files of the media folder, shared by clients or private to one.
//!
//! A client that simply plays from the start joins the shared reading. A client that asks for a
//! position, a scale or a speed gets a reading of its own, whose stream replaces the shared one in
//! its session.

use std::sync::Arc;

use glassline_egress::rtsp::{StreamReader, TransportKind};
use glassline_ingest::library::{MediaFile, PrivateReading, Started};
use glassline_media::TrackIndex;
use glassline_rtsp::range::{Npt, Range};
use glassline_rtsp::server::{Answer, Refusal, RequestId};

use super::client_scope::ClientScope;
use super::command::LookupResult;
use super::file_playback::{FilePlayback, FileStart, PlayRequest};
use super::pending_request::{PendingRequest, TrackRequest};
use super::setup::{self, Described};
use super::shared::Shared;

/// Answers a request whose path was looked up in the media folder.
pub(super) fn answer_found(
    shared: &Shared,
    scope: &mut ClientScope<'_>,
    found: LookupResult,
) -> Answer {
    let media_file = match found.media_file {
        Ok(media_file) => media_file,
        Err(refusal) => return Answer::Refused(refusal),
    };
    let track_request = match found.request {
        PendingRequest::Describe { cipher, .. } => {
            let described = Described {
                name: media_file.name(),
                tracks: media_file.tracks(),
                version: 1,
                duration: Some(media_file.duration()),
                cipher,
            };
            return setup::describe(scope, &described);
        }
        PendingRequest::SetUp(track_request) => track_request,
    };
    let Some(session) = scope.client.player() else {
        return set_up_file(shared, scope, media_file, &track_request);
    };
    match &session.file {
        // This is a further track of the file that the session has already.
        Some(file) if Arc::ptr_eq(&file.media_file, &media_file) => {
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
        session.file = Some(FilePlayback::new(media_file, live));
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
    let file = session.file.as_mut()?;
    // A multicast group cannot have a private reading.
    if !file.is_private() && (request.is_plain() || is_multicast) {
        file.play_live();
        return Some(scope.play());
    }
    let play = match request.play(file.media_file.duration()) {
        Ok(play) => play,
        Err(refusal) => return Some(Answer::Refused(refusal)),
    };
    session.rest();
    let file = session.file.as_mut()?;
    if let Some(private) = file.private() {
        private.play(play);
        file.await_start(id, scope.now);
        return None;
    }
    let private = match file.media_file.fork(None) {
        Ok(private) => private,
        Err(full) => {
            tracing::warn!(%full, "RTSP client may not seek or change the speed of a file: rtsp.media_clients is reached");
            return Some(Answer::Refused(Refusal::NotEnoughBandwidth));
        }
    };
    file.await_start(id, scope.now);
    change_stream(scope, &private);
    private.play(play);
    let file = scope.client.player_mut()?.file.as_mut()?;
    file.set_private(private);
    None
}

/// Replaces the shared stream of a client with its private one.
fn change_stream(scope: &mut ClientScope<'_>, private: &PrivateReading) {
    let streams = &mut *scope.streams;
    let Some(session) = scope.client.player_mut() else {
        return;
    };
    let reader = streams.subscribe(private.stream(), scope.now);
    let before = std::mem::replace(&mut session.reader, reader);
    session.stream = Arc::clone(private.stream());
    let numbers = streams.get(before).map(StreamReader::going_on);
    if let (Some(reader), Some(numbers)) = (streams.get_mut(reader), numbers) {
        reader.inherit(numbers);
    }
    streams.leave(before, scope.key);
    streams.join(reader, scope.key);
}

/// Answers a PLAY request whose reading has begun, or failed.
pub(super) fn answer_start(scope: &mut ClientScope<'_>) -> Option<(RequestId, Answer)> {
    let file = scope.client.player_mut()?.file.as_mut()?;
    let (id, start) = file.take_start(scope.now)?;
    let answer = match start {
        FileStart::Begun(started) => begin(scope, &started),
        FileStart::Failed(refusal) => Answer::Refused(refusal),
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
    session.play_from(begin.unwrap_or(reader.ring.end()), now);
    let starts = session.transports.iter().map(|(track, transport)| {
        let first = started.first_packets.get(track.get()).copied();
        reader.start(track, transport.srtp(), first, Some(started.time))
    });
    Answer::Playing {
        range: Some(Range::Npt {
            start: Some(Npt::At(started.from)),
            end: started.until.map(Npt::At),
        }),
        scale: Some(started.scale),
        speed: Some(started.speed),
        starts: starts.collect(),
    }
}
