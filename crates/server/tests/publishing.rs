//! What the API tells of publishers, and who may ask.

use serde_json::Value;

use crate::running::Running;
use crate::whip::{Publisher, go_live, until};

#[test]
fn the_api_tells_what_arrives_of_a_publisher_and_takes_its_report() {
    let running = Running::start(1);
    let told = |name: &str| {
        let path = format!("/api/v1/streams/{name}/publishing");
        let response = running.request("GET", &path, &[], "");
        assert_eq!(response.status, 200, "{}", response.body);
        serde_json::from_str::<Value>(&response.body).expect("JSON")
    };
    let is_drawn = || running.get("/api/v1/streams/studio").json()["frame_code"].clone();
    let free = told("studio");
    assert_eq!(
        (&free["state"], &free["whip"]),
        (&"absent".into(), &Value::Null)
    );
    let video = free["accepts"]["video"].as_array().expect("codecs");
    assert!(video.contains(&"H264".into()), "{free}");

    let mut publisher = Publisher::post(&running, "/studio/whip", &[]).expect("answered");
    go_live(&mut publisher, "studio");
    let figures = until(&mut [&mut publisher], &mut [], |_, _| {
        told("studio")["tracks"][0]["frame_rate"].as_f64() > Some(10.0)
    });
    let live = told("studio");
    assert!(figures, "{live}");
    assert_eq!(live["source"]["protocol"], "whip");
    let track = &live["tracks"][0];
    assert_eq!(
        (&track["codec"], &track["width"]),
        (&"VP8".into(), &64.into())
    );
    assert_eq!(live["tracks"][1]["frame_rate"], Value::Null, "audio");
    let lines = live["whip"]["lines"].as_array().expect("lines");
    assert_eq!(lines.len(), 2);
    assert!(
        lines.iter().all(|line| line["packets"].as_u64() > Some(0)),
        "{live}"
    );
    let listed = running.admin_json("/api/v1/webrtc/publishers").body;
    assert!(listed.contains("\"studio\""), "{listed}");

    let report = format!("{}/report", publisher.peer.location);
    let json = [("Content-Type", "application/json")];
    let body = r#"{"clock_offset_ms": 1.5, "clock_error_ms": 1, "encode_ms": 2, "uplink_ms": 3}"#;
    let taken = running.request("POST", &report, &json, body);
    assert_eq!(taken.status, 200, "{}", taken.body);
    assert!(taken.body.contains("\"latency\""), "{}", taken.body);
    running.request("POST", &report, &json, "{}").problem(400);
    // Nobody draws times into the frames.
    let code = running.request("GET", "/api/v1/streams/studio/frame-code", &[], "");
    code.problem(404);
    assert_eq!(is_drawn(), false);
    let drawn = body.replace('}', r#", "drawn_ms": 17}"#);
    let taken = running.request("POST", &report, &json, &drawn);
    assert_eq!(taken.status, 200, "{}", taken.body);
    let code = running.request("GET", "/api/v1/streams/studio/frame-code", &[], "");
    assert!(code.body.contains("65536"), "{}", code.body);
    assert_eq!(is_drawn(), true);
    assert_eq!(publisher.peer.delete().status, 200);
    running.request("POST", &report, &json, body).problem(404);
    assert_eq!(told("studio")["state"], "down");
    assert_eq!(told("studio")["whip"], Value::Null);
}

#[test]
fn the_right_to_publish_opens_the_page_and_what_is_published() {
    let running = Running::with(1, |config| {
        config.auth.publish_token = Some("secret".parse().expect("a token"));
        config.auth.read_token = Some("reading".parse().expect("a token"));
    });
    let path = "/api/v1/streams/studio/publishing";
    running.request("GET", path, &[], "").problem(401);
    let status = |key: &str| {
        let key = format!("Bearer {key}");
        let response = running.request("GET", path, &[("Authorization", &key)], "");
        response.status
    };
    assert_eq!(
        [status("secret"), status("reading"), status("wrong")],
        [200, 200, 401]
    );
    // The page itself shows nothing without the key, and asks for it.
    let page = running.request("GET", "/studio/publish", &[], "");
    assert_eq!(page.status, 200);
    assert!(page.body.contains("publish.js"), "{}", page.body);
}
