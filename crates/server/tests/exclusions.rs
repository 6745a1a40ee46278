//! Viewers and publishers that operators end, and keep away for some time.

use std::net::Ipv4Addr;

use glassline_client::viewers::{Endpoint, Join, Options, Pool, RtspTransport};
use serde_json::{Value, json};

use crate::peer::{Peer, SOON};
use crate::running::{Response, Running, STREAM};
use crate::source::{Film, Source};
use crate::sources::eventually;
use crate::whip::{Publisher, go_live};

const EXCLUSIONS: &str = "/api/v1/exclusions";

fn add(running: &Running, body: &Value) -> Response {
    let json = [("Content-Type", "application/json")];
    running.admin_send("POST", EXCLUSIONS, &json, &body.to_string())
}

fn listed(running: &Running) -> Vec<Value> {
    let list = running.admin(EXCLUSIONS).json();
    list["exclusions"].as_array().expect("a list").clone()
}

/// Returns the status of a request of the stream from an address of loopback.
fn status_from(running: &Running, from: Ipv4Addr) -> u16 {
    let path = format!("/api/v1/streams/{STREAM}");
    running.request_from(from, "GET", &path, &[], "").status
}

const OTHER: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);

#[test]
fn a_viewer_that_is_kept_away_comes_back_only_when_that_is_lifted() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let mut peer = Peer::joined(&running);
    peer.await_media();
    let name = peer.location.rsplit('/').next().expect("a name");
    let path = format!("/api/v1/viewers/webrtc/{name}/exclusion?stream={STREAM}");
    let made = running.admin_post(&path);
    assert_eq!(made.status, 201, "{}", made.body);
    let number = made.json()["number"].clone();
    let place = format!("{EXCLUSIONS}/{number}");
    assert_eq!(made.header("location"), Some(&*place));
    running.await_sessions(0, SOON);
    let [exclusion] = &listed(&running)[..] else {
        panic!("{:?}", listed(&running))
    };
    assert_eq!(exclusion["address"], "127.0.0.1", "{exclusion}");
    assert_eq!(exclusion["stream"], STREAM, "{exclusion}");
    let left = exclusion["ends_in_s"].as_u64().expect("seconds");
    assert!((3_000..=3_600).contains(&left), "{exclusion}");

    let refused = Peer::of_stream(&running, STREAM).err().expect("kept away");
    let problem = refused.problem(403);
    assert_eq!(problem["title"], "Kept away", "{problem}");
    let detail = problem["detail"].as_str().expect("a reason");
    assert!(detail.contains("60 min"), "{detail}");
    assert_eq!(status_from(&running, OTHER), 200, "others may watch");
    assert_eq!(
        running.get("/api/v1/streams").status,
        200,
        "of one stream alone"
    );

    assert_eq!(running.admin_request("DELETE", &place, &[]).status, 204);
    running.admin_request("DELETE", &place, &[]).problem(404);
    Peer::joined(&running).await_media();
    let noted = running.admin("/api/v1/audit").json().to_string();
    for action in ["excludeViewer", "liftExclusion"] {
        assert!(noted.contains(action), "{action}: {noted}");
    }
}

#[test]
fn a_publisher_is_ended_and_kept_away() {
    let running = Running::start(1);
    let publish = || Publisher::post(&running, "/studio/whip", &[]);
    let mut publisher = publish().expect("answered");
    go_live(&mut publisher, "studio");
    let path = "/api/v1/streams/studio/publisher";
    assert_eq!(running.admin_request("DELETE", path, &[]).status, 204);
    let ended = running.get(&publisher.peer.location).problem(410);
    assert_eq!(ended["ended"], "dismissed", "{ended}");

    let mut publisher = publish().expect("it may come back");
    go_live(&mut publisher, "studio");
    let made = running.admin_post(&format!("{path}/exclusion"));
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.json()["stream"], "studio");
    let refused = publish().err().expect("kept away");
    assert_eq!(refused.problem(403)["title"], "Kept away");

    let nobody = "/api/v1/streams/nobody/publisher";
    running.admin_request("DELETE", nobody, &[]).problem(404);
    running.stream();
    let unpublished = format!("/api/v1/streams/{STREAM}/publisher");
    running
        .admin_request("DELETE", &unpublished, &[])
        .problem(409);
}

#[test]
fn an_rtsp_player_is_kept_away_by_its_address() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let pool = Pool::start(Options::default()).expect("threads");
    let join = || {
        let url = format!("rtsp://{}/{STREAM}", running.rtsp());
        pool.join(Join::new(Endpoint::Rtsp {
            url: url.parse().expect("a URL"),
            transport: RtspTransport::Tcp,
        }));
    };
    join();
    let playing = || {
        let list = running.admin("/api/v1/rtsp/clients").json();
        let client = list["clients"].as_array()?.first()?.clone();
        (client["state"] == "playing").then(|| client["address"].clone())
    };
    eventually("it plays", || playing().is_some());
    let address = playing().expect("it plays");
    let address = address.as_str().expect("an address");
    let path = format!("/api/v1/viewers/rtsp/{address}/exclusion?stream={STREAM}");
    assert_eq!(running.admin_post(&path).status, 201);
    eventually("it is gone", || playing().is_none());
    let describe = format!(
        "DESCRIBE rtsp://{}/{STREAM} RTSP/1.0\r\nCSeq: 1\r\n\r\n",
        running.rtsp()
    );
    let answer = running.raw_rtsp(&describe);
    assert!(answer.starts_with("RTSP/1.0 403"), "{answer}");
}

#[test]
fn exclusions_name_somebody_and_end() {
    let running = Running::start(1);
    running.stream();
    let made = add(
        &running,
        &json!({ "address": "127.0.0.9", "stream": STREAM, "minutes": 5 }),
    );
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(status_from(&running, OTHER), 403);
    assert_eq!(status_from(&running, Ipv4Addr::LOCALHOST), 200);
    let all = add(&running, &json!({ "address": "127.0.0.9" }));
    assert_eq!(all.json()["stream"], Value::Null);
    for wrong in [
        json!({}),
        json!({ "user": "bob", "address": "127.0.0.9" }),
        json!({ "user": "" }),
        json!({ "user": "bob", "minutes": 0 }),
        json!({ "user": "bob", "minutes": 10_081 }),
    ] {
        add(&running, &wrong).problem(422);
    }
    add(&running, &json!({ "address": "somewhere" })).problem(400);
    assert_eq!(listed(&running).len(), 2, "{:?}", listed(&running));
    let gone = "/api/v1/viewers/webrtc/abc/exclusion?stream=cam";
    running.admin_post(gone).problem(404);
}

#[test]
fn the_history_begins_before_a_page_asks() {
    let running = Running::start(1);
    let _source = Source::start(&running.stream(), Film::default());
    let recent = || running.admin("/api/v1/history").json();
    eventually("the first sample", || recent()["at_s"][0].is_u64());
    let recent = recent();
    assert_eq!(recent["streams"][0], 1, "{recent}");
    assert!(recent["cpu_cores"][0].as_f64() > Some(0.0), "{recent}");
    let day = running.admin("/api/v1/history?span=1d");
    assert_eq!(day.json()["at_s"], json!([]), "{}", day.body);
    running.admin("/api/v1/history?span=1y").problem(400);
}
