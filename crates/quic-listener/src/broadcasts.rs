//! The broadcasts that a session announces: each becomes a stream of the hub, if the session has
//! the right to publish that stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_access::auth::Access;
use glassline_cluster_member::ClaimRefusal;
use glassline_hub::{PublishError, State, StreamName};
use glassline_ingest::NameClaim;
use glassline_ingest::moq::{BroadcastError, BroadcastIngest};
use glassline_ingest::stream_names;
use glassline_quic::moq::{Announcement, Ended, Refusal, Session, SubscribeError};
use glassline_runtime::Part;
use tokio::task::JoinSet;

use super::access::Rights;
use super::nodes::Nodes;
use super::{Reason, SessionContext, account};

/// Most broadcasts that one session may publish.
const BROADCASTS_MAX: usize = 16;

/// Time without media after which a publisher gives its stream to another one that has the right to
/// publish. QUIC notices only after tens of seconds that the program at the other end was killed or
/// has another address, and that program has usually started again by then.
const SILENCE: Duration = Duration::from_secs(2);

/// Longest time for the end of a publisher that is replaced, and the interval at which the end is
/// looked for.
const HANDOVER: Duration = Duration::from_secs(1);
const HANDOVER_CHECK: Duration = Duration::from_millis(10);

/// Publishes the broadcasts of a session until it does something that it may not.
pub(super) async fn publish_all(
    session: &Arc<Session>,
    account: &Arc<account::Account>,
    rights: &Rights,
    folder: &str,
    context: &SessionContext,
) {
    let mut announced = session.announced();
    let mut broadcasts = JoinSet::new();
    let fault = loop {
        let announcement = tokio::select! {
            announcement = announced.next() => announcement,
            Some(ended) = broadcasts.join_next() => {
                context.supervisor.note_end(Part::Quic, &ended);
                match ended {
                    Ok(Some(fault)) => break fault,
                    Ok(None) => continue,
                    // The session's data led to a panic: all of the session goes.
                    Err(_) => break Fault::new(folder, Refusal::Malformed, Reason::Frame),
                }
            }
        };
        let Some(Announcement::Began(path)) = announcement else {
            match announcement {
                // The session only reads, or is about to end.
                None => std::future::pending().await,
                _ => continue,
            }
        };
        let name = match named(folder, &path, rights, context) {
            Ok(name) => name,
            Err(fault) => break fault,
        };
        let claim = match claim(&name, context).await {
            Ok(claim) => claim,
            Err(fault) => break fault,
        };
        if account.broadcasts() >= BROADCASTS_MAX {
            let why = format!("a session publishes at most {BROADCASTS_MAX} streams");
            break Fault::of(name.as_str(), Refusal::Full, Reason::Full, why);
        }
        // First the list, then the right: users may have been replaced while the stream was busy,
        // and whoever withdraws rights looks at the list.
        account.publishes(name.as_str(), true);
        if let Err(fault) = check_right(&name, rights, context) {
            break fault;
        }
        let ingest = BroadcastIngest {
            hub: Arc::clone(&context.hub),
            session: Arc::clone(session),
            received_bytes: Arc::clone(account.received_bytes()),
            late_groups: Arc::clone(context.counters.late_groups()),
            name,
            claim: claim.map(Arc::from),
            supervisor: Arc::clone(&context.supervisor),
        };
        broadcasts.spawn(publish(ingest, Arc::clone(account), path));
    };
    context.note_disconnected(session.peer(), &fault);
    let Fault {
        refusal, reason, ..
    } = fault;
    context.counters.refuse(reason);
    tracing::info!(peer = %session.peer(), reason = reason.as_str(), "QUIC session closed: {refusal}");
    session.abort(refusal);
    session.ended().await;
}

/// The reason why a publisher is disconnected.
#[derive(Debug)]
pub(super) struct Fault {
    /// Stream that it wanted to publish, as far as that is known.
    pub(super) stream: String,
    pub(super) refusal: Refusal,
    pub(super) reason: Reason,
    /// The reason why it could not publish, for people; `None` if the publisher was live, which is no
    /// failure to connect.
    pub(super) why: Option<String>,
}

impl Fault {
    fn new(stream: &str, refusal: Refusal, reason: Reason) -> Self {
        Self {
            stream: stream.to_owned(),
            refusal,
            reason,
            why: None,
        }
    }

    fn of(stream: &str, refusal: Refusal, reason: Reason, why: String) -> Self {
        Self {
            why: Some(why),
            ..Self::new(stream, refusal, reason)
        }
    }
}

/// Returns the name of the stream that a broadcast becomes, if the session may publish it.
fn named(
    folder: &str,
    path: &str,
    rights: &Rights,
    context: &SessionContext,
) -> Result<StreamName, Fault> {
    let whole = if folder.is_empty() || path.is_empty() {
        format!("{folder}{path}")
    } else {
        format!("{folder}/{path}")
    };
    let shown: String = whole.chars().take(80).collect();
    let name = stream_names::parse(&whole).map_err(|error| {
        tracing::info!(path = shown, %error, "publisher refused: the announced name is not a valid stream name");
        Fault::of(&shown, Refusal::Name, Reason::Name, error.to_string())
    })?;
    check_right(&name, rights, context)?;
    let configured = context.hub.check_client(&name);
    configured.map_err(|error| configured_name(&name, &error))?;
    Ok(name)
}

/// Returns why a publisher is disconnected under the name of a camera or file.
fn configured_name(name: &StreamName, why: &dyn std::fmt::Display) -> Fault {
    tracing::info!(stream = %name, "publisher refused: {why}");
    let why = why.to_string();
    Fault::of(name.as_str(), Refusal::Configured, Reason::Name, why)
}

