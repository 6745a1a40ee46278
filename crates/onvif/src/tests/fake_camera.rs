//! A camera with ONVIF on loopback: it answers probes, knows one user, and notes what it is asked.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, Sender, channel};

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use glassline_rtsp::auth::digest::{Algorithm, secret};
use glassline_rtsp::auth::{Authorization, User};

/// The behaviour of a camera: its kind and its answers.
#[derive(Clone, Debug)]
pub(crate) struct Behaviour {
    pub(crate) user: &'static str,
    pub(crate) password: &'static str,
    /// Whether the camera pans, tilts and zooms.
    pub(crate) has_ptz: bool,
    /// Whether the camera asks for the digest of HTTP, too.
    pub(crate) asks_by_http: bool,
    /// Whether the camera has the second version of the media service alone.
    pub(crate) is_of_profile_t: bool,
    /// URL of the stream of the first profile.
    pub(crate) stream: String,
    /// Raw response to everything over TCP, in place of a camera's.
    pub(crate) raw: Option<Raw>,
}

/// A response that no camera gives.
#[derive(Clone, Debug)]
pub(crate) enum Raw {
    /// These bytes, and then the end.
    Bytes(Vec<u8>),
    /// A head, and then a body without an end.
    Endless,
    /// Nothing, while the connection stays.
    Silence,
}

impl Default for Behaviour {
    fn default() -> Self {
        Self {
            user: "operator",
            password: "secret<1>",
            has_ptz: false,
            asks_by_http: false,
            is_of_profile_t: false,
            stream: "rtsp://root:pass@192.0.2.20:554/main?x=1".to_owned(),
            raw: None,
        }
    }
}

/// A camera that runs until the test ends.
pub(crate) struct FakeCamera {
    /// Address of WS-Discovery.
    pub(crate) discovery: SocketAddr,
    /// Address of its services.
    pub(crate) service: SocketAddr,
    /// Body of each request over TCP, with its security header.
    pub(crate) seen: Receiver<String>,
}

/// Returns an answer to a probe: `relates` is the probe's message.
pub(crate) fn matches(relates: &str, scopes: &str, services: &str) -> String {
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

/// Returns a response with this body.
pub(crate) fn envelope(body: &str) -> String {
    format!(
        "<s:Envelope xmlns:s=\"http://www.w3.org/2003/05/soap-envelope\"><s:Body>{body}</s:Body></s:Envelope>"
    )
}

fn fault(code: &str) -> String {
    envelope(&format!(
        "<s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode><s:Value>ter:{code}</s:Value></s:Subcode>\
         </s:Code><s:Reason><s:Text>Sender not Authorized</s:Text></s:Reason></s:Fault>"
    ))
}

/// Returns what a request has between `NAME>` and the next element.
pub(crate) fn part(request: &str, name: &str) -> String {
    let after = request.split(&format!("{name}>")).nth(1);
    let text = after.unwrap_or_default().split('<').next();
    text.unwrap_or_default().to_owned()
}

impl FakeCamera {
    pub(crate) fn start(behaviour: Behaviour) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port");
        let discovery = socket.local_addr().expect("bound");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let service = listener.local_addr().expect("bound");
        std::thread::spawn(move || answer_probes(&socket, service));
        let (sender, seen) = channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (sender, behaviour) = (sender.clone(), behaviour.clone());
                let stream = stream.expect("a connection");
                std::thread::spawn(move || serve(stream, &behaviour, &sender));
            }
        });
        Self {
            discovery,
            service,
            seen,
        }
    }

    /// Returns the URL of the device service.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/onvif/device_service", self.service)
    }
}

fn answer_probes(socket: &UdpSocket, service: SocketAddr) {
    let mut probe = [0; 4096];
    while let Ok((bytes, from)) = socket.recv_from(&mut probe) {
        let probe = String::from_utf8_lossy(&probe[..bytes]).into_owned();
        let message = part(&probe, "<a:MessageID");
        let scopes = "onvif://www.onvif.org/name/Hall onvif://www.onvif.org/hardware/P3245-V";
        let services = format!("http://{service}/onvif/device_service");
        // Another's answer comes before ours.
        for relates in ["urn:uuid:another", &message] {
            let _ = socket.send_to(matches(relates, scopes, &services).as_bytes(), from);
        }
    }
}

