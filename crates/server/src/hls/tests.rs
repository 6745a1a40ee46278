use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use glassline_config::{Config, Secret};
use glassline_hub::StreamName;
use glassline_ingest::SourceSpec;
use glassline_media::{Codec, Track};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::OnceCell;

use crate::Server;

const PATIENCE: Duration = Duration::from_secs(20);

/// An answer as it came.
#[derive(Debug)]
struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Answer {
    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).expect("text")
    }

    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().filter_map(|it| it.split_once(':'));
        let found = lines.find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(found.1.trim())
    }
}

/// A server with the demo as its stream, and a client of it.
struct Scene {
    server: Server,
}

impl Scene {
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        let mut config = Config {
            shards: Some(1),
            ..Config::default()
        };
        config.http.address = free;
        config.media.address = free;
        config.admin.address = free;
        config.rtsp.address = None;
        config.quic.address = None;
        change(&mut config);
        let server = Server::start(config, vec![SourceSpec::demo()]).await;
        Self {
            server: server.expect("free ports"),
        }
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("http", path, "").await
    }

    async fn ask(&self, listener: &str, path: &str, headers: &str) -> Answer {
        let listeners = self.server.listeners().iter();
        let mut found = listeners.filter(|(name, _)| *name == listener);
        let address = found.next().expect("a listener").1;
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        let read = stream.read_to_end(&mut answer);
        let read = tokio::time::timeout(PATIENCE, read).await;
        read.expect("an answer in time").expect("an answer");
        let end = answer.windows(4).position(|it| it == b"\r\n\r\n");
        let end = end.expect("the end of the header");
        let body = answer.split_off(end + 4);
        let head = String::from_utf8(answer).expect("text");
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok());
        Answer {
            status: status.expect("a status"),
            head,
            body,
        }
    }

    /// Returns the paths of the playlists in the Multivariant Playlist, that of video first.
    async fn playlists(&self, query: &str) -> Vec<String> {
        let index = self.get(&format!("/demo/hls/index.m3u8{query}")).await;
        assert_eq!(index.status, 200, "{}", index.text());
        assert_eq!(index.header("cache-control"), Some("no-store"));
        let text = index.text().to_owned();
        let video = text.lines().filter(|it| !it.starts_with('#'));
        let audio = text.split("URI=\"").skip(1);
        let audio = audio.filter_map(|it| it.split('"').next());
        let all = video.chain(audio);
        all.map(|uri| format!("/demo/hls/{uri}")).collect()
    }

    async fn metric(&self, name: &str) -> String {
        let metrics = self.ask("admin", "/metrics", "").await;
        let mut lines = metrics.text().lines();
        let found = lines.find_map(|it| it.strip_prefix(name)?.strip_prefix(' '));
        found.unwrap_or_else(|| panic!("{name}")).trim().to_owned()
    }
}

/// Returns the path of `uri` in the playlist at `playlist`.
fn joined(playlist: &str, uri: &str) -> String {
    let base = playlist.split('?').next().expect("a path");
    let folder = base.rsplit_once('/').expect("a folder").0;
    match uri.strip_prefix("../") {
        Some(uri) => format!("{}/{uri}", folder.rsplit_once('/').expect("a folder").0),
        None => format!("{folder}/{uri}"),
    }
}

/// Returns the value of an attribute of the last line that begins with `tag`.
fn last<'a>(text: &'a str, tag: &str, attribute: &str) -> &'a str {
    let line = text.lines().rfind(|it| it.starts_with(tag)).expect(tag);
    let (_, value) = line.split_once(&format!("{attribute}=")).expect(attribute);
    let value = value.strip_prefix('"').unwrap_or(value);
    value.split(['"', ',']).next().expect("a value")
}

/// Returns number of the open segment and of its parts.
fn end(text: &str) -> (u64, usize) {
    let first = text
        .lines()
        .find_map(|it| it.strip_prefix("#EXT-X-MEDIA-SEQUENCE:"));
    let first: u64 = first.expect("a number").parse().expect("a number");
    let complete = text.matches("#EXTINF").count() as u64;
    let open = text.rsplit("#EXTINF").next().unwrap_or_default();
    (first + complete, open.matches("#EXT-X-PART:").count())
}

