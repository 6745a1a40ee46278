//! Viewers of a cluster are sent to the server that has their stream: real processes and players.

use std::process::{Command, Stdio};

use libtest_mimic::Failed;

use crate::browser;
use crate::call::silent_call;
use crate::cluster::{Watching, publish, wait_for_each_other, wait_for_owner};
use crate::http::{self, Answer, exchange, request};
use crate::nats::Nats;
use crate::peers::{Peer, Test};
use crate::ports::free_port;
use crate::process::{PATIENCE, Running, eventually};
use crate::server::{Server, run_to_end};
use crate::signalling::chromium_offer;
use crate::webdriver::Browser;

pub(crate) const TESTS: &[Test] = &[
    Test::of(&viewers_are_sent_to_the_server_that_has_the_stream).needs(&[Peer::Nats]),
    Test::of(&a_burst_of_viewers_stays_within_the_limit_of_each_server)
        .needs(&[Peer::Nats])
        .alone(),
    Test::of(&a_player_of_rtsp_is_sent_away_by_a_drain).needs(&[Peer::Nats]),
    Test::of(&a_ticket_opens_one_stream_and_its_session_is_found_from_any_server)
        .needs(&[Peer::Nats]),
    Test::of(&a_ticket_does_not_let_in_whom_an_operator_keeps_away).needs(&[Peer::Nats]),
    Test::of(&a_room_is_at_one_server_and_again_at_another_when_that_is_lost).needs(&[Peer::Nats]),
    Test::of(&the_page_of_one_server_plays_from_another).needs(&[Peer::Nats, Peer::Chromium]),
];

const TOKEN: &str = "look-at-everything";

/// How a server of these tests is reached by viewers.
#[derive(Clone, Copy)]
enum Public {
    Everywhere,
    Nowhere,
}

/// A server of the cluster that asks viewers for a token, and takes `per_stream` of a stream.
fn node(name: &str, nats: &Nats, public: Public, per_stream: u32) -> Result<Server, String> {
    let [http, rtsp] = [free_port()?, free_port()?];
    let public = match public {
        Public::Everywhere => {
            format!("{{http: 'http://127.0.0.1:{http}', rtsp: 'rtsp://127.0.0.1:{rtsp}'}}")
        }
        Public::Nowhere => "{}".to_owned(),
    };
    let yaml = format!(
        "auth: {{read_token: {TOKEN}}}\n\
         cluster: {{name: {name}, secret: shared-by-all, nats: '{}', linger_s: 2, public: {public}, \
         viewers_per_stream: {per_stream}}}\n",
        nats.url()
    );
    Server::configured_on([http, rtsp], &yaml, &[])
}

fn pulls(server: &Server) -> Result<f64, String> {
    server.metric("glassline_cluster_pulls_total")
}

fn redirected(server: &Server) -> Result<f64, String> {
    server.metric("glassline_cluster_viewers_redirected_total")
}

fn is(found: f64, expected: u32, what: &str) -> Result<(), String> {
    match (found - f64::from(expected)).abs() < f64::EPSILON {
        true => Ok(()),
        false => Err(format!("{found} {what}, not {expected}")),
    }
}

/// Runs a player to its end, which must be a good one.
fn plays(program: &str, arguments: &[&str]) -> Result<(), String> {
    let mut command = Command::new("timeout");
    command.args(["40", program]).args(arguments);
    let ended = command.stdin(Stdio::null()).output();
    let ended = ended.map_err(|error| format!("{program}: {error}"))?;
    // GStreamer has seen all frames by the time it sends PAUSE, and at times fails to send that.
    let pauses = String::from_utf8_lossy(&ended.stderr).contains("gst_rtspsrc_pause");
    match ended.status.success() || pauses {
        true => Ok(()),
        false => Err(format!(
            "{program}: {}\n{}{}",
            ended.status,
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
        )),
    }
}

