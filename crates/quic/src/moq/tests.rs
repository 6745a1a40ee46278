//! Publishers and readers of this crate over loopback.

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use glassline_congestion::Algorithm;
use glassline_media::{Codec, MediaTime, Track, TrackIndex};
use glassline_trust::Trust;

use super::*;
use crate::endpoint::Limits;
use crate::{ClientEndpoint, CongestionControl, Identity};

/// Timeout of every wait, longer than any of them takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// A server that grants `grant` to every client, or refuses each.
struct Site {
    address: String,
    sessions: tokio::sync::mpsc::Receiver<Session>,
    _task: tokio::task::JoinHandle<()>,
}

fn site(grant: Result<Grant, Refusal>, scheme: &str) -> Site {
    let identity = Identity::self_signed(vec!["localhost".to_owned()], SystemTime::now());
    let identity = identity.expect("a certificate");
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::bind(any, &identity).expect("a free port");
    let port = server.local_addr().expect("bound").port();
    let (out, sessions) = tokio::sync::mpsc::channel(4);
    let task = tokio::spawn(async move {
        let new_congestion = || CongestionControl::new(Algorithm::Cubic);
        while let Some(incoming) = server.accept(new_congestion, |_| false).await {
            let Ok(request) = incoming.request().await else {
                continue;
            };
            match &grant {
                Ok(grant) => {
                    let session = request.grant(grant.clone()).await.expect("just opened");
                    let _ = out.send(session).await;
                }
                Err(why) => request.refuse(*why),
            }
        }
    });
    Site {
        address: format!(
            "{scheme}://127.0.0.1:{port}/cam?token=t#sha256={}",
            identity.fingerprint()
        ),
        sessions,
        _task: task,
    }
}

