//! Traces and metrics, as a collector of OpenTelemetry gets them.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use glassline_config::{Config, Otlp, Secret};
use serde_json::{Value, json};

use crate::failures::give_up;
use crate::peer::{Peer, SOON};
use crate::running::{Running, STREAM};
use crate::source::{Film, Source};
use crate::whip::{Publisher, go_live};

/// One request: path, head in lower case, and body.
type Got = (String, String, Value);

/// The answer of the collector: status, further headers, body.
type Answer = (u16, &'static str, &'static str);

const TAKEN: Answer = (200, "", "{}");

/// Starts a collector that answers requests for traces with `answers` in turn, the last one for ever,
/// and takes all metrics.
fn collector(answers: &'static [Answer]) -> (SocketAddr, Receiver<Got>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let (sender, got) = channel();
    // The thread ends with the process.
    std::thread::spawn(move || serve(&listener, answers, &sender));
    (address, got)
}

fn serve(listener: &TcpListener, answers: &[Answer], sender: &Sender<Got>) {
    let mut traces = 0;
    for stream in listener.incoming() {
        let mut stream = stream.expect("a connection");
        let Some((path, head, body)) = read(&mut stream) else {
            continue;
        };
        let answer = match path == "/otel/v1/traces" {
            true => answers.get(traces).or(answers.last()),
            false => Some(&TAKEN),
        };
        traces += usize::from(path == "/otel/v1/traces");
        let (status, headers, text) = answer.expect("one");
        let length = text.len();
        let _ = write!(
            stream,
            "HTTP/1.1 {status} X\r\n{headers}Content-Length: {length}\r\n\r\n{text}"
        );
        if sender.send((path, head, body)).is_err() {
            return;
        }
    }
}

fn read(stream: &mut TcpStream) -> Option<Got> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).ok()?;
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let path = head.split(' ').nth(1).expect("a path").to_owned();
    let head = head.to_lowercase();
    let length = head.split("content-length: ").nth(1)?;
    let mut body = vec![0; length.lines().next()?.parse().expect("a length")];
    stream.read_exact(&mut body).ok()?;
    let body = serde_json::from_slice(&body).expect("JSON");
    Some((path, head, body))
}

/// Returns the settings for a collector at `address`, with `more` keys.
fn otlp(address: SocketAddr, more: &Value) -> Option<Otlp> {
    let mut keys = json!({
        "endpoint": format!("http://{address}/otel/"),
        "headers": {"authorization": "Bearer of-the-collector"},
        "metrics": false,
    });
    for (key, value) in more.as_object().expect("keys") {
        keys[key] = value.clone();
    }
    Some(serde_json::from_value(keys).expect("good settings"))
}

fn traced(address: SocketAddr) -> Running {
    Running::with(1, |config| {
        config.telemetry.otlp = otlp(address, &json!({}));
    })
}

fn next(got: &Receiver<Got>, path: &str) -> (String, Value) {
    loop {
        let (at, head, body) = got.recv_timeout(SOON).expect("a request in time");
        if at == path {
            return (head, body);
        }
    }
}

/// Returns the attributes of a resource, a span or a data point that are texts.
fn attributes(of: &Value) -> BTreeMap<&str, &str> {
    let attributes = of["attributes"].as_array().into_iter().flatten();
    let pairs = attributes
        .filter_map(|it| Some((it["key"].as_str()?, it["value"]["stringValue"].as_str()?)));
    pairs.collect()
}

/// One join, as a collector shows it.
struct Trace {
    spans: Vec<Value>,
}

impl Trace {
    /// Waits for a request with one join, and checks what holds for each trace.
    fn next(got: &Receiver<Got>) -> Self {
        let (_, body) = next(got, "/otel/v1/traces");
        let scoped = &body["resourceSpans"][0]["scopeSpans"][0];
        assert_eq!(scoped["scope"]["name"], "glassline");
        let spans = scoped["spans"].as_array().expect("spans").clone();
        let ids: BTreeSet<&str> = spans.iter().map(|it| hex(&it["spanId"], 16)).collect();
        assert_eq!(
            ids.len(),
            spans.len(),
            "each span has an identifier of its own"
        );
        let trace = hex(&spans[0]["traceId"], 32);
        for span in &spans {
            assert_eq!(hex(&span["traceId"], 32), trace, "one trace: {span}");
            assert!(times(span).0 <= times(span).1, "{span}");
        }
        for span in &spans[1..] {
            assert!(ids.contains(hex(&span["parentSpanId"], 16)), "{span}");
        }
        Self { spans }
    }

