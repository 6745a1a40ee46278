//! `/api/v1/users` and `/api/v1/tokens`: who may use streams and the admin port.

use axum::Json;
use axum::extract::State;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use glassline_access::auth::{Account, KnownToken, Name, Role, StreamRights};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::created::{Created, NoContent};
use super::super::extract::{JsonBody, Path};
use super::super::openapi::{Answer, Description, Operation, Routes};
use super::super::paging::{Extent, Page};
use super::super::problem::Problem;
use crate::app::App;
use crate::stored::{LoginsError, Put, Rights, StateFileError, UserChange};

/// Longest password, in bytes.
const PASSWORD_BYTES_MAX: usize = 1_024;

/// Fewest characters of a password.
const PASSWORD_CHARACTERS_MIN: usize = 8;

pub(super) fn routes() -> Routes {
    users().merge(tokens())
}

fn users() -> Routes {
    let absent = "There is no such user";
    let configured = "The configuration has a user of this name, or nobody would be an admin";
    let too_many = "There are too many users, or patterns of this one";
    Routes::default()
        .get(
            "/api/v1/users",
            Operation::new("listUsers", "Lists the users, without their passwords")
                .needs(Role::Admin),
            list_users,
        )
        .get(
            "/api/v1/users/{name}",
            Operation::new("getUser", "Returns one user")
                .problem(404, absent)
                .needs(Role::Admin),
            get_user,
        )
        .on(
            Method::PUT,
            "/api/v1/users/{name}",
            Operation::new("putUser", "Makes a user, or changes one")
                .problem(409, configured)
                .problem(413, too_many)
                .problem(422, "A new user has no password, or the user no rights"),
            put_user,
        )
        .on(
            Method::DELETE,
            "/api/v1/users/{name}",
            Operation::new("deleteUser", "Deletes a user")
                .problem(404, absent)
                .problem(409, configured),
            delete_user,
        )
}

fn tokens() -> Routes {
    let absent = "There is no such token";
    let configured = "The configuration has a token of this name, or nobody would be an admin";
    let too_many = "There are too many tokens, or patterns of this one";
    Routes::default()
        .get(
            "/api/v1/tokens",
            Operation::new("listTokens", "Lists the tokens by name, without their text")
                .needs(Role::Admin),
            list_tokens,
        )
        .get(
            "/api/v1/tokens/{name}",
            Operation::new("getToken", "Returns the rights of one token")
                .problem(404, absent)
                .needs(Role::Admin),
            get_token,
        )
        .on(
            Method::PUT,
            "/api/v1/tokens/{name}",
            Operation::new(
                "putToken",
                "Makes a token, whose text is shown this once; or changes its rights",
            )
            .problem(409, configured)
            .problem(413, too_many)
            .problem(422, "The token would have no rights"),
            put_token,
        )
        .on(
            Method::DELETE,
            "/api/v1/tokens/{name}",
            Operation::new("deleteToken", "Deletes a token")
                .problem(404, absent)
                .problem(409, configured),
            delete_token,
        )
}

/// The user or token that a path names.
#[derive(Debug, Deserialize, JsonSchema)]
struct LoginPath {
    /// Name of the user or token.
    name: String,
}

impl LoginPath {
    fn parse(&self) -> Result<Name, Problem> {
        Name::parse(&self.name).map_err(|error| Problem::bad_request(error.to_string()))
    }
}

/// Where a user or token was named.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "LoginOrigin")]
enum Origin {
    /// The operator's file has it, which alone changes it.
    Configuration,
    /// It was made over the API.
    Api,
}

impl Origin {
    const fn of(is_configured: bool) -> Self {
        match is_configured {
            true => Self::Configuration,
            false => Self::Api,
        }
    }
}

/// The wanted properties of a user.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct UserBody {
    /// The password, of 8 to 1,024 characters; null keeps the one that the user has.
    #[serde(default)]
    #[schemars(length(min = 8, max = 1_024))]
    password: Option<String>,
    /// The role of the user on the admin port; null for none.
    #[serde(default)]
    role: Option<Role>,
    #[serde(flatten)]
    streams: StreamRights,
}

