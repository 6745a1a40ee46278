//! Notes QUIC sessions that were not granted among the failed connections.

use std::fmt::Display;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use glassline_events::failures::{ClientRole, ConnectionFailure, DISMISSED, Protocol, Stage};
use glassline_quic::moq::{HandshakeFault, RequestError, Role};

use super::access::Denied;
use super::broadcasts::Fault;
use super::counters::Reason;
use super::{OpenedSession, SessionContext};

/// The limits to raise where there are too many sessions.
const LIMITS: &str = "raise quic.clients or quic.clients_per_address";

/// The remedy where a client has sent an alert of TLS.
const UNTRUSTED: &str = "the client may not trust the certificate: pin its fingerprint, or give quic.certificate one that the client knows";

/// The remedy where both ends have no protocol in common.
const NOTHING_IN_COMMON: &str = "the client needs a version of MoQ that the documentation lists, or WebTransport over HTTP/3 (ALPN h3), at this port";

/// The remedy where a client does not answer.
const SILENT: &str = "let UDP from the server's port out to the client, and look for a tunnel with an MTU below 1280";

/// Time that a reader may go without a frame and leave, without that its session counts as failed.
const PATIENCE: Duration = Duration::from_secs(5);

/// How to show a right.
const TOKEN: &str = "give the client a token or a user with this right: ?token=… in its URL";

impl SessionContext {
    /// Counts and notes that a handshake ended because another one needed its place. `is_validated`:
    /// the client has proven its address.
    pub(super) fn note_eviction(&self, peer: SocketAddr, is_validated: bool) {
        self.counters.refuse(Reason::Full);
        let reason =
            "another connection needed the place of this one, whose handshake was not done";
        let explained = (Stage::Server, reason.to_owned(), Some(LIMITS));
        self.note_failure(
            Client {
                peer,
                is_proven: is_validated,
            },
            None,
            explained,
        );
    }

    /// Counts and notes that an idle session ended because a handshake needed its place.
    pub(super) fn note_idle(&self, peer: SocketAddr) {
        self.counters.refuse(Reason::Full);
        let reason =
            "another connection needed the place of this session, which neither published nor read";
        let explained = (Stage::Server, reason.to_owned(), Some(LIMITS));
        self.note_failure(Client::proven(peer), None, explained);
    }

    /// Counts and notes that a handshake failed. `is_validated`: the client has proven its address.
    pub(super) fn note_handshake(
        &self,
        peer: SocketAddr,
        is_validated: bool,
        error: &RequestError,
    ) {
        self.counters.refuse(Reason::Handshake);
        let remedy = match error.fault() {
            HandshakeFault::NothingInCommon => Some(NOTHING_IN_COMMON),
            HandshakeFault::CertificateRefused => Some(UNTRUSTED),
            HandshakeFault::Silent => Some(SILENT),
            _ => None,
        };
        let reason = format!("the QUIC handshake failed: {error}");
        let is_proven = is_validated || !error.may_be_forged();
        self.note_failure(
            Client { peer, is_proven },
            None,
            (Stage::Handshake, reason, remedy),
        );
    }

    /// Counts and notes that a connection ended when its session was granted.
    pub(super) fn note_lost(&self, peer: SocketAddr, error: &dyn Display) {
        self.counters.refuse(Reason::Handshake);
        let reason = format!("the session was granted, but the connection ended: {error}");
        self.note_failure(Client::proven(peer), None, (Stage::Handshake, reason, None));
    }

    /// Counts and notes that there was no place for a client. `is_validated`: the client has proven
    /// its address.
    pub(super) fn note_full(&self, peer: SocketAddr, is_validated: bool) {
        self.counters.refuse(Reason::Full);
        let reason = "the server has as many QUIC sessions as allowed, of all or of this address";
        let explained = (Stage::Server, reason.to_owned(), Some(LIMITS));
        self.note_failure(
            Client {
                peer,
                is_proven: is_validated,
            },
            None,
            explained,
        );
    }

    /// Notes that a reader left that was sent no frame.
    pub(super) fn note_unread(&self, peer: SocketAddr, opened: &OpenedSession) {
        let span = opened.account.opened().elapsed();
        let stats = opened.session.stats();
        let has_media = stats.sent > 0 || stats.received > 0 || opened.account.broadcasts() > 0;
        if opened.rights.read.is_none() || opened.role == Role::Publisher || has_media {
            return;
        }
        if span < PATIENCE {
            return;
        }
        let seconds = span.as_secs();
        let explained = match stats.subscriptions {
            0 => (
                Stage::Stream,
                format!(
                    "the session was granted, but within {seconds} s the client subscribed to nothing: the \
                     stream that it waits for is not at this server"
                ),
                Some("GET /api/v1/streams lists the streams; the last part of the URL is the name"),
            ),
            count => (
                Stage::Media,
                format!(
                    "the client subscribed to {count} tracks, and none sent a frame within {seconds} s"
                ),
                Some("look at the source, and set the encoder's keyframe interval to 2 s or less"),
            ),
        };
        let asked = SessionRequest {
            path: &opened.folder,
            role: Role::Subscriber,
        };
        self.note_failure(Client::proven(peer), Some(asked), explained);
    }

