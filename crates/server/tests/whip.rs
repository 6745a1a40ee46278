//! Publishers by WHIP: from the offer to the viewers, and the manners of the URLs.

use std::time::{Duration, Instant};

use glassline_config::{DataAccess, Secret};
use glassline_media::{Codec, Kind, Track};
use glassline_webrtc::{Event, Kinds, SenderIndex};

use crate::peer::{Peer, PeerOffer, SDP, SOON, socket};
use crate::running::{Response, Running};

const SDPFRAG: (&str, &str) = ("Content-Type", "application/trickle-ice-sdpfrag");

/// A publisher of VP8 and Opus that sends a frame every few milliseconds.
pub(crate) struct Publisher<'a> {
    pub(crate) peer: Peer<'a>,
    frame: u32,
    /// Number of frames to the next keyframe by itself.
    interval: u32,
}

impl<'a> Publisher<'a> {
    pub(crate) fn post(
        running: &'a Running,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Result<Self, Response> {
        Self::offering(running, path, headers, str::to_owned)
    }

    fn offering(
        running: &'a Running,
        path: &str,
        headers: &[(&str, &str)],
        edit: impl FnOnce(&str) -> String,
    ) -> Result<Self, Response> {
        let tracks = vec![Track::new(Codec::Vp8), Track::audio(Codec::Opus, 2)];
        let asked = PeerOffer::from((tracks, Kinds::NONE));
        let peer = Peer::asking(running, path, headers, socket(), asked, edit)?;
        Ok(Self {
            peer,
            frame: 0,
            interval: u32::MAX,
        })
    }

    /// Sends one frame of video and one packet of audio.
    pub(crate) fn send(&mut self) {
        let asks = |event: &Event| matches!(event, Event::KeyframeRequest { .. });
        let is_asked = self.peer.events.iter().any(asks);
        if is_asked {
            self.peer.events.retain(|event| !asks(event));
        }
        let keyframe = self.frame == 0 || is_asked || self.frame.is_multiple_of(self.interval);
        self.send_frame(keyframe);
    }

    fn send_frame(&mut self, keyframe: bool) {
        // A descriptor that begins a frame (RFC 7741 §4.2), and the frame's header.
        let mut payload = vec![0x10, u8::from(!keyframe)];
        if keyframe {
            payload.extend([0x02, 0x00, 0x9d, 0x01, 0x2a, 64, 0, 64, 0]);
        }
        payload.extend(self.frame.to_be_bytes());
        let timestamp = self.frame.wrapping_mul(900);
        if self
            .peer
            .send_media(SenderIndex(0), timestamp, true, &payload)
        {
            let timestamp = self.frame.wrapping_mul(480);
            self.peer
                .send_media(SenderIndex(1), timestamp, false, &[0xfc, 1, 2]);
            self.frame += 1;
        }
    }
}

/// Runs publishers and viewers in turns until `done`.
pub(crate) fn until(
    publishers: &mut [&mut Publisher<'_>],
    viewers: &mut [&mut Peer<'_>],
    mut done: impl FnMut(&[&mut Publisher<'_>], &[&mut Peer<'_>]) -> bool,
) -> bool {
    let end = Instant::now() + SOON;
    while Instant::now() < end {
        for publisher in &mut *publishers {
            publisher.send();
            publisher.peer.run_for(Duration::from_millis(5));
        }
        for viewer in &mut *viewers {
            viewer.run_for(Duration::from_millis(2));
        }
        if done(publishers, viewers) {
            return true;
        }
    }
    false
}

fn is_live(running: &Running, stream: &str) -> bool {
    let stream = running.hub().stream(stream);
    stream.is_some_and(|stream| stream.state().as_str() == "live")
}

pub(crate) fn go_live(publisher: &mut Publisher<'_>, stream: &str) {
    let running = publisher.peer.running;
    let live = until(&mut [publisher], &mut [], |_, _| is_live(running, stream));
    assert!(live, "{:?}", publisher.peer.dropped);
}

fn watch<'a>(running: &'a Running, stream: &str) -> Peer<'a> {
    Peer::of_stream(running, stream).expect("live")
}

