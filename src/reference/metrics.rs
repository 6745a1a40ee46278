//! Metrics, from the answer of a server with every listener and a media folder.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::time::Duration;

use glassline_server::Server;
use glassline_server::config::Config;

use super::{hold, markdown};

/// Configuration with every listener on a free port; the content of the media folder does not matter.
const CONFIGURATION: &str = "\
http: {address: '127.0.0.1:0'}
media: {address: '127.0.0.1:0'}
rtsp: {address: '127.0.0.1:0', media_folder: '/'}
quic: {address: '127.0.0.1:0'}
admin: {address: '127.0.0.1:0'}
shards: 1
";

#[test]
fn the_page_of_metrics_agrees() {
    let mut text = String::from("| metric | type | meaning |\n|---|---|---|\n");
    for family in families(&scrape()) {
        let mut help = markdown(&family.help);
        if !family.reasons.is_empty() {
            let reasons = family.reasons.iter().map(|it| format!("`{it}`"));
            let reasons: Vec<String> = reasons.collect();
            let _ = write!(help, " Reasons: {}.", reasons.join(" "));
        }
        let _ = writeln!(text, "| `{}` | {} | {help} |", family.name, family.kind);
    }
    hold("metrics.md", &text);
}

/// Answer of `/metrics` of a server without viewers and publishers.
fn scrape() -> String {
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let server = runtime.block_on(async {
        let config = Config::from_yaml(CONFIGURATION, "test").expect("a good configuration");
        Server::start(config, Vec::new()).await.expect("free ports")
    });
    let admin = server.listeners().iter().find(|(name, _)| *name == "admin");
    let (_, address) = admin.expect("the port for operators");
    let mut answer = ureq::get(format!("http://{address}/metrics"))
        .call()
        .expect("an answer");
    let text = answer.body_mut().read_to_string().expect("text");
    runtime.block_on(server.shutdown(Duration::from_secs(5)));
    text
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
