//! Checks the credentials of requests to read, to publish messages, or to join a room: a token or a
//! user of the [user store](glassline_access::auth).

mod change;
mod exclusion;
mod stream_key;

use std::sync::Arc;

use axum::http::{StatusCode, header};
use glassline_access::auth::{
    Access, Action, Login, LoginError, REALM, Readable, Sites, TokenError, Users,
};
use glassline_rooms as rooms;

use super::page_guard;
use super::problem::Problem;
use super::refusals::TOO_MANY_WRONG_LOGINS;
use super::shown::Shown;
pub(super) use change::Change;
use change::done_by;
pub(super) use exclusion::check_excluded;
use exclusion::not_excluded;
pub(super) use stream_key::stream_of_key;

/// The streams that a request may know of, attached to the request that [`reader`] lets pass.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    users: Arc<Users>,
    streams: Readable,
}

impl Reader {
    /// Returns whether the reader may know of `stream`.
    pub(super) fn sees(&self, stream: &str) -> bool {
        self.streams.has(&self.users, stream)
    }

    /// Returns the name whose rights these are; `None` if the server is open or a token of the
    /// configuration gives them.
    pub(super) fn user(&self) -> Option<&str> {
        match &self.streams {
            Readable::OfUser(name) => Some(name),
            Readable::All | Readable::AllButRooms => None,
        }
    }
}

/// Checks that a request may read `stream`, or any stream if the request names none.
///
/// The request carries the read token, a token that an identity provider signed, or a user's name
/// and password as `Authorization: Basic`.
pub(super) async fn reader(
    users: &Arc<Users>,
    shown: &Shown<'_>,
    stream: Option<&str>,
) -> Result<Reader, Problem> {
    let mut login = shown.login();
    let reader = reader_of(users, &mut login, shown, stream).await;
    let reader = reader.and_then(|it| {
        check_excluded(users, shown, it.user(), stream)?;
        Ok(it)
    });
    concluded(users, login, reader)
}

async fn reader_of(
    users: &Arc<Users>,
    login: &mut Login,
    shown: &Shown<'_>,
    stream: Option<&str>,
) -> Result<Reader, Problem> {
    if let Some(streams) = users.open_streams(login.by()) {
        return open_reader(users, login, shown, stream, streams);
    }
    let of = |streams| Reader {
        users: Arc::clone(users),
        streams,
    };
    if let Some(token) = shown.token() {
        match users.verify_token(login, &[Access::Read], &token) {
            Ok(()) => return Ok(of(Readable::All)),
            Err(error) => refuse_later(error)?,
        }
    }
    let user = log_in(users, login, shown, Action::Read, stream).await?;
    let reader = of(Readable::OfUser(user));
    match stream.filter(|stream| !reader.sees(stream)) {
        Some(stream) => Err(missing("read", stream)),
        None => Ok(reader),
    }
}

/// Checks that a request to a server whose streams are open may read `stream`. Voices of rooms need
/// the publish token, as joining a room does.
fn open_reader(
    users: &Arc<Users>,
    login: &mut Login,
    shown: &Shown<'_>,
    stream: Option<&str>,
    streams: Readable,
) -> Result<Reader, Problem> {
    let mut reader = Reader {
        users: Arc::clone(users),
        streams,
    };
    if reader.streams == Readable::AllButRooms
        && let Some(token) = shown.token()
    {
        match users.verify_token(login, &[Access::Publish], &token) {
            Ok(()) => reader.streams = Readable::All,
            Err(error) => refuse_later(error)?,
        }
    }
    match stream.filter(|stream| !reader.sees(stream)) {
        Some(_) if users.has_token(Access::Publish) => {
            Err(unauthorised(users, Some(shown), Access::Publish))
        }
        Some(stream) => Err(forbidden(format!(
            "'{stream}' is a voice of a room, which only this machine may hear: set \
             `auth.publish_token`, `auth.read_token` or `auth.users` to allow others"
        ))),
        None => Ok(reader),
    }
}

/// Checks that a request may publish `stream`, or messages next to it. Returns the name whose right
/// that is; `None` if a token of the configuration gives it, or if the server is open.
///
/// The request carries the same kinds of credentials as for [`reader`], with the right to publish.
/// If no credentials are configured, only this machine's own pages may publish, because a browser
/// on this machine opens pages of other sites, too.
pub(super) async fn publisher(
    users: &Users,
    sites: &Sites,
    shown: &Shown<'_>,
    stream: &str,
) -> Result<Option<String>, Problem> {
    let mut login = shown.login();
    let change = Change::new(Action::Publish, stream);
    let user = changer_of(users, sites, &mut login, shown, change).await;
    let user = not_excluded(users, shown, user, stream);
    concluded(users, login, user)
}

