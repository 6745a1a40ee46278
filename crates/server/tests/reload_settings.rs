//! Keys of the configuration that change while the server runs.

use std::time::{Duration, Instant};

use glassline_config::Config;
use glassline_media::Kind;
use serde_json::{Value, json};

use crate::peer::{Peer, SOON, live};
use crate::reload::Folder;
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};
use crate::sources::{eventually, is_closed};

/// A server that was started with a file.
fn serve(folder: &Folder, text: &str) -> Running {
    let file = folder.write("glassline.yml", text);
    let loaded = Config::load(&file).expect("a configuration");
    Running::with(2, |config| {
        config.auth = loaded.auth;
        config.files = loaded.files;
    })
}

/// Writes the file, has it read again over the API, and returns the result: of this reading, or of
/// the check every 5 s if that came between.
fn reload(running: &Running, folder: &Folder, text: &str) -> Value {
    let number = |reading: &Value| reading["number"].as_u64().unwrap_or(0);
    let before = readings(running).iter().map(number).max().unwrap_or(0);
    folder.write("glassline.yml", text);
    let answer = running.admin_post("/api/v1/reloads");
    assert_eq!(answer.status, 200, "{}", answer.body);
    let later = readings(running).into_iter();
    let first = later.filter(|it| number(it) > before).min_by_key(number);
    first.unwrap_or_else(|| panic!("no reading after {before}: {}", answer.body))
}

/// Returns the readings of the configuration that the server lists, the newest first.
fn readings(running: &Running) -> Vec<Value> {
    let list = running.admin("/api/v1/reloads").json();
    list["reloads"].as_array().cloned().expect("a list")
}

/// Viewers while many reloads happen, and the time for which they are looked at.
const VIEWERS: usize = 8;
const PHASE: Duration = Duration::from_secs(3);

/// Returns the longest time without a video packet of any viewer since `begin`.
fn longest_gap(peers: &[Peer<'_>], begin: Instant) -> Duration {
    let of_peer = |peer: &Peer<'_>| {
        let arrivals = peer.of(Kind::Video).map(|it| it.at);
        let arrivals: Vec<_> = arrivals.filter(|at| *at >= begin).collect();
        assert!(arrivals.len() > 2, "media goes on");
        let gaps = arrivals.windows(2).map(|pair| pair[1] - pair[0]);
        gaps.max().unwrap_or_default()
    };
    peers.iter().map(of_peer).max().unwrap_or_default()
}

#[test]
fn keys_of_every_kind_are_put_in_force_and_viewers_stay() {
    let folder = Folder::new("keys");
    let running = serve(&folder, "limits: {viewers: 50}\n");
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let mut peer = Peer::joined(&running);
    let before = peer.of(Kind::Video).count();

    let changed = "limits: {viewers: 1, rooms: 2}\n\
         cors: {origins: ['https://shop.example']}\n\
         http: {address: '127.0.0.1:9', hosts: [media.example]}\n\
         webrtc: {lag_ms: 10000, ice_servers: [{url: 'stun:stun.example:3478'}]}\n\
         media: {advertise: [127.0.0.1]}\n\
         auth: {publish_token: first-token-of-publishers}\n\
         shards: 7\n";
    let answer = reload(&running, &folder, changed);
    assert_eq!(
        (&answer["cause"], &answer["outcome"]),
        (&json!("api"), &json!("applied"))
    );
    let restart = json!(["http.address", "shards"]);
    assert_eq!(answer["needs_restart"], restart);
    for key in [
        "limits.viewers",
        "cors.origins",
        "auth.publish_token",
        "webrtc.ice_servers",
    ] {
        let keys = answer["changed"].as_array().expect("keys");
        assert!(keys.contains(&json!(key)), "{key} in {answer}");
    }
    let full = Peer::of_stream(&running, STREAM)
        .err()
        .expect("a second viewer is one too many");
    assert_eq!(full.status, 503, "{}", full.body);
    let shown = running.admin("/api/v1/config").json();
    assert_eq!(shown["limits"]["viewers"], 1);
    assert_ne!(
        shown["http"]["address"], "127.0.0.1:9",
        "it listens where it did"
    );
    assert!(!shown.to_string().contains("first-token"), "{shown}");
    let link = running.request(
        "OPTIONS",
        "/cam/whep",
        &[("Origin", "https://shop.example")],
        "",
    );
    let head = format!("{link:?}");
    assert!(head.contains("https://shop.example"), "{head}");

    let goes_on = |peer: &Peer<'_>| peer.of(Kind::Video).count() > before + 30;
    assert!(
        peer.run_until(SOON, goes_on) && !is_closed(&peer),
        "the viewer stays"
    );
    let same = reload(&running, &folder, changed);
    assert_eq!(same["outcome"], "unchanged");
    reload(
        &running,
        &folder,
        "limits: {viewers: 50}\nwebrtc: {lag_ms: 10000}\n",
    );
    Peer::of_stream(&running, STREAM).expect("there is room again");
    let list = readings(&running);
    assert!(list.len() >= 3, "{list:?}");
    let newest = &list[0];
    assert_eq!(
        newest["needs_restart"],
        json!([]),
        "the file is as at the start"
    );
    let audit = running.admin("/api/v1/audit").json();
    assert_eq!(audit["changes"][0]["action"], "reload", "{audit}");
}

