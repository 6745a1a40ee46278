//! What proxies tell of a request's client in `Forwarded` (RFC 7239) or in `X-Forwarded-*`.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, HeaderName, header};

use crate::http::server::Scheme;

/// Most proxies in a row that are followed.
const HOPS_MAX: usize = 32;

/// The client of a request and the address that it used, as trusted proxies tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// Address of the client, as the outermost trusted proxy saw it.
    pub(super) client: IpAddr,
    /// How the client reached that proxy; `None` if no proxy tells.
    pub(super) scheme: Option<Scheme>,
    /// Host and port that the client named; `None` if no proxy tells.
    pub(super) host: Option<String>,
    /// Port that the client's connection came to; `None` if no proxy tells.
    pub(super) port: Option<u16>,
}

/// Two kinds of headers name different clients. A proxy writes one kind and hands on the other as
/// the client sent it, so one of the two may be forged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Contradiction;

/// One step of a request's way.
#[derive(Clone, Debug, Default)]
struct Hop {
    /// The address that sent the request to this proxy; `None` if the proxy hides that.
    from: Option<IpAddr>,
    scheme: Option<Scheme>,
    host: Option<String>,
    port: Option<u16>,
}

/// Returns the client of a request that came from the trusted proxy `peer`; `None` if the proxy tells
/// nothing. Only what trusted proxies wrote is believed: each appends to the list, so it is read from
/// its end, up to the first address that is not trusted.
///
/// # Errors
/// Returns [`Contradiction`] if both kinds of headers are there and disagree.
pub(super) fn origin(
    headers: &HeaderMap,
    peer: IpAddr,
    is_trusted: impl Fn(IpAddr) -> bool,
) -> Result<Option<Origin>, Contradiction> {
    let follow = |hops: Vec<Hop>| follow(hops, peer, &is_trusted);
    let standard = headers.contains_key(header::FORWARDED);
    let standard = standard.then(|| follow(of_forwarded(headers)));
    let usual = headers.contains_key(&X_FORWARDED_FOR);
    let usual = usual.then(|| follow(of_x_forwarded(headers)));
    match (standard, usual) {
        (Some(one), Some(other)) if one.client != other.client => Err(Contradiction),
        (one, other) => Ok(one.or(other)),
    }
}

/// Returns the path that a proxy has removed from the front of the request's.
pub(super) fn prefix(headers: &HeaderMap) -> Option<String> {
    texts(headers, &X_FORWARDED_PREFIX).pop()
}

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PORT: HeaderName = HeaderName::from_static("x-forwarded-port");
const X_FORWARDED_PREFIX: HeaderName = HeaderName::from_static("x-forwarded-prefix");

/// Walks the way back from `peer` to the client.
fn follow(hops: Vec<Hop>, peer: IpAddr, is_trusted: impl Fn(IpAddr) -> bool) -> Origin {
    let mut origin = Origin {
        client: peer,
        scheme: None,
        host: None,
        port: None,
    };
    for hop in hops.into_iter().rev().take(HOPS_MAX) {
        origin.scheme = hop.scheme;
        origin.host = hop.host;
        origin.port = hop.port;
        let Some(from) = hop.from else { break };
        origin.client = from;
        if !is_trusted(from) {
            break;
        }
    }
    origin
}

/// Reads `Forwarded: for=192.0.2.60;proto=https;host=a.example, for="[2001:db8::1]:80"`.
fn of_forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let lines = texts(headers, &header::FORWARDED);
    let elements = lines.iter().map(|it| {
        let mut hop = Hop::default();
        for pair in split(it, ';') {
            let Some((name, value)) = pair.split_once('=') else {
                continue;
            };
            let value = value.trim().trim_matches('"');
            match name.trim().to_ascii_lowercase().as_str() {
                "for" => hop.from = address(value),
                "proto" => hop.scheme = scheme(value),
                "host" => hop.host = host(value),
                _ => {}
            }
        }
        hop
    });
    elements.collect()
}

/// Reads `X-Forwarded-For: client, proxy` with `X-Forwarded-Proto`, `X-Forwarded-Host` and
/// `X-Forwarded-Port`, which have as many values or one for all.
fn of_x_forwarded(headers: &HeaderMap) -> Vec<Hop> {
    let addresses = texts(headers, &X_FORWARDED_FOR);
    let schemes = texts(headers, &X_FORWARDED_PROTO);
    let hosts = texts(headers, &X_FORWARDED_HOST);
    let ports = texts(headers, &X_FORWARDED_PORT);
    let count = addresses.len();
    let hops = addresses.iter().enumerate().map(|(index, from)| {
        let of = |values: &[String]| match values.len() == count {
            true => values.get(index).cloned(),
            false => values.last().cloned(),
        };
        Hop {
            from: address(from),
            scheme: of(&schemes).and_then(|it| scheme(&it)),
            host: of(&hosts).and_then(|it| host(&it)),
            port: of(&ports).and_then(|it| it.parse().ok()),
        }
    });
    hops.collect()
}

/// Returns the elements of all lines of a header, in order.
fn texts(headers: &HeaderMap, name: &HeaderName) -> Vec<String> {
    let lines = headers.get_all(name).iter();
    // A line that is not text hides who sent it.
    let lines = lines.map(|line| line.to_str().unwrap_or("?"));
    let elements = lines.flat_map(|line| split(line, ','));
    elements.map(|it| it.trim().to_owned()).collect()
}

