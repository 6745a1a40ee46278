//! WHEP and related endpoints over plain HTTP: answers, and refusals with helpful messages.

use std::fs;
use std::path::Path;

use libtest_mimic::Failed;
use serde_json::{Value, json};

use crate::http::{Answer, request};
use crate::peers::Test;
use crate::server::Server;

const SDP: (&str, &str) = ("Content-Type", "application/sdp");
const FRAGMENT: (&str, &str) = ("Content-Type", "application/trickle-ice-sdpfrag");
const JSON: (&str, &str) = ("Content-Type", "application/json");

pub(crate) const TESTS: &[Test] = &[
    Test::of(&a_session_is_made_changed_and_deleted),
    Test::of(&other_sites_may_ask_and_read),
    Test::of(&json_offers_are_answered_too),
    Test::of(&bad_offers_are_refused_with_the_reason),
    Test::of(&bad_reports_are_refused_with_the_line),
    Test::of(&half_open_sessions_are_capped_for_each_address),
    Test::of(&the_read_token_is_asked_for),
];

/// An offer that a browser made, which is also a seed of fuzzing.
pub(crate) fn chromium_offer() -> Result<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/sdp/offer-chromium.sdp");
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// An offer with another video codec only.
const VP8_OFFER: &str = "v=0\r\no=- 1 1 IN IP4 0.0.0.0\r\ns=-\r\nt=0 0\r\n\
a=group:BUNDLE 0\r\nm=video 9 UDP/TLS/RTP/SAVPF 96\r\nc=IN IP4 0.0.0.0\r\n\
a=mid:0\r\na=recvonly\r\na=rtcp-mux\r\na=rtpmap:96 VP8/90000\r\n\
a=ice-ufrag:abcd\r\na=ice-pwd:abcdefghijklmnopqrstuvwx\r\na=setup:actpass\r\n\
a=fingerprint:sha-256 00:01:02:03:04:05:06:07:08:09:0A:0B:0C:0D:0E:0F:10:11:12:13:14:15:16:17:18:19:1A:1B:1C:1D:1E:1F\r\n";

fn demo() -> Result<Server, String> {
    let server = Server::serve(&["demo"])?;
    server.wait_for_state("demo", "live")?;
    Ok(server)
}

fn post_offer(server: &Server, offer: &str) -> Result<Answer, String> {
    request("POST", &server.url("/demo/whep"), &[SDP], offer)
}

fn a_session_is_made_changed_and_deleted() -> Result<(), Failed> {
    let server = demo()?;
    let made = post_offer(&server, &chromium_offer()?)?;
    expect(&made, 201)?;
    if !made.body.starts_with("v=0") || !made.body.contains("H264/90000") {
        return Err(format!("no H.264 answer: {}", made.body).into());
    }
    let header = |name| {
        let found = made.header(name).map(str::to_owned);
        found.ok_or_else(|| format!("no {name}: {:?}", made.headers))
    };
    let session = server.url(&header("location")?);
    let tag = header("etag")?;
    if header("accept-patch")? != FRAGMENT.1 {
        return Err(format!("Accept-Patch: {}", header("accept-patch")?).into());
    }

    let trickle = "a=mid:0\r\na=candidate:1 1 udp 2122260223 192.0.2.7 61665 typ host\r\n";
    expect(&request("PATCH", &session, &[FRAGMENT], trickle)?, 204)?;

    let restart = "a=ice-ufrag:next\r\na=ice-pwd:abcdefghijklmnopqrstuvwx\r\n";
    expect_problem(&request("PATCH", &session, &[FRAGMENT], restart)?, 428)?;
    let stale = [FRAGMENT, ("If-Match", "\"another\"")];
    expect_problem(&request("PATCH", &session, &stale, restart)?, 412)?;
    let current = [FRAGMENT, ("If-Match", tag.as_str())];
    let restarted = request("PATCH", &session, &current, restart)?;
    expect(&restarted, 200)?;
    if restarted.header("etag").is_none_or(|new| new == tag) {
        return Err(format!("the ETag must be new: {:?}", restarted.headers).into());
    }

    expect(&request("DELETE", &session, &[], "")?, 200)?;
    expect_problem(&request("DELETE", &session, &[], "")?, 404)?;
    Ok(())
}

fn other_sites_may_ask_and_read() -> Result<(), Failed> {
    let yaml = "cors: {origins: ['https://elsewhere.example']}\n";
    let server = Server::configured(yaml, &["demo"])?;
    server.wait_for_state("demo", "live")?;
    let preflight = [
        ("Origin", "https://elsewhere.example"),
        ("Access-Control-Request-Method", "POST"),
    ];
    let asked = request("OPTIONS", &server.url("/demo/whep"), &preflight, "")?;
    expect(&asked, 204)?;
    for (name, part) in [
        ("accept-post", SDP.1),
        ("access-control-allow-methods", "PATCH"),
        ("access-control-allow-headers", "If-Match"),
        ("access-control-allow-origin", "https://elsewhere.example"),
    ] {
        if !asked.header(name).is_some_and(|value| value.contains(part)) {
            return Err(format!("{name} lacks {part}: {:?}", asked.headers).into());
        }
    }
    let stranger = [("Origin", "https://another.example")];
    let refused = request("OPTIONS", &server.url("/demo/whep"), &stranger, "")?;
    expect_problem(&refused, 403)?;
    let wrong = request("PUT", &server.url("/demo/whep"), &[SDP], "v=0")?;
    expect_problem(&wrong, 405)?;
    Ok(())
}

