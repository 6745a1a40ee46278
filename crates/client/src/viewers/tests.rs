use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use super::test_server::Server;
use super::test_waiting::{wait_for, wait_until};
use super::*;

fn good(url: &str) -> Join {
    Join::new(Endpoint::parse(url).expect("a URL"))
}

#[test]
fn a_viewer_joins_sees_whole_frames_and_leaves() {
    let server = Server::start();
    let options = Options {
        token: Some("secret".to_owned()),
        ..Options::default()
    };
    let pool = Pool::start(options).expect("threads");
    let id = pool.join(good(&server.url));
    let viewers = wait_for(&pool, |viewers| {
        viewers[0].frames >= 30 && viewers[0].keyframes >= 1
    });
    let viewer = &viewers[0];
    assert_eq!((viewer.id, viewer.state), (id, State::Playing));
    assert_eq!(viewer.failure, None);
    assert!(viewer.connect_time <= viewer.join_time, "{viewer:?}");
    assert!(viewer.join_time <= viewer.frame_time, "{viewer:?}");
    assert!(viewer.protection.is_some_and(|name| name.contains("GCM")));
    assert!(viewer.video.received >= 90 && viewer.audio.received >= 25);
    assert_eq!(
        (viewer.total().lost(), viewer.damaged),
        (0, 0),
        "{viewer:?}"
    );
    assert!(viewer.gaps.count() + 1 >= viewer.frames);
    assert!(viewer.video.media_time >= Duration::from_millis(500));

    pool.leave(id);
    wait_until("farewell", || server.shared.deleted.load(Relaxed) == 1);
    assert!(pool.snapshot().is_empty());
    assert_eq!(*server.shared.tokens.lock(), [true]);
}

#[test]
fn many_viewers_count_and_all_leave_with_the_pool() {
    let server = Server::start();
    let options = Options {
        wait: Wait::Sweep(Duration::from_millis(10)),
        ..Options::default()
    };
    let pool = Pool::start(options).expect("threads");
    for _ in 0..12 {
        pool.join(good(&server.url).counting());
    }
    let viewers = wait_for(&pool, |viewers| {
        viewers.len() == 12 && viewers.iter().all(|viewer| viewer.frames >= 20)
    });
    for viewer in &viewers {
        assert_eq!(viewer.total().lost(), 0, "{viewer:?}");
        assert_eq!((viewer.keyframes, viewer.frame_time), (0, None));
        assert!(viewer.audio.received >= 10);
    }
    drop(pool);
    assert_eq!(server.shared.deleted.load(Relaxed), 12);
}

#[test]
fn frames_are_reported_as_often_as_the_server_asks_until_it_refuses() {
    let server = Server::start();
    let options = Options {
        wait: Wait::Sweep(Duration::from_millis(10)),
        reports: true,
        ..Options::default()
    };
    let pool = Pool::start(options).expect("threads");
    pool.join(good(&server.url).counting());
    // Frames of 20 ms: two reports at least.
    wait_until("reports", || server.shared.reported.load(Relaxed) >= 70);
    let frames = pool.snapshot()[0].frames;
    let reported = server.shared.reported.load(Relaxed) as u64;
    assert!(reported <= frames, "{reported} of {frames}");
    server.shared.refuse_reports.store(true, Relaxed);
    let viewers = wait_for(&pool, |viewers| viewers[0].state == State::Ended);
    let reason = viewers[0].failure.as_deref().expect("a reason");
    assert!(
        reason.contains("/report") && reason.contains("410"),
        "{reason}"
    );
}

/// The first packets come in the batch that ends the handshake.
#[test]
fn a_keyframe_that_comes_with_the_end_of_the_handshake_is_counted() {
    let server = Server::start();
    server.shared.one_keyframe.store(true, Relaxed);
    let options = Options {
        wait: Wait::Sweep(Duration::from_millis(100)),
        ..Options::default()
    };
    let pool = Pool::start(options).expect("threads");
    pool.join(good(&server.url));
    let viewers = wait_for(&pool, |viewers| viewers[0].frames >= 20);
    assert_eq!(
        (viewers[0].keyframes, viewers[0].damaged),
        (1, 0),
        "{viewers:?}"
    );
}

#[test]
fn lost_packets_are_asked_for_and_come_again() {
    let server = Server::start();
    server.shared.lose_every.store(7, Relaxed);
    for mode in [Mode::Verify, Mode::Count] {
        let pool = Pool::start(Options::default()).expect("threads");
        pool.join(Join {
            mode,
            ..good(&server.url)
        });
        let viewers = wait_for(&pool, |viewers| viewers[0].video.recovered >= 20);
        assert!(viewers[0].nacked >= 20, "{mode:?}: {}", viewers[0].nacked);
        let video = viewers[0].video;
        // The last ones may still be on their way.
        assert!(video.lost() <= 4, "{mode:?}: {video:?}");
        assert_eq!(viewers[0].damaged, 0, "{mode:?}");
    }
    assert!(server.shared.repairs.load(Relaxed) >= 40);
}