fn viewers_are_sent_to_the_server_that_has_the_stream() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let a = node("a", &nats, Public::Everywhere, 3)?;
    let b = node("b", &nats, Public::Everywhere, 3)?;
    let hidden = node("c", &nats, Public::Nowhere, 3)?;
    wait_for_each_other(&[&a, &b, &hidden])?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    let _door = publish(&hidden, "/door/whip")?;
    hidden.wait_for_state("door", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    wait_for_owner(&b, "door", "c")?;
    // The client keeps the token at the server that it was given for: the ticket has to do.
    let watching = Watching::join_with(&b, "cam", Some(TOKEN))?;
    watching.sees(30)?;
    let url = format!("{}?token={TOKEN}", b.rtsp_url("cam"));
    let input = ["-loglevel", "error", "-rtsp_transport", "tcp", "-i", &url];
    let output = ["-frames:v", "10", "-an", "-f", "null", "-"];
    plays("ffmpeg", &[&input[..], &output[..]].concat())?;
    let location = format!("location={url}");
    let pipeline = ["protocols=tcp", "!", "fakesink", "num-buffers=50"];
    let source = ["-q", "rtspsrc", &location];
    plays("gst-launch-1.0", &[&source[..], &pipeline[..]].concat())?;
    is(pulls(&b)?, 0, "pulls")?;
    is(redirected(&b)?, 3, "redirects")?;
    // A server without an address for viewers is pulled from.
    let door = Watching::join_with(&b, "door", Some(TOKEN))?;
    door.sees(30)?;
    is(pulls(&b)?, 1, "pulls")?;
    // Once the other server has as many viewers as it takes, the next one is served by a pull. Until
    // then those who left make room, and so one to three more are needed.
    let (mut more, mut sent) = (Vec::new(), 3);
    while pulls(&b)? < 2.0 {
        is(redirected(&b)?, sent, "redirects")?;
        sent += 1;
        if more.len() == 3 {
            return Err("a fourth viewer was sent to the server that takes 3"
                .to_owned()
                .into());
        }
        let next = Watching::join_with(&b, "cam", Some(TOKEN))?;
        next.sees(30)?;
        more.push(next);
    }
    watching.sees(30)?;
    Ok(())
}

fn a_burst_of_viewers_stays_within_the_limit_of_each_server() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let nodes = ["a", "b", "c"].map(|name| node(name, &nats, Public::Everywhere, 3));
    let [a, b, c] = nodes;
    let [a, b, c] = [a?, b?, c?];
    wait_for_each_other(&[&a, &b, &c])?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    for server in [&b, &c] {
        wait_for_owner(server, "cam", "a")?;
    }
    // All come at the same moment to the server that does not have the stream.
    let mut watching = Vec::new();
    for _ in 0..9 {
        watching.push(Watching::join_with(&b, "cam", Some(TOKEN))?);
    }
    for viewer in &watching {
        viewer.sees(30)?;
    }
    let counts = [&a, &b, &c].map(viewers_of_cam);
    let [a_count, b_count, c_count] = counts;
    match [a_count?, b_count?, c_count?] {
        [3, 3, 3] => Ok(()),
        counts => Err(format!("{counts:?} viewers at limit 3").into()),
    }
}

fn a_player_of_rtsp_is_sent_away_by_a_drain() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let a = node("a", &nats, Public::Everywhere, 200)?;
    let b = node("b", &nats, Public::Everywhere, 200)?;
    wait_for_each_other(&[&a, &b])?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    let url = format!("{}?token={TOKEN}", a.rtsp_url("cam"));
    let input = ["-loglevel", "error", "-rtsp_transport", "tcp", "-i", &url];
    let mut player = Command::new("timeout");
    player.args(["40", "ffmpeg"]).args(input);
    player.args(["-an", "-f", "null", "-"]).stdin(Stdio::null());
    let mut player = player.spawn().map_err(|error| error.to_string())?;
    eventually(PATIENCE, || match viewers_of_cam(&a)? {
        0 => Err("nobody plays".to_owned()),
        _ => Ok(()),
    })?;
    let admin = a.admin_url("");
    let drain = ["cluster", "drain", "--within", "20", "--admin", &admin];
    let (status, printed) = run_to_end(&drain)?;
    if !status.success() {
        return Err(printed.into());
    }
    // The server goes on after a drain of the API: its connections do not end with the process.
    let ended = eventually(PATIENCE, || match player.try_wait() {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("the player stays at the server that drains".to_owned()),
        Err(error) => Err(error.to_string()),
    });
    let _ = player.kill();
    let _ = player.wait();
    ended?;
    let before = redirected(&a)?;
    let output = ["-frames:v", "10", "-an", "-f", "null", "-"];
    plays("ffmpeg", &[&input[..], &output[..]].concat())?;
    match redirected(&a)? > before {
        true => Ok(()),
        false => Err("the player was not sent to the other server"
            .to_owned()
            .into()),
    }
}

/// Returns the number of viewers of the stream `cam` at a server.
fn viewers_of_cam(server: &Server) -> Result<u64, String> {
    let answer = http::get(&server.admin_url("/api/v1/streams/cam"))?;
    let stream: serde_json::Value =
        serde_json::from_str(&answer.body).map_err(|error| error.to_string())?;
    Ok(stream["viewers"].as_u64().unwrap_or_default())
}

const SDP: (&str, &str) = ("Content-Type", "application/sdp");