fn json_offers_are_answered_too() -> Result<(), Failed> {
    let server = demo()?;
    let offer = json!({"type": "offer", "sdp": chromium_offer()?}).to_string();
    for path in ["/doSignaling", "/doSignaling?stream=demo"] {
        let answer = request("POST", &server.url(path), &[JSON], offer.as_str())?;
        expect(&answer, 200)?;
        let answer = answer.json()?;
        let sdp = answer["sdp"].as_str().unwrap_or_default();
        if answer["type"] != "answer" || !sdp.contains("H264/90000") {
            return Err(format!("{answer}").into());
        }
    }
    let unknown = server.url("/doSignaling?stream=nothing");
    expect_problem(&request("POST", &unknown, &[JSON], offer.as_str())?, 404)?;
    let broken = request(
        "POST",
        &server.url("/doSignaling"),
        &[JSON],
        "{\n\"type\": offer}",
    )?;
    if expect_problem(&broken, 400)?["line"] != 2 {
        return Err(format!("the line is missing: {}", broken.body).into());
    }
    Ok(())
}

fn bad_offers_are_refused_with_the_reason() -> Result<(), Failed> {
    let server = demo()?;
    let offer = chromium_offer()?;

    let malformed = format!("v=0\r\nthis is no SDP\r\n{offer}");
    let problem = expect_problem(&post_offer(&server, &malformed)?, 400)?;
    if problem["line"] != 2 {
        return Err(format!("the line is missing: {problem}").into());
    }
    expect_problem(&post_offer(&server, "")?, 400)?;
    expect_problem(
        &request("POST", &server.url("/demo/whep"), &[SDP], vec![0xff; 10])?,
        400,
    )?;

    let problem = expect_problem(&post_offer(&server, VP8_OFFER)?, 422)?;
    if !problem["detail"]
        .as_str()
        .is_some_and(|text| text.contains("VP8") && text.contains("H264"))
    {
        return Err(format!("what is offered, and what is wanted: {problem}").into());
    }

    let unknown = server.url("/nothing/whep");
    let problem = expect_problem(&request("POST", &unknown, &[SDP], offer.as_str())?, 404)?;
    if !problem["detail"]
        .as_str()
        .is_some_and(|text| text.contains("nothing"))
    {
        return Err(format!("the stream's name is missing: {problem}").into());
    }
    expect_problem(
        &request("POST", &server.url("/demo/whep"), &[JSON], offer.as_str())?,
        415,
    )?;
    let huge = "a=x\r\n".repeat(100_000);
    let answer = post_offer(&server, &huge)?;
    if answer.status != 413 && answer.status != 400 {
        return Err(format!("500 kB of offer: {answer:?}").into());
    }
    let sessions = server.status()?["sessions"].clone();
    if sessions != 0 {
        return Err(format!("refused offers left {sessions} sessions").into());
    }
    Ok(())
}

fn bad_reports_are_refused_with_the_line() -> Result<(), Failed> {
    let server = demo()?;
    let made = post_offer(&server, &chromium_offer()?)?;
    let location = made.header("location").unwrap_or_default().to_owned();
    let report = server.url(&format!("{location}/report"));
    let broken = request("POST", &report, &[JSON], "{\n\n\"offset_ns\": soon}")?;
    if expect_problem(&broken, 400)?["line"] != 3 {
        return Err(format!("the line is missing: {}", broken.body).into());
    }
    let problem = expect_problem(
        &request("POST", &report, &[JSON], "{\"offset_ns\": 1}")?,
        400,
    )?;
    if !problem["detail"]
        .as_str()
        .is_some_and(|text| text.contains("error_ns"))
    {
        return Err(format!("the field is missing: {problem}").into());
    }
    let nobody = server.url("/demo/whep/0123456789abcdef/report");
    expect_problem(&request("POST", &nobody, &[JSON], "{}")?, 404)?;
    Ok(())
}

fn half_open_sessions_are_capped_for_each_address() -> Result<(), Failed> {
    let server = Server::configured("limits: {half_open_per_address: 3}", &["demo"])?;
    server.wait_for_state("demo", "live")?;
    let offer = chromium_offer()?;
    for _ in 0..3 {
        expect(&post_offer(&server, &offer)?, 201)?;
    }
    let refused = post_offer(&server, &offer)?;
    expect_problem(&refused, 429)?;
    if refused.header("retry-after").is_none() {
        return Err(format!("when to try again? {:?}", refused.headers).into());
    }
    Ok(())
}

fn the_read_token_is_asked_for() -> Result<(), Failed> {
    let server = Server::configured("auth: {read_token: sesame-opens-it}", &["demo"])?;
    let offer = chromium_offer()?;
    expect_problem(&post_offer(&server, &offer)?, 401)?;
    let wrong = [SDP, ("Authorization", "Bearer sesame-opens-it-not")];
    let answer = request("POST", &server.url("/demo/whep"), &wrong, offer.as_str())?;
    if !matches!(answer.status, 401 | 403) {
        return Err(format!("a wrong token: {answer:?}").into());
    }
    let right = [SDP, ("Authorization", "Bearer sesame-opens-it")];
    let answer = request("POST", &server.url("/demo/whep"), &right, offer.as_str())?;
    expect(&answer, 201)?;
    Ok(())
}

fn expect(answer: &Answer, status: u16) -> Result<(), String> {
    if answer.status == status {
        Ok(())
    } else {
        Err(format!("{status} expected: {answer:?}"))
    }
}

/// Checks a refusal with `status` and a reason (RFC 9457); returns its members.
fn expect_problem(answer: &Answer, status: u16) -> Result<Value, String> {
    expect(answer, status)?;
    let kind = answer.header("content-type").unwrap_or_default();
    let problem = answer.json()?;
    let says_why = problem["detail"]
        .as_str()
        .is_some_and(|detail| detail.len() > 10);
    if kind == "application/problem+json" && says_why && problem["status"] == status {
        Ok(problem)
    } else {
        Err(format!("no useful problem: {answer:?}"))
    }
}