#[test]
fn viewers_see_a_publisher_and_stay_while_it_is_gone() {
    let running = Running::start(1);
    let mut publisher = Publisher::post(&running, "/studio/whip", &[]).expect("answered");
    go_live(&mut publisher, "studio");
    let mut viewer = watch(&running, "studio");
    let both = |viewer: &Peer<'_>| {
        [Kind::Video, Kind::Audio].map(|kind| viewer.of(kind).count() >= 20) == [true, true]
    };
    let seen = until(&mut [&mut publisher], &mut [&mut viewer], |_, viewers| {
        both(viewers[0])
    });
    assert!(seen, "{:?}", viewer.dropped);
    let video = viewer.of(Kind::Video).next().expect("some");
    assert_eq!(
        video.payload[video.payload.len() - 4..3 + video.payload.len() - 4],
        [0, 0, 0]
    );

    // A publisher that leaves may come back with the next request.
    assert_eq!(publisher.peer.delete().status, 200);
    assert!(!is_live(&running, "studio"));
    let mut again = Publisher::post(&running, "/studio/whip", &[]).expect("the name is free");
    go_live(&mut again, "studio");
    viewer.received.clear();
    let seen = until(&mut [&mut again], &mut [&mut viewer], |_, viewers| {
        both(viewers[0])
    });
    assert!(seen && viewer.is_connected(), "the viewer stayed");
    let table = running.hub().stream("studio").expect("live").ingest_stage();
    let mut table = table;
    let stages = table.summaries(Instant::now());
    assert!(
        stages
            .iter()
            .any(|(stage, it)| stage.as_str() == "ingest" && it.count > 0)
    );
    assert!(running.total("whip_packets_total") > 20);
}

#[test]
fn a_publisher_may_insist_on_being_the_dtls_server() {
    let running = Running::start(1);
    let passive = |offer: &str| offer.replace("a=setup:actpass", "a=setup:passive");
    let publisher = Publisher::offering(&running, "/studio/whip", &[], passive);
    go_live(&mut publisher.expect("answered"), "studio");
}

/// Posts a second offer for the stream of `first`, which must be refused. Returns false if the machine
/// stalled for so long that the first publisher counted as silent.
fn is_refused_beside(first: &Publisher<'_>, heard: Instant) -> bool {
    let second = Publisher::post(first.peer.running, "/studio/whip", &[]);
    let stalled = heard.elapsed() > Duration::from_secs(1);
    match second {
        Err(refused) => {
            refused.problem(409);
            true
        }
        Ok(_) => {
            assert!(stalled, "two publishers of one stream");
            false
        }
    }
}

/// Returns false if the machine stalled.
fn second_publishers_are_refused_or_take_over(running: &Running) -> bool {
    let posted = Instant::now();
    let mut first = Publisher::post(running, "/studio/whip", &[]).expect("answered");
    if !is_refused_beside(&first, posted) {
        return false;
    }
    go_live(&mut first, "studio");
    let mut viewer = watch(running, "studio");
    first.send();
    let heard = Instant::now();
    first.peer.run_for(Duration::from_millis(5));
    if !is_refused_beside(&first, heard) {
        return false;
    }
    let mut second = Publisher::post(running, "/studio/whip?override", &[]).expect("by right");
    let gone = first.peer.run_until(SOON, |peer| peer.session.is_closed());
    assert!(gone, "the first is told");
    let asked = running.request("PATCH", &first.peer.location, &[SDPFRAG], "");
    asked.problem(410);
    go_live(&mut second, "studio");
    let seen = until(&mut [&mut second], &mut [&mut viewer], |_, viewers| {
        viewers[0].of(Kind::Video).count() > 0
    });
    assert!(seen && viewer.is_connected());
    assert_eq!(second.peer.delete().status, 200);
    true
}