/// Sends one request, and returns a redirect as it is.
fn request_here(
    method: &str,
    url: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Answer, String> {
    exchange(method, url, headers, body.into(), 0)
}

/// A page that neither server knows.
const PAGE: (&str, &str) = ("Origin", "https://page.example");

fn expect(answer: &Answer, status: u16) -> Result<(), String> {
    match answer.status == status {
        true => Ok(()),
        false => Err(format!("{answer:?}, not {status}")),
    }
}

fn location(answer: &Answer) -> Result<String, String> {
    let location = answer.header("location").map(str::to_owned);
    location.ok_or_else(|| format!("no Location: {answer:?}"))
}

fn a_ticket_opens_one_stream_and_its_session_is_found_from_any_server() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let a = node("a", &nats, Public::Everywhere, 100)?;
    let b = node("b", &nats, Public::Everywhere, 100)?;
    wait_for_each_other(&[&a, &b])?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    let _door = publish(&a, "/door/whip")?;
    a.wait_for_state("door", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    wait_for_owner(&b, "door", "a")?;
    eventually(PATIENCE, || {
        let url = b.url(&format!("/cam/whep?transcode&token={TOKEN}"));
        let answer = request_here("POST", &url, &[SDP], "v=0")?;
        expect(&answer, 307)
    })?;
    let refused = request_here("POST", &b.url("/cam/whep"), &[SDP], "v=0")?;
    expect(&refused, 401)?;
    let url = b.url(&format!("/cam/whep?transcode&token={TOKEN}"));
    let sent = location(&request_here("POST", &url, &[SDP], "v=0")?)?;
    let begin = a.url("/cam/whep?transcode&ticket=");
    if !sent.starts_with(&begin) || sent.contains(TOKEN) {
        return Err(format!("{sent} does not begin with {begin}").into());
    }
    // Neither for another stream, nor with another end.
    let (_, ticket) = sent.split_once("ticket=").ok_or("no ticket")?;
    let offer = chromium_offer()?;
    for (path, ticket) in [
        ("/door/whep", ticket.to_owned()),
        ("/cam/whep", format!("9{ticket}")),
        ("/cam/whep", String::new()),
    ] {
        let url = a.url(&format!("{path}?ticket={ticket}"));
        let answer = request("POST", &url, &[SDP], offer.as_str())?;
        if ![401, 403].contains(&answer.status) {
            return Err(format!("{url}: {answer:?}").into());
        }
        // A wrong ticket does not make it go round either.
        let elsewhere = format!("{}&token={TOKEN}", url.replace(&a.url(""), &b.url("")));
        if path == "/cam/whep" {
            let answer = request_here("POST", &elsewhere, &[SDP], &offer)?;
            expect(&answer, 201)?;
        }
    }
    // A page that came here by the redirect asks first, and may read the answer.
    let asks = [PAGE, ("Access-Control-Request-Method", "POST")];
    let preflight = request("OPTIONS", &sent, &asks, "")?;
    expect(&preflight, 204)?;
    let made = request("POST", &sent, &[SDP, PAGE], offer.as_str())?;
    expect(&made, 201)?;
    for answer in [&preflight, &made] {
        if answer.header("access-control-allow-origin") != Some(PAGE.1) {
            return Err(format!("{answer:?}").into());
        }
    }
    let session = location(&made)?;
    if !session.starts_with("/cam/whep/a.") {
        return Err(session.into());
    }
    // A load balancer gives the session's requests to any server.
    let report = b.url(&format!("{session}/clock"));
    let led = location(&request_here("GET", &report, &[], "")?)?;
    if led != a.url(&format!("{session}/clock")) {
        return Err(led.into());
    }
    expect(&request("GET", &report, &[PAGE], "")?, 200)?;
    let led = location(&request_here("DELETE", &b.url(&session), &[], "")?)?;
    expect(&request("DELETE", &led, &[], "")?, 200)?;
    let guessed = a.url("/cam/whep/a.00000000000000000000000000000000");
    expect(&request("DELETE", &guessed, &[], "")?, 401)?;
    Ok(())
}

fn a_ticket_does_not_let_in_whom_an_operator_keeps_away() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let a = node("a", &nats, Public::Everywhere, 100)?;
    let b = node("b", &nats, Public::Everywhere, 100)?;
    wait_for_each_other(&[&a, &b])?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    let _ann = call(&a, "ann")?;
    wait_for_owner(&b, "cam", "a")?;
    wait_for_owner(&b, "call~team", "a")?;
    let sent_to_a = |path: &str| {
        let url = b.url(&format!("{path}?token={TOKEN}"));
        eventually(PATIENCE, || {
            let answer = request_here("POST", &url, &[SDP], "v=0")?;
            expect(&answer, 307)?;
            location(&answer)
        })
    };
    let offer = chromium_offer()?;
    let watch = |url: &str| request("POST", url, &[SDP], offer.as_str());
    expect(&watch(&sent_to_a("/cam/whep")?)?, 201)?;
    let exclusions = a.admin_url("/api/v1/exclusions");
    let json = [("Content-Type", "application/json")];
    let made = request("POST", &exclusions, &json, r#"{"address": "127.0.0.1"}"#)?;
    expect(&made, 201)?;
    for path in ["/cam/whep", "/call/team"] {
        let answer = watch(&sent_to_a(path)?)?;
        if answer.status != 403 || !answer.body.contains("keeps you away") {
            return Err(format!("{path}: {answer:?}").into());
        }
    }
    let url = format!("{}?token={TOKEN}", b.rtsp_url("cam"));
    let input = ["-loglevel", "error", "-rtsp_transport", "tcp", "-i", &url];
    let output = ["-frames:v", "10", "-an", "-f", "null", "-"];
    match plays("ffmpeg", &[&input[..], &output[..]].concat()) {
        Err(refused) if refused.contains("403") => Ok(()),
        other => Err(format!("a player of RTSP: {other:?}").into()),
    }
}

fn call(server: &Server, name: &str) -> Result<Running, String> {
    let url = server.url("/call/team");
    let arguments = [&url, "--name", name, "--mute", "--token", TOKEN];
    Running::start(name, silent_call(&arguments))
}

/// Waits until a participant has told `times` times that `other` is there.
fn hears(participant: &Running, other: &str, times: usize) -> Result<(), String> {
    let wanted = format!("{other} is here");
    eventually(PATIENCE, || {
        let printed = participant.printed();
        match printed.lines().filter(|it| it.ends_with(&wanted)).count() >= times {
            true => Ok(()),
            false => Err(format!("not {times} times '{wanted}': {printed}")),
        }
    })
}

fn a_room_is_at_one_server_and_again_at_another_when_that_is_lost() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let a = node("a", &nats, Public::Everywhere, 100)?;
    let b = node("b", &nats, Public::Everywhere, 100)?;
    wait_for_each_other(&[&a, &b])?;
    let ann = call(&a, "ann")?;
    wait_for_owner(&b, "call~team", "a")?;
    let bob = call(&b, "bob")?;
    hears(&ann, "bob", 1)?;
    let eve = call(&b, "eve")?;
    hears(&bob, "eve", 1)?;
    let here = b.metric("glassline_rooms")?;
    is(here, 0, "rooms")?;
    a.signal("-KILL")?;
    drop(ann);
    // They join again by the server that they know, which has the room from then on.
    wait_for_owner(&b, "call~team", "b")?;
    hears(&bob, "eve", 2)?;
    drop((bob, eve));
    eventually(PATIENCE, || {
        let told = http::get_json(&b.admin_url("/api/v1/cluster"))?;
        match told["streams"].as_array().map(Vec::len) {
            Some(0) => Ok(()),
            _ => Err(told.to_string()),
        }
    })?;
    Ok(())
}