async fn open(address: &str, role: Role) -> Result<Session, ConnectError> {
    let endpoint = ClientEndpoint::new().expect("a socket");
    let options = Options {
        congestion: CongestionControl::new(Algorithm::Copa),
        trust: Trust::System,
        role,
    };
    let address = Address::parse(address).expect("an address");
    connect(&endpoint, &address, options).await
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

/// A frame of H.264: parameter sets only where it is a keyframe.
fn frame(number: i64) -> Frame {
    let keyframe = number % 10 == 0;
    let head: &[u8] = if keyframe {
        &[
            0, 0, 1, 0x67, 0x42, 0xc0, 0x1f, 9, 0, 0, 1, 0x68, 1, 0, 0, 1, 0x65,
        ]
    } else {
        &[0, 0, 1, 0x41]
    };
    let body = [u8::try_from(number).expect("few"); 3000];
    Frame {
        time: MediaTime::from_nanos(number * 33_333_000),
        keyframe,
        data: Bytes::from([head, &body].concat()),
    }
}

fn audio(number: i64) -> Frame {
    Frame {
        time: MediaTime::from_nanos(number * 20_000_000),
        keyframe: true,
        data: Bytes::from(vec![u8::try_from(number).expect("few"); 100]),
    }
}

fn track_configs() -> Vec<TrackConfig> {
    let deadline = PATIENCE;
    vec![
        TrackConfig::new(Track::new(Codec::H264)).with_deadline(deadline),
        TrackConfig::new(Track::audio(Codec::Opus, 2)).with_deadline(deadline),
    ]
}

/// A publisher with the right to publish, and the server's end of its session.
struct Publishing {
    client: Session,
    server: Session,
    _site: Site,
}

/// Opens a session of a publisher that is granted what it asks for.
async fn publishing(scheme: &str) -> Publishing {
    let grant = Grant {
        node: None,
        publish: true,
        ..Grant::default()
    };
    let mut site = site(Ok(grant), scheme);
    let client = soon(open(&site.address, Role::Publisher))
        .await
        .expect("open");
    let server = soon(site.sessions.recv()).await.expect("granted");
    Publishing {
        client,
        server,
        _site: site,
    }
}

/// Publishes in a session, and compares what its peer receives.
async fn carried(scheme: &str) {
    let Publishing { client, server, .. } = publishing(scheme).await;
    let mut broadcast = client.publish("cam", track_configs()).expect("a good name");
    broadcast.set_clock(MediaTime::ZERO, SystemTime::now());
    broadcast.write(TrackIndex(0), &frame(0)).expect("open");
    broadcast.write(TrackIndex(1), &audio(0)).expect("open");

    let mut announced = server.announced();
    let began = soon(announced.next()).await.expect("it is announced");
    assert_eq!(began, Announcement::Began("cam".to_owned()));
    let mut subscription = soon(server.subscribe("cam")).await.expect("there");
    let catalog = soon(subscription.catalog())
        .await
        .expect("good")
        .expect("one");
    assert!(catalog.clock.is_some());
    let chosen = catalog.choose().expect("video and audio");
    assert_eq!(chosen[0].track.codec, Codec::H264);
    let mut frames = soon(subscription.read(&chosen[0], PATIENCE))
        .await
        .expect("there");
    let mut audio_reader = soon(subscription.read(&chosen[1], PATIENCE))
        .await
        .expect("there");
    for number in 1..25 {
        broadcast
            .write(TrackIndex(0), &frame(number))
            .expect("open");
        broadcast
            .write(TrackIndex(1), &audio(number))
            .expect("open");
    }
    for number in 0..25 {
        let got = soon(frames.next()).await.expect("good").expect("more");
        let sent = frame(number);
        assert_eq!(
            (got.time, got.keyframe, got.data),
            (sent.time, sent.keyframe, sent.data)
        );
    }
    for number in 0..25 {
        let got = soon(audio_reader.next())
            .await
            .expect("good")
            .expect("more");
        assert_eq!(
            (got.time, got.data),
            (audio(number).time, audio(number).data)
        );
    }
    assert_eq!((frames.late(), audio_reader.late()), (0, 0));
    broadcast.finish();
    assert_eq!(soon(frames.next()).await.expect("a clean end"), None);
    let stats = client.stats();
    assert!(stats.sent >= 25 * 3000, "{stats:?}");
    assert_eq!(stats.late_groups, 0);
    let answered = async {
        while client.stats().round_trips.count == 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    soon(answered).await;
    server.request_keyframe();
}

#[tokio::test]
async fn what_is_published_comes_out_as_it_went_in() {
    carried("moq").await;
}

#[tokio::test]
async fn webtransport_carries_the_same() {
    carried("https").await;
}

#[tokio::test]
async fn readers_get_what_is_offered_from_its_newest_keyframe_on() {
    let origin = Origin::new();
    let grant = Grant {
        node: None,
        read: Some(origin.clone()),
        only: Some(vec!["nothing/*".to_owned(), "ca*".to_owned()]),
        ..Grant::default()
    };
    let site = site(Ok(grant), "moq");
    let mut hidden = origin
        .publish("secret", track_configs())
        .expect("a good name");
    let mut broadcast = origin.publish("cam", track_configs()).expect("a good name");
    for number in 0..15 {
        for broadcast in [&mut broadcast, &mut hidden] {
            broadcast
                .write(TrackIndex(0), &frame(number))
                .expect("open");
            broadcast
                .write(TrackIndex(1), &audio(number))
                .expect("open");
        }
    }
    let client = soon(open(&site.address, Role::Subscriber))
        .await
        .expect("open");
    let mut announced = client.announced();
    let began = soon(announced.next()).await.expect("it is announced");
    assert_eq!(began, Announcement::Began("cam".to_owned()));
    let mut subscription = soon(client.subscribe("cam")).await.expect("there");
    let catalog = soon(subscription.catalog())
        .await
        .expect("good")
        .expect("one");
    let rendition = catalog.choose().expect("both").remove(0);
    let mut frames = soon(subscription.read(&rendition, Duration::ZERO))
        .await
        .expect("there");
    let first = soon(frames.next()).await.expect("good").expect("one");
    assert_eq!((first.time, first.keyframe), (frame(10).time, true));
    assert!(
        client.publish("cam", track_configs()).is_err(),
        "opened to read"
    );
}

/// Waits until at most two groups of video are kept, for less than half of the time for which a
/// publisher keeps its frames.
async fn is_forgotten(kept_bytes: impl Fn() -> u64) -> Result<(), u64> {
    let forgotten = async {
        while kept_bytes() > 2 * 10 * 3000 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let forgotten = tokio::time::timeout(PATIENCE / 2, forgotten).await;
    forgotten.map_err(|_| kept_bytes())
}

#[tokio::test]
async fn frames_of_a_publisher_are_forgotten_within_seconds() {
    let Publishing { client, server, .. } = publishing("moq").await;
    let mut broadcast = client.publish("cam", track_configs()).expect("a good name");
    broadcast.write(TrackIndex(0), &frame(0)).expect("open");
    let mut subscription = soon(server.subscribe("cam")).await.expect("there");
    let catalog = soon(subscription.catalog())
        .await
        .expect("good")
        .expect("one");
    let rendition = catalog.choose().expect("video").remove(0);
    let mut frames = soon(subscription.read(&rendition, PATIENCE))
        .await
        .expect("there");
    for number in 0..200 {
        if number > 0 {
            broadcast
                .write(TrackIndex(0), &frame(number))
                .expect("open");
        }
        let got = soon(frames.next()).await.expect("good").expect("more");
        assert_eq!(got.time, frame(number).time);
    }
    let kept = is_forgotten(|| server.kept_bytes()).await;
    assert_eq!(kept, Ok(()), "bytes of frames that were read");
    // The newest group is kept for readers to come.
    assert!(server.kept_bytes() >= 10 * 3000);
}

#[tokio::test]
async fn frames_that_nobody_reads_are_forgotten_after_twice_the_deadline() {
    let origin = Origin::with_deadline(Duration::from_millis(500));
    let mut broadcast = origin.publish("cam", track_configs()).expect("a good name");
    for number in 0..200 {
        broadcast
            .write(TrackIndex(0), &frame(number))
            .expect("open");
    }
    assert!(origin.kept_bytes() >= 200 * 3000);
    assert_eq!(is_forgotten(|| origin.kept_bytes()).await, Ok(()));
    assert!(origin.kept_bytes() >= 10 * 3000);
}

#[tokio::test]
async fn who_is_sent_away_hears_why() {
    let site = site(Err(Refusal::Unauthorized), "moq");
    // The refusal may come before or after the session is open for the client.
    let ended = match soon(open(&site.address, Role::Publisher)).await {
        Ok(session) => soon(session.ended()).await,
        Err(ConnectError::Ended(ended)) => ended,
        Err(other) => panic!("{other}"),
    };
    assert!(matches!(ended, Ended::Unauthorized), "{ended}");
}

#[tokio::test]
async fn another_certificate_than_the_pinned_one_is_refused() {
    let site = site(Ok(Grant::default()), "moq");
    let (address, _) = site.address.split_once('#').expect("pinned");
    let other = format!("{address}#sha256={}", "ab".repeat(32));
    let error = soon(open(&other, Role::Subscriber))
        .await
        .expect_err("not it");
    assert!(matches!(error, ConnectError::Dial { .. }), "{error}");
    let unknown = soon(open(address, Role::Subscriber)).await;
    assert!(unknown.is_err(), "no authority vouches for it");
}

/// The error that a server sees of a client that dials with these protocols and this trust.
async fn refused(protocols: &[&[u8]], trust: Trust) -> RequestError {
    let identity = Identity::self_signed(vec!["localhost".to_owned()], SystemTime::now());
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::bind(any, &identity.expect("a certificate")).expect("a free port");
    let at = server.local_addr().expect("bound");
    let endpoint = ClientEndpoint::new().expect("a socket");
    let protocols = protocols.iter().map(|it| it.to_vec()).collect();
    let congestion = || CongestionControl::new(Algorithm::Cubic);
    let limits = Limits::Client;
    let dialing = endpoint.dial(at, "localhost", &trust, protocols, congestion(), limits);
    let accepting = async {
        let incoming = server.accept(congestion, |_| false).await;
        incoming.expect("it listens").request().await.err()
    };
    let (dialed, error) = tokio::join!(soon(dialing), soon(accepting));
    assert!(dialed.is_err());
    error.expect("no request")
}

#[tokio::test]
async fn a_server_learns_why_a_handshake_failed() {
    let error = refused(&[b"other"], Trust::Anyone).await;
    assert_eq!(error.fault(), HandshakeFault::NothingInCommon, "{error}");
    let untrusted = refused(&[b"h3"], Trust::System).await;
    let fault = untrusted.fault();
    assert_eq!(fault, HandshakeFault::CertificateRefused, "{untrusted}");
    assert!(!untrusted.may_be_forged(), "the client has answered");
}

/// A publisher that writes its catalog by hand.
async fn catalog_of(document: Vec<u8>) -> Result<Catalog, SubscribeError> {
    let Publishing { client, server, .. } = publishing("moq").await;
    let origin = client.outbound().expect("opened to publish");
    let liar = origin.producer.create_broadcast("cam").expect("a name");
    let mut track = liar.create_track("catalog.json", None).expect("a track");
    let time = moq_net::Timestamp::now();
    track
        .write_frame(time, document)
        .expect("it is not read here");
    liar.announce(moq_net::origin::Route::default())
        .expect("open");
    let mut subscription = soon(server.subscribe("cam")).await?;
    let catalog = soon(subscription.catalog()).await?;
    Ok(catalog.expect("one was written"))
}

#[tokio::test]
async fn catalogs_that_cannot_be_are_named_over_the_wire() {
    let many: Vec<_> = (0..2000)
        .map(|number| format!("\"{number}\":{{\"codec\":\"vp8\"}}"))
        .collect();
    let many = format!("{{\"video\":{{\"renditions\":{{{}}}}}}}", many.join(","));
    for (document, expected) in [
        (b"\xff\xfe no JSON".to_vec(), "the catalog is malformed"),
        (vec![b' '; 1 << 20], "the catalog has 1048576 bytes"),
        (many.into_bytes(), "offers 2000 renditions"),
    ] {
        let error = catalog_of(document).await.expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

/// Returns how often the server has raised the receive window of a client with `role` that may
/// publish and read, after the client has read some frames or they have been read from it.
async fn windows_raised(role: Role) -> u64 {
    let origin = Origin::new();
    let grant = Grant {
        node: None,
        publish: true,
        read: Some(origin.clone()),
        only: None,
    };
    let mut site = site(Ok(grant), "moq");
    let client = soon(open(&site.address, role)).await.expect("open");
    let server = soon(site.sessions.recv()).await.expect("granted");
    let (mut broadcast, reader) = match role {
        Role::Subscriber => (origin.publish("cam", track_configs()), &client),
        _ => (client.publish("cam", track_configs()), &server),
    };
    let broadcast = broadcast.as_mut().expect("a good name");
    broadcast.write(TrackIndex(0), &frame(0)).expect("open");
    broadcast.write(TrackIndex(1), &audio(0)).expect("open");
    let mut subscription = soon(reader.subscribe("cam")).await.expect("there");
    let catalog = soon(subscription.catalog()).await.expect("good");
    let chosen = catalog.expect("one").choose().expect("video and audio");
    let frames = soon(subscription.read(&chosen[0], PATIENCE)).await;
    let mut frames = frames.expect("there");
    for number in 1..10 {
        broadcast
            .write(TrackIndex(0), &frame(number))
            .expect("open");
        assert!(soon(frames.next()).await.expect("good").is_some());
    }
    client.connection().stats().frame_rx.max_data
}

#[tokio::test]
async fn only_publishers_are_granted_a_large_window() {
    assert_eq!(windows_raised(Role::Subscriber).await, 0);
    assert!(windows_raised(Role::Publisher).await > 0);
}
