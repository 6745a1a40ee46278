//! The section `log`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The log of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// Filter of the log's lines: a level, or levels by module (`warn,glassline=debug`).
    /// `--log` and `RUST_LOG` win.
    pub filter: Option<String>,
}
