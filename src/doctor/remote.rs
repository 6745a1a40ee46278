//! A server as its viewers see it, from this machine.
//!
//! ```text
//! name ─► TCP, TLS, HTTP, RTSP, QUIC ─► streams ─► offer ─► each candidate, each TURN server
//!                                                    └────► play, publish
//! ```

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use glassline_client::probe::http::{Ask, Exchange, exchange};
use glassline_client::probe::{self, tls};
use glassline_client::trust::Trust;
use glassline_client::viewers::IceTransport;
use glassline_server::CHECK_PREFIX;
use serde_json::Value;

use super::finding::Finding;
use super::group::{Group, blocking};
use super::listeners::{self, TriedPort};
use super::media::{self, Play, Publication};
use super::progress::Progress;
use super::target::Target;
use super::{certificates, clock, cross_origin, offer, stream};

/// Time that the resolver, a connection, or a request may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Time to the first picture.
const PLAY: Duration = Duration::from_secs(4);

/// Time for the publisher's goodbye.
const GRACE: Duration = Duration::from_millis(300);

fn ask<'a>(method: &'static str, token: Option<&'a str>, trust: Trust) -> Ask<'a> {
    Ask {
        method,
        body: None,
        token,
        headers: &[],
        trust,
        patience: PATIENCE,
    }
}

/// Examines a server of HTTP from this machine. `with_stream`: also reports what the API says about the
/// stream.
pub(super) async fn examine(
    target: Target,
    with_stream: bool,
    progress: &Arc<Progress>,
) -> Vec<Finding> {
    let (host, port) = (target.host().to_owned(), target.port());
    progress.begin("name");
    let looked_up = {
        let host = host.clone();
        let looking = blocking(move || probe::resolve(&host, port));
        tokio::time::timeout(PATIENCE, looking).await
    };
    progress.end("name");
    let addresses = match looked_up {
        Ok(Some(Ok(addresses))) => addresses,
        Ok(Some(Err(error))) => return vec![unknown(&host, &error.to_string())],
        _ => return vec![unknown(&host, "the resolver does not answer")],
    };
    let mut findings = vec![known(&host, &addresses)];
    let (connected, reached) = connections(&addresses, progress).await;
    findings.extend(connected);
    if reached.is_empty() {
        return findings;
    }
    let trust = if target.base.scheme() == "https" {
        let (shown, trust) = certificate(&host, reached[0], progress).await;
        findings.extend(shown);
        trust
    } else {
        Trust::System
    };
    let page = reached[0].ip();
    let undivided = target.clone();
    let divided = blocking(move || undivided.divided(trust)).await;
    let target = Arc::new(divided.unwrap_or(target));
    let (answered, listed, told) = {
        let target = Arc::clone(&target);
        let asked = blocking(move || pages(&target, trust)).await;
        asked.unwrap_or_default()
    };
    findings.extend(answered);
    let live = listed.as_ref().and_then(live_streams);
    let live = live.unwrap_or_default();
    let name = target.stream.as_ref().or(live.first()).cloned();
    let mut group = Group::new(progress);
    match &name {
        Some(name) => add_stream(&mut group, &target, name, trust, page),
        None => findings.push(
            Finding::notice("whep", target.base.as_str(), "no live stream to play")
                .why("without a stream, doctor cannot see whether media flows")
                .change("name one behind the URL, or give `--publish-token TOKEN`"),
        ),
    }
    if let Some(token) = target.publish_token.clone() {
        let target = Arc::clone(&target);
        group.add(
            "publish",
            async move { published(&target, &token, trust).await },
        );
    }
    // A stream that has no source would make a failure of the check.
    let playing = name.as_ref().filter(|it| live.contains(it));
    let playing = playing.map(String::as_str);
    add_listeners(&mut group, &target, playing, page, told.as_ref());
    if let (true, Some(name)) = (with_stream, name) {
        let target = Arc::clone(&target);
        group.add_blocking("stream", move || {
            stream::check(&target.base, &name, target.token.as_deref(), trust)
        });
    }
    findings.extend(group.run().await);
    findings
}

fn unknown(host: &str, reason: &str) -> Finding {
    Finding::failure("name", host, format!("has no address: {reason}"))
        .why("nobody finds the server under this name")
        .change(format!(
            "add an A or AAAA record for {host}, or use its IP address"
        ))
}

fn known(host: &str, addresses: &[SocketAddr]) -> Finding {
    let found: Vec<String> = addresses.iter().map(|it| it.ip().to_string()).collect();
    Finding::ok("name", host, format!("is {}", found.join(", ")))
}

