//! The handlers of a listener's requests.

use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::response::Response;
use futures_util::future::BoxFuture;

use super::waits::Waiter;
use crate::sessions::ConnectionAddresses;

/// The handlers of a listener's requests: routes, and what is asked before them.
#[derive(Clone, derive_more::Debug)]
#[debug("Handlers {{ router: {router:?}, .. }}")]
pub(crate) struct Handlers {
    pub(super) router: Router,
    pub(super) direct: Option<Arc<dyn DirectHandler>>,
}

/// A handler of requests of which each client makes many a second. It finds its requests itself: a way through
/// routes and their layers takes several times as long as such an answer.
pub(crate) trait DirectHandler: Send + Sync {
    /// Returns whether this handler answers `request`, which has no body; the routes answer all others.
    fn takes(&self, client: ConnectionAddresses, request: &Request<()>) -> bool;

    /// Answers a request that this handler takes.
    fn answer(&self, client: RequestClient, request: Request<()>) -> BoxFuture<'static, Response>;
}

/// The client of a request, and how the client waits for an answer.
#[derive(Debug)]
pub(crate) struct RequestClient {
    pub(crate) addresses: ConnectionAddresses,
    pub(crate) waiter: Waiter,
}

impl Handlers {
    /// Returns these handlers, before which `direct` is asked.
    pub(crate) fn behind(mut self, direct: Arc<dyn DirectHandler>) -> Self {
        self.direct = Some(direct);
        self
    }
}

impl From<Router> for Handlers {
    fn from(router: Router) -> Self {
        Self {
            router,
            direct: None,
        }
    }
}
