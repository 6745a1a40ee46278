//! What RTSP clients asked for and did not get, and why connections ended before that, for the list of
//! failed connections.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use glassline_access::auth::query_token;
use glassline_events::failures::{ClientRole, ConnectionFailure, DISMISSED, Protocol, Stage};
use glassline_ingest::Ended;
use glassline_ingest::oversized::SMALLER_FRAMES;
use glassline_rtsp::server::{Access, Answered, Closed, Event};

/// Most characters of a path that are kept.
const PATH_CHARS_MAX: usize = 128;

/// Methods without which no media flows.
const NEEDED: [&str; 5] = ["DESCRIBE", "SETUP", "PLAY", "ANNOUNCE", "RECORD"];

/// First byte of a TLS handshake (RFC 8446 §5.1), which no RTSP message begins with.
const TLS_HANDSHAKE: u8 = 22;

/// The stream that a client asked for, and how far the request came.
#[derive(Debug, Default)]
pub(super) struct RequestedStream {
    path: Box<str>,
    publishes: bool,
    /// Whether the latest request had credentials. Without them a refusal is only the challenge.
    has_credentials: bool,
    /// Whether the latest request waits for its rights to be checked.
    is_authorizing: bool,
    /// First byte that came; `None` before it.
    first_byte: Option<u8>,
    /// Status of the latest answer; `None` before it.
    answered: Option<u16>,
    /// Whether PLAY or RECORD was granted, or a failure was noted.
    is_settled: bool,
}

/// How a connection ended.
#[derive(Debug)]
pub(super) enum ConnectionEnd<'a> {
    /// The client closed the connection.
    ByClient,
    /// The connection broke.
    Broken(&'a io::Error),
    /// The server ended it because of what the client did.
    Closed(&'a Closed),
    /// The TLS handshake took too long.
    HandshakeTimeout,
    /// Another connection needed its place.
    Evicted,
    /// A player took no bytes of its connection for this long.
    Stalled(Duration),
    /// A player skipped media again and again without catching up.
    TooSlow,
    /// The token of a client has expired.
    Lapsed,
    /// An operator ended the session.
    Dismissed,
}

/// The state of a connection when it ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfinished {
    /// Whether the TLS handshake had begun and was not done.
    pub(super) handshake: bool,
    /// Whether a request had come in part.
    pub(super) request: bool,
    /// Whether a request waited for its answer.
    pub(super) answer: bool,
}

