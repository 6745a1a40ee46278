//! Work that would block a polling thread for too long: it is done on other threads, and the result
//! comes back as a command.

use std::future::Future;
use std::sync::Arc;

use glassline_access::auth::LoginError;
use glassline_cluster_member::ClaimRefusal;
use glassline_hub::{Stream, StreamName};
use glassline_ingest::NameClaim;
use glassline_rtsp::sdp::Description;
use glassline_rtsp::server::{Answer, Refusal, RequestId};
use glassline_runtime::{Key, Part, await_tracks};

use super::access;
use super::awaited_work::AwaitedWork;
use super::clients::Clients;
use super::command::{AwaitedStream, ClaimOutcome, Command, Found, LookupResult};
use super::look_back::LookBack;
use super::past;
use super::pending_request::{Credentials, PendingRequest};
use super::redirect::Placing;
use super::shared::Shared;

/// Starts such work for the clients of one thread.
#[derive(Debug)]
pub(super) struct Background {
    shared: Arc<Shared>,
    /// Index of the thread that the results go to.
    thread: usize,
}

impl Background {
    pub(super) fn new(shared: Arc<Shared>, thread: usize) -> Self {
        Self { shared, thread }
    }

    /// Checks a password or a token, or asks the webhook, and sends the answer whether the client has
    /// the right.
    pub(super) fn verify(&self, client: Key, id: RequestId, credentials: Credentials) {
        let (shared, thread) = (Arc::clone(&self.shared), self.thread);
        self.shared.runtime.spawn(async move {
            let users = &shared.users;
            let Credentials {
                mut login,
                check,
                access,
                path,
            } = credentials;
            let verified = access::verify(users, &mut login, check);
            let verified = shared.supervisor.catch_task(Part::Rtsp, verified).await;
            // A client that waits for its answer gets one even after a panic.
            let user = verified.unwrap_or(Err(LoginError::Wrong));
            let answer = access::by_name(users, user, access, &path);
            let answer = Box::new(access::concluded(users, login, &path, answer));
            shared.send(thread, Command::Answer { client, id, answer });
        });
    }

    /// Looks `path` up in the media folder, if there is one.
    pub(super) fn look_up(
        &self,
        client: Key,
        id: RequestId,
        path: String,
        request: PendingRequest,
    ) {
        let Some(library) = self.shared.library.clone() else {
            return;
        };
        let (shared, thread) = (Arc::clone(&self.shared), self.thread);
        self.shared.runtime.spawn(async move {
            let found = library.find(&path);
            let found = shared.supervisor.catch_task(Part::Library, found).await;
            let media_file = match found.unwrap_or(Ok(None)) {
                Ok(media_file) => media_file.ok_or(Refusal::NotFound),
                Err(error) => {
                    // The library has told of the file.
                    tracing::debug!(%error, "a file that an RTSP client asked for cannot be played");
                    Err(Refusal::UnsupportedMedia)
                }
            };
            let found = LookupResult {
                client,
                id,
                request,
                found: media_file.map(Found::File).map_err(Answer::Refused),
            };
            shared.send(thread, Command::Found(Box::new(found)));
        });
    }

    /// Looks for the recordings that a request is for.
    pub(super) fn look_back(&self, client: Key, id: RequestId, back: LookBack) {
        let (shared, thread) = (Arc::clone(&self.shared), self.thread);
        self.shared.runtime.spawn(async move {
            let LookBack { path, at, request } = back;
            let finding = past::find(&shared, &path, at, request.layer());
            let found = shared.supervisor.catch_task(Part::Rtsp, finding).await;
            let found = found.unwrap_or(Err(Answer::Refused(Refusal::Internal)));
            let found = LookupResult {
                client,
                id,
                request,
                found: found.map(Box::new).map(Found::Past),
            };
            shared.send(thread, Command::Found(Box::new(found)));
        });
    }

    /// Claims the name of an announced stream among several servers.
    pub(super) fn claim(
        &self,
        client: Key,
        id: RequestId,
        name: StreamName,
        description: Box<Description>,
    ) {
        let Some(directory) = self.shared.directory.clone() else {
            return;
        };
        let (shared, thread) = (Arc::clone(&self.shared), self.thread);
        self.shared.runtime.spawn(async move {
            let claiming = directory.claim(&name, false);
            let claimed = shared.supervisor.catch_task(Part::Rtsp, claiming).await;
            let claim = match claimed {
                Ok(Ok(claim)) => Ok(claim.map(|claim| Box::new(claim) as Box<dyn NameClaim>)),
                Ok(Err(ClaimRefusal::Taken { .. })) => Err(Answer::Refused(Refusal::Busy)),
                Ok(Err(
                    refusal @ (ClaimRefusal::Configured { .. } | ClaimRefusal::AtSource { .. }),
                )) => Err(Answer::Explained {
                    refusal: Refusal::Forbidden,
                    why: refusal.to_string(),
                }),
                _ => Err(Answer::Refused(Refusal::NotEnoughBandwidth)),
            };
            let claimed = ClaimOutcome {
                client,
                id,
                name,
                description,
                claim,
            };
            shared.send(thread, Command::Claimed(Box::new(claimed)));
        });
    }

    /// Asks which server of the cluster a client is to play from. Where that is this one, the client
    /// waits for the stream.
    pub(super) fn place(
        &self,
        clients: &mut Clients,
        client: Key,
        id: RequestId,
        placing: Placing,
    ) {
        let (shared, thread) = (Arc::clone(&self.shared), self.thread);
        self.run_for(clients, client, async move {
            let placed = placing.place(&shared);
            let placed = shared.supervisor.catch_task(Part::Rtsp, placed).await;
            let answer = match placed {
                Ok(Ok(demand)) => {
                    let awaited = AwaitedStream {
                        client,
                        id,
                        request: placing.request(),
                        demand,
                    };
                    return shared.send(thread, Command::Awaited(Box::new(awaited)));
                }
                Ok(Err(answer)) => answer,
                Err(_) => Answer::Refused(Refusal::Internal),
            };
            let answer = Box::new(answer);
            shared.send(thread, Command::Answer { client, id, answer });
        });
    }

    /// Waits until `stream` has tracks, if they come because somebody asks.
    pub(super) fn await_tracks(
        &self,
        clients: &mut Clients,
        client: Key,
        id: RequestId,
        stream: Arc<Stream>,
        request: PendingRequest,
    ) {
        let (shared, thread) = (Arc::clone(&self.shared), self.thread);
        self.run_for(clients, client, async move {
            let demand = await_tracks(&stream).await;
            let awaited = AwaitedStream {
                client,
                id,
                request,
                demand,
            };
            shared.send(thread, Command::Awaited(Box::new(awaited)));
        });
    }

    /// Does work for a client's request until the client is gone. A client has one request at a time
    /// that waits.
    fn run_for(
        &self,
        clients: &mut Clients,
        client: Key,
        work: impl Future<Output = ()> + Send + 'static,
    ) {
        let work = AwaitedWork::of(&self.shared.runtime.spawn(work));
        if let Some(client) = clients.delivery.clients.get_mut(client) {
            client.awaited = Some(work);
        }
    }
}