fn serve(mut stream: TcpStream, behaviour: &Behaviour, seen: &Sender<String>) {
    let Some(request) = read_request(&stream) else {
        return;
    };
    let Request {
        authorization,
        body: request,
    } = request;
    match &behaviour.raw {
        None if behaviour.asks_by_http && !is_authorized(&authorization, &request, behaviour) => {
            let challenge = "Digest realm=\"hall\", nonce=\"n1\", qop=\"auth\", algorithm=MD5";
            let head = "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: 0\r\n";
            let text = format!(
                "{head}WWW-Authenticate: Basic realm=\"hall\"\r\nWWW-Authenticate: {challenge}\r\n\r\n"
            );
            let _ = stream.write_all(text.as_bytes());
        }
        None => {
            let (status, body) = answer(&request, behaviour);
            let _ = seen.send(request);
            let head = format!("HTTP/1.1 {status}\r\nConnection: close\r\n");
            let length = body.len();
            let text = format!("{head}Content-Length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(text.as_bytes());
        }
        Some(raw) => {
            let _ = seen.send(request);
            write_raw(&mut stream, raw);
        }
    }
}

fn write_raw(stream: &mut TcpStream, raw: &Raw) {
    match raw {
        Raw::Bytes(bytes) => {
            let _ = stream.write_all(bytes);
        }
        Raw::Endless => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n<a>");
            while stream.write_all(&[b' '; 4096]).is_ok() {}
        }
        // Until the other end leaves.
        Raw::Silence => drop(stream.read(&mut [0])),
    }
}

/// A request over TCP.
struct Request {
    /// The value of the header field; empty without one.
    authorization: String,
    body: String,
}

/// Whether a request has the digest of HTTP (RFC 7616) for the camera's challenge.
fn is_authorized(shown: &str, body: &str, behaviour: &Behaviour) -> bool {
    let Some(Authorization::Digest(shown)) = Authorization::parse(shown) else {
        return false;
    };
    let user = User {
        name: behaviour.user.to_owned(),
        password: behaviour.password.to_owned(),
    };
    let secret = secret(Algorithm::Md5, &user, "hall");
    shown.nonce == "n1" && shown.verify(&secret, "POST", body.as_bytes())
}

fn read_request(stream: &TcpStream) -> Option<Request> {
    let mut reader = BufReader::new(stream);
    let (mut length, mut authorization) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(": ")
            && name.eq_ignore_ascii_case("authorization")
        {
            value.clone_into(&mut authorization);
        }
        let line = line.to_ascii_lowercase();
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.parse().expect("a number");
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let body = String::from_utf8(body).ok()?;
    Some(Request {
        authorization,
        body,
    })
}

fn answer(request: &str, behaviour: &Behaviour) -> (&'static str, String) {
    if request.contains("GetSystemDateAndTime") {
        // A clock without a battery.
        let date = "<tt:UTCDateTime xmlns:tt=\"t\"><tt:Time><tt:Hour>1</tt:Hour><tt:Minute>2</tt:Minute>\
            <tt:Second>3</tt:Second></tt:Time><tt:Date><tt:Year>2001</tt:Year><tt:Month>2</tt:Month>\
            <tt:Day>3</tt:Day></tt:Date></tt:UTCDateTime>";
        return ("200 OK", envelope(date));
    }
    let created = part(request, "u:Created");
    let mut text = STANDARD
        .decode(part(request, "w:Nonce"))
        .unwrap_or_default();
    text.extend_from_slice(created.as_bytes());
    text.extend_from_slice(behaviour.password.as_bytes());
    let digest = STANDARD.encode(digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, &text));
    let is_user = part(request, "w:Username") == behaviour.user;
    let is_right = is_user && request.contains(&format!(">{digest}<"));
    if !is_right || !created.starts_with("2001-02-03T01:") {
        return ("400 Bad Request", fault("NotAuthorized"));
    }
    match answer_of_user(request, behaviour) {
        Some(body) => ("200 OK", envelope(&body)),
        None => ("500 Internal Server Error", fault("InvalidArgVal")),
    }
}

