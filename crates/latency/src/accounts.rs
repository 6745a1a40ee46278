//! What is known of the delays, paths and data channels of one stream's sessions.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use glassline_media::StageTable;
use glassline_runtime::{SessionId, shrink};
use parking_lot::{Mutex, MutexGuard};

use super::account::{Account, Joined, STAGE_WINDOW, Window};
use super::data::DataView;
use super::everyone::Everyone;
use super::path::{PathView, SelectedPath};

/// The accounts of one stream. Media threads write the connections, pages the rest: each has locks of
/// its own, held for an insertion or a copy.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// Tables that egress threads write, by their numbers.
    shards: Mutex<HashMap<usize, Arc<Mutex<StageTable>>>>,
    connections: Mutex<Connections>,
    viewers: Mutex<HashMap<SessionId, Arc<Mutex<Account>>>>,
    /// The sum of all reports, once there was one.
    everyone: Mutex<Option<Everyone>>,
}

/// The news of media threads about their sessions.
#[derive(Debug, Default)]
pub(super) struct Connections {
    paths: HashMap<SessionId, (Instant, PathView)>,
    pub(super) selected: HashMap<SessionId, SelectedPath>,
    pub(super) data: HashMap<SessionId, DataView>,
}

/// Facts about a viewer.
#[derive(Debug)]
pub(super) struct Viewer {
    /// First letters of the session's name.
    pub(super) name: String,
    pub(super) window: Window,
    pub(super) path: Option<PathView>,
}

impl Viewer {
    fn of(session: &SessionId, window: Window) -> Self {
        Self {
            name: session.beginning().to_owned(),
            window,
            path: None,
        }
    }
}

impl Connections {
    /// Stores the state of the path to a viewer at `now`.
    pub(super) fn show_path(&mut self, viewer: &SessionId, view: PathView, now: Instant) {
        self.paths.insert(viewer.clone(), (now, view));
    }

    /// Returns the state of the path to a viewer under congestion control, unless it is old.
    pub(super) fn path(&self, viewer: &SessionId, now: Instant) -> Option<&PathView> {
        let (at, path) = self.paths.get(viewer)?;
        (now.saturating_duration_since(*at) <= STAGE_WINDOW).then_some(path)
    }

    fn is_empty(&self) -> bool {
        self.paths.is_empty() && self.selected.is_empty() && self.data.is_empty()
    }

    fn forget(&mut self, session: &SessionId) {
        self.paths.remove(session);
        self.selected.remove(session);
        self.data.remove(session);
        shrink(&mut self.paths);
        shrink(&mut self.selected);
        shrink(&mut self.data);
    }
}

impl Accounts {
    /// Returns the table of stage delays that shard `shard` writes.
    pub(super) fn stages(&self, shard: usize) -> Arc<Mutex<StageTable>> {
        let mut shards = self.shards.lock();
        let table = shards
            .entry(shard)
            .or_insert_with(|| Arc::new(Mutex::new(StageTable::new(STAGE_WINDOW))));
        Arc::clone(table)
    }

    /// Adds the delays that all shards have recorded to `table`.
    pub(super) fn add_stages(&self, table: &mut StageTable, now: Instant) {
        let shards: Vec<_> = self.shards.lock().values().cloned().collect();
        for shard in shards {
            let mut copy = shard.lock().clone();
            table.merge(&mut copy, now);
        }
    }

    /// Returns what media threads tell, for a moment.
    pub(super) fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock()
    }

    /// Adds a viewer's report, and returns what the viewer's figures are made of.
    pub(super) fn report(&self, viewer: &SessionId, joined: &Joined, now: Instant) -> Window {
        let account = Arc::clone(self.viewers.lock().entry(viewer.clone()).or_default());
        let mut account = account.lock();
        let new = account.add(joined, now);
        self.everyone
            .lock()
            .get_or_insert_with(|| Everyone::new(now))
            .add(new, now);
        account.window(now)
    }

    /// Returns the number of viewers that report.
    pub(super) fn reporters(&self) -> usize {
        self.viewers.lock().len()
    }

    /// Returns a copy of what is known of each viewer at `now`, by name.
    pub(super) fn viewers(&self, now: Instant) -> Vec<Viewer> {
        let accounts: Vec<_> = self
            .viewers
            .lock()
            .iter()
            .map(|(session, account)| (session.clone(), Arc::clone(account)))
            .collect();
        let mut viewers: HashMap<SessionId, Viewer> = accounts
            .into_iter()
            .map(|(session, account)| {
                let window = account.lock().window(now);
                let viewer = Viewer::of(&session, window);
                (session, viewer)
            })
            .collect();
        let connections = self.connections();
        for session in connections.paths.keys() {
            if let Some(path) = connections.path(session, now) {
                let new = || Viewer::of(session, Window::default());
                viewers.entry(session.clone()).or_insert_with(new).path = Some(path.clone());
            }
        }
        drop(connections);
        let mut viewers: Vec<Viewer> = viewers.into_values().collect();
        viewers.sort_by(|a, b| a.name.cmp(&b.name));
        viewers
    }

    /// Returns a copy of what all reports said in the window that ends at `now`.
    pub(super) fn everyone(&self, now: Instant) -> Option<Everyone> {
        let mut everyone = self.everyone.lock();
        let everyone = everyone.as_mut()?;
        everyone.turn(now);
        Some(everyone.clone())
    }

    /// Returns whether a thread writes a table, or a session has an entry.
    pub(super) fn is_in_use(&self) -> bool {
        let is_written = |table: &Arc<_>| Arc::strong_count(table) > 1;
        self.shards.lock().values().any(is_written)
            || !self.viewers.lock().is_empty()
            || !self.connections().is_empty()
    }

    /// Removes all entries of a session that ended.
    pub(super) fn forget(&self, session: &SessionId) {
        let mut viewers = self.viewers.lock();
        let account = viewers.remove(session);
        shrink(&mut viewers);
        drop(viewers);
        // Its frames are freed without a lock.
        drop(account);
        self.connections().forget(session);
    }

    /// Returns the number of viewers that there is room for.
    #[cfg(test)]
    pub(super) fn viewers_capacity(&self) -> usize {
        self.viewers.lock().capacity()
    }
}
