//! Trials of sources that a caller of the API names, before one of them is made.

use std::sync::Arc;
use std::time::Duration;

use glassline_config::SourceKeys;
use glassline_ingest::{TrialError, Tried};

use super::{StoredError, StoredSources};

/// Most sources that are tried at the same time.
pub(super) const TRIALS_MAX: usize = 4;

/// Longest time that a source has to play, which is some intervals between a camera's keyframes.
const PATIENCE: Duration = Duration::from_secs(10);

/// The reason why a source was not tried.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TrialRefusal {
    /// The source cannot be understood, or must not be named.
    #[error(transparent)]
    Named(#[from] StoredError),
    /// As many sources are tried as are allowed.
    #[error("{TRIALS_MAX} sources are being tried now, each for {} s at most", PATIENCE.as_secs())]
    Busy,
}

impl StoredSources {
    /// Tries what `keys` name, and returns its text with the password hidden and what was found. What
    /// a caller may not make a source of is not tried either. Nothing of it is kept.
    ///
    /// # Errors
    /// Returns [`TrialRefusal`] if nothing was tried.
    pub(crate) async fn try_source(
        &self,
        keys: SourceKeys,
    ) -> Result<(String, Result<Tried, TrialError>), TrialRefusal> {
        let permit = Arc::clone(&self.trials).try_acquire_owned();
        let _permit = permit.map_err(|_| TrialRefusal::Busy)?;
        let input = keys.input().map_err(StoredError::from)?;
        let input = self.permitted.get().check(input).await;
        let input = input.map_err(StoredError::from)?;
        let text = input.to_string();
        Ok((text, self.running.try_input(input, PATIENCE).await))
    }
}