fn check_right(name: &StreamName, rights: &Rights, context: &SessionContext) -> Result<(), Fault> {
    let users = &context.users;
    if rights.publish.covers(users, Access::Publish, name.as_str()) {
        return Ok(());
    }
    tracing::info!(stream = %name, "publisher refused: it has no right to publish this stream");
    let why = "it has no right to publish this stream".to_owned();
    Err(Fault::of(
        name.as_str(),
        Refusal::Unauthorized,
        Reason::Unauthorized,
        why,
    ))
}

/// Makes sure that the stream `name` has no other publisher. Returns the claim to the name where
/// several servers agree on it.
async fn claim(
    name: &StreamName,
    context: &SessionContext,
) -> Result<Option<Box<dyn NameClaim>>, Fault> {
    let directory = context.nodes.as_ref().map(Nodes::directory);
    let Some(directory) = directory.filter(|it| it.member().is_some()) else {
        return find_free(name, context).await.map(|()| None);
    };
    // What the hub has may be another server's; only a silent publisher of this one makes way here.
    let accounts = &context.accounts;
    if accounts
        .silent_publisher(name.as_str(), SILENCE, Instant::now())
        .is_some()
    {
        find_free(name, context).await?;
    }
    match directory.claim(name, false).await {
        Ok(Some(claim)) => Ok(Some(Box::new(claim) as Box<dyn NameClaim>)),
        Ok(None) => find_free(name, context).await.map(|()| None),
        Err(refusal @ (ClaimRefusal::Configured { .. } | ClaimRefusal::AtSource { .. })) => {
            Err(configured_name(name, &refusal))
        }
        Err(refusal) => {
            tracing::info!(stream = %name, %refusal, "publisher refused");
            let why = refusal.to_string();
            Err(Fault::of(name.as_str(), Refusal::Busy, Reason::Busy, why))
        }
    }
}

/// Checks that the stream `name` has no source. A source over QUIC that is silent is disconnected in
/// favor of the new one.
async fn find_free(name: &StreamName, context: &SessionContext) -> Result<(), Fault> {
    let present = context.hub.lookup(name).map_err(|error| {
        tracing::warn!(stream = %name, %error, "stream cannot be published");
        Fault::of(
            name.as_str(),
            Refusal::Full,
            Reason::Full,
            error.to_string(),
        )
    })?;
    let is_live = || {
        let state = present.as_ref().map(|stream| stream.state());
        matches!(state, Some(State::Live { .. }))
    };
    if !is_live() {
        return Ok(());
    }
    let accounts = &context.accounts;
    if let Some(former) = accounts.silent_publisher(name.as_str(), SILENCE, Instant::now()) {
        tracing::info!(stream = %name, peer = %former.peer(), "silent publisher disconnected: another one publishes the stream");
        former.abort(Refusal::Busy);
        let freed = async {
            while is_live() {
                tokio::time::sleep(HANDOVER_CHECK).await;
            }
        };
        if tokio::time::timeout(HANDOVER, freed).await.is_ok() {
            return Ok(());
        }
    }
    tracing::info!(stream = %name, "publisher refused: the stream has a source already");
    let error = PublishError::Busy { name: name.clone() };
    Err(Fault::of(
        name.as_str(),
        Refusal::Busy,
        Reason::Busy,
        error.to_string(),
    ))
}

/// Publishes a broadcast until it ends. Returns the reason to disconnect its publisher, if there is
/// one.
async fn publish(
    ingest: BroadcastIngest,
    account: Arc<account::Account>,
    path: String,
) -> Option<Fault> {
    let stream = ingest.name.as_str().to_owned();
    let end = ingest.run(&path).await;
    account.publishes(&stream, false);
    let fault = end.err()?;
    let Some(reason) = reason_of(&fault) else {
        tracing::info!(stream, %fault, "publisher left");
        return None;
    };
    tracing::warn!(stream, peer = %ingest.session.peer(), %fault, "publisher disconnected");
    let refusal = match fault {
        BroadcastError::Publish(PublishError::Busy { .. } | PublishError::Replaced { .. }) => {
            Refusal::Busy
        }
        BroadcastError::Publish(PublishError::Configured { .. }) => Refusal::Configured,
        BroadcastError::Create(_) => Refusal::Full,
        _ => Refusal::Malformed,
    };
    let was_live = matches!(
        fault,
        BroadcastError::Silent
            | BroadcastError::Panicked(_)
            | BroadcastError::Subscribe(SubscribeError::Frame(_) | SubscribeError::Ended(_))
    );
    Some(Fault {
        why: (!was_live).then(|| fault.to_string()),
        ..Fault::new(&stream, refusal, reason)
    })
}

/// Returns the reason that the end of a broadcast is counted under; `None` for an ordinary end.
fn reason_of(fault: &BroadcastError) -> Option<Reason> {
    Some(match fault {
        BroadcastError::Subscribe(SubscribeError::Ended(Ended::Protocol(_))) => Reason::Frame,
        BroadcastError::Subscribe(SubscribeError::Ended(_) | SubscribeError::PublishOnly) => {
            return None;
        }
        BroadcastError::Subscribe(SubscribeError::Frame(_)) | BroadcastError::Panicked(_) => {
            Reason::Frame
        }
        BroadcastError::Subscribe(_) => Reason::Catalog,
        BroadcastError::Silent | BroadcastError::NoKeyframe => Reason::Silent,
        BroadcastError::Publish(PublishError::Busy { .. } | PublishError::Replaced { .. }) => {
            Reason::Busy
        }
        BroadcastError::Publish(PublishError::Configured { .. }) => Reason::Name,
        BroadcastError::Publish(_) => Reason::Catalog,
        BroadcastError::Create(_) => Reason::Full,
    })
}
