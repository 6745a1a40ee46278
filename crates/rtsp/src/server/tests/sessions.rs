use super::*;
use crate::interleaved::write_frame;
use crate::range::Npt;

#[test]
fn the_name_of_another_connections_session_is_worth_nothing() {
    let theirs = ScriptedClient::playing().session();
    let mut client = ScriptedClient::from(Owner::default(), "192.0.2.8:4000");
    let named = format!("Session: {theirs}");
    for method in [
        "PLAY",
        "PAUSE",
        "TEARDOWN",
        "RECORD",
        "OPTIONS",
        "GET_PARAMETER",
    ] {
        assert_eq!(
            client.status(&format!("{method} {CAM}"), &named),
            454,
            "{method}"
        );
    }
    let headers = format!("{named}\r\nTransport: RTP/AVP/TCP");
    assert_eq!(
        client.status(&format!("SETUP {CAM}/trackID=0"), &headers),
        454
    );
    assert!(client.events.is_empty(), "{:?}", client.events);
    // Within a session of its own, the client cannot name the other one either.
    client.play();
    assert_ne!(client.session(), theirs);
    assert_eq!(client.status(&format!("TEARDOWN {CAM}"), &named), 454);
    assert_eq!(client.connection.state(), State::Playing);
    assert_eq!(
        client.status(&format!("PAUSE {CAM}"), ""),
        454,
        "without a name"
    );
}

#[test]
fn an_old_session_is_gone() {
    let mut client = ScriptedClient::playing();
    let old = client.session();
    client.ask_session(&format!("TEARDOWN {CAM}"), "");
    assert_eq!(client.connection.session(), None);
    let status = client.status(&format!("PLAY {CAM}"), &format!("Session: {old}"));
    assert_eq!(status, 454);
    client.play();
    assert_ne!(client.session(), old);
}

#[test]
fn play_again_is_a_seek_and_is_done_in_turn() {
    let mut client = ScriptedClient::playing();
    let session = format!("Session: {}", client.session());
    let plays = [("npt=10-", 10), ("npt=20-30", 11)].map(|(range, cseq)| {
        let headers = format!("{session}\r\nRange: {range}\r\nScale: 2.0\r\nSpeed: 1.5");
        written(cseq, &format!("PLAY {CAM}"), &headers, "")
    });
    client.feed(plays.concat().as_bytes());
    for (cseq, range) in [(10, "npt=10.000-"), (11, "npt=20.000-30.000")] {
        let response = client.response();
        assert_eq!(response.headers.cseq(), Some(cseq));
        assert_eq!(response.headers.get("Range"), Some(range));
        assert_eq!(response.headers.get("Scale"), Some("2.000"));
        assert_eq!(response.headers.get("Speed"), Some("1.500"));
    }
    assert!(matches!(
        client.events.last(),
        Some(Event::Play {
            scale: Some(2.0),
            speed: Some(1.5),
            ..
        })
    ));
}

#[test]
fn ranges_are_read_in_every_unit_and_refused_in_none_that_is_known() {
    let seconds = |seconds| Some(Npt::At(S * seconds));
    let mut client = ScriptedClient::playing();
    for (text, start) in [
        ("npt=10-", seconds(10)),
        ("npt=0:01:10-", seconds(70)),
        ("npt=now-", Some(Npt::Now)),
        ("smpte=0:10:00-", seconds(600)),
        ("smpte-25=0:00:01:05-", Some(Npt::At(1200 * MS))),
        ("smpte-30-drop=1:00:00:00-1:00:01", seconds(3600)),
    ] {
        let response = client.ask_session(&format!("PLAY {CAM}"), &format!("Range: {text}"));
        assert_eq!(response.status.0, 200, "{text}");
        let Some(Event::Play {
            range: Some(Range::Npt { start: asked, .. }),
            ..
        }) = client.events.last()
        else {
            panic!("{text}: {:?}", client.events.last());
        };
        assert_eq!(*asked, start, "{text}");
    }
    let clock = "Range: clock=20261121T060000Z-";
    assert_eq!(
        client.ask_session(&format!("PLAY {CAM}"), clock).status.0,
        200
    );
    let told = client.events.len();
    for text in [
        "npt=-",
        "npt=x-",
        "bytes=0-",
        "smpte=1:2-",
        "smpte=0:99:00-",
        "x",
    ] {
        let response = client.ask_session(&format!("PLAY {CAM}"), &format!("Range: {text}"));
        assert_eq!(response.status.0, 457, "{text}");
    }
    for header in [
        "Scale: 0",
        "Scale: fast",
        "Scale: inf",
        "Speed: -1",
        "Speed: NaN",
    ] {
        let response = client.ask_session(&format!("PLAY {CAM}"), header);
        assert_eq!(response.status.0, 400, "{header}");
    }
    let asked = client.events[told..].iter();
    let asked = asked.filter(|it| !matches!(it, Event::Authorize { .. }));
    assert_eq!(asked.count(), 0, "the owner is asked for rights alone");
    assert_eq!(client.connection.state(), State::Playing);
}

