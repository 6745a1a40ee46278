//! HTTP: signalling, pages and the API.
//!
//! ```text
//!  public  / · /-/… · /-/trust[/root.…] · /{stream}[/publish · /snapshot.jpg · /pictures] · /{stream}/whep[/{session}]
//!          /{stream}/whip[/{session}] · /whip[/{session}] · /{stream}/talk[/{session}]
//!          /call[/{room}[/{session}[/hear/…]]] · /doSignaling · /-/playback/… · /{stream}/timeline · /api/v1/…
//!  admin   / · /sign-in · /api/v1/… · /openapi.json · /api · /metrics · /healthz · /readyz
//! ```
//!
//! Handlers translate requests for the modules below, and hold no state between two requests.

mod acme;
mod alternates;
mod api;
mod auth;
mod body;
mod call;
mod created;
mod dashboard;
pub(crate) mod distant_session;
mod escaped;
pub(crate) mod extract;
#[cfg(debug_assertions)]
mod fault;
pub(crate) mod forwarded;
mod frames;
mod guard;
mod health;
mod joins;
mod layer_orders;
mod layer_request;
pub(crate) mod metrics;
mod openapi;
mod operators;
mod page_guard;
mod pages;
mod paging;
mod panics;
pub(crate) mod passed;
mod past;
pub(crate) mod playback;
pub(crate) mod problem;
mod problem_page;
mod ptz;
mod redirect;
mod refusals;
mod resource;
#[cfg(test)]
mod rights_table;
pub(crate) mod rules;
pub(crate) mod server;
mod session_layers;
mod shared_route;
mod shown;
mod signaling;
mod snapshot;
mod stream_path;
mod talk;
mod track_row;
mod trust;
mod viewer_events;
mod viewer_routes;
mod whep;
mod whip;

use std::sync::Arc;

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Router};
use glassline_access::auth::Action;

use crate::app::App;
use crate::sessions::ConnectionAddresses;
use openapi::{Operation, Routes};
use rules::RulesByPath;
use shared_route::around;
use stream_path::unfold;
pub(crate) use viewer_routes::ViewerRoutes;

/// The request of a handler that checks passes of its own before it asks for a right.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unpassed<'a> {
    pub(crate) connection: ConnectionAddresses,
    pub(crate) headers: &'a HeaderMap,
    pub(crate) uri: &'a Uri,
    /// Name of the protocol that a webhook is told.
    pub(crate) protocol: &'static str,
}

impl Unpassed<'_> {
    /// Checks that the request may read `stream`.
    ///
    /// # Errors
    /// Returns [`Problem`](problem::Problem) with what is missing.
    pub(crate) async fn may_read(&self, app: &App, stream: &str) -> Result<(), problem::Problem> {
        let shown = shown::Shown::new(self.connection, self.headers, self.uri).by(self.protocol);
        let reader = auth::reader(&app.users, &shown, Some(stream));
        reader.await.map(drop)
    }

    /// Checks that the request may do `action` to `stream`, which is more than reading.
    ///
    /// # Errors
    /// Returns [`Problem`](problem::Problem) with what is missing.
    pub(crate) async fn may_do(
        &self,
        app: &App,
        action: Action,
        stream: &str,
    ) -> Result<(), problem::Problem> {
        let shown = shown::Shown::new(self.connection, self.headers, self.uri).by(self.protocol);
        let change = auth::Change::new(action, stream);
        let doer = auth::doer(&app.users, &app.sites, &shown, change);
        doer.await.map(drop)
    }
}

/// Returns `routes` for viewers behind the guards.
pub(crate) fn public(app: App, mut routes: ViewerRoutes) -> Router {
    let passed = routes.take_passed();
    let passed = passed.method_not_allowed_fallback(wrong_method);
    let passed = passed.layer(around(from_fn_with_state(app.clone(), passed::guard)));
    let (router, rules) = guarded(&app, routes);
    let router = router
        .layer(around(from_fn_with_state(rules, redirect::attach)))
        .layer(around(from_fn(escaped::escape)))
        .layer(around(from_fn(problem_page::for_browsers)))
        .layer(around(from_fn_with_state(app.clone(), panics::contain)))
        .merge(passed)
        .with_state(app.clone());
    forwarded::in_front_of(stream_path::in_front_of(router), app)
}

/// Returns `routes` for requests that other servers of the cluster hand on: those about sessions of this
/// server, and offers with a ticket.
pub(crate) fn of_servers(app: &App, routes: ViewerRoutes) -> Router {
    let (router, rules) = guarded(app, routes);
    let router = router
        .layer(around(from_fn_with_state(
            app.clone(),
            distant_session::own_only,
        )))
        .layer(around(from_fn_with_state(rules, redirect::attach)))
        .layer(around(from_fn_with_state(app.clone(), panics::contain)))
        .with_state(app.clone());
    stream_path::in_front_of(router)
}

fn guarded(app: &App, routes: ViewerRoutes) -> (Router<App>, Arc<RulesByPath>) {
    let (router, rules) = routes.into_router();
    let router = router
        .method_not_allowed_fallback(wrong_method)
        .fallback(not_found)
        .layer(around(from_fn(joins::admitted)))
        .layer(around(from_fn_with_state(app.clone(), guard::guard)))
        .layer(around(from_fn_with_state(app.clone(), alternates::name)))
        .layer(around(from_fn_with_state(app.clone(), page_guard::viewers)))
        .layer(around(from_fn_with_state(app.clone(), joins::trace)))
        .layer(around(from_fn_with_state(app.clone(), refusals::note)));
    (router, Arc::new(rules))
}

