//! The places that connections take: how many, for how long, and who makes room for whom.

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpStream};
use std::time::{Duration, Instant};

use super::{Hand, SOON};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};

const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
const ELSEWHERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

fn connect(running: &Running, from: IpAddr) -> Hand {
    Hand::over(running.connect(from, running.rtsp()))
}

fn describe(running: &Running, from: IpAddr) -> String {
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    connect(running, from).ask("DESCRIBE", &url, "")
}

/// A connection that asks for nothing that takes a right, as often as is needed to seem alive.
fn idle(running: &Running, from: IpAddr) -> Hand {
    let mut hand = connect(running, from);
    let answer = hand.ask("OPTIONS", "*", "");
    assert!(answer.contains("200 OK"), "{answer}");
    hand
}

/// Returns whether the server has closed the connection, or closes it within `patience`.
fn is_closed(stream: &mut TcpStream, patience: Duration) -> bool {
    stream.set_read_timeout(Some(patience)).expect("a timeout");
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
        }
    }
}

#[test]
fn a_host_that_takes_every_place_without_a_session_leaves_room_for_others() {
    let running = Running::with(1, |config| config.rtsp.clients = 5);
    let _source = Source::start(&running.stream(), Film::default());
    let mut held: Vec<_> = (0..5).map(|_| idle(&running, HERE)).collect();
    for from in [HERE, ELSEWHERE] {
        let answer = describe(&running, from);
        assert!(answer.contains("200 OK"), "{from}: {answer}");
    }
    assert!(is_closed(&mut held[0].stream, SOON), "the oldest made room");
    assert!(!is_closed(&mut held[4].stream, Duration::from_millis(200)));
    let closed = running.metric("rtsp_clients_closed_total");
    let closed = closed
        .iter()
        .find(|(labels, _)| labels.contains("no_session"));
    assert_eq!(closed.map(|(_, count)| *count), Some(1));
}

#[test]
fn sessions_that_are_only_set_up_make_room_for_others() {
    let running = Running::with(1, |config| config.rtsp.clients = 5);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 5);
    let mut player = connect(&running, HERE);
    let answer = player.play(&running);
    assert!(answer.contains("200 OK"), "{answer}");
    let track = format!("rtsp://{}/{STREAM}/trackID=0", running.rtsp());
    let transport = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
    let set_up = |_| {
        let mut hand = connect(&running, HERE);
        let answer = hand.ask("SETUP", &track, transport);
        assert!(answer.contains("200 OK"), "{answer}");
        hand
    };
    let mut held: Vec<_> = (0..4).map(set_up).collect();
    for from in [HERE, ELSEWHERE] {
        let answer = describe(&running, from);
        assert!(answer.contains("200 OK"), "{from}: {answer}");
    }
    assert!(is_closed(&mut held[0].stream, SOON), "the oldest made room");
    assert!(!is_closed(&mut held[3].stream, Duration::from_millis(200)));
    assert_eq!(player.byte(), b'$', "it still plays");
    player.frame();
}

#[test]
fn clients_that_play_make_room_for_nobody() {
    let running = Running::with(1, |config| {
        config.rtsp.clients = 8;
        config.rtsp.clients_per_address = Some(2);
    });
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 5);
    let mut players: Vec<_> = (0..2).map(|_| connect(&running, HERE)).collect();
    for player in &mut players {
        let answer = player.play(&running);
        assert!(answer.contains("200 OK"), "{answer}");
    }
    // The connection may be reset while it is still being made.
    let third = TcpStream::connect(running.rtsp());
    let is_refused = third.map_or(true, |mut it| is_closed(&mut it, SOON));
    assert!(is_refused, "the address has two");
    assert_eq!(running.total("rtsp_turned_away_total"), 1);
    let answer = describe(&running, ELSEWHERE);
    assert!(answer.contains("200 OK"), "another address: {answer}");
    for player in &mut players {
        assert_eq!(player.byte(), b'$', "it still plays");
        player.frame();
    }
}

#[test]
fn players_that_pause_after_they_were_passed_over_make_room() {
    let running = Running::with(1, |config| config.rtsp.clients = 3);
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 5);
    let mut players: Vec<_> = (0..3).map(|_| connect(&running, HERE)).collect();
    for player in &mut players {
        let answer = player.play(&running);
        assert!(answer.contains("200 OK"), "{answer}");
    }
    let refused = TcpStream::connect(running.rtsp());
    let is_refused = refused.map_or(true, |mut it| is_closed(&mut it, SOON));
    assert!(is_refused, "all places are those of players");
    let url = format!("rtsp://{}/{STREAM}", running.rtsp());
    let paused = players[1].ask("PAUSE", &url, "");
    assert!(paused.contains("200 OK"), "{paused}");
    let left = players[2].ask("TEARDOWN", &url, "");
    assert!(left.contains("200 OK"), "{left}");
    let mut newcomers = Vec::new();
    let began = Instant::now();
    while newcomers.len() < 2 {
        assert!(began.elapsed() < SOON, "{} of two came in", newcomers.len());
        if let Ok(mut newcomer) = TcpStream::connect(running.rtsp()) {
            let is_closed = is_closed(&mut newcomer, Duration::from_millis(200));
            newcomers.extend((!is_closed).then_some(newcomer));
        }
    }
    assert_eq!(players[0].byte(), b'$', "it still plays");
    players[0].frame();
}

#[test]
fn requests_without_a_right_do_not_hold_a_place() {
    let running = Running::start(1);
    let mut hand = idle(&running, HERE);
    let began = Instant::now();
    let patience = Duration::from_millis(500);
    while !is_closed(&mut hand.stream, patience) {
        assert!(began.elapsed() < SOON * 2, "it is still open");
        // The server may close the connection in between.
        let _ = hand
            .stream
            .write_all(b"OPTIONS * RTSP/1.0\r\nCSeq: 7\r\n\r\n");
    }
}
