//! Who may use the admin port, and for what.
//!
//! ```text
//! request ─► page_guard: of a stranger's page? ─► guard: who is it ─► role enough? ─► handler
//!                                                   │ token, password, cookie           │
//!                                                   └─► page: to the sign-in page       └─► audit log
//! ```
//!
//! A browser that signed in shows a cookie with each request, also with those that a page of another
//! site causes. `SameSite=Strict` keeps it from other sites, but another port of this host is the
//! same site. What changes something by cookie therefore needs an `Origin` of this very host and
//! port, and a header that no page of another origin can send without asking first (Fetch standard,
//! CORS protocol); the server never allows that. A secret in each page would add nothing, and would
//! have to be kept.

mod audit;
mod cookie;
mod logins;
mod session;

use std::sync::Arc;

use axum::Extension;
use axum::extract::{ConnectInfo, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use glassline_access::audit::Change;
use glassline_access::auth::{Listener, Operator, REALM, Requester, Role, Users};
use glassline_runtime::{SourcePrefix, calendar};

use super::auth::refuse_later;
use super::openapi::{Requirement, Requirements, Routes};
use super::problem::{Problem, Refusal};
use super::server::Scheme;
use super::shown::Shown;
use crate::app::App;
use crate::sessions::ConnectionAddresses;

/// Header without which nothing is changed by cookie. Its value does not matter.
pub(super) const REQUEST_HEADER: &str = "x-glassline-request";

/// Path of the page on which operators sign in.
const SIGN_IN: &str = "/sign-in";

/// Returns the routes of signing in, of the audit log, and of users and tokens.
pub(super) fn routes() -> Routes {
    let signing = session::routes().merge(audit::routes());
    signing.merge(logins::routes())
}

/// The state of the guard and its layer.
#[derive(Clone, Debug)]
pub(super) struct Guard {
    pub(super) app: App,
    /// The requirement of each operation.
    pub(super) requirements: Arc<Requirements>,
}

/// Whoever sent a request to the admin port, attached to the request.
#[derive(Clone, Debug)]
pub(super) struct Visitor {
    by: Requester,
    /// Whether the browser reached the server within TLS, perhaps that of a proxy.
    is_secure: bool,
    /// Port of the listener.
    port: u16,
    /// Secret in the cookie, right or wrong.
    secret: Option<String>,
    caller: Option<Caller>,
}

/// An operator who was recognised.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    users: Arc<Users>,
    operator: Operator,
    role: Role,
    /// Secret of the browser's sign-in, if that is how the operator was recognised.
    secret: Option<String>,
}

impl Visitor {
    /// Returns the operator, if the visitor is one.
    pub(super) fn caller(&self) -> Option<&Caller> {
        self.caller.as_ref()
    }

    /// Returns the network that the visitor comes from.
    pub(super) fn source(&self) -> SourcePrefix {
        SourcePrefix::from(self.by.address())
    }

    /// Returns whether the visitor has at least `role`.
    pub(super) fn has(&self, role: Role) -> bool {
        self.caller.as_ref().is_some_and(|it| it.role >= role)
    }

    /// Returns whether a long answer may go on: its operator still has the role that the request was
    /// granted for.
    pub(super) fn may_go_on(&self) -> bool {
        self.caller.as_ref().is_none_or(Caller::is_current)
    }
}

impl Caller {
    /// Returns who it is.
    pub(super) const fn operator(&self) -> &Operator {
        &self.operator
    }

    /// Returns the operator's role at the time of the request.
    pub(super) const fn role(&self) -> Role {
        self.role
    }

    /// Returns whether the operator still has the role that the request was granted for.
    fn is_current(&self) -> bool {
        let secret = self.secret.as_ref();
        let is_signed_in = secret.is_none_or(|it| self.users.signed_in(it).is_some());
        is_signed_in && self.users.role_of(&self.operator) >= Some(self.role)
    }
}

