//! Rights to join rooms, to hear them, and to know of them.

use std::time::{Duration, Instant};

use glassline_access::auth::{Account, Name, Pattern};
use glassline_config::{Config, Origin, Secret};

use crate::peer::SDP;
use crate::rooms::{join, others, you};
use crate::running::{Running, STREAM};

const TOKEN: (&str, &str) = ("Authorization", "Bearer speak-1234567");
/// Authorization of user `ann` with password `pw`; the next is that of `bob`.
const ANN: (&str, &str) = ("Authorization", "Basic YW5uOnB3");
const BOB: (&str, &str) = ("Authorization", "Basic Ym9iOnB3");

#[test]
fn joining_takes_the_right_to_publish_and_to_read() {
    let account = |name: &str, read: &str| {
        let pattern = |text: &str| vec![Pattern::parse(text).expect("a pattern")];
        Account {
            read: pattern(read),
            publish: pattern("call~team~*"),
            ..Account::new(Name::parse(name).expect("a name"), "pw", &[5; 16])
        }
    };
    let running = Running::with(1, |config| {
        config.auth.publish_token = Secret::new("speak-1234567").ok();
        config.auth.users = vec![account("ann", "call~*"), account("bob", "cam")];
    });
    let refused = |room: &str, headers: &[(&str, &str)], status: u16| {
        let refused = join(&running, room, headers).err().expect("refused");
        refused.problem(status)["detail"].to_string()
    };
    assert!(refused("team", &[], 401).contains("publish token"));
    let wrong = ("Authorization", "Bearer wrong");
    refused("team", &[wrong], 401);
    join(&running, "team", &[ANN]).expect("she may do both");
    assert!(refused("other", &[ANN], 403).contains("`publish` list"));
    assert!(refused("team", &[BOB], 403).contains("`read` list"));
    let peer = join(&running, "other", &[TOKEN]).expect("all rooms");
    // The session's name is the right to the rest.
    assert_eq!(running.get(&peer.location).status, 200);
    assert_eq!(peer.delete().status, 200);
    running.get("/call/team").problem(401);
    let page = running.request("GET", "/call/team", &[ANN], "");
    assert_eq!(page.status, 200);
}

#[test]
fn where_nothing_is_asked_for_only_this_machines_own_pages_join() {
    let running = Running::start(1);
    assert_eq!(running.get("/call").status, 200);
    assert_eq!(running.get("/call/team").status, 200);
    join(&running, "team", &[]).expect("no page");
    for site in ["https://example.org", "http://test", "null"] {
        let refused = join(&running, "team", &[("Origin", site)]).err();
        let detail = refused.expect("any page could listen").problem(403)["detail"].to_string();
        assert!(detail.contains("cors.origins"), "{detail}");
    }
    // A listed site may read, and still needs a token to speak.
    let running = Running::with(1, |config| {
        let site = "https://example.org".to_owned();
        config.cors.origins = vec![Origin::try_from(site).expect("an origin")];
    });
    let refused = join(&running, "team", &[("Origin", "https://example.org")]).err();
    let detail = refused.expect("it could speak").problem(403)["detail"].to_string();
    assert!(detail.contains("auth.publish_token"), "{detail}");
    let proxied = join(&running, "team", &[("X-Forwarded-For", "192.0.2.1")]).err();
    proxied.expect("a stranger's, by a proxy").problem(403);
}

#[test]
fn with_a_publish_token_alone_nobody_lists_or_hears_a_room_without_the_token() {
    let running = Running::with(1, |config| {
        config.auth.publish_token = Secret::new("speak-1234567").ok();
    });
    let _cam = running.stream();
    let peer = join(&running, "team", &[TOKEN]).expect("she may");
    let voice = format!("call~team~{}", you(&peer));
    let listed = |headers: &[(&str, &str)]| {
        let listed = running
            .request("GET", "/api/v1/streams", headers, "")
            .json();
        let streams = listed["streams"].as_array().expect("a list").iter();
        let names = streams.map(|it| it["name"].as_str().expect("a name").to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), [STREAM]);
    assert_eq!(listed(&[TOKEN]).len(), 2);
    running
        .get(&format!("/api/v1/streams/{voice}"))
        .problem(401);
    let whep = format!("/{voice}/whep");
    let signaling = format!("/doSignaling?stream={voice}");
    for path in [&whep, &signaling] {
        let offer = running.request("POST", path, &[SDP], "v=0\r\n");
        offer.problem(401);
    }
    let uri = format!("rtsp://{}/{voice}", running.rtsp());
    let describe = format!("DESCRIBE {uri} RTSP/1.0\r\nCSeq: 1\r\n\r\n");
    let answer = running.raw_rtsp(&describe);
    assert!(answer.contains(" 401 "), "{answer}");
    // Metrics name no room.
    let metrics = running.admin("/metrics").body;
    assert!(!metrics.contains("call~team"), "{metrics}");
    assert!(
        metrics.contains("glassline_stream_live{stream=\"call~*\"} 1"),
        "{metrics}"
    );
}

#[test]
fn a_removed_user_is_put_out_of_the_room() {
    let account = |name: &str| {
        let pattern = vec![Pattern::parse("call~team~*").expect("a pattern")];
        Account {
            read: pattern.clone(),
            publish: pattern,
            ..Account::new(Name::parse(name).expect("a name"), "pw", &[5; 16])
        }
    };
    let folder = std::env::temp_dir().join(format!("glassline-room-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let write = |accounts: &[Account]| {
        let entries: String = accounts.iter().map(Account::to_yaml).collect();
        std::fs::write(folder.join("users.yml"), entries).expect("written");
    };
    write(&[account("ann"), account("bob")]);
    let file = folder.join("glassline.yml");
    std::fs::write(&file, "auth:\n  users_file: users.yml\n").expect("written");
    let loaded = Config::load(&file).expect("a configuration");
    let running = Running::with(1, |config| {
        config.auth = loaded.auth;
        config.files = loaded.files;
    });
    let ann = join(&running, "team", &[ANN]).expect("she may");
    let bob = join(&running, "team", &[BOB]).expect("he may");
    assert_eq!(
        others(&bob, None)["others"].as_array().map(Vec::len),
        Some(1)
    );
    write(&[account("bob")]);
    running.reload();
    let end = Instant::now() + Duration::from_secs(60);
    while others(&bob, None)["others"].as_array().map(Vec::len) != Some(0) {
        assert!(Instant::now() < end, "ann has left the room");
        std::thread::sleep(Duration::from_millis(50));
    }
    running.get(&ann.location).problem(404);
    std::fs::remove_dir_all(folder).expect("there");
}
