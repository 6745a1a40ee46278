//! Checks the credentials of requests to read, to publish messages, or to join a room: a token or a
//! user of the [user store](crate::auth).

use std::net::IpAddr;
use std::sync::Arc;

use axum::http::{HeaderMap, StatusCode, Uri, header};
use glassline_rtsp::auth::Authorization;

use super::problem::Problem;
use crate::auth::{Access, REALM, Users};

/// The streams that a request may know of, attached to the request by [`reader`].
#[derive(Clone, Debug)]
pub(super) struct Reader(Option<(Arc<Users>, String)>);

impl Reader {
    /// Returns a reader that may know of all streams.
    pub(super) const fn of_all() -> Self {
        Self(None)
    }

    /// Returns whether the reader may know of `stream`.
    pub(super) fn sees(&self, stream: &str) -> bool {
        let Self(Some((users, name))) = self else {
            return true;
        };
        users.may(name, Access::Read, stream)
    }
}

/// Checks that a request of `peer` may read `stream`, or any stream if the request names none.
///
/// The request carries the read token as `Authorization: Bearer`, or as `token` in the query for
/// players that cannot set headers; or a user's name and password as `Authorization: Basic`.
pub(super) async fn reader(
    users: &Arc<Users>,
    peer: IpAddr,
    headers: &HeaderMap,
    uri: &Uri,
    stream: Option<&str>,
) -> Result<Reader, Problem> {
    if users.is_open(Access::Read, peer) {
        return Ok(Reader::of_all());
    }
    let token = bearer(headers).or_else(|| query_token(uri));
    if token.is_some_and(|token| users.token_opens(Access::Read, &token)) {
        return Ok(Reader::of_all());
    }
    let Some(Authorization::Basic(user)) = basic(headers) else {
        return Err(unauthorised(users, Access::Read));
    };
    if !users.verify(&user.name, &user.password).await {
        return Err(unauthorised(users, Access::Read));
    }
    let reader = Reader(Some((Arc::clone(users), user.name)));
    match stream.filter(|stream| !reader.sees(stream)) {
        Some(stream) => {
            let detail = format!(
                "this user may not read '{stream}': the user's `read` list does not have it"
            );
            Err(Problem::new(StatusCode::FORBIDDEN, "Not allowed", detail))
        }
        None => Ok(reader),
    }
}

/// Checks that a request of `peer` may publish messages next to `stream`.
///
/// The request carries the same kinds of credentials as for [`reader`], with the right to publish.
/// If no credentials are configured, only this machine's own pages may publish, because a browser
/// on this machine opens pages of other sites, too.
pub(super) async fn publisher(
    users: &Users,
    peer: IpAddr,
    headers: &HeaderMap,
    uri: &Uri,
    stream: &str,
) -> Result<(), Problem> {
    let token = bearer(headers).or_else(|| query_token(uri));
    if token.is_some_and(|token| users.token_opens(Access::Publish, &token)) {
        return Ok(());
    }
    if users.is_open(Access::Publish, peer) {
        return match is_of_another_site(headers) {
            true => Err(forbidden(
                "pages of other sites may publish only if a token is required: set \
                 `auth.publish_token`, and send it as `Authorization: Bearer TOKEN`",
            )),
            false => Ok(()),
        };
    }
    if !users.any() && !users.has_token(Access::Publish) {
        return Err(forbidden(
            "only this machine may publish here: set `auth.publish_token` or `auth.users` to \
             allow others",
        ));
    }
    let Some(Authorization::Basic(user)) = basic(headers) else {
        return Err(unauthorised(users, Access::Publish));
    };
    if !users.verify(&user.name, &user.password).await {
        return Err(unauthorised(users, Access::Publish));
    }
    match users.may(&user.name, Access::Publish, stream) {
        true => Ok(()),
        false => Err(forbidden(&format!(
            "this user may not publish '{stream}': the user's `publish` list does not have it"
        ))),
    }
}

