//! Says why a session did not connect, from what the server has seen of it.
//!
//! The server is ICE-lite: it answers checks and waits for a handshake. It cannot tell what a client
//! did in vain, unless the client reports it ([`ClientView`]). It can tell which addresses it
//! offered, what arrived from where, and which of its own datagrams got no answer.

mod address;
mod channels;
mod client_view;
mod handshake;
mod ice;
#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::time::Duration;

use glassline_events::failures::Stage;
use glassline_webrtc::{CloseReason, ConnectionReport, TransportAddress};

use super::offer::ConnectionAddresses;
pub(super) use channels::never_opened;
pub(crate) use client_view::ClientView;

/// Time without a check of the client that says that none arrives. Clients send one every 2.5 to 5 s.
const CHECKS_MISSED: Duration = Duration::from_secs(10);

/// The evidence about a connection that failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Evidence<'a> {
    pub(super) report: &'a ConnectionReport,
    /// Both ends of the request that made the session.
    pub(super) addresses: ConnectionAddresses,
    pub(super) surroundings: Surroundings,
    /// Time since that request.
    pub(super) waited: Duration,
    /// How the session ended; `None` if no datagram of the client ever arrived.
    pub(super) closed: Option<CloseReason>,
    /// Whether the session ended because another one needed its place.
    pub(super) is_evicted: bool,
    /// The view of the client, if it told.
    pub(super) client: Option<&'a ClientView>,
}

/// Facts about the server that explain why its addresses are not reached.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Surroundings {
    /// Whether the addresses in answers are those of `media.advertise`.
    pub(crate) is_advertised: bool,
    /// Whether the server runs in a container.
    pub(crate) is_contained: bool,
}

/// The reason why a connection failed, and what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Diagnosis {
    pub(super) stage: Stage,
    pub(super) reason: String,
    pub(super) remedy: Option<String>,
}

impl Diagnosis {
    pub(super) fn new(stage: Stage, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            stage,
            reason: reason.into(),
            remedy: Some(remedy.into()),
        }
    }
}

impl Surroundings {
    /// Finds out about the machine that this process runs on.
    pub(crate) fn of_process(is_advertised: bool) -> Self {
        // Files of Docker and of Podman, and a variable of Kubernetes.
        let files = ["/.dockerenv", "/run/.containerenv"];
        let is_contained = files.iter().any(|it| std::path::Path::new(it).exists())
            || std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
        Self {
            is_advertised,
            is_contained,
        }
    }
}

impl Evidence<'_> {
    /// Returns why the handshake did not finish.
    pub(super) fn diagnose(&self) -> Diagnosis {
        let found = self.find();
        if !self.is_evicted {
            return found;
        }
        Diagnosis::new(
            Stage::Server,
            format!(
                "another connection needed the place of this one, whose handshake was not done: {}",
                found.reason
            ),
            "raise limits.half_open_per_address, or limits.half_open, if many clients join at once",
        )
    }

    fn find(&self) -> Diagnosis {
        let trace = &self.report.handshake;
        match self.closed {
            Some(CloseReason::WrongFingerprint) => return handshake::wrong_fingerprint(),
            Some(CloseReason::NoSrtpProfile) => return handshake::no_srtp_profile(self.report),
            _ => {}
        }
        if let Some(alert) = trace.alert {
            handshake::alert(alert)
        } else if let Some(failure) = &trace.failure {
            handshake::failed(failure)
        } else if self.closed == Some(CloseReason::Peer) {
            handshake::closed_by_client()
        } else if self.report.checks == 0 {
            ice::nothing_arrived(self)
        } else if trace.received > 0 {
            handshake::unfinished(self)
        } else if self.report.own_checks > 0 && self.report.own_checks_answered == 0 {
            ice::nothing_returned(self)
        } else {
            handshake::not_begun(self)
        }
    }

    /// Returns the time that was waited, in words.
    fn within(&self) -> String {
        let seconds = self.waited.as_secs_f64();
        if seconds < 1.5 {
            format!("within {} ms", self.waited.as_millis())
        } else {
            format!("within {seconds:.0} s")
        }
    }

    /// Returns the addresses that the server offered, each once.
    fn candidates(&self) -> Vec<SocketAddr> {
        let mut candidates = Vec::new();
        for candidate in &self.report.candidates {
            if !candidates.contains(&candidate.socket) {
                candidates.push(candidate.socket);
            }
        }
        candidates
    }

    /// Returns whether the client's page was opened at an address that the server offers, so that the
    /// address is right.
    fn is_address_reached(&self) -> bool {
        let page = self.client.and_then(ClientView::page_ip);
        page.is_some_and(|page| {
            let mut candidates = self.candidates().into_iter();
            candidates.any(|it| it.ip().to_canonical() == page)
        })
    }

    /// Returns the protocols of those addresses, in words.
    fn protocols(&self) -> &'static str {
        match self.report.candidates.iter().any(TransportAddress::is_tcp) {
            true => "UDP and TCP",
            false => "UDP",
        }
    }

    /// Returns the port for media.
    fn port(&self) -> u16 {
        let first = self.report.candidates.first();
        first.map_or(0, |candidate| candidate.socket.port())
    }
}

/// Returns how a client was lost at `address`, `waited` after its offer. The server heard nothing of it
/// for the time `silent`.
pub(super) fn lost(
    address: Option<TransportAddress>,
    waited: Duration,
    silent: Duration,
) -> Diagnosis {
    let address = address.map_or_else(|| "its address".to_owned(), |it| it.to_string());
    let connected = waited.saturating_sub(silent);
    if silent < CHECKS_MISSED {
        return Diagnosis::new(
            Stage::Connected,
            format!(
                "connected for {} s, and lost: the client at {address} still sends, but answered none of the \
                 server's connectivity checks for 30 s, so that it may be sent nothing more (RFC 7675)",
                waited.as_secs()
            ),
            "datagrams from the server to the client are lost: let UDP from the media port out through every \
             firewall between",
        );
    }
    let how_long = match connected.as_secs() {
        0 => "connected, and lost within a second of its offer".to_owned(),
        seconds => format!("connected for {seconds} s, and lost"),
    };
    Diagnosis::new(
        Stage::Connected,
        format!(
            "{how_long}: for {} s no sign of life (connectivity check or media) came \
             from the client at {address}",
            silent.as_secs()
        ),
        "the client's network or program ended without a goodbye, and a page joins again once it is back; if \
         many clients are lost at the same time, look at the network and the firewalls between",
    )
}

/// Returns the failure of a client that says it is not connected, although the handshake is done
/// at the server.
pub(super) fn not_seen_by_client() -> Diagnosis {
    Diagnosis::new(
        Stage::Handshake,
        "DTLS: the handshake is done at the server, but the client did not see its end: datagrams from the \
         server to the client are lost",
        "let UDP from the media port out through every firewall between server and client",
    )
}