#[test]
fn a_second_publisher_is_refused_or_takes_over() {
    let tried = (0..10).any(|_| second_publishers_are_refused_or_take_over(&Running::start(2)));
    assert!(tried, "the machine stalls all the time");
}

#[test]
fn a_publisher_that_fell_silent_makes_way() {
    let running = Running::start(1);
    let mut first = Publisher::post(&running, "/studio/whip", &[]).expect("answered");
    go_live(&mut first, "studio");
    // It was killed: nothing comes any more, and nobody says so.
    let end = Instant::now() + SOON;
    let mut second = loop {
        match Publisher::post(&running, "/studio/whip", &[]) {
            Ok(second) => break second,
            Err(refused) => refused.problem(409),
        };
        assert!(Instant::now() < end, "its place is kept");
        std::thread::sleep(Duration::from_millis(100));
    };
    go_live(&mut second, "studio");
}

#[test]
fn pages_of_other_sites_do_not_publish() {
    let running = Running::start(1);
    let origin = [("Origin", "https://elsewhere.example")];
    for (path, key) in [("/studio/whip", ""), ("/whip", "Bearer studio")] {
        let headers = [&origin[..], &[("Authorization", key)]].concat();
        let refused = Publisher::post(&running, path, &headers).err();
        refused.expect("a stranger's page").problem(403);
    }
}

#[test]
fn a_source_of_another_kind_is_taken_over_too() {
    let running = Running::start(1);
    let tracks = vec![Track::audio(Codec::Opus, 2)];
    let source = running.stream().publish(tracks, Instant::now());
    let _source = source.expect("free");
    let refused = Publisher::post(&running, "/cam/whip", &[]).err();
    refused.expect("another source publishes it").problem(409);
    let mut publisher = Publisher::post(&running, "/cam/whip?override", &[]).expect("by right");
    let stream = running.stream();
    let taken = until(&mut [&mut publisher], &mut [], |_, _| {
        stream
            .tracks()
            .first()
            .is_some_and(|track| track.codec == Codec::Vp8)
    });
    assert!(taken, "{:?}", stream.tracks());
}

#[test]
fn one_keyframe_request_serves_every_viewer() {
    let running = Running::start(1);
    let mut publisher = Publisher::post(&running, "/studio/whip", &[]).expect("answered");
    go_live(&mut publisher, "studio");
    let mut viewers: Vec<_> = (0..5).map(|_| watch(&running, "studio")).collect();
    let mut all: Vec<&mut Peer<'_>> = viewers.iter_mut().collect();
    let seen = until(&mut [&mut publisher], &mut all, |_, viewers| {
        viewers
            .iter()
            .all(|viewer| viewer.of(Kind::Video).count() > 0)
    });
    assert!(seen);
    // From now on the publisher does not answer requests; every viewer asks again and again.
    publisher.peer.events.clear();
    let before = Instant::now();
    let end = before + Duration::from_millis(2500);
    while Instant::now() < end {
        for viewer in &mut all {
            let receivers = viewer.session.receivers();
            let video = receivers.iter().position(|it| it.kind == Kind::Video);
            let video = video.expect("agreed").into();
            viewer.session.request_keyframe(video, Instant::now());
            viewer.run_for(Duration::from_millis(2));
        }
        publisher.send_frame(false);
        publisher.peer.run_for(Duration::from_millis(5));
    }
    let requests = publisher.peer.events.iter();
    let requests = requests.filter(|event| matches!(event, Event::KeyframeRequest { .. }));
    let (requests, seconds) = (requests.count(), before.elapsed().as_secs() as usize);
    assert!(
        (1..=seconds + 2).contains(&requests),
        "{requests} in {seconds} s"
    );
}

