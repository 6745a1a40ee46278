mod fake_camera;
mod hostile;

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use glassline_trust::Trust;
use proptest::prelude::*;
use url::Url;

use super::call::fuzz_responses;
use super::discovery::answers;
use super::*;
use fake_camera::{Behaviour, FakeCamera, matches, part};

const UUID: &str = "6f5b8c5e-1f1d-4f6a-9a1c-000000000001";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn user(password: &str) -> Credentials {
    Credentials {
        user: "operator".to_owned(),
        password: password.to_owned(),
    }
}

async fn connect(camera: &FakeCamera, credentials: Option<Credentials>) -> Result<Camera, Error> {
    let url = Url::parse(&camera.url()).expect("a URL");
    Camera::connect(&url, camera.service.ip(), Trust::Anyone, credentials).await
}

#[test]
fn an_answer_names_the_device_and_its_service() {
    let scopes = "onvif://www.onvif.org/type/video_encoder onvif://www.onvif.org/hardware/P3245-V\n\
                  onvif://www.onvif.org/name/Front%20door onvif://www.onvif.org/location/country/M%C3%BCnchen";
    let services =
        "http://[fe80::1]/onvif/device_service http://me:pw@192.0.2.20:8080/onvif/device_service";
    let answer = matches(&format!("urn:uuid:{UUID}"), scopes, services);
    let from = address("192.0.2.20:3702");
    let found = answers(answer.as_bytes(), from, UUID);
    let expected = Device {
        id: "urn:uuid:camera-1".to_owned(),
        address: from,
        name: Some("Front door".to_owned()),
        hardware: Some("P3245-V".to_owned()),
        location: Some("München".to_owned()),
        service: "http://192.0.2.20:8080/onvif/device_service"
            .parse()
            .expect("a URL"),
    };
    assert_eq!(found, [expected]);
}

#[test]
fn a_device_is_asked_at_the_address_that_it_answered_from() {
    let from = address("192.0.2.20:3702");
    for (services, expected) in [
        ("http://10.0.0.1/onvif/x", "http://192.0.2.20/onvif/x"),
        ("https://10.0.0.1:444/y", "https://192.0.2.20:444/y"),
        (
            "ftp://192.0.2.20/",
            "http://192.0.2.20/onvif/device_service",
        ),
        ("", "http://192.0.2.20/onvif/device_service"),
    ] {
        let found = answers(matches(UUID, "", services).as_bytes(), from, UUID);
        assert_eq!(found[0].service.as_str(), expected, "{services}");
        assert_eq!(found[0].name, None);
    }
}

#[test]
fn other_datagrams_are_no_devices() {
    let from = address("192.0.2.20:3702");
    let whole = matches(UUID, "", "http://192.0.2.20/");
    assert_eq!(answers(whole.as_bytes(), from, UUID).len(), 1);
    let bomb = format!(
        "<!DOCTYPE a [<!ENTITY b \"cccc\">]>{}",
        whole.split_once("?>").expect("a declaration").1
    );
    let foreign = matches("urn:uuid:other", "", "");
    for bytes in [
        &whole.as_bytes()[..whole.len() - 9],
        b"\xff\xfe",
        b"",
        bomb.as_bytes(),
        foreign.as_bytes(),
    ] {
        assert_eq!(answers(bytes, from, UUID), []);
    }
}