/// Checks that a request may do what `change` says: move a camera, or see or control what is recorded.
/// Returns the name whose right that is; `None` if a token of the configuration gives it, or if the
/// server is open.
///
/// The request carries the same kinds of credentials as for [`publisher`], with a right of its own in
/// place of the right to publish. The publish token gives it, too.
pub(super) async fn doer(
    users: &Users,
    sites: &Sites,
    shown: &Shown<'_>,
    change: Change<'_>,
) -> Result<Option<String>, Problem> {
    let mut login = shown.login();
    let user = changer_of(users, sites, &mut login, shown, change).await;
    let user = not_excluded(users, shown, user, change.stream);
    concluded(users, login, user)
}

/// Returns whether a request that may read a stream with the rights of `reader` may do what `change`
/// says, too. Nothing is asked of a webhook, and nothing counts as a failed login.
pub(super) fn does(users: &Users, reader: &Reader, shown: &Shown<'_>, change: Change<'_>) -> bool {
    match reader.user() {
        Some(user) => users.may_do(user, change.action, change.stream),
        // A token that was shown was verified before.
        None if users.has_token(Access::Publish) => {
            let token = shown.token();
            token.is_some_and(|token| users.token_opens(Access::Publish, &token))
        }
        None => users.is_open(Access::Publish, &shown.requester()),
    }
}

/// Checks that a request may do what is more than reading: publish, move a camera, use recordings.
async fn changer_of(
    users: &Users,
    sites: &Sites,
    login: &mut Login,
    shown: &Shown<'_>,
    change: Change<'_>,
) -> Result<Option<String>, Problem> {
    let Change { action, stream } = change;
    if shows_token(users, login, shown, Access::Publish)? {
        return Ok(None);
    }
    if users.is_open(Access::Publish, login.by()) {
        let own = sites.check_own(&shown.page());
        return own.map(|()| None).map_err(|refusal| {
            let page = page_guard::refuse(&refusal);
            let done = done_by(action);
            page.because(&format!(
                "pages of other sites may {done} only with `auth.publish_token`"
            ))
        });
    }
    if !users.has_logins() && !users.has_token(Access::Publish) {
        return Err(forbidden(format!(
            "only the server's own machine may {}: set `auth.publish_token` or `auth.users` to allow \
             others",
            done_by(action)
        )));
    }
    let user = log_in(users, login, shown, action, Some(stream)).await?;
    match users.may_do(&user, action, stream) {
        true => Ok(Some(user)),
        false => Err(missing(action.as_str(), stream)),
    }
}

/// Checks that a request may read `stream`, or publish it.
///
/// The request carries the same kinds of credentials as for [`reader`] and [`publisher`].
pub(super) async fn reader_or_publisher(
    users: &Arc<Users>,
    sites: &Sites,
    shown: &Shown<'_>,
    stream: &str,
) -> Result<(), Problem> {
    let mut login = shown.login();
    let may = reader_or_publisher_of(users, sites, &mut login, shown, stream).await;
    let may = may.and_then(|()| check_excluded(users, shown, None, Some(stream)));
    concluded(users, login, may)
}

async fn reader_or_publisher_of(
    users: &Arc<Users>,
    sites: &Sites,
    login: &mut Login,
    shown: &Shown<'_>,
    stream: &str,
) -> Result<(), Problem> {
    let accesses = [Access::Read, Access::Publish];
    let has_token = accesses.iter().any(|access| users.has_token(*access));
    if has_token && let Some(token) = shown.token() {
        match users.verify_token(login, &accesses, &token) {
            Ok(()) => return Ok(()),
            Err(LoginError::Wrong) if users.is_signed(&token) || users.has_webhook() => {}
            // The request has no other credentials.
            Err(error) => {
                refuse_later(error)?;
                return Err(unauthorised(users, Some(shown), Access::Publish));
            }
        }
    }
    if users.open_streams(login.by()).is_some() {
        let reader = reader_of(users, login, shown, Some(stream)).await;
        return reader.map(drop);
    }
    if users.is_open(Access::Publish, login.by()) || !users.has_logins() {
        let user = changer_of(
            users,
            sites,
            login,
            shown,
            Change::new(Action::Publish, stream),
        )
        .await;
        return user.map(drop);
    }
    let user = log_in(users, login, shown, Action::Publish, Some(stream)).await?;
    match accesses
        .iter()
        .any(|access| users.may(&user, *access, stream))
    {
        true => Ok(()),
        false => Err(forbidden(format!(
            "this user may neither read nor publish '{stream}'"
        ))),
    }
}