/// Connects to every address; returns those that accept.
async fn connections(
    addresses: &[SocketAddr],
    progress: &Arc<Progress>,
) -> (Vec<Finding>, Vec<SocketAddr>) {
    progress.begin("connections");
    let dialing: Vec<_> = addresses
        .iter()
        .map(|address| {
            let address = *address;
            tokio::spawn(async move {
                let outcome = blocking(move || probe::connect(address, PATIENCE)).await;
                (address, outcome)
            })
        })
        .collect();
    let mut outcomes = Vec::new();
    for dialed in dialing {
        if let Ok((address, Some(outcome))) = dialed.await {
            outcomes.push((address, outcome.map_err(|error| error.to_string())));
        }
    }
    progress.end("connections");
    let reached = outcomes.iter().filter(|(_, outcome)| outcome.is_ok());
    let reached: Vec<SocketAddr> = reached.map(|(address, _)| *address).collect();
    let findings = outcomes.iter();
    let findings = findings.map(|(address, outcome)| tcp(*address, outcome, !reached.is_empty()));
    (findings.collect(), reached)
}

/// A finding about a TCP connection; `has_other`: another address of the name accepts.
fn tcp(address: SocketAddr, outcome: &Result<Duration, String>, has_other: bool) -> Finding {
    let (check, subject) = ("tcp", address.to_string());
    let error = match outcome {
        Ok(span) => {
            let ms = span.as_secs_f64() * 1e3;
            return Finding::ok(check, subject, format!("accepts connections in {ms:.0} ms"));
        }
        Err(error) => error,
    };
    let what = format!("no connection: {error}");
    if has_other {
        return Finding::warning(check, subject, what)
            .why("browsers may try this address of the name first, and wait")
            .change(match address {
                SocketAddr::V4(_) => "remove the A record, or open the port over IPv4",
                SocketAddr::V6(_) => {
                    "remove the AAAA record, or listen on `[::]` and open the port over IPv6"
                }
            });
    }
    let port = address.port();
    Finding::failure(check, subject, what)
        .why("nobody reaches the page")
        .change(format!(
            "start the server, see that `http.address` is not 127.0.0.1, and open {port}/tcp in the \
             firewall"
        ))
}

/// Looks at the certificate. Behind a faulty one, the remaining checks go on without verification.
async fn certificate(
    host: &str,
    address: SocketAddr,
    progress: &Arc<Progress>,
) -> (Vec<Finding>, Trust) {
    progress.begin("certificate");
    let of_host = host.to_owned();
    let shown = blocking(move || tls::present(&of_host, address, PATIENCE)).await;
    progress.end("certificate");
    match shown {
        Some(Ok(presented)) => {
            let trust = match presented.fault {
                None => Trust::System,
                Some(_) => Trust::Anyone,
            };
            let findings = certificates::of_server(host, &presented, SystemTime::now());
            (findings, trust)
        }
        Some(Err(error)) => {
            let finding = Finding::failure("certificate", host, format!("no TLS: {error}"))
                .why("the page cannot be opened")
                .change("`https: {address: …}` and `tls:`, or use http:// and the port of `http.address`");
            (vec![finding], Trust::System)
        }
        None => (Vec::new(), Trust::System),
    }
}

/// Returns the names of the live streams in what the API lists.
fn live_streams(listed: &Value) -> Option<Vec<String>> {
    let streams = listed["streams"].as_array()?.iter();
    let live = streams.filter(|stream| stream["state"] == "live");
    let names = live.filter_map(|stream| stream["name"].as_str());
    Some(names.map(str::to_owned).collect())
}

/// Asks for the page, the streams and the server; returns what the API says of the streams and of the
/// server.
fn pages(target: &Target, trust: Trust) -> (Vec<Finding>, Option<Value>, Option<Value>) {
    // A certificate that nobody vouches for gets no token.
    let token = match trust {
        Trust::System => target.token.as_deref(),
        _ => None,
    };
    let subject = target.base.as_str();
    let mut findings = Vec::new();
    match exchange(&target.base, &ask("GET", token, trust)) {
        Ok(answer) => {
            findings.push(page(subject, &answer));
            findings.extend(clock::of_exchange(subject, &answer));
        }
        Err(error) => {
            let finding = Finding::failure("http", subject, error.to_string())
                .why("the page cannot be opened")
                .change("see that a web server listens at this port, with or without TLS as the URL says");
            findings.push(finding);
            return (findings, None, None);
        }
    }
    let get = |path| {
        let answer = exchange(&target.url(path)?, &ask("GET", token, trust)).ok()?;
        serde_json::from_str::<Value>(&answer.body).ok()
    };
    (findings, get("api/v1/streams"), get("api/v1/server"))
}

