//! Pages of strangers in a browser that reaches the server, and what they may do by it.

use glassline_config::{HostName, Origin, Secret};

use crate::peer::SDP;
use crate::running::Running;
use crate::source::{Film, Source};

const EVIL: &str = "http://evil.example";

fn listing(site: &str) -> Running {
    Running::with(1, |config| {
        config.cors.origins = vec![Origin::try_from(site.to_owned()).expect("an origin")];
    })
}

#[test]
fn a_page_of_another_site_reads_nothing() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    for (method, path) in [
        ("GET", "/api/v1/streams"),
        ("GET", "/api/v1/streams/cam"),
        ("GET", "/"),
        ("OPTIONS", "/cam/whep"),
        ("POST", "/cam/whep"),
        ("POST", "/doSignaling"),
        ("POST", "/cam/whip"),
    ] {
        for origin in [EVIL, "null", "http://localhost:1"] {
            let headers = [SDP, ("Origin", origin)];
            let refused = running.request(method, path, &headers, "");
            let detail = refused.problem(403)["detail"].to_string();
            assert!(detail.contains("cors.origins"), "{path}: {detail}");
            assert_eq!(refused.header("access-control-allow-origin"), None);
        }
    }
    // Programs and the server's own pages go on.
    assert_eq!(running.get("/api/v1/streams").status, 200);
    for host in ["127.0.0.1:8889", "localhost:8889", "[::1]:8889"] {
        let origin = format!("http://{host}");
        let headers = [SDP, ("Host", host), ("Origin", &origin)];
        let offer = running.request("POST", "/cam/whep", &headers, "v=0\r\n");
        offer.problem(400);
    }
}

#[test]
fn a_configured_site_reads_and_others_do_not() {
    let running = listing("https://site.example");
    let site = ("Origin", "https://site.example");
    let read = running.request("GET", "/api/v1/streams", &[site], "");
    assert_eq!(read.status, 200);
    let allowed = read.header("access-control-allow-origin");
    assert_eq!(allowed, Some("https://site.example"));
    let preflight = running.request("OPTIONS", "/cam/whep", &[site], "");
    assert_eq!(preflight.status, 204);
    assert!(preflight.header("access-control-allow-origin").is_some());
    // A page of a public site, and a server of a private network (WICG Private Network Access).
    let granted = "access-control-allow-private-network";
    assert_eq!(preflight.header(granted), None, "nobody asked");
    let method = ("Access-Control-Request-Method", "POST");
    let asked = ("Access-Control-Request-Private-Network", "true");
    let preflight = running.request("OPTIONS", "/cam/whep", &[site, method, asked], "");
    assert_eq!(preflight.header(granted), Some("true"));
    let other = running.request("GET", "/api/v1/streams", &[("Origin", EVIL)], "");
    other.problem(403);
    // Behind a proxy, the site is also the server's name.
    let host = ("Host", "site.example");
    assert_eq!(running.request("GET", "/", &[host], "").status, 200);

    let all = listing("*");
    let read = all.request("GET", "/api/v1/streams", &[("Origin", EVIL)], "");
    assert_eq!(read.header("access-control-allow-origin"), Some(EVIL));
}

/// With a token, the page's site does not matter; browsers show the answer to listed sites only.
#[test]
fn a_page_with_a_token_is_served() {
    let running = Running::with(1, |config| {
        config.auth.read_token = Secret::new("look-1234567").ok();
    });
    let evil = ("Origin", EVIL);
    running
        .request("GET", "/api/v1/streams", &[evil], "")
        .problem(401);
    let token = ("Authorization", "Bearer look-1234567");
    let read = running.request("GET", "/api/v1/streams", &[evil, token], "");
    assert_eq!(read.status, 200);
    assert_eq!(read.header("access-control-allow-origin"), None);
}

#[test]
fn a_name_that_a_stranger_lets_resolve_to_this_machine_is_refused() {
    let running = Running::with(1, |config| {
        let name = "media.example".to_owned();
        config.http.hosts = vec![HostName::try_from(name).expect("a name")];
    });
    let host = ("Host", "evil.example:8889");
    let same_origin = ("Origin", "http://evil.example:8889");
    for headers in [&[host][..], &[host, same_origin]] {
        for path in ["/", "/api/v1/streams", "/-/base.css"] {
            let refused = running.request("GET", path, headers, "");
            let detail = refused.problem(421)["detail"].to_string();
            assert!(detail.contains("http.hosts"), "{detail}");
        }
        for path in ["/metrics", "/api/v1/streams", "/healthz"] {
            running.admin_with(path, headers).problem(421);
        }
    }
    let evil = [("Origin", EVIL)];
    running.admin_with("/api/v1/streams", &evil).problem(403);
    for host in ["media.example", "127.0.0.1", "localhost:9997"] {
        let host = [("Host", host)];
        assert_eq!(running.admin_with("/metrics", &host).status, 200);
        assert_eq!(running.request("GET", "/", &host, "").status, 200);
    }
}

/// RTSP over HTTP was open to every page: ANNOUNCE and RECORD came from this machine's browser.
#[test]
fn a_page_of_a_browser_opens_no_rtsp_tunnel() {
    let running = Running::start(1);
    let tunnel = |method: &str, headers: &str| {
        let cookie = "x-sessioncookie: abc123\r\n";
        running.raw_rtsp(&format!("{method} /cam HTTP/1.1\r\n{cookie}{headers}\r\n"))
    };
    for headers in [
        "Host: 127.0.0.1:8554\r\nOrigin: http://evil.example\r\n",
        "Host: localhost:8554\r\nOrigin: http://localhost:8554\r\n",
        "Host: evil.example:8554\r\n",
    ] {
        for method in ["GET", "POST"] {
            let answer = tunnel(method, headers);
            assert!(answer.contains(" 400 "), "{headers}: {answer}");
        }
    }
    for headers in ["", "Host: 127.0.0.1:8554\r\n", "Host: localhost\r\n"] {
        let answer = tunnel("GET", headers);
        assert!(answer.contains(" 200 "), "{headers}: {answer}");
    }
}

#[test]
fn wrong_logins_are_counted_by_listener() {
    let running = Running::with(1, |config| {
        config.auth.read_token = Secret::new("look-1234567").ok();
    });
    // More than an address gains while a slow machine answers them.
    for guess in 0..80 {
        let wrong = format!("Bearer guess-{guess}");
        let answer = running.request("GET", "/", &[("Authorization", &wrong)], "");
        assert!(matches!(answer.status, 200 | 401 | 429), "{}", answer.body);
        let wrong = [("Authorization", wrong.as_str())];
        let answer = running.request("GET", "/api/v1/streams", &wrong, "");
        assert!(matches!(answer.status, 401 | 429), "{}", answer.body);
    }
    let counts = running.metric("login_failures_total");
    let count = |labels: &str| {
        let found = counts.iter().find(|(it, _)| it == labels);
        found.expect("a row").1
    };
    assert!(
        count("listener=\"http\",reason=\"wrong\"") >= 20,
        "{counts:?}"
    );
    assert!(
        count("listener=\"http\",reason=\"limited\"") > 0,
        "{counts:?}"
    );
    assert_eq!(count("listener=\"quic\",reason=\"wrong\""), 0);
}
