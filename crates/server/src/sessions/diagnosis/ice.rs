//! Connections whose connectivity checks went astray.

use std::net::SocketAddr;

use glassline_events::failures::Stage;
use glassline_webrtc::TransportAddress;

use super::address::Reach;
use super::{Diagnosis, Evidence};

/// Most addresses that a sentence names.
const NAMED_MAX: usize = 3;

/// Says why no check of the client arrived.
pub(super) fn nothing_arrived(evidence: &Evidence<'_>) -> Diagnosis {
    let client = evidence.client;
    if client.is_some_and(super::ClientView::has_no_network) {
        return Diagnosis::new(
            Stage::Ice,
            "the browser found no network of its own, so that it sent no connectivity check",
            "WebRTC needs a network interface besides loopback, even on one machine; a privacy setting \
             or an extension may hide it",
        );
    }
    let candidates = evidence.candidates();
    let (tried, protocols) = (addresses(&candidates), evidence.protocols());
    let counts = candidates
        .iter()
        .map(|it| client.map(|view| view.checks(*it)));
    let (sent, answered) = counts.flatten().max().unwrap_or_default();
    let seen = match sent {
        0 => format!(
            "no connectivity check arrived {} at {tried} by {protocols}",
            evidence.within()
        ),
        _ => format!(
            "the client sent {sent} connectivity checks to {tried} by {protocols}, and none arrived at \
             the server"
        ),
    };
    if answered > 0 {
        return Diagnosis::new(
            Stage::Ice,
            format!("{seen}, but another server answered {answered} of them"),
            "the address leads elsewhere: correct media.advertise, or the forwarding of the port",
        );
    }
    let unusable = Some(sent).filter(|sent| *sent == 0);
    let unusable = unusable.and_then(|_| unusable_candidates(evidence));
    if let Some((cause, remedy)) = unusable.or_else(|| cause(evidence)) {
        return Diagnosis::new(Stage::Ice, format!("{seen}: {cause}"), remedy);
    }
    let remedy = way_remedy(evidence);
    if sent == 0 && evidence.report.stated.is_empty() {
        return Diagnosis::new(
            Stage::Ice,
            format!("{seen}, and the client named no candidate of its own"),
            format!(
                "see whether the client has a network for WebRTC, which a privacy setting, an extension or \
                 a VPN may forbid; if it has, {remedy}"
            ),
        );
    }
    Diagnosis::new(Stage::Ice, seen, remedy)
}

/// Returns why none of the client's candidates can reach any of the server's, and the remedy; `None`
/// if one may, or if the client named none: checks may come from addresses that nobody named.
fn unusable_candidates(evidence: &Evidence<'_>) -> Option<(&'static str, String)> {
    let (offered, stated) = (&evidence.report.candidates, evidence.report.stated);
    if stated.is_empty() || offered.iter().any(|it| stated.reach(*it)) {
        return None;
    }
    if stated.is_tcp_alone() && !offered.iter().any(TransportAddress::is_tcp) {
        return Some((
            "the client has candidates of TCP alone, and this server offers UDP alone",
            "set media.tcp to true, or let the client send UDP".to_owned(),
        ));
    }
    let has_ipv4 = offered
        .iter()
        .any(|it| it.socket.ip().to_canonical().is_ipv4());
    let (theirs, ours) = match has_ipv4 {
        true => (
            "IPv6",
            "the client has candidates of IPv6 alone, and this server offers IPv4 alone",
        ),
        false => (
            "IPv4",
            "the client has candidates of IPv4 alone, and this server offers IPv6 alone",
        ),
    };
    let remedy = format!(
        "let media.address listen on {theirs}, too ('[::]:PORT' is both), and add an {theirs} address of the \
         server to media.advertise if that is set"
    );
    Some((ours, remedy))
}

