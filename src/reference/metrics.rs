//! Metrics, from the answer of a server with every listener and part.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use glassline_config::Config;
use glassline_ingest::SourceSpec;
use glassline_server::Server;

use super::{hold, markdown};

/// Configuration with every listener on a free port, and with each part that has metrics of its own. The
/// content of the media folder does not matter; `FOLDER` stands for a folder of recordings.
const CONFIGURATION: &str = "\
http: {address: '127.0.0.1:0'}
https: {address: '127.0.0.1:0'}
tls: {certificate: crates/server/tests/data/localhost.pem, key: crates/server/tests/data/localhost.key.pem}
media: {address: '127.0.0.1:0'}
rtsp: {address: '127.0.0.1:0', media_folder: '/'}
quic: {address: '127.0.0.1:0'}
admin: {address: '127.0.0.1:0', open_metrics: true}
cluster: {name: a, secret: s3cret, nats: 'nats://127.0.0.1:1'}
shards: 1
auth:
  jwt: {algorithms: [HS256], secret: 'a-secret-of-32-characters-or-more'}
  webhook: {url: 'http://127.0.0.1:1/'}
hooks: [{on: [publish], command: [/bin/true]}]
recordings:
  folder: FOLDER
  copy: {endpoint: 'http://127.0.0.1:1', bucket: footage, access_key: key, secret_key: secret}
telemetry: {otlp: {endpoint: 'http://127.0.0.1:1'}}
";

#[test]
fn the_page_of_metrics_agrees() {
    let mut text = String::from("| metric | meaning |\n|---|---|\n");
    for family in families(&scrape(CONFIGURATION, Vec::new(), "")) {
        let mut help = markdown(&family.help);
        if !family.reasons.is_empty() {
            let reasons = family.reasons.iter().map(|it| format!("`{it}`"));
            let reasons: Vec<String> = reasons.collect();
            let _ = write!(help, " Reasons: {}.", reasons.join(" "));
        }
        let (name, kind) = (&family.name, family.kind.as_str());
        // The page says so once, for all of them.
        assert_eq!(name.ends_with("_total"), kind == "counter", "{name}");
        if kind == "histogram" {
            help += " Histogram.";
        }
        let _ = writeln!(text, "| `{name}` | {help} |");
    }
    hold("metrics.md", &text);
}

/// Time for a stream to begin on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Answer of `/metrics` of a server with a stream, as soon as it has `row`.
pub(super) fn scrape_until(row: &str) -> String {
    scrape(CONFIGURATION, vec![SourceSpec::demo()], row)
}

/// Answer of `/metrics` of a server with this configuration and these sources, as soon as it has `row`.
#[expect(clippy::disallowed_methods, reason = "a real server has real time")]
fn scrape(configuration: &str, sources: Vec<SourceSpec>, row: &str) -> String {
    let folder = folder_of_recordings();
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let server = runtime.block_on(async {
        let configuration = configuration.replace("FOLDER", &folder.display().to_string());
        let config = Config::from_yaml(&configuration, "test").expect("a good configuration");
        Server::start(config, sources).await.expect("free ports")
    });
    let admin = server.listeners().iter().find(|(name, _)| *name == "admin");
    let (_, address) = admin.expect("the port for operators");
    if !row.is_empty() {
        fail_to_join(&server);
    }
    let deadline = Instant::now() + PATIENCE;
    let text = loop {
        let answer = ureq::get(format!("http://{address}/metrics")).call();
        let mut answer = answer.expect("an answer");
        let text = answer.body_mut().read_to_string().expect("text");
        if text.contains(row) {
            break text;
        }
        assert!(Instant::now() < deadline, "no {row} in {text}");
        std::thread::sleep(Duration::from_millis(100));
    };
    runtime.block_on(server.shutdown(Duration::from_secs(5)));
    let _ = std::fs::remove_dir_all(folder);
    text
}

/// Makes a folder of recordings, which each server needs for itself.
fn folder_of_recordings() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("glassline-metrics-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder for temporary files");
    folder
}

/// Sends an offer that is none, so that failed connections have a row.
fn fail_to_join(server: &Server) {
    let http = server.listeners().iter().find(|(name, _)| *name == "http");
    let (_, address) = http.expect("the port for viewers");
    let offer = ureq::post(format!("http://{address}/demo/whep"))
        .header("Content-Type", "application/sdp")
        .send("v=0");
    assert!(offer.is_err(), "an offer without media was answered");
}

/// One metric with the values of all its labels.
struct Family {
    name: String,
    kind: String,
    help: String,
    /// Values of the label `reason`.
    reasons: BTreeSet<String>,
}

/// Metrics in the order of the answer, in which related ones are neighbors.
fn families(text: &str) -> Vec<Family> {
    let mut found: Vec<Family> = Vec::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').expect("a name, and what it means");
            found.push(Family {
                name: name.to_owned(),
                kind: String::new(),
                help: help.to_owned(),
                reasons: BTreeSet::new(),
            });
            continue;
        }
        let Some(family) = found.last_mut() else {
            continue;
        };
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (_, kind) = rest.split_once(' ').expect("a name, and its type");
            kind.clone_into(&mut family.kind);
        } else if let Some((_, rest)) = line.split_once("reason=\"") {
            let (reason, _) = rest.split_once('"').expect("a label ends");
            family.reasons.insert(reason.to_owned());
        }
    }
    found
}
