//! Every route for viewers with every kind of credentials, compared with a table.
//!
//! A test beside the routes: only here all of their paths are known.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use glassline_access::auth::{Account, Name, NamedToken, Pattern, Role};
use glassline_config::{Config, Secret};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;

use crate::Server;
use crate::server::viewer_routes;

/// Credentials that clients show: nothing; a wrong password; the passwords of users who may read and publish
/// another stream, read `cam`, and publish `cam` and speak in the room `team`; an operator's token.
const SHOWN: [Option<&str>; 6] = [
    None,
    Some("reader:wrong"),
    Some("other:pw"),
    Some("reader:pw"),
    Some("publisher:pw"),
    Some("operator-0123456789"),
];

/// Methods and path of each route, and the answers to the six kinds of credentials: 1 for status 401, 3 for
/// 403, and + for any other, which the handler gives.
const TABLE: &[(&str, &str, &str)] = &[
    // Everybody.
    ("GET POST", "/-/{name}", "++++++"),
    ("GET", "/-/trust", "++++++"),
    ("GET", "/-/trust/root.crt", "++++++"),
    ("GET", "/-/trust/root.pem", "++++++"),
    ("GET", "/.well-known/acme-challenge/{token}", "++++++"),
    ("GET", "/readyz", "++++++"),
    // Readers of any stream.
    ("GET HEAD POST", "/", "11+++1"),
    ("GET HEAD", "/-/wall", "11+++1"),
    ("GET HEAD", "/-/reach.html", "11+++1"),
    ("GET HEAD POST", "/call", "11+++1"),
    ("GET HEAD", "/api/v1/streams", "11+++1"),
    ("GET", "/api/v1/files", "11+++1"),
    ("GET", "/api/v1/clock", "11+++1"),
    ("GET", "/api/v1/server", "11+++1"),
    ("POST", "/doSignaling", "11+++1"),
    // Readers of the stream.
    ("GET HEAD POST", "/{stream}", "113+31"),
    ("GET", "/{stream}/snapshot.jpg", "113+31"),
    ("GET", "/{stream}/pictures", "113+31"),
    ("GET", "/{stream}/raw.h264", "113+31"),
    ("GET HEAD", "/{stream}/hls/index.m3u8", "113+31"),
    // A pass in the path, or the right to read, which the handler checks.
    ("GET", "/{stream}/hls/{pass}/{playlist}", "113+31"),
    ("GET", "/{stream}/hls/{pass}/{rendition}/{file}", "113+31"),
    ("GET HEAD POST", "/{stream}/whep", "113+31"),
    ("GET PATCH DELETE", "/{stream}/whep/{session}", "113+31"),
    ("POST", "/{stream}/whep/{session}/report", "113+31"),
    ("GET", "/{stream}/whep/{session}/clock", "113+31"),
    ("POST", "/{stream}/whep/{session}/layer", "113+31"),
    ("GET POST", "/{stream}/whep/{session}/sse", "113+31"),
    (
        "GET DELETE",
        "/{stream}/whep/{session}/sse/layers",
        "113+31",
    ),
    ("POST", "/{stream}/whep/{session}/failure", "113+31"),
    ("GET", "/api/v1/streams/{name}", "113+31"),
    ("GET", "/api/v1/streams/{name}/latency", "113+31"),
    ("GET", "/api/v1/streams/{name}/frame-code", "113+31"),
    ("GET", "/api/v1/streams/{name}/ptz", "113+31"),
    // Publishers of the stream.
    ("GET POST", "/{stream}/whip", "1133+1"),
    ("GET PATCH DELETE", "/{stream}/whip/{session}", "1133+1"),
    ("POST", "/{stream}/whip/{session}/report", "1133+1"),
    ("GET", "/{stream}/whip/{session}/clock", "1133+1"),
    ("GET", "/{stream}/whip/{session}/layers", "1133+1"),
    ("POST", "/{stream}/whip/{session}/failure", "1133+1"),
    ("GET POST", "/{stream}/talk", "1133+1"),
    ("GET PATCH DELETE", "/{stream}/talk/{session}", "1133+1"),
    ("POST", "/{stream}/talk/{session}/failure", "1133+1"),
    // Those who may move the camera of the stream, which none of these may.
    ("POST", "/api/v1/streams/{name}/ptz/move", "113331"),
    ("POST", "/api/v1/streams/{name}/ptz/preset", "113331"),
    // Those who may watch the recordings of the stream, and save them, which none of these may.
    ("GET HEAD", "/-/playback/list", "113331"),
    ("GET HEAD", "/-/playback/get", "113331"),
    ("GET", "/-/playback/marks", "113331"),
    ("GET", "/-/playback/stages", "113331"),
    ("GET", "/-/playback/thumbnail", "113331"),
    ("GET HEAD", "/{stream}/timeline", "113331"),
    ("GET HEAD", "/{stream}/hls/dvr.m3u8", "113331"),
    ("GET HEAD", "/{stream}/hls/vod.m3u8", "113331"),
    // A pass for the past in the path, or the right to watch recordings, which the handler checks.
    ("GET", "/{stream}/hls/{pass}/dvr.m3u8", "113331"),
    ("GET", "/{stream}/hls/{pass}/vod.m3u8", "113331"),
    ("GET", "/{stream}/hls/{pass}/past/{file}", "113331"),
    ("POST", "/{stream}/whep/{session}/at", "113331"),
    ("GET HEAD", "/api/v1/streams/{name}/export", "113331"),
    // Servers of the cluster alone.
    ("POST", "/-/playback/ask", "333333"),
    // Those who may start, stop and mark its recording, which none of these may.
    ("POST", "/api/v1/streams/{name}/recording", "113331"),
    // Readers or publishers of the stream.
    ("GET HEAD", "/{stream}/publish", "113++1"),
    ("GET", "/api/v1/streams/{name}/publishing", "113++1"),
    // The handler checks the key in an offer; later requests need the session's name.
    ("POST", "/whip", "1133+1"),
    ("GET", "/whip", "++++++"),
    ("GET PATCH DELETE", "/whip/{session}", "++++++"),
    ("POST", "/whip/{session}/failure", "++++++"),
    // The page of a room is open to every user, an offer needs the rights to its voices, and later
    // requests need the session's name.
    ("GET HEAD", "/call/{room}", "11+++1"),
    ("POST", "/call/{room}", "1133+1"),
    ("GET PATCH DELETE", "/call/{room}/{session}", "++++++"),
    ("POST", "/call/{room}/{session}/failure", "++++++"),
    ("POST", "/call/{room}/{session}/hear/{id}", "++++++"),
    (
        "GET PATCH DELETE",
        "/call/{room}/{session}/hear/{id}/{leg}",
        "++++++",
    ),
    (
        "POST",
        "/call/{room}/{session}/hear/{id}/{leg}/failure",
        "++++++",
    ),
];