/// Checks that a request may speak as `stream` in a room, and hear the others. Returns the name of
/// the user whose right that is; `None` if a token gives it, or if the server is open.
///
/// The request carries the same kinds of credentials as for [`reader`]; a token must be the publish
/// token, since a participant who may speak in a room may also hear it. If no credentials are
/// configured, only this machine's own pages may join: otherwise any site could speak through a
/// browser that runs here.
pub(super) async fn participant(
    users: &Users,
    sites: &Sites,
    shown: &Shown<'_>,
    stream: &str,
) -> Result<Option<String>, Problem> {
    let mut login = shown.login();
    let user = participant_of(users, sites, &mut login, shown, stream).await;
    let user = not_excluded(users, shown, user, stream);
    concluded(users, login, user)
}

async fn participant_of(
    users: &Users,
    sites: &Sites,
    login: &mut Login,
    shown: &Shown<'_>,
    stream: &str,
) -> Result<Option<String>, Problem> {
    let is_open = users.is_open(Access::Publish, login.by());
    if shows_token(users, login, shown, Access::Publish)? {
        return Ok(None);
    }
    if is_open {
        if shows_token(users, login, shown, Access::Read)? {
            return Ok(None);
        }
        if !users.is_open(Access::Read, login.by()) {
            return Err(unauthorised(users, Some(shown), Access::Read));
        }
        let own = sites.check_own(&shown.page());
        return own.map(|()| None).map_err(|refusal| {
            let page = page_guard::refuse(&refusal);
            page.because("pages of other sites may join rooms only with `auth.publish_token`")
        });
    }
    if !users.has_logins() && !users.has_token(Access::Publish) {
        return Err(forbidden(
            "only the server's own machine may publish, and joining a room is publishing: set \
             `auth.publish_token` or `auth.users` to allow others",
        ));
    }
    let voice = rooms::claimed_room(stream).and_then(|it| it.split_once('~'));
    let room = voice.map(|(room, _)| room);
    let user = log_in(users, login, shown, Action::Call, room).await?;
    match missing_right(users, &user, stream) {
        Some(list) => Err(forbidden(format!(
            "this user may not {list} '{stream}': the `{list}` list of the user, or of its token, \
             does not have it; a room's voices are the streams `call~ROOM~*`"
        ))),
        None => Ok(Some(user)),
    }
}

/// Returns the name of the right that `user` lacks to be in the room of the voice `stream`.
pub(super) fn missing_right(users: &Users, user: &str, stream: &str) -> Option<&'static str> {
    let lists = [(Access::Publish, "publish"), (Access::Read, "read")];
    let mut lists = lists.into_iter();
    let missing = lists.find(|(access, _)| !users.may(user, *access, stream));
    missing.map(|(_, list)| list)
}

/// Ends a login with the answer to its request, whose refusal is another one if the address has failed
/// too often.
fn concluded<T>(users: &Users, login: Login, answer: Result<T, Problem>) -> Result<T, Problem> {
    let concluded = users.conclude(login, answer.is_ok());
    match concluded.map_or_else(refuse_later, Ok) {
        Err(limited) if answer.is_err() => Err(limited),
        _ => answer,
    }
}

/// Returns whether the request shows the token that gives `access`.
fn shows_token(
    users: &Users,
    login: &mut Login,
    shown: &Shown<'_>,
    access: Access,
) -> Result<bool, Problem> {
    let Some(token) = shown.token().filter(|_| users.has_token(access)) else {
        return Ok(false);
    };
    match users.verify_token(login, &[access], &token) {
        Ok(()) => Ok(true),
        Err(error) => refuse_later(error).map(|()| false),
    }
}

