use glassline_trust::{Fingerprint, Trust};

use super::*;

fn parse(text: &str) -> SourceSpec {
    SourceSpec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn error(text: &str) -> String {
    SourceSpec::parse(text).expect_err(text).to_string()
}

#[test]
fn files_become_tracks_and_take_options() {
    let spec = parse("hall=video.h264,audio.ogg?fps=25&once");
    assert_eq!(spec.name.as_str(), "hall");
    assert_eq!(
        spec.input,
        Input::Files(FileSource {
            paths: vec!["video.h264".into(), "audio.ogg".into()],
            fps: Some(25.0),
            once: true,
            policy: StreamPolicy::default(),
        })
    );
    let Input::Files(plain) = parse("a=clip.h264").input else {
        panic!("a file");
    };
    assert_eq!((plain.fps, plain.once), (None, false));
    let Input::Files(ntsc) = parse("a=clip.h264?fps=30000/1001").input else {
        panic!("a file");
    };
    assert!((ntsc.fps.expect("a rate") - 29.970_03).abs() < 1e-4);
}

#[test]
fn the_demo_needs_no_name() {
    assert_eq!(parse("demo"), SourceSpec::demo());
    assert_eq!(parse("lobby=demo").input, Input::Demo);
    assert!(matches!(parse("a=./demo").input, Input::Files(_)));
}

#[test]
fn cameras_keep_their_own_query_and_lose_ours() {
    let spec = parse(
        "cam=rtsp://admin:p%40ss@10.0.0.7:554/live?channel=1&transport=udp&subtype=0&timeout_s=2.5",
    );
    let Input::Camera(camera) = spec.input else {
        panic!("a camera");
    };
    assert_eq!(
        camera.url.as_str(),
        "rtsp://10.0.0.7:554/live?channel=1&subtype=0"
    );
    assert_eq!(camera.user.as_deref(), Some("admin"));
    assert_eq!(camera.password.as_deref(), Some("p@ss"));
    assert_eq!(camera.transport, Transport::Udp);
    assert_eq!(camera.timeout, Duration::from_millis(2500));
    let spec = parse("cam=rtsp://10.0.0.7/live?transport=udp&transport=tcp");
    let Input::Camera(camera) = spec.input else {
        panic!("a camera");
    };
    assert_eq!(camera.transport, Transport::Tcp, "the last one counts");
}

#[test]
fn cameras_within_tls_have_a_port_and_a_trust_of_their_own() {
    let camera = |text: &str| match parse(text).input {
        Input::Camera(camera) => camera,
        other => panic!("{other}"),
    };
    let plain = camera("cam=RTSPS://u:p@h/x?y=1");
    assert_eq!(plain.host_and_port(), ("h", 322));
    assert_eq!(plain.url.as_str(), "rtsps://h/x?y=1");
    assert_eq!(*plain.trust, Trust::System);
    let pin = "AB:".repeat(31) + "ab";
    let pinned = camera(&format!("cam=rtsps://[::1]:8322/x?insecure&sha256={pin}"));
    assert_eq!(pinned.host_and_port(), ("::1", 8322));
    assert_eq!(*pinned.trust, Trust::Pinned(Fingerprint([0xab; 32])));
    assert_eq!(*camera("cam=rtsps://h/?insecure").trust, Trust::Anyone);
    assert_eq!(*camera("cam=rtsps://h/?insecure=0").trust, Trust::System);
}

#[test]
fn passwords_never_show() {
    let secret = "hunter2";
    for text in [
        "cam=rtsp://admin:hunter2@10.0.0.7/live",
        "cam=rtsp://admin:hunter2@10.0.0.7/live?transport=udp",
        "cam=rtsps://admin:hunter2@10.0.0.7/live?insecure",
        "cam=rtsp://:hunter2@10.0.0.7/live",
    ] {
        let spec = parse(text);
        let shown = format!("{} {spec:?} {:?}", spec.input, spec.input);
        assert!(!shown.contains(secret), "{shown}");
        assert!(shown.contains("10.0.0.7"), "{shown}");
    }
    for text in [
        "rtsp://admin:hunter2@10.0.0.7/live",
        "cam=rtsp://admin:hunter2@10.0.0.7:99999/live",
        "cam=rtsp://admin:hun/ter:hunter2@[::/live",
        "cam=rtsp://admin:hunter2@",
        "cam=rtsp://admin:hunter2@h/live?transport=pigeon",
        "cam=ftp://admin:hunter2@h/live",
    ] {
        let shown = error(text);
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[test]
fn what_is_shown_reads_back() {
    for text in [
        "demo",
        "a.h264",
        "a.h264,b.ogg?fps=25&once",
        "a.h264?once",
        "a.h264?once&publishers=allowed",
        "rtsp://cam/live?publishers=allowed",
        "rtsp://cam/live?on_demand&publishers=allowed&placeholder",
        "rtsp://cam/live?x=1",
        "rtsp://cam/live?x=1&transport=udp&timeout_s=2",
        "rtsp://user@cam:8554/live?transport=udp",
        "rtsp://cam/live?transport=udp&udp_ports=20000-20099",
        "rtsps://cam/live?x=1&insecure",
        "rtsps://cam:8322/live?sha256=0101010101010101010101010101010101010101010101010101010101010101",
        "rtsp://cam/live?on_demand",
        "rtsp://cam/live?x=1&on_demand&fallback=spare&placeholder&after_s=0.5",
        "rtsp://cam/live?placeholder",
        "http://cam/mjpg?fps=5&transport=x",
        "https://cam/shot.jpg?x=1&insecure&timeout_s=9&every_s=0.5&on_demand",
        "exec:cat 'a b.ts'#fps=5#idle_s=3#fallback=spare",
        "ffmpeg:-re film.mp4#video=h264#audio=none",
        "/dev/video0?fps=30",
        "publisher",
        "publisher?fallback=loop&after_s=5",
        "publisher?placeholder&after_s=5&silent_s=3",
        "rtsp://cam/live?placeholder&silent_s=3",
        "publisher?placeholder=images/off.jpg&after_s=5",
        "rtsp://cam/live?timeout_s=2&idle_s=0.5",
    ] {
        let input = Input::parse(text).expect(text);
        assert_eq!(input.to_string(), text);
    }
}

#[test]
fn errors_name_what_is_wrong() {
    for (text, wanted) in [
        ("rtsp://cam/live?a=b", "write NAME=rtsp://cam/live?a=b"),
        ("clip.h264", "has no stream name"),
        ("=clip.h264", "1 to 128 characters"),
        ("my cam=clip.h264", "' ' in stream name 'my cam'"),
        ("api=clip.h264", "path of the HTTP server"),
        ("cam=", "file name is empty"),
        ("cam=a.h264,", "file name is empty in 'a.h264,'"),
        ("cam=srt://x", "'srt://' is not supported"),
        ("cam=rtmps://x", "'rtmps://' is not supported"),
        ("cam=srt://x", "ffmpeg -i srt://… -c copy -f rtsp rtsp://"),
        ("cam=ftp://x", "write rtsp://192.168.1.20/main or http://"),
        ("cam=http://h/?every_s=0", "'0' is not a value of 'every_s'"),
        ("cam=rtsps://h/?transport=udp", "tcp for rtsps://"),
        ("cam=rtsps://h/?sha256=ab", "64 hexadecimal digits"),
        ("cam=rtsps://h/?insecure=no", "nothing, true or false"),
        ("cam=rtsp://h/?udp_ports=5", "like 20000-20099"),
        ("cam=rtsp://", "is not a URL"),
        ("cam=a.h264?fsp=30", "did you mean 'fps'?"),
        ("cam=a.h264?loop", "there are fps and once"),
        ("cam=a.h264?fps=0", "'0' is not a value of 'fps'"),
        ("cam=a.h264?fps=NaN", "'NaN' is not a value of 'fps'"),
        ("cam=a.h264?once=no", "'no' is not a value of 'once'"),
        ("cam=rtsp://h/?transport=quic", "it takes tcp or udp"),
        ("cam=rtsp://h/?timeout_s=-1", "seconds, 0.1 to 3600"),
        ("cam=rtsp://h/?fallback=a%2Fb", "'%' in stream name"),
        ("cam=publisher?after_s=0", "'0' is not a value of 'after_s'"),
        ("cam=publisher?placeholder=a.png", "or a .jpg file"),
        ("cam=publisher?idle_s=1", "there are fallback"),
        ("cam=rtsp://h/?idle_s=0", "'0' is not a value of 'idle_s'"),
        ("cam=rtsp://h/?on_demand=maybe", "nothing, true or false"),
    ] {
        let shown = error(text);
        assert!(shown.contains(wanted), "{text}: {shown}");
    }
}

#[test]
fn cameras_on_demand_have_an_idle_time() {
    let on_demand = |text: &str| match parse(text).input {
        Input::Camera(camera) => (camera.on_demand, camera.url.query().map(str::to_owned)),
        other => panic!("{other}"),
    };
    let seconds = Duration::from_secs;
    assert_eq!(on_demand("cam=rtsp://h/"), (None, None));
    assert_eq!(on_demand("cam=rtsp://h/?on_demand").0, Some(seconds(10)));
    let (idle, query) = on_demand("cam=rtsp://h/?idle_s=3&x=1&on_demand=true");
    assert_eq!((idle, query.as_deref()), (Some(seconds(3)), Some("x=1")));
    assert_eq!(on_demand("cam=rtsp://h/?idle_s=3&on_demand=false").0, None);
}

#[test]
fn options_beside_a_source_are_those_behind_it() {
    let mut camera = parse("cam=rtsp://h/?x=1").input;
    for (option, value) in [("transport", "udp"), ("on_demand", "true")] {
        camera.set(option, value).expect(option);
    }
    assert_eq!(camera.to_string(), "rtsp://h/?x=1&transport=udp&on_demand");
    let refused = camera.set("fps", "3").expect_err("a camera").to_string();
    assert!(refused.contains("there are transport"), "{refused}");
    let refused = Input::Demo.set("fps", "3").expect_err("the clip");
    assert!(refused.to_string().contains("has no options"), "{refused}");
    let mut file = parse("a=b.h264").input;
    file.set("once", "true").expect("an option of files");
    assert_eq!(file.to_string(), "b.h264?once");
}

#[test]
fn each_kind_of_source_chooses_who_gets_video_transcoded() {
    for (text, choice) in [
        ("a=clip.h264?once&transcode=always", Some(Transcode::Always)),
        (
            "a=rtsp://10.0.0.7/x?channel=1&transcode=never",
            Some(Transcode::Never),
        ),
        (
            "a=publisher?transcode=auto&after_s=3",
            Some(Transcode::Auto),
        ),
        ("a=publisher?after_s=3", None),
        ("a=demo", None),
    ] {
        let input = parse(text).input;
        assert_eq!(input.transcode(), choice, "{text}");
        let again = Input::parse(&input.to_string()).expect(text);
        assert_eq!(again, input, "{text}");
    }
    let refused = error("a=clip.h264?transcode=sometimes");
    assert!(refused.contains("auto, never or always"), "{refused}");
}

#[test]
fn a_camera_with_several_streams_is_written_as_urls_with_commas_between() {
    let text = "rtsp://u:p@10.0.0.7/main?channel=1,rtsp://10.0.0.7/sub?channel=2&on_demand,\
                rtsp://10.0.0.8/a,b";
    let input = Input::parse(text).expect("good");
    let shown = "rtsp://u:…@10.0.0.7/main?channel=1,rtsp://u:…@10.0.0.7/sub?channel=2,\
                 rtsp://10.0.0.8/a,b?on_demand";
    assert_eq!(input.to_string(), shown);
    let camera = input.camera().expect("a camera");
    let layers = camera.layers();
    let rids: Vec<_> = layers.iter().map(|(rid, _)| rid.as_str()).collect();
    assert_eq!(rids, ["main", "sub", "sub2"]);
    let logins = layers.iter().map(|(_, it)| it.password.as_deref());
    assert_eq!(
        logins.collect::<Vec<_>>(),
        [Some("p"), Some("p"), None],
        "of another host"
    );
    assert!(layers.iter().all(|(_, it)| it.sub_streams.is_empty()));
    let urls: Vec<_> = text
        .replace(",rtsp", "\nrtsp")
        .lines()
        .map(str::to_owned)
        .collect();
    let of_layers = CameraSource::of_layers(&urls).map(Input::Camera);
    assert_eq!(of_layers, Ok(input));
}

#[test]
fn layers_are_urls_of_one_scheme_and_four_at_most() {
    for (text, words) in [
        (
            "http://10.0.0.7/a,rtsp://10.0.0.7/b",
            "the main stream is none",
        ),
        (
            "rtsp://10.0.0.7/a,rtsps://u:secret@10.0.0.7/b",
            "one scheme",
        ),
        (
            "rtsp://h/1,rtsp://h/2,rtsp://h/3,rtsp://h/4,rtsp://h/5",
            "four URLs",
        ),
    ] {
        let error = Input::parse(text).expect_err(text).to_string();
        assert!(
            error.contains(words) && !error.contains("secret"),
            "{error}"
        );
    }
    let error = CameraSource::of_layers(&["film.mp4".to_owned()]).expect_err("no URL");
    assert!(error.to_string().contains("'layers'"), "{error}");
}

#[test]
fn a_ladder_is_taken_by_every_source_with_one_layer_and_written_as_it_is_read() {
    for (text, written) in [
        (
            "film.mp4?ladder=360p,720p",
            "film.mp4?ladder=720p:2000k,360p:500k",
        ),
        ("publisher?ladder=off", "publisher?ladder=off"),
        (
            "rtsp://10.0.0.7/live?channel=1&ladder=360p:400k",
            "rtsp://10.0.0.7/live?channel=1&ladder=360p:400k",
        ),
        ("exec:encoder?x", "exec:encoder?x"),
    ] {
        let input = Input::parse(text).expect(text);
        assert_eq!(input.to_string(), written);
        assert_eq!(Input::parse(written).expect(written), input);
        assert_eq!(input.ladder().is_some(), text.contains("ladder"));
    }
    let refused = |text: &str| Input::parse(text).expect_err(text).to_string();
    let wrong = refused("film.mp4?ladder=361p");
    assert!(wrong.starts_with("ladder: 361p is no height"), "{wrong}");
    let layers = ["rtsp://10.0.0.7/main", "rtsp://10.0.0.7/sub"].map(str::to_owned);
    let mut camera = CameraSource::of_layers(&layers)
        .map(Input::Camera)
        .expect("two streams");
    let wrong = camera
        .set("ladder", "360p")
        .expect_err("it has layers")
        .to_string();
    assert!(wrong.contains("lower layers of its own"), "{wrong}");
}