/// Returns the routes of pages, of the reading API, and of what belongs to no protocol.
pub(crate) fn page_routes() -> ViewerRoutes {
    let parts = [
        pages::routes(),
        trust::routes(),
        snapshot::routes(),
        frames::routes(),
        health::routes(),
        acme::routes(),
        ptz::routes(),
        api::recordings::routes(),
    ];
    parts.into_iter().fold(api::routes(), ViewerRoutes::merge)
}

/// Returns the routes of WebRTC: viewers, publishers, talkers, calls.
pub(crate) fn webrtc_routes() -> ViewerRoutes {
    let parts = [
        whip::routes(),
        talk::routes(),
        signaling::routes(),
        call::routes(),
    ];
    parts.into_iter().fold(whep::routes(), ViewerRoutes::merge)
}

/// Returns the routes for operators: the API, metrics, health.
pub(crate) fn admin(app: App) -> Router {
    let routes = of_operators();
    let event_streams = dashboard::EventStreams::within(app.http.operators.max());
    let guard = operators::Guard {
        app: app.clone(),
        requirements: Arc::new(routes.requirements()),
    };
    let router = routes
        .into_router()
        .method_not_allowed_fallback(wrong_method)
        .fallback(not_found)
        .layer(Extension(Arc::<dashboard::Overviews>::default()))
        .layer(Extension(event_streams))
        .layer(around(from_fn_with_state(guard, operators::guard)))
        .layer(around(from_fn_with_state(
            app.clone(),
            page_guard::operators,
        )))
        .layer(around(from_fn(escaped::escape)))
        .layer(around(from_fn(problem_page::for_browsers)))
        .layer(around(from_fn_with_state(app.clone(), panics::contain)))
        .with_state(app);
    stream_path::in_front_of(router)
}

/// Returns the routes for operators with their description.
fn of_operators() -> Routes {
    let stuck = "A thread makes no progress";
    let routes = Routes::default();
    #[cfg(debug_assertions)]
    let routes = routes.on(
        axum::http::Method::POST,
        "/api/v1/faults",
        Operation::new("injectFault", "Makes a thread fail, for tests")
            .problem(404, "There is no such thread"),
        fault::inject,
    );
    routes
        .get(
            "/metrics",
            Operation::new("getMetrics", "Returns the metrics for Prometheus").plain(
                200,
                "text/plain",
                "The metrics",
            ),
            metrics::prometheus,
        )
        .get(
            "/healthz",
            Operation::new("getHealth", "Tells whether every thread makes progress")
                .plain(200, "text/plain", "Every thread makes progress")
                .plain(503, "text/plain", stuck)
                .json::<health::Health>(200)
                .json::<health::Health>(503)
                .for_everybody(),
            health::alive,
        )
        .get(
            "/readyz",
            Operation::new("getReadiness", "Tells whether media can flow")
                .plain(200, "text/plain", "Media can flow")
                .plain(
                    503,
                    "text/plain",
                    "A thread makes no progress, or no source is live",
                )
                .json::<health::Health>(200)
                .json::<health::Health>(503)
                .for_everybody(),
            health::ready,
        )
        .merge(openapi::routes())
        .merge(operators::routes())
        .merge(dashboard::routes())
        .merge(api::operators())
        .merge(api::routes().described())
        .merge(ptz::routes().described())
        .merge(playback::routes().described())
        .merge(api::recordings::routes().described())
}

async fn not_found(request: Request) -> Response {
    let detail = format!("nothing answers to {}", unfold(request.uri().path()));
    problem::Problem::new(StatusCode::NOT_FOUND, "Not found", detail).into_response()
}

/// Answers a method that the path does not have; axum adds `Allow` with those that it has.
async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), unfold(request.uri().path()));
    let detail =
        format!("{path} does not take {method}; the header `Allow` has the methods it takes");
    problem::Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Wrong method", detail).into_response()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use glassline_hub::StreamName;

    use super::of_operators;
    use crate::server::viewer_routes;
    use glassline_ingest::stream_names::{RESERVED, WORDS};

    #[test]
    fn no_stream_can_have_the_name_of_a_route() {
        let routes = viewer_routes();
        let segments = routes.paths().filter_map(|path| path.split('/').nth(1));
        let taken: BTreeSet<&str> = segments
            .filter(|first| StreamName::parse(first).is_ok())
            .collect();
        let reserved = BTreeSet::from(RESERVED);
        // The rest has no route for viewers, and has its reason in the list.
        let others = BTreeSet::from(["favicon.ico", "healthz", "metrics"]);
        assert_eq!(taken, &reserved - &others);
    }

    #[test]
    fn no_later_part_of_a_name_is_a_word_that_follows_names() {
        let (viewers, operators) = (viewer_routes(), of_operators());
        let paths = viewers.paths().chain(operators.paths());
        let following: BTreeSet<&str> = paths
            .filter_map(|path| {
                let places = ["/{stream}/", "/streams/{name}/", "/sources/{name}/"];
                let below = places.iter().find_map(|it| path.split_once(it))?.1;
                below.split('/').next()
            })
            .collect();
        assert_eq!(following, BTreeSet::from(WORDS));
    }
}
