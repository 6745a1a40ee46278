//! HTTP: signalling, pages and the API.
//!
//! ```text
//!  public  / · /-/… · /-/trust[/root.…] · /{stream}[/publish · /snapshot.jpg] · /{stream}/whep[/{session}]
//!          /{stream}/whip[/{session}] · /whip[/{session}] · /{stream}/talk[/{session}]
//!          /call[/{room}[/{session}[/hear/…]]] · /doSignaling · /api/v1/…
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
mod extract;
#[cfg(debug_assertions)]
mod fault;
mod forwarded;
mod health;
mod joins;
pub(crate) mod metrics;
mod openapi;
mod operators;
mod page_guard;
mod pages;
mod paging;
mod panics;
mod problem;
mod redirect;
mod refusals;
mod resource;
pub(crate) mod server;
mod shown;
mod signaling;
mod snapshot;
mod talk;
mod track_row;
mod trust;
mod whep;
mod whip;

use std::sync::Arc;

use axum::extract::rejection::RawPathParamsRejection;
use axum::extract::{ConnectInfo, MatchedPath, RawPathParams, Request, State};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Router};

use crate::app::App;
use crate::sessions::ConnectionAddresses;
use openapi::{Operation, Routes};
use redirect::RequestTarget;
use shown::Shown;

/// Returns the routes for viewers: pages, WHEP, the reading API.
pub(crate) fn public(app: App) -> Router {
    // A balancer has no credentials, and asks by an address or a name of its own.
    let router = of_viewers(&app).route("/readyz", get(health::ready_for_viewers));
    let router = router
        // An authority has no credentials, and asks by names that may not be configured elsewhere.
        .route("/.well-known/acme-challenge/{token}", get(acme::answer))
        .layer(from_fn(escaped::escape))
        .layer(from_fn_with_state(app.clone(), panics::contain))
        .with_state(app.clone());
    forwarded::in_front_of(router, app)
}

/// Returns the routes for requests that other servers of the cluster hand on: those about sessions of
/// this server, and offers with a ticket.
pub(crate) fn of_servers(app: &App) -> Router {
    of_viewers(app)
        .layer(from_fn_with_state(app.clone(), distant_session::own_only))
        .layer(from_fn_with_state(app.clone(), panics::contain))
        .with_state(app.clone())
}

fn of_viewers(app: &App) -> Router<App> {
    let router = viewer_routes()
        .layer(from_fn(joins::admitted))
        .layer(from_fn_with_state(app.clone(), readers))
        .layer(from_fn_with_state(app.clone(), alternates::name))
        .layer(from_fn_with_state(app.clone(), page_guard::viewers));
    let router = router.layer(from_fn_with_state(app.clone(), joins::trace));
    router.layer(from_fn_with_state(app.clone(), refusals::note))
}

fn viewer_routes() -> Router<App> {
    let whep = post(whep::offer)
        .get(resource::endpoint)
        .options(resource::options)
        .fallback(resource::wrong_method);
    let session = axum::routing::patch(whep::change)
        .get(whep::present)
        .delete(whep::leave)
        .options(resource::options)
        .fallback(resource::wrong_method);
    let whip = post(whip::offer)
        .get(resource::endpoint)
        .options(resource::options)
        .fallback(resource::wrong_method);
    let talk = post(talk::offer)
        .get(talk::present)
        .options(resource::options)
        .fallback(resource::wrong_method);
    let by_key = post(whip::offer_by_key)
        .get(resource::endpoint)
        .options(resource::options)
        .fallback(resource::wrong_method);
    let of_key = axum::routing::patch(whip::change)
        .get(whip::present)
        .delete(whip::leave)
        .options(resource::options)
        .fallback(resource::wrong_method);
    Router::new()
        .route("/whip", by_key)
        .route("/whip/{session}", of_key)
        .route("/whip/{session}/failure", post(whip::give_up))
        .route("/", get(pages::index))
        .route("/-/{name}", get(pages::asset))
        .route("/-/reach.html", get(pages::reach))
        .route("/-/trust", get(trust::page))
        .route("/-/trust/root.crt", get(trust::certificate))
        .route("/-/trust/root.pem", get(trust::pem))
        .route("/{stream}", get(pages::player))
        .route("/{stream}/publish", get(pages::publish))
        .route("/{stream}/snapshot.jpg", get(snapshot::latest))
        .route("/{stream}/whep", whep)
        .route("/{stream}/whep/{session}", session.clone())
        .route("/{stream}/whip", whip)
        .route("/{stream}/whip/{session}", session.clone())
        .route("/{stream}/talk", talk)
        .route("/{stream}/talk/{session}", session)
        .route("/{stream}/whep/{session}/report", post(api::report))
        .route("/{stream}/whep/{session}/clock", get(api::clock))
        .route("/{stream}/whip/{session}/clock", get(api::clock))
        .route(
            "/{stream}/whip/{session}/report",
            post(api::publishing::report),
        )
        .route("/{stream}/whep/{session}/failure", post(whep::give_up))
        .route("/{stream}/whip/{session}/failure", post(whep::give_up))
        .route("/{stream}/talk/{session}/failure", post(whep::give_up))
        .route(
            "/doSignaling",
            post(signaling::exchange).options(resource::options),
        )
        .merge(call::router())
        .merge(api::routes().into_router())
        .method_not_allowed_fallback(wrong_method)
        .fallback(not_found)
}