    fn root(&self) -> &Value {
        &self.spans[0]
    }

    fn span(&self, name: &str) -> &Value {
        let found = self.spans.iter().find(|it| it["name"] == name);
        found.unwrap_or_else(|| panic!("no span '{name}': {:#?}", self.names()))
    }

    fn names(&self) -> Vec<&str> {
        let names = self.spans.iter().map(|it| it["name"].as_str());
        names.map(|it| it.expect("a name")).collect()
    }
}

fn hex(value: &Value, digits: usize) -> &str {
    let text = value.as_str().expect("an identifier");
    let is_hex = text
        .bytes()
        .all(|it| it.is_ascii_digit() || (b'a'..=b'f').contains(&it));
    assert!(text.len() == digits && is_hex, "{text}");
    assert!(text.bytes().any(|it| it != b'0'), "{text}");
    text
}

/// Returns start and end of a span, in nanoseconds since 1970.
fn times(span: &Value) -> (u128, u128) {
    let time = |key: &str| span[key].as_str().expect("a text").parse().expect("a time");
    (time("startTimeUnixNano"), time("endTimeUnixNano"))
}

fn nanos_now() -> u128 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("after 1970").as_nanos()
}

#[test]
fn a_viewers_join_is_one_trace_whose_steps_follow_each_other() {
    let (address, got) = collector(&[TAKEN]);
    let before = nanos_now();
    let running = traced(address);
    let _source = Source::start(&running.stream(), Film::default());
    let peer = Peer::joined(&running);
    let trace = got.recv_timeout(SOON).expect("a trace");
    check_join(&trace, before);
    let (_, head, body) = trace;
    let session = peer.location.rsplit('/').next().expect("a session");
    let (known, body) = (&session[..6], body.to_string());
    assert!(
        body.contains(known) && !body.contains(session),
        "a session must not be given away"
    );
    assert!(head.starts_with("post /otel/v1/traces "), "{head}");
    for header in [
        "content-type: application/json",
        "authorization: bearer of-the-collector",
    ] {
        assert!(head.contains(&format!("{header}\r\n")), "{head}");
    }
}

fn check_join(got: &Got, before: u128) {
    let (sender, again) = channel();
    sender.send(got.clone()).expect("it is kept");
    let trace = Trace::next(&again);
    let names = [
        "join viewer",
        "request",
        "rights",
        "negotiation",
        "ice",
        "dtls",
        "first keyframe",
        "first packet",
    ];
    assert_eq!(trace.names(), names);
    let root = trace.root();
    assert_eq!((&root["kind"], root.get("parentSpanId")), (&json!(2), None));
    for (child, parent) in [
        ("rights", "request"),
        ("negotiation", "request"),
        ("dtls", "join viewer"),
    ] {
        assert_eq!(
            trace.span(child)["parentSpanId"],
            trace.span(parent)["spanId"]
        );
    }
    for pair in names[4..].windows(2) {
        let ([_, end], [begin, _]) = (pair_of(&trace, pair[0]), pair_of(&trace, pair[1]));
        assert_eq!(end, begin, "{pair:?}");
    }
    let (from, to) = times(root);
    assert!(before - 1_000_000_000 < from && to < nanos_now() + 1_000_000_000);
    assert_eq!(times(trace.span("first packet")).1, to);
    let told = attributes(root);
    for (key, value) in [
        ("glassline.stream", STREAM),
        ("glassline.role", "viewer"),
        ("glassline.outcome", "connected"),
        ("http.route", "/{stream}/whep"),
        ("client.address", "127.0.0.1"),
    ] {
        assert_eq!(told.get(key), Some(&value), "{told:?}");
    }
    assert!(root.get("status").is_none());
    assert_eq!(trace.span("ice")["events"][0]["name"], "first check");
    let resource = attributes(&got.2["resourceSpans"][0]["resource"]);
    assert_eq!(resource.get("service.name"), Some(&"glassline"));
    assert!(resource.contains_key("service.instance.id"));
}

