//! Sessions with other servers: one for all streams that are pulled from a server.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use glassline_congestion::Algorithm;
use glassline_quic::moq::{NodeAddress, Session, connect_node};
use glassline_quic::{ClientEndpoint, CongestionControl};
use glassline_runtime::calendar;
use tokio::sync::Mutex;

use super::PullFailure;
use crate::identity::Identity;
use crate::ticket;

/// Time that a server has to accept a session. The next origin is tried after it.
const CONNECT: Duration = Duration::from_secs(1);

/// Time for which a server that could not be reached is not dialled again.
const PAUSE: Duration = Duration::from_millis(500);

/// Sessions by address.
#[derive(Debug)]
pub(super) struct Sessions {
    endpoint: ClientEndpoint,
    identity: Identity,
    servers: Mutex<HashMap<NodeAddress, Arc<Mutex<KnownServer>>>>,
    attempts: AtomicU64,
}

/// Facts about a server.
#[derive(Debug, Default)]
struct KnownServer {
    session: Option<Arc<Session>>,
    failed: Option<(Instant, String)>,
}

impl Sessions {
    /// Must be called within tokio.
    pub(super) fn new(identity: Identity) -> std::io::Result<Self> {
        Ok(Self {
            endpoint: ClientEndpoint::new()?,
            identity,
            servers: Mutex::default(),
            attempts: AtomicU64::new(0),
        })
    }

    /// Returns the session with the server of `address`, which is opened if there is none. Callers
    /// that wait for the same server wait for one connection.
    pub(super) async fn get(&self, address: &NodeAddress) -> Result<Arc<Session>, PullFailure> {
        let server = {
            let mut servers = self.servers.lock().await;
            // Only servers of the cluster are in it, and those that left are forgotten here.
            if servers.len() > 256 {
                servers.retain(|_, server| Arc::strong_count(server) > 1 || has_session(server));
            }
            Arc::clone(servers.entry(address.clone()).or_default())
        };
        let mut server = server.lock().await;
        if let Some(session) = &server.session {
            let ended = session.ended();
            tokio::select! {
                biased;
                _ = ended => {}
                () = std::future::ready(()) => return Ok(Arc::clone(session)),
            }
        }
        server.session = None;
        let now = Instant::now();
        if let Some((at, why)) = &server.failed
            && now.saturating_duration_since(*at) < PAUSE
        {
            return Err(PullFailure::Connect(why.clone()));
        }
        match self.open(address).await {
            Ok(session) => {
                let session = Arc::new(session);
                *server = KnownServer {
                    session: Some(Arc::clone(&session)),
                    failed: None,
                };
                Ok(session)
            }
            Err(why) => {
                server.failed = Some((Instant::now(), why.clone()));
                Err(PullFailure::Connect(why))
            }
        }
    }

    /// Opens a session of its own with the server of `address`.
    pub(super) async fn open(&self, address: &NodeAddress) -> Result<Session, String> {
        let Identity {
            name,
            secret,
            clock,
            ..
        } = &self.identity;
        let query = ticket::query(secret, name, address.sha256, calendar::now());
        let congestion = CongestionControl::new(Algorithm::Cubic);
        let opening = connect_node(&self.endpoint, address, &query, congestion, *clock);
        match tokio::time::timeout(CONNECT, opening).await {
            Ok(opened) => opened.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", CONNECT.as_secs())),
        }
    }

    /// Returns a number that no request had before.
    pub(super) fn attempt(&self) -> u64 {
        self.attempts.fetch_add(1, Ordering::Relaxed)
    }
}

fn has_session(server: &Mutex<KnownServer>) -> bool {
    server
        .try_lock()
        .is_ok_and(|server| server.session.is_some())
}