#[test]
fn lost_packets_are_rebuilt_from_fec_packets_without_a_repair() {
    let server = Server::start();
    server.shared.lose_every.store(7, Relaxed);
    server.shared.protects.store(true, Relaxed);
    let pool = Pool::start(Options::default()).expect("threads");
    pool.join(good(&server.url));
    // Frames have three or four packets, so that none loses two.
    let viewers = wait_for(&pool, |viewers| viewers[0].video.recovered >= 20);
    let video = viewers[0].video;
    assert!(video.lost() <= 1, "the last one: {video:?}");
    assert_eq!(viewers[0].damaged, 0);
    assert_eq!(server.shared.repairs.load(Relaxed), 0);
}

#[test]
fn what_goes_wrong_is_in_the_viewers_failure() {
    let server = Server::start();
    server.shared.refuse.store(true, Relaxed);
    let pool = Pool::start(Options::default()).expect("threads");
    pool.join(good(&server.url));
    pool.join(good("http://127.0.0.1:9/nobody/whep"));
    let viewers = wait_for(&pool, |viewers| {
        viewers.iter().all(|viewer| viewer.state == State::Ended)
    });
    let reasons: Vec<_> = viewers
        .iter()
        .map(|viewer| viewer.failure.as_deref().expect("a reason"))
        .collect();
    assert!(reasons[0].contains("404") && reasons[0].contains("no stream of that name"));
    assert!(reasons[1].contains("127.0.0.1:9"), "{reasons:?}");
    drop(pool);
    assert_eq!(server.shared.deleted.load(Relaxed), 0);
}

#[test]
fn leaving_at_once_leaves_nothing_behind() {
    let server = Server::start();
    let pool = Pool::start(Options::default()).expect("threads");
    for _ in 0..5 {
        let id = pool.join(good(&server.url));
        pool.leave(id);
    }
    wait_until("farewells", || server.shared.deleted.load(Relaxed) == 5);
    assert!(pool.snapshot().is_empty());
}

#[test]
fn a_server_that_hangs_up_ends_its_viewers() {
    let server = Server::start();
    let pool = Pool::start(Options::default()).expect("threads");
    pool.join(good(&server.url));
    wait_for(&pool, |viewers| viewers[0].state == State::Playing);
    server.shared.hang_up.store(true, Relaxed);
    let viewers = wait_for(&pool, |viewers| viewers[0].state == State::Ended);
    let reason = viewers[0].failure.as_deref().expect("a reason");
    assert!(reason.contains("closed by the peer"), "{reason}");
}

#[test]
fn a_vanished_server_does_not_hold_the_pool_back() {
    let server = Server::start();
    let pool = Pool::start(Options::default()).expect("threads");
    pool.join(good(&server.url));
    wait_for(&pool, |viewers| viewers[0].state == State::Playing);
    let before = Instant::now();
    drop(server);
    drop(pool);
    assert!(before.elapsed() < Duration::from_secs(15));
}

#[test]
fn gaps_and_delays_are_exact_although_viewers_are_swept() {
    let server = Server::start();
    let options = Options {
        wait: Wait::Sweep(Duration::from_millis(100)),
        ..Options::default()
    };
    let pool = Pool::start(options).expect("threads");
    let id = pool.join(good(&server.url).counting());
    wait_for(&pool, |viewers| viewers[0].frames >= 60);
    let gaps = pool.take_gaps();
    assert!(gaps.count() >= 55, "{gaps:?}");
    let typical = gaps.summary().p50;
    assert!(
        typical < Duration::from_millis(80),
        "as coarse as sweeps: {gaps:?}"
    );
    let again = pool.take_gaps();
    assert!(again.count() < gaps.count() / 2, "taken twice: {again:?}");
    let progress = pool.progress();
    assert_eq!((progress.len(), progress[0].id), (1, id));
    assert_eq!(progress[0].mode, Mode::Count);
    assert!(progress[0].frames >= 60 && progress[0].video.received >= 60);
    let delays = pool.take_delays();
    assert!(
        delays.count() > 0,
        "the server reports, and its calendar is ours"
    );
    assert!(delays.summary().p50 < Duration::from_secs(2), "{delays:?}");
}

#[test]
fn bad_viewers_behave_badly_and_others_come_for_them() {
    let server = Server::start();
    let pool = Pool::start(Options::default()).expect("threads");
    let watcher = pool.join(good(&server.url));
    for conduct in [Conduct::Stall, Conduct::Vanish, Conduct::Garbage] {
        pool.join(Join {
            conduct,
            ..good(&server.url)
        });
    }
    let of = |conduct| {
        let viewers = pool.progress();
        let mut of = viewers.into_iter().filter(|it| it.conduct == conduct);
        (of.next(), of.next().is_some())
    };
    // One vanishes, and after a while another one is there in its place.
    wait_until("replacement", || pool.replaced() >= 2);
    wait_until("one in its place", || of(Conduct::Vanish).0.is_some());
    let (garbage, more) = of(Conduct::Garbage);
    assert!(garbage.is_some_and(|it| it.frames > 30) && !more);
    // The one that stalled hears nothing more.
    let frames = || of(Conduct::Stall).0.map(|it| it.frames);
    let heard = frames();
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(frames(), heard);
    let good = pool.progress().into_iter().find(|it| it.id == watcher);
    let good = good.expect("still there");
    assert_eq!((good.state, good.video.lost()), (State::Playing, 0));
    assert_eq!(
        server.shared.deleted.load(Relaxed),
        0,
        "nobody said goodbye"
    );
}
