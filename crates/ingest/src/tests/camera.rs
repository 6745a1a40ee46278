//! Cameras that redirect, that take one client, that send from elsewhere, and that speak TLS.

use std::net::{Ipv4Addr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use glassline_hub::StreamName;
use glassline_rtp::rtcp;

use super::scripted_camera::{Script, ScriptedCamera, frame};
use super::*;

/// Starts the source `cam`.
async fn running(source: &str) -> Running {
    Running::start(&[source]).await.expect("starts")
}

async fn until_live(running: &Running) {
    let stream = running.stream("cam");
    let is_live = || matches!(stream.state(), State::Live { .. });
    until("media of the camera", is_live).await;
}

/// Waits until the camera is down, and returns the reason.
async fn reason(running: &Running) -> String {
    let stream = running.stream("cam");
    until("a reason", || matches!(stream.state(), State::Down { .. })).await;
    stream.state().detail().expect("a reason").to_owned()
}

async fn reason_of(source: &str) -> String {
    let running = running(source).await;
    let reason = reason(&running).await;
    running.stop().await;
    reason
}

fn name() -> StreamName {
    StreamName::parse("cam").expect("a name")
}

/// Puts another source in place of `cam`.
async fn change(running: &Running, source: &str) {
    let spec = SourceSpec::parse(source).expect(source);
    let prepared = running.sources.prepare(vec![spec], &[]).await;
    for source in prepared.expect("good") {
        running.sources.replace(source).await.expect("it begins");
    }
}

#[tokio::test]
async fn a_camera_for_one_client_is_connected_at_once_after_every_end() {
    let camera = ScriptedCamera::start(Script {
        is_for_one: true,
        ..Script::default()
    });
    let running = running(&camera.source("rtsp", "/a")).await;
    until_live(&running).await;
    for path in ["/b", "/b", "/a?transport=udp"] {
        change(&running, &camera.source("rtsp", path)).await;
        until_live(&running).await;
    }
    assert_eq!(camera.seen.requests("DESCRIBE"), 4, "none was refused");
    running.sources.remove(&name()).await;
    assert_eq!(camera.seen.requests("TEARDOWN"), 4);
    let source = SourceSpec::parse(&camera.source("rtsp", "/a")).expect("a source");
    running.sources.add(source).await.expect("it begins");
    until_live(&running).await;
    running.stop().await;
    assert_eq!(camera.seen.requests("TEARDOWN"), 5);
    assert_eq!(camera.seen.sessions(), 0);
    let goodbyes = camera.seen.control.lock();
    let is_bye = |bytes: &&Vec<u8>| {
        rtcp::parse(bytes)
            .flatten()
            .any(|it| matches!(it, rtcp::Packet::Bye(_)))
    };
    assert_eq!(
        goodbyes.iter().filter(is_bye).count(),
        4,
        "those within the connection"
    );
}

#[tokio::test]
async fn cameras_that_never_answer_teardown_end_together_within_a_second() {
    let script = Script {
        ignores_teardown: true,
        ..Script::default()
    };
    let cameras = [(); 6].map(|()| ScriptedCamera::start(script.clone()));
    let sources = (0..).zip(&cameras).map(|(number, camera)| {
        let source = camera.source("rtsp", "/x");
        source.replace("cam=", &format!("cam{number}="))
    });
    let sources: Vec<_> = sources.collect();
    let sources: Vec<_> = sources.iter().map(String::as_str).collect();
    let running = Running::start(&sources).await.expect("starts");
    until("all", || {
        let played = cameras.iter().filter(|it| it.seen.requests("PLAY") == 1);
        played.count() == cameras.len()
    })
    .await;
    let since = Instant::now();
    running.stop().await;
    // One after another they would take 5.4 s.
    assert!(since.elapsed() < Duration::from_secs(3), "{since:?}");
    for camera in &cameras {
        assert_eq!(camera.seen.requests("TEARDOWN"), 1);
    }
}

#[tokio::test]
async fn a_silent_camera_is_down_with_the_reason_and_told_goodbye() {
    let camera = ScriptedCamera::start(Script {
        is_for_one: true,
        is_silent: true,
        ..Script::default()
    });
    let running = running(&camera.source("rtsp", "/x?timeout_s=0.2")).await;
    assert_eq!(
        reason(&running).await,
        "no packet from the camera for 0.2 s"
    );
    until("another attempt", || camera.seen.requests("PLAY") > 1).await;
    running.stop().await;
    assert_eq!(camera.seen.sessions(), 0);
}

#[tokio::test]
async fn redirections_are_followed_at_every_request() {
    let target = ScriptedCamera::start(Script::default());
    for (method, status, path) in [
        ("OPTIONS", 301, "/x"),
        ("DESCRIBE", 302, "/x?y=1"),
        ("DESCRIBE", 303, "/x"),
        ("DESCRIBE", 305, "/x"),
        ("SETUP", 307, "/x"),
    ] {
        let location = format!("rtsp://{}{path}", target.address);
        let camera = ScriptedCamera::start(Script {
            redirect: Some((method, status, location)),
            ..Script::default()
        });
        let before = target.seen.requests("PLAY");
        let running = running(&camera.source("rtsp", "/first")).await;
        until_live(&running).await;
        running.stop().await;
        assert_eq!(target.seen.requests("PLAY"), before + 1, "{method}");
        assert_eq!(camera.seen.requests("PLAY"), 0, "{method}");
    }
    assert!(target.seen.requests("DESCRIBE") > 1 && target.seen.requests("?y=1") > 1);
}

#[tokio::test]
async fn a_redirection_in_a_circle_ends_with_the_reason() {
    let camera = ScriptedCamera::start(Script {
        redirect: Some(("DESCRIBE", 302, "/live".to_owned())),
        ..Script::default()
    });
    let address = camera.address;
    assert_eq!(
        reason_of(&camera.source("rtsp", "/x")).await,
        format!(
            "the camera redirects in a circle: rtsp://{address}/x to rtsp://{address}/live to \
             rtsp://{address}/live"
        )
    );
}

#[tokio::test]
async fn the_password_of_a_source_stays_at_its_host() {
    let guarded = ScriptedCamera::start(Script {
        is_guarded: true,
        ..Script::default()
    });
    let location = format!("rtsp://{}/x", guarded.address);
    let same = ScriptedCamera::start(Script {
        redirect: Some(("DESCRIBE", 302, location.clone())),
        ..Script::default()
    });
    let source = same.source("rtsp", "/x");
    let running = running(&source.replace("rtsp://", "rtsp://u:p@")).await;
    until_live(&running).await;
    running.stop().await;
    let given = guarded.seen.requests("Basic ");
    assert!(given > 0, "another port of the same host");
    // `localhost` is another host by name.
    let source = source.replace("127.0.0.1", "u:p@localhost");
    let reason = reason_of(&source).await;
    assert!(
        reason.starts_with(&format!("redirected to {location}: it asks for a user")),
        "{reason}"
    );
    assert!(
        reason.ends_with(&format!("give the source {location}")),
        "{reason}"
    );
    assert_eq!(guarded.seen.requests("Basic "), given, "not given");
}

#[tokio::test]
async fn a_redirection_leads_nowhere_that_the_source_may_not_be() {
    let camera = ScriptedCamera::start(Script {
        redirect: Some(("DESCRIBE", 302, "rtsp://10.1.2.3/x".to_owned())),
        ..Script::default()
    });
    let mut spec = SourceSpec::parse(&camera.source("rtsp", "/x")).expect("a source");
    if let Input::Camera(camera) = &mut spec.input {
        camera.reach = Reach::Within(AddressLimits {
            private: false,
            loopback: true,
        });
    }
    let running = Running::start(&[]).await.expect("starts");
    running.sources.add(spec).await.expect("it begins");
    let reason = reason(&running).await;
    assert!(
        reason.starts_with("redirected to rtsp://10.1.2.3/x: not allowed"),
        "{reason}"
    );
    assert!(reason.contains("`admin.sources.private`"), "{reason}");
    running.stop().await;
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn media_of_another_address_is_played_and_a_stranger_cannot_take_it_over() {
    for transport in ["", ";source=127.0.0.2", ";ssrc=00002222"] {
        let camera = ScriptedCamera::start(Script {
            sends_from: Some(Ipv4Addr::new(127, 0, 0, 2)),
            transport: transport.to_owned(),
            ..Script::default()
        });
        let running = running(&camera.source("rtsp", "/x?transport=udp")).await;
        until_live(&running).await;
        let port = camera.seen.client_port.lock().expect("one");
        let stream = running.stream("cam");
        let mut subscription = stream.subscribe(Arc::new(NoWake));
        let is_over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&is_over);
        let flood = std::thread::spawn(move || {
            let sockets =
                ["127.0.0.1", "127.0.0.3"].map(|ip| UdpSocket::bind((ip, 0)).expect("an address"));
            let mut sequence = 30_000u16;
            while !flag.load(Ordering::Relaxed) {
                for socket in &sockets {
                    let _ = socket.send_to(&frame(sequence, 0x3333), ("127.0.0.1", port));
                }
                sequence = sequence.wrapping_add(1);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let (sources, since) = (stream.totals().sources, stream.totals().units);
        until("frames", || stream.totals().units > since + 20).await;
        is_over.store(true, Ordering::Relaxed);
        flood.join().expect("no panic");
        let mut units = Vec::new();
        subscription.poll(&mut units);
        // A stranger's frames would jump by more than ten minutes of timestamps.
        let times: Vec<_> = units.iter().map(|unit| unit.time).collect();
        let longest = times
            .windows(2)
            .map(|it| it[1].saturating_since(it[0]))
            .max();
        assert!(
            longest < Some(Duration::from_secs(5)),
            "{transport}: {times:?}"
        );
        assert_eq!(stream.totals().sources, sources);
        running.stop().await;
    }
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn media_that_the_camera_did_not_announce_is_named() {
    for (transport, wanted) in [
        (
            ";source=127.0.0.9",
            "because the camera named 127.0.0.9 as their source",
        ),
        (
            ";ssrc=00007777",
            "another payload type or SSRC than the camera said",
        ),
    ] {
        let camera = ScriptedCamera::start(Script {
            sends_from: Some(Ipv4Addr::new(127, 0, 0, 2)),
            transport: transport.to_owned(),
            ..Script::default()
        });
        let reason = reason_of(&camera.source("rtsp", "/x?transport=udp&timeout_s=0.5")).await;
        assert!(
            reason.starts_with("no packet from the camera for 0.5 s; datagrams of 127.0.0.2"),
            "{reason}"
        );
        assert!(reason.contains(wanted), "{reason}");
    }
}

#[tokio::test]
async fn cameras_take_the_ports_of_a_range_until_there_are_none() {
    // A pair that is free now, and that nobody else is given meanwhile.
    let holder = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let even = holder.local_addr().expect("bound").port() & !1;
    let camera = ScriptedCamera::start(Script::default());
    let source = camera.source(
        "rtsp",
        &format!("/x?transport=udp&udp_ports={even}-{}", even + 1),
    );
    let reason = reason_of(&source).await;
    assert_eq!(
        reason,
        format!(
            "no UDP ports for the camera's packets: all pairs of ports of {even}-{} are in use: make the \
             range larger (`udp_ports` of the source, or `rtsp.camera_udp_ports`)",
            even + 1
        )
    );
    drop(holder);
    let running = running(&source).await;
    until_live(&running).await;
    assert_eq!(*camera.seen.client_port.lock(), Some(even));
    running.stop().await;
}

#[tokio::test]
async fn a_camera_within_tls_plays_when_its_certificate_is_pinned_or_any_may_be() {
    let camera = ScriptedCamera::start(Script {
        is_secure: true,
        ..Script::default()
    });
    let pin = camera.fingerprint;
    for options in [format!("sha256={pin}"), "insecure".to_owned()] {
        let running = running(&camera.source("rtsps", &format!("/x?{options}"))).await;
        until_live(&running).await;
        running.stop().await;
    }
    let address = camera.address;
    let line = format!("DESCRIBE rtsps://{address}/x RTSP/1.0");
    assert_eq!(camera.seen.requests(&line), 2);
    assert_eq!(camera.seen.requests("TEARDOWN"), 2);
    let reason = reason_of(&camera.source("rtsps", "/x")).await;
    // Machines without a bundle of authorities say so.
    let is_named = reason.contains(&format!("add sha256={pin} to the source"));
    assert!(is_named || reason.contains("sha256=…"), "{reason}");
    let wrong = format!("/x?sha256={}", "ab".repeat(32));
    let reason = reason_of(&camera.source("rtsps", &wrong)).await;
    assert_eq!(
        reason,
        format!(
            "the camera's certificate is not trusted (it is not the pinned one): its SHA-256 is {pin}; if the camera has a new \
             certificate, set sha256={pin} at the source"
        )
    );
    let plain = ScriptedCamera::start(Script::default());
    let reason = reason_of(&plain.source("rtsps", "/x?insecure")).await;
    assert!(reason.starts_with("no TLS with the camera: "), "{reason}");
    assert!(
        reason.ends_with("a camera without TLS is rtsp://…"),
        "{reason}"
    );
}

#[tokio::test]
async fn receiver_reports_and_requests_for_keyframes_reach_the_camera() {
    let camera = ScriptedCamera::start(Script {
        description: "a=rtcp-fb:96 nack pli\r\n".to_owned(),
        ..Script::default()
    });
    let running = running(&camera.source("rtsp", "/x")).await;
    until_live(&running).await;
    let stream = running.stream("cam");
    let seen = Arc::clone(&camera.seen);
    let mut has = [false; 3];
    until("a report, its name and PLI", || {
        stream.request_keyframe();
        for bytes in seen.control.lock().drain(..) {
            for packet in rtcp::parse(&bytes) {
                match packet.expect("well made") {
                    rtcp::Packet::ReceiverReport(it) => {
                        has[0] |= it.reports.iter().any(|it| it.ssrc.0 == 0x2222);
                    }
                    rtcp::Packet::SourceDescription(it) => has[1] |= !it.chunks[0].cname.is_empty(),
                    rtcp::Packet::PictureLossIndication(it) => has[2] |= it.media.0 == 0x2222,
                    other => panic!("{other:?}"),
                }
            }
        }
        has == [true; 3]
    })
    .await;
    running.stop().await;
}