fn pair_of(trace: &Trace, name: &str) -> [u128; 2] {
    let (from, to) = times(trace.span(name));
    [from, to]
}

#[test]
fn a_publishers_join_ends_with_its_first_keyframe() {
    let (address, got) = collector(&[TAKEN]);
    let running = traced(address);
    let mut publisher = Publisher::post(&running, "/live/whip", &[]).expect("answered");
    go_live(&mut publisher, "live");
    let trace = Trace::next(&got);
    assert_eq!(trace.names()[0], "join publisher");
    assert_eq!(attributes(trace.root())["glassline.outcome"], "connected");
    let packet = times(trace.span("first packet")).1;
    let (_, keyframe) = times(trace.span("first keyframe"));
    assert!(packet <= keyframe && keyframe == times(trace.root()).1);
}

#[test]
fn a_join_that_fails_has_the_reason_at_the_step_that_failed() {
    let (address, got) = collector(&[TAKEN]);
    let running = Running::with(1, |config| {
        config.telemetry.otlp = otlp(address, &json!({"sample": 0}));
    });
    let _source = Source::start(&running.stream(), Film::default());
    let peer = Peer::answered(&running);
    let told = give_up(&peer, &json!({"gathered": 2, "pairs": []})).problem(410);
    let trace = Trace::next(&got);
    let reason = told["detail"].as_str().expect("a reason");
    let (root, ice) = (trace.root(), trace.span("ice"));
    for span in [root, ice] {
        assert_eq!(span["status"], json!({"code": 2, "message": reason}));
    }
    let attributes = attributes(root);
    assert_eq!(attributes["error.type"], "ice");
    assert_eq!(attributes["glassline.remedy"], told["remedy"]);
    assert_eq!(trace.names().last(), Some(&"ice"), "nothing came after it");
    // Of the joins that succeed, none is wanted.
    let _joined = Peer::joined(&running);
    running
        .request("POST", "/none/whep", &[crate::peer::SDP], "v=0")
        .problem(404);
    let trace = Trace::next(&got);
    assert_eq!(
        crate::telemetry::attributes(trace.root())["error.type"],
        "stream"
    );
}

#[test]
fn only_a_trusted_proxy_puts_a_join_into_its_own_trace() {
    let above = (
        "traceparent",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    );
    for is_trusted in [true, false] {
        let (address, got) = collector(&[TAKEN]);
        let running = Running::with(1, |config: &mut Config| {
            config.telemetry.otlp = otlp(address, &json!({}));
            config.auth.read_token = Secret::new("right").ok();
            if is_trusted {
                config.http.trusted_proxies = vec!["127.0.0.0/8".parse().expect("a network")];
            }
        });
        running
            .request("POST", "/cam/whep", &[crate::peer::SDP, above], "v=0")
            .problem(401);
        let trace = Trace::next(&got);
        let (root, rights) = (trace.root(), trace.span("rights"));
        let is_below = root["traceId"] == "0af7651916cd43dd8448eb211c80319c"
            && root["parentSpanId"] == "b7ad6b7169203331";
        assert_eq!(is_below, is_trusted, "{root}");
        assert_eq!(rights["status"]["code"], 2);
        assert_eq!(trace.names(), ["join viewer", "request", "rights"]);
    }
}

