use std::io::Write as _;
use std::net::{TcpListener, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::discovery::answers;
use super::*;
use crate::test_http::{read_request, response};

const UUID: &str = "6f5b8c5e-1f1d-4f6a-9a1c-000000000001";

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn matches(relates: &str, scopes: &str, services: &str) -> String {
    format!(
        "<?xml version=\"1.0\"?><SOAP-ENV:Envelope xmlns:SOAP-ENV=\"http://www.w3.org/2003/05/soap-envelope\" \
         xmlns:wsa=\"http://schemas.xmlsoap.org/ws/2004/08/addressing\" \
         xmlns:wsdd=\"http://schemas.xmlsoap.org/ws/2005/04/discovery\"><SOAP-ENV:Header>\
         <wsa:RelatesTo>{relates}</wsa:RelatesTo></SOAP-ENV:Header><SOAP-ENV:Body><wsdd:ProbeMatches>\
         <wsdd:ProbeMatch><wsa:EndpointReference><wsa:Address>urn:uuid:camera-1</wsa:Address>\
         </wsa:EndpointReference><wsdd:Types>dn:NetworkVideoTransmitter</wsdd:Types>\
         <wsdd:Scopes>{scopes}</wsdd:Scopes><wsdd:XAddrs>{services}</wsdd:XAddrs>\
         <wsdd:MetadataVersion>1</wsdd:MetadataVersion></wsdd:ProbeMatch></wsdd:ProbeMatches>\
         </SOAP-ENV:Body></SOAP-ENV:Envelope>"
    )
}

#[test]
fn an_answer_names_the_device_and_its_service() {
    let scopes = "onvif://www.onvif.org/type/video_encoder onvif://www.onvif.org/hardware/P3245-V\n\
                  onvif://www.onvif.org/name/Front%20door onvif://www.onvif.org/location/country/M%C3%BCnchen";
    let services =
        "http://[fe80::1]/onvif/device_service http://192.0.2.20:8080/onvif/device_service";
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

/// A camera on loopback: it answers probes, and knows one user.
struct FakeCamera {
    discovery: SocketAddr,
    /// Every request's SOAP body, with its security header.
    seen: mpsc::Receiver<String>,
}

const PROFILES: &str = "<e:Envelope xmlns:e=\"http://www.w3.org/2003/05/soap-envelope\"><e:Body>\
    <GetProfilesResponse><Profiles token=\"a&amp;b\" fixed=\"true\"><Name>mainStream</Name>\
    <VideoEncoderConfiguration token=\"v\"><Name>enc</Name><Encoding>H264</Encoding><Resolution>\
    <Width>1920</Width><Height>1080</Height></Resolution></VideoEncoderConfiguration></Profiles>\
    <Profiles token=\"two\"><Name>audio</Name></Profiles></GetProfilesResponse></e:Body></e:Envelope>";

fn fault(code: &str) -> String {
    format!(
        "<s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Body><s:Fault><s:Code>\
         <s:Value>s:Sender</s:Value><s:Subcode><s:Value>ter:{code}</s:Value></s:Subcode></s:Code>\
         <s:Reason><s:Text>Sender not Authorized</s:Text></s:Reason></s:Fault></s:Body></s:Envelope>"
    )
}

impl FakeCamera {
    fn start(user: &'static str, password: &'static str) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let discovery = socket.local_addr().expect("bound");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let service = listener.local_addr().expect("bound");
        std::thread::spawn(move || {
            let mut probe = [0; 4096];
            while let Ok((bytes, from)) = socket.recv_from(&mut probe) {
                let probe = String::from_utf8_lossy(&probe[..bytes]).into_owned();
                let message = probe.split("<a:MessageID>").nth(1).expect("a message");
                let message = message.split('<').next().expect("its end");
                let scopes = "onvif://www.onvif.org/name/Hall";
                let services = format!("http://{service}/onvif/device_service");
                let _ = socket.send_to(matches(message, scopes, &services).as_bytes(), from);
            }
        });
        let (sender, seen) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.expect("a connection");
                let request = read_request(&stream).body;
                let (status, body) = Self::answer(&request, user, password);
                let _ = sender.send(request);
                let _ = stream.write_all(response(status, &[], &body).as_bytes());
            }
        });
        Self { discovery, seen }
    }

    fn answer(request: &str, user: &str, password: &str) -> (&'static str, String) {
        let body = |body: &str| {
            format!(
                "<s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Body>{body}</s:Body></s:Envelope>"
            )
        };
        if request.contains("GetSystemDateAndTime") {
            // A clock without a battery.
            let date = "<tt:UTCDateTime xmlns:tt=\"t\"><tt:Time><tt:Hour>1</tt:Hour><tt:Minute>2</tt:Minute>\
                <tt:Second>3</tt:Second></tt:Time><tt:Date><tt:Year>2001</tt:Year><tt:Month>2</tt:Month>\
                <tt:Day>3</tt:Day></tt:Date></tt:UTCDateTime>";
            return ("200 OK", body(date));
        }
        let part = |name: &str| {
            let after = request
                .split(&format!("{name}>"))
                .nth(1)
                .unwrap_or_default();
            after.split('<').next().unwrap_or_default().to_owned()
        };
        let created = part("u:Created");
        let mut text = STANDARD.decode(part("w:Nonce")).unwrap_or_default();
        text.extend_from_slice(created.as_bytes());
        text.extend_from_slice(password.as_bytes());
        let digest = STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text));
        let is_right = part("w:Username") == user && request.contains(&format!(">{digest}<"));
        if !is_right || !created.starts_with("2001-02-03T01:") {
            return ("400 Bad Request", fault("NotAuthorized"));
        }
        if request.contains("GetCapabilities") {
            let media = "<tt:Media xmlns:tt=\"t\"><tt:XAddr>http://10.9.8.7/onvif/media</tt:XAddr></tt:Media>";
            ("200 OK", body(media))
        } else if request.contains("GetProfiles") {
            ("200 OK", PROFILES.to_owned())
        } else if request.contains("<ProfileToken>a&amp;b<") {
            (
                "200 OK",
                body("<Uri>rtsp://root:pass@192.0.2.20:554/main?x=1</Uri>"),
            )
        } else if request.contains("<ProfileToken>two<") {
            ("200 OK", body("<Uri>rtsp://192.0.2.20/two</Uri>"))
        } else {
            ("500 Internal Server Error", fault("InvalidArgVal"))
        }
    }

    async fn device(&self) -> Device {
        let scope = Scope::Addresses(vec![self.discovery]);
        let found = find(&scope, Duration::from_secs(1)).await.expect("a network");
        let [device] = &found[..] else {
            panic!("{found:?}");
        };
        device.clone()
    }
}

