use super::*;

/// What ffmpeg 5.1 sends to play over TCP.
#[test]
fn ffmpeg_plays_within_the_connection() {
    let mut line = Line::open();
    let agent = "User-Agent: Lavf59.27.100";
    let response = line.ask(&format!("OPTIONS {CAM}"), agent);
    let public = response.headers.get("Public").expect("methods");
    for method in ["DESCRIBE", "SETUP", "PLAY", "TEARDOWN", "GET_PARAMETER"] {
        assert!(public.contains(method), "{public}");
    }
    assert_eq!(response.headers.get("Server"), Some("test"));

    let headers = format!("Accept: application/sdp\r\n{agent}");
    let response = line.ask(&format!("DESCRIBE {CAM}"), &headers);
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

    let first = line.set_up(&controls[0], "RTP/AVP/TCP;unicast;interleaved=0-1");
    assert_eq!(
        first.headers.get("Transport"),
        Some("RTP/AVP/TCP;unicast;interleaved=0-1;ssrc=00001234;mode=\"PLAY\"")
    );
    let session = line.session();
    let named = format!("{session};timeout=60");
    assert_eq!(first.headers.get("Session"), Some(named.as_str()));
    let second = line.set_up(&controls[1], "RTP/AVP/TCP;unicast;interleaved=2-3");
    assert_eq!(second.headers.get("Session"), Some(named.as_str()));
    assert_eq!(line.connection.state(), State::Ready);

    let response = line.ask_session(&format!("PLAY {base}"), "Range: npt=0.000-");
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
    assert_eq!(line.connection.state(), State::Playing);

    line.feed(&[b'$', 1, 0, 2, 8, 9, b'$', 3, 0, 1, 7, b'$', 9, 0, 0]);
    assert_eq!(line.frames, [(0, true, vec![8, 9]), (1, true, vec![7])]);
    assert_eq!(line.connection.stray_frames(), 1);

    let response = line.ask_session(&format!("GET_PARAMETER {base}"), "");
    assert_eq!(response.status, Status::OK);
    let response = line.ask_session(&format!("TEARDOWN {base}"), "");
    assert_eq!(response.status, Status::OK);
    assert!(matches!(
        line.events.last(),
        Some(Event::TearDown { track: None })
    ));
    assert_eq!(line.connection.state(), State::Init);
}
