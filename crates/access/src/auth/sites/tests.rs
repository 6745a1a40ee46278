use super::*;

fn sites(origins: &[&str], hosts: &[&str]) -> Sites {
    let origins = origins.iter().map(|it| Origin::try_from((*it).to_owned()));
    let hosts = hosts.iter().map(|it| HostName::try_from((*it).to_owned()));
    let origins: Vec<Origin> = origins.collect::<Result<_, _>>().expect("good origins");
    let hosts: Vec<HostName> = hosts.collect::<Result<_, _>>().expect("good names");
    Sites::new(&origins, &hosts)
}

fn page<'a>(origin: Option<&'a str>, host: &'a str, local: &str) -> PageHeaders<'a> {
    PageHeaders {
        origin,
        host: Some(host),
        is_same_origin: false,
        local: SocketAddr::new(local.parse().expect("an address"), 8889),
    }
}

#[test]
fn pages_of_this_server_read_and_publish() {
    let sites = sites(&[], &["media.example"]);
    for (host, local) in [
        ("127.0.0.1:8889", "127.0.0.1"),
        ("localhost:8889", "127.0.0.1"),
        ("demo.localhost:8889", "127.0.0.1"),
        ("[::1]:8889", "::1"),
        ("192.0.2.1:8889", "192.0.2.1"),
        ("mycam.lan:8889", "192.0.2.1"),
        ("mycam:8889", "::ffff:192.0.2.1"),
        ("MEDIA.example", "127.0.0.1"),
        ("media.example.:80", "127.0.0.1"),
    ] {
        let origin = format!("http://{host}");
        for origin in [None, Some(origin.as_str())] {
            let page = page(origin, host, local);
            assert_eq!(sites.check_own(&page), Ok(()), "{page:?}");
            assert_eq!(sites.check_reader(&page), Ok(()), "{page:?}");
        }
    }
}

#[test]
fn a_proxy_that_removes_the_port_from_host_lets_own_pages_in_and_no_others() {
    let listed = sites(&["http://play.example:8080"], &["play.example"]);
    let public = sites(&[], &[]);
    let own = Origin::try_from("http://play.example:8080".to_owned());
    let names = [HostName("play.example".to_owned())];
    public.replace(&[], &names, own.ok());
    let unlisted = sites(&[], &["play.example"]);
    let open = sites(&["*"], &["play.example"]);
    let page = |origin, host, is_same_origin| PageHeaders {
        is_same_origin,
        ..page(Some(origin), host, "127.0.0.1")
    };
    // The port that the scheme has by itself need not be told.
    for (origin, host) in [
        ("https://play.example", "play.example:443"),
        ("http://play.example", "play.example:80"),
        ("http://play.example", "play.example"),
        ("http://[::1]", "[::1]:80"),
    ] {
        let page = page(origin, host, false);
        assert_eq!(unlisted.check_own(&page), Ok(()), "{page:?}");
    }
    let other_port = page("http://play.example:8080", "play.example", false);
    let refused = unlisted.check_own(&other_port).expect_err("a stranger's");
    assert!(refused.to_string().contains("$http_host"), "{refused}");
    assert!(
        refused.to_string().contains("X-Forwarded-Port"),
        "{refused}"
    );
    assert_eq!(public.check_own(&other_port), Ok(()));
    // A page that may read is none that may publish.
    assert_eq!(listed.check_reader(&other_port), Ok(()));
    assert!(listed.check_own(&other_port).is_err());
    // Everybody's pages may read there, and only own ones publish.
    assert!(open.check_own(&other_port).is_err());
    let said = page("http://play.example:8080", "play.example", true);
    assert_eq!(unlisted.check_own(&said), Ok(()));
    // A page of another port, of another host, or of no site at all stays a stranger's.
    for (origin, host) in [
        ("http://play.example:3000", "play.example:8080"),
        ("http://play.example", "play.example:8080"),
        ("http://play.example", "play.example:443"),
        ("http://evil.example:8080", "play.example"),
        ("http://play.example.evil.example", "play.example"),
        ("ftp://play.example", "play.example"),
        ("null", "play.example"),
    ] {
        for is_same_origin in [false, true] {
            let page = page(origin, host, is_same_origin);
            assert!(unlisted.check_own(&page).is_err(), "{page:?}");
        }
    }
}

#[test]
fn a_name_that_a_stranger_may_own_is_refused() {
    let sites = sites(&[], &["media.example"]);
    for (host, local) in [
        ("evil.example:8889", "127.0.0.1"),
        ("evil.example:8889", "192.0.2.1"),
        // Somebody in the same network may answer for such names, also with 127.0.0.1.
        ("evil.local:8889", "127.0.0.1"),
        ("evil:8889", "::ffff:127.0.0.1"),
        ("127.0.0.1.evil.example", "127.0.0.1"),
        ("notlocalhost", "127.0.0.1"),
        ("evillan", "127.0.0.1"),
        ("", "127.0.0.1"),
        ("[::1.evil.example", "127.0.0.1"),
    ] {
        let page = page(None, host, local);
        let refused = sites.check_reader(&page).expect_err(host);
        assert!(refused.to_string().contains("http.hosts"), "{refused}");
        assert_eq!(sites.check_own(&page), Err(refused));
    }
}

#[test]
fn pages_of_other_sites_read_only_if_they_are_configured() {
    let own = "127.0.0.1:8889";
    let closed = sites(&[], &[]);
    let listed = sites(&["https://site.example"], &[]);
    let all = sites(&["*"], &[]);
    for origin in [
        "https://site.example",
        "http://127.0.0.1:80",
        "http://evil.example",
        "null",
    ] {
        let page = page(Some(origin), own, "127.0.0.1");
        let refused = closed.check_reader(&page).expect_err(origin);
        assert!(refused.to_string().contains("cors.origins"), "{refused}");
        let is_listed = origin == "https://site.example";
        assert_eq!(listed.check_reader(&page).is_ok(), is_listed, "{origin}");
        assert_eq!(all.check_reader(&page), Ok(()));
        for sites in [&closed, &listed, &all] {
            assert!(sites.check_own(&page).is_err(), "{origin}");
        }
    }
    // A proxy hands on the name of the site that it serves.
    let proxied = page(Some("https://site.example"), "site.example", "127.0.0.1");
    assert_eq!(listed.check_own(&proxied), Ok(()));
}

#[test]
fn origins_are_scheme_and_host() {
    let origin = |text: &str| Origin::try_from(text.to_owned());
    let site = origin("https://example.com:8443").expect("a good origin");
    assert!(site.allows("https://EXAMPLE.com:8443"));
    assert!(!site.allows("https://example.com"));
    assert!(origin("*").expect("all").allows("null"));
    for bad in [
        "",
        "example.com",
        "https://",
        "https://a.b/",
        "ftp://a",
        "https://*.a",
    ] {
        assert!(origin(bad).is_err(), "{bad}");
    }
}

#[test]
fn host_names_have_neither_scheme_nor_port() {
    for bad in ["", "http://a", "a:80", "a/b", "*", "a."] {
        assert!(HostName::try_from(bad.to_owned()).is_err(), "{bad}");
    }
}
