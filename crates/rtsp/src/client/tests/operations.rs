//! Any operations in any order.

use proptest::prelude::*;

use super::*;

/// Pieces of what a server may send, and invalid bytes.
fn any_saying() -> impl Strategy<Value = Vec<u8>> {
    let status = prop::sample::select(vec![100u16, 200, 200, 200, 301, 401, 454, 461, 500]);
    let sdp = format!("Content-Length: {}\r\n\r\n{SDP}", SDP.len());
    let header = prop::sample::select(vec![
        "Session: 1;timeout=1\r\n\r\n".to_owned(),
        "Transport: RTP/AVP/TCP;interleaved=8-9\r\n\r\n".to_owned(),
        "WWW-Authenticate: Digest nonce=n,stale=true\r\n\r\n".to_owned(),
        sdp,
        "\r\n".to_owned(),
    ]);
    let cseq = prop::option::of(1u32..12);
    let response = (status, cseq, header).prop_map(|(status, cseq, header)| {
        let cseq = cseq.map_or_else(String::new, |cseq| format!("CSeq: {cseq}\r\n"));
        format!("RTSP/1.0 {status} x\r\n{cseq}{header}").into_bytes()
    });
    prop_oneof![
        4 => response,
        1 => Just(b"OPTIONS * RTSP/1.0\r\nCSeq: 5\r\n\r\n".to_vec()),
        1 => (any::<u8>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(channel, payload)| {
            let mut bytes = Vec::new();
            interleaved::write_frame(&mut bytes, channel, &payload);
            bytes
        }),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ]
}

proptest! {
    /// Operations, not only bytes: whatever happens in whatever order, nothing
    /// panics, there is one end at most, and after it silence. Who leaves a session that this end
    /// gave up gets a second end, that of the TEARDOWN.
    #[test]
    fn any_course_ends_at_most_once(
        sayings in prop::collection::vec((any_saying(), 0u8..8), 0..30), user: bool,
    ) {
        let url = if user { "rtsp://u:p@127.0.0.1/x" } else { URL };
        let mut server = ScriptedServer::open(url);
        let mut expected = 1;
        for (saying, command) in sayings {
            let over = server.client.is_closed();
            match command {
                0 => server.client.set_up(server.now, &[(TrackIndex(0), RequestedTransport::Interleaved), (TrackIndex(1), RequestedTransport::Udp { ports: (2, 3) })]),
                1 => if let Some(at) = server.client.poll_timeout() {
                    server.now = at;
                    server.client.handle_timeout(at);
                },
                2 => { server.client.send_control(TrackIndex(0), &saying); }
                3 => server.client.leave(server.now),
                4 => server.client.advance(saying.len()),
                5 => server.client.reopen(server.now),
                _ => {}
            }
            let is_torn_down = over && command == 3 && !server.client.is_closed();
            expected += usize::from(is_torn_down);
            let over = over && !is_torn_down;
            let before = server.events.len();
            server.feed(&saying);
            prop_assert!(!over || server.events.len() == before);
            prop_assert!(!server.client.is_closed() || server.client.poll_timeout().is_none());
        }
        server.client.handle_end();
        server.feed(b"");
        let ends = server.events.iter().filter(|event| matches!(event, Event::Closed(_)));
        prop_assert_eq!(ends.count(), expected);
    }
}
