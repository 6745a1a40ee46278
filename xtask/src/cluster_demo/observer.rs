//! What the servers say of their cluster, as lines about what has changed.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::Value;

use super::ask::get;
use super::fleet::Fleet;

/// Knows what was printed last.
pub(super) struct Observer {
    began: Instant,
    /// The known facts, by their subjects.
    known: BTreeMap<String, String>,
}

impl Observer {
    pub(super) fn new(began: Instant) -> Self {
        Self {
            began,
            known: BTreeMap::new(),
        }
    }

    /// Prints a line with the time since the begin.
    pub(super) fn say(&self, line: &str) {
        say(self.began, line);
    }

    /// Returns whether each server knows that three serve.
    pub(super) fn all_serve(&self, fleet: &Fleet) -> bool {
        fleet.nodes().all(|node| {
            let told = get(node.admin, "/api/v1/cluster");
            let nodes = told.as_ref().and_then(|told| told["nodes"].as_array());
            let serving = nodes.into_iter().flatten();
            serving.filter(|it| it["state"] == "serving").count() == 3
        })
    }

    /// Returns the server that has a stream.
    pub(super) fn owner(&self, stream: &str) -> Option<String> {
        self.known.get(&format!("stream {stream}")).cloned()
    }

    /// Asks all servers, and prints what has changed.
    pub(super) fn look(&mut self, fleet: &Fleet) {
        let mut found = BTreeMap::new();
        for node in fleet.nodes() {
            let Some(told) = get(node.admin, "/api/v1/cluster") else {
                continue;
            };
            let text = |value: &Value| value.as_str().unwrap_or("?").to_owned();
            found.insert(
                format!("NATS for {}", node.name),
                text(&told["engine"]["state"]),
            );
            for pull in told["pulls"].as_array().into_iter().flatten() {
                let subject = format!("{} pulls {} from", node.name, text(&pull["stream"]));
                found.insert(subject, text(&pull["from"]));
            }
            // The first server that answers speaks for all about what they agree on.
            for (list, subject, value) in [("nodes", "", "state"), ("streams", "stream ", "owner")]
            {
                for it in told[list].as_array().into_iter().flatten() {
                    let subject = format!("{subject}{}", text(&it["name"]));
                    found.entry(subject).or_insert_with(|| text(&it[value]));
                }
            }
        }
        if found.is_empty() {
            return;
        }
        for (subject, value) in &found {
            if self.known.get(subject) != Some(value) {
                self.say(&format!("{subject}: {value}"));
            }
        }
        for subject in self.known.keys().filter(|it| !found.contains_key(*it)) {
            self.say(&format!("{subject}: no more"));
        }
        self.known = found;
    }
}

/// Prints a line with the time since `began`.
pub(super) fn say(began: Instant, line: &str) {
    println!("{:7.2} s  {line}", began.elapsed().as_secs_f64());
}
