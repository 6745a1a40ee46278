//! Layers around a route that all requests share.
//!
//! A layer of axum copies what is inside of it for each request, and so does every layer that is copied
//! with it: a dozen layers are more than a hundred copies. Around a shared route, a layer copies a
//! pointer.

use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::Request;
use axum::response::Response;
use axum::routing::Route;
use axum::routing::future::RouteFuture;
use tower_layer::Layer;
use tower_service::Service;

/// Returns `layer` as one around shared routes.
pub(super) const fn around<L>(layer: L) -> (L, Sharing) {
    (layer, Sharing)
}

/// The layer that shares the route inside.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sharing;

/// A route behind a pointer.
#[derive(Clone, Debug)]
pub(super) struct SharedRoute(Arc<Route>);

impl Layer<Route> for Sharing {
    type Service = SharedRoute;

    fn layer(&self, route: Route) -> SharedRoute {
        SharedRoute(Arc::new(route))
    }
}

impl Service<Request> for SharedRoute {
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        // Routes are always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request) -> Self::Future {
        Route::clone(&self.0).call(request)
    }
}
