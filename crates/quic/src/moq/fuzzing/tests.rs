use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime};

use glassline_sim::Rng;
use tokio::sync::mpsc;

use super::*;
use crate::Identity;
use crate::moq::{Grant, Origin, RequestError, Server, Session, SessionRequest};

/// Timeout of every wait, longer than any of them takes.
const PATIENCE: Duration = Duration::from_secs(30);

/// SETTINGS, CONNECT and SETUP as they should be; the fields of the request are the first of
/// each list.
const WHOLE: u8 = 1 | 2 | 4;

struct Site {
    address: SocketAddr,
    requests: mpsc::Receiver<Result<SessionRequest, RequestError>>,
}

fn site() -> Site {
    let identity = Identity::self_signed(vec!["localhost".to_owned()], SystemTime::now());
    let any = (Ipv4Addr::LOCALHOST, 0).into();
    let server = Server::bind(any, &identity.expect("a certificate")).expect("a free port");
    let address = server.local_addr().expect("bound");
    let (out, requests) = mpsc::channel(4);
    tokio::spawn(async move {
        let congestion = || CongestionControl::new(Algorithm::Cubic);
        while let Some(incoming) = server.accept(congestion, |_| false).await {
            let out = out.clone();
            tokio::spawn(async move {
                // A server that no longer wants the request gives it up, as at its deadline.
                let request = tokio::select! {
                    request = incoming.request() => request,
                    () = out.closed() => return,
                };
                let _ = out.send(request).await;
            });
        }
    });
    Site { address, requests }
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, what).await.expect("in time")
}

async fn granted(site: &mut Site) -> Session {
    let request = soon(site.requests.recv()).await.expect("it listens");
    let grant = Grant {
        node: None,
        publish: true,
        read: Some(Origin::new()),
        only: None,
    };
    let session = request.expect("a good request").grant(grant).await;
    session.expect("just opened")
}

/// Sends what `input` says to a server that grants everything.
async fn attack(input: &[u8]) {
    let mut site = site();
    let mut client = HostileClient::connect(site.address, input).await;
    let mut sessions = Vec::new();
    loop {
        if let Ok(request) = site.requests.try_recv() {
            if let Ok(request) = &request
                && let Some((page, sent)) = request.page().zip(client.request())
            {
                assert_eq!(page.origin, sent.origin);
                assert!(!page.host.contains('@'), "{page:?}");
            }
            if let Ok(request) = request {
                let grant = Grant {
                    node: None,
                    publish: true,
                    read: Some(Origin::new()),
                    only: None,
                };
                sessions.extend(request.grant(grant).await);
            }
        }
        if !client.step().await {
            break;
        }
    }
    client.close().await;
    for session in sessions {
        soon(session.ended()).await;
    }
}

#[tokio::test]
async fn a_browser_may_send_anything_in_a_session() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz/seeds/webtransport");
    for entry in std::fs::read_dir(folder).expect("the seeds are part of the checkout") {
        let path = entry.expect("a file").path();
        let seed = std::fs::read(&path).expect("a readable seed");
        // The first byte is for the target's server.
        attack(&seed[1..]).await;
    }
    for seed in 0..12 {
        println!("seed {seed}");
        let mut rng = Rng::new(seed);
        let mut input = vec![WHOLE, 0, 0, 0, 0, seed as u8];
        for _ in 0..40 {
            let mut bytes = [0; 40];
            rng.fill(&mut bytes);
            // A piece's length is in its two first bytes.
            (bytes[1], bytes[2]) = (0, bytes[2] % 36);
            input.extend_from_slice(&bytes);
        }
        attack(&input).await;
    }
}

#[tokio::test]
async fn a_session_that_is_given_up_takes_its_connection_with_it() {
    let mut site = site();
    // No SETUP, but streams of QPACK, which a browser never closes.
    let client = HostileClient::connect(site.address, &[1 | 2 | 8, 0, 0, 0, 0]).await;
    assert!(!client.is_closed());
    site.requests.close();
    soon(client.connection.closed()).await;
}

#[tokio::test]
async fn a_request_that_claims_to_be_long_is_not_waited_for() {
    let mut site = site();
    let mut client = HostileClient::connect(site.address, &[WHOLE, 0, 0, 0, 0, 0]).await;
    let session = granted(&mut site).await;
    // A subscription of 60 MiB.
    let head = [client.bi_header(), vec![2], varint(60 << 20)].concat();
    let (mut send, recv) = soon(client.connection.open_bi()).await.expect("open");
    client.readers.push(recv);
    soon(send.write_all(&head)).await.expect("open");
    let flood = async {
        let piece = [0; 16 << 10];
        // As much as the receive window of a reader and more.
        for _ in 0..(4 << 20) / piece.len() {
            if send.write_all(&piece).await.is_err() {
                return true;
            }
        }
        false
    };
    assert!(soon(flood).await, "the server took 4 MiB of one request");
    drop(session);
}

#[tokio::test]
async fn a_user_in_front_of_the_host_is_no_host() {
    let mut site = site();
    // The fourth of the hosts that requests name.
    let client = HostileClient::connect(site.address, &[WHOLE, 0, 3, 0, 0, 0]).await;
    let sent = client.request().expect("one was sent");
    assert_eq!(sent.authority, "127.0.0.1:1@evil.example");
    let request = soon(site.requests.recv()).await.expect("it listens");
    let request = request.expect("a good request");
    let page = request.page().expect("WebTransport");
    assert_eq!(page.host, "evil.example");
}
