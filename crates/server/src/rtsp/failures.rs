//! Notes what RTSP clients asked for and did not get among the failed connections.

use std::net::IpAddr;

use glassline_rtsp::server::{Access, Answered, Event};

use crate::failures::{ClientRole, ConnectionFailure, Protocol, Stage};

/// Most characters of a path that are kept.
const PATH_CHARS_MAX: usize = 128;

/// Methods without which no media flows.
const NEEDED: [&str; 5] = ["DESCRIBE", "SETUP", "PLAY", "ANNOUNCE", "RECORD"];

/// The stream that a client asked for last.
#[derive(Debug, Default)]
pub(super) struct RequestedStream {
    path: Box<str>,
    publishes: bool,
    /// Whether the latest request had credentials. Without them a refusal is only the challenge.
    has_credentials: bool,
}

impl RequestedStream {
    /// Notes what an event asks for.
    pub(super) fn note(&mut self, event: &Event) {
        let (Event::Describe { path, .. }
        | Event::SetUp { path, .. }
        | Event::Announce { path, .. }
        | Event::Authorize { path, .. }) = event
        else {
            return;
        };
        if *self.path != **path {
            self.path = path.chars().take(PATH_CHARS_MAX).collect();
        }
        if let Event::Authorize {
            access,
            credentials,
            ..
        } = event
        {
            self.publishes = *access == Access::Publish;
            self.has_credentials = credentials.is_some();
        }
    }

    /// Returns the failure that an answer means for a client at `from`; `None` if it means none.
    pub(super) fn refused(&self, answered: &Answered, from: IpAddr) -> Option<ConnectionFailure> {
        let status = answered.status.0;
        let method = answered.method.as_ref()?.as_str();
        let is_challenge = status == 401 && !self.has_credentials;
        if status < 400 || is_challenge || !NEEDED.contains(&method) {
            return None;
        }
        let (why, remedy) = explain(status);
        let role = match self.publishes {
            true => ClientRole::Publisher,
            false => ClientRole::Viewer,
        };
        Some(ConnectionFailure {
            stream: String::from(&*self.path),
            protocol: Protocol::Rtsp,
            role,
            stage: Stage::of_status(status),
            from,
            session: None,
            reason: format!("{method} is answered {status}: {why}"),
            remedy: remedy.map(str::to_owned),
        })
    }
}

/// Returns what a status means, and what to change.
const fn explain(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => (
            "user or password is wrong",
            Some("correct the credentials in the URL of the client"),
        ),
        403 => (
            "this client has no right to the stream",
            Some("give the user the right, or publish from this machine or with the publish token"),
        ),
        404 => (
            "there is no such stream or file",
            Some("GET /api/v1/streams lists the streams that exist"),
        ),
        409 => ("another client publishes the stream", None),
        410 => (
            "the stream's tracks have changed since they were described",
            Some("the client must ask with DESCRIBE again"),
        ),
        415 => (
            "the description has media that cannot be received here",
            Some("publish one of the codecs that the documentation lists"),
        ),
        453 => (
            "as many clients play files their own way as allowed",
            Some("raise rtsp.media_clients"),
        ),
        461 => (
            "the transport is not available",
            Some(
                "have the client use TCP (ffmpeg: -rtsp_transport tcp), or see rtsp.udp and rtsp.multicast",
            ),
        ),
        463 => ("the client asks for SRTP and sends no keys", None),
        503 => (
            "the stream has no source yet, or the server is busy",
            Some("GET /api/v1/streams has the state of the source"),
        ),
        _ => ("the request is not valid here", None),
    }
}
