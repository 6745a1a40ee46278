use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_hub::{CreateError, Hub, PublishError, Publisher, SourceNote, Stream, StreamName};
use glassline_media::Track;

use super::lack::Lack;
use super::oversized::FRAME_MIB_MAX;

/// Longest time without a keyframe. Without keyframes no new viewer can start to watch.
pub(super) const KEYFRAME: Duration = Duration::from_secs(20);

/// The right of a publisher to a stream's name among several servers, given back when it is dropped.
pub trait NameClaim: fmt::Debug + Send + Sync {
    /// Returns whether another publisher has the name now, so that this one must leave.
    fn is_lost(&self) -> bool;
}

/// The reason why a publisher of packets is disconnected.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// The connection is kept, but no packets arrive.
    #[error("no packet for {} s", time.as_secs())]
    Silent {
        /// Time without packets.
        time: Duration,
    },
    /// No keyframe came that viewers could begin with.
    #[error("no keyframe with parameter sets within {} s{lack}", KEYFRAME.as_secs())]
    NoKeyframe {
        /// The lack of the publisher.
        lack: Lack,
    },
    /// No keyframe came that viewers could begin with, and frames were too large to be received.
    #[error(
        "no keyframe of at most {FRAME_MIB_MAX} MiB within {} s: {dropped} larger frames were \
         dropped",
        KEYFRAME.as_secs()
    )]
    FramesTooLarge {
        /// Frames that were dropped because they are too large.
        dropped: u64,
    },
    /// The stream has another publisher, or the tracks changed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The hub got as many streams as configured since the offer or announcement.
    #[error(transparent)]
    Create(#[from] CreateError),
}

/// The hub's reason not to take a source or its unit.
#[derive(Debug, thiserror::Error)]
pub enum HubRefusal {
    /// The hub has as many streams as configured.
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The stream has another source, or the tracks changed.
    #[error(transparent)]
    Publish(#[from] PublishError),
}

impl From<HubRefusal> for Ended {
    fn from(refusal: HubRefusal) -> Self {
        match refusal {
            HubRefusal::Create(error) => Self::Create(error),
            HubRefusal::Publish(error) => Self::Publish(error),
        }
    }
}

impl Ended {
    /// Returns why a publisher of which `dropped` frames were too large never began.
    pub(super) const fn without_keyframe(dropped: u64, lack: Lack) -> Self {
        match dropped {
            0 => Self::NoKeyframe { lack },
            dropped => Self::FramesTooLarge { dropped },
        }
    }
}

/// Publishes `tracks` as the stream `name`, which is created if needed. Returns the publisher, whose
/// `note` says how the media comes. One that has a claim to the name takes over from whatever is
/// published, which is another server's.
///
/// # Errors
/// Returns the hub's error if there are too many streams, if the stream has a source already, or if the
/// name is that of a camera or file of the server.
pub(super) fn go_live<E: From<CreateError> + From<PublishError>>(
    hub: &Hub,
    (name, claim): (&StreamName, Option<&dyn NameClaim>),
    (note, tracks): (SourceNote, &[Track]),
    now: Instant,
) -> Result<Publisher, E> {
    if let Some(claim) = claim {
        check_claim(name, Some(claim))?;
        return take_over(hub, name, (note, tracks), now);
    }
    let stream = admit::<E>(hub, name)?;
    let publisher = stream.publish_as(note, tracks.to_vec(), now)?;
    tracing::info!(stream = %name, tracks = tracks.len(), "publisher live");
    Ok(publisher)
}

/// Returns the stream `name`, which is created if needed, for a client that publishes it.
fn admit<E: From<CreateError> + From<PublishError>>(
    hub: &Hub,
    name: &StreamName,
) -> Result<Arc<Stream>, E> {
    let stream = hub.admit(name.clone())?;
    stream.check_client()?;
    Ok(stream)
}

/// Checks that a publisher still has its name.
///
/// # Errors
/// [`PublishError::Replaced`] if another publisher has it, at another server perhaps.
pub(super) fn check_claim(
    name: &StreamName,
    claim: Option<&dyn NameClaim>,
) -> Result<(), PublishError> {
    match claim.is_some_and(NameClaim::is_lost) {
        true => Err(PublishError::Replaced { name: name.clone() }),
        false => Ok(()),
    }
}

/// Publishes `tracks` as the stream `name`, as [`go_live`] does, in place of the present publisher.
///
/// # Errors
/// Returns the hub's error if there are too many streams, or if the name is that of a camera or file of
/// the server.
pub(super) fn take_over<E: From<CreateError> + From<PublishError>>(
    hub: &Hub,
    name: &StreamName,
    (note, tracks): (SourceNote, &[Track]),
    now: Instant,
) -> Result<Publisher, E> {
    let stream = admit::<E>(hub, name)?;
    let is_replaced = !stream.is_source_away();
    let publisher = stream.take_over(note, tracks.to_vec(), now)?;
    tracing::info!(stream = %name, tracks = tracks.len(), is_replaced, "publisher live");
    Ok(publisher)
}
