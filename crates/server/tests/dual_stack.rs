//! Sockets that listen on all addresses serve viewers of IPv4 and of IPv6.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use glassline_client::publish::input::{Input, Spec};
use glassline_client::publish::session::{self, Figures, Watcher};
use glassline_client::publish::uplink::Destination;
use glassline_client::publish::{Algorithm, Rule, Trust, source};
use glassline_client::viewers::{Endpoint, IceTransport, Join, Options, Pool, State};
use glassline_config::AdvertisedAddress;

use crate::peer::SOON;
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
fn both_versions_of_ip_are_advertised() {
    let Some(running) = running(&["127.0.0.1", "::1"]) else {
        return;
    };
    plays_by_both_versions_and_both_transports(&running);
}

/// HTTP may listen on IPv6, too, while media has IPv4 alone.
#[test]
fn a_request_by_ipv6_is_told_an_address_that_media_is_heard_at() {
    if running(&[]).is_none() {
        return;
    }
    let any = |ip: IpAddr| SocketAddr::new(ip, 0);
    let running = Running::with(1, |config| {
        config.http.address = any(Ipv6Addr::LOCALHOST.into());
        config.media.address = any(Ipv4Addr::UNSPECIFIED.into());
    });
    let _source = Source::start(&running.stream(), Film::default());
    let pool = Pool::start(Options::default()).expect("threads");
    let port = running.listener("http").port();
    let url = format!("http://[::1]:{port}/{STREAM}/whep");
    let url = url.parse().expect("a URL");
    // Our viewer has no candidate of IPv4 there, but a connection of TCP goes where the answer says.
    let transport = IceTransport::Tcp;
    pool.join(Join::new(Endpoint::Whep { url, transport }));
    let end = Instant::now() + SOON;
    while pool.snapshot().iter().any(|it| it.frames < 10) {
        assert!(Instant::now() < end, "{:#?}", pool.snapshot());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The kernel leads datagrams by both ends' addresses, so that those of one viewer reach both shards
/// until the viewer has chosen an address of the server.
#[test]
fn viewers_choose_among_two_addresses_of_one_version() {
    const VIEWERS: usize = 12;
    let addresses = ["127.0.0.1", "127.0.0.2"].map(str::to_owned);
    let advertise = addresses.map(|it| AdvertisedAddress::try_from(it).expect("an address"));
    let running = Running::with(2, |config| {
        config.media.address = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0);
        config.media.advertise = advertise.into();
    });
    let _source = Source::start(&running.stream(), Film::default());
    let pool = Pool::start(Options::default()).expect("threads");
    let url = format!("http://{}/{STREAM}/whep", running.listener("http"));
    for _ in 0..VIEWERS {
        let url = url.parse().expect("a URL");
        let transport = IceTransport::Udp;
        pool.join(Join::new(Endpoint::Whep { url, transport }));
    }
    let end = Instant::now() + SOON;
    loop {
        let viewers = pool.snapshot();
        let failed = viewers.iter().find_map(|it| it.failure.as_ref());
        assert_eq!(failed, None);
        let playing = viewers.iter().filter(|it| it.frames >= 10);
        if playing.count() == VIEWERS {
            return;
        }
        assert!(Instant::now() < end, "{viewers:#?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The program that plays for `glassline doctor` and `bench viewers` has one UDP socket a viewer.
#[test]
fn a_viewer_plays_where_the_page_has_ipv4_and_the_media_ipv6() {
    if running(&[]).is_none() {
        return;
    }
    let running = Running::with(2, |config| {
        config.media.address = SocketAddr::from((Ipv6Addr::LOCALHOST, 0));
    });
    let _source = Source::start(&running.stream(), Film::default());
    let pool = Pool::start(Options::default()).expect("threads");
    let port = running.listener("http").port();
    let url = format!("http://127.0.0.1:{port}/{STREAM}/whep");
    pool.join(Join::new(Endpoint::Whep {
        url: url.parse().expect("a URL"),
        transport: IceTransport::Udp,
    }));
    let end = Instant::now() + SOON;
    let plays = || pool.snapshot().iter().any(|it| it.frames >= 10);
    while !plays() {
        assert!(Instant::now() < end, "{:#?}", pool.snapshot());
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        running.sessions().0,
        1,
        "the first offer's session has ended"
    );
}

/// Stops a publisher once its session is established.
struct UntilConnected(Option<tokio::sync::oneshot::Sender<()>>);

impl Watcher for UntilConnected {
    fn note(&mut self, _: &str) {}

    fn figures(&mut self, figures: &Figures) {
        if figures.connected
            && figures.handed_bytes > 0
            && let Some(stop) = self.0.take()
        {
            stop.send(()).expect("the publisher waits");
        }
    }
}

/// A publisher by WHIP has one UDP socket, which had the IP version of the page alone.
#[test]
fn a_publisher_reaches_media_of_another_ip_version_than_the_page() {
    if running(&[]).is_none() {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let (v4, v6) = (Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into());
    for (page, media) in [(v4, v6), (v6, v4)] {
        let running = Running::with(1, |config| {
            config.http.address = SocketAddr::new(page, 0);
            config.media.address = SocketAddr::new(media, 0);
        });
        let url = format!("http://{}/published/whip", running.listener("http"));
        let destination = Destination::parse(&url, Trust::System).expect("a destination");
        let options = session::Options {
            destination,
            algorithm: Algorithm::Glide,
            rule: Rule::Coupled,
            bitrate: "500k..3M".parse().expect("a range"),
            delay_max: None,
        };
        let spec = Spec {
            input: Input::Clip,
            fps: None,
            once: false,
            live: false,
            audio: None,
            rungs: Vec::new(),
            layers: Vec::new(),
            start: options.start(),
            carries: options.destination.carries(),
        };
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let mut watcher = UntilConnected(Some(stop));
        let ended = runtime.block_on(async {
            let source = source::open(&spec).await.expect("the clip");
            let stopped = async { stopped.await.expect("the watcher stops it") };
            let running = session::run(source, &options, &mut watcher, stopped);
            tokio::time::timeout(SOON, running).await
        });
        let (end, figures) = ended.expect("in time").expect("it is published");
        assert_eq!(end, session::End::Stopped);
        assert!(figures.path.sent_bytes > 0, "{figures:?}");
    }
}
