//! How one server of a cluster proves to another that it is one: a ticket in the session's query.
//!
//! `node=NAME&exp=SECONDS&mac=HEX`: `mac` is HMAC-SHA256 (RFC 2104) under the cluster's secret over
//! the purpose, the name, the end of validity in seconds since 1970, and the SHA-256 of the
//! certificate of the server that is asked. TLS keeps the ticket secret, and the certificate in it
//! keeps a server from using it at another one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use glassline_access::auth::Secret;
use glassline_quic::Fingerprint;
use glassline_quic::moq::NodeName;

/// The purpose of the ticket; it is no ticket for anything else.
const PURPOSE: &[u8] = b"glassline node session 1";

/// Longest validity that is accepted.
const VALIDITY_MAX: Duration = Duration::from_secs(60);

/// Validity of the tickets made here: clocks of servers may be apart by as much in either direction.
const VALIDITY: Duration = Duration::from_secs(30);

/// The reason why a ticket is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// The server has no `cluster` in its configuration.
    #[error("this server is in no cluster (`cluster` in its configuration)")]
    NoCluster,
    /// The text does not have the form of a ticket.
    #[error("the ticket of the other server is malformed")]
    Malformed,
    /// The code of the ticket does not fit its content.
    #[error(
        "the other server has another `cluster.secret`, or asked with another certificate in mind"
    )]
    Mac,
    /// The time of the ticket is too far from that of this server.
    #[error(
        "the ticket of the other server is not valid now: are the clocks of both more than 30 s apart?"
    )]
    Time,
}

/// Returns the query with which `node` opens a session at the server that has the certificate
/// `server`.
pub(crate) fn query(
    secret: &Secret,
    node: &NodeName,
    server: Fingerprint,
    now: SystemTime,
) -> String {
    let expires = seconds(now) + VALIDITY.as_secs();
    let mac = hmac::sign(&key(secret), &message(node, expires, server));
    let mac: String = mac
        .as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    format!("node={node}&exp={expires}&mac={mac}")
}

/// Reads the ticket of `query`, which was given to the server with the certificate `own`. Returns the
/// server that asks; `None` if the query has no ticket.
pub fn verify(
    secret: Option<&Secret>,
    query: &str,
    own: Fingerprint,
    now: SystemTime,
) -> Option<Result<NodeName, TicketError>> {
    let (mut node, mut expires, mut mac) = (None, None, None);
    for (key, value) in url::form_urlencoded::parse(query.as_bytes()) {
        match &*key {
            "node" => node = Some(value),
            "exp" => expires = value.parse::<u64>().ok(),
            "mac" => mac = bytes(&value),
            _ => {}
        }
    }
    let node = node?;
    let Some(secret) = secret else {
        return Some(Err(TicketError::NoCluster));
    };
    let checked = || {
        let node = node
            .parse::<NodeName>()
            .map_err(|_| TicketError::Malformed)?;
        let expires = expires.ok_or(TicketError::Malformed)?;
        let mac = mac.ok_or(TicketError::Malformed)?;
        hmac::verify(&key(secret), &message(&node, expires, own), &mac)
            .map_err(|_| TicketError::Mac)?;
        let now = seconds(now);
        if !(now..=now + VALIDITY_MAX.as_secs()).contains(&expires) {
            return Err(TicketError::Time);
        }
        Ok(node)
    };
    Some(checked())
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes())
}

/// Every part has a fixed length, or its length in front.
fn message(node: &NodeName, expires: u64, server: Fingerprint) -> Vec<u8> {
    let node = node.as_str().as_bytes();
    let length = u8::try_from(node.len()).unwrap_or(u8::MAX);
    [PURPOSE, &[length], node, &expires.to_be_bytes(), &server.0].concat()
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Reads 32 bytes of hexadecimal digits.
fn bytes(text: &str) -> Option<[u8; 32]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[high, low]: &[u8; 2]| u8::try_from(digit(*high)? << 4 | digit(*low)?).ok();
    let bytes: Vec<u8> = pairs.iter().map(byte).collect::<Option<_>>()?;
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_opens_the_server_that_it_is_for_and_for_half_a_minute() {
        let secret = |text: &str| Secret::new(text).expect("a secret");
        let (ours, server) = (secret("hunter2"), Fingerprint([7; 32]));
        let node: NodeName = "edge-1".parse().expect("a name");
        let at = |s| UNIX_EPOCH + Duration::from_secs(s);
        let ticket = query(&ours, &node, server, at(1_000));
        let check = |secret: &Secret, query: &str, server, s| {
            verify(Some(secret), query, server, at(s)).expect("a ticket")
        };
        for (now_s, expected) in [
            (969, Err(TicketError::Time)),
            (970, Ok(node.clone())),
            (1_030, Ok(node.clone())),
            (1_031, Err(TicketError::Time)),
        ] {
            assert_eq!(check(&ours, &ticket, server, now_s), expected, "{now_s}");
        }
        let wrong = Err(TicketError::Mac);
        assert_eq!(check(&secret("hunter3"), &ticket, server, 1_000), wrong);
        assert_eq!(check(&ours, &ticket, Fingerprint([8; 32]), 1_000), wrong);
        let forged = ticket.replace("edge-1", "edge-2");
        assert_eq!(check(&ours, &forged, server, 1_000), wrong);
        let later = ticket.replace("exp=1030", "exp=1040");
        assert_eq!(check(&ours, &later, server, 1_000), wrong);
        let cut = &ticket[..ticket.len() - 2];
        assert_eq!(
            check(&ours, cut, server, 1_000),
            Err(TicketError::Malformed)
        );
        let nowhere = verify(None, &ticket, server, at(1_000));
        assert_eq!(nowhere, Some(Err(TicketError::NoCluster)));
        assert_eq!(verify(Some(&ours), "token=x", server, at(0)), None);
    }
}
