use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use super::test_server::Server;
use crate::viewers::test_waiting::{wait_for, wait_until};
use crate::viewers::{
    Conduct, Endpoint, Id, Join, Mode, Options, Pool, RtspTransport, State, Viewer, Wait,
};

const BOTH: [RtspTransport; 2] = [RtspTransport::Tcp, RtspTransport::Udp];

fn pool() -> Pool {
    Pool::start(Options::default()).expect("threads")
}

fn join(pool: &Pool, url: &str, transport: RtspTransport, mode: Mode, conduct: Conduct) -> Id {
    let url = url.parse().expect("a URL");
    pool.join(Join {
        endpoint: Endpoint::Rtsp { url, transport },
        mode,
        conduct,
    })
}

fn watch(pool: &Pool, url: &str, transport: RtspTransport) -> Id {
    join(pool, url, transport, Mode::Verify, Conduct::Good)
}

#[test]
fn whole_frames_arrive_by_tcp_and_by_udp() {
    for transport in BOTH {
        let server = Server::start();
        let pool = pool();
        let id = watch(&pool, &server.url(), transport);
        let viewers = wait_for(&pool, |viewers| viewers[0].frames >= 60);
        let viewer = &viewers[0];
        assert_eq!((viewer.id, viewer.state), (id, State::Playing));
        assert_eq!(
            (viewer.total().lost(), viewer.damaged),
            (0, 0),
            "{viewer:?}"
        );
        assert!(
            viewer.keyframes >= 5 && viewer.audio.received >= 50,
            "{viewer:?}"
        );
        assert!(viewer.connect_time.is_some() && viewer.join_time.is_some());
        assert!(viewer.join_time <= viewer.frame_time, "{viewer:?}");
        assert!(viewer.video.media_time >= Duration::from_millis(500));
        assert!(viewer.gaps.count() + 1 >= viewer.frames);
        wait_until("a report", || server.shared.reports.load(Relaxed) >= 2);
        let delays = pool.take_delays().summary();
        assert!(
            delays.count > 20 && delays.p50 < Duration::from_secs(1),
            "{delays:?}"
        );
        pool.leave(id);
        wait_until("farewell", || server.shared.torn_down.load(Relaxed) == 1);
        wait_until("its end", || server.shared.open.load(Relaxed) == 0);
        assert!(pool.snapshot().is_empty());
    }
}

#[test]
fn many_count_and_all_tear_down_with_the_pool() {
    for transport in BOTH {
        let server = Server::start();
        let options = Options {
            wait: Wait::Sweep(Duration::from_millis(10)),
            ..Options::default()
        };
        let pool = Pool::start(options).expect("threads");
        for _ in 0..12 {
            join(&pool, &server.url(), transport, Mode::Count, Conduct::Good);
        }
        let viewers = wait_for(&pool, |viewers| {
            viewers.len() == 12 && viewers.iter().all(|viewer| viewer.frames >= 20)
        });
        for viewer in &viewers {
            assert_eq!(viewer.total().lost(), 0, "{viewer:?}");
            assert_eq!((viewer.keyframes, viewer.frame_time), (0, None));
        }
        drop(pool);
        assert_eq!(server.shared.torn_down.load(Relaxed), 12);
    }
}

#[test]
fn losses_are_counted_and_damage_frames() {
    for transport in BOTH {
        let server = Server::start();
        server.shared.lose_every.store(10, Relaxed);
        let pool = pool();
        watch(&pool, &server.url(), transport);
        let enough = |viewers: &[Viewer]| viewers[0].video.expected >= 200;
        let viewers = wait_for(&pool, enough);
        let total = viewers[0].total();
        let lost = total.lost() as f64 / total.expected as f64;
        assert!((0.08..0.12).contains(&lost), "{total:?}");
        assert!(viewers[0].damaged > 0, "{viewers:?}");
    }
}

#[test]
fn credentials_of_the_url_are_shown() {
    let server = Server::start();
    server.shared.guarded.store(true, Relaxed);
    let pool = pool();
    let with = |user: &str| server.url().replace("rtsp://", &format!("rtsp://{user}@"));
    watch(&pool, &with("user:pass%20word"), RtspTransport::Tcp);
    watch(&pool, &with("user:wrong"), RtspTransport::Tcp);
    watch(&pool, &server.url(), RtspTransport::Tcp);
    let viewers = wait_for(&pool, |viewers| {
        viewers[0].frames > 0 && viewers[1..].iter().all(|viewer| viewer.failure.is_some())
    });
    let reason = |index: usize| viewers[index].failure.clone().expect("a reason");
    assert!(
        reason(1).contains("refused the name or password of `user`"),
        "{}",
        reason(1)
    );
    assert!(
        reason(2).contains("requires a user name and password"),
        "{}",
        reason(2)
    );
}