fn page(subject: &str, answer: &Exchange) -> Finding {
    let took = answer.answered.duration_since(answer.asked);
    let ms = took.unwrap_or_default().as_millis();
    match answer.status {
        200..=399 => Finding::ok(
            "http",
            subject,
            format!("answers {} in {ms} ms", answer.status),
        ),
        401 | 403 => Finding::notice("http", subject, format!("answers {}", answer.status))
            .why("it wants a login")
            .change("give the read token: `--token TOKEN`"),
        status => Finding::warning("http", subject, format!("answers {status}"))
            .why("viewers see no page here")
            .change("see that the URL leads to the server, and that a proxy passes all paths on"),
    }
}

/// Adds the checks of a stream: its candidates, and its first picture.
fn add_stream(group: &mut Group, target: &Arc<Target>, name: &str, trust: Trust, page: IpAddr) {
    let Some(url) = target.url(&format!("{name}/whep")) else {
        return;
    };
    let token = target.token.clone().filter(|_| trust == Trust::System);
    let (at, of_token) = (url.clone(), token.clone());
    group.add_blocking("candidates", move || {
        offer::check(&at, of_token.as_deref(), trust, page, &[])
    });
    let (at, of_token, site) = (url.clone(), token.clone(), target.site.clone());
    group.add_blocking("cors", move || {
        vec![cross_origin::check(
            &at,
            of_token.as_deref(),
            trust,
            site.as_deref(),
        )]
    });
    let play = |transport| Play {
        endpoint: media::whep(url.clone(), transport),
        token: token.clone(),
        trust,
        is_awaited: false,
        linger: Duration::ZERO,
        deadline: Instant::now() + PLAY,
    };
    let (by_udp, by_tcp) = (play(IceTransport::Udp), play(IceTransport::Tcp));
    let (over_udp, over_tcp) = (format!("{name} over UDP"), format!("{name} over TCP"));
    group.add_blocking("play", move || {
        vec![media::played("whep", &over_udp, &by_udp.run())]
    });
    group.add_blocking("play over TCP", move || {
        // Where it does not play, the findings about `media` say why.
        let outcome = by_tcp.run();
        let finding = outcome
            .is_ok()
            .then(|| media::played("whep", &over_tcp, &outcome));
        finding.into_iter().collect()
    });
}

/// Adds the checks of RTSP and of MoQ, at the address of the page. `told`: what the API says of the
/// server.
fn add_listeners(
    group: &mut Group,
    target: &Target,
    name: Option<&str>,
    page: IpAddr,
    told: Option<&Value>,
) {
    let host = target.host().to_owned();
    let port = TriedPort::of_rtsp(target.ports, told);
    // What goes by TLS to the page must not go without it here.
    let token = target.token.as_deref();
    let token = token.filter(|_| target.base.scheme() == "http");
    let url = name.and_then(|name| listeners::rtsp_url(&host, port, name, token));
    group.add_blocking("rtsp", move || listeners::rtsp(page, port, url));
    let port = TriedPort::of_quic(target.ports, told);
    group.add(
        "quic",
        async move { vec![listeners::quic(&host, port).await] },
    );
}

/// Publishes the built-in clip, and plays it.
async fn published(target: &Target, token: &str, trust: Trust) -> Vec<Finding> {
    let name = format!("{CHECK_PREFIX}{:x}", std::process::id());
    let Some(mut url) = target.url(&format!("{name}/whip")) else {
        return Vec::new();
    };
    url.query_pairs_mut().append_pair("token", token);
    let mut publication = Publication::start(url.to_string());
    let Some(whep) = target.url(&format!("{name}/whep")) else {
        return Vec::new();
    };
    let play = Play {
        endpoint: media::whep(whep, IceTransport::Udp),
        token: target.token.clone(),
        trust,
        is_awaited: true,
        linger: Duration::ZERO,
        deadline: Instant::now() + PLAY,
    };
    if let Err(failure) = publication.established(play.deadline).await {
        let what = format!("does not take a published stream: {failure}");
        let finding = Finding::failure("whip", target.base.as_str(), what);
        return vec![finding.why("publishers cannot send by WHIP")];
    }
    let outcome = blocking(move || play.run()).await;
    publication.end(GRACE).await;
    let mut findings = vec![Finding::ok(
        "whip",
        target.base.as_str(),
        "takes a published stream",
    )];
    findings.extend(outcome.map(|outcome| media::played("whep", &name, &outcome)));
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::finding::Severity;

    #[test]
    fn one_dead_address_of_two_is_a_warning() {
        let v6 = "[2001:db8::1]:443".parse().expect("an address");
        let dead = Err("timed out".to_owned());
        let warning = tcp(v6, &dead, true);
        assert_eq!(warning.severity, Severity::Warning);
        assert!(warning.change.contains("AAAA"), "{}", warning.change);
        assert_eq!(tcp(v6, &dead, false).severity, Severity::Failure);
    }
}