#[test]
fn pause_rests_and_position_tells_where() {
    let mut client = ScriptedClient::playing();
    let uri = format!("GET_PARAMETER {CAM}");
    let position = |client: &mut ScriptedClient| {
        let headers = format!(
            "Session: {}\r\nContent-Type: text/parameters",
            client.session()
        );
        let response = client.ask_with(&uri, &headers, "position\r\n");
        String::from_utf8(response.body).expect("text")
    };
    let headers = "Range: npt=10-\r\nScale: 2";
    client.ask_session(&format!("PLAY {CAM}"), headers);
    client.now += 1500 * MS;
    assert_eq!(position(&mut client), "position: npt=13.000\r\n");
    let response = client.ask_session(&format!("PAUSE {CAM}"), "");
    assert_eq!(response.status.0, 200);
    assert_eq!(client.connection.state(), State::Ready);
    client.now += S;
    assert_eq!(position(&mut client), "position: npt=13.000\r\n");
    client.ask_session(&format!("PLAY {CAM}"), "");
    assert_eq!(client.connection.state(), State::Playing);
    assert_eq!(position(&mut client), "position: npt=now\r\n", "live");
}

#[test]
fn one_track_of_two_cannot_be_paused_alone_but_ended() {
    let mut client = ScriptedClient::playing();
    let response = client.ask_session(&format!("PAUSE {CAM}/trackID=0"), "");
    assert_eq!(response.status.0, 460);
    let first = format!("TEARDOWN {CAM}/trackID=0");
    assert_eq!(client.ask_session(&first, "").status.0, 200);
    assert!(matches!(
        client.events.last(),
        Some(Event::TearDown {
            track: Some(TrackIndex(0))
        })
    ));
    assert_eq!(client.ask_session(&first, "").status.0, 404, "once");
    assert_eq!(
        client.connection.state(),
        State::Playing,
        "the other goes on"
    );
    let response = client.ask_session(&format!("PAUSE {CAM}/trackID=1"), "");
    assert_eq!(response.status.0, 200, "it is all there is");
    client.ask_session(&format!("TEARDOWN {CAM}/trackID=1"), "");
    assert!(matches!(
        client.events.last(),
        Some(Event::TearDown { track: None })
    ));
    assert_eq!(client.connection.session(), None);
}

/// Such players are in ireader/media-server#369.
#[test]
fn players_may_name_each_track_in_turn_to_play() {
    let mut client = ScriptedClient::playing();
    for track in [0, 1, 0] {
        let response = client.ask_session(&format!("PLAY {CAM}/trackID={track}"), "");
        assert_eq!(response.status.0, 200, "{track}");
        assert_eq!(client.connection.state(), State::Playing);
    }
    let response = client.ask_session(&format!("PLAY {CAM}/trackID=2"), "");
    assert_eq!(response.status.0, 404, "it is not set up");
}

/// The owner has sent half a frame when TEARDOWN comes: the rest of the frame goes first, then
/// what `transmit` has, and the client can follow to the end.
#[test]
fn teardown_in_mid_frame_leaves_the_stream_whole() {
    let mut client = ScriptedClient::playing();
    let mut frame = Vec::new();
    write_frame(&mut frame, 0, &[9; 1000]);
    let (sent, unsent) = frame.split_at(300);
    let mut wire = sent.to_vec();

    // The same holds in the middle of a frame that the client sends.
    let teardown = format!("Session: {}", client.session());
    let teardown = written(50, &format!("TEARDOWN {CAM}"), &teardown, "");
    client.feed(&[b'$', 1, 0, 4, 1, 2]);
    client.feed(&[&[3, 4], teardown.as_bytes(), &[b'$', 1, 0, 1, 5]].concat());
    assert_eq!(
        client.frames,
        [(0, true, vec![1, 2, 3, 4])],
        "none after it"
    );
    assert!(matches!(
        client.events.last(),
        Some(Event::TearDown { track: None })
    ));
    assert_eq!(client.connection.stray_frames(), 1);

    wire.extend_from_slice(unsent);
    wire.extend_from_slice(client.connection.transmit());
    let mut reader = Reader::new(Demultiplexer::new(message::Limits::default(), 0));
    let mut items = Vec::new();
    let read = reader.push(&wire, |item| match item {
        Item::Frame { channel, payload } => items.push(format!("{channel}: {}", payload.len())),
        Item::Message(message) => items.push(format!("{:?}", message.headers().cseq())),
    });
    assert_eq!(read, Ok(()));
    assert_eq!(items, ["0: 1000", "Some(50)"]);
}

