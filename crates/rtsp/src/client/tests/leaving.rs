//! The ends of sessions that began, whatever was under way.

use super::*;

#[test]
fn a_session_that_begins_while_the_client_leaves_is_torn_down() {
    let mut server = ScriptedServer::open(URL);
    server.describe();
    let wanted = [(TrackIndex(0), RequestedTransport::Interleaved)];
    server.client.set_up(server.now, &wanted);
    let set_up = server.request();
    server.client.leave(server.now);
    assert!(
        server.try_request().is_none(),
        "the session has no name yet"
    );
    server.answer(&set_up, "200 OK\r\nSession: late", "");
    let teardown = server.exchange(&Method::Teardown, &format!("{URL}/"), "200 OK", "");
    assert_eq!(teardown.headers.get("Session"), Some("late"));
    assert_eq!(server.closed(), &Closed::Left);

    let mut server = ScriptedServer::open(URL);
    server.describe();
    server.client.set_up(server.now, &wanted);
    server.request();
    server.client.leave(server.now);
    let before = server.now;
    server.wait();
    assert_eq!(server.now - before, MS * 1000, "it never answers");
    assert_eq!(server.closed(), &Closed::Left);
}

#[test]
fn a_session_that_the_client_gives_up_can_still_be_torn_down() {
    let mut server = ScriptedServer::open(URL);
    server.describe();
    let wanted = [0, 1].map(|track| (TrackIndex(track), RequestedTransport::Interleaved));
    server.client.set_up(server.now, &wanted);
    let first = format!("{URL}/stream=0");
    server.exchange(&Method::Setup, &first, "200 OK\r\nSession: s", "");
    let second = format!("{URL}/stream=1");
    server.exchange(&Method::Setup, &second, "200 OK", "");
    let refused = "453 Not Enough Bandwidth";
    server.exchange(&Method::Play, &format!("{URL}/"), refused, "");
    assert!(matches!(server.closed(), Closed::Refused { .. }));
    server.client.leave(server.now);
    let teardown = server.exchange(&Method::Teardown, &format!("{URL}/"), "200 OK", "");
    assert_eq!(teardown.headers.get("Session"), Some("s"));
    assert!(server.client.is_closed());
    server.client.leave(server.now);
    assert!(server.try_request().is_none(), "once is enough");
}

#[test]
fn a_teardown_that_is_refused_for_an_old_nonce_is_sent_again() {
    let url = "rtsp://u:p@127.0.0.1:8554/cam";
    let mut server = ScriptedServer::open(url);
    server.describe();
    let wanted = [(TrackIndex(0), RequestedTransport::Interleaved)];
    server.client.set_up(server.now, &wanted);
    server.exchange(
        &Method::Setup,
        &format!("{URL}/stream=0"),
        "200 OK\r\nSession: s",
        "",
    );
    server.request();
    server.client.leave(server.now);
    let challenge = "401 Unauthorized\r\nWWW-Authenticate: Digest realm=\"r\", nonce=\"n\"";
    server.exchange(&Method::Teardown, &format!("{URL}/"), challenge, "");
    let again = server.exchange(&Method::Teardown, &format!("{URL}/"), "200 OK", "");
    assert!(again.headers.get("Authorization").is_some());
    assert_eq!(server.closed(), &Closed::Left);
}