/// A stage, a reason, and what to change.
pub(super) type Explained = (Stage, String, Option<&'static str>);

impl RequestedStream {
    /// Notes that bytes came from the client.
    pub(super) fn note_bytes(&mut self, bytes: &[u8]) {
        self.first_byte = self.first_byte.or(bytes.first().copied());
    }

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
        self.is_authorizing = matches!(event, Event::Authorize { .. });
        if let Event::Authorize {
            access,
            query,
            credentials,
            ..
        } = event
        {
            self.publishes = *access == Access::Publish;
            let token = query.as_deref().and_then(query_token);
            self.has_credentials = credentials.is_some() || token.is_some();
        }
    }

    /// Takes an answer. Returns the failure that it means for a client at `from`; `None` if it means
    /// none.
    pub(super) fn answered(
        &mut self,
        answered: &Answered,
        from: IpAddr,
    ) -> Option<ConnectionFailure> {
        let status = answered.status.0;
        self.answered = Some(status);
        let method = answered.method.as_ref()?.as_str();
        self.is_settled |= status < 300 && ["PLAY", "RECORD"].contains(&method);
        if status < 400 || self.is_challenge() || !NEEDED.contains(&method) {
            return None;
        }
        self.is_settled = true;
        let (stage, why, remedy) = match status {
            503 if self.is_authorizing => (
                Stage::Rights,
                "too many wrong logins came from this address, which has to wait",
                Some("correct user and password in the client; the address may try again soon"),
            ),
            _ => {
                let (why, remedy) = explain(status);
                // The sentence about a name says what to do.
                let remedy = remedy.filter(|_| status != 403 || answered.why.is_none());
                let why = answered.why.as_deref().unwrap_or(why);
                let stage = match (status, &answered.why) {
                    (403, Some(_)) => Stage::Offer,
                    _ => Stage::of_status(status),
                };
                (stage, why, remedy)
            }
        };
        let reason = format!("{method} is answered {status}: {why}");
        Some(self.failure((stage, reason, remedy), from))
    }

    /// Whether the latest answer only asked for credentials.
    fn is_challenge(&self) -> bool {
        self.answered == Some(401) && !self.has_credentials
    }

    /// Returns the failure that the end of the connection means for a client at `from`; `None` if the
    /// client was served, was told before, or wanted nothing. A connection that is opened and closed
    /// without a byte is how monitors look whether a port is open.
    pub(super) fn ended(
        &self,
        end: &ConnectionEnd<'_>,
        unfinished: Unfinished,
        from: IpAddr,
    ) -> Option<ConnectionFailure> {
        if self.is_settled {
            return None;
        }
        let explained = match end {
            ConnectionEnd::Evicted => Some((
                Stage::Server,
                "another connection needed the place of this one, which had set up no track".into(),
                Some("raise rtsp.clients or rtsp.clients_per_address"),
            )),
            ConnectionEnd::HandshakeTimeout => Some((
                Stage::Handshake,
                "the TLS handshake was not done in time".into(),
                Some("rtsps:// is for this port; rtsp:// has another one, rtsp.address"),
            )),
            ConnectionEnd::Broken(error) if unfinished.handshake => Some(tls_failed(error)),
            _ if unfinished.handshake => Some((
                Stage::Handshake,
                "the client left during the TLS handshake".into(),
                Some(UNTRUSTED),
            )),
            ConnectionEnd::Closed(closed) => self.closed(closed),
            // Of a player, see `interrupted`; others have not begun.
            ConnectionEnd::Stalled(_)
            | ConnectionEnd::TooSlow
            | ConnectionEnd::Lapsed
            | ConnectionEnd::Dismissed => None,
            ConnectionEnd::ByClient => self.left(unfinished),
            ConnectionEnd::Broken(error) => self.left(unfinished).or_else(|| {
                let reason = format!("the connection broke before a request came: {error}");
                let is_first = self.answered.is_none();
                is_first.then_some((Stage::Offer, reason, None))
            }),
        };
        explained.map(|it| self.failure(it, from))
    }

    /// Explains why the server closed the connection.
    fn closed(&self, closed: &Closed) -> Option<Explained> {
        match closed {
            Closed::ByClient => self.challenged(),
            // Each of them was noted.
            Closed::WrongCredentials { .. } => None,
            Closed::Idle { .. } if self.answered.is_some() => self.challenged(),
            Closed::Stream(_) if self.first_byte == Some(TLS_HANDSHAKE) => Some((
                Stage::Handshake,
                "the client speaks TLS at the port for RTSP without TLS".into(),
                Some("use rtsp:// with this port, or rtsps:// with that of rtsp.tls.address"),
            )),
            _ => Some((Stage::Offer, closed.to_string(), None)),
        }
    }

    /// Explains why a client left.
    fn left(&self, unfinished: Unfinished) -> Option<Explained> {
        if unfinished.answer {
            return Some((
                Stage::Stream,
                "the client left before its request was answered".into(),
                Some("GET /api/v1/streams tells whether the stream's source takes longer to come"),
            ));
        }
        if unfinished.request {
            let reason = "the connection ended within a request".into();
            return Some((Stage::Offer, reason, None));
        }
        self.challenged()
    }

    /// Explains that a client was asked for credentials, and showed none.
    fn challenged(&self) -> Option<Explained> {
        self.is_challenge().then(|| {
            (
                Stage::Rights,
                "the client was asked for user and password, and left without".into(),
                Some("put them into the client's URL: rtsp://USER:PASSWORD@HOST/NAME"),
            )
        })
    }

    fn failure(&self, explained: Explained, from: IpAddr) -> ConnectionFailure {
        let role = match (self.path.is_empty(), self.publishes) {
            (true, _) => ClientRole::Client,
            (false, true) => ClientRole::Publisher,
            (false, false) => ClientRole::Viewer,
        };
        failure(&self.path, role, explained, from)
    }
}

