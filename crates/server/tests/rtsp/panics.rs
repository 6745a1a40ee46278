//! A thread panics: what that costs its clients.

use std::time::{Duration, Instant};

use glassline_client::viewers::{Join, RtspTransport};

use super::{Hand, SOON, endpoint, pool};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

fn fail(running: &Running, thread: &str, kind: &str) {
    let path = format!("/api/v1/faults?thread={thread}&kind={kind}");
    assert_eq!(running.admin_post(&path).status, 202);
}

/// One client of several goes, whatever way media takes, and the others get every packet.
fn one_client_goes(transport: RtspTransport) {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let pool = pool();
    for _ in 0..4 {
        pool.join(Join::new(endpoint(&running, transport)));
    }
    let end = Instant::now() + SOON;
    while pool.snapshot().iter().any(|it| it.frames < 30) {
        assert!(Instant::now() < end, "{:?}", pool.snapshot());
        std::thread::sleep(Duration::from_millis(20));
    }
    fail(&running, "rtsp-0", "panic-serving");
    while running.total("panics_total") == 0 {
        assert!(Instant::now() < end, "the panic does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
    let before: Vec<u64> = pool.snapshot().iter().map(|it| it.frames).collect();
    let goes_on = |ahead: u64| {
        let viewers = pool.snapshot();
        let pairs = viewers.into_iter().zip(&before);
        let going = pairs.filter(|(viewer, before)| viewer.frames > *before + ahead);
        going.map(|(viewer, _)| viewer).collect::<Vec<_>>()
    };
    let end = Instant::now() + SOON;
    while goes_on(60).len() < 3 {
        assert!(Instant::now() < end, "{:?}", pool.snapshot());
        std::thread::sleep(Duration::from_millis(20));
    }
    let viewers = goes_on(30);
    assert_eq!(viewers.len(), 3, "one is gone");
    for viewer in viewers {
        assert_eq!(viewer.damaged, 0, "{viewer:?}");
        assert_eq!((viewer.video.lost(), viewer.audio.lost()), (0, 0));
    }
    assert_eq!(running.total("part_restarts_total"), 0);
}

#[test]
fn a_panic_for_one_client_costs_that_client() {
    one_client_goes(RtspTransport::Tcp);
}

#[test]
fn a_panic_for_one_client_by_udp_costs_that_client() {
    one_client_goes(RtspTransport::Udp);
}

#[test]
fn a_thread_that_panics_serves_again_and_its_clients_are_told() {
    let running = Running::start(1);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 40);
    for _ in 0..2 {
        let pool = pool();
        for transport in [RtspTransport::Tcp, RtspTransport::Udp, RtspTransport::Http] {
            pool.join(Join::new(endpoint(&running, transport)));
        }
        let end = Instant::now() + SOON;
        while pool.snapshot().iter().any(|it| it.frames < 10) {
            assert!(Instant::now() < end, "{:?}", pool.snapshot());
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut idle = Hand::new(running.rtsp());
        let url = format!("rtsp://{}/{STREAM}", running.rtsp());
        assert!(idle.ask("OPTIONS", &url, "").contains("200"));
        let restarts = running.total("part_restarts_total");
        let failed_at = Instant::now();
        fail(&running, "rtsp-0", "panic");
        while running.total("part_restarts_total") == restarts {
            std::thread::sleep(Duration::from_millis(5));
            assert!(failed_at.elapsed() < SOON, "it serves again");
        }
        let mut rest = Vec::new();
        let ended = std::io::Read::read_to_end(&mut idle.stream, &mut rest);
        assert!(
            ended.is_ok() || !rest.is_empty(),
            "the connection is closed"
        );
        assert_eq!(running.total("rtsp_connections"), 0);
        assert_eq!(running.stream().viewers(), 0);
    }
}