/// Checks that a request of `peer` may speak as `stream` in a room, and hear the others.
///
/// The request carries the same kinds of credentials as for [`reader`]; a token must be the publish
/// token, since a participant who may speak in a room may also hear it. If no credentials are
/// configured, only this machine's own pages may join: otherwise any site could speak through a
/// browser that runs here.
pub(super) async fn participant(
    users: &Users,
    peer: IpAddr,
    headers: &HeaderMap,
    uri: &Uri,
    stream: &str,
) -> Result<(), Problem> {
    let token = bearer(headers).or_else(|| query_token(uri));
    let opens = |access| {
        let token = token.as_deref();
        token.is_some_and(|token| users.token_opens(access, token))
    };
    if opens(Access::Publish) {
        return Ok(());
    }
    if users.is_open(Access::Publish, peer) {
        if opens(Access::Read) {
            return Ok(());
        }
        if !users.is_open(Access::Read, peer) {
            return Err(unauthorised(users, Access::Read));
        }
        return match is_of_another_site(headers) {
            true => Err(forbidden(
                "pages of other sites, or of this server by a host name, may join rooms only if a token is required: set \
                 `auth.publish_token`, and send it as `Authorization: Bearer TOKEN`",
            )),
            false => Ok(()),
        };
    }
    if !users.any() && !users.has_token(Access::Publish) {
        return Err(forbidden(
            "only this machine may publish here, and joining a room is publishing: set \
             `auth.publish_token` or `auth.users` to allow others",
        ));
    }
    let Some(Authorization::Basic(user)) = basic(headers) else {
        return Err(unauthorised(users, Access::Publish));
    };
    if !users.verify(&user.name, &user.password).await {
        return Err(unauthorised(users, Access::Publish));
    }
    for (access, list) in [(Access::Publish, "publish"), (Access::Read, "read")] {
        if !users.may(&user.name, access, stream) {
            return Err(forbidden(&format!(
                "this user may not {list} '{stream}': the user's `{list}` list does not have it; a \
                 room's voices are the streams `call~ROOM~*`"
            )));
        }
    }
    Ok(())
}

/// Returns whether the request comes from a page of another site, as browsers report it (Fetch
/// standard §3.1). The server's own pages are those of the address that was asked, or of
/// `localhost`: any other name may belong to a stranger who lets it resolve to this address (DNS
/// rebinding).
fn is_of_another_site(headers: &HeaderMap) -> bool {
    let text = |name| headers.get(name).and_then(|it| it.to_str().ok());
    let Some(origin) = text(header::ORIGIN) else {
        return false;
    };
    let authority = origin.split_once("://").map(|(_, authority)| authority);
    let is_here = url::Url::parse(origin).is_ok_and(|url| match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        host => host.is_some(),
    });
    authority.is_none() || authority != text(header::HOST) || !is_here
}

fn forbidden(detail: &str) -> Problem {
    Problem::new(StatusCode::FORBIDDEN, "Not allowed", detail)
}

