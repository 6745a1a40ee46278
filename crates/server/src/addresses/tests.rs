use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::UdpSocket;

use super::*;

const ANY_IPV4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY_IPV6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn entry(text: &str) -> AdvertisedAddress {
    AdvertisedAddress::try_from(text.to_owned()).expect("an entry")
}

fn addresses(entries: &[&str]) -> Arc<MediaAddresses> {
    Arc::new(MediaAddresses::new(
        entries.iter().map(|it| entry(it)).collect(),
    ))
}

fn texts(ips: &[IpAddr]) -> Vec<String> {
    ips.iter().map(IpAddr::to_string).collect()
}

fn interfaces() -> Vec<InterfaceAddress> {
    let of = |interface: &str, ip: &str| InterfaceAddress {
        interface: interface.to_owned(),
        ip: self::ip(ip),
    };
    vec![
        of("docker0", "172.17.0.1"),
        of("eth0", "203.0.113.9"),
        of("eth0", "2001:db8::9"),
        of("eth1", "169.254.7.7"),
        of("lo", "127.0.0.1"),
        of("lo", "::1"),
    ]
}

#[test]
fn a_client_is_told_the_address_that_it_reached_or_one_of_the_same_interface() {
    let told = |listening, reached: &str| {
        let told = own(listening, ip(reached), &interfaces());
        told.map(|it| it.to_string())
    };
    let is_told = |listening, reached: &str, expected: &str| {
        assert_eq!(
            told(listening, reached).as_deref(),
            Some(expected),
            "{reached}"
        );
    };
    is_told(ANY_IPV6, "203.0.113.9", "203.0.113.9");
    is_told(ANY_IPV6, "2001:db8::9", "2001:db8::9");
    is_told(ANY_IPV4, "172.17.0.1", "172.17.0.1");
    is_told(ANY_IPV6, "::1", "::1");
    // Sockets of IPv4 hear nothing at an address of IPv6.
    is_told(ANY_IPV4, "2001:db8::9", "203.0.113.9");
    is_told(ANY_IPV4, "::1", "127.0.0.1");
    // An address that no interface has: another machine translates it.
    is_told(ANY_IPV6, "198.51.100.1", "198.51.100.1");
    assert_eq!(told(ANY_IPV4, "2001:db8::77"), None);
}

#[test]
fn stated_addresses_replace_those_of_the_machine() {
    let stated = addresses(&["203.0.113.9", "2001:db8::1", "203.0.113.9"]);
    assert!(stated.is_configured());
    let told = stated.ips(ANY_IPV4, ip("10.0.0.7"));
    assert_eq!(texts(&told), ["203.0.113.9", "2001:db8::1"]);
    let many: Vec<_> = (0..20).map(|last| format!("203.0.113.{last}")).collect();
    let many = addresses(&many.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!(many.ips(ANY_IPV4, ip("10.0.0.7")).len(), ADDRESSES_MAX);
    let none = addresses(&[]);
    assert!(!none.is_configured());
    assert_eq!(none.ips(ip("10.0.0.7"), ip("10.0.0.8")), [ip("10.0.0.7")]);
    let mapped = none.ips(ANY_IPV6, ip("::ffff:198.51.100.1"));
    assert_eq!(mapped, [ip("198.51.100.1")]);
}

#[test]
fn what_was_learned_holds_until_another_answer_comes() {
    let named = addresses(&["media.example.com", "198.51.100.7"]);
    let told = |listening| texts(&named.ips(listening, ip("10.0.0.7")));
    assert_eq!(told(ANY_IPV4), ["198.51.100.7"]);
    let failed = || Err(LearnError::NoAddress("media.example.com".to_owned()));
    named.take(&entry("media.example.com"), failed());
    assert_eq!(told(ANY_IPV4), ["198.51.100.7"]);
    named.take(
        &entry("media.example.com"),
        Ok(vec![ip("203.0.113.1"), ip("2001:db8::1")]),
    );
    assert_eq!(
        told(ANY_IPV6),
        ["203.0.113.1", "2001:db8::1", "198.51.100.7"]
    );
    // Sockets of IPv4 hear nothing at an address of IPv6.
    assert_eq!(told(ANY_IPV4), ["203.0.113.1", "198.51.100.7"]);
    named.take(&entry("media.example.com"), failed());
    assert_eq!(told(ANY_IPV4), ["203.0.113.1", "198.51.100.7"]);
    named.take(&entry("media.example.com"), Ok(vec![ip("203.0.113.2")]));
    assert_eq!(told(ANY_IPV4), ["203.0.113.2", "198.51.100.7"]);
    named.take(&entry("other.example.com"), failed());
}

#[tokio::test]
async fn names_are_resolved_and_unknown_ones_are_named_in_the_error() {
    let found = learn(&entry("localhost"))
        .await
        .expect("every machine knows it");
    assert!(found.iter().all(IpAddr::is_loopback), "{found:?}");
    let error = learn(&entry("no-such-host.invalid"))
        .await
        .expect_err("no such host");
    assert!(
        error.to_string().contains("no-such-host.invalid"),
        "{error}"
    );
}

/// A STUN server that ignores the first `deaf` requests, and then sees every client at
/// 198.51.100.77.
async fn stun_server(deaf: usize) -> SocketAddr {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let address = socket.local_addr().expect("bound");
    tokio::spawn(async move {
        let mut request = [0; 100];
        let mut requests = 0;
        while let Ok((bytes, client)) = socket.recv_from(&mut request).await {
            assert_eq!(bytes, 20, "a header alone");
            requests += 1;
            if requests <= deaf {
                continue;
            }
            let mut answer = vec![1, 1, 0, 12];
            answer.extend(&request[4..20]);
            // XOR-MAPPED-ADDRESS, IPv4, any port, and the address under the magic cookie.
            answer.extend([0, 0x20, 0, 8, 0, 1, 0, 0]);
            answer.extend([198 ^ 0x21, 51 ^ 0x12, 100 ^ 0xa4, 77 ^ 0x42]);
            // An answer to somebody else comes first.
            let mut foreign = answer.clone();
            foreign[8] ^= 1;
            let _ = socket.send_to(&foreign, client).await;
            let _ = socket.send_to(&answer, client).await;
        }
    });
    address
}

#[tokio::test]
async fn a_stun_server_tells_the_public_address_even_if_a_request_is_lost() {
    let server = stun_server(1).await;
    let named = addresses(&[&format!("stun:{server}")]);
    named.start().await;
    assert_eq!(named.ips(ANY_IPV4, ip("10.0.0.7")), [ip("198.51.100.77")]);
}

#[tokio::test]
async fn a_silent_stun_server_is_named_and_does_not_hold_up_the_start() {
    let silent = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .expect("a port");
    let server = format!("stun:{}", silent.local_addr().expect("bound"));
    let named = addresses(&[&server]);
    let entry = entry(&server);
    let asking = learn(&entry);
    tokio::pin!(asking);
    tokio::select! {
        biased;
        () = named.start() => {}
        answer = &mut asking => panic!("the start takes longer than asking: {answer:?}"),
    }
    assert_eq!(named.ips(ip("10.0.0.7"), ip("10.0.0.7")), [ip("10.0.0.7")]);
    let error = asking.await.expect_err("no answer").to_string();
    assert!(error.contains(&server), "{error}");
}