/// The wanted properties of a token.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct TokenBody {
    /// The role of the holder on the admin port; null for none.
    #[serde(default)]
    role: Option<Role>,
    #[serde(flatten)]
    streams: StreamRights,
}

/// A user, or a token, and what may be done with it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct LoginView {
    name: String,
    role: Option<Role>,
    #[serde(flatten)]
    streams: StreamRights,
    origin: Origin,
}

impl From<(Account, bool)> for LoginView {
    fn from((account, is_configured): (Account, bool)) -> Self {
        Self {
            name: account.name.to_string(),
            role: account.role,
            streams: account.rights(),
            origin: Origin::of(is_configured),
        }
    }
}

impl From<(KnownToken, bool)> for LoginView {
    fn from((token, is_configured): (KnownToken, bool)) -> Self {
        Self {
            name: token.name.to_string(),
            role: token.role,
            streams: token.rights,
            origin: Origin::of(is_configured),
        }
    }
}

/// A token that was just made.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct MadeToken {
    /// The token itself, which the server does not keep: it is shown this once.
    token: String,
    #[serde(flatten)]
    view: LoginView,
}

/// A page of the list of users, by name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "UserList")]
struct Users {
    users: Vec<LoginView>,
    #[serde(flatten)]
    extent: Extent,
}

/// A page of the list of tokens, by name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "TokenList")]
struct Tokens {
    tokens: Vec<LoginView>,
    #[serde(flatten)]
    extent: Extent,
}

async fn list_users(State(app): State<App>, page: Page) -> Json<Users> {
    let users = app.stored.logins.users().into_iter().map(LoginView::from);
    let (users, extent) = page.of(users.collect());
    Json(Users { users, extent })
}

async fn list_tokens(State(app): State<App>, page: Page) -> Json<Tokens> {
    let tokens = app.stored.logins.tokens().into_iter().map(LoginView::from);
    let (tokens, extent) = page.of(tokens.collect());
    Json(Tokens { tokens, extent })
}

async fn get_user(
    State(app): State<App>,
    Path(path): Path<LoginPath>,
) -> Result<Json<LoginView>, Problem> {
    user(&app, &path.parse()?).map(Json)
}

async fn get_token(
    State(app): State<App>,
    Path(path): Path<LoginPath>,
) -> Result<Json<LoginView>, Problem> {
    token(&app, &path.parse()?).map(Json)
}

fn user(app: &App, name: &Name) -> Result<LoginView, Problem> {
    let mut users = app.stored.logins.users().into_iter();
    let found = users.find(|(it, _)| it.name == *name);
    let found = found.ok_or_else(|| absent("user", name))?;
    Ok(found.into())
}

fn token(app: &App, name: &Name) -> Result<LoginView, Problem> {
    let mut tokens = app.stored.logins.tokens().into_iter();
    let found = tokens.find(|(it, _)| it.name == *name);
    let found = found.ok_or_else(|| absent("token", name))?;
    Ok(found.into())
}

fn absent(kind: &str, name: &Name) -> Problem {
    let detail = format!("there is no {kind} '{name}'; GET /api/v1/{kind}s lists them");
    Problem::new(StatusCode::NOT_FOUND, "Not found", detail)
}

async fn put_user(
    State(app): State<App>,
    Path(path): Path<LoginPath>,
    JsonBody(body): JsonBody<UserBody>,
) -> Result<PutLogin<LoginView>, Problem> {
    let name = path.parse()?;
    if let Some(password) = &body.password {
        let long = password.chars().count() >= PASSWORD_CHARACTERS_MIN;
        if !long || password.len() > PASSWORD_BYTES_MAX {
            let detail = format!(
                "a password has at least {PASSWORD_CHARACTERS_MIN} characters, and at most \
                 {PASSWORD_BYTES_MAX} bytes"
            );
            return Err(Problem::bad_request(detail));
        }
    }
    let change = UserChange {
        password: body.password,
        rights: Rights {
            role: body.role,
            streams: body.streams,
        },
    };
    let (logins, of) = (app.stored.logins.clone(), name.clone());
    // A client that goes away must not leave half of a change.
    let putting = tokio::spawn(async move { logins.put_user(&of, change).await });
    let put = putting.await.map_err(|_| panicked())??;
    let view = user(&app, &name)?;
    Ok(match put {
        Put::Changed => PutLogin::Changed(view),
        Put::Created => PutLogin::Created(Created {
            path: format!("/api/v1/users/{}", escaped(&name)),
            view,
        }),
    })
}

