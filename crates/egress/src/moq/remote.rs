//! Streams of other servers, which are announced here and pulled for their first reader.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use glassline_hub::{Hub, Stream, StreamName};
use glassline_quic::moq::Origin;
use glassline_runtime::{TaskWaker, await_tracks};
use tokio::sync::watch;

use super::{Awaited, is_offered};

/// Pause after which a stream that could not be pulled may be asked for again. Readers see the end of the
/// broadcast meanwhile.
const PAUSE: Duration = Duration::from_secs(1);

/// Begins to pull a stream for a reader. Returns the stream to wait for, if there may be one.
pub(super) type Begin = Arc<dyn Fn(&StreamName) -> Option<Arc<Stream>> + Send + Sync>;

/// Streams that other servers of the cluster have, and that this one gets when somebody reads them.
#[derive(Clone)]
pub struct RemoteStreams {
    /// Names of the streams that other servers have now.
    pub names: watch::Receiver<Arc<BTreeSet<StreamName>>>,
    /// Begins to get a stream, and returns it as one of the hub.
    pub begin: Begin,
}

impl RemoteStreams {
    /// Returns the names that are not in `hub`, whose streams are offered as its own.
    pub(super) fn not_in(&self, hub: &Hub) -> Vec<StreamName> {
        let names = Arc::clone(&self.names.borrow());
        let absent = names
            .iter()
            .filter(|name| hub.stream(name.as_str()).is_none());
        absent.cloned().collect()
    }

    pub(super) fn has(&self, name: &StreamName) -> bool {
        self.names.borrow().contains(name)
    }
}

impl fmt::Debug for RemoteStreams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RemoteStreams").finish_non_exhaustive()
    }
}

/// Waits until the names of other servers' streams change; forever if there are none.
pub(super) async fn changed(remote: &mut Option<RemoteStreams>) {
    if let Some(remote) = remote
        && remote.names.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

/// Announces the stream `name` of another server, and waits until this server has it: a reader made it
/// come, or somebody else did. Returns `None` if no other server has the stream any more, or it could not
/// be pulled. `in_hub` is woken when the stream of this name in the hub changes.
pub(super) async fn await_stream(
    name: &StreamName,
    hub: &Hub,
    mut remote: RemoteStreams,
    origin: &Origin,
    in_hub: &TaskWaker,
) -> Option<(Arc<Stream>, Awaited)> {
    let announced = origin.announce(name.as_str()).inspect_err(
        |error| tracing::warn!(stream = %name, %error, "stream is not offered over QUIC"),
    );
    let broadcast = announced.ok()?;
    let pulled = loop {
        remote.names.mark_unchanged();
        if let Some(stream) = hub.stream(name.as_str()).filter(|it| is_offered(it)) {
            break Some((stream, None));
        }
        if !remote.has(name) {
            break None;
        }
        tokio::select! {
            () = in_hub.woken() => {}
            Ok(()) = remote.names.changed() => {}
            () = broadcast.reader_joined() => {
                // Readers that leave meanwhile end nothing: some ask twice for a catalog.
                let Some(stream) = (remote.begin)(name) else { break None };
                let demand = await_tracks(&stream).await;
                break Some((stream, Some(demand)));
            }
        }
    };
    match pulled {
        Some((stream, demand)) if !stream.tracks().is_empty() => {
            Some((stream, Awaited { broadcast, demand }))
        }
        _ => {
            broadcast.finish();
            tokio::time::sleep(PAUSE).await;
            None
        }
    }
}