fn the_page_of_one_server_plays_from_another() -> Result<(), Failed> {
    let nats = Nats::start()?;
    let a = node("a", &nats, Public::Everywhere, 100)?;
    let b = node("b", &nats, Public::Everywhere, 100)?;
    wait_for_each_other(&[&a, &b])?;
    let _cam = publish(&a, "/cam/whip")?;
    a.wait_for_state("cam", "live")?;
    wait_for_owner(&b, "cam", "a")?;
    let browser = Browser::start_with(&["--use-fake-device-for-media-stream".to_owned()])?;
    browser.open(&b.url(&format!("/cam?token={TOKEN}")))?;
    // Reports and the clock are those of the server that sends the video.
    let done = "return glassline.state === 'live' && glassline.reports >= 3 \
                && glassline.endToEnd?.count > 0";
    let played = browser.wait_until(browser::PATIENCE, done);
    let page = browser.run("return glassline")?;
    played.map_err(|error| format!("{error}: {page}"))?;
    is(pulls(&b)?, 0, "pulls")?;
    is(redirected(&b)?, 1, "redirects")?;
    // A page that is left ends its session at the other server.
    browser.open("about:blank")?;
    eventually(PATIENCE, || {
        let entry = a.stream("cam")?;
        match entry["viewers"].as_u64() {
            Some(0) => Ok(()),
            _ => Err(format!("{entry}")),
        }
    })?;
    // The same page meets those in a room at the other server.
    let ann = call(&a, "ann")?;
    wait_for_owner(&b, "call~team", "a")?;
    browser.open(&b.url(&format!("/call/team?token={TOKEN}")))?;
    browser.wait_until(browser::PATIENCE, "return window.call !== undefined")?;
    browser.run("document.getElementById('name').value = 'bob'")?;
    browser.run("document.getElementById('dial').click()")?;
    let met = "return window.call.state === 'live' && window.call.others.size === 1";
    let met = browser.wait_until(browser::PATIENCE, met);
    met?;
    hears(&ann, "bob", 1)?;
    Ok(())
}