#[test]
fn a_stream_key_names_the_stream() {
    let running = Running::start(1);
    let bearer = |key: &str| format!("Bearer {key}");
    let key = bearer("studio");
    let headers = [("Authorization", key.as_str())];
    let mut publisher = Publisher::post(&running, "/whip", &headers).expect("answered");
    assert!(
        publisher.peer.location.starts_with("/whip/"),
        "{}",
        publisher.peer.location
    );
    go_live(&mut publisher, "studio");
    assert_eq!(publisher.peer.delete().status, 200);
    running.request("POST", "/whip", &[SDP], "v=0").problem(401);

    let guarded = Running::with(1, |config| {
        config.auth.publish_token = Some("secret".parse().expect("a token"));
    });
    for (key, status) in [
        ("studio", 401),
        ("studio:wrong", 401),
        ("other:wrong:x", 401),
    ] {
        let key = bearer(key);
        let refused = Publisher::post(&guarded, "/whip", &[("Authorization", &key)]).err();
        refused.expect("not the token").problem(status);
    }
    let key = bearer("studio:secret");
    let mut publisher =
        Publisher::post(&guarded, "/whip", &[("Authorization", &key)]).expect("answered");
    go_live(&mut publisher, "studio");
    // The name of the session is the right to it.
    assert_eq!(publisher.peer.delete().status, 200);
}

#[test]
fn credentials_of_turn_servers_are_for_those_who_may_send_an_offer() {
    const READ: &str = "look-1234567";
    const PUBLISH: &str = "send-1234567";
    let running = Running::with(1, |config| {
        let servers = r#"[{"url": "stun:192.0.2.1:3478"},
            {"url": "turn:192.0.2.1", "secret": "north"}]"#;
        config.webrtc.ice_servers = serde_json::from_str(servers).expect("servers");
        config.auth.read_token = Secret::new(READ).ok();
        config.auth.publish_token = Secret::new(PUBLISH).ok();
    });
    let links = |method: &str, path: &str, token: Option<&str>| {
        let bearer = token.map(|token| format!("Bearer {token}"));
        let headers: Vec<_> = bearer
            .iter()
            .map(|it| ("Authorization", it.as_str()))
            .collect();
        let found = running.request(method, path, &headers, "");
        let links = found.headers_named("link");
        (
            found.status,
            links.iter().any(|it| it.contains("credential")),
            links.len(),
        )
    };
    for (path, token, wrong) in [
        ("/cam/whep", READ, "nobody-123456"),
        ("/cam/whip", PUBLISH, READ),
    ] {
        assert_eq!(links("OPTIONS", path, None), (204, false, 1), "{path}");
        assert_eq!(
            links("OPTIONS", path, Some(wrong)),
            (204, false, 1),
            "{path}"
        );
        assert_eq!(
            links("OPTIONS", path, Some(token)),
            (204, true, 2),
            "{path}"
        );
        assert_eq!(links("GET", path, None), (401, false, 0), "{path}");
        assert_eq!(links("GET", path, Some(token)), (200, true, 2), "{path}");
    }
    for method in ["OPTIONS", "GET"] {
        let (_, has_credentials, count) = links(method, "/whip", None);
        assert_eq!((has_credentials, count), (false, 1), "{method}");
    }
}