#[tokio::test]
async fn a_camera_is_found_and_tells_its_streams() {
    let fake = FakeCamera::start(Behaviour::default());
    let scope = Scope::Addresses(vec![fake.discovery]);
    let found = find(&scope, Duration::from_secs(1)).await;
    let found = found.expect("a network");
    let [device] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!(device.name.as_deref(), Some("Hall"));
    assert_eq!(device.service.as_str(), fake.url());
    let credentials = user("secret<1>");
    assert!(!format!("{credentials:?}").contains("secret"));
    let camera = connect(&fake, Some(credentials)).await;
    let camera = camera.expect("the right password");
    let told = camera.information().await.expect("it tells");
    assert_eq!(told.model.as_deref(), Some("P3245-V"));
    assert_eq!(told.firmware.as_deref(), Some("1.2"));
    let profiles = camera.stream_profiles().await.expect("it tells");
    let [main, audio] = &profiles[..] else {
        panic!("{profiles:?}");
    };
    let video = main.profile.video.as_ref().expect("a video");
    assert_eq!(
        (video.encoding.as_str(), video.size, video.frame_rate),
        ("H264", Some((1920, 1080)), Some(25.0))
    );
    assert_eq!(video.bitrate_bps, Some(4_096_000));
    assert_eq!(main.profile.audio.as_deref(), Some("AAC"));
    assert_eq!(main.profile.name, "mainStream");
    // Without the credentials that the camera wrote into it.
    assert_eq!(main.url.as_str(), "rtsp://192.0.2.20:554/main?x=1");
    assert_eq!(
        (audio.profile.video.as_ref(), audio.profile.axes),
        (None, None)
    );
    assert_eq!(audio.url.as_str(), "rtsp://192.0.2.20/two");
    let no_ptz = camera.movable_profile().await.expect_err("none");
    assert!(matches!(no_ptz, Error::NoPtz(_)), "{no_ptz}");
    for request in fake.seen.try_iter() {
        assert!(!request.contains("secret"), "{request}");
    }
}

#[tokio::test]
async fn a_camera_that_asks_for_the_digest_of_http_gets_it_and_never_the_password() {
    let fake = FakeCamera::start(Behaviour {
        asks_by_http: true,
        ..Behaviour::default()
    });
    let camera = connect(&fake, Some(user("secret<1>"))).await;
    let camera = camera.expect("the right password");
    let profiles = camera.stream_profiles().await.expect("it tells");
    assert_eq!(profiles.len(), 2);
    for credentials in [None, Some(user("secret<2>"))] {
        let refused = connect(&fake, credentials).await.expect_err("refused");
        assert!(matches!(refused, Error::Unauthorized(_)), "{refused}");
    }
}

#[tokio::test]
async fn a_camera_with_the_second_media_service_alone_tells_its_streams() {
    let fake = FakeCamera::start(Behaviour {
        is_of_profile_t: true,
        ..Behaviour::default()
    });
    let camera = connect(&fake, Some(user("secret<1>"))).await;
    let camera = camera.expect("the right password");
    let profiles = camera.stream_profiles().await.expect("it tells");
    let [one] = &profiles[..] else {
        panic!("{profiles:?}");
    };
    assert_eq!(one.url.as_str(), "rtsp://192.0.2.20/second");
    let video = one.profile.video.as_ref().expect("a video");
    assert_eq!(
        (video.encoding.as_str(), video.size, video.frame_rate),
        ("H265", Some((3840, 2160)), Some(20.0))
    );
    assert_eq!(video.bitrate_bps, Some(8_192_000));
    assert_eq!(video.h264_profile, None, "it is a profile of H.265");
    assert_eq!(one.profile.audio.as_deref(), Some("MP4A-LATM"));
}

#[tokio::test]
async fn a_camera_is_moved_and_stopped_by_its_profile() {
    let fake = FakeCamera::start(Behaviour {
        has_ptz: true,
        ..Behaviour::default()
    });
    let camera = connect(&fake, Some(user("secret<1>")))
        .await
        .expect("it answers");
    let profile = camera.movable_profile().await.expect("PTZ");
    let both = Axes {
        pan_tilt: true,
        zoom: true,
    };
    assert_eq!(profile.axes, both);
    let presets = camera.presets(&profile).await.expect("it tells");
    let presets: Vec<_> = presets.iter().map(|it| (&*it.token, &*it.name)).collect();
    assert_eq!(presets, [("1", "Gate"), ("2", "Yard <left>")]);
    let velocity = Velocity {
        pan: -0.5,
        tilt: 0.25,
        zoom: 1.0,
    };
    fake.seen.try_iter().for_each(drop);
    camera.move_by(&profile, velocity).await.expect("it moves");
    camera.stop(&profile).await.expect("it stops");
    camera.go_to_preset(&profile, "1").await.expect("it goes");
    let refused = camera.go_to_preset(&profile, "<3>").await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    let seen: Vec<_> = fake.seen.try_iter().collect();
    let [with_timeout, moved, stopped, gone, _] = &seen[..] else {
        panic!("{seen:#?}");
    };
    assert!(with_timeout.contains("<Timeout>PT3S</Timeout>"));
    assert!(
        moved.contains("x=\"-0.5\" y=\"0.25\"") && moved.contains("x=\"1\""),
        "{moved}"
    );
    assert_eq!(part(stopped, "<ProfileToken"), "a&amp;b");
    assert!(stopped.contains("<PanTilt>true</PanTilt><Zoom>true</Zoom>"));
    assert_eq!(part(gone, "<PresetToken"), "1");
}

