use glassline_config::{Auth, Config, Secret};

use super::*;
use axum::http::{HeaderMap, HeaderValue, Uri};
use glassline_rtsp::auth::{Authorization, User};

use std::net::SocketAddr;

use glassline_access::auth::{Account, Credential, Listener, Name, Pattern, Requester};

use super::super::problem::Refusal;
use crate::sessions::ConnectionAddresses;

fn connection(peer: &str) -> ConnectionAddresses {
    let local = match peer {
        "127.0.0.1" => [127, 0, 0, 1],
        _ => [192, 0, 2, 200],
    };
    ConnectionAddresses {
        peer: SocketAddr::new(peer.parse().expect("an address"), 50_000),
        local: SocketAddr::from((local, 8889)),
    }
}

async fn status(users: &Arc<Users>, header: Option<&str>, target: &str) -> u16 {
    let mut headers = HeaderMap::new();
    if let Some(value) = header {
        let value = HeaderValue::from_str(value).expect("ASCII");
        headers.insert(header::AUTHORIZATION, value);
    }
    let uri: Uri = target.parse().expect("a URI");
    let stream = uri.path().trim_start_matches('/');
    let shown = Shown::new(connection("192.0.2.1"), &headers, &uri);
    match reader(users, &shown, Some(stream)).await {
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
    let (headers, uri) = (HeaderMap::new(), Uri::default());
    let shown = Shown::new(connection("192.0.2.1"), &headers, &uri);
    let Err(refused) = reader(&users, &shown, None).await else {
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

#[tokio::test]
async fn wrong_credentials_are_told_from_missing_ones() {
    let auth = Auth {
        read_token: Some(Secret::new("correct-horse").expect("a token")),
        ..Auth::default()
    };
    let users = Arc::new(Users::new(&auth));
    for (target, login, begin) in [
        ("/demo", None, "this server requires"),
        (
            "/demo?token=battery",
            None,
            "this key is wrong: this server",
        ),
        (
            "/demo",
            Some("Basic YW5uOm5v"),
            "the name or the password is wrong: this server",
        ),
    ] {
        let mut headers = HeaderMap::new();
        if let Some(value) = login {
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
        }
        let uri: Uri = target.parse().expect("a URI");
        let shown = Shown::new(connection("192.0.2.1"), &headers, &uri);
        let refused = reader(&users, &shown, Some("demo")).await.err();
        let response = axum::response::IntoResponse::into_response(refused.expect("no right"));
        let refusal = response.extensions().get::<Refusal>().expect("a reason");
        assert!(refusal.detail.starts_with(begin), "{}", refusal.detail);
    }
}

/// Asks as a client at `peer`, with `headers`.
async fn may(
    users: &Arc<Users>,
    peer: &str,
    headers: &[(&'static str, &'static str)],
    stream: &str,
) -> (u16, u16) {
    let pairs = headers.iter();
    let pairs = pairs.map(|(name, value)| (*name, HeaderValue::from_static(value)));
    let headers = pairs.map(|(name, value)| (header::HeaderName::from_static(name), value));
    let (headers, uri) = (headers.collect::<HeaderMap>(), Uri::from_static("/"));
    let shown = Shown::new(connection(peer), &headers, &uri);
    let status = |problem: Problem| problem.status().as_u16();
    let reads = reader(users, &shown, Some(stream)).await;
    let publishes = publisher(users, &Sites::default(), &shown, stream).await;
    (
        reads.map_or_else(status, |_| 200),
        publishes.map_or_else(status, |_| 200),
    )
}

#[tokio::test]
async fn a_request_that_a_proxy_forwards_is_not_of_this_machine() {
    let open = Arc::new(Users::new(&Auth::default()));
    let here = "127.0.0.1";
    assert_eq!(may(&open, here, &[], "demo").await, (200, 200));
    for name in Requester::FORWARDING_HEADERS {
        let forwarded = may(&open, here, &[(name, "127.0.0.1")], "demo").await;
        assert_eq!(forwarded, (200, 403), "{name}");
    }
}

#[tokio::test]
async fn pages_of_other_sites_publish_nothing_by_a_browser_of_this_machine() {
    let open = Arc::new(Users::new(&Auth::default()));
    for (origin, host, expected) in [
        ("http://127.0.0.1:8889", "127.0.0.1:8889", 200),
        ("http://localhost:8889", "localhost:8889", 200),
        ("http://evil.example", "127.0.0.1:8889", 403),
        ("http://evil.example:8889", "evil.example:8889", 421),
        ("null", "127.0.0.1:8889", 403),
    ] {
        let headers = [("origin", origin), ("host", host)];
        let (_, publishes) = may(&open, "127.0.0.1", &headers, "demo").await;
        assert_eq!(publishes, expected, "{origin}");
    }
}

#[tokio::test]
async fn voices_of_rooms_are_heard_by_those_who_may_join() {
    let voice = "call~team~0123456789ab";
    let (here, away) = ("127.0.0.1", "192.0.2.1");
    let open = Arc::new(Users::new(&Auth::default()));
    assert_eq!(may(&open, here, &[], voice).await.0, 200);
    assert_eq!(may(&open, away, &[], voice).await.0, 403);
    assert_eq!(
        may(&open, here, &[("via", "1.1 proxy")], voice).await.0,
        403
    );
    let token = Auth {
        publish_token: Some(Secret::new("tok").expect("a token")),
        ..Auth::default()
    };
    let token = Arc::new(Users::new(&token));
    for peer in [here, away] {
        assert_eq!(may(&token, peer, &[], voice).await.0, 401, "{peer}");
        assert_eq!(may(&token, peer, &[], "demo").await.0, 200, "{peer}");
        let shown = [("authorization", "Bearer tok")];
        assert_eq!(may(&token, peer, &shown, voice).await.0, 200, "{peer}");
    }
    let (headers, uri) = (HeaderMap::new(), Uri::default());
    let shown = Shown::new(connection(away), &headers, &uri);
    let reader = reader(&token, &shown, None).await.expect("lists streams");
    assert!(reader.sees("demo") && !reader.sees(voice));
}

#[tokio::test]
async fn wrong_logins_of_an_address_cost_that_address() {
    let ann = Account {
        read: vec![Pattern::parse("*").expect("a pattern")],
        ..Account::new(Name::parse("ann").expect("a name"), "pw", &[3; 16])
    };
    let auth = Auth {
        users: vec![ann],
        ..Auth::default()
    };
    let users = Arc::new(Users::new(&auth));
    let ask = async |peer: &str, password: &str| {
        let shown = User {
            name: "ann".to_owned(),
            password: password.to_owned(),
        };
        let mut headers = HeaderMap::new();
        let value = Authorization::Basic(shown).to_string();
        let value = HeaderValue::from_str(&value).expect("ASCII");
        headers.insert(header::AUTHORIZATION, value);
        let uri = Uri::from_static("/cam");
        let shown = Shown::new(connection(peer), &headers, &uri);
        let answer = reader(&users, &shown, Some("cam")).await;
        answer.map_or_else(|problem| problem.status().as_u16(), |_| 200)
    };
    let (stranger, friend) = ("192.0.2.66", "192.0.2.7");
    for _ in 0..100 {
        assert_eq!(
            ask(stranger, "old password").await,
            401,
            "the same one again"
        );
    }
    let mut statuses = Vec::new();
    for guess in 0..40 {
        statuses.push(ask(stranger, &format!("guess {guess}")).await);
    }
    assert_eq!(statuses.first(), Some(&401));
    assert_eq!(statuses.last(), Some(&429), "{statuses:?}");
    assert_eq!(ask(stranger, "pw").await, 429, "even a right guess");
    assert_eq!(ask(friend, "pw").await, 200, "others are not concerned");
    let counts = users.failures().of(Listener::Http);
    assert!(counts.limited.get() > 0 && counts.wrong.get() >= 119);
}

#[tokio::test]
async fn a_credential_that_nothing_accepts_is_one_failure() {
    let sites = Sites::default();
    for case in crate::login_cases::all().await {
        for stream in crate::login_cases::STREAMS {
            for action in ["read", "list", "publish", "either", "call", "key"] {
                let ask = async |users: &Arc<Users>, credential: Credential| {
                    let value = match (credential, action) {
                        (Credential::Nothing, _) => None,
                        (Credential::Token(token), "key") => {
                            Some(format!("Bearer {stream}:{token}"))
                        }
                        (Credential::Password { user, password }, "key") => {
                            Some(format!("Bearer {stream}:{user}:{password}"))
                        }
                        (Credential::Token(token), _) => Some(format!("Bearer {token}")),
                        (Credential::Password { user, password }, _) => {
                            let user = User {
                                name: user,
                                password,
                            };
                            Some(Authorization::Basic(user).to_string())
                        }
                    };
                    let mut headers = HeaderMap::new();
                    if let Some(value) = value {
                        let value = HeaderValue::from_str(&value).expect("ASCII");
                        headers.insert(header::AUTHORIZATION, value);
                    }
                    let uri = Uri::from_static("/");
                    let shown = Shown::new(connection("192.0.2.1"), &headers, &uri);
                    let answer = match action {
                        "read" => reader(users, &shown, Some(stream)).await.map(drop),
                        "list" => reader(users, &shown, None).await.map(drop),
                        "publish" => publisher(users, &sites, &shown, stream).await.map(drop),
                        "either" => reader_or_publisher(users, &sites, &shown, stream).await,
                        "call" => {
                            let voice = format!("call~{stream}~0123456789ab");
                            participant(users, &sites, &shown, &voice).await.map(drop)
                        }
                        _ => stream_of_key(users, &sites, &shown).await.map(drop),
                    };
                    answer.map_or_else(|problem| problem.status().as_u16(), |()| 200)
                };
                case.walk(Listener::Http, &format!("{action} {stream}"), ask)
                    .await;
            }
        }
    }
}
