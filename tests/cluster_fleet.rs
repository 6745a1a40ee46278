//! Three servers of a cluster with three of NATS, for figures.

use crate::cluster::{Watching, wait_for_each_other, wait_for_owner};
use crate::nats::Nats;
use crate::server::Server;

/// Servers of NATS, and the nodes that agree through them.
pub(crate) struct Fleet {
    // Nodes end first.
    pub(crate) nodes: [Server; 3],
    pub(crate) nats: [Nats; 3],
}

impl Fleet {
    pub(crate) fn start(more: &str) -> Result<Self, String> {
        Self::with("", more)
    }

    /// `member`: further settings of the cluster, each with a comma before it; `more`: further sections.
    pub(crate) fn with(member: &str, more: &str) -> Result<Self, String> {
        let nats = Nats::three()?;
        let urls: Vec<String> = nats.iter().map(|it| format!("'{}'", it.url())).collect();
        let node = |name: &str| {
            let yaml = format!(
                "cluster: {{name: {name}, secret: shared-by-all, drain_s: 10, nats: {{servers: \
                 [{}]}}{member}}}\nlimits: {{half_open_per_address: 1000}}\n{more}",
                urls.join(", ")
            );
            Server::configured(&yaml, &[])
        };
        let nodes = [node("a")?, node("b")?, node("c")?];
        wait_for_each_other(&nodes.each_ref())?;
        Ok(Self { nodes, nats })
    }

    /// A viewer at the third node of a stream of the first one.
    pub(crate) fn watched(&self, stream: &str) -> Result<Watching, String> {
        wait_for_owner(&self.nodes[2], stream, "a")?;
        let watching = Watching::join(&self.nodes[2], stream)?;
        watching.sees(60)?;
        Ok(watching)
    }
}