/// Returns the routes for operators: the API, metrics, health.
pub(crate) fn admin(app: App) -> Router {
    let routes = of_operators();
    let event_streams = dashboard::EventStreams::within(app.http.operators.max());
    let guard = operators::Guard {
        app: app.clone(),
        requirements: Arc::new(routes.requirements()),
    };
    routes
        .into_router()
        .method_not_allowed_fallback(wrong_method)
        .fallback(not_found)
        .layer(Extension(Arc::<dashboard::Overviews>::default()))
        .layer(Extension(event_streams))
        .layer(from_fn_with_state(guard, operators::guard))
        .layer(from_fn_with_state(app.clone(), page_guard::operators))
        .layer(from_fn(escaped::escape))
        .layer(from_fn_with_state(app.clone(), panics::contain))
        .with_state(app)
}

/// Returns the routes for operators with their description.
fn of_operators() -> Routes {
    let stuck = "A thread makes no progress";
    let routes = Routes::default();
    #[cfg(debug_assertions)]
    let routes = routes.on(
        Method::POST,
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
        .merge(api::routes())
}

async fn not_found(request: Request) -> Response {
    let detail = format!("nothing answers to {}", request.uri().path());
    problem::Problem::new(StatusCode::NOT_FOUND, "Not found", detail).into_response()
}

/// Answers a method that the path does not have; axum adds `Allow` with those that it has.
async fn wrong_method(request: Request) -> Response {
    let (method, path) = (request.method(), request.uri().path());
    let detail =
        format!("{path} does not take {method}; the header `Allow` has the methods it takes");
    problem::Problem::new(StatusCode::METHOD_NOT_ALLOWED, "Wrong method", detail).into_response()
}

/// Lets requests with the right to read pass, and attaches to them which streams they may read.
///
/// The pages' static files and CORS preflights are open to everybody. So are the pages if a token
/// is all that is configured: without the token they show nothing. If there are users, a page
/// requires one, so that the browser asks for name and password and then sends them with everything
/// that the page fetches.
async fn readers(
    State(app): State<App>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    matched: Option<MatchedPath>,
    params: Result<RawPathParams, RawPathParamsRejection>,
    target: RequestTarget,
    request: Request,
    next: Next,
) -> Response {
    if let Some(response) = target.to_its_server(&app, &request) {
        return response;
    }
    let mut request = match distant_session::hand_on(&app, &target, request).await {
        Ok(request) => request,
        Err(response) => return response,
    };
    if target.has_session(&app) {
        return next.run(request).await;
    }
    let route = matched.as_ref().map_or("", MatchedPath::as_str);
    let is_page = request.method() == Method::GET
        && matches!(
            route,
            "/" | "/{stream}" | "/{stream}/publish" | "/call" | "/call/{room}" | "/-/reach.html"
        );
    // The right to join a room is checked in its handler, and later requests need the session's
    // name.
    let is_call = route.starts_with("/call/{room}") && !is_page;
    // As with calls: a stream key is checked in its handler.
    let is_keyed = matches!(
        route,
        "/whip" | "/whip/{session}" | "/whip/{session}/failure"
    );
    if request.method() == Method::OPTIONS || is_keyed && request.method() != Method::POST {
        let stream = params.as_ref().ok().and_then(stream_in_path);
        let shown = Shown::new(connection, request.headers(), request.uri());
        let may_join = may_join(&app, route, &shown, stream.as_deref()).await;
        // Everybody may ask for the methods; the credentials of ICE servers are for those who may send
        // an offer. A stream key shows its rights with the offer only.
        let response = next.run(request).await;
        return match may_join {
            true => response,
            false => resource::without_credentials(response),
        };
    }
    // The handler of calls needs the user of the ticket, and looks at it itself.
    let grant = target.grant(&app, request.uri()).filter(|_| !is_call);
    if let Some(grant) = grant {
        return redirect::end_with(&grant, next.run(request).await);
    }
    let is_file = route.starts_with("/-/") && !is_page;
    let is_free = is_file || is_keyed || is_call || is_page && !app.users.any();
    if !is_free {
        // A name that is not UTF-8 is refused by the handler.
        let named = params.as_ref().ok().and_then(stream_in_path);
        let stream = named.or_else(|| query_stream(request.uri()));
        let shown = Shown::new(connection, request.headers(), request.uri());
        if is_of_publishers(route) {
            let stream = stream.as_deref().unwrap_or_default();
            let user = auth::publisher(&app.users, &app.sites, &shown, stream).await;
            return match user {
                Ok(user) => {
                    resource::end_with(&app.users, user.as_deref(), next.run(request).await)
                }
                Err(problem) => problem.into_response(),
            };
        }
        // Who may publish need not be allowed to watch.
        if route.ends_with("/publish") || route.ends_with("/publishing") {
            let stream = stream.as_deref().unwrap_or_default();
            let may = auth::reader_or_publisher(&app.users, &app.sites, &shown, stream).await;
            return match may {
                Ok(()) => next.run(request).await,
                Err(problem) => problem.into_response(),
            };
        }
        let reader = match auth::reader(&app.users, &shown, stream.as_deref()).await {
            Ok(reader) => reader,
            Err(problem) => return problem.into_response(),
        };
        let asked = (request.uri(), target.access(&request));
        if let Some(response) = target.elsewhere(&app, asked, reader.user()).await {
            return response;
        }
        request.extensions_mut().insert(reader.clone());
        let response = next.run(request).await;
        return resource::end_with(&app.users, reader.user(), response);
    }
    next.run(request).await
}

/// Returns whether a client may send an offer to the endpoint `route` of WHEP or WHIP.
async fn may_join(app: &App, route: &str, shown: &Shown<'_>, stream: Option<&str>) -> bool {
    if route.starts_with("/{stream}/whep") {
        return auth::reader(&app.users, shown, stream).await.is_ok();
    }
    let name = stream.unwrap_or_default();
    is_of_publishers(route)
        && auth::publisher(&app.users, &app.sites, shown, name)
            .await
            .is_ok()
}

/// Returns whether a route below a stream needs the right to publish the stream. A voice at a camera
/// needs it, too.
fn is_of_publishers(route: &str) -> bool {
    route.starts_with("/{stream}/whip") || route.starts_with("/{stream}/talk")
}

/// Returns the stream name in a route's path.
fn stream_in_path(params: &RawPathParams) -> Option<String> {
    let mut params = params.iter();
    let found = params.find(|(key, _)| matches!(*key, "stream" | "name"));
    found.map(|(_, name)| name.to_owned())
}

/// Returns the stream name in the query of `/doSignaling`.
fn query_stream(uri: &Uri) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find_map(|(name, value)| (name == "stream").then(|| value.into_owned()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use glassline_hub::StreamName;

    use super::*;
    use crate::stream_names::RESERVED;

    /// Returns all paths of a router: the texts in its debug form that begin with a slash.
    fn paths(router: &Router<App>) -> BTreeSet<String> {
        let shown = format!("{router:?}");
        let texts = shown.split('"').filter(|text| text.starts_with('/'));
        texts.map(str::to_owned).collect()
    }

    #[test]
    fn no_stream_can_have_the_name_of_a_route() {
        let paths = paths(&viewer_routes().route("/readyz", get(health::ready_for_viewers)));
        assert!(paths.contains("/{stream}/whep/{session}"), "{paths:?}");
        let segments = paths.iter().filter_map(|path| path.split('/').nth(1));
        let taken: BTreeSet<&str> = segments
            .filter(|first| StreamName::parse(first).is_ok())
            .collect();
        let reserved = BTreeSet::from(RESERVED);
        // The rest has no route for viewers, and has its reason in the list.
        let others = BTreeSet::from(["favicon.ico", "healthz", "metrics"]);
        assert_eq!(taken, &reserved - &others);
    }
}
