//! Where streams come from: sources, the media folder, and other servers of the cluster.

use std::sync::Arc;

use glassline_cluster_member::Directory;
use glassline_config::Config;
use glassline_ingest::library::Library;
use glassline_ingest::{self as ingest, SourceSpec};
use glassline_messages::MessageLinks;
use glassline_quic_listener::NodeServices;

use super::StartError;
use super::access::Access;
use super::balance::Spread;
use super::drain::Leaving;
use super::foundation::Foundation;
use super::{in_cluster, parts};
use crate::stored::{self, Stored};
use crate::talk::Loudspeakers;

/// The parts of the server that bring streams into the hub.
#[derive(Debug)]
pub(super) struct Streams {
    /// The parts of this server as one of a cluster; `None` for a server alone.
    pub(super) cluster: Option<NodeServices>,
    /// How this server leaves a cluster that agrees through NATS.
    pub(super) leaving: Option<Leaving>,
    /// How this server shares its viewers with the others of its cluster.
    pub(super) spread: Option<Spread>,
    pub(super) sources: Arc<ingest::Sources>,
    /// Loudspeakers of cameras, to which voices are sent.
    pub(super) loudspeakers: Arc<Loudspeakers>,
    /// The sources, users and tokens that were made over the API.
    pub(super) stored: Stored,
    /// The media folder, if one is configured.
    pub(super) library: Option<Arc<Library>>,
}

impl Streams {
    /// Starts the sources `specs` and those that were made over the API. Users and tokens that were
    /// made there are added to those of `access`, and the keys of an identity provider are read.
    ///
    /// # Errors
    /// Returns [`StartError`] with the source, the file or the setting.
    pub(super) async fn start(
        config: &Config,
        specs: &[SourceSpec],
        foundation: &Foundation,
        access: &Access,
        messages: &Arc<MessageLinks>,
    ) -> Result<Self, StartError> {
        let loudspeakers = Arc::new(Loudspeakers::new(specs));
        let cluster = in_cluster::services(config, foundation, messages)?;
        let member = cluster.as_ref().and_then(|it| it.directory.member());
        let member = member.cloned();
        let leaving = Leaving::new(config, member.as_ref());
        let spread = Spread::new(config, member.as_ref());
        let sources = ingest::spawn(
            &foundation.hub,
            specs.to_vec(),
            ingest::Surroundings {
                codes: foundation.codes.clone(),
                supervisor: Arc::clone(&foundation.supervisor),
                udp_ports: config.rtsp.camera_udp_ports,
            },
            foundation.stopped.clone(),
            in_cluster::permit(member.as_ref()),
        );
        let sources = Arc::new(sources.await?);
        in_cluster::expect(config, member.as_ref());
        access.users.load_keys().await?;
        let told = stored::Services {
            running: Arc::clone(&sources),
            loudspeakers: Arc::clone(&loudspeakers),
        };
        let path = config.admin.state_file.clone();
        let configured = &config.admin.sources;
        let stored = Stored::load(path, configured, specs, told, &access.users).await?;
        let library = parts::library(config, &foundation.hub, &foundation.supervisor)?;
        Ok(Self {
            cluster,
            leaving,
            spread,
            sources,
            loudspeakers,
            stored,
            library,
        })
    }

    /// Returns what finds streams on other servers; `None` for a server alone.
    pub(super) fn directory(&self) -> Option<Arc<Directory>> {
        self.cluster.as_ref().map(|it| Arc::clone(&it.directory))
    }
}
