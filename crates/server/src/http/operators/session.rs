//! `/api/v1/session`: signing in with a browser, and out. `/sign-in`: the page for that.

use std::net::IpAddr;
use std::time::Instant;

use axum::extract::State;
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::{Extension, Json};
use glassline_access::audit::Change;
use glassline_access::auth::Role;
use glassline_events::{Event, EventKind, Severity};
use glassline_runtime::calendar;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::auth::refuse_later;
use super::super::created::NoContent;
use super::super::extract::JsonBody;
use super::super::openapi::{Answer, Description, Operation, Routes};
use super::super::pages;
use super::super::problem::Problem;
use super::{Visitor, cookie, unauthorised};
use crate::app::App;

pub(super) fn routes() -> Routes {
    Routes::default()
        .get(
            "/sign-in",
            Operation::new("getSignInPage", "Shows the page on which operators sign in")
                .plain(200, "text/html", "The page")
                .for_everybody(),
            pages::sign_in,
        )
        .get(
            "/api/v1/session",
            Operation::new("getSession", "Tells who the asker is, and with which role")
                .problem(401, "The asker has no role"),
            present,
        )
        .on(
            Method::POST,
            "/api/v1/session",
            Operation::new("signIn", "Signs a browser in, by password or token")
                .problem(401, "Name, password or token is wrong")
                .problem(403, "The user or token has no role")
                .problem(429, "Too many wrong logins came from this address")
                .for_everybody(),
            sign_in,
        )
        .on(
            Method::DELETE,
            "/api/v1/session",
            Operation::new("signOut", "Signs the browser out").needs(Role::Viewer),
            sign_out,
        )
}

/// A credential to sign in: a user's name and password, or a token.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged, deny_unknown_fields)]
enum Shown {
    /// A user of the configuration.
    Password {
        /// Name of the user.
        user: String,
        /// Password of the user.
        password: String,
    },
    /// A token of the configuration, or one that an identity provider signed.
    Token {
        /// Token of the configuration, or one that an identity provider signed.
        token: String,
    },
}

/// The user of the admin port.
#[derive(Debug, Serialize, JsonSchema)]
struct Session {
    /// Name of the user, of the token, or of whom a signed token names.
    name: String,
    role: Role,
    /// Whether the browser signed in, so that it can sign out.
    signed_in: bool,
}

async fn present(Extension(visitor): Extension<Visitor>) -> Result<Json<Session>, Problem> {
    let caller = visitor.caller().ok_or_else(|| unauthorised("nobody"))?;
    Ok(Json(Session {
        name: caller.operator.name().to_owned(),
        role: caller.role,
        signed_in: caller.secret.is_some(),
    }))
}

/// A browser that has just signed in.
struct SignedIn {
    session: Session,
    cookie: header::HeaderValue,
}

impl IntoResponse for SignedIn {
    fn into_response(self) -> Response {
        let cookie = [(header::SET_COOKIE, self.cookie)];
        (cookie, Json(self.session)).into_response()
    }
}

impl Answer for SignedIn {
    fn describe(to: &mut Description) {
        to.answer::<Session>(200, "The browser is signed in; `Set-Cookie` has the proof");
    }
}

async fn sign_in(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
    JsonBody(shown): JsonBody<Shown>,
) -> Result<SignedIn, Problem> {
    let by = &visitor.by;
    let login = match &shown {
        Shown::Password { user, password } => {
            app.users.operator_by_password(by, user, password).await
        }
        Shown::Token { token } => app.users.operator_by_token(by, token).await,
    };
    let operator = match login {
        Ok(operator) => operator,
        Err(error) => {
            let from = by.address();
            note(
                &app,
                Severity::Bad,
                from,
                "was refused a sign-in",
                Some(error.to_string()),
            );
            refuse_later(error)?;
            return Err(unauthorised("the name, password or token is wrong"));
        }
    };
    let name = operator.name().to_owned();
    let Some(role) = app.users.role_of(&operator) else {
        let detail = format!("'{name}' has no role: set `role` of the user or token");
        let from = by.address();
        note(
            &app,
            Severity::Bad,
            from,
            "was refused a sign-in",
            Some(detail.clone()),
        );
        return Err(Problem::new(StatusCode::FORBIDDEN, "No role", detail));
    };
    let signed = app.users.sign_in(operator);
    let text = format!("signed in as {name}, {role}");
    note(&app, Severity::Good, by.address(), &text, None);
    let change = Change {
        who: name.clone(),
        role: Some(role),
        from: by.address(),
        action: "signIn",
        target: "POST /api/v1/session".to_owned(),
        status: StatusCode::OK.as_u16(),
        reason: None,
    };
    app.http.audit.note(change, calendar::now()).await;
    Ok(SignedIn {
        cookie: cookie::set(
            visitor.port,
            &signed.secret,
            signed.lasts,
            visitor.is_secure,
        ),
        session: Session {
            name,
            role,
            signed_in: true,
        },
    })
}

/// A browser that has signed out, and is to forget its cookie.
struct SignedOut(header::HeaderValue);

impl IntoResponse for SignedOut {
    fn into_response(self) -> Response {
        let cookie = [(header::SET_COOKIE, self.0)];
        (cookie, NoContent).into_response()
    }
}

impl Answer for SignedOut {
    fn describe(to: &mut Description) {
        NoContent::describe(to);
    }
}

async fn sign_out(
    State(app): State<App>,
    Extension(visitor): Extension<Visitor>,
) -> Result<SignedOut, Problem> {
    if let Some(secret) = &visitor.secret {
        app.users.sign_out(secret);
    }
    if let Some(caller) = visitor.caller() {
        let text = format!("signed {} out", caller.operator.name());
        note(&app, Severity::Neutral, visitor.by.address(), &text, None);
    }
    let nothing = std::time::Duration::ZERO;
    let forgotten = cookie::set(visitor.port, "", nothing, visitor.is_secure);
    Ok(SignedOut(forgotten))
}

/// Notes what an address did to sign in or out. Strangers choose no word of it but their address.
fn note(app: &App, severity: Severity, from: IpAddr, text: &str, reason: Option<String>) {
    let event = Event {
        kind: EventKind::SignIn,
        severity,
        subject: from.to_string(),
        text: text.to_owned(),
        reason,
    };
    app.http.events.note(event, Instant::now(), calendar::now());
}
