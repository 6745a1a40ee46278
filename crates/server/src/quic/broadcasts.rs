//! The broadcasts that a session announces: each becomes a stream of the hub, if the session has
//! the right to publish that stream.

use std::sync::Arc;

use glassline_hub::{PublishError, State, StreamName};
use glassline_quic::moq::{Announcement, Ended, Refusal, Session, SubscribeError};
use tokio::task::JoinSet;

use super::access::Rights;
use super::{Reason, SessionContext, account};
use crate::auth::Access;
use crate::ingest::moq::{BroadcastError, BroadcastIngest};
use crate::runtime::Part;

/// Most broadcasts that one session may publish.
const BROADCASTS_MAX: usize = 16;

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
                    Err(_) => break (Refusal::Malformed, Reason::Frame),
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
        if account.broadcasts() >= BROADCASTS_MAX {
            break (Refusal::Full, Reason::Full);
        }
        let ingest = BroadcastIngest {
            hub: Arc::clone(&context.hub),
            session: Arc::clone(session),
            received_bytes: Arc::clone(account.received_bytes()),
            late_groups: Arc::clone(context.counters.late_groups()),
            name,
        };
        broadcasts.spawn(publish(ingest, Arc::clone(account), path));
    };
    let (refusal, reason) = fault;
    context.counters.refuse(reason);
    tracing::info!(peer = %session.peer(), reason = reason.as_str(), "QUIC session closed: {refusal}");
    session.abort(refusal);
    session.ended().await;
}

type Fatal = (Refusal, Reason);

/// Returns the name of the stream that a broadcast becomes.
fn named(
    folder: &str,
    path: &str,
    rights: &Rights,
    context: &SessionContext,
) -> Result<StreamName, Fatal> {
    let whole = if folder.is_empty() || path.is_empty() {
        format!("{folder}{path}")
    } else {
        format!("{folder}/{path}")
    };
    let shown: String = whole.chars().take(80).collect();
    let name = StreamName::parse(&whole).map_err(|error| {
        tracing::info!(path = shown, %error, "publisher refused: the announced name is not a valid stream name");
        (Refusal::Name, Reason::Name)
    })?;
    if !rights
        .publish
        .covers(&context.users, Access::Publish, &whole)
    {
        tracing::info!(stream = %name, "publisher refused: it has no right to publish this stream");
        return Err((Refusal::Unauthorized, Reason::Unauthorized));
    }
    let present = context.hub.lookup(&name).map_err(|error| {
        tracing::warn!(stream = %name, %error, "stream cannot be published");
        (Refusal::Full, Reason::Full)
    })?;
    if present.is_some_and(|stream| matches!(stream.state(), State::Live { .. })) {
        tracing::info!(stream = %name, "publisher refused: the stream has a source already");
        return Err((Refusal::Busy, Reason::Busy));
    }
    Ok(name)
}

/// Publishes a broadcast until it ends. Returns the reason to disconnect its publisher, if there is
/// one.
async fn publish(
    ingest: BroadcastIngest,
    account: Arc<account::Account>,
    path: String,
) -> Option<Fatal> {
    let stream = ingest.name.as_str().to_owned();
    account.publishes(&stream, true);
    let end = ingest.run(&path).await;
    account.publishes(&stream, false);
    let fault = end.err()?;
    let Some(reason) = reason_of(&fault) else {
        tracing::info!(stream, %fault, "publisher left");
        return None;
    };
    tracing::warn!(stream, peer = %ingest.session.peer(), %fault, "publisher disconnected");
    let refusal = match fault {
        BroadcastError::Publish(PublishError::Busy { .. }) => Refusal::Busy,
        BroadcastError::Create(_) => Refusal::Full,
        _ => Refusal::Malformed,
    };
    Some((refusal, reason))
}

/// Returns the reason that the end of a broadcast is counted under; `None` for an ordinary end.
fn reason_of(fault: &BroadcastError) -> Option<Reason> {
    Some(match fault {
        BroadcastError::Subscribe(SubscribeError::Ended(Ended::Protocol(_))) => Reason::Frame,
        BroadcastError::Subscribe(SubscribeError::Ended(_) | SubscribeError::PublishOnly) => {
            return None;
        }
        BroadcastError::Subscribe(SubscribeError::Frame(_)) => Reason::Frame,
        BroadcastError::Subscribe(_) => Reason::Catalog,
        BroadcastError::Silent | BroadcastError::NoKeyframe => Reason::Silent,
        BroadcastError::Publish(PublishError::Busy { .. }) => Reason::Busy,
        BroadcastError::Publish(_) => Reason::Catalog,
        BroadcastError::Create(_) => Reason::Full,
    })
}
