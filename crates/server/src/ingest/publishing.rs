use std::time::Instant;

use glassline_hub::{CreateError, Hub, PublishError, Publisher, StreamName};
use glassline_media::Track;

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