#[tokio::test]
async fn a_camera_is_found_and_tells_its_streams() {
    let camera = FakeCamera::start("operator", "secret<1>");
    let device = camera.device().await;
    assert_eq!(device.name.as_deref(), Some("Hall"));
    let credentials = Credentials {
        user: "operator".to_owned(),
        password: "secret<1>".to_owned(),
    };
    let profiles = stream_profiles(&device, Some(&credentials)).await;
    let profiles = profiles.expect("the right password");
    let shown: Vec<_> = profiles
        .iter()
        .map(|it| {
            (
                it.name.as_str(),
                it.encoding.as_deref(),
                it.size,
                it.url.as_str(),
            )
        })
        .collect();
    let main = "rtsp://192.0.2.20:554/main?x=1";
    assert_eq!(
        shown,
        [
            ("mainStream", Some("H264"), Some((1920, 1080)), main),
            ("audio", None, None, "rtsp://192.0.2.20/two"),
        ]
    );
    for request in camera.seen.try_iter() {
        assert!(!request.contains("secret"), "{request}");
    }
    assert!(!format!("{credentials:?}").contains("secret"));
}

#[tokio::test]
async fn a_wrong_password_and_none_are_told_from_other_faults() {
    let camera = FakeCamera::start("operator", "secret");
    let device = camera.device().await;
    let wrong = Credentials {
        user: "operator".to_owned(),
        password: "guess".to_owned(),
    };
    for credentials in [None, Some(&wrong)] {
        let error = stream_profiles(&device, credentials).await.expect_err("refused");
        assert!(
            matches!(&error, Error::Unauthorized(url) if *url == device.service),
            "{error}"
        );
    }
    let mut nobody = device;
    let closed = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("bound");
    nobody.service = format!("http://{closed}/").parse().expect("a URL");
    let error = stream_profiles(&nobody, None).await.expect_err("nobody listens");
    assert!(matches!(error, Error::Unreachable { .. }), "{error}");
}
