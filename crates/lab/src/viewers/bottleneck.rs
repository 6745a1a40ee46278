//! Who was at its limit.

use serde::{Deserialize, Serialize};

/// Who was at its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// Nobody.
    #[default]
    None,
    /// The server could not keep up while everybody else could have.
    Server,
    /// A thread of the load generator used nearly a whole core.
    Generator,
    /// The machine's processors were taken, by whomever.
    Machine,
}

impl Bottleneck {
    /// As tables and JSON say it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Server => "server",
            Self::Generator => "generator",
            Self::Machine => "machine",
        }
    }
}
