//! The ends of sessions that began, whatever was under way.

use super::*;

#[test]
fn a_session_that_begins_while_the_client_leaves_is_torn_down() {
    let mut line = Line::open(URL);
    line.describe();
    let wanted = [(TrackIndex(0), RequestedTransport::Interleaved)];
    line.client.set_up(line.now, &wanted);
    let set_up = line.request();
    line.client.leave(line.now);
    assert!(line.try_request().is_none(), "the session has no name yet");
    line.answer(&set_up, "200 OK\r\nSession: late", "");
    let teardown = line.exchange(&Method::Teardown, &format!("{URL}/"), "200 OK", "");
    assert_eq!(teardown.headers.get("Session"), Some("late"));
    assert_eq!(line.closed(), &Closed::Left);

    let mut line = Line::open(URL);
    line.describe();
    line.client.set_up(line.now, &wanted);
    line.request();
    line.client.leave(line.now);
    let before = line.now;
    line.wait();
    assert_eq!(line.now - before, MS * 1000, "it never answers");
    assert_eq!(line.closed(), &Closed::Left);
}

#[test]
fn a_session_that_the_client_gives_up_can_still_be_torn_down() {
    let mut line = Line::open(URL);
    line.describe();
    let wanted = [0, 1].map(|track| (TrackIndex(track), RequestedTransport::Interleaved));
    line.client.set_up(line.now, &wanted);
    let first = format!("{URL}/stream=0");
    line.exchange(&Method::Setup, &first, "200 OK\r\nSession: s", "");
    let second = format!("{URL}/stream=1");
    line.exchange(&Method::Setup, &second, "200 OK", "");
    let refused = "453 Not Enough Bandwidth";
    line.exchange(&Method::Play, &format!("{URL}/"), refused, "");
    assert!(matches!(line.closed(), Closed::Refused { .. }));
    line.client.leave(line.now);
    let teardown = line.exchange(&Method::Teardown, &format!("{URL}/"), "200 OK", "");
    assert_eq!(teardown.headers.get("Session"), Some("s"));
    assert!(line.client.is_closed());
    line.client.leave(line.now);
    assert!(line.try_request().is_none(), "once is enough");
}

#[test]
fn a_teardown_that_is_refused_for_an_old_nonce_is_sent_again() {
    let url = "rtsp://u:p@127.0.0.1:8554/cam";
    let mut line = Line::open(url);
    line.describe();
    let wanted = [(TrackIndex(0), RequestedTransport::Interleaved)];
    line.client.set_up(line.now, &wanted);
    line.exchange(
        &Method::Setup,
        &format!("{URL}/stream=0"),
        "200 OK\r\nSession: s",
        "",
    );
    line.request();
    line.client.leave(line.now);
    let challenge = "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"";
    line.exchange(&Method::Teardown, &format!("{URL}/"), challenge, "");
    let again = line.exchange(&Method::Teardown, &format!("{URL}/"), "200 OK", "");
    assert!(again.headers.get("Authorization").is_some());
    assert_eq!(line.closed(), &Closed::Left);
}