#[test]
fn the_urls_answer_as_whip_clients_expect() {
    let running = Running::with(1, |config| {
        config.webrtc.ice_servers =
            vec![serde_json::from_str(r#"{"url": "stun:192.0.2.1:3478"}"#).expect("a server")];
    });
    for path in ["/studio/whip", "/cam/whep", "/whip"] {
        for method in ["GET", "HEAD"] {
            let found = running.request(method, path, &[], "");
            assert_eq!(found.status, 200, "{method} {path}");
            assert_eq!(found.header("content-type"), Some("application/sdp"));
        }
        let options = running.request("OPTIONS", path, &[], "");
        assert_eq!(options.status, 204);
        let link = options.header("link").expect("an ICE server");
        assert_eq!(link, "<stun:192.0.2.1:3478>; rel=\"ice-server\"");
        let preflight = [("Access-Control-Request-Method", "POST")];
        let preflight = running.request("OPTIONS", path, &preflight, "");
        assert_eq!(preflight.header("link"), None);
    }
    let publisher = Publisher::post(&running, "/studio/whip", &[]).expect("answered");
    let session = publisher.peer.location.clone();
    assert_eq!(running.request("GET", &session, &[], "").status, 204);
    assert_eq!(running.request("HEAD", &session, &[], "").status, 204);
    let json = [("Content-Type", "application/json")];
    running.request("PATCH", &session, &json, "{}").problem(415);
    running
        .request("POST", "/studio/whip", &json, "{}")
        .problem(415);
    // Trickled candidates, with a typing error that a client makes, in three manners.
    let (ours, _) = publisher.peer.credentials();
    let trickle = format!(
        "a=ice-ufrag:{}\r\na=ice-pwd:{}\r\nm=audio 9 RTP/AVP 0\r\na=mid:0\r\n\
         a=candidate:1 1 udp 2130706431 host.local 9 typ host\r\na=end-of-candiadates\r\n",
        ours.ufrag, ours.pwd
    );
    let etag = publisher.peer.etag.clone();
    for tag in [None, Some("*"), Some(etag.as_str())] {
        let headers: Vec<_> = tag.map(|tag| ("If-Match", tag)).into_iter().collect();
        let patched = publisher.peer.patch(&headers, &trickle);
        assert_eq!(patched.status, 204, "{tag:?}: {}", patched.body);
    }
    // New credentials are a restart.
    let restart = trickle.replace(&ours.ufrag, "newUfrag");
    publisher.peer.patch(&[], &restart).problem(428);
    publisher
        .peer
        .patch(&[("If-Match", "\"old\"")], &restart)
        .problem(412);
    let restarted = publisher.peer.patch(&[("If-Match", &etag)], &restart);
    assert_eq!(restarted.status, 200);
    assert_ne!(restarted.header("etag").expect("a new one"), etag);
    assert_eq!(publisher.peer.delete().status, 200);
    publisher.peer.patch(&[], &trickle).problem(404);
}

#[test]
fn an_offer_that_is_not_supported_is_refused_with_its_reason() {
    let running = Running::start(1);
    let edits: [(&str, &str, &str); 3] = [
        ("VP8/90000", "X-new/90000", "no codec in common"),
        ("opus/48000/2", "G7221/16000", "no codec in common"),
        ("a=sendonly", "a=recvonly", "offer sendonly"),
    ];
    for (from, to, reason) in edits {
        let edit = |offer: &str| offer.replace(from, to);
        let refused = Publisher::offering(&running, "/studio/whip", &[], edit).err();
        let problem = refused.expect("not supported").problem(422);
        let detail = problem["detail"].as_str().expect("text").to_owned();
        assert!(detail.contains(reason), "{detail}");
    }
    assert!(running.hub().stream("studio").is_none(), "nothing was made");
}

#[test]
fn messages_travel_beside_the_media() {
    let running = Running::with(1, |config| config.webrtc.data.viewers = DataAccess::Write);
    let tracks = vec![Track::new(Codec::Vp8)];
    let mut asked = PeerOffer::from((tracks, Kinds::NONE));
    asked.data = Some(glassline_webrtc::DataConfig::default());
    let peer = Peer::asking(
        &running,
        "/studio/whip",
        &[],
        socket(),
        asked,
        str::to_owned,
    );
    let mut publisher = Publisher {
        peer: peer.expect("answered"),
        frame: 0,
        interval: u32::MAX,
    };
    go_live(&mut publisher, "studio");
    assert!(publisher.peer.session.channels().is_some());
    let listed = running.admin_json("/api/v1/webrtc/data-publishers").body;
    assert!(listed.contains("studio"), "{listed}");
}
