//! What a viewer shows to the server of the cluster that another one redirected it to.
//!
//! `ticket=EXPIRES.UNTIL.USER.MAC` in the query. `MAC` is HMAC-SHA256 (RFC 2104) under the cluster's
//! secret over the purpose, what is asked for, and the fields before it. The first server has checked
//! the viewer's rights, and says with the ticket what it found: the user, and when its rights end.
//! Times are seconds since 1970.
//!
//! A ticket is for one stream to watch, for one room to join, or for a server that asks for the recordings
//! of one stream, at any server of the cluster, and for half a minute. A session that began with it goes on afterwards.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use glassline_access::auth::Secret;

/// Key of the ticket in a query.
pub(crate) const QUERY_KEY: &str = "ticket";

/// The purpose of the MAC; it is no MAC of anything else.
const PURPOSE: &[u8] = b"glassline viewer 1";

/// Validity of a ticket: clocks of servers may be apart by as much in either direction.
const VALIDITY: Duration = Duration::from_secs(30);

/// Longest validity that is accepted.
const VALIDITY_MAX: Duration = Duration::from_secs(60);

/// Longest ticket that is looked at, in bytes.
const BYTES_MAX: usize = 512;

/// The destination of a redirected viewer, or the subject of another server's question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination<'a> {
    /// The viewer watches the stream of this name.
    Stream(&'a str),
    /// The viewer joins the room of this name.
    Room(&'a str),
    /// A server asks for the recordings of the stream of this name.
    Recordings(&'a str),
}

/// The knowledge of the server that redirected a viewer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// Name whose rights the viewer has; `None` if it needed none, or a token of the configuration
    /// gave them.
    pub user: Option<String>,
    /// End of these rights, in whole seconds; `None` if they have none.
    pub until: Option<SystemTime>,
}

/// Returns the ticket with which a viewer goes to another server, in characters that need no escape
/// in a query.
pub(crate) fn issue(
    secret: &Secret,
    destination: Destination<'_>,
    grant: &Grant,
    now: SystemTime,
) -> String {
    let expires = seconds(now) + VALIDITY.as_secs();
    let until = grant.until.map_or(0, seconds);
    let user = URL_SAFE_NO_PAD.encode(grant.user.as_deref().unwrap_or_default());
    let fields = format!("{expires}.{until}.{user}");
    let mac = hmac::sign(&key(secret), &message(destination, &fields));
    format!("{fields}.{}", URL_SAFE_NO_PAD.encode(mac))
}

/// Returns the ticket in the query of a URL, whether it is right or not.
pub fn in_query(query: &str) -> Option<String> {
    let mut pairs = url::form_urlencoded::parse(query.as_bytes());
    pairs.find_map(|(key, value)| (key == QUERY_KEY).then(|| value.into_owned()))
}

/// Returns what `ticket` grants to a viewer that asks for `destination`; `None` if the ticket is for
/// something else, of another cluster, malformed, or not valid now.
pub(crate) fn redeem(
    secret: &Secret,
    destination: Destination<'_>,
    ticket: &str,
    now: SystemTime,
) -> Option<Grant> {
    if ticket.len() > BYTES_MAX {
        return None;
    }
    let (fields, mac) = ticket.rsplit_once('.')?;
    let mac = URL_SAFE_NO_PAD.decode(mac).ok()?;
    hmac::verify(&key(secret), &message(destination, fields), &mac).ok()?;
    let mut parts = fields.split('.');
    let mut number = || parts.next()?.parse::<u64>().ok();
    let (expires, until) = (number()?, number()?);
    let user = URL_SAFE_NO_PAD.decode(parts.next()?).ok()?;
    let user = String::from_utf8(user).ok()?;
    let now = seconds(now);
    let is_valid = (now..=now + VALIDITY_MAX.as_secs()).contains(&expires);
    let has_ended = until != 0 && until <= now;
    (is_valid && !has_ended).then(|| Grant {
        user: Some(user).filter(|user| !user.is_empty()),
        until: (until != 0).then(|| UNIX_EPOCH + Duration::from_secs(until)),
    })
}

fn key(secret: &Secret) -> hmac::Key {
    hmac::Key::new(hmac::HMAC_SHA256, secret.reveal().as_bytes())
}

/// Every part has its length in front, or is the last one.
fn message(destination: Destination<'_>, fields: &str) -> Vec<u8> {
    let (kind, name) = match destination {
        Destination::Stream(name) => (b's', name),
        Destination::Room(name) => (b'r', name),
        Destination::Recordings(name) => (b'p', name),
    };
    let length = u64::try_from(name.len()).unwrap_or(u64::MAX).to_be_bytes();
    let parts = [
        PURPOSE,
        &[kind],
        &length,
        name.as_bytes(),
        fields.as_bytes(),
    ];
    parts.concat()
}

fn seconds(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn secret(text: &str) -> Secret {
        Secret::new(text).expect("a secret")
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn of_ann() -> Grant {
        Grant {
            user: Some("ann".to_owned()),
            until: Some(at(5_000)),
        }
    }

    #[test]
    fn a_ticket_opens_its_stream_alone_and_for_half_a_minute() {
        let (ours, cam) = (secret("hunter2"), Destination::Stream("cam"));
        let ticket = issue(&ours, cam, &of_ann(), at(1_000));
        for (now, expected) in [(969, false), (970, true), (1_030, true), (1_031, false)] {
            let granted = redeem(&ours, cam, &ticket, at(now));
            assert_eq!(granted, expected.then(of_ann), "{now}");
        }
        let now = at(1_000);
        for other in [
            Destination::Stream("cam2"),
            Destination::Stream("ca"),
            Destination::Room("cam"),
            Destination::Recordings("cam"),
        ] {
            assert_eq!(redeem(&ours, other, &ticket, now), None, "{other:?}");
        }
        assert_eq!(redeem(&secret("hunter3"), cam, &ticket, now), None);
        let query = format!("transcode&ticket={ticket}&a=b");
        assert_eq!(in_query(&query), Some(ticket));
        assert_eq!(in_query("token=x"), None);
    }

    #[test]
    fn rights_that_have_ended_open_nothing() {
        let (ours, cam) = (secret("hunter2"), Destination::Stream("cam"));
        let grant = Grant {
            until: Some(at(1_010)),
            ..of_ann()
        };
        let ticket = issue(&ours, cam, &grant, at(1_000));
        assert!(redeem(&ours, cam, &ticket, at(1_009)).is_some());
        assert_eq!(redeem(&ours, cam, &ticket, at(1_010)), None);
    }

    #[test]
    fn no_character_of_a_ticket_can_be_changed() {
        let (ours, room) = (secret("hunter2"), Destination::Room("team"));
        let ticket = issue(&ours, room, &Grant::default(), at(1_000));
        assert_eq!(
            redeem(&ours, room, &ticket, at(1_000)),
            Some(Grant::default())
        );
        for index in 0..ticket.len() {
            let mut forged = ticket.clone().into_bytes();
            forged[index] = if forged[index] == b'1' { b'2' } else { b'1' };
            let forged = String::from_utf8(forged).expect("ASCII");
            let granted = redeem(&ours, room, &forged, at(1_000));
            assert_eq!(granted, None, "{index}: {forged}");
            assert_eq!(redeem(&ours, room, &ticket[..index], at(1_000)), None);
        }
    }

    proptest! {
        #[test]
        fn every_grant_comes_back_and_nothing_panics(
            stream in "\\PC{0,40}",
            user in proptest::option::of("[!-~]{1,64}"),
            until in proptest::option::of(2_000_u64..1 << 40),
            text in "\\PC{0,80}",
        ) {
            let (ours, to) = (secret("hunter2"), Destination::Stream(&stream));
            let grant = Grant { user, until: until.map(at) };
            let ticket = issue(&ours, to, &grant, at(1_000));
            prop_assert!(ticket.bytes().all(|it| it.is_ascii_alphanumeric() || b"-_.".contains(&it)));
            prop_assert_eq!(redeem(&ours, to, &ticket, at(1_000)), Some(grant));
            prop_assert_eq!(redeem(&ours, to, &text, at(1_000)), None);
        }
    }
}