/// Splits at `separator`, except within quotes.
fn split(text: &str, separator: char) -> Vec<&str> {
    let mut is_quoted = false;
    let parts = text.split(|c: char| {
        is_quoted ^= c == '"';
        c == separator && !is_quoted
    });
    parts.collect()
}

/// Reads an address with or without port; `None` for `unknown` and names that hide it.
fn address(text: &str) -> Option<IpAddr> {
    let bare = text.trim_start_matches('[').trim_end_matches(']');
    let with_port = || text.parse::<SocketAddr>().ok().map(|it| it.ip());
    let address = bare.parse().ok().or_else(with_port)?;
    Some(IpAddr::to_canonical(&address))
}

fn scheme(text: &str) -> Option<Scheme> {
    match text.to_ascii_lowercase().as_str() {
        "https" | "wss" => Some(Scheme::Https),
        "http" | "ws" => Some(Scheme::Http),
        _ => None,
    }
}

/// Returns a host with or without port that is safe in a URL.
fn host(text: &str) -> Option<String> {
    let authority: axum::http::uri::Authority = text.parse().ok()?;
    let is_plain = !text.contains('@') && !text.is_empty();
    is_plain.then(|| authority.as_str().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(lines: &[(&str, &str)]) -> Result<Option<Origin>, Contradiction> {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            let name: HeaderName = name.parse().expect("a name");
            headers.append(name, value.parse().expect("a value"));
        }
        let trusted = |it: IpAddr| it.to_string().starts_with("10.");
        origin(&headers, [10, 0, 0, 1].into(), trusted)
    }

    fn client(lines: &[(&str, &str)]) -> String {
        let origin = read(lines).expect("one kind").expect("headers");
        origin.client.to_string()
    }

    #[test]
    fn only_what_trusted_proxies_wrote_is_believed() {
        for (value, expected) in [
            ("192.0.2.1", "192.0.2.1"),
            // The client sent the first itself.
            ("127.0.0.1, 192.0.2.1", "192.0.2.1"),
            ("127.0.0.1, 192.0.2.1, 10.0.0.9", "192.0.2.1"),
            ("[2001:db8::1]:443, 10.0.0.9", "2001:db8::1"),
            ("192.0.2.1:5000", "192.0.2.1"),
            ("10.0.0.8, 10.0.0.9", "10.0.0.8"),
            ("192.0.2.1, unknown", "10.0.0.1"),
            ("", "10.0.0.1"),
        ] {
            assert_eq!(client(&[("x-forwarded-for", value)]), expected, "{value}");
        }
        let lines = [
            ("x-forwarded-for", "127.0.0.1"),
            ("x-forwarded-for", "192.0.2.1"),
        ];
        assert_eq!(client(&lines), "192.0.2.1", "lines are one list");
        for (value, expected) in [
            ("for=192.0.2.1;proto=https;host=a.example", "192.0.2.1"),
            (
                "for=127.0.0.1, For=\"[2001:db8::1]:80\";by=10.0.0.1",
                "2001:db8::1",
            ),
            ("for=192.0.2.7, for=10.0.0.9;host=\"a,b\"", "192.0.2.7"),
            ("for=192.0.2.7, for=_hidden", "10.0.0.1"),
            ("garbage;;==", "10.0.0.1"),
        ] {
            assert_eq!(client(&[("forwarded", value)]), expected, "{value}");
        }
        assert_eq!(read(&[("via", "1.1 proxy")]), Ok(None));
    }

    #[test]
    fn scheme_and_host_are_those_that_the_client_used() {
        let of = |lines: &[(&str, &str)]| {
            let origin = read(lines).expect("one kind").expect("headers");
            (origin.scheme, origin.host)
        };
        let https = |host: &str| (Some(Scheme::Https), Some(host.to_owned()));
        let forwarded =
            "for=192.0.2.1;proto=https;host=a.example:8443, for=10.0.0.9;proto=http;host=b";
        assert_eq!(of(&[("forwarded", forwarded)]), https("a.example:8443"));
        let lines = [
            ("x-forwarded-for", "192.0.2.1, 10.0.0.9"),
            ("x-forwarded-proto", "https"),
            ("x-forwarded-host", "a.example, b"),
        ];
        assert_eq!(of(&lines), https("a.example"));
        let forged = [
            ("x-forwarded-for", "192.0.2.1"),
            ("x-forwarded-host", "user@evil.example"),
            ("x-forwarded-proto", "javascript"),
        ];
        assert_eq!(of(&forged), (None, None));
    }

    #[test]
    fn the_port_is_that_of_the_outermost_trusted_proxy() {
        let of = |lines: &[(&str, &str)]| read(lines).expect("one kind").expect("headers").port;
        let client = ("x-forwarded-for", "192.0.2.1, 10.0.0.9");
        assert_eq!(of(&[client, ("x-forwarded-port", "8080, 80")]), Some(8080));
        assert_eq!(of(&[client, ("x-forwarded-port", "8080")]), Some(8080));
        assert_eq!(of(&[client, ("x-forwarded-port", "99999")]), None);
        assert_eq!(of(&[client]), None);
    }

    #[test]
    fn headers_that_contradict_each_other_are_not_believed() {
        let both = [
            ("x-forwarded-for", "192.0.2.1"),
            ("forwarded", "for=127.0.0.1"),
        ];
        assert_eq!(read(&both), Err(Contradiction));
        let same = [
            ("x-forwarded-for", "192.0.2.1"),
            ("forwarded", "for=192.0.2.1"),
        ];
        assert!(read(&same).is_ok());
    }
}
