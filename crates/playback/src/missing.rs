//! The servers of a cluster, and the disks of this server, that do not answer.

use std::fmt;

/// A server of the cluster, or a folder of this server, of which it is not known what recordings it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPart {
    /// Kind of the part.
    pub kind: PartKind,
    /// Name of the server within the cluster, or path of the folder.
    pub name: String,
    /// The reason as people read it.
    pub why: String,
}

/// The kind of a part that may have recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Another server of the cluster.
    Server,
    /// A folder of this server.
    Folder,
}

/// The servers and folders that may have more recordings than an answer shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing(pub Vec<MissingPart>);

impl Missing {
    /// Adds the parts that `other` names.
    pub(super) fn and(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = self.0.iter();
        let parts = parts.map(|MissingPart { kind, name, why }| match kind {
            PartKind::Server => format!("the server '{name}' did not answer: {why}"),
            PartKind::Folder => format!("the folder '{name}' did not answer: {why}"),
        });
        f.write_str(&parts.collect::<Vec<_>>().join("; "))
    }
}
