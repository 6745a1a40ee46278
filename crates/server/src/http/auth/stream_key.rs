//! Stream keys: one text that names a stream and has the credentials to publish it.

use axum::http::{StatusCode, header};
use glassline_access::auth::{
    Access, Action, Credential, Login, LoginError, Question, REALM, Sites, Users,
};

use super::super::page_guard;
use super::super::problem::Problem;
use super::super::shown::Shown;
use super::{concluded, forbidden, missing, refuse_later, unauthorised};

/// Checks the stream key that a request shows as its token, and returns the name of the stream, with
/// the name whose right it is to publish it, as in
/// [`publisher`](super::publisher).
///
/// A key is the name alone where publishing needs no credentials, otherwise `NAME:TOKEN` with the
/// publish token or one that an identity provider signed, or `NAME:USER:PASSWORD`. Neither names of
/// streams nor of users have a colon.
pub(in crate::http) async fn stream_of_key(
    users: &Users,
    sites: &Sites,
    shown: &Shown<'_>,
) -> Result<(String, Option<String>), Problem> {
    let Some(key) = shown.token() else {
        let detail = "send `Authorization: Bearer KEY`: the key names the stream, as STREAM, \
                      STREAM:TOKEN or STREAM:USER:PASSWORD; or POST to /STREAM/whip";
        let problem = Problem::new(StatusCode::UNAUTHORIZED, "No stream key", detail);
        let challenge = format!("Bearer realm=\"{REALM}\"");
        return Err(problem.header(header::WWW_AUTHENTICATE, &challenge));
    };
    let (stream, secret) = key.split_once(':').unwrap_or((&key, ""));
    let login = Login::new(shown.requester());
    let mut login = match secret.split_once(':') {
        Some(user) => login.with_user(Some(user)),
        // A name alone is all that the client shows.
        None if secret.is_empty() => login.with_token(Some(&key)),
        None => login.with_token(Some(secret)),
    };
    let user = publisher_by_key(users, sites, &mut login, shown, stream, secret).await;
    let user = concluded(users, login, user)?;
    Ok((stream.to_owned(), user))
}

/// Checks the credentials `secret` of a stream key.
async fn publisher_by_key(
    users: &Users,
    sites: &Sites,
    login: &mut Login,
    shown: &Shown<'_>,
    stream: &str,
    secret: &str,
) -> Result<Option<String>, Problem> {
    if users.is_open(Access::Publish, login.by()) {
        let own = sites.check_own(&shown.page());
        return own.map(|()| None).map_err(|refusal| {
            let page = page_guard::refuse(&refusal);
            page.because("pages of other sites may publish only with `auth.publish_token`")
        });
    }
    if !users.has_logins() && !users.has_token(Access::Publish) {
        return Err(forbidden(
            "only the server's own machine may publish: set `auth.publish_token` or `auth.users` to \
             allow others",
        ));
    }
    let may_be_token = !secret.is_empty() && !secret.contains(':');
    if users.has_token(Access::Publish) && may_be_token {
        match users.verify_token(login, &[Access::Publish], secret) {
            Ok(()) => return Ok(None),
            Err(error) => refuse_later(error)?,
        }
    }
    let user = match secret.split_once(':') {
        Some((user, password)) if users.checks_here(user) => {
            let verified = users.verify(login, user, password).await;
            verified.map(|()| user.to_owned())
        }
        _ if users.is_signed(secret) => users.verify_bearer(login, secret).await,
        pair if users.has_webhook() => {
            let question = shown.question(Action::Publish, Some(stream));
            users.ask(login, of_key(question, secret, pair)).await
        }
        _ => Err(LoginError::Wrong),
    };
    match user {
        Ok(user) if users.may(&user, Access::Publish, stream) => Ok(Some(user)),
        Ok(_) => Err(missing("publish", stream)),
        Err(error) => {
            refuse_later(error)?;
            let shown = Some(shown).filter(|_| !secret.is_empty());
            Err(unauthorised(users, shown, Access::Publish))
        }
    }
}

/// Returns the question with the credentials of a stream key in place of the key.
fn of_key(question: Question, secret: &str, pair: Option<(&str, &str)>) -> Question {
    let credential = match pair {
        Some((user, password)) => Credential::Password {
            user: user.to_owned(),
            password: password.to_owned(),
        },
        None if secret.is_empty() => Credential::Nothing,
        None => Credential::Token(secret.to_owned()),
    };
    Question {
        credential,
        ..question
    }
}
