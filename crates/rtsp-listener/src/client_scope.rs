//! A client, with the parts of its thread that a request may use.

use std::time::Instant;

use glassline_egress::rtsp::StreamReader;
use glassline_rtsp::server::{Answer, Refusal};
use glassline_runtime::Key;

use super::client::Client;
use super::play_session::PlaySession;
use super::streams::Streams;
use super::udp_clients::UdpClients;

/// One client, and the parts of its thread that its requests may change.
pub(super) struct ClientScope<'a> {
    pub(super) key: Key,
    pub(super) client: &'a mut Client,
    pub(super) streams: &'a mut Streams,
    /// UDP clients of the thread; `None` if media may not go by UDP.
    pub(super) udp: Option<&'a mut UdpClients>,
    pub(super) now: Instant,
}

impl ClientScope<'_> {
    /// The client's session, if it is a player, with the reader of its stream.
    pub(super) fn player_and_reader(&mut self) -> Option<(&mut PlaySession, &mut StreamReader)> {
        let session = self.client.player_mut()?;
        let reader = self.streams.get_mut(session.reader)?;
        Some((session, reader))
    }

    /// Plays what the client has set up, from its newest keyframe on, or continues after a pause.
    pub(super) fn play(&mut self) -> Answer {
        let now = self.now;
        match self.player_and_reader() {
            Some((session, reader)) => session.play(reader, now),
            None => Answer::Refused(Refusal::NotInThisState),
        }
    }
}
