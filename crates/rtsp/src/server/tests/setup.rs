use super::*;

const TCP: &str = "RTP/AVP/TCP;unicast;interleaved=0-1";

#[test]
fn a_track_goes_by_udp_to_the_peer_alone() {
    let mut client = ScriptedClient::open();
    // The first is ffmpeg's; the second would send packets to a third party.
    for transport in [
        "RTP/AVP/UDP;unicast;client_port=29572-29573",
        "RTP/AVP/UDP;unicast;destination=203.0.113.9;client_port=29572-29573",
    ] {
        let response = client.set_up(&format!("{CAM}/trackID=0"), transport);
        assert_eq!(
            response.headers.get("Transport"),
            Some(
                "RTP/AVP;unicast;destination=192.0.2.7;source=192.0.2.1;client_port=29572-29573;\
                 server_port=6000-6001;ssrc=00001234;mode=\"PLAY\""
            )
        );
    }
    let transport = SelectedTransport::Udp {
        client_ports: (29572, 29573),
        destination: [192, 0, 2, 7].into(),
    };
    assert_eq!(
        client.connection.tracks(),
        [SetUp {
            track: TrackIndex(0),
            transport
        }]
    );
}

#[test]
fn a_group_is_told_with_its_ports_and_hops() {
    let mut owner = Owner::default();
    owner.config.multicast = true;
    let mut client = ScriptedClient::of(owner);
    let response = client.set_up(&format!("{CAM}/trackID=0"), "RTP/AVP;multicast");
    assert_eq!(
        response.headers.get("Transport"),
        Some(
            "RTP/AVP;multicast;destination=239.1.1.1;port=7000-7001;ttl=4;ssrc=00001234;mode=\"PLAY\""
        )
    );
}

#[test]
fn a_transport_that_cannot_be_costs_only_the_request() {
    let mut client = ScriptedClient::open();
    for transport in [
        "RTP/AVP;multicast;ttl=3",
        "RTP/SAVP;unicast;client_port=5000-5001",
        "RAW/RAW/UDP;unicast;client_port=5000-5001",
        "nonsense",
        "",
    ] {
        let response = client.set_up(&format!("{CAM}/trackID=0"), transport);
        assert_eq!(
            response.status,
            Status::UNSUPPORTED_TRANSPORT,
            "{transport}"
        );
        assert_eq!(client.connection.session(), None, "{transport}");
    }
    assert_eq!(client.status(&format!("SETUP {CAM}/trackID=0"), ""), 461);
    // The list may be spread over several header lines.
    let headers = "Transport: RTP/AVP;multicast\r\nTransport: RTP/AVP/TCP";
    assert_eq!(
        client.status(&format!("SETUP {CAM}/trackID=0"), headers),
        200
    );
    assert_eq!(
        client.set_up(&format!("{CAM}/trackID=0"), TCP).status.0,
        200
    );
}

#[test]
fn tracks_of_one_session_may_go_different_ways() {
    let mut client = ScriptedClient::open();
    client.set_up(&format!("{CAM}/trackID=0"), "RTP/AVP/TCP");
    client.set_up(
        &format!("{CAM}/trackID=1"),
        "RTP/AVP;unicast;client_port=6-7",
    );
    let transports: Vec<_> = client
        .connection
        .tracks()
        .iter()
        .map(|set_up| set_up.transport)
        .collect();
    assert!(
        matches!(
            transports[..],
            [
                SelectedTransport::Interleaved { channels: (0, 1) },
                SelectedTransport::Udp { .. }
            ]
        ),
        "{transports:?}"
    );
}

#[test]
fn the_stream_names_its_only_track() {
    let one = "rtsp://192.0.2.1:8554/one";
    let mut client = ScriptedClient::open();
    assert_eq!(client.set_up(one, TCP).status.0, 200);
    assert_eq!(client.connection.tracks()[0].track, TrackIndex(0));
    // With one track, live555 sends PLAY for the track's own URL.
    let response = client.ask_session(&format!("PLAY {one}/trackID=0"), "");
    assert_eq!(response.status.0, 200);

    let mut client = ScriptedClient::open();
    assert_eq!(client.set_up(CAM, TCP).status.0, 459, "of two, name one");
    for uri in [
        "rtsp://192.0.2.1:8554/none/trackID=0",
        "rtsp://192.0.2.1:8554/cam/trackID=2",
        "rtsp://192.0.2.1:8554/cam/trackID=77",
        "rtsp://192.0.2.1:8554/trackID=0",
    ] {
        assert_eq!(client.set_up(uri, TCP).status.0, 404, "{uri}");
    }
    assert_eq!(
        client
            .set_up("rtsp://192.0.2.1:8554/../etc/passwd", TCP)
            .status
            .0,
        400
    );
}

