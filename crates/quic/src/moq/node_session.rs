//! Sessions from server to server of one cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_trust::{Fingerprint, Trust};

use super::address::Address;
use super::bursts::NodeClock;
use super::session::{ConnectError, Role, Session, dial_any, negotiated};
use super::transport::{self, Link};
use super::version::versions;
use crate::CongestionControl;
use crate::endpoint::{ClientEndpoint, Limits};

/// Time that another server of the cluster has to answer.
const NODE_TIMEOUT: Duration = Duration::from_secs(3);

/// Most bytes of units that a session keeps of what another server sends: two seconds of 1 Gbit/s.
const NODE_BYTES: u64 = 256 << 20;

/// A server of the same cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeAddress {
    /// Host name or address.
    pub host: String,
    /// UDP port of its QUIC listener.
    pub port: u16,
    /// SHA-256 of the certificate that the server must have.
    pub sha256: Fingerprint,
}

/// Opens a session with another server of the cluster, to read streams from it. `query` says who
/// this server is. A session whose peer is silent for 3 s ends; keep-alives prevent that each 0.5 s.
///
/// # Errors
/// [`ConnectError`] says whether the address, the network or the other server is at fault.
pub async fn connect_node(
    endpoint: &ClientEndpoint,
    node: &NodeAddress,
    query: &str,
    congestion: CongestionControl,
    clock: NodeClock,
) -> Result<Session, ConnectError> {
    let address = Address::of_node(&node.host, node.port);
    let monitor = congestion.monitor();
    let opened = async {
        let trust = Trust::Pinned(node.sha256);
        let limits = Limits::Node;
        let connection = dial_any(endpoint, &address, &trust, &congestion, limits).await?;
        let protocol = negotiated(&connection).ok_or(ConnectError::NoVersion)?;
        let transport = transport::Session::new(connection, None, protocol, monitor);
        let client = moq_net::Client::new().with_versions(versions());
        let client = client.with_path(format!("/?{query}"));
        let link = transport.link();
        link.control.compare_clocks(clock);
        let mut session = Session::open(transport, Role::Subscriber, client, NODE_BYTES).await?;
        session.asking = Some(tokio::spawn(ask_clock(link)).abort_handle());
        Ok(session)
    };
    let opened = tokio::time::timeout(NODE_TIMEOUT, opened).await;
    opened.unwrap_or(Err(ConnectError::Slow))
}

/// Asks the peer for its clock again and again.
async fn ask_clock(link: Arc<Link>) {
    while let Some((message, next)) = link.control.ask_clock(Instant::now()) {
        if message.is_some_and(|message| link.send_datagram(&message).is_err()) {
            return;
        }
        match next {
            Some(next) => tokio::time::sleep_until(next.into()).await,
            None => tokio::task::yield_now().await,
        }
    }
}