/// Explains why the server ends a connection over which media flowed; `None` if it does not.
pub(super) fn interrupted(end: &ConnectionEnd<'_>) -> Option<Explained> {
    let (reason, remedy) = match end {
        ConnectionEnd::Stalled(idle) => (
            format!(
                "PLAY was granted, and for {} s the player took nothing of what is sent to it over TCP",
                idle.as_secs()
            ),
            "the player's network is gone, or its program hangs; rtsp.stall_s is the time that it may take",
        ),
        ConnectionEnd::TooSlow => (
            "the player takes less than the stream sends: it skipped to newer keyframes again and again \
             without catching up"
                .to_owned(),
            "lower the bitrate of the stream, give the player a faster network, or raise rtsp.lag_ms",
        ),
        ConnectionEnd::Lapsed => (
            "the server ended the session: the client's token has expired".to_owned(),
            "give the client a new token before the old one ends, or tokens of a longer life",
        ),
        ConnectionEnd::Dismissed => (DISMISSED.0.to_owned(), DISMISSED.1),
        _ => return None,
    };
    Some((Stage::Connected, reason, Some(remedy)))
}

/// Returns a failure of a client at `from` that wanted to have a role in a stream.
pub(super) fn failure(
    stream: &str,
    role: ClientRole,
    (stage, reason, remedy): Explained,
    from: IpAddr,
) -> ConnectionFailure {
    ConnectionFailure {
        stream: stream.to_owned(),
        protocol: Protocol::Rtsp,
        role,
        stage,
        from,
        session: None,
        reason,
        remedy: remedy.map(str::to_owned),
    }
}

/// Returns the failure of a client at `from` that published no media under `stream`.
pub(super) fn unpublished(stream: &str, why: &Ended, from: IpAddr) -> ConnectionFailure {
    let (stage, remedy) = match why {
        Ended::Silent { .. } => (
            Stage::Media,
            Some("see whether the encoder sends; by UDP a firewall may block it, so use TCP"),
        ),
        Ended::NoKeyframe { .. } => (
            Stage::Media,
            Some(
                "set the encoder's keyframe interval to 2 s (ffmpeg: -g 60 at 30 frames a second)",
            ),
        ),
        Ended::FramesTooLarge { .. } => (Stage::Media, Some(SMALLER_FRAMES)),
        Ended::Publish(_) => (Stage::Stream, None),
        Ended::Create(_) => (Stage::Server, Some("raise limits.streams")),
    };
    let reason = format!("RECORD was granted, but nothing was published: {why}");
    failure(stream, ClientRole::Publisher, (stage, reason, remedy), from)
}

/// The remedy if a client does not accept the certificate.
const UNTRUSTED: &str = "the client may not trust the certificate: give rtsp.tls or tls one that covers the name in the client's URL, or have the client accept it";

/// Explains why a TLS handshake failed.
fn tls_failed(error: &io::Error) -> Explained {
    let cause = error
        .get_ref()
        .and_then(|it| it.downcast_ref::<rustls::Error>());
    let remedy = match cause {
        Some(rustls::Error::AlertReceived(_)) => Some(UNTRUSTED),
        Some(rustls::Error::InvalidMessage(_)) => Some(
            "this port takes rtsps:// only: use rtsps://, or rtsp:// with the port of rtsp.address",
        ),
        Some(rustls::Error::PeerIncompatible(_)) => {
            Some("the client needs TLS 1.2 or 1.3 and a cipher of today")
        }
        _ => None,
    };
    let reason = format!("the TLS handshake failed: {error}");
    (Stage::Handshake, reason, remedy)
}

/// Returns what a status means, and what to change.
const fn explain(status: u16) -> (&'static str, Option<&'static str>) {
    match status {
        401 => (
            "user, password or token is wrong",
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
            "the description has media that the server cannot receive",
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
        454 | 455 | 459 | 460 => (
            "the server cannot take this request in the state of the session",
            None,
        ),
        457 => ("the range is not within the stream", None),
        500 => ("the server failed", Some("the server's log has the reason")),
        501 | 505 | 551 => (
            "the client requires something of RTSP that the server does not have",
            None,
        ),
        _ => ("the request is malformed", None),
    }
}
