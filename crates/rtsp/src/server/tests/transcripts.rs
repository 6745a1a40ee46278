use super::*;

/// Where the URL has a query, GStreamer would put a relative control in place of the
/// stream's name.
#[test]
fn controls_are_absolute_where_the_url_has_a_query() {
    let mut client = ScriptedClient::open();
    let url = format!("{CAM}?a=b");
    let response = client.ask(&format!("DESCRIBE {url}"), "Accept: application/sdp");
    let mut description = crate::sdp::Description::parse(&response.body).expect("a description");
    description.resolve("rtsp://elsewhere/");
    let controls = description.tracks.iter().map(|media| media.control.clone());
    let controls: Vec<_> = controls.flatten().collect();
    assert_eq!(
        controls,
        [format!("{url}/trackID=0"), format!("{url}/trackID=1")]
    );
    let response = client.set_up(&controls[1], "RTP/AVP/TCP;unicast;interleaved=0-1");
    assert_eq!(response.status, Status::OK);
}

/// The requests that ffmpeg 5.1 sends to play over TCP.
#[test]
fn ffmpeg_plays_within_the_connection() {
    let mut client = ScriptedClient::open();
    let agent = "User-Agent: Lavf59.27.100";
    let response = client.ask(&format!("OPTIONS {CAM}"), agent);
    let public = response.headers.get("Public").expect("methods");
    for method in ["DESCRIBE", "SETUP", "PLAY", "TEARDOWN", "GET_PARAMETER"] {
        assert!(public.contains(method), "{public}");
    }
    assert_eq!(response.headers.get("Server"), Some("test"));

    let headers = format!("Accept: application/sdp\r\n{agent}");
    let response = client.ask(&format!("DESCRIBE {CAM}"), &headers);
    assert_eq!(response.status, Status::OK);
    let base = format!("{CAM}/");
    assert_eq!(response.headers.get("Content-Base"), Some(base.as_str()));
    assert_eq!(
        response.headers.get("Content-Type"),
        Some("application/sdp")
    );
    let mut description = crate::sdp::Description::parse(&response.body).expect("a description");
    description.resolve(&base);
    let controls = description.tracks.iter().map(|media| media.control.clone());
    let controls: Vec<_> = controls.flatten().collect();
    assert_eq!(
        controls,
        [format!("{CAM}/trackID=0"), format!("{CAM}/trackID=1")]
    );

    let first = client.set_up(&controls[0], "RTP/AVP/TCP;unicast;interleaved=0-1");
    assert_eq!(
        first.headers.get("Transport"),
        Some("RTP/AVP/TCP;unicast;interleaved=0-1;ssrc=00001234;mode=\"PLAY\"")
    );
    let session = client.session();
    let named = format!("{session};timeout=60");
    assert_eq!(first.headers.get("Session"), Some(named.as_str()));
    let second = client.set_up(&controls[1], "RTP/AVP/TCP;unicast;interleaved=2-3");
    assert_eq!(second.headers.get("Session"), Some(named.as_str()));
    assert_eq!(client.connection.state(), State::Ready);

    let response = client.ask_session(&format!("PLAY {base}"), "Range: npt=0.000-");
    assert_eq!(response.headers.get("Range"), Some("npt=0.000-"));
    assert_eq!(
        response.headers.get("RTP-Info"),
        Some(
            format!(
                "url={CAM}/trackID=0;seq=10;rtptime=100,url={CAM}/trackID=1;seq=20;rtptime=200"
            )
            .as_str()
        )
    );
    assert_eq!(client.connection.state(), State::Playing);

    client.feed(&[b'$', 1, 0, 2, 8, 9, b'$', 3, 0, 1, 7, b'$', 9, 0, 0]);
    assert_eq!(client.frames, [(0, true, vec![8, 9]), (1, true, vec![7])]);
    assert_eq!(client.connection.stray_frames(), 1);

    let response = client.ask_session(&format!("GET_PARAMETER {base}"), "");
    assert_eq!(response.status, Status::OK);
    let response = client.ask_session(&format!("TEARDOWN {base}"), "");
    assert_eq!(response.status, Status::OK);
    assert!(matches!(
        client.events.last(),
        Some(Event::TearDown { track: None })
    ));
    assert_eq!(client.connection.state(), State::Init);
}