/// Returns status 401 with every kind of credentials that would be accepted.
fn unauthorised(users: &Users, access: Access) -> Problem {
    let (name, token) = (users.any(), users.has_token(access));
    let kind = match access {
        Access::Read => "read",
        Access::Publish => "publish",
    };
    let by_name = "a user's name and password";
    let by_token = "`Authorization: Bearer TOKEN` or `?token=TOKEN`";
    let detail = match (name, token) {
        (true, true) => format!(
            "this server requires {by_name}, or its {kind} token: send `Authorization: Basic …`, {by_token}"
        ),
        (true, false) => format!("this server requires {by_name}: send `Authorization: Basic …`"),
        _ => format!("this server requires its {kind} token: send {by_token}"),
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

fn basic(headers: &HeaderMap) -> Option<Authorization> {
    Authorization::parse(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
}

fn bearer(headers: &HeaderMap) -> Option<String> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme
        .eq_ignore_ascii_case("bearer")
        .then(|| token.trim().to_owned())
}

fn query_token(uri: &Uri) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.find_map(|(name, value)| (name == "token").then(|| value.into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::HeaderValue;

    use crate::auth::{Account, Name, Pattern};
    use crate::config::{Auth, Config, Secret};

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    async fn status(users: &Arc<Users>, header: Option<&str>, target: &str) -> u16 {
        let mut headers = HeaderMap::new();
        if let Some(value) = header {
            let value = HeaderValue::from_str(value).expect("ASCII");
            headers.insert(header::AUTHORIZATION, value);
        }
        let uri: Uri = target.parse().expect("a URI");
        let stream = uri.path().trim_start_matches('/');
        match reader(users, PEER, &headers, &uri, Some(stream)).await {
            Ok(_) => 200,
            Err(problem) => problem.status().as_u16(),
        }
    }

    #[tokio::test]
    async fn the_token_is_taken_from_header_or_query_and_nothing_else_passes() {
        let auth = Auth {
            read_token: Some(Secret::new("correct-horse+battery").expect("a token")),
            ..Auth::default()
        };
        let users = Arc::new(Users::new(&auth));
        let open = Arc::new(Users::new(&Config::default().auth));
        assert_eq!(status(&open, None, "/demo").await, 200, "open server");
        let right = Some("bearer correct-horse+battery");
        assert_eq!(status(&users, right, "/demo").await, 200);
        let query = "/demo?token=correct-horse%2Bbattery";
        assert_eq!(status(&users, None, query).await, 200);
        for wrong in [
            "Bearer correct-horse",
            "Bearer correct-horse+battery2",
            "Basic correct-horse+battery",
        ] {
            assert_eq!(status(&users, Some(wrong), "/demo").await, 401, "{wrong}");
        }
        assert_eq!(status(&users, None, "/demo?token=").await, 401);
    }

    #[tokio::test]
    async fn users_read_what_they_may_beside_the_token() {
        let ann = Account {
            read: vec![Pattern::parse("cam*").expect("a pattern")],
            ..Account::new(Name::parse("ann").expect("a name"), "pw", &[3; 16])
        };
        let auth = Auth {
            read_token: Some(Secret::new("tok").expect("a token")),
            users: vec![ann],
            ..Auth::default()
        };
        let users = Arc::new(Users::new(&auth));
        // ann:pw, ann:no, eve:pw
        let (right, wrong, unknown) = ("Basic YW5uOnB3", "Basic YW5uOm5v", "Basic ZXZlOnB3");
        assert_eq!(status(&users, Some(right), "/cam1").await, 200);
        assert_eq!(status(&users, Some(right), "/hall").await, 403);
        assert_eq!(status(&users, Some(wrong), "/cam1").await, 401);
        assert_eq!(status(&users, Some(unknown), "/cam1").await, 401);
        assert_eq!(status(&users, None, "/cam1").await, 401);
        assert_eq!(status(&users, Some("Bearer tok"), "/hall").await, 200);
        let Err(refused) = reader(&users, PEER, &HeaderMap::new(), &Uri::default(), None).await
        else {
            panic!("nothing was shown")
        };
        let response = axum::response::IntoResponse::into_response(refused);
        let challenges = response.headers().get_all(header::WWW_AUTHENTICATE);
        let challenges: Vec<_> = challenges
            .iter()
            .filter_map(|it| it.to_str().ok())
            .collect();
        assert_eq!(
            challenges,
            [
                "Basic realm=\"glassline\", charset=\"UTF-8\"",
                "Bearer realm=\"glassline\""
            ]
        );
    }

    #[test]
    fn pages_of_this_server_are_known_by_its_address() {
        let is_other = |origin: Option<&'static str>, host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::HOST, HeaderValue::from_static(host));
            if let Some(origin) = origin {
                let origin = HeaderValue::from_static(origin);
                headers.insert(header::ORIGIN, origin);
            }
            is_of_another_site(&headers)
        };
        assert!(!is_other(None, "127.0.0.1:8889"), "no browser");
        for (origin, host) in [
            ("http://127.0.0.1:8889", "127.0.0.1:8889"),
            ("http://localhost:8889", "localhost:8889"),
            ("http://[::1]:8889", "[::1]:8889"),
        ] {
            assert!(!is_other(Some(origin), host), "{origin}");
        }
        for (origin, host) in [
            ("http://example.org", "127.0.0.1:8889"),
            ("http://127.0.0.1:80", "127.0.0.1:8889"),
            ("http://example.org:8889", "example.org:8889"),
            ("null", "127.0.0.1:8889"),
        ] {
            assert!(is_other(Some(origin), host), "{origin}");
        }
    }
}
