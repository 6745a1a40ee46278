//! The private stream of a session: how a client comes to it from a shared one, and back.

use std::sync::Arc;

use glassline_egress::rtsp::StreamReader;
use glassline_hub::Stream;

use super::client_scope::ClientScope;
use super::recorded::Recorded;

/// Replaces the stream of a client, which rests, with a private one. The numbers of packets go on.
pub(super) fn change_to(scope: &mut ClientScope<'_>, private: &Arc<Stream>) {
    let streams = &mut *scope.streams;
    let Some(session) = scope.client.player_mut() else {
        return;
    };
    let reader = streams.subscribe(private, scope.now);
    let before = std::mem::replace(&mut session.reader, reader);
    session.stream = Arc::clone(private);
    let numbers = streams.get(before).map(StreamReader::going_on);
    if let (Some(reader), Some(numbers)) = (streams.get_mut(reader), numbers) {
        reader.inherit(numbers);
    }
    streams.leave(before, scope.key);
    streams.join(reader, scope.key);
}

/// Leads a client, which rests, from recordings back to the live stream that it has set up. Returns false
/// if it has set up none.
///
/// Clients of a live stream share the numbers of its packets, so that these do not go on: `RTP-Info` states
/// them.
pub(super) fn return_to_live(scope: &mut ClientScope<'_>) -> bool {
    let streams = &mut *scope.streams;
    let Some(session) = scope.client.player_mut() else {
        return false;
    };
    let live = match &session.recorded {
        Some(Recorded::Past(past)) => past.live().cloned(),
        _ => None,
    };
    let Some(live) = live else {
        return false;
    };
    session.recorded = None;
    let reader = streams.subscribe(&live, scope.now);
    let before = std::mem::replace(&mut session.reader, reader);
    session.stream = live;
    streams.leave(before, scope.key);
    streams.join(reader, scope.key);
    true
}

/// Leads a client back to the live stream if its recordings could not be begun.
pub(super) fn return_unbegun(scope: &mut ClientScope<'_>) {
    let recorded = scope.client.player().and_then(|it| it.recorded.as_ref());
    let Some(Recorded::Past(past)) = recorded else {
        return;
    };
    let goes_on = past.interrupted_live();
    if !past.has_begun() && return_to_live(scope) && goes_on {
        scope.play();
    }
}
