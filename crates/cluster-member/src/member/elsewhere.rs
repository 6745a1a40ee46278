//! The streams that other servers of the cluster have, for those that offer them to readers.

use std::collections::BTreeSet;
use std::sync::Arc;

use glassline_cluster::record::Kind;
use glassline_hub::StreamName;
use tokio::sync::watch;

use super::Member;

/// Most streams of other servers that are offered to readers. A reader that names another one as the path
/// of its session gets that one, too.
const OFFERED_MAX: usize = 1_000;

/// Names of streams that other servers have.
pub type Names = Arc<BTreeSet<StreamName>>;

/// The names that were told last about the streams of other servers.
#[derive(Debug, Default)]
pub(super) struct ToldNames {
    /// Revision of the core's records that was told.
    revision: u64,
    names: watch::Sender<Names>,
}

impl Member {
    /// Returns the names of the streams that other servers have, as far as this server knows them, up to
    /// 1,000; the receiver tells when they change. Rooms are not among them.
    pub fn streams_elsewhere(&self) -> watch::Receiver<Names> {
        self.core.lock().told.names.subscribe()
    }

    /// Tells the names again if records have changed.
    pub(super) fn tell_names(&self) {
        let mut core = self.core.lock();
        let revision = core.node.streams_revision();
        if revision == core.told.revision {
            return;
        }
        core.told.revision = revision;
        let own = core.node.id();
        let others = core.node.known_streams().filter(|(_, record)| {
            record.node != *own && matches!(record.kind, Kind::Pushed | Kind::Source)
        });
        let names = others.filter_map(|(name, _)| StreamName::parse(name.as_str()).ok());
        let names: Names = Arc::new(names.take(OFFERED_MAX).collect());
        core.told.names.send_if_modified(|told| {
            let has_changed = *told != names;
            *told = names;
            has_changed
        });
    }
}