/// A second SETUP of a track made other servers free the state of the first while it was
/// still in use.
#[test]
fn a_second_setup_of_a_track_replaces_the_first_unless_it_plays() {
    let mut client = ScriptedClient::open();
    let uri = format!("{CAM}/trackID=0");
    client.set_up(&uri, TCP);
    let session = client.session();
    let response = client.set_up(&uri, "RTP/AVP;unicast;client_port=6-7");
    assert_eq!(response.status.0, 200);
    assert_eq!(client.session(), session);
    let [only] = client.connection.tracks() else {
        panic!("{:?}", client.connection.tracks());
    };
    assert!(
        matches!(only.transport, SelectedTransport::Udp { .. }),
        "{only:?}"
    );
    // A refused SETUP changes nothing.
    client.owner.next = Some(Answer::Refused(Refusal::NotEnoughBandwidth));
    assert_eq!(client.set_up(&uri, TCP).status.0, 453);
    assert!(matches!(
        client.connection.tracks()[0].transport,
        SelectedTransport::Udp { .. }
    ));
    // A track may take its own previous channels again.
    client.set_up(&uri, TCP);
    client.set_up(&uri, TCP);
    let channels = (0, 1);
    assert_eq!(
        client.connection.tracks()[0].transport,
        SelectedTransport::Interleaved { channels }
    );

    client.ask_session(&format!("PLAY {CAM}"), "");
    for track in 0..2 {
        let response = client.set_up(&format!("{CAM}/trackID={track}"), TCP);
        assert_eq!(response.status.0, 455, "while it plays");
    }
    assert_eq!(client.connection.tracks().len(), 1);
    client.ask_session(&format!("PAUSE {CAM}"), "");
    assert_eq!(client.set_up(&uri, TCP).status.0, 200);
}

#[test]
fn frames_on_channels_that_a_track_has_left_are_nobodys() {
    let mut client = ScriptedClient::open();
    let uri = format!("{CAM}/trackID=0");
    client.set_up(&uri, TCP);
    client.set_up(&uri, "RTP/AVP/TCP;interleaved=8-9");
    client.feed(&[b'$', 1, 0, 1, 5, b'$', 9, 0, 1, 6]);
    assert_eq!(client.frames, [(0, true, vec![6])]);
    assert_eq!(client.connection.stray_frames(), 1);
}

#[test]
fn a_session_is_of_one_stream() {
    let mut client = ScriptedClient::open();
    client.set_up(&format!("{CAM}/trackID=0"), TCP);
    let other = "rtsp://192.0.2.1:8554/one/trackID=0";
    assert_eq!(client.set_up(other, TCP).status.0, 459);
    let response = client.ask_session("PLAY rtsp://192.0.2.1:8554/one", "");
    assert_eq!(response.status.0, 404);
}

#[test]
fn setups_that_come_ahead_of_the_session_join_it() {
    let mut client = ScriptedClient::open();
    let transport = |channels| format!("Transport: RTP/AVP/TCP;interleaved={channels}");
    let first = written(1, &format!("SETUP {CAM}/trackID=0"), &transport("0-1"), "");
    let second = written(2, &format!("SETUP {CAM}/trackID=1"), &transport("2-3"), "");
    client.feed((first + &second).as_bytes());
    let (first, second) = (client.response(), client.response());
    assert_eq!(first.headers.cseq(), Some(1));
    assert_eq!(second.headers.cseq(), Some(2));
    assert_eq!(first.headers.get("Session"), second.headers.get("Session"));
    assert_eq!(client.connection.tracks().len(), 2);
}

#[test]
fn a_track_is_srtp_where_the_client_asks_for_it_within_tls() {
    let keys = crate::mikey::Keys {
        csb_id: 1,
        streams: vec![(Ssrc(5), 0)],
        cipher: crate::mikey::Cipher::AesCm128,
        master: vec![6; 30],
    };
    let data = keys.to_base64(glassline_media::NtpTime(0), &[7; 16]);
    let mut owner = Owner {
        secure: true,
        ..Owner::default()
    };
    owner.config.srtp = SrtpPolicy::Optional;
    let mut client = ScriptedClient::of(owner);
    let uri = format!("{CAM}/trackID=0");
    let transport = "Transport: RTP/SAVP;unicast;client_port=6-7";
    let headers = format!("KeyMgmt: prot=mikey;uri=\"{uri}\";data=\"{data}\"\r\n{transport}");
    let response = client.ask(&format!("SETUP {uri}"), &headers);
    let answered = response.headers.get("Transport").expect("a transport");
    assert!(answered.starts_with("RTP/SAVP;unicast;"), "{answered}");
    let own = format!("prot=mikey;uri=\"{uri}\";data=\"AQAF\"");
    assert_eq!(response.headers.get("KeyMgmt"), Some(own.as_str()));
    let Some(Event::SetUp {
        srtp: Some(srtp), ..
    }) = client.events.last()
    else {
        panic!("{:?}", client.events.last());
    };
    assert_eq!(srtp.keys, Some(keys));
    // A client without keys sends no SRTP itself; one with unknown keys is refused.
    let uri = format!("SETUP {CAM}/trackID=1");
    let session = format!("Session: {}\r\n{transport}", client.session());
    assert_eq!(client.status(&uri, &session), 200);
    let headers = format!("KeyMgmt: prot=mikey;data=\"AQQ=\"\r\n{session}");
    assert_eq!(client.status(&uri, &headers), 463);
    // Plain RTP stays within.
    client.set_up(
        &format!("{CAM}/trackID=1"),
        "RTP/AVP;unicast;client_port=6-7,RTP/AVP/TCP",
    );
    let plain = client.connection.tracks()[1].transport;
    assert!(
        matches!(plain, SelectedTransport::Interleaved { .. }),
        "{plain:?}"
    );
}