/// Checks a token that an identity provider signed, or a user's name and password, or asks the
/// webhook, and returns the name whose rights the request has.
async fn log_in(
    users: &Users,
    login: &mut Login,
    shown: &Shown<'_>,
    action: Action,
    name: Option<&str>,
) -> Result<String, Problem> {
    let token = shown.token().filter(|token| users.is_signed(token));
    let user = shown.user().filter(|user| users.checks_here(&user.name));
    let logged_in = match (token, user) {
        (Some(token), _) => users.verify_bearer(login, &token).await,
        (None, Some(user)) => {
            let verified = users.verify(login, &user.name, &user.password).await;
            verified.map(|()| user.name)
        }
        (None, None) if users.has_webhook() => users.ask(login, shown.question(action, name)).await,
        (None, None) => Err(LoginError::Wrong),
    };
    logged_in.map_err(|error| {
        let access = match action {
            Action::Read => Access::Read,
            _ => Access::Publish,
        };
        let later = refuse_later(error);
        later.map_or_else(
            |problem| problem,
            |()| unauthorised(users, Some(shown), access),
        )
    })
}

/// Returns an error if the login was not checked, or if the reason tells its owner what to do, and
/// `Ok` if it was wrong: other credentials of the request may be right.
pub(super) fn refuse_later(error: LoginError) -> Result<(), Problem> {
    let (status, title) = match error {
        LoginError::Wrong => return Ok(()),
        LoginError::Token(reason) => return Err(invalid_token(reason)),
        LoginError::Limited { .. } => (StatusCode::TOO_MANY_REQUESTS, TOO_MANY_WRONG_LOGINS),
        LoginError::Busy { .. } => (StatusCode::SERVICE_UNAVAILABLE, "Too many logins"),
        LoginError::NoAnswer { .. } => (StatusCode::SERVICE_UNAVAILABLE, "Rights unknown"),
        LoginError::Refused => return Err(forbidden(error.to_string())),
    };
    let wait = error.retry_after().unwrap_or_default().as_secs().max(1);
    let problem = Problem::new(status, title, error.to_string());
    Err(problem.header(header::RETRY_AFTER, &wait.to_string()))
}

/// Returns status 401 for a token that an identity provider signed and that gives no right (RFC 6750
/// §3.1).
fn invalid_token(reason: TokenError) -> Problem {
    let problem = Problem::new(
        StatusCode::UNAUTHORIZED,
        "Not authorized",
        reason.to_string(),
    );
    let challenge = format!("Bearer realm=\"{REALM}\", error=\"invalid_token\"");
    problem.header(header::WWW_AUTHENTICATE, &challenge)
}

/// Returns status 403 for a name whose `list` does not have `stream`.
fn missing(list: &str, stream: &str) -> Problem {
    forbidden(format!(
        "this user may not {list} '{stream}': the `{list}` list of the user, or of its token, does \
         not have it"
    ))
}

fn forbidden(detail: impl Into<String>) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "Not allowed", detail)
}

/// Returns status 401 with every kind of credentials that would be accepted. A request that has `shown`
/// credentials learns that they are wrong.
fn unauthorised(users: &Users, shown: Option<&Shown<'_>>, access: Access) -> Problem {
    let (name, token) = (users.asks_for_names(), users.may_be_token(access));
    let kind = match access {
        Access::Read => "read",
        Access::Publish | Access::Past => "publish",
    };
    let by_name = "a user's name and password";
    let kind = match users.has_token(access) {
        true => format!("its {kind} token"),
        false if users.has_webhook() => "a token that it knows".to_owned(),
        false => "a token of its identity provider".to_owned(),
    };
    let by_token = "`Authorization: Bearer TOKEN` or `?token=TOKEN`";
    let detail = match (name, token) {
        (true, true) => format!(
            "this server requires {by_name}, or {kind}: send `Authorization: Basic …`, {by_token}"
        ),
        (true, false) => format!("this server requires {by_name}: send `Authorization: Basic …`"),
        _ => format!("this server requires {kind}: send {by_token}"),
    };
    let detail = match shown.map(|it| (it.user(), it.token())) {
        Some((Some(_), _)) => format!("the name or the password is wrong: {detail}"),
        Some((None, Some(_))) => format!("this key is wrong: {detail}"),
        _ => detail,
    };
    let mut problem = Problem::new(StatusCode::UNAUTHORIZED, "Not authorized", detail);
    // RFC 7617 §2.1: the encoding in which the browser is to send characters beyond ASCII.
    if name {
        let challenge = format!("Basic realm=\"{REALM}\", charset=\"UTF-8\"");
        problem = problem.header(header::WWW_AUTHENTICATE, &challenge);
    }
    if token {
        let challenge = format!("Bearer realm=\"{REALM}\"");
        problem = problem.header(header::WWW_AUTHENTICATE, &challenge);
    }
    problem
}

#[cfg(test)]
mod tests;
