//! Players between the servers of a cluster: sent to the server that has their stream by status 302,
//! and let in where another one sent them.

use std::net::IpAddr;
use std::sync::Arc;

use glassline_cluster::Access;
use glassline_cluster_member::{Destination, Grant, Member, by_calendar, in_query};
use glassline_hub::Demand;
use glassline_rtsp::mikey::Cipher;
use glassline_rtsp::server::{Answer, Refusal};
use glassline_runtime::await_tracks;

use super::client_scope::ClientScope;
use super::pending_request::PendingRequest;
use super::shared::Shared;
use super::wished_layer::WishedLayer;

/// A DESCRIBE whose answer depends on where the stream is.
#[derive(Debug)]
pub(super) struct Placing {
    path: String,
    query: Option<String>,
    cipher: Option<Cipher>,
    access: Access,
    user: Option<String>,
    client: IpAddr,
}

/// Returns the user whom another server let play the stream `path` and sent here with `query`; `None`
/// if there is no valid ticket.
pub(super) fn admitted(shared: &Shared, path: &str, query: Option<&str>) -> Option<Option<String>> {
    let grant = member(shared)?.admitted(query?, Destination::Stream(path))?;
    Some(grant.user)
}

fn member(shared: &Shared) -> Option<&Arc<Member>> {
    shared.directory.as_ref()?.member()
}

impl Placing {
    /// Returns the question for a client that asks for `path` with `query`; `None` if this server
    /// answers it in any case: it has the stream, or another one sent the client here.
    pub(super) fn new(
        shared: &Shared,
        scope: &ClientScope<'_>,
        path: &str,
        query: Option<&str>,
        cipher: Option<Cipher>,
    ) -> Option<Self> {
        let member = member(shared)?;
        let client = &scope.client;
        // A player within a tunnel of HTTP reaches its server in no other way.
        let must_stay = client.cookie.is_some() || query.and_then(in_query).is_some();
        if must_stay {
            return None;
        }
        if !member.may_send_away(path) {
            member.expect_viewer(path);
            return None;
        }
        Some(Self {
            path: path.to_owned(),
            query: query.map(str::to_owned),
            cipher,
            access: match client.wire.is_secure() {
                true => Access::Rtsps,
                false => Access::Rtsp,
            },
            user: client.connection.user().map(str::to_owned),
            client: client.peer.ip(),
        })
    }

    /// Returns what keeps the stream once it has tracks here, or else the answer.
    pub(super) async fn place(&self, shared: &Shared) -> Result<Demand, Answer> {
        if let Some(location) = self.elsewhere(shared).await {
            return Err(Answer::Moved { location });
        }
        let directory = shared.directory.as_ref();
        let pulled = || directory?.begin(&self.path, self.client);
        let stream = shared.hub.stream(&self.path).or_else(pulled);
        let stream = stream.ok_or(Answer::Refused(Refusal::NotFound))?;
        Ok(await_tracks(&stream).await)
    }

    async fn elsewhere(&self, shared: &Shared) -> Option<String> {
        let member = member(shared)?;
        let to = member.elsewhere(&self.path, self.access).await?;
        let user = self.user.as_deref();
        let until = user.and_then(|user| shared.users.until(user));
        let grant = Grant {
            user: self.user.clone(),
            until: until.map(by_calendar),
        };
        // Names of streams need no escape in a path.
        let path = format!("/{}", self.path);
        let (query, destination) = (self.query.as_deref(), Destination::Stream(&self.path));
        Some(member.invite(&to, &path, query, destination, &grant))
    }

    /// Returns the request to go on with once the stream has tracks here.
    pub(super) fn request(&self) -> PendingRequest {
        PendingRequest::Describe {
            cipher: self.cipher,
            layer: WishedLayer::of(self.query.as_deref()),
        }
    }
}