    /// Notes that an operator ended a session, if that is why it ended.
    pub(super) fn note_dismissed(&self, peer: SocketAddr, opened: &OpenedSession) {
        let Some(stream) = opened.account.dismissed() else {
            return;
        };
        let (reason, remedy) = DISMISSED;
        let asked = match stream.is_empty() {
            true => SessionRequest {
                path: &opened.folder,
                role: Role::Subscriber,
            },
            false => SessionRequest {
                path: stream.as_str(),
                role: Role::Publisher,
            },
        };
        let explained = (Stage::Connected, reason.to_owned(), Some(remedy));
        let failure = failure(peer, Some(asked), explained);
        self.failures.note_end(failure, Instant::now());
    }

    /// Notes why a publisher that was granted its session could not publish.
    pub(super) fn note_disconnected(&self, peer: SocketAddr, fault: &Fault) {
        let (stage, remedy) = match fault.reason {
            Reason::Unauthorized => (Stage::Rights, Some(TOKEN)),
            Reason::Full => (
                Stage::Server,
                Some("raise limits.streams, or publish some of the streams in another session"),
            ),
            Reason::Busy => (
                Stage::Stream,
                Some("stop the other publisher, or publish under another name"),
            ),
            Reason::Silent => (
                Stage::Media,
                Some("set the encoder's keyframe interval to 2 s or less"),
            ),
            Reason::Handshake | Reason::Name | Reason::Catalog | Reason::Frame => {
                (Stage::Offer, None)
            }
        };
        if let Some(why) = &fault.why {
            let asked = SessionRequest {
                path: &fault.stream,
                role: Role::Publisher,
            };
            self.note_failure(
                Client::proven(peer),
                Some(asked),
                (stage, why.clone(), remedy),
            );
        }
    }

    /// Notes that a client, which asked for `path` in `role`, was refused.
    pub(super) fn note_refusal(&self, peer: SocketAddr, path: &str, role: Role, why: &Denied) {
        let asked = SessionRequest { path, role };
        let remedy = match why {
            Denied::Page(_) | Denied::Excluded => None,
            Denied::NoRight | Denied::Login(_) => Some(TOKEN),
        };
        let explained = (Stage::Rights, why.to_string(), remedy);
        self.note_failure(Client::proven(peer), Some(asked), explained);
    }

    /// Notes why a client's session failed, which had `asked` for something, or not yet.
    fn note_failure(
        &self,
        client: Client,
        asked: Option<SessionRequest<'_>>,
        explained: Explained<'_>,
    ) {
        let failure = failure(client.peer, asked, explained);
        match client.is_proven {
            true => self.failures.note(failure, Instant::now()),
            false => self.failures.note_unproven(failure, Instant::now()),
        }
    }
}

/// The request of a client.
#[derive(Clone, Copy, Debug)]
struct SessionRequest<'a> {
    path: &'a str,
    role: Role,
}

/// A client whose session failed.
#[derive(Clone, Copy)]
struct Client {
    peer: SocketAddr,
    /// Whether the client has shown that it receives at its address.
    is_proven: bool,
}

impl Client {
    const fn proven(peer: SocketAddr) -> Self {
        Self {
            peer,
            is_proven: true,
        }
    }
}

/// A stage, a reason, and what to change.
type Explained<'a> = (Stage, String, Option<&'a str>);

/// Returns a failure of a client at `peer`, which had `asked` for something, or not yet.
fn failure(
    peer: SocketAddr,
    asked: Option<SessionRequest<'_>>,
    (stage, reason, remedy): Explained<'_>,
) -> ConnectionFailure {
    let (path, role) = asked.map(|it| (it.path, it.role)).unzip();
    ConnectionFailure {
        stream: path.unwrap_or_default().to_owned(),
        protocol: Protocol::Quic,
        role: match role {
            Some(Role::Publisher) => ClientRole::Publisher,
            Some(Role::Subscriber) => ClientRole::Viewer,
            Some(Role::Both) | None => ClientRole::Client,
        },
        stage,
        from: peer.ip(),
        session: None,
        reason,
        remedy: remedy.map(str::to_owned),
    }
}