fn answer_of_user(request: &str, behaviour: &Behaviour) -> Option<String> {
    let has = |name: &str| request.contains(name);
    if has("GetCapabilities") {
        let service = |name: &str| {
            format!(
                "<tt:{name} xmlns:tt=\"t\"><tt:XAddr>http://10.9.8.7/{name}</tt:XAddr></tt:{name}>"
            )
        };
        let ptz = if behaviour.has_ptz {
            service("PTZ")
        } else {
            String::new()
        };
        let media = match behaviour.is_of_profile_t {
            true => String::new(),
            false => service("Media"),
        };
        return Some(media + &ptz);
    }
    if has("GetServices") {
        return Some(services());
    }
    if behaviour.is_of_profile_t {
        let asks_second = has("http://www.onvif.org/ver20/media/wsdl");
        if asks_second && has("GetProfiles") && has("<Type>All<") {
            return Some(profiles_of_profile_t());
        }
        if asks_second && has("GetStreamUri") && has("<Protocol>RtspUnicast<") {
            return Some("<Uri>rtsp://192.0.2.20/second</Uri>".to_owned());
        }
        return None;
    }
    if has("GetDeviceInformation") {
        return Some(
            "<Manufacturer>Maker</Manufacturer><Model>P3245-V</Model><FirmwareVersion>1.2\u{85}</FirmwareVersion>"
                .to_owned(),
        );
    }
    if has("GetProfiles") {
        return Some(profiles(behaviour.has_ptz));
    }
    if has("<ProfileToken>a&amp;b<") && has("GetStreamUri") {
        return Some(format!(
            "<Uri>{}</Uri>",
            behaviour.stream.replace('&', "&amp;")
        ));
    }
    if has("<ProfileToken>two<") && has("GetStreamUri") {
        return Some("<Uri>rtsp://192.0.2.20/two</Uri>".to_owned());
    }
    if !behaviour.has_ptz {
        return None;
    }
    if has("GetPresets") {
        let preset = |token: &str, name: &str| {
            format!("<Preset token=\"{token}\"><Name>{name}</Name></Preset>")
        };
        return Some(preset("1", "Gate") + &preset("2", "Yard &lt;left&gt;"));
    }
    // This camera takes no timeout.
    let moves = has("<ContinuousMove") && !has("<Timeout>");
    let goes = has("<GotoPreset") && has("<PresetToken>1<");
    (moves || goes || has("<Stop")).then(String::new)
}

fn services() -> String {
    let service = |namespace: &str, path: &str| {
        format!(
            "<tds:Service xmlns:tds=\"d\"><tds:Namespace>http://www.onvif.org/{namespace}/wsdl</tds:Namespace>\
             <tds:XAddr>http://10.9.8.7/{path}</tds:XAddr></tds:Service>"
        )
    };
    service("ver10/device", "device") + &service("ver20/media", "media2")
}

fn profiles_of_profile_t() -> String {
    "<tr2:Profiles xmlns:tr2=\"m\" xmlns:tt=\"t\" token=\"one\"><tr2:Name>stream1</tr2:Name>\
     <tr2:Configurations><tr2:VideoSource token=\"s\"><tt:Name>source</tt:Name></tr2:VideoSource>\
     <tr2:VideoEncoder token=\"v\" GovLength=\"50\" Profile=\"Main\"><tt:Name>enc</tt:Name>\
     <tt:Encoding>H265</tt:Encoding><tt:Resolution><tt:Width>3840</tt:Width><tt:Height>2160</tt:Height>\
     </tt:Resolution><tt:RateControl ConstantBitRate=\"true\"><tt:FrameRateLimit>20</tt:FrameRateLimit>\
     <tt:BitrateLimit>8192</tt:BitrateLimit></tt:RateControl><tt:Quality>4</tt:Quality></tr2:VideoEncoder>\
     <tr2:AudioEncoder token=\"a\"><tt:Encoding>MP4A-LATM</tt:Encoding></tr2:AudioEncoder>\
     </tr2:Configurations></tr2:Profiles>"
        .to_owned()
}

fn profiles(has_ptz: bool) -> String {
    let mut text = "<GetProfilesResponse><Profiles token=\"a&amp;b\" fixed=\"true\"><Name>mainStream</Name>\
        <VideoEncoderConfiguration token=\"v\"><Name>enc</Name><Encoding>H264</Encoding><Resolution>\
        <Width>1920</Width><Height>1080</Height></Resolution><RateControl><FrameRateLimit>25</FrameRateLimit>\
        <BitrateLimit>4096</BitrateLimit></RateControl><H264><H264Profile>Baseline</H264Profile></H264>\
        </VideoEncoderConfiguration><AudioEncoderConfiguration><Encoding>AAC</Encoding>\
        </AudioEncoderConfiguration>"
        .to_owned();
    if has_ptz {
        text += "<PTZConfiguration token=\"p\"><DefaultContinuousPanTiltVelocitySpace>x\
            </DefaultContinuousPanTiltVelocitySpace><DefaultContinuousZoomVelocitySpace>x\
            </DefaultContinuousZoomVelocitySpace></PTZConfiguration><Extension><AudioOutputConfiguration/>\
            <AudioDecoderConfiguration/></Extension>";
    }
    let _ = write!(
        text,
        "</Profiles><Profiles token=\"two\"><Name>audio</Name></Profiles></GetProfilesResponse>"
    );
    text
}
