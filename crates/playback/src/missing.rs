//! The servers of a cluster that do not answer.

use std::fmt;

/// A server of the cluster that did not say which recordings it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingServer {
    /// Name of the server within the cluster.
    pub name: String,
    /// The reason as people read it.
    pub why: String,
}

/// The servers that may have more recordings than an answer shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing(pub Vec<MissingServer>);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let servers = self.0.iter();
        let servers =
            servers.map(|it| format!("the server '{}' did not answer: {}", it.name, it.why));
        f.write_str(&servers.collect::<Vec<_>>().join("; "))
    }
}