/// Routes that need nothing as long as tokens are all that is configured, and some that do.
const WITH_A_TOKEN_ALONE: &[(&str, &str, char)] = &[
    ("GET HEAD", "/", '+'),
    ("GET HEAD", "/-/wall", '+'),
    ("GET HEAD", "/{stream}", '+'),
    ("GET HEAD", "/{stream}/publish", '+'),
    ("GET HEAD", "/call", '+'),
    ("GET HEAD", "/call/{room}", '+'),
    ("GET", "/api/v1/streams", '1'),
    ("GET", "/{stream}/snapshot.jpg", '1'),
    ("POST", "/{stream}/whep", '1'),
    ("POST", "/{stream}/whip", '1'),
    ("POST", "/api/v1/streams/{name}/ptz/move", '1'),
    ("GET HEAD", "/{stream}/timeline", '+'),
    ("GET", "/-/playback/list", '1'),
    ("GET", "/api/v1/streams/{name}/export", '1'),
    ("POST", "/call/{room}", '1'),
];

async fn start(change: impl FnOnce(&mut Config)) -> (Server, SocketAddr) {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut config = Config {
        shards: Some(1),
        ..Config::default()
    };
    config.http.address = free;
    config.media.address = free;
    config.admin.address = free;
    config.rtsp.address = None;
    config.quic.address = None;
    change(&mut config);
    let server = Server::start(config, Vec::new()).await.expect("free ports");
    let http = server.listeners().iter().find(|(name, _)| *name == "http");
    let address = http.expect("a port for viewers").1;
    (server, address)
}

/// Sends requests, each from an address of its own: wrong passwords make an address wait.
struct Clients {
    server: SocketAddr,
    next: u16,
}

