//! Viewers that another server of the cluster serves, and those that another one sent here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_access::auth::Secret;
use glassline_cluster::{Access, StreamName as Name, ViewDecision, ViewerId};
use glassline_hub::Stream;
use glassline_rooms as rooms;
use glassline_runtime::calendar;
use tokio::sync::oneshot;

use super::{Core, Member, moment};
use crate::viewer_ticket::{self, Destination, Grant};

/// Time after which a viewer is served here if the driver does not run. The core decides earlier.
pub(super) const PATIENCE: Duration = Duration::from_secs(3);

/// Keys of queries that are not passed on: what they prove to this server stands in the ticket.
const CREDENTIALS: [&str; 3] = ["token", "jwt", viewer_ticket::QUERY_KEY];

/// The settings of this server about redirects.
#[derive(Debug)]
pub(super) struct Redirecting {
    /// Secret that all servers of the cluster share.
    pub(super) secret: Secret,
    /// Whether this server redirects its viewers.
    pub(super) is_on: bool,
    /// Viewers of a stream from which on this server sends new ones to others.
    pub(super) viewers_per_stream: u32,
    /// Whether this server hears of all streams of the others.
    pub(super) hears_everything: bool,
}

/// Another server, to which a viewer is sent.
#[derive(Clone, Debug, Default)]
pub struct Elsewhere {
    /// Base of its URLs that the viewer can follow; empty for a path alone.
    pub base: String,
}

impl Member {
    /// Returns the server that a viewer of the stream `name` is sent to; `None` if the viewer is
    /// served here, by a pull if need be.
    pub async fn elsewhere(self: &Arc<Self>, name: &str, access: Access) -> Option<Elsewhere> {
        if !self.may_send_away(name) {
            self.expect_viewer(name);
            return None;
        }
        let name = Name::new(name).ok()?;
        let (answer, decision) = oneshot::channel();
        let viewer = self.with_core(|core, now| {
            let viewer = core.viewer();
            core.placing.insert(viewer, answer);
            core.node.view(now, viewer, &name, access);
            viewer
        });
        let _forgotten = Forgotten {
            member: self,
            viewer,
        };
        let decision = tokio::time::timeout(PATIENCE, decision).await;
        let Ok(Ok(ViewDecision::Redirect { node, http, rtsp })) = decision else {
            return None;
        };
        let base = access.base(http.as_deref(), rtsp.as_deref())?.to_owned();
        self.core.lock().counts.redirected += 1;
        tracing::debug!(stream = %name, %node, "viewer is redirected");
        Some(Elsewhere { base })
    }

    /// Keeps a place for a viewer that this server serves in any case, until it is counted: others are
    /// not sent to the same place meanwhile.
    pub fn expect_viewer(&self, name: &str) {
        let Ok(name) = Name::new(name) else {
            return;
        };
        let mut core = self.core.lock();
        if core.node.owner(&name) == Some(core.node.id()) {
            core.node.expect_viewer(moment(), &name);
        }
    }

    /// Returns whether a viewer of `name` might be better served by another server: one that has the
    /// stream, or any one because this server is full, drains, or has more than its share.
    pub fn may_send_away(&self, name: &str) -> bool {
        if !self.redirecting.is_on || rooms::is_voice(name) {
            return false;
        }
        let Ok(known) = Name::new(name) else {
            return false;
        };
        let core = self.core.lock();
        let is_own = core.node.owner(&known) == Some(core.node.id());
        let is_known = core.node.owner(&known).is_some() || !self.redirecting.hears_everything;
        let is_full = core.is_full || core.node.is_draining() || core.node.is_sending_away();
        drop(core);
        let stream = self.hub.stream(name);
        // Viewers who are on their way here have their places already.
        let kept = self.core.lock().node.kept_places(&known);
        let viewers = stream.as_deref().map_or(0, Stream::viewers) + kept;
        let most = usize::try_from(self.redirecting.viewers_per_stream).unwrap_or(usize::MAX);
        is_known && (!is_own || is_full || viewers >= most)
    }

    /// Hands the decision about one viewer on. Returns false if it is about all viewers of a stream.
    pub(super) fn on_placed(&self, viewer: ViewerId, decision: &ViewDecision) -> bool {
        let mut core = self.core.lock();
        let Some(answer) = core.placing.remove(&viewer) else {
            return false;
        };
        // Whoever asked may have left.
        let _ = answer.send(decision.clone());
        true
    }

