//! Samples of both servers, modelled on what their documentation shows.

use super::*;

const MEDIAMTX: &str = "\
logLevel: info
logDestinations: [stdout]
writeQueueSize: 512
authMethod: internal
authInternalUsers:
- user: any
  pass:
  ips: []
  permissions:
  - action: publish
    path:
  - action: read
    path:
- user: any
  pass:
  ips: ['127.0.0.1', '::1']
  permissions:
  - action: api
- user: guard
  pass: tell nobody
  ips: []
  permissions:
  - action: read
    path: ~^site/.*$
  - action: publish
    path: site/door
  - action: playback
- user: hashed
  pass: argon2:$argon2id$v=19
  permissions:
  - action: read
api: yes
apiAddress: 127.0.0.1:9997
rtsp: yes
rtspTransports: [tcp]
rtspEncryption: \"no\"
rtspAddress: :8554
hls: yes
hlsSegmentCount: 7
webrtc: yes
webrtcAddress: :8889
webrtcLocalUDPAddress: :8189
webrtcAdditionalHosts: [media.example, 203.0.113.7]
webrtcICEServers2:
- url: turn:turn.example:3478?transport=tcp
  username: AUTH_SECRET
  password: swordfish
pathDefaults:
  sourceOnDemand: yes
  record: no
paths:
  site/door:
    source: rtsp://admin:p%40ss@192.0.2.10:554/live
    rtspTransport: udp
    sourceOnDemandCloseAfter: 30s
  gate:
    source: rtsp://192.0.2.11/live
    sourceOnDemand: no
    fallback: /studio
  studio:
    runOnReady: notify.sh
  old:
    source: rtmp://192.0.2.12/live
  ~^any:
    source: rtsp://192.0.2.13/$G1
  bad name:
    source: rtsp://192.0.2.14/live
  all_others:
";

const GO2RTC: &str = "\
api:
  listen: \":1984\"
  username: admin
rtsp:
  listen: \":8554\"
  username: viewer
  password: tell nobody
webrtc:
  listen: \":8555/tcp\"
  candidates:
  - 203.0.113.7:8555
  - stun:8555
streams:
  door: rtsp://admin:p%40ss@192.0.2.10/live#timeout=30
  hall:
  - rtsps://192.0.2.11/live#backchannel=0
  - ffmpeg:hall#audio=opus
  usb: ffmpeg:device?video=0#video=h264
  snap: http://192.0.2.12/snapshot.jpg
  pi: exec:libcamera-vid -t 0 --inline -o -
  day: http://192.0.2.13/live/index.m3u8?x=1
log:
  level: info
";

fn imported(text: &str) -> (Imported, Config) {
    let imported = import(text, "sample").expect("a known configuration");
    let config = Config::from_yaml(&imported.yaml, "made.yml");
    let config = config.unwrap_or_else(|error| panic!("{error}\n{}", imported.yaml));
    (imported, config)
}

fn source(config: &Config, name: &str) -> String {
    let found = config.sources.iter().find(|(it, _)| it.as_str() == name);
    found
        .map(|(_, input)| input.to_string())
        .unwrap_or_default()
}

/// Returns lines and keys of the notes.
fn noted(imported: &Imported) -> Vec<(u64, &str)> {
    let notes = imported.notes.iter();
    notes.map(|it| (it.line, it.key.as_str())).collect()
}

