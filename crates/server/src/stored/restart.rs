//! A restart of a source, whose stream and viewers stay.

use glassline_hub::StreamName;
use glassline_ingest::{ChangeError, Input, SourceSpec};

use super::{StoredError, StoredSources};

impl StoredSources {
    /// Returns whether a source of the stream `name` runs that is no publisher.
    pub(crate) fn fetches(&self, name: &StreamName) -> bool {
        self.running.fetches(name)
    }

    /// Ends the source of the stream `name`, and begins it anew: a camera is dialled again without a
    /// pause for failed attempts, a file begins at its start. Viewers stay.
    ///
    /// # Errors
    /// Returns [`StoredError`] if there is no such source, the server does not fetch it, or it cannot
    /// be started. A source that can no longer be started, like a file that is gone, goes on.
    pub(crate) async fn restart(&self, name: &StreamName) -> Result<(), StoredError> {
        // Held for the time of the change, as for every other one.
        let _file = self.file.lock().await;
        let input = self.running_input(name).await?;
        if input.is_published() {
            return Err(StoredError::NotFetched(name.clone()));
        }
        let name = name.clone();
        let spec = SourceSpec { name, input };
        for source in self.running.prepare(vec![spec], &[]).await? {
            let replaced = self.running.replace(source).await;
            replaced.map_err(ChangeError::Start)?;
        }
        Ok(())
    }

    /// Returns what runs as the source of the stream `name`, limited to what its maker may name.
    async fn running_input(&self, name: &StreamName) -> Result<Input, StoredError> {
        let configured = self.configured().get(name).cloned();
        if let Some(input) = configured {
            return Ok(input);
        }
        let stored = self.stored.lock().get(name).cloned();
        let stored = stored.ok_or_else(|| StoredError::Absent(name.clone()))?;
        if stored.problem.is_some() {
            return Err(StoredError::Stopped(name.clone()));
        }
        Ok(self.permitted.get().limit(stored.keys.input()?).await?)
    }
}
