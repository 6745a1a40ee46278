//! Streams over loopback into a MoQ server that reads them as ours does.

#![expect(
    clippy::disallowed_methods,
    reason = "sessions run on sockets and read the clock"
)]

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use glassline_client::publish::input::{BitrateRange, Input, Spec};
use glassline_client::publish::session::{self, End, Figures, Watcher};
use glassline_client::publish::uplink::Destination;
use glassline_client::publish::{Algorithm, Rule, Trust, source};
use glassline_media::{Bitrate, Codec, Kind};
use glassline_quic::moq::{BroadcastReader, Grant, Refusal, Server, Session, TrackReader};
use glassline_quic::{CongestionControl, Identity};
use tokio::sync::{mpsc, oneshot};

/// Far beyond what anything here takes, so that a failure ends.
const PATIENCE: Duration = Duration::from_secs(60);

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

/// A server that hands out the sessions it grants.
struct Site {
    url: String,
    sessions: mpsc::Receiver<Session>,
    task: tokio::task::JoinHandle<()>,
}

fn identity() -> Identity {
    let names = vec!["localhost".to_owned()];
    Identity::self_signed(names, SystemTime::now()).expect("a certificate")
}

async fn site(at: SocketAddr, identity: &Identity, refusal: Option<Refusal>) -> Site {
    // A port that was just given up may take a moment.
    let server = soon(async {
        loop {
            match Server::bind(at, identity) {
                Ok(server) => break server,
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    });
    let server = server.await;
    let port = server.local_addr().expect("bound").port();
    let (out, sessions) = mpsc::channel(4);
    let task = tokio::spawn(async move {
        let new_congestion = || CongestionControl::new(Algorithm::Cubic);
        let must_prove = |_| false;
        while let Some(incoming) = server.accept(new_congestion, must_prove).await {
            let Ok(request) = incoming.request().await else {
                continue;
            };
            assert_eq!(request.query(), "token=t");
            if let Some(why) = refusal {
                request.refuse(why);
                continue;
            }
            let grant = Grant {
                publish: true,
                ..Grant::default()
            };
            let session = request.grant(grant).await.expect("just opened");
            let _ = out.send(session).await;
        }
    });
    let pin = identity.fingerprint();
    Site {
        url: format!("moq://127.0.0.1:{port}/cam?token=t#sha256={pin}"),
        sessions,
        task,
    }
}

fn anywhere() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

/// Keeps what it is shown.
#[derive(Default)]
struct Notes {
    notes: Vec<String>,
    last: Figures,
}

impl Watcher for Notes {
    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }

    fn figures(&mut self, figures: &Figures) {
        self.last = figures.clone();
    }
}

type Outcome = (Result<(End, Figures), session::Error>, Vec<String>);

/// A stream that is being published.
struct Publishing {
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Outcome>,
}

impl Publishing {
    async fn stop(self) -> Outcome {
        let _ = self.stop.send(());
        soon(self.task).await.expect("no panic")
    }
}

fn publish(input: Input, once: bool, url: &str) -> Publishing {
    let destination = Destination::parse(url, Trust::System).expect("a destination");
    let options = session::Options {
        algorithm: Algorithm::Copa,
        rule: Rule::Coupled,
        bitrate: BitrateRange {
            min: Bitrate::from_bps(200_000),
            max: Bitrate::from_bps(1_500_000),
        },
        // What is tested is not whether this machine keeps up.
        delay_max: Some(PATIENCE),
        destination,
    };
    let spec = Spec {
        input,
        fps: None,
        once,
        live: false,
        audio: None,
        rungs: Vec::new(),
        layers: Vec::new(),
        start: options.start(),
        carries: options.destination.carries(),
    };
    let (stop, stopped) = oneshot::channel();
    let task = tokio::spawn(async move {
        let source = source::open(&spec).await.expect("it opens");
        let mut notes = Notes::default();
        let stopped = async {
            let _ = stopped.await;
        };
        let outcome = session::run(source, &options, &mut notes, stopped).await;
        (outcome, notes.notes)
    });
    Publishing { stop, task }
}

/// Reads the broadcast and its frames.
async fn subscribe(server: &Session) -> (BroadcastReader, TrackReader) {
    let mut subscription = soon(server.subscribe("cam")).await.expect("it is there");
    let catalog = soon(subscription.catalog())
        .await
        .expect("good")
        .expect("one");
    let chosen = catalog.choose().expect("frames");
    let reader = soon(subscription.read(&chosen[0], PATIENCE))
        .await
        .expect("there");
    (subscription, reader)
}

fn clip_file(name: &str, bytes: usize) -> PathBuf {
    static CLIP: &[u8] = include_bytes!("../../../assets/demo.h264");
    let file = format!("glassline-publish-{}-{name}", std::process::id());
    let path = std::env::temp_dir().join(file);
    std::fs::write(&path, &CLIP[..bytes]).expect("it can be written");
    path
}

#[tokio::test]
async fn a_file_arrives_whole_and_the_stream_ends_with_it() {
    let mut site = site(anywhere(), &identity(), None).await;
    let path = clip_file("once.h264", 400_000);
    let files = |once| Input::Files {
        paths: vec![path.clone()],
        fps: once,
    };
    let publishing = publish(files(None), true, &site.url);
    let server = soon(site.sessions.recv()).await.expect("a session");
    let (_subscription, mut reader) = subscribe(&server).await;
    let options = glassline_demux::Options {
        fps: None,
        once: true,
    };
    let mut source =
        glassline_demux::open(std::slice::from_ref(&path), &options).expect("readable");
    let mut count = 0u64;
    while let Some(frame) = soon(reader.next()).await.expect("good") {
        let sent = source.next_frame().expect("readable").expect("as many");
        assert_eq!((frame.keyframe, &frame.data), (sent.keyframe, &sent.data));
        count += 1;
    }
    assert_eq!(source.next_frame().expect("readable"), None, "all of them");
    let (outcome, _) = soon(publishing.task).await.expect("no panic");
    let (end, figures) = outcome.expect("no error");
    assert_eq!(end, End::Source);
    assert_eq!((figures.made_units, figures.dropped.units()), (count, 0));
    assert_eq!(figures.made_bytes, figures.handed_bytes);
    std::fs::remove_file(path).expect("ours");
}

#[tokio::test]
async fn the_test_pattern_follows_the_path_and_a_wish_for_a_keyframe() {
    let mut site = site(anywhere(), &identity(), None).await;
    let pattern = Input::Pattern {
        width: 128,
        height: 64,
        fps: 30,
    };
    let publishing = publish(pattern, false, &site.url);
    let server = soon(site.sessions.recv()).await.expect("a session");
    let (_subscription, mut reader) = subscribe(&server).await;
    let first = soon(reader.next()).await.expect("good").expect("a frame");
    assert!(first.keyframe);
    // Two seconds lie between keyframes; one that is asked for comes before.
    let mut last = first.time;
    let mut asked = false;
    let gap = loop {
        let frame = soon(reader.next()).await.expect("good").expect("a frame");
        if frame.keyframe {
            break frame.time.saturating_since(first.time);
        }
        if !asked {
            server.request_keyframe();
            asked = true;
        }
        assert!(frame.time > last);
        last = frame.time;
    };
    assert!(gap < Duration::from_millis(1900), "{gap:?}");
    let (outcome, notes) = publishing.stop().await;
    let (end, figures) = outcome.expect("no error");
    assert_eq!(end, End::Stopped);
    assert!(figures.path.is_wanted && figures.path.delivered_bytes > 1000);
    assert!(
        notes[0].starts_with("publishing to moq://127.0.0.1"),
        "{notes:?}"
    );
}

#[tokio::test]
async fn the_built_in_clip_has_audio() {
    let mut site = site(anywhere(), &identity(), None).await;
    let publishing = publish(Input::Clip, false, &site.url);
    let server = soon(site.sessions.recv()).await.expect("a session");
    let mut subscription = soon(server.subscribe("cam")).await.expect("it is there");
    let catalog = soon(subscription.catalog())
        .await
        .expect("good")
        .expect("one");
    let chosen = catalog.choose().expect("both");
    let kinds: Vec<Kind> = chosen.iter().map(|it| it.track.kind()).collect();
    assert_eq!(kinds, [Kind::Video, Kind::Audio]);
    assert_eq!(chosen[1].track.codec, Codec::Opus);
    let mut audio = soon(subscription.read(&chosen[1], PATIENCE))
        .await
        .expect("there");
    let one = soon(audio.next()).await.expect("good").expect("audio");
    let two = soon(audio.next()).await.expect("good").expect("more");
    let apart = two.time.saturating_since(one.time);
    assert_eq!(apart.as_millis(), 20);
    publishing.stop().await.0.expect("no error");
}

#[tokio::test]
async fn who_is_refused_hears_it_once() {
    let site = site(anywhere(), &identity(), Some(Refusal::Unauthorized)).await;
    let publishing = publish(Input::Clip, false, &site.url);
    let (outcome, _) = soon(publishing.task).await.expect("no panic");
    let error = outcome.expect_err("refused").to_string();
    assert!(error.contains("not authorized"), "{error}");
    assert!(!error.contains("token"), "{error}");
}

#[tokio::test]
async fn a_server_that_comes_back_gets_the_stream_again() {
    let identity = identity();
    let mut first = site(anywhere(), &identity, None).await;
    let publishing = publish(Input::Clip, false, &first.url);
    let server = soon(first.sessions.recv()).await.expect("a session");
    let (broadcast, mut reader) = subscribe(&server).await;
    soon(reader.next()).await.expect("good").expect("a frame");
    server.abort(Refusal::Shutdown);
    let authority = first.url.strip_prefix("moq://").expect("ours");
    let at: SocketAddr = authority
        .split('/')
        .next()
        .and_then(|it| it.parse().ok())
        .expect("an address");
    first.task.abort();
    // All that holds the socket.
    drop((broadcast, reader, server, first));
    let mut second = site(at, &identity, None).await;
    let server = soon(second.sessions.recv()).await.expect("it comes back");
    let (_subscription, mut reader) = subscribe(&server).await;
    let video_frame = soon(reader.next()).await.expect("good").expect("a frame");
    assert!(video_frame.keyframe);
    let (outcome, notes) = publishing.stop().await;
    let (_, figures) = outcome.expect("no error");
    assert!(figures.reconnects >= 1);
    assert!(
        notes.iter().any(|it| it.contains("reconnecting")),
        "{notes:?}"
    );
}