#[tokio::test]
async fn a_wrong_password_and_none_are_told_from_other_faults() {
    let fake = FakeCamera::start(Behaviour::default());
    for credentials in [None, Some(user("guess"))] {
        let error = connect(&fake, credentials).await.expect_err("refused");
        assert!(
            matches!(&error, Error::Unauthorized(url) if url.as_str() == fake.url()),
            "{error}"
        );
    }
    let closed = TcpListener::bind("127.0.0.1:0").expect("a port");
    let at = closed.local_addr().expect("bound");
    drop(closed);
    let url = Url::parse(&format!("http://{at}/")).expect("a URL");
    let nobody = Camera::connect(&url, at.ip(), Trust::Anyone, None).await;
    assert!(
        matches!(nobody, Err(Error::Unreachable { .. })),
        "{nobody:?}"
    );
    assert!(!is_onvif(&url, at.ip(), Trust::Anyone).await);
    let url = Url::parse(&fake.url()).expect("a URL");
    assert!(is_onvif(&url, fake.service.ip(), Trust::Anyone).await);
}

#[test]
fn the_seeds_of_the_fuzz_target_are_read() {
    let seeds: [&[u8]; 4] = [
        include_bytes!("../../../../fuzz/seeds/onvif/date"),
        include_bytes!("../../../../fuzz/seeds/onvif/fault"),
        include_bytes!("../../../../fuzz/seeds/onvif/matches"),
        include_bytes!("../../../../fuzz/seeds/onvif/profiles"),
    ];
    for seed in seeds {
        fuzz_responses(seed);
    }
}

proptest! {
    #[test]
    fn whatever_a_camera_sends_is_read_within_its_bounds(
        words in prop::collection::vec(prop::sample::select(&WORDS[..]), 0..60),
        noise in prop::collection::vec(any::<u8>(), 0..40),
        at in any::<prop::sample::Index>(),
    ) {
        let mut bytes = words.concat().into_bytes();
        let at = at.index(bytes.len() + 1);
        bytes.splice(at..at, noise);
        fuzz_responses(&bytes);
        let body = words.concat();
        fuzz_responses(fake_camera::envelope(&body).as_bytes());
        let scopes = body.replace(['<', '>', '&'], " ");
        fuzz_responses(matches(UUID, &scopes, &scopes).as_bytes());
    }
}

/// Parts of what cameras send, also of their end.
const WORDS: [&str; 34] = [
    "<Profiles token=\"a\">",
    "</Profiles>",
    "<Name>",
    "</Name>",
    "x\u{7}\u{202e}y",
    "<Fault>",
    "</Fault>",
    "<Value>a:NotAuthorized</Value>",
    "<Text>no</Text>",
    "<UTCDateTime>",
    "</UTCDateTime>",
    "<Year>-9223372036854775808</Year>",
    "<Month>13</Month>",
    "<Day>99</Day>",
    "<Hour>25</Hour>",
    "<Minute>1</Minute>",
    "<Second>9223372036854775807</Second>",
    "<Uri>rtsp://u:p@h/x</Uri>",
    "<Uri>http://h/</Uri>",
    "<Media><XAddr>http://h/m</XAddr></Media>",
    "<PTZ>",
    "</PTZ>",
    "<Preset token=\"1\">",
    "</Preset>",
    "<VideoEncoderConfiguration><Encoding>H264</Encoding>",
    "</VideoEncoderConfiguration>",
    "<Width>4294967296</Width>",
    "<BitrateLimit>-1e999</BitrateLimit>",
    "<FrameRateLimit>NaN</FrameRateLimit>",
    "&lt;",
    "http://u:p@10.0.0.1:99999/ ",
    "https://192.0.2.20:1/a?b ",
    "onvif://www.onvif.org/name/%00%ff+a ",
    "<Manufacturer>\u{0}</Manufacturer>",
];