impl Clients {
    /// Returns 1 for status 401, 3 for 403, and + for any other.
    async fn ask(&mut self, method: &str, route: &str, shown: Option<&str>) -> char {
        let status = self.status(method, route, shown).await;
        assert!(status != 429 && status < 500, "{method} {route}: {status}");
        match status {
            401 => '1',
            403 => '3',
            _ => '+',
        }
    }

    async fn status(&mut self, method: &str, route: &str, shown: Option<&str>) -> u16 {
        self.next += 1;
        let [high, low] = self.next.to_be_bytes();
        let socket = TcpSocket::new_v4().expect("a socket");
        let from = SocketAddr::from(([127, 1, high, low], 0));
        socket.bind(from).expect("an address of loopback");
        let mut stream = socket.connect(self.server).await.expect("it listens");
        let path = route
            .replace("/streams/{name}", "/streams/cam")
            .replace("{stream}", "cam")
            .replace("{room}", "team")
            .replace("{name}", "base.css");
        let path = path.replace(['{', '}'], "");
        let authorization = match shown {
            // A stream key names the stream, and has the password behind it.
            Some(shown) if route.starts_with("/whip") => format!("Bearer cam:{shown}"),
            Some(shown) if shown.contains(':') => format!("Basic {}", STANDARD.encode(shown)),
            Some(token) => format!("Bearer {token}"),
            None => String::new(),
        };
        let authorization = match authorization.as_str() {
            "" => String::new(),
            value => format!("Authorization: {value}\r\n"),
        };
        let body = if method == "POST" { "v=0\r\n" } else { "" };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{authorization}\
             Content-Type: application/sdp\r\nContent-Length: {}\r\n\r\n{body}",
            self.server,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.split(' ').nth(1).and_then(|it| it.parse().ok());
        status.unwrap_or_else(|| panic!("{method} {route}: {read:?} {answer}"))
    }
}

fn account(name: &str, read: &[&str], publish: &[&str]) -> Account {
    let patterns = |texts: &[&str]| {
        let patterns = texts
            .iter()
            .map(|it| Pattern::parse(it).expect("a pattern"));
        patterns.collect()
    };
    Account {
        read: patterns(read),
        publish: patterns(publish),
        ..Account::new(Name::parse(name).expect("a name"), "pw", &[5; 16])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_route_asks_for_the_right_of_the_table() {
    let (server, address) = start(|config| {
        config.auth.users = vec![
            account("other", &["other"], &["other"]),
            account("reader", &["cam"], &[]),
            account("publisher", &["call~team~*"], &["cam", "call~team~*"]),
        ];
        config.auth.tokens = vec![NamedToken {
            name: Name::parse("shift").expect("a name"),
            token: Secret::new("operator-0123456789").expect("a token"),
            role: Role::Operator,
        }];
    })
    .await;
    let mut clients = Clients {
        server: address,
        next: 0,
    };
    let mut wrong = Vec::new();
    for (methods, route, expected) in TABLE {
        for method in methods.split(' ') {
            let mut answers = String::new();
            for shown in SHOWN {
                answers.push(clients.ask(method, route, shown).await);
            }
            if answers != *expected {
                wrong.push(format!("{method} {route}: {answers}, not {expected}"));
            }
        }
        // Whoever asks for the methods shows no credentials.
        assert_eq!(clients.ask("OPTIONS", route, None).await, '+', "{route}");
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    server.shutdown(std::time::Duration::from_secs(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_are_open_as_long_as_a_token_is_all_that_is_asked_for() {
    let (server, address) = start(|config| {
        config.auth.read_token = Secret::new("read-0123456789").ok();
        config.auth.publish_token = Secret::new("publish-0123456789").ok();
    })
    .await;
    let mut clients = Clients {
        server: address,
        next: 0,
    };
    for (methods, route, expected) in WITH_A_TOKEN_ALONE {
        for method in methods.split(' ') {
            let answer = clients.ask(method, route, None).await;
            assert_eq!(answer, *expected, "{method} {route}");
        }
    }
    server.shutdown(std::time::Duration::from_secs(5)).await;
}

#[test]
fn the_table_has_every_route() {
    let routes = viewer_routes();
    let declared: BTreeSet<&str> = routes.paths().collect();
    let listed: BTreeSet<&str> = TABLE.iter().map(|(_, path, _)| *path).collect();
    assert_eq!(listed, declared);
}
