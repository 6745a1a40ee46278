//! Sessions of other servers of the cluster.

use std::sync::Arc;
use std::time::Instant;

use glassline_access::auth::Secret;
use glassline_cluster_member::{self as cluster, Directory, Identity, Provenances, TicketError};
use glassline_egress::{moq, units};
use glassline_hub::{Hub, StreamName};
use glassline_messages::MessageLinks;
use glassline_quic::Fingerprint;
use glassline_quic::moq::{Grant, NodeClock, NodeName, Origin, Refusal, Role, SessionRequest};
use glassline_runtime::{Part, Supervisor, calendar, spawn_kept};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::access::{Rights, Scope};
use super::account::{Reads, SessionEntry};
use super::messages::MessageService;
use super::{OpenedSession, Reason, SessionContext};

/// The parts of the server that its cluster needs.
#[derive(Clone, Debug)]
pub struct NodeServices {
    /// Name, secret and clock of this server in the cluster.
    pub identity: Identity,
    /// The ways that pulled streams have taken.
    pub provenances: Arc<Provenances>,
    /// Finds streams on further servers.
    pub directory: Arc<Directory>,
    /// Messages beside streams.
    pub messages: Arc<MessageLinks>,
}

/// The part that other servers read.
#[derive(Clone, Debug)]
pub(super) struct Nodes {
    origin: Origin,
    clock: NodeClock,
    secret: Secret,
    directory: Arc<Directory>,
    messages: MessageService,
}

impl Nodes {
    /// Begins to offer streams to other servers, if this server is in a cluster.
    pub(super) fn start(
        services: Option<NodeServices>,
        hub: &Arc<Hub>,
        supervisor: &Arc<Supervisor>,
        stopped: &watch::Receiver<bool>,
    ) -> Option<(Self, JoinHandle<()>)> {
        let NodeServices {
            identity,
            provenances,
            directory,
            messages,
        } = services?;
        let origin = Origin::with_deadline(moq::DEADLINE);
        let (finder, offered_by) = (Arc::clone(&directory), Arc::clone(&directory));
        let (owned_by, drawn_by) = (Arc::clone(&provenances), Arc::clone(&provenances));
        let offered = units::Services {
            hub: Arc::clone(hub),
            node: identity.name,
            clock: identity.clock,
            find: Arc::new(move |name, asking| finder.begin_for_nodes(name, asking)),
            provenance_of: Arc::new(move |name| provenances.of(name)),
            code_of: Arc::new(move |name| drawn_by.code_of(name)),
            has: Arc::new(move |name| offered_by.offers(name)),
            is_own: Arc::new(move |name| owned_by.is_claimed(name)),
            supervisor: Arc::clone(supervisor),
        };
        let (offering, until) = (origin.clone(), stopped.clone());
        let make = move || units::run(offering.clone(), offered.clone(), until.clone());
        let part = Part::Quic.task("QUIC: streams for servers");
        let task = spawn_kept(supervisor, part, stopped, make);
        let messages = MessageService {
            links: messages,
            hub: Arc::clone(hub),
            directory: Arc::clone(&directory),
            supervisor: Arc::clone(supervisor),
        };
        let nodes = Self {
            origin,
            clock: identity.clock,
            secret: identity.secret,
            directory,
            messages,
        };
        Some((nodes, task))
    }

    /// Returns what knows the streams of other servers.
    pub(super) const fn directory(&self) -> &Arc<Directory> {
        &self.directory
    }

    /// Returns what another server is granted.
    pub(super) fn grant(&self) -> Grant {
        Grant {
            read: Some(self.origin.clone()),
            node: Some(self.clock),
            ..Grant::default()
        }
    }
}

/// Returns the streams of other servers for the readers of this one, if the servers agree who has what.
pub(super) fn remote_streams(services: &NodeServices) -> Option<moq::RemoteStreams> {
    let directory = Arc::clone(&services.directory);
    let names = directory.member()?.streams_elsewhere();
    let begin = Arc::new(move |name: &StreamName| directory.begin_for_reader(name.as_str()));
    Some(moq::RemoteStreams { names, begin })
}

/// Begins to pull the stream that a client's request names by its path, if the client may read that stream,
/// and this server does not have it. The stream is announced to the client once it has come.
pub(super) fn begin_named(request: &SessionRequest, rights: &Rights, context: &SessionContext) {
    let Some(nodes) = &context.nodes else { return };
    let name = request.path();
    if request.role() == Role::Publisher
        || !rights.may_read(&context.users, name)
        || context.hub.stream(name).is_some()
    {
        return;
    }
    // It is searched for whether or not anybody waits for the answer.
    let _ = nodes.directory.begin(name, request.peer().ip());
}

/// Reads the ticket of another server from `query`. Returns the server; `None` if there is no ticket.
pub(super) fn verify(
    nodes: Option<&Nodes>,
    query: &str,
    own: Fingerprint,
) -> Option<Result<NodeName, TicketError>> {
    let secret = nodes.map(|nodes| &nodes.secret);
    cluster::verify(secret, query, own, calendar::now())
}

/// Opens the session of another server of the cluster, if its ticket is valid.
pub(super) async fn open(
    request: SessionRequest,
    verified: Result<NodeName, TicketError>,
    entry: &SessionEntry,
    context: &SessionContext,
    replaced: watch::Receiver<()>,
) -> Option<OpenedSession> {
    let peer = request.peer();
    let (node, nodes) = match (verified, &context.nodes) {
        (Ok(node), Some(nodes)) => (node, nodes),
        (verified, _) => {
            let why = verified.err().unwrap_or(TicketError::NoCluster);
            context.counters.refuse(Reason::Unauthorized);
            tracing::warn!(%peer, %why, "another server refused");
            request.refuse(Refusal::Unauthorized);
            return None;
        }
    };
    let folder = request.path().to_owned();
    let session = match request.grant(nodes.grant()).await {
        Ok(session) => Arc::new(session),
        Err(error) => {
            tracing::debug!(%peer, %node, %error, "session of another server ended during its handshake");
            return None;
        }
    };
    tracing::info!(%peer, %node, "another server reads streams");
    if let Some(requests) = session.take_message_requests() {
        tokio::spawn(nodes.messages.clone().serve(requests, node));
    }
    if let (Some(streams), Some(member)) =
        (session.take_request_streams(), nodes.directory.member())
    {
        tokio::spawn(Arc::clone(member).answer_requests(streams, session.local()));
    }
    let account = entry.open(&session, Reads::AsServer, Instant::now());
    Some(OpenedSession {
        session,
        account,
        rights: Rights {
            publish: Scope::None,
            read: None,
        },
        only: None,
        replaced,
        collection: None,
        folder,
        role: Role::Both,
    })
}
