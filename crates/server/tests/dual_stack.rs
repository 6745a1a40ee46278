//! Sockets that listen on all addresses serve viewers of IPv4 and of IPv6.

use std::net::{Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use glassline_client::viewers::{Endpoint, IceTransport, Join, Options, Pool, State};
use glassline_server::config::AdvertisedAddress;
use glassline_webrtc::sdp::SessionDescription;

use crate::peer::{Peer, SOON};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

/// Returns a server that listens on all addresses of both versions; `None` on a machine without
/// IPv6.
fn running(advertise: &[&str]) -> Option<Running> {
    let Ok(_) = UdpSocket::bind((Ipv6Addr::LOCALHOST, 0)) else {
        println!("skipped: this machine has no IPv6");
        return None;
    };
    let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 0));
    let advertise = advertise.iter().map(|it| (*it).to_owned());
    let advertise = advertise.map(|it| AdvertisedAddress::try_from(it).expect("an address"));
    let advertise = advertise.collect();
    Some(Running::with(2, |config| {
        config.http.address = any;
        config.media.address = any;
        config.media.advertise = advertise;
    }))
}

fn plays_by_both_versions_and_both_transports(running: &Running) {
    let _source = Source::start(&running.stream(), Film::default());
    let pool = Pool::start(Options::default()).expect("threads");
    let port = running.listener("http").port();
    for host in ["127.0.0.1", "[::1]"] {
        for transport in [IceTransport::Udp, IceTransport::Tcp] {
            let url = format!("http://{host}:{port}/{STREAM}/whep");
            let url = url.parse().expect("a URL");
            pool.join(Join::new(Endpoint::Whep { url, transport }));
        }
    }
    let end = Instant::now() + SOON;
    loop {
        let viewers = pool.snapshot();
        let plays = viewers
            .iter()
            .filter(|it| it.state == State::Playing && it.frames >= 10);
        if plays.count() == 4 {
            return;
        }
        assert!(Instant::now() < end, "{viewers:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn one_socket_serves_both_versions_of_ip() {
    let Some(running) = running(&[]) else {
        return;
    };
    plays_by_both_versions_and_both_transports(&running);
}

#[test]
fn a_name_stands_for_all_its_addresses() {
    let Some(running) = running(&["localhost", "127.0.0.1", "::1"]) else {
        return;
    };
    plays_by_both_versions_and_both_transports(&running);
}

/// A request that arrives on loopback may come from a proxy, whose client is elsewhere.
#[test]
fn behind_a_proxy_of_this_machine_the_addresses_of_its_interfaces_are_told() {
    let Some(running) = running(&[]) else {
        return;
    };
    let _source = Source::start(&running.stream(), Film::default());
    let peer = Peer::answered(&running);
    let answer = SessionDescription::parse(&peer.answer).expect("an answer");
    let candidates = answer.media[0].attributes.candidates();
    let told: Vec<_> = candidates
        .filter(|it| !it.is_tcp_passive())
        .filter_map(|it| Some(it.socket_addr()?.ip()))
        .collect();
    assert!(told[0].is_loopback(), "{told:?}");
    let own = glassline_net::interface_addresses().expect("the system tells");
    let others = own.iter().map(|it| it.ip).filter(|ip| match ip {
        std::net::IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local(),
        std::net::IpAddr::V6(ip) => !ip.is_loopback(),
    });
    for ip in others.take(7) {
        assert!(told.contains(&ip), "{ip} is missing: {told:?}");
    }
}