async fn put_token(
    State(app): State<App>,
    Path(path): Path<LoginPath>,
    JsonBody(body): JsonBody<TokenBody>,
) -> Result<PutLogin<MadeToken>, Problem> {
    let name = path.parse()?;
    let rights = Rights {
        role: body.role,
        streams: body.streams,
    };
    let (logins, of) = (app.stored.logins.clone(), name.clone());
    let putting = tokio::spawn(async move { logins.put_token(&of, rights).await });
    let drawn = putting.await.map_err(|_| panicked())??;
    let view = token(&app, &name)?;
    Ok(match drawn {
        None => PutLogin::Changed(view),
        Some(token) => PutLogin::Created(Created {
            path: format!("/api/v1/tokens/{}", escaped(&name)),
            view: MadeToken { token, view },
        }),
    })
}

async fn delete_user(
    State(app): State<App>,
    Path(path): Path<LoginPath>,
) -> Result<NoContent, Problem> {
    let (logins, name) = (app.stored.logins.clone(), path.parse()?);
    let deleting = tokio::spawn(async move { logins.delete_user(&name).await });
    deleting.await.map_err(|_| panicked())??;
    Ok(NoContent)
}

async fn delete_token(
    State(app): State<App>,
    Path(path): Path<LoginPath>,
) -> Result<NoContent, Problem> {
    let (logins, name) = (app.stored.logins.clone(), path.parse()?);
    let deleting = tokio::spawn(async move { logins.delete_token(&name).await });
    deleting.await.map_err(|_| panicked())??;
    Ok(NoContent)
}

/// Returns a name as it stands in a path.
fn escaped(name: &Name) -> String {
    url::form_urlencoded::byte_serialize(name.as_str().as_bytes()).collect()
}

fn panicked() -> Problem {
    let detail = "the server made a mistake; its log has the place in the code";
    Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "Server error", detail)
}

/// A user or token that was made, as `T`, or changed.
enum PutLogin<T> {
    Created(Created<T>),
    Changed(LoginView),
}

impl<T: Serialize> IntoResponse for PutLogin<T> {
    fn into_response(self) -> Response {
        match self {
            Self::Created(created) => created.into_response(),
            Self::Changed(view) => Json(view).into_response(),
        }
    }
}

impl<T: JsonSchema> Answer for PutLogin<T> {
    fn describe(to: &mut Description) {
        <Created<T> as Answer>::describe(to);
        <Json<LoginView> as Answer>::describe(to);
    }
}

impl From<LoginsError> for Problem {
    fn from(error: LoginsError) -> Self {
        let (status, title) = match &error {
            LoginsError::Configured(_) => (StatusCode::CONFLICT, "Part of the configuration"),
            LoginsError::Absent(_) => (StatusCode::NOT_FOUND, "Not found"),
            LoginsError::NoPassword(_) => (StatusCode::UNPROCESSABLE_ENTITY, "No password"),
            LoginsError::NoRights(_) => (StatusCode::UNPROCESSABLE_ENTITY, "No rights"),
            LoginsError::NoAdmin => (StatusCode::CONFLICT, "No admin"),
            LoginsError::TooMany(_) | LoginsError::TooManyPatterns(_) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "Too many")
            }
            LoginsError::File(StateFileError::Full { .. }) => {
                (StatusCode::PAYLOAD_TOO_LARGE, "Too large")
            }
            LoginsError::Hashing(_) => (StatusCode::INTERNAL_SERVER_ERROR, "Server error"),
            LoginsError::File(_) | LoginsError::DeletedUntilStart(_) => {
                (StatusCode::CONFLICT, "Not kept")
            }
        };
        Self::new(status, title, error.to_string())
    }
}