#[test]
fn parameters_that_nobody_knows_are_named() {
    let mut client = ScriptedClient::playing();
    let session = format!("Session: {}", client.session());
    for method in ["GET_PARAMETER", "SET_PARAMETER"] {
        assert_eq!(client.status(&format!("{method} {CAM}"), &session), 200);
        assert_eq!(client.status(&format!("{method} *"), ""), 200, "a ping");
    }
    let body = "position\r\njitter\r\n";
    let response = client.ask_with(&format!("GET_PARAMETER {CAM}"), &session, body);
    assert_eq!(response.status.0, 451);
    assert_eq!(response.body, b"jitter\r\n");
    let body = "position: npt=5\r\n";
    let response = client.ask_with(&format!("SET_PARAMETER {CAM}"), &session, body);
    assert_eq!(response.status.0, 451);
    assert_eq!(response.body, b"position\r\n");
}

#[test]
fn what_the_owner_refuses_is_said_and_the_connection_kept() {
    let mut client = ScriptedClient::open();
    let retry_after = Some(1500 * MS);
    for (refusal, status) in [
        (Refusal::NotFound, 404),
        (Refusal::Forbidden, 403),
        (Refusal::NotEnoughBandwidth, 453),
        (Refusal::Internal, 500),
        (Refusal::Unavailable { retry_after }, 503),
    ] {
        client.owner.next = Some(Answer::Refused(refusal));
        let response = client.ask(&format!("DESCRIBE {CAM}"), "");
        assert_eq!(response.status.0, status, "{refusal:?}");
        let after = response.headers.get("Retry-After");
        assert_eq!(after, (status == 503).then_some("1"), "{refusal:?}");
    }
    // An answer that does not fit the event is the owner's fault.
    client.owner.next = Some(Answer::Recording);
    assert_eq!(client.status(&format!("DESCRIBE {CAM}"), ""), 500);
    assert_eq!(client.status(&format!("DESCRIBE {CAM}"), ""), 200);
    assert_eq!(client.status("DESCRIBE rtsp://192.0.2.1:8554/", ""), 404);
    assert_eq!(client.status("DESCRIBE *", ""), 400);
}

#[test]
fn a_stream_of_another_server_is_asked_for_there() {
    let mut client = ScriptedClient::open();
    let location = "rtsp://192.0.2.2:8554/cam?ticket=1.2.3";
    let moved = || {
        Some(Answer::Moved {
            location: location.to_owned(),
        })
    };
    // The first question is whether the client may.
    client.owner.next = None;
    assert_eq!(client.status(&format!("DESCRIBE {CAM}"), ""), 200);
    client.owner.next = moved();
    let response = client.ask(&format!("DESCRIBE {CAM}"), "");
    assert_eq!(response.status, Status::FOUND);
    assert_eq!(response.headers.get("Location"), Some(location));
    client.owner.next = moved();
    assert_eq!(
        client.status(
            &format!("SETUP {CAM}/trackID=0"),
            "Transport: RTP/AVP/TCP\r\n"
        ),
        500
    );
}

#[test]
fn a_late_answer_is_nothing() {
    let mut client = ScriptedClient::open();
    client.feed_unanswered(written(1, &format!("DESCRIBE {CAM}"), "", "").as_bytes());
    let Some(event @ Event::Authorize { id, .. }) = client.connection.poll_event() else {
        panic!("a question");
    };
    let (id, answer) = client
        .owner
        .answer(&event)
        .map_or((id, Answer::Recording), |answer| answer);
    client.connection.answer(client.now, id, answer.clone());
    client.connection.answer(client.now, id, answer);
    client.settle();
    assert_eq!(client.response().status.0, 200);
    assert_eq!(client.try_response(), None);
}