    /// Returns the URL at the server `to` for a viewer that asked here for `path` with `query`. It has
    /// a ticket instead of the viewer's credentials.
    pub fn invite(
        &self,
        to: &Elsewhere,
        path: &str,
        query: Option<&str>,
        destination: Destination<'_>,
        grant: &Grant,
    ) -> String {
        let ticket = self.ticket(destination, grant);
        let passed_on = without_credentials(query.unwrap_or_default());
        let separator = if passed_on.is_empty() { "" } else { "&" };
        let base = &to.base;
        format!(
            "{base}{path}?{passed_on}{separator}{}={ticket}",
            viewer_ticket::QUERY_KEY
        )
    }

    /// Returns a ticket of this server.
    pub fn ticket(&self, destination: Destination<'_>, grant: &Grant) -> String {
        let secret = &self.redirecting.secret;
        viewer_ticket::issue(secret, destination, grant, calendar::now())
    }

    /// Returns what another server grants to a viewer that it sent here with `query`; `None` if there
    /// is no ticket, or one that is not valid for `destination`.
    pub fn admitted(&self, query: &str, destination: Destination<'_>) -> Option<Grant> {
        let ticket = viewer_ticket::in_query(query)?;
        let now = calendar::now();
        viewer_ticket::redeem(&self.redirecting.secret, destination, &ticket, now)
    }

    /// Returns the address over HTTP of another server, whose session a request names; `None` if this
    /// server is meant, the other one is lost, or nothing is known of it.
    pub fn http_of(&self, node: &str) -> Option<String> {
        if self.is_lost(node) {
            return None;
        }
        let core = self.core.lock();
        let mut nodes = core.node.known_nodes();
        let is_other = node != self.options.node.as_str();
        let found = nodes.find(|(name, _)| is_other && name.as_str() == node);
        found.and_then(|(_, record)| record.http.clone())
    }

    /// Returns the origins (RFC 6454) of the addresses over HTTP that servers have: this one, too, to which
    /// a page has another way if it comes through a balancer.
    pub fn origins(&self) -> Vec<String> {
        let core = self.core.lock();
        let nodes = core.node.known_nodes();
        let urls = nodes.filter_map(|(_, record)| url::Url::parse(record.http.as_deref()?).ok());
        let mut origins: Vec<_> = urls.map(|url| url.origin().ascii_serialization()).collect();
        drop(core);
        // A host of a URL may have characters that end a word of a policy, or an attribute.
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "-.:/[]_".contains(it);
        origins.retain(|it| it.chars().all(is_plain));
        origins.sort();
        origins.dedup();
        origins
    }

    /// Returns the name of this server, with which the identifiers of its sessions begin.
    pub fn node(&self) -> &str {
        self.options.node.as_str()
    }
}

/// Returns a query without what proves something to this server alone.
pub fn without_credentials(query: &str) -> String {
    let is_passed_on = |pair: &&str| {
        // Keys are read as servers read them, whose characters may be escaped.
        let key = url::form_urlencoded::parse(pair.as_bytes()).next();
        !key.is_none_or(|(key, _)| CREDENTIALS.contains(&&*key))
    };
    let pairs: Vec<_> = query.split('&').filter(is_passed_on).collect();
    pairs.join("&")
}

/// Forgets a viewer that waits for a decision when nobody waits any more.
pub(super) struct Forgotten<'a> {
    pub(super) member: &'a Member,
    pub(super) viewer: ViewerId,
}

impl Drop for Forgotten<'_> {
    fn drop(&mut self) {
        let Self { member, viewer } = self;
        if member.core.lock().placing.remove(viewer).is_some() {
            tracing::debug!("a viewer left before it was decided where it is served");
        }
    }
}

/// Returns the end of rights by the calendar.
pub fn by_calendar(until: Instant) -> std::time::SystemTime {
    calendar::now() + until.saturating_duration_since(Instant::now())
}

impl Core {
    /// Notes whether this server takes further viewers.
    pub(super) const fn note_headroom(&mut self, headroom: u32) {
        self.is_full = headroom == 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_passed_on_without_credentials_however_they_are_written() {
        for (query, expected) in [
            ("", ""),
            ("token=a", ""),
            ("a=1&token=s3cret&b=%20&jwt=x&ticket=y&&c", "a=1&b=%20&c"),
            ("%74oken=s3cret&to%6ben=s3cret&tokens=1", "tokens=1"),
        ] {
            assert_eq!(without_credentials(query), expected, "{query}");
        }
    }
}