/// The requests that GStreamer's rtspsrc 1.22 sends; its digests follow RFC 2069.
#[test]
fn gstreamer_plays_with_a_password() {
    let mut client = ScriptedClient::of(Owner {
        users: vec![("ann", "secret")],
        ..Owner::default()
    });
    let agent = "User-Agent: GStreamer/1.22.0\r\nUser-Agent: RealMedia Player Version 6.0.9.1235\r\n\
        ClientChallenge: 9e26d33f2984236010ef6253fb1887f7\r\nPlayerStarttime: [28/03/2003:22:50:23 00:00]\r\n\
        Date: Sat, 21 Nov 2026 06:42:43 GMT";
    assert_eq!(client.status(&format!("OPTIONS {CAM}"), agent), 200);
    let response = client.ask(&format!("DESCRIBE {CAM}"), "Accept: application/sdp");
    let digests = response.headers.get_all("WWW-Authenticate");
    let last = digests.last().expect("a challenge");
    assert!(
        last.contains("algorithm=MD5"),
        "the one that it takes: {last}"
    );
    let Some(crate::auth::Challenge::Digest(mut challenge)) =
        crate::auth::Challenge::parse_all(&response.headers).pop()
    else {
        panic!("{last}");
    };
    challenge.qop = None;
    let user = User {
        name: "ann".to_owned(),
        password: "secret".to_owned(),
    };
    let authorized = |method: &str, uri: &str| {
        let asked = digest::HashedRequest {
            method,
            uri,
            body: b"",
        };
        let credentials = challenge.answer(&user, &asked, "", 0);
        format!("Authorization: {credentials}")
    };
    let shown = authorized("DESCRIBE", CAM);
    let headers = format!("Accept: application/sdp\r\n{shown}");
    assert_eq!(client.status(&format!("DESCRIBE {CAM}"), &headers), 200);
    for track in 0..2 {
        let uri = format!("{CAM}/trackID={track}");
        let session = client.connection.session();
        let session = session.map_or_else(String::new, |id| format!("\r\nSession: {id}"));
        let headers = format!(
            "Transport: RTP/AVP/TCP;unicast;interleaved={}-{}{session}\r\n{}",
            track * 2,
            track * 2 + 1,
            authorized("SETUP", &uri)
        );
        assert_eq!(client.status(&format!("SETUP {uri}"), &headers), 200);
    }
    let headers = format!("Range: npt=now-\r\n{}", authorized("PLAY", CAM));
    let response = client.ask_session(&format!("PLAY {CAM}/"), &headers);
    assert_eq!(response.headers.get("Range"), Some("npt=now-"));
    assert_eq!(client.connection.user(), Some("ann"));
}

/// The requests of live555's client, which VLC uses: all digests over the stream's URL,
/// keep-alives by an empty GET_PARAMETER, no count.
#[test]
fn live555_plays_by_udp_with_a_password() {
    let mut client = ScriptedClient::of(Owner {
        users: vec![("ann", "secret")],
        ..Owner::default()
    });
    let agent = "User-Agent: LibVLC/3.0.18 (LIVE555 Streaming Media v2016.11.28)";
    let response = client.ask(&format!("DESCRIBE {CAM}"), agent);
    let text = response.headers.get_all("WWW-Authenticate").last();
    let text = text.expect("a challenge");
    // It reads these two, in this order, and nothing else.
    let start = "Digest realm=\"glassline\", nonce=\"";
    let nonce = text.strip_prefix(start).expect(text).split('"').next();
    let nonce = nonce.expect("a nonce");
    let hash = |text: String| {
        use md5::Digest;
        format!("{:x}", md5::Md5::digest(text))
    };
    let base = format!("{CAM}/");
    let secret = hash("ann:glassline:secret".to_owned());
    let shown = |method: &str, base: &str| {
        let asked = hash(format!("{method}:{base}"));
        let response = hash(format!("{secret}:{nonce}:{asked}"));
        format!(
            "Authorization: Digest username=\"ann\", realm=\"glassline\", nonce=\"{nonce}\", \
             uri=\"{base}\", response=\"{response}\"\r\n{agent}"
        )
    };
    let headers = format!("{}\r\nAccept: application/sdp", shown("DESCRIBE", CAM));
    assert_eq!(client.status(&format!("DESCRIBE {CAM}"), &headers), 200);
    for track in 0..2 {
        let session = client.connection.session();
        let session = session.map_or_else(String::new, |id| format!("\r\nSession: {id}"));
        let headers = format!(
            "{}\r\nTransport: RTP/AVP;unicast;client_port={}-{}{session}",
            shown("SETUP", &base),
            54_320 + track * 2,
            54_321 + track * 2
        );
        let uri = format!("SETUP {base}trackID={track}");
        assert_eq!(client.status(&uri, &headers), 200);
    }
    let play = format!("{}\r\nRange: npt=0.000-", shown("PLAY", &base));
    assert_eq!(
        client.ask_session(&format!("PLAY {base}"), &play).status.0,
        200
    );
    let alive = shown("GET_PARAMETER", &base);
    let response = client.ask_session(&format!("GET_PARAMETER {base}"), &alive);
    assert_eq!(response.status.0, 200);
    let farewell = shown("TEARDOWN", &base);
    let response = client.ask_session(&format!("TEARDOWN {base}"), &farewell);
    assert_eq!(response.status.0, 200);
    assert_eq!(client.connection.state(), State::Init);
}
