//! The files that a configuration comes from.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The files that a configuration comes from. As text, they are the list of those to include.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConfigFiles {
    /// Files to include, as the configuration names them; empty once they have been read and merged.
    pub include: Vec<PathBuf>,
    /// All files that were read: the configuration file first, then those that it names and that are
    /// read with it. Empty for a configuration that comes from no file.
    #[serde(skip)]
    pub read: Vec<PathBuf>,
}