/// Lets those requests pass whose sender has the role for them, and notes what they change.
pub(super) async fn guard(
    State(Guard { app, requirements }): State<Guard>,
    ConnectInfo(connection): ConnectInfo<ConnectionAddresses>,
    Extension(scheme): Extension<Scheme>,
    matched: Option<MatchedPath>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = matched.as_ref().map_or("", MatchedPath::as_str);
    let required = requirements.of_request(request.method(), route);
    let is_free = required.role.is_none() || route == "/metrics" && app.config().admin.open_metrics;
    let shown = Shown::new(connection, request.headers(), request.uri());
    let mut visitor = visitor(&shown, connection, scheme, request.headers());
    match recognise(&app.users, &shown, &mut visitor).await {
        Ok(()) => {}
        Err(problem) if !is_free => return problem.into_response(),
        Err(_) => {}
    }
    let change = RequestedChange::of(&request, required);
    if !is_free && let Err(refusal) = allow(&app.users, &visitor, required, &request) {
        let change = change.answered(&visitor, &refusal);
        note(&app, change).await;
        return *refusal;
    }
    request.extensions_mut().insert(visitor.clone());
    let mut response = match change.is_change {
        true => change.carry_out(app, visitor, request, next).await,
        false => next.run(request).await,
    };
    // What an operator may see is not for a cache on the way.
    let unsaid = HeaderValue::from_static("no-store");
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(unsaid);
    response
}

/// The change that a request asks for, as the audit log has it.
struct RequestedChange {
    action: &'static str,
    target: String,
    /// Whether the request is one to note: it changes something, and needs a role for it.
    is_change: bool,
}

impl RequestedChange {
    fn of(request: &Request, required: Requirement) -> Self {
        let target = request.uri().path_and_query();
        let target = target.map_or_else(String::new, ToString::to_string);
        Self {
            action: required.action,
            target: format!("{} {target}", request.method()),
            is_change: !request.method().is_safe() && required.role.is_some(),
        }
    }

    /// Makes a change and notes it, as a task of its own: an operator who closes the connection
    /// meanwhile has neither a change cut short nor one that is not noted.
    async fn carry_out(self, app: App, visitor: Visitor, request: Request, next: Next) -> Response {
        let changing = tokio::spawn(async move {
            let response = next.run(request).await;
            let change = self.answered(&visitor, &response);
            note(&app, change).await;
            response
        });
        match changing.await {
            Ok(response) => response,
            // The listener answers for a panic.
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            },
        }
    }

    /// Returns what an operator changed, or was not allowed to change; `None` if there is nothing to
    /// note.
    fn answered(&self, visitor: &Visitor, response: &Response) -> Option<Change> {
        let caller = visitor.caller.as_ref().filter(|_| self.is_change)?;
        let refusal = response.extensions().get::<Refusal>();
        Some(Change {
            who: caller.operator.name().to_owned(),
            role: Some(caller.role),
            from: visitor.by.address(),
            action: self.action,
            target: self.target.clone(),
            status: response.status().as_u16(),
            reason: refusal.map(|it| it.detail.clone()),
        })
    }
}

async fn note(app: &App, change: Option<Change>) {
    if let Some(change) = change {
        app.http.audit.note(change, calendar::now()).await;
    }
}

fn visitor(
    shown: &Shown<'_>,
    connection: ConnectionAddresses,
    scheme: Scheme,
    headers: &HeaderMap,
) -> Visitor {
    let port = connection.local.port();
    let origin = shown.page().origin.unwrap_or_default();
    Visitor {
        by: shown.requester_of(Listener::Admin),
        // Behind a proxy, the browser's own word is the only one; who lies harms only itself.
        is_secure: scheme == Scheme::Https || origin.starts_with("https://"),
        port,
        secret: cookie::secret(headers, port),
        caller: None,
    }
}