#[test]
fn delays_of_rtsp_the_media_folder_and_the_congestion_control_need_no_restart() {
    let folder = Folder::new("rtsp");
    for film in ["first/one.h264", "second/two.h264"] {
        let path = folder.0.join(film);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        folder.write(film, "no film, but a name");
    }
    let file = folder.write("glassline.yml", "rtsp: {media_folder: first}\n");
    let loaded = Config::load(&file).expect("a configuration");
    let running = Running::with(1, |config| {
        config.rtsp.media_folder = loaded.rtsp.media_folder;
        config.files = loaded.files;
    });
    let listed = || running.admin("/api/v1/files").body;
    assert!(listed().contains("one.h264"), "{}", listed());
    let answer = reload(
        &running,
        &folder,
        "rtsp: {media_folder: second, lag_ms: 700, stall_s: 4, media_clients: 3, udp: false}\n\
         quic: {congestion: cubic}\n",
    );
    let changed = [
        "quic.congestion",
        "rtsp.lag_ms",
        "rtsp.media_clients",
        "rtsp.media_folder",
        "rtsp.stall_s",
    ];
    assert_eq!(answer["changed"], json!(changed), "{answer}");
    let restart = &answer["restart"];
    assert_eq!(restart[0]["key"], "rtsp.udp", "{answer}");
    let reason = restart[0]["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("ports"), "{answer}");
    eventually("the new folder is listed", || listed().contains("two.h264"));
    assert!(!listed().contains("one.h264"), "{}", listed());
    let shown = running.admin("/api/v1/config").json();
    assert_eq!(shown["rtsp"]["lag_ms"], 700);
    assert_eq!(shown["quic"]["congestion"], "cubic");
    assert_eq!(shown["rtsp"]["udp"], true, "it does as it did");
    let none = reload(&running, &folder, "limits: {viewers: 7}\n");
    assert_eq!(
        none["needs_restart"],
        json!(["rtsp.media_folder"]),
        "{none}"
    );
}

#[test]
fn a_file_with_one_part_that_cannot_work_changes_nothing() {
    let folder = Folder::new("half");
    let running = serve(&folder, "auth: {read_token: first-token-of-readers}\n");
    let may = |token: &str| {
        let token = format!("Bearer {token}");
        running
            .request("GET", "/api/v1/streams", &[("Authorization", &token)], "")
            .status
    };
    assert_eq!(may("first-token-of-readers"), 200);
    let next = "auth: {read_token: other-token-of-readers}\n";
    for (broken, told) in [
        (
            "limits: {viewers: 0}\n",
            "glassline.yml:2:19: must be at least 1",
        ),
        (
            "hooks: [{on: [publish], url: 'https://a.example/', roots: none.pem}]\n",
            "none.pem",
        ),
        ("sources: {gate: none.h264}\n", "none.h264"),
        ("rtsp: {address: '127.0.0.1:8889'}\n", "8889"),
    ] {
        folder.write("glassline.yml", format!("{next}{broken}"));
        let answer = running.admin_post("/api/v1/reloads");
        assert_eq!(answer.status, 422, "{broken}: {}", answer.body);
        assert!(answer.body.contains(told), "{told}: {}", answer.body);
        assert!(!answer.body.contains("token-of-readers"), "{}", answer.body);
        assert_eq!(may("first-token-of-readers"), 200, "{broken}");
        assert_eq!(may("other-token-of-readers"), 401, "{broken}");
    }
    folder.write("glassline.yml", "# nothing\n");
    let answer = running.admin_post("/api/v1/reloads");
    assert!(answer.body.contains("open every stream"), "{}", answer.body);
    reload(&running, &folder, next);
    assert_eq!(may("first-token-of-readers"), 401);
    assert_eq!(may("other-token-of-readers"), 200);
    let refused = running.metric("reloads_total").into_iter();
    let refused = refused.filter(|(label, _)| label.contains("refused"));
    // The check every 5 s may have refused one, too.
    assert!(refused.map(|(_, count)| count).sum::<u64>() >= 5);
}

#[test]
fn reloads_at_the_same_time_come_one_after_the_other_and_shards_go_on() {
    let folder = Folder::new("many");
    let text =
        |viewers: usize| format!("limits: {{viewers: {viewers}}}\nwebrtc: {{lag_ms: 10000}}\n");
    let running = serve(&folder, &text(50));
    let source = Source::start(&running.stream(), Film::default());
    source.await_published(|units| units.len() > 10);
    let mut peers: Vec<_> = (0..VIEWERS).map(|_| Peer::joined(&running)).collect();
    for peer in &mut peers {
        peer.await_media();
    }
    let begin = Instant::now();
    live(&mut peers, PHASE);
    let without = longest_gap(&peers, begin);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let (running, folder) = (&running, &folder);
            scope.spawn(move || {
                for turn in 0..5 {
                    folder.write("glassline.yml", text(60 + thread * 5 + turn));
                    let answer = running.admin_post("/api/v1/reloads");
                    // Another thread may just write the file.
                    assert!(matches!(answer.status, 200 | 422), "{}", answer.body);
                }
            });
        }
        live(&mut peers, PHASE);
    });
    let with = longest_gap(&peers, begin);
    println!("longest gap without reloads {without:?}, with 15 of them {with:?}");
    assert!(!peers.iter().any(is_closed));
    // A busy machine has gaps of its own; docs/benchmarks/reload.md has figures.
    let most = 4 * without + Duration::from_secs(2);
    assert!(with < most, "{with:?} with reloads, {without:?} without");
    reload(&running, &folder, &text(77));
    eventually("the last file", || {
        running.admin("/api/v1/config").json()["limits"]["viewers"] == 77
    });
}
