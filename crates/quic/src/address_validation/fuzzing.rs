//! Driver of the fuzz target `first_packet`: datagrams of strangers, some with tokens of ours.

use std::net::Ipv4Addr;
use std::time::{Duration, UNIX_EPOCH};

use super::*;

/// Lets nobody pass without a proof.
#[derive(Debug)]
struct Nobody;

impl NewcomerRates for Nobody {
    fn take_unproven(&mut self, _: IpAddr, _: Instant) -> bool {
        false
    }

    fn take_proven(&mut self, _: IpAddr, _: Instant) -> bool {
        true
    }

    fn take_retry(&mut self, _: IpAddr, _: Instant) -> bool {
        true
    }
}

/// Judges `bytes` as a datagram, answers what asks for an answer, and sends the token back, as it
/// is and with one byte changed by the input.
///
/// # Panics
/// A datagram passes without a proof of its address, or not with one.
pub fn first_packet(bytes: &[u8], instant: Instant) {
    let client = SocketAddr::from((Ipv4Addr::new(192, 0, 2, 1), 4000));
    let now = || Now {
        instant,
        system: UNIX_EPOCH + Duration::from_secs(1_800_000_000),
    };
    let key = Arc::new(TokenKey::new(&[7; 16]).expect("a key"));
    let mut writer = RetryWriter::new(Arc::clone(&key), 0).expect("a key");
    let mut validator = AddressValidator {
        rates: Box::new(Nobody),
        key,
    };
    let mut datagram = bytes.to_vec();
    datagram.resize(bytes.len().max(1200), 0);
    let packet = initial::parse(&datagram);
    match validator.judge(&datagram, client, now) {
        Verdict::Pass => assert_eq!(packet, FirstPacket::Other, "a newcomer passes"),
        Verdict::Drop => assert_ne!(packet, FirstPacket::Other, "a connection loses a packet"),
        Verdict::Retry(header) => {
            let retry = writer.write(&header, client, now().system);
            let retry = retry.expect("a Retry packet");
            assert!(3 * retry.len() <= datagram.len(), "an answer amplifies");
            // First byte, version, both connection IDs; the tag is at the end.
            let token = 1 + 4 + 1 + header.source.len() + 1 + 8;
            let mut token = retry[token..retry.len() - 16].to_vec();
            assert!(validator.key.proves(&token, client, now().system));
            let at = usize::from(bytes.last().copied().unwrap_or(0)) % token.len();
            let change = bytes.first().copied().unwrap_or(1).max(1);
            token[at] ^= change;
            assert!(!validator.key.proves(&token, client, now().system));
        }
    }
}