#[test]
fn a_collector_that_is_away_costs_a_repetition_and_no_join() {
    let (address, got) = collector(&[
        (503, "Retry-After: 1\r\n", ""),
        (
            200,
            "",
            r#"{"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}}"#,
        ),
        (400, "", "not wanted"),
    ]);
    let running = traced(address);
    let _source = Source::start(&running.stream(), Film::default());
    let _first = Peer::joined(&running);
    let (first, again) = (Trace::next(&got), Trace::next(&got));
    assert_eq!(
        first.spans, again.spans,
        "the same spans, so that nothing counts twice"
    );
    let _second = Peer::joined(&running);
    Trace::next(&got);
    let requests = "glassline_telemetry_requests_total";
    for (name, labels) in [
        (requests, r#"signal="traces",result="retried""#),
        (requests, r#"signal="traces",result="ok""#),
        (requests, r#"signal="traces",result="failed""#),
        (
            "glassline_telemetry_dropped_joins_total",
            r#"reason="unsent""#,
        ),
    ] {
        await_metric(&running, name, labels, 1);
    }
    await_metric(
        &running,
        "glassline_telemetry_rejected_total",
        r#"signal="traces""#,
        2,
    );
}

fn await_metric(running: &Running, name: &str, labels: &str, value: u64) {
    let end = Instant::now() + SOON;
    loop {
        let text = running.admin("/metrics").body;
        let line = format!("{name}{{{labels}}} {value}");
        if text.lines().any(|it| it == line) {
            return;
        }
        assert!(Instant::now() < end, "no {line}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_metric_of_prometheus_is_sent_and_once_more_at_the_end() {
    let (address, got) = collector(&[TAKEN]);
    let running = Running::with(1, |config| {
        let keys = json!({"metrics": true, "interval_s": 1, "attributes": {"site": "north"}});
        config.telemetry.otlp = otlp(address, &keys);
    });
    let _source = Source::start(&running.stream(), Film::default());
    let _peer = Peer::joined(&running);
    let has_viewer = |body: &Value| {
        let viewers = metric(body, "glassline_viewers");
        let points = viewers.and_then(|it| it["gauge"]["dataPoints"].as_array());
        points.into_iter().flatten().any(|it| {
            it["asInt"] == "1"
                && attributes(it)["stream"] == STREAM
                && attributes(it)["protocol"] == "whep"
        })
    };
    let body = loop {
        let (_, body) = next(&got, "/otel/v1/metrics");
        if has_viewer(&body) {
            break body;
        }
    };
    let resource = attributes(&body["resourceMetrics"][0]["resource"]);
    assert_eq!(resource["site"], "north");
    let text = running.admin("/metrics").body;
    let mut kinds = BTreeMap::new();
    for head in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = head.split_once(' ').expect("name and kind");
        // A family that has no value, such as the age of keys without keys, is not sent.
        let of_family = |line: &&str| {
            let rest = line.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with(['{', ' ']) || rest.starts_with("_bucket{"))
        };
        let has_rows = text.lines().any(|line| of_family(&line));
        if has_rows {
            kinds.insert(name, kind);
        }
    }
    assert!(kinds.len() > 50, "{kinds:?}");
    for (name, kind) in kinds {
        let metric = metric(&body, name).unwrap_or_else(|| panic!("no {name}"));
        let member = match kind {
            "counter" => "sum",
            kind => kind,
        };
        assert!(metric[member]["dataPoints"][0].is_object(), "{metric}");
    }
    let cpu = metric(&body, "glassline_cpu_seconds_total").expect("it counts");
    assert_eq!(
        (
            &cpu["sum"]["isMonotonic"],
            &cpu["sum"]["aggregationTemporality"]
        ),
        (&json!(true), &json!(2))
    );
    let stages = metric(&body, "glassline_stage_latency_seconds").expect("stages");
    let stage = &stages["histogram"]["dataPoints"][0];
    let counts = stage["bucketCounts"].as_array().expect("buckets");
    let bounds = stage["explicitBounds"].as_array().expect("bounds");
    assert_eq!(counts.len(), bounds.len() + 1);
    let sum: u64 = counts
        .iter()
        .map(|it| {
            it.as_str()
                .expect("a text")
                .parse::<u64>()
                .expect("a count")
        })
        .sum();
    assert_eq!(stage["count"], sum.to_string());
    while got.try_recv().is_ok() {}
    running.stop(SOON);
    next(&got, "/otel/v1/metrics");
}

fn metric<'a>(body: &'a Value, name: &str) -> Option<&'a Value> {
    let metrics = body["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array();
    metrics?.iter().find(|it| it["name"] == name)
}

#[test]
fn a_collector_that_never_answers_stops_neither_joins_nor_the_end_of_the_server() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    let running = Running::with(1, |config| {
        config.telemetry.otlp = otlp(address, &json!({"metrics": true}));
    });
    let _source = Source::start(&running.stream(), Film::default());
    for _ in 0..3 {
        Peer::joined(&running);
    }
    // Within it, the last requests are given up.
    let begun = Instant::now();
    running.stop(SOON);
    assert!(begun.elapsed() < SOON, "the farewell has an end of its own");
}
