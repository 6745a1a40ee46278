//! What a server starts as one of several.

use std::sync::Arc;
use std::time::Duration;

use glassline_cluster_member::{
    Directory, Identity, Member, MemberSettings, Provenances, Pulls, Reachable,
};
use glassline_config::{ClusterOrigin, Config, Notices, Rebalance};
use glassline_ingest as ingest;
use glassline_messages::MessageLinks;
use glassline_quic::moq::NodeClock;
use glassline_quic_listener::{NodeServices, Quic};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::StartError;
use super::foundation::Foundation;

/// Creates what this server needs as one of a cluster, if it is one.
pub(super) fn services(
    config: &Config,
    foundation: &Foundation,
    messages: &Arc<MessageLinks>,
) -> Result<Option<NodeServices>, StartError> {
    let Some(cluster) = &config.cluster else {
        return Ok(None);
    };
    let (hub, supervisor) = (&foundation.hub, &foundation.supervisor);
    let mut random = [0; 8];
    aws_lc_rs::rand::fill(&mut random).map_err(|_| std::io::Error::other("no random numbers"))?;
    let identity = Identity {
        name: cluster.name.clone(),
        secret: cluster.secret.clone(),
        incarnation: u64::from_be_bytes(random),
        clock: NodeClock::since(foundation.clock.epoch()),
    };
    let provenances = Arc::new(Provenances::new(&identity, foundation.codes.clone()));
    let linger = Duration::from_secs(cluster.linger_s.into());
    let member = cluster.nats_options().map(|engine| {
        let settings = MemberSettings {
            engine,
            region: cluster.region.clone(),
            linger,
            viewers_max: config.limits.viewers,
            viewers_per_stream: cluster.viewers_per_stream,
            pulls_per_stream: cluster.pulls_per_stream,
            redirects: cluster.redirect,
            redirects_far: cluster.redirect_far,
            hears_everything: cluster.notices == Notices::All,
            rebalances: cluster.rebalance != Rebalance::Off,
            mbps_max: cluster.mbps_max,
        };
        Member::new(hub, &identity, &provenances, supervisor, messages, settings)
    });
    let member = member.transpose()?;
    let origins = cluster.origins.iter().map(ClusterOrigin::address).collect();
    let pulls = Pulls::new(hub, &identity, &provenances, supervisor, messages, linger)?;
    let directory = Directory::new(origins, member, pulls, supervisor);
    Ok(Some(NodeServices {
        identity,
        provenances,
        directory,
        messages: Arc::clone(messages),
    }))
}

/// Returns which sources run here: each on one server, if several of a cluster have it.
pub(super) fn permit(member: Option<&Arc<Member>>) -> ingest::Permit {
    let (adding, removing, asking) = (member.cloned(), member.cloned(), member.cloned());
    ingest::Permit::new(
        move |name| adding.as_ref()?.add_source(name),
        move |name| {
            if let Some(member) = &removing {
                member.remove_source(name);
            }
        },
        move |name| asking.as_ref().is_some_and(|member| member.pulls(name)),
    )
}

/// Follows the streams of the configuration that clients publish to any server.
pub(super) fn expect(config: &Config, member: Option<&Arc<Member>>) {
    if let Some(member) = member {
        config
            .published_names()
            .for_each(|name| member.expect(name));
    }
}

/// Joins the cluster whose servers agree through NATS, if this server is in one. Returns the task that
/// must end before the process does.
pub(super) fn join(
    config: &Config,
    services: Option<&NodeServices>,
    quic: Option<&Quic>,
    stopped: &watch::Receiver<bool>,
) -> Option<JoinHandle<()>> {
    let (cluster, services, quic) = (config.cluster.as_ref()?, services?, quic?);
    let member = services.directory.member()?;
    let advertised = config.media.advertised_ips();
    let (host, port) = cluster.reachable(quic.local_addr(), &advertised)?;
    let reachable = Reachable {
        host,
        port,
        incarnation: services.identity.incarnation,
        region: cluster.region.clone(),
        http: cluster.public.http.clone(),
        rtsp: cluster.public.rtsp.clone(),
    };
    tracing::info!(node = %cluster.name, host = reachable.host, port, "joining the cluster");
    let fingerprint = quic.shared().watch_fingerprint();
    Some(member.join(reachable, fingerprint, stopped.clone()))
}