/// Finds out which operator sent a request, if one did.
async fn recognise(
    users: &Arc<Users>,
    shown: &Shown<'_>,
    visitor: &mut Visitor,
) -> Result<(), Problem> {
    let by = &visitor.by;
    let (mut operator, mut secret) = (users.operator_here(by), None);
    if operator.is_none() {
        let login = match (shown.bearer(), shown.user()) {
            (Some(token), _) => Some(users.operator_by_token(by, &token).await),
            (None, Some(user)) => {
                let login = users.operator_by_password(by, &user.name, &user.password);
                Some(login.await)
            }
            (None, None) => None,
        };
        operator = match login {
            Some(Ok(operator)) => Some(operator),
            Some(Err(error)) => {
                refuse_later(error)?;
                return Err(unauthorised("the name, password or token is wrong"));
            }
            None => None,
        };
    }
    if operator.is_none() {
        let shown = visitor.secret.as_ref();
        operator = shown.and_then(|it| users.signed_in(it));
        secret = shown.filter(|_| operator.is_some()).cloned();
    }
    visitor.caller = operator.and_then(|operator| {
        let role = users.role_of(&operator)?;
        Some(Caller {
            users: Arc::clone(users),
            operator,
            role,
            secret,
        })
    });
    Ok(())
}

/// Checks that a visitor has the role for a request, or returns the answer that refuses it.
fn allow(
    users: &Users,
    visitor: &Visitor,
    required: Requirement,
    request: &Request,
) -> Result<(), Box<Response>> {
    let Some(caller) = &visitor.caller else {
        return Err(Box::new(stranger(users, visitor, request)));
    };
    if caller.secret.is_some() && !request.method().is_safe() {
        let headers = request.headers();
        // A foreign `Origin` is refused before.
        if !headers.contains_key(header::ORIGIN) || !headers.contains_key(REQUEST_HEADER) {
            let detail = format!(
                "a change by cookie needs the headers `Origin` and `{REQUEST_HEADER}`, which the \
                 server's own pages send; programs send `Authorization` instead of the cookie"
            );
            let problem = Problem::new(StatusCode::FORBIDDEN, "Not of this page", detail);
            return Err(Box::new(problem.into_response()));
        }
    }
    match required.role {
        Some(needed) if caller.role < needed => {
            let detail = format!(
                "'{}' has the role {}, and this needs the role {needed}",
                caller.operator.name(),
                caller.role
            );
            let problem = Problem::new(StatusCode::FORBIDDEN, "Not allowed", detail);
            Err(Box::new(problem.into_response()))
        }
        _ => Ok(()),
    }
}

/// Returns the answer to a request of somebody who is not known: a browser is led to the sign-in page.
fn stranger(users: &Users, visitor: &Visitor, request: &Request) -> Response {
    if !users.guards_admin() {
        let detail = "only this machine may use the admin port as long as nobody has a role: set \
                      `auth.tokens`, or `role` of a user in `auth.users`, and restart the server";
        return Problem::new(StatusCode::FORBIDDEN, "Not allowed", detail).into_response();
    }
    let accepts = request.headers().get(header::ACCEPT);
    let is_page = accepts.is_some_and(|it| it.to_str().is_ok_and(|it| it.contains("text/html")));
    if request.method() == Method::GET && is_page {
        let path = request.uri().path();
        let to: String = url::form_urlencoded::byte_serialize(path.as_bytes()).collect();
        let place = format!("{SIGN_IN}?to={to}");
        return (StatusCode::SEE_OTHER, [(header::LOCATION, place)]).into_response();
    }
    let detail = match visitor.secret {
        Some(_) => "the browser is no longer signed in: sign in again at /sign-in",
        None => {
            "the admin port requires a role: send `Authorization: Bearer TOKEN`, or a user's name \
             and password as `Authorization: Basic …`, or sign in at /sign-in"
        }
    };
    unauthorised(detail).into_response()
}

/// Returns status 401. It never asks for Basic: a browser would keep the password, and send it with
/// whatever another page makes it request.
fn unauthorised(detail: &str) -> Problem {
    let problem = Problem::new(StatusCode::UNAUTHORIZED, "Not authorized", detail);
    let challenge = format!("Bearer realm=\"{REALM}\"");
    problem.header(header::WWW_AUTHENTICATE, &challenge)
}
