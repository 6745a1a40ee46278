//! Work that blocks a thread: it runs where its bound goes with it.
//!
//! Nothing cancels such work. A bound that a future holds around it ends when the future is
//! dropped, as when a client hangs up, and the work goes on unbounded. So the server hands work
//! to `runtime::BlockingPool`; files that call tokio themselves are listed with the reason why no
//! stranger can leave their work behind.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::table;

/// The call that only listed files make, written so that this file does not match itself.
const CALL: &str = concat!("spawn_", "blocking(");

/// Crates that the rule is for: those that the server is made of above the cores.
const CRATES: [&str; 14] = [
    "access",
    "cluster-member",
    "config",
    "events",
    "ingest",
    "messages",
    "playback",
    "quic-listener",
    "rtsp-listener",
    "runtime",
    "server",
    "service",
    "telemetry",
    "transcoding",
];

/// Files of the server's crates that start blocking work beside the pool, and listed ones that do not.
pub(super) fn problems(sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    problems_against(table::BLOCKING, sources)
}

fn problems_against(listed: &[(&str, &str)], sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut calling = Vec::new();
    for (path, text) in sources {
        let path = path.to_string_lossy();
        let Some(file) = listed_as(&path).filter(|it| !it.contains("/tests/")) else {
            continue;
        };
        let Some(index) = text.lines().position(|line| line.contains(CALL)) else {
            continue;
        };
        if !listed.iter().any(|(it, _)| *it == file) {
            problems.push(format!(
                "{path}:{}: work that outlives its caller; give it to a `BlockingPool`, whose place \
                 goes with it",
                index + 1
            ));
        }
        calling.push(file);
    }
    let unmet = listed
        .iter()
        .filter(|(file, _)| !calling.iter().any(|it| it == file));
    problems.extend(unmet.map(|(file, _)| format!("{file} blocks no thread; strike it")));
    problems
}

/// Returns the name of a file in the list, `CRATE/PATH`; `None` if the rule is not for the file.
fn listed_as(path: &str) -> Option<String> {
    let (name, file) = path.strip_prefix("crates/")?.split_once("/src/")?;
    CRATES.contains(&name).then(|| format!("{name}/{file}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocking_work_beside_the_pool_is_listed_or_a_problem() {
        let source = |path: &str, text: &str| (PathBuf::from(path), text.to_owned());
        let call = format!("\n    tokio::task::{CALL}work);");
        let sources = BTreeMap::from([
            source("crates/server/src/a.rs", &call),
            source("crates/server/src/b.rs", &call),
            source("crates/server/src/a/tests/c.rs", &call),
            source("crates/client/src/d.rs", &call),
            source("crates/server/src/e.rs", "fn quiet() {}"),
        ]);
        let listed = [("server/b.rs", "one task"), ("server/e.rs", "no more")];
        let problems = problems_against(&listed, &sources);
        assert_eq!(problems.len(), 2, "{problems:?}");
        assert!(problems[0].starts_with("crates/server/src/a.rs:2: "));
        assert!(problems[1].contains("e.rs") && problems[1].contains("strike it"));
    }
}