#[test]
fn what_goes_wrong_is_in_the_failure() {
    let server = Server::start();
    server.shared.refuse.store(404, Relaxed);
    let pool = pool();
    watch(&pool, &server.url(), RtspTransport::Tcp);
    watch(&pool, "rtsp://127.0.0.1:9/nobody", RtspTransport::Udp);
    let viewers = wait_for(&pool, |viewers| {
        viewers.iter().all(|viewer| viewer.state == State::Ended)
    });
    let reasons: Vec<_> = viewers
        .iter()
        .map(|viewer| viewer.failure.clone().expect("a reason"))
        .collect();
    assert!(reasons[0].contains("refused DESCRIBE: 404"), "{reasons:?}");
    assert!(
        reasons[1].contains("cannot connect to 127.0.0.1:9"),
        "{reasons:?}"
    );
}

#[test]
fn the_end_of_the_connection_and_of_the_stream_are_told_apart() {
    for transport in BOTH {
        let server = Server::start();
        let pool = pool();
        watch(&pool, &server.url(), transport);
        wait_for(&pool, |viewers| viewers[0].frames > 0);
        server.shared.hang_up.store(true, Relaxed);
        let viewers = wait_for(&pool, |viewers| viewers[0].state == State::Ended);
        let reason = viewers[0].failure.clone().expect("a reason");
        assert!(reason.contains("connection"), "{reason}");

        let server = Server::start();
        let id = watch(&pool, &server.url(), transport);
        wait_for(&pool, |viewers| viewers[1].frames > 0);
        server.shared.bye.store(true, Relaxed);
        let viewers = wait_for(&pool, |viewers| viewers[1].state == State::Ended);
        assert_eq!(viewers[1].id, id);
        let reason = viewers[1].failure.clone().expect("a reason");
        assert!(reason.contains("BYE"), "{reason}");
    }
}

#[test]
fn those_who_vanish_leave_without_a_word() {
    for transport in BOTH {
        let server = Server::start();
        let pool = pool();
        join(
            &pool,
            &server.url(),
            transport,
            Mode::Count,
            Conduct::Vanish,
        );
        wait_until("connection", || server.shared.open.load(Relaxed) > 0);
        wait_until("its end", || server.shared.open.load(Relaxed) == 0);
        assert_eq!(server.shared.torn_down.load(Relaxed), 0);
    }
}

#[test]
fn those_who_stall_hold_their_connection_and_count_no_more() {
    let server = Server::start();
    let pool = pool();
    join(
        &pool,
        &server.url(),
        RtspTransport::Tcp,
        Mode::Count,
        Conduct::Stall,
    );
    watch(&pool, &server.url(), RtspTransport::Tcp);
    let stalled = || pool.snapshot()[0].frames;
    wait_until("a stalled one", || {
        let before = stalled();
        std::thread::sleep(Duration::from_millis(500));
        before > 0 && stalled() == before
    });
    let (frames, others) = (stalled(), pool.snapshot()[1].frames);
    wait_for(&pool, |viewers| viewers[1].frames > others + 50);
    assert_eq!(stalled(), frames);
    assert_eq!(server.shared.open.load(Relaxed), 2);
}

#[test]
fn slow_ones_fall_behind_and_small_windows_do_not() {
    let server = Server::start();
    let pool = pool();
    let slow = Conduct::Slow {
        bytes_per_second: 1_000,
    };
    for conduct in [slow, Conduct::TinyWindow] {
        join(
            &pool,
            &server.url(),
            RtspTransport::Tcp,
            Mode::Count,
            conduct,
        );
    }
    let viewers = wait_for(&pool, |viewers| viewers[1].frames >= 150);
    assert!(viewers[0].frames > 0, "{viewers:?}");
    assert!(viewers[0].frames * 2 < viewers[1].frames, "{viewers:?}");
}

#[test]
fn garbage_reaches_the_server() {
    let server = Server::start();
    let pool = pool();
    join(
        &pool,
        &server.url(),
        RtspTransport::Tcp,
        Mode::Count,
        Conduct::Garbage,
    );
    wait_until("garbage", || server.shared.garbage.load(Relaxed) > 0);
    assert_eq!(server.shared.torn_down.load(Relaxed), 0);
}