/// Returns what is wrong with the addresses that the server offers, and the remedy; `None` if
/// nothing is wrong that shows.
fn cause(evidence: &Evidence<'_>) -> Option<(&'static str, String)> {
    if evidence.is_address_reached() {
        return None;
    }
    let (candidates, protocols) = (evidence.candidates(), evidence.protocols());
    let (port, surroundings) = (evidence.port(), evidence.surroundings);
    let client = evidence.addresses.peer.ip().to_canonical();
    let from = Reach::of(client);
    let reaches = candidates
        .iter()
        .map(|it| Reach::of_server(it.ip(), surroundings));
    // One address that the client might reach is enough.
    let widest = reaches.max_by_key(|reach| *reach as u8)?;
    let set = match surroundings.is_advertised {
        true => "correct media.advertise, which has this address: it must be",
        false => "set media.advertise to",
    };
    let is_family = |it: &SocketAddr| it.ip().to_canonical().is_ipv4() == client.is_ipv4();
    match widest {
        Reach::Machine if from != Reach::Machine => Some((
            "this is a loopback address, which no other machine reaches",
            format!("{set} the address by which clients reach the server"),
        )),
        Reach::Host => Some((
            "this is the container's address",
            format!(
                "{set} the address of the container's host, and publish {protocols} port {port}"
            ),
        )),
        Reach::LocalNetwork if from == Reach::Internet => Some((
            "this is a private address, which the Internet does not reach",
            format!("{set} the public address, and forward {protocols} port {port} to the server"),
        )),
        _ if !candidates.iter().any(is_family) && !client.is_loopback() => {
            let family = if client.is_ipv4() { "IPv4" } else { "IPv6" };
            Some((
                "the client came by the other version of IP",
                format!("add an {family} address of the server to media.advertise"),
            ))
        }
        _ => None,
    }
}

/// Returns what to check if the address may be right.
fn way_remedy(evidence: &Evidence<'_>) -> String {
    let (port, protocols) = (evidence.port(), evidence.protocols());
    let blocked = format!(
        "open {protocols} port {port} in every firewall between client and server: HTTP reached this \
         address, so that this port alone is blocked"
    );
    if evidence.is_address_reached() {
        return match evidence.surroundings.is_contained {
            true => format!("{blocked}, or not published by the container"),
            false => blocked,
        };
    }
    if evidence.surroundings.is_advertised {
        return format!(
            "check that media.advertise is the address by which clients reach the server, and that {protocols} \
             port {port} is open in every firewall and forwarded to it"
        );
    }
    let local = evidence.addresses.local.ip().to_canonical();
    let candidates = evidence.candidates();
    if candidates.iter().any(|it| it.ip().to_canonical() == local) {
        return blocked;
    }
    format!(
        "open {protocols} port {port} in every firewall; if clients reach the server by another address, set \
         media.advertise to it"
    )
}

/// Says that checks arrived, but nothing that the server sent was answered.
pub(super) fn nothing_returned(evidence: &Evidence<'_>) -> Diagnosis {
    let report = evidence.report;
    Diagnosis::new(
        Stage::Ice,
        format!(
            "{} connectivity checks arrived from {}, but none of the {} checks sent back there was \
             answered {}: datagrams from this server do not reach the client",
            report.checks,
            hosts(&report.sources),
            report.own_checks,
            evidence.within(),
        ),
        format!(
            "let UDP from port {} out through every firewall; a machine with several addresses must answer \
             from the one that was asked, which media.address can name",
            evidence.port()
        ),
    )
}

/// Returns addresses in words.
fn addresses(all: &[SocketAddr]) -> String {
    named(
        all.iter()
            .map(|it| SocketAddr::new(it.ip().to_canonical(), it.port()).to_string()),
    )
}

/// Returns the IP addresses in words, each once.
pub(super) fn hosts(all: &[TransportAddress]) -> String {
    let mut hosts: Vec<_> = all.iter().map(|it| it.socket.ip().to_canonical()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    named(hosts.iter().map(ToString::to_string))
}

fn named(names: impl ExactSizeIterator<Item = String>) -> String {
    let more = names.len().saturating_sub(NAMED_MAX);
    let named: Vec<String> = names.take(NAMED_MAX).collect();
    match (named.as_slice(), more) {
        ([], _) => "no address".to_owned(),
        (_, 0) => named.join(" and "),
        _ => format!("{} and {more} more", named.join(", ")),
    }
}
