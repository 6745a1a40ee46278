//! State that all RTSP threads share, and handles to reach each thread.

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use glassline_access::auth::Users;
use glassline_cluster_member::Directory;
use glassline_egress::rtsp::{Groups, MulticastSender, StreamContext};
use glassline_events::failures::Failures;
use glassline_hub::Hub;
use glassline_ingest::LayerStreams;
use glassline_ingest::library::Library;
use glassline_playback::Playback;
use glassline_runtime::CommandSender;
use glassline_runtime::{ConnectionLimit, Current, Supervisor};
use tokio::sync::oneshot;

use super::command::{Command, Dismissal};
use super::counters::Counters;
use super::tunnels::Tunnels;
use super::view::ClientView;

/// Time that a stream's recent past is longer than the delay that a client may have.
pub(super) const LAG_KEPT: Duration = Duration::from_secs(1);

/// State that all threads share.
#[derive(Debug)]
pub struct Shared {
    pub(super) hub: Arc<Hub>,
    pub(super) users: Arc<Users>,
    pub(super) library: Option<Arc<Library>>,
    /// The recordings of streams.
    pub(super) playback: Arc<Playback>,
    /// Streams of other servers; `None` for a server alone.
    pub(super) directory: Option<Arc<Directory>>,
    pub(super) failures: Arc<Failures>,
    pub(super) supervisor: Arc<Supervisor>,
    /// The runtime for work that takes time.
    pub(super) runtime: tokio::runtime::Handle,
    /// Streams of single layers, which clients name.
    pub(super) layer_streams: LayerStreams,
    pub(super) context: StreamContext,
    /// The settings for connections that come from now on.
    pub(super) connection: Current<glassline_rtsp::server::Config>,
    pub(super) connections: ConnectionLimit,
    pub(super) tunnels: Arc<Tunnels>,
    pub(super) multicast: Option<Multicast>,
    pub(super) handles: OnceLock<Vec<Handle>>,
}

/// The multicast groups that tracks may be sent to.
#[derive(Debug)]
pub(super) struct Multicast {
    pub(super) groups: Arc<Groups>,
    /// Counters like those of an RTSP thread; the multicast thread counts only what it sends.
    pub(super) counters: Counters,
}

impl Multicast {
    pub(super) fn of(sender: &MulticastSender) -> Self {
        let groups = Arc::clone(sender.groups());
        let sent = Arc::clone(&groups.counters);
        Self {
            groups,
            counters: Counters {
                sent,
                ..Counters::default()
            },
        }
    }
}

impl Shared {
    /// Takes no new clients and ends all sessions.
    pub(crate) fn stop(&self) {
        if let Some(multicast) = &self.multicast {
            multicast.groups.stop();
        }
        for thread in self.threads() {
            if thread.send(Command::Stop).is_err() {
                tracing::warn!(
                    "an RTSP thread does not take the command to stop: its inbox is full; its clients get no goodbye"
                );
            }
        }
    }

    /// Sends a command to thread `thread`. If the thread's inbox is full, the command is lost and
    /// the waiting request times out.
    pub(super) fn send(&self, thread: usize, command: Command) {
        if let Some(thread) = self.threads().get(thread) {
            // A full inbox is counted by the handle.
            let _ = thread.send(command);
        }
    }

    /// Replaces the numbers of connections, for those that come from now on.
    pub(crate) fn set_connections(&self, max: usize, max_per_address: usize) {
        self.connections.set(max, max_per_address);
    }

    /// Replaces the limits on the delay of clients: `lag` behind the stream, and the time `stall` for
    /// which a client may take nothing. Those who are connected have the new ones within a second.
    pub(crate) fn set_delays(&self, lag: Duration, stall: Duration) {
        let mut timing = *self.context.timing.get();
        timing.budget.lag = lag;
        timing.budget.stall = stall;
        timing.bounds.lag = lag + LAG_KEPT;
        self.context.timing.replace(timing);
    }

    /// Offers clients that come from now on the kinds of logins that the users allow now.
    pub(crate) fn renew_logins(&self) {
        let mut connection = (*self.connection.get()).clone();
        let has_webhook = self.users.has_webhook();
        // The webhook gets the password itself, which Digest hides.
        connection.digest = !has_webhook;
        connection.basic_over_plain = has_webhook;
        self.connection.replace(connection);
    }

    /// Returns the counts of what was sent to multicast groups, if there are any.
    pub fn multicast(&self) -> Option<&Counters> {
        self.multicast.as_ref().map(|multicast| &multicast.counters)
    }

    /// Returns the handles of all RTSP threads.
    pub fn threads(&self) -> &[Handle] {
        self.handles.get().map_or(&[], Vec::as_slice)
    }
}

/// A handle to a running thread, for use from other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    inbox: CommandSender<Command>,
    counters: Arc<Counters>,
}

impl Handle {
    pub(super) fn new(inbox: CommandSender<Command>, counters: Arc<Counters>) -> Self {
        Self { inbox, counters }
    }

    /// Returns the thread's counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the clients that have a session; `None` if the thread's inbox is full or the thread
    /// has ended.
    pub async fn clients(&self) -> Option<Vec<ClientView>> {
        let (reply, views) = oneshot::channel();
        self.send(Command::List(reply)).ok()?;
        views.await.ok()
    }

    /// Ends the session of the client at `address` on behalf of an operator. Returns whether the
    /// thread has one; `None` if the thread's inbox is full or the thread has ended.
    pub async fn dismiss(&self, address: SocketAddr) -> Option<bool> {
        let was_there = self.end_session(address, true).await?;
        if was_there {
            tracing::info!(client = %address, "RTSP session ended by an operator");
        }
        Some(was_there)
    }

    /// Ends the session of the player at `address`, which another server of the cluster is to serve.
    /// RTSP 1.0 has a request for that, REDIRECT (RFC 2326, section 10.10), which no player has to answer.
    /// Every player notices a connection that ends. Returns whether the thread has such a session;
    /// `None` if the thread's inbox is full or the thread has ended.
    pub(crate) async fn send_elsewhere(&self, address: SocketAddr) -> Option<bool> {
        let was_there = self.end_session(address, false).await?;
        if was_there {
            tracing::debug!(client = %address, "RTSP player sent to another server of the cluster");
        }
        Some(was_there)
    }

    async fn end_session(&self, address: SocketAddr, by_operator: bool) -> Option<bool> {
        let (reply, was_there) = oneshot::channel();
        let dismissal = Dismissal {
            address,
            by_operator,
            reply,
        };
        self.send(Command::Dismiss(dismissal)).ok()?;
        was_there.await.ok()
    }

    pub(super) fn send(&self, command: Command) -> Result<(), Command> {
        self.inbox.send(command, &self.counters.inbox_full)
    }
}