/// Returns the types of the boxes of a file.
fn boxes(mut bytes: &[u8]) -> Vec<String> {
    let mut types = Vec::new();
    while let Some((head, _)) = bytes.split_at_checked(8) {
        let size = u32::from_be_bytes(head[..4].try_into().expect("four bytes")) as usize;
        types.push(String::from_utf8_lossy(&head[4..]).into_owned());
        bytes = bytes.get(size..).expect("a whole box");
    }
    assert!(bytes.is_empty(), "{types:?}");
    types
}

#[tokio::test(flavor = "multi_thread")]
async fn a_player_follows_a_stream_part_by_part() {
    let scene = Scene::start(|_| {}).await;
    let playlists = scene.playlists("").await;
    assert!(playlists.len() >= 2, "video and audio: {playlists:?}");
    for path in &playlists {
        let mut playlist = scene.get(path).await;
        assert_eq!(playlist.status, 200, "{}", playlist.text());
        assert_eq!(playlist.header("cache-control"), Some("public, max-age=1"));
        let text = playlist.text().to_owned();
        let map = scene
            .get(&joined(path, last(&text, "#EXT-X-MAP", "URI")))
            .await;
        assert_eq!(boxes(&map.body), ["ftyp", "moov"]);
        let segment = text.lines().find(|it| !it.starts_with('#'));
        let segment = scene.get(&joined(path, segment.expect("a segment"))).await;
        let kinds = boxes(&segment.body);
        assert_eq!(kinds.first().map(String::as_str), Some("styp"));
        assert_eq!(segment.status, 200);
        let kept = segment.header("cache-control");
        assert_eq!(kept, Some("public, max-age=3600, immutable"));
        for _ in 0..12 {
            let (segment, parts) = end(playlist.text());
            let hint = last(playlist.text(), "#EXT-X-PRELOAD-HINT", "URI").to_owned();
            let next = format!("{path}?_HLS_msn={segment}&_HLS_part={parts}");
            let hinted = joined(path, &hint);
            let (one, other, part) =
                tokio::join!(scene.get(&next), scene.get(&next), scene.get(&hinted));
            assert_eq!(one.status, 200, "{}", one.text());
            assert_eq!(one.header("cache-control"), Some("public, max-age=12"));
            // On a busy machine, one of them may have a further part.
            let is_one_state = end(one.text()) == end(other.text());
            let is_one_copy = one.body == other.body;
            assert!(
                is_one_copy || !is_one_state,
                "a cache answers with one copy"
            );
            assert!(
                one.text().contains(&format!("URI=\"{hint}\"")),
                "{}",
                one.text()
            );
            assert_eq!(part.status, 200);
            assert!(boxes(&part.body).ends_with(&["moof".to_owned(), "mdat".to_owned()]));
            let (now, count) = end(one.text());
            assert!(now > segment || now == segment && count > parts);
            playlist = one;
        }
    }
    let row = "glassline_viewers{stream=\"demo\",protocol=\"hls\"}";
    assert_eq!(scene.metric(row).await, "1");
    assert_eq!(scene.metric("glassline_hls_streams").await, "1");
    let viewers = scene.ask("admin", "/api/v1/overview", "").await;
    assert!(viewers.text().contains("\"hls\":1"), "{}", viewers.text());
    scene.server.shutdown(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_answer_as_the_handler_before_them_does() {
    let scene = Scene::start(|_| {}).await;
    let playlist = scene.playlists("").await.remove(0);
    let text = scene.get(&playlist).await.text().to_owned();
    let segment = text.lines().find(|it| !it.starts_with('#'));
    let segment = joined(&playlist, segment.expect("a segment"));
    let folder = segment.rsplit_once('/').expect("a folder").0;
    let tag = last(&text, "#EXT-X-MAP", "URI").rsplit('/').next();
    let known = format!("If-None-Match: \"{}\"\r\n", tag.expect("a name"));
    for (path, headers, status) in [
        (segment.clone(), "", 200),
        (
            joined(&playlist, last(&text, "#EXT-X-MAP", "URI")),
            &*known,
            304,
        ),
        (format!("{folder}/s1.m4s"), "", 404),
        (format!("{folder}/s1.m4s"), "Accept: text/html\r\n", 404),
        (format!("{playlist}?_HLS_part=1"), "", 400),
        (playlist.replace(".m3u8", ".mpd"), "", 404),
        (segment.clone(), "Origin: https://example.com\r\n", 403),
    ] {
        // An encoded name is read by routes alone.
        let by_routes = path.replacen("/demo/", "/%64emo/", 1);
        let direct = scene.ask("http", &path, headers).await;
        let routed = scene.ask("http", &by_routes, headers).await;
        let lines = |it: &Answer| {
            // Routes count the body that an answer lacks, as one of no bytes.
            let own = ["date:", "content-length: 0"];
            let lines = it
                .head
                .lines()
                .filter(|it| !own.iter().any(|own| it.starts_with(own)));
            let mut lines: Vec<_> = lines.map(str::to_owned).collect();
            lines.sort();
            lines
        };
        assert_eq!(direct.status, status, "{path}: {}", direct.head);
        assert_eq!(lines(&direct), lines(&routed), "{path}");
        assert_eq!(direct.body, routed.body, "{path}");
    }
    scene.server.shutdown(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_that_no_playlist_leads_to_are_refused_with_a_reason() {
    let scene = Scene::start(|_| {}).await;
    let playlists = scene.playlists("").await;
    let path = &playlists[0];
    let playlist = scene.get(path).await;
    let (segment, _) = end(playlist.text());
    let asked = |query: String| format!("{path}?{query}");
    for (query, status, told) in [
        ("_HLS_part=1".to_owned(), 400, "_HLS_part needs _HLS_msn"),
        ("_HLS_msn=x".to_owned(), 400, "_HLS_msn=x"),
        ("_HLS_skip=NO".to_owned(), 400, "_HLS_skip=NO"),
        (format!("_HLS_msn={}", segment + 9), 400, "more than two"),
    ] {
        let answer = scene.get(&asked(query)).await;
        assert_eq!(answer.status, status, "{}", answer.text());
        assert!(answer.text().contains(told), "{}", answer.text());
    }
    let hint = last(playlist.text(), "#EXT-X-PRELOAD-HINT", "URI");
    let folder = joined(path, hint);
    let folder = folder.rsplit_once('/').expect("a folder").0;
    for file in ["p9999999999999.m4s", "s1.m4s", "x1.m4s", "i1.mp4"] {
        let answer = scene.get(&format!("{folder}/{file}")).await;
        assert_eq!(answer.status, 404, "{file}: {}", answer.text());
        assert_eq!(answer.header("cache-control"), Some("public, max-age=1"));
    }
    let nobody = scene.get("/nobody/hls/index.m3u8").await;
    assert_eq!(nobody.status, 404, "{}", nobody.text());
    let stream = scene
        .server
        .hub()
        .create(StreamName::parse("old").expect("a name"));
    let stream = stream.expect("room");
    let tracks = vec![
        Track::new(Codec::Mpeg4Visual),
        Track::audio(Codec::MpegAudio, 2),
    ];
    let _publisher = stream.publish(tracks, Instant::now());
    let old = scene.get("/old/hls/index.m3u8").await;
    assert_eq!(old.status, 404, "{}", old.text());
    let told = "MPEG-4 visual and MPEG audio, and HLS carries H.264";
    assert!(old.text().contains(told), "{}", old.text());
    scene.server.shutdown(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_playlist_goes_compressed_and_only_when_it_has_changed() {
    let scene = Scene::start(|_| {}).await;
    let playlists = scene.playlists("").await;
    let (segment, parts) = end(scene.get(&playlists[0]).await.text());
    let next = format!("{}?_HLS_msn={segment}&_HLS_part={parts}", playlists[0]);
    let ask = |headers: &'static str| scene.ask("http", &next, headers);
    let (plain, packed) = tokio::join!(ask(""), ask("Accept-Encoding: gzip\r\n"));
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(packed.header("content-encoding"), Some("gzip"));
    let vary = packed.header("vary").unwrap_or_default();
    assert!(vary.contains("accept-encoding"), "{vary}");
    let mut unpacked = String::new();
    let mut decoder = flate2::read::GzDecoder::new(&packed.body[..]);
    std::io::Read::read_to_string(&mut decoder, &mut unpacked).expect("gzip");
    assert_eq!(unpacked, plain.text());
    assert!(packed.body.len() * 2 < plain.body.len());
    let map = joined(&playlists[0], last(plain.text(), "#EXT-X-MAP", "URI"));
    let whole = scene.get(&map).await;
    let tag = whole.header("etag").expect("a tag");
    let known = format!("If-None-Match: {tag}\r\n");
    assert_eq!(scene.ask("http", &map, &known).await.status, 304);
    scene.server.shutdown(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_stands_for_the_right_until_it_ends() {
    let scene = Scene::start(|config| {
        config.auth.read_token = Secret::new("read-0123456789").ok();
    })
    .await;
    assert_eq!(scene.get("/demo/hls/index.m3u8").await.status, 401);
    let playlists = scene.playlists("?token=read-0123456789").await;
    let path = &playlists[0];
    let (pass, shown) = path.split_once("?").expect("a query");
    assert_eq!(shown, "token=read-0123456789");
    let playlist = scene.get(pass).await;
    assert_eq!(playlist.status, 200, "{}", playlist.text());
    assert!(!playlist.text().contains("token"), "{}", playlist.text());
    let map = joined(pass, last(playlist.text(), "#EXT-X-MAP", "URI"));
    assert_eq!(scene.get(&map).await.status, 200);
    // A pass for files opens no playlist, and none opens another stream or lasts for ever.
    let of_files = map.split('/').nth(3).expect("a pass");
    let name = pass.rsplit('/').next().expect("a name");
    let kept = pass.split('/').nth(3).expect("a pass");
    for (path, status) in [
        (format!("/demo/hls/{of_files}/{name}"), 401),
        (format!("/demo/hls/P1.aaaa/{name}"), 401),
        (format!("/other/hls/{kept}/{name}"), 401),
        (map.replace(of_files, "F1.aaaa"), 401),
        (format!("/demo/hls/P1.aaaa/{name}?token=wrong"), 401),
        (
            format!("/demo/hls/P1.aaaa/{name}?token=read-0123456789"),
            200,
        ),
    ] {
        let answer = scene.get(&path).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text());
    }
    // No cache gives what a header opened to others.
    let shown = "Authorization: Bearer read-0123456789\r\n";
    for path in [
        format!("/demo/hls/P1.aaaa/{name}"),
        map.replace(of_files, "F1.aaaa"),
    ] {
        let answer = scene.ask("http", &path, shown).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let kept = answer.header("cache-control").expect("a rule");
        assert!(kept.starts_with("private, "), "{path}: {kept}");
        let known = answer.header("etag").expect("a tag").to_owned();
        let again = format!("{shown}If-None-Match: {known}\r\n");
        let kept = scene.ask("http", &path, &again).await;
        let kept = kept.header("cache-control").expect("a rule").to_owned();
        assert!(kept.starts_with("private, "), "{path}: {kept}");
    }
    scene.server.shutdown(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_right_to_watch_live_opens_nothing_of_the_past() {
    let scene = Scene::start(|config| {
        config.auth.read_token = Secret::new("read-0123456789").ok();
        config.auth.publish_token = Secret::new("publish-0123456789").ok();
    })
    .await;
    let playlists = scene.playlists("?token=read-0123456789").await;
    let live = playlists[0].split('/').nth(3).expect("a pass");
    let files = scene.get(&playlists[0]).await;
    let files = joined(&playlists[0], last(files.text(), "#EXT-X-MAP", "URI"));
    let files = files.split('/').nth(3).expect("a pass").to_owned();
    let span = "start=2026-11-30T00:00:00Z&duration=60";
    for pass in [live, &files, "R1.aaaa"] {
        for path in ["dvr.m3u8?", &format!("vod.m3u8?{span}&"), "past/i1.mp4?"] {
            let shown = format!("/demo/hls/{pass}/{path}token=read-0123456789");
            assert_eq!(scene.get(&shown).await.status, 401, "{shown}");
            // Whoever may watch recordings learns that there are none.
            let shown = format!("/demo/hls/{pass}/{path}token=publish-0123456789");
            assert_eq!(scene.get(&shown).await.status, 404, "{shown}");
        }
    }
    for path in ["dvr.m3u8?", &format!("vod.m3u8?{span}&")] {
        let read = format!("/demo/hls/{path}token=read-0123456789");
        assert_eq!(scene.get(&read).await.status, 401, "{read}");
    }
    scene.server.shutdown(PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_nobody_asks_for_is_dropped() {
    let scene = Scene::start(|config| config.hls.idle_s = 1).await;
    assert_eq!(scene.metric("glassline_hls_streams").await, "0");
    scene.playlists("").await;
    assert_eq!(scene.metric("glassline_hls_streams").await, "1");
    let dropped = async {
        while scene.metric("glassline_hls_streams").await != "0" {
            tokio::task::yield_now().await;
        }
    };
    let dropped = tokio::time::timeout(PATIENCE, dropped).await;
    dropped.expect("nobody asks");
    assert_eq!(scene.metric("glassline_hls_streams_begun_total").await, "1");
    scene.server.shutdown(PATIENCE).await;
}

/// A cache of many clients: it obeys `Cache-Control`, and asks once for what several want at a time.
#[derive(Default)]
struct Cache(Mutex<HashMap<String, Arc<OnceCell<Kept>>>>);

struct Kept {
    until: Instant,
    text: Arc<str>,
}

impl Cache {
    async fn get(&self, scene: &Scene, path: &str) -> Arc<str> {
        let place = {
            let mut all = self.0.lock().expect("nobody panics");
            let place = all.entry(path.to_owned()).or_default();
            if place.get().is_some_and(|it| it.until < Instant::now()) {
                *place = Arc::default();
            }
            Arc::clone(place)
        };
        let asked = place.get_or_init(|| async {
            let answer = scene.get(path).await;
            assert_eq!(answer.status, 200, "{path}");
            let kept = answer.header("cache-control").expect("a rule");
            let seconds = kept.strip_prefix("public, max-age=").expect(path);
            let seconds = seconds.split(',').next().and_then(|it| it.parse().ok());
            Kept {
                until: Instant::now() + Duration::from_secs(seconds.expect(kept)),
                text: String::from_utf8_lossy(&answer.body).into(),
            }
        });
        Arc::clone(&asked.await.text)
    }

    /// Follows a playlist as a player does, part by part.
    async fn follow(&self, scene: &Scene, path: &str) {
        let mut text = self.get(scene, path).await;
        for _ in 0..12 {
            let (segment, parts) = end(&text);
            let hint = joined(path, last(&text, "#EXT-X-PRELOAD-HINT", "URI"));
            let next = format!("{path}?_HLS_msn={segment}&_HLS_part={parts}");
            let (newer, _) = tokio::join!(self.get(scene, &next), self.get(scene, &hint));
            text = newer;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_cache_the_number_of_viewers_costs_the_server_nothing() {
    let scene = Scene::start(|_| {}).await;
    let path = scene.playlists("").await.remove(0);
    let mut requests = Vec::new();
    for viewers in [1, 40] {
        let count = async || {
            let mut sum = 0;
            for name in ["playlists", "files"] {
                let name = format!("glassline_hls_{name}_total");
                sum += scene.metric(&name).await.parse::<u64>().expect("a number");
            }
            sum
        };
        let (cache, before) = (Cache::default(), count().await);
        join_all((0..viewers).map(|_| cache.follow(&scene, &path))).await;
        requests.push(count().await - before);
    }
    let [one, many] = requests[..] else {
        panic!("two loads");
    };
    assert!(
        one >= 25,
        "a playlist, and twelve times a part of it: {one}"
    );
    assert!(many <= one + 4, "40 viewers: {many} requests, one: {one}");
    scene.server.shutdown(PATIENCE).await;
}
