//! A WHEP session that is negotiated to be looked at: its candidates and its ICE servers.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use glassline_media::WallClock;
use glassline_trust::Trust;
use glassline_webrtc::sdp::{Address, Attributes, Candidate, Protocol, SessionDescription};
use glassline_webrtc::turn::{Credentials, Server};
use glassline_webrtc::{
    Certificate, DialConfig, IceCredentials, Kinds, ReceiveMode, Secrets, Session, Transport,
    TransportAddress,
};
use url::Url;

use super::http::{Ask, Exchange, exchange};
use crate::viewers::local_addresses_of_both_versions;
use crate::whep::Error;

/// A negotiated session that nobody has connected yet.
#[derive(Debug)]
pub struct Negotiated {
    /// The HTTP exchange, with the headers of the answer.
    pub exchange: Exchange,
    /// URL of the session, to be ended by DELETE.
    pub location: Option<Url>,
    /// Our credentials, for checks.
    pub local: IceCredentials,
    /// The server's credentials, for checks.
    pub remote: IceCredentials,
    /// Candidates of the answer with an IP address, each once.
    pub candidates: Vec<TransportAddress>,
    /// Host names of candidates without an address, like those of multicast DNS.
    pub names: Vec<String>,
    /// TURN servers of the `Link` headers.
    pub turn: Vec<(Server, Credentials)>,
}

/// Posts an offer to the WHEP endpoint `url`, and reads the answer.
///
/// # Errors
/// The server cannot be reached, refuses, or sends something else.
pub fn negotiate(
    url: &Url,
    token: Option<&str>,
    trust: Trust,
    patience: Duration,
) -> Result<Negotiated, Error> {
    negotiate_as(url, token, trust, patience, &[])
}

/// Posts an offer to the WHEP endpoint `url` with further `headers`, as a page of another site does
/// with `Origin`, and reads the answer.
///
/// # Errors
/// The server cannot be reached, refuses, or sends something else.
pub fn negotiate_as(
    url: &Url,
    token: Option<&str>,
    trust: Trust,
    patience: Duration,
    headers: &[(&'static str, &str)],
) -> Result<Negotiated, Error> {
    let no_answer = |reason: String| Error::NoAnswer {
        url: url.clone(),
        reason,
    };
    let (local, offer) = offer(url).map_err(no_answer)?;
    let ask = Ask {
        method: "POST",
        body: Some(("application/sdp", &offer)),
        token,
        headers,
        trust,
        patience,
    };
    let exchange = exchange(url, &ask)?;
    if !matches!(exchange.status, 200 | 201) {
        return Err(refused(url, &exchange));
    }
    let answer = SessionDescription::parse(&exchange.body);
    let answer = answer.map_err(|error| no_answer(error.to_string()))?;
    let sections: Vec<&Attributes> = answer
        .media
        .iter()
        .map(|media| &media.attributes)
        .chain([&answer.attributes])
        .collect();
    let remote = sections.iter().find_map(|section| section.credentials());
    let remote = remote.ok_or_else(|| no_answer("no ICE credentials".to_owned()))?;
    let (mut candidates, mut names) = (Vec::new(), Vec::new());
    for candidate in sections.iter().flat_map(|section| section.candidates()) {
        match (&candidate.address, transport(candidate)) {
            (Address::Name(name), _) if !names.contains(name) => names.push(name.clone()),
            (Address::Ip(ip), Some(transport)) => {
                let address = SocketAddr::new(*ip, candidate.port);
                let address = TransportAddress {
                    socket: address,
                    transport,
                };
                if !candidates.contains(&address) {
                    candidates.push(address);
                }
            }
            _ => {}
        }
    }
    let location = exchange.header("location");
    Ok(Negotiated {
        location: location.and_then(|location| url.join(location).ok()),
        local,
        remote,
        candidates,
        names,
        turn: exchange.all("link").filter_map(turn_server).collect(),
        exchange,
    })
}

/// Returns an offer for video and audio, with its ICE credentials.
fn offer(url: &Url) -> Result<(IceCredentials, String), String> {
    let server = url.socket_addrs(|| None).map_err(|error| error.to_string());
    let server = server?.first().copied().ok_or("the host has no address")?;
    // A server with media of one IP version only may answer no offer that lacks that version.
    let ips = local_addresses_of_both_versions(server);
    let ips = ips.map_err(|error| format!("no route to {server}: {error}"))?;
    // Nothing is sent from this port: checks have sockets of their own.
    let local = ips.into_iter().map(|ip| SocketAddr::new(ip, 9)).collect();
    let certificate = Certificate::generate().map_err(|error| error.to_string())?;
    let secrets = Secrets::expand(&rand::random());
    let wall = WallClock::new(Instant::now(), Duration::ZERO);
    let config = DialConfig {
        local,
        receive: Kinds::ALL,
        mode: ReceiveMode::CountOnly,
        ..DialConfig::new(Arc::new(certificate), secrets, wall)
    };
    let (_, offer) = Session::dial(config, Instant::now());
    let described = SessionDescription::parse(&offer).map_err(|error| error.to_string())?;
    let sections = described.media.iter().map(|media| &media.attributes);
    let mut sections = sections.chain([&described.attributes]);
    let credentials = sections.find_map(Attributes::credentials);
    Ok((credentials.ok_or("the offer has no credentials")?, offer))
}

fn transport(candidate: &Candidate) -> Option<Transport> {
    match candidate.protocol {
        Protocol::Udp => Some(Transport::Udp),
        Protocol::Tcp => Some(Transport::Tcp),
        _ => None,
    }
}

/// Returns the refusal with the problem document's `detail`, if there is one.
fn refused(url: &Url, exchange: &Exchange) -> Error {
    let problem: Option<serde_json::Value> = serde_json::from_str(&exchange.body).ok();
    let detail = problem.as_ref().and_then(|it| it["detail"].as_str());
    let line = exchange.body.lines().next().unwrap_or_default();
    Error::Refused {
        url: url.clone(),
        status: exchange.status,
        detail: detail.unwrap_or(line).chars().take(300).collect(),
    }
}

/// Reads a `Link` header with a TURN server and its credentials (RFC 9725 §4.6).
fn turn_server(link: &str) -> Option<(Server, Credentials)> {
    let (url, rest) = link.trim().strip_prefix('<')?.split_once('>')?;
    let server = url.parse().ok()?;
    let value = |key: &str| {
        let (_, rest) = rest.split_once(&format!("{key}=\""))?;
        let mut out = String::new();
        let mut letters = rest.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '"' => return Some(out),
                '\\' => out.push(letters.next()?),
                other => out.push(other),
            }
        }
        None
    };
    let credentials = Credentials {
        username: value("username")?,
        password: value("credential")?,
    };
    Some((server, credentials))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_turn_server_of_a_link_is_read_with_its_credentials() {
        let link = "<turn:t.test:3478?transport=tcp>; rel=\"ice-server\"; \
                    username=\"1:a\\\"b\"; credential=\"c=\"; credential-type=\"password\"";
        let (server, credentials) = turn_server(link).expect("a server");
        assert_eq!((server.host.as_str(), server.port), ("t.test", 3478));
        assert_eq!(credentials.username, "1:a\"b");
        assert_eq!(credentials.password, "c=");
        assert!(turn_server("<stun:t.test>; rel=\"ice-server\"").is_none());
        assert!(turn_server("<turn:t.test>; username=\"open").is_none());
    }
}