#[test]
fn a_configuration_of_mediamtx_becomes_one_of_ours() {
    let (imported, config) = imported(MEDIAMTX);
    assert_eq!((imported.of, &imported.trouble), ("MediaMTX", &None));
    assert_eq!(
        source(&config, "site/door"),
        "rtsp://admin:…@192.0.2.10:554/live?transport=udp&idle_s=30"
    );
    assert_eq!(
        source(&config, "gate"),
        "rtsp://192.0.2.11/live?fallback=studio"
    );
    assert_eq!(source(&config, "studio"), "publisher");
    assert_eq!(config.sources.len(), 3);
    assert_eq!(config.http.address.to_string(), "0.0.0.0:8889");
    assert_eq!(config.media.address.to_string(), "0.0.0.0:8189");
    assert_eq!(config.rtsp.address.map(|it| it.port()), Some(8554));
    assert!(!config.rtsp.udp);
    assert_eq!(
        (
            config.media.advertise.len(),
            config.webrtc.ice_servers.len()
        ),
        (2, 1)
    );
    let [guard] = &config.auth.users[..] else {
        panic!("{:?}", config.auth.users);
    };
    let texts = |it: &[glassline_access::auth::Pattern]| {
        it.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(texts(&guard.read), ["site/**"]);
    assert_eq!(texts(&guard.publish), ["site/door"]);
    assert_eq!(texts(&guard.playback), ["**"]);
    assert_eq!(texts(&guard.export), ["**"]);
    assert!(imported.yaml.contains("# 'old': 'rtmp://192.0.2.12/live'"));
    let expected = [
        (10, "any"),
        (12, "any"),
        (28, "authInternalUsers"),
        (38, "hls"),
        (61, "runOnReady"),
        (62, "old"),
        (64, "~^any"),
        (66, "bad name"),
    ];
    assert_eq!(noted(&imported), expected, "{:#?}", imported.notes);
}

#[test]
fn a_configuration_of_go2rtc_becomes_one_of_ours() {
    let (imported, config) = imported(GO2RTC);
    assert_eq!(imported.of, "go2rtc");
    assert_eq!(
        source(&config, "door"),
        "rtsp://admin:…@192.0.2.10/live?timeout_s=30&on_demand"
    );
    assert_eq!(source(&config, "hall"), "rtsps://192.0.2.11/live?on_demand");
    assert_eq!(
        source(&config, "snap"),
        "http://192.0.2.12/snapshot.jpg?on_demand"
    );
    assert_eq!(config.sources.len(), 3);
    assert_eq!(config.http.address.to_string(), "0.0.0.0:1984");
    assert_eq!(config.media.address.to_string(), "0.0.0.0:8555");
    assert_eq!(config.auth.users.len(), 1);
    let expected = [
        (3, "username"),
        (16, "hall"),
        (17, "hall"),
        (18, "usb"),
        (20, "pi"),
        (21, "day"),
        (22, "log"),
    ];
    assert_eq!(noted(&imported), expected, "{:#?}", imported.notes);
}

#[test]
fn programs_and_whole_sections_are_named_and_so_is_a_port_that_is_taken_twice() {
    let text = "hls: no\nrtmp: {enable: yes}\nwebrtcAddress: :8189\npathDefaults:\n  runOnOnline: a\npaths:\n  \
                cam:\n    source: rtsp://192.0.2.10/live\n    runOnAvailable: b\n    \
                runOnAvailableRestart: yes\n    runOnRecordSegmentComplete: c\n";
    let (imported, _) = imported(text);
    let expected = [
        (1, "hls"),
        (2, "rtmp"),
        (5, "runOnOnline"),
        (9, "runOnAvailable"),
        (11, "runOnRecordSegmentComplete"),
    ];
    assert_eq!(noted(&imported), expected, "{:#?}", imported.notes);
    let trouble = imported.trouble.expect("two listeners at one port");
    assert!(
        trouble.contains("8189") && trouble.contains("http.address"),
        "{trouble}"
    );
}

#[test]
fn notes_have_no_password_and_other_files_are_refused() {
    for text in [MEDIAMTX, GO2RTC] {
        let (imported, _) = imported(text);
        let notes: String = imported.notes.iter().map(ToString::to_string).collect();
        assert!(!notes.contains("p%40ss") && !notes.contains("tell nobody"));
    }
    for text in ["", "a: 1\n", "- 1\n", "http: {address: '127.0.0.1:1'}\n"] {
        assert!(import(text, "sample").is_err(), "{text}");
    }
    assert!(import("paths: {a: [\n", "sample").is_err());
    let (defaults, _) = imported("pathDefaults:\n  record: yes\n  maxReaders: 0\n");
    assert_eq!(noted(&defaults), [(2, "record")]);
    assert!(
        defaults.notes[0].to_string().contains("recordings.folder"),
        "{}",
        defaults.notes[0]
    );
    let (all, _) = imported("paths:\n  all:\n");
    assert_eq!(noted(&all), [], "every name may be published here, too");
}
