//! Behind a proxy: whose request it is, and below which path.

use std::io::Write;
use std::net::Ipv4Addr;

use glassline_config::{Config, HostName, Secret};

use crate::peer::{Peer, PeerOffer, socket};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

const TOKEN: &str = "correct-horse";

/// Has the server trust a proxy on this machine.
fn proxied(config: &mut Config) {
    config.http.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
}

/// Returns the status of a login with a wrong token that a proxy hands on for `client`. The same
/// token again would count once.
fn wrong_login(running: &Running, client: &str, attempt: usize) -> u16 {
    let token = format!("Bearer wrong-{attempt}");
    let headers = [
        ("Authorization", token.as_str()),
        ("X-Forwarded-For", client),
    ];
    running
        .request("GET", "/api/v1/streams", &headers, "")
        .status
}

/// Tries wrong logins of the clients that `client` names, until one is refused as one too many. An
/// address gains a login every two seconds, so a slow machine takes more of them.
fn tries_until_limited(running: &Running, client: impl Fn(usize) -> String) -> usize {
    let tries = (0..1000).position(|attempt| {
        let status = wrong_login(running, &client(attempt), attempt);
        assert!(matches!(status, 401 | 429), "{status}");
        status == 429
    });
    tries.expect("no limit")
}

#[test]
fn a_client_behind_a_trusted_proxy_is_limited_by_its_own_address() {
    let running = Running::with(1, |config| {
        config.auth.read_token = Secret::new(TOKEN).ok();
        proxied(config);
    });
    tries_until_limited(&running, |_| "192.0.2.1".to_owned());
    for other in 2..100 {
        let client = format!("192.0.2.{other}");
        assert_eq!(wrong_login(&running, &client, 0), 401, "{client}");
    }
}

#[test]
fn clients_behind_a_stranger_are_limited_by_the_strangers_address() {
    let running = Running::with(1, |config| {
        config.auth.read_token = Secret::new(TOKEN).ok();
    });
    tries_until_limited(&running, |attempt| {
        format!("192.0.{}.{}", attempt / 256, attempt % 256)
    });
}

#[test]
fn a_request_that_a_trusted_proxy_hands_on_never_counts_as_local() {
    let running = Running::with(1, proxied);
    let offer = |headers: &[(&str, &str)]| {
        let asked = PeerOffer::default().with_data();
        let path = format!("/{STREAM}/whip");
        let asking = Peer::asking(&running, &path, headers, socket(), asked, str::to_owned);
        asking.map_or_else(|refused| refused.status, |_| 201)
    };
    for client in ["127.0.0.1", "::1", "192.0.2.1"] {
        assert_eq!(offer(&[("X-Forwarded-For", client)]), 403, "{client}");
        let standard = format!("for=\"{client}\"");
        assert_eq!(offer(&[("Forwarded", &standard)]), 403, "{client}");
    }
}

#[test]
fn links_and_locations_have_the_path_below_which_a_proxy_offers_the_server() {
    let running = Running::with(1, |config| {
        proxied(config);
        config.http.base_path = "/media".to_owned().try_into().expect("a path");
    });
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    // A proxy hands on the whole path, or removes the base path.
    for path in ["/media/", "/media", "/", "/media/cam", "/cam"] {
        let page = running.get(path);
        assert_eq!(page.status, 200, "{path}");
        assert!(
            page.body.contains("src=\"/media/-/theme.js\""),
            "{path}: {}",
            page.body
        );
        assert!(!page.body.contains("=\"/-/"), "{path}");
    }
    assert_eq!(running.get("/media/-/api.js").status, 200);
    assert_eq!(running.get("/mediathek/-/api.js").status, 404);
    let whep = |path: &str, headers: &[(&str, &str)]| {
        let offer = PeerOffer::to_watch();
        let peer = Peer::asking(&running, path, headers, socket(), offer, str::to_owned);
        let peer = peer.expect("an answer");
        assert_eq!(peer.delete().status, 200, "{}", peer.location);
        peer.location
    };
    let location = whep("/media/cam/whep", &[]);
    assert!(location.starts_with("/media/cam/whep/"), "{location}");
}

#[test]
fn a_prefix_is_believed_of_trusted_proxies_only() {
    for (is_trusted, expected) in [(true, "/cams/-/theme.js"), (false, "\"/-/theme.js")] {
        let running = Running::with(1, |config| {
            if is_trusted {
                proxied(config);
            }
        });
        let page = running.request("GET", "/", &[("X-Forwarded-Prefix", "/cams")], "");
        assert!(page.body.contains(expected), "{is_trusted}: {}", page.body);
        let evil = "//evil.example/\"><script>";
        let page = running.request("GET", "/", &[("X-Forwarded-Prefix", evil)], "");
        assert!(!page.body.contains("evil"), "{is_trusted}: {}", page.body);
    }
}

#[test]
fn a_page_of_the_proxys_name_is_the_servers_own_and_a_strangers_name_is_not() {
    let running = Running::with(1, |config| {
        proxied(config);
        let name: HostName = "media.example".to_owned().try_into().expect("a name");
        config.http.hosts = vec![name];
    });
    let get = |headers: &[(&str, &str)]| {
        let all = [&[("X-Forwarded-For", "192.0.2.1")], headers].concat();
        running.request("GET", "/api/v1/streams", &all, "").status
    };
    let origin = ("Origin", "https://media.example");
    let told = ("X-Forwarded-Host", "media.example");
    assert_eq!(get(&[("Host", "127.0.0.1:8889"), origin, told]), 200);
    assert_eq!(
        get(&[("Host", "127.0.0.1:8889"), origin]),
        403,
        "another origin"
    );
    // A page of a stranger sets the header on requests to its own name.
    let forged = ("X-Forwarded-Host", "localhost");
    assert_eq!(get(&[("Host", "evil.example"), forged]), 421);
    assert_eq!(get(&[("Host", "evil.example"), told]), 421);
}

#[test]
fn contradicting_headers_are_refused_and_of_strangers_they_mean_nothing() {
    let headers = [
        ("X-Forwarded-For", "192.0.2.1"),
        ("Forwarded", "for=127.0.0.1"),
    ];
    let trusting = Running::with(1, proxied);
    let refused = trusting.request("GET", "/api/v1/server", &headers, "");
    let problem = refused.problem(400);
    assert!(
        problem["detail"]
            .as_str()
            .is_some_and(|it| it.contains("X-Forwarded-For"))
    );
    let wary = Running::start(1);
    assert_eq!(
        wary.request("GET", "/api/v1/server", &headers, "").status,
        200
    );
}

#[test]
fn connections_of_a_trusted_proxy_are_limited_by_the_total_only() {
    const OF_ADDRESS: usize = 2;
    let running = Running::with(1, |config| {
        proxied(config);
        config.http.connections = 20;
        config.http.connections_per_address = OF_ADDRESS;
    });
    let mut idle: Vec<_> = (0..4 * OF_ADDRESS)
        .map(|_| {
            let mut stream = running.connect_http(Ipv4Addr::LOCALHOST);
            stream.write_all(b"GET / HTTP/1.1\r\n").expect("open");
            stream
        })
        .collect();
    // It comes after them, so all of them have been accepted.
    assert_eq!(running.get("/api/v1/server").status, 200);
    let evicted = running.metric("http_connections_closed_total");
    let of = "reason=\"evicted\",listener=\"http\"";
    let count = evicted
        .iter()
        .find(|(labels, _)| labels == of)
        .map(|(_, count)| *count);
    assert_eq!(count, Some(0));
    idle.clear();
}
