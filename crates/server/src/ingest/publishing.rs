use std::time::{Duration, Instant};

use glassline_hub::{CreateError, Hub, PublishError, Publisher, StreamName};
use glassline_media::Track;

/// Longest time without a keyframe. Without keyframes no new viewer can start to watch.
pub(super) const KEYFRAME: Duration = Duration::from_secs(20);

/// The reason why a publisher of packets is disconnected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Ended {
    /// The connection is kept, but no packets arrive.
    #[error("no packet for {} s", time.as_secs())]
    Silent {
        /// Time without packets.
        time: Duration,
    },
    /// No keyframe came that viewers could begin with.
    #[error("no keyframe with parameter sets within {} s", KEYFRAME.as_secs())]
    NoKeyframe,
    /// The stream has another publisher, or the tracks changed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The hub got as many streams as configured since the offer or announcement.
    #[error(transparent)]
    Create(#[from] CreateError),
}

/// Publishes `tracks` as the stream `name`, which is created if needed. Returns the publisher.
///
/// # Errors
/// Returns the hub's error if there are too many streams, or if the stream has a source already.
pub(super) fn go_live<E: From<CreateError> + From<PublishError>>(
    hub: &Hub,
    name: &StreamName,
    tracks: &[Track],
    now: Instant,
) -> Result<Publisher, E> {
    let stream = hub.admit(name.clone())?;
    let publisher = stream.publish(tracks.to_vec(), now)?;
    tracing::info!(stream = %name, tracks = tracks.len(), "publisher live");
    Ok(publisher)
}

/// Publishes `tracks` as the stream `name`, as [`go_live`] does, in place of the present publisher.
///
/// # Errors
/// Returns the hub's error if there are too many streams.
pub(super) fn take_over<E: From<CreateError> + From<PublishError>>(
    hub: &Hub,
    name: &StreamName,
    tracks: &[Track],
    now: Instant,
) -> Result<Publisher, E> {
    let stream = hub.admit(name.clone())?;
    let publisher = stream.take_over(tracks.to_vec(), now)?;
    tracing::info!(stream = %name, tracks = tracks.len(), "publisher live, in place of another");
    Ok(publisher)
}
