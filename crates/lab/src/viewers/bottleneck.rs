//! The side that was at its limit.

use serde::{Deserialize, Serialize};

/// Side that was at its limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Bottleneck {
    /// No side was at its limit.
    #[default]
    None,
    /// The server did not keep up, while the generator and the machine had processor time left.
    Server,
    /// A thread of the load generator used nearly a whole core.
    Generator,
    /// The machine's processors were busy, with whatever processes.
    Machine,
}

impl Bottleneck {
    /// Name in tables and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Server => "server",
            Self::Generator => "generator",
            Self::Machine => "machine",
        }
    }
}
