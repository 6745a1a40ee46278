//! What the code's shape promises, as tests: which crate may know which, what every
//! manifest says, and that no file grows past reading.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process;

/// Which crate knows which. A crate may also know what those know: arrows go down.
const ARROWS: [(&str, &[&str]); 17] = [
    ("media", &[]),
    ("rtp", &["media"]),
    ("demux", &["media"]),
    ("congestion", &["media"]),
    ("sctp", &["congestion"]),
    ("webrtc", &["rtp", "sctp", "congestion"]),
    ("rtsp", &["rtp"]),
    ("voice", &["rtp"]),
    ("net", &[]),
    ("quic", &["congestion", "media"]),
    ("client", &["webrtc", "rtsp", "quic", "net", "voice"]),
    ("publish", &["demux", "rtsp", "quic"]),
    ("sim", &["media"]),
    ("hub", &["media"]),
    (
        "server",
        &["hub", "demux", "webrtc", "rtsp", "quic", "voice", "net"],
    ),
    ("lab", &["client", "sim", "server", "demux", "voice"]),
    ("glassline", &["server", "client", "publish", "lab"]),
];

/// Tools of the checkout, which may know any.
const NOBODY_KNOWS: [&str; 2] = ["fuzz", "xtask"];

/// Crates without clock, chance or sockets.
const CORES: [&str; 10] = [
    "media",
    "rtp",
    "demux",
    "congestion",
    "sctp",
    "webrtc",
    "rtsp",
    "voice",
    "sim",
    "hub",
];

/// What would bring a clock, chance or a socket into a core.
const NOT_IN_A_CORE: [&str; 6] = ["libc", "mio", "rand", "socket2", "tokio", "ureq"];

const LINES_MAX: usize = 900;

/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 8] = [
    "common", "helper", "helpers", "manager", "misc", "util", "utils", "stuff",
];

/// Markers of unfinished work, spelt so that this list does not find itself.
const MARKERS: [&str; 4] = [
    concat!("to", "do!("),
    concat!("unimple", "mented!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

/// Everything that is out of shape, one line each; empty when tidy.
pub(crate) fn problems() -> Vec<String> {
    let mut problems = Vec::new();
    match process::workspace_metadata() {
        Ok(metadata) => {
            problems.extend(arrow_problems(&metadata));
            problems.extend(manifest_problems(&metadata));
        }
        Err(error) => problems.push(error),
    }
    problems.extend(source_problems());
    problems
}

fn arrow_problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    for package in packages(metadata) {
        let name = short_name(package);
        if NOBODY_KNOWS.contains(&name) {
            continue;
        }
        if !ARROWS.iter().any(|(known, _)| *known == name) {
            problems.push(format!(
                "crate `{name}` has no line in xtask's table of arrows"
            ));
            continue;
        }
        let allowed = reachable(name);
        for (dependency, kind) in dependencies(package) {
            let ours = dependency.strip_prefix("glassline-");
            let is_arrow_for_tests = kind == "dev" && ours.is_some_and(|ours| ours != name);
            match ours {
                Some(ours) if !allowed.contains(ours) && !is_arrow_for_tests => {
                    problems.push(format!("`{name}` must not know `{ours}`"));
                }
                None if kind == "normal"
                    && CORES.contains(&name)
                    && NOT_IN_A_CORE.contains(&dependency) =>
                {
                    problems.push(format!(
                        "`{name}` is a core and must not use `{dependency}`"
                    ));
                }
                _ => {}
            }
        }
    }
    problems
}

/// All crates that `name` may know, directly or through those.
fn reachable(name: &str) -> BTreeSet<&'static str> {
    let mut seen = BTreeSet::new();
    let mut open = vec![name];
    while let Some(next) = open.pop() {
        let below = ARROWS.iter().find(|(from, _)| *from == next);
        for target in below.map(|(_, to)| *to).unwrap_or_default() {
            if seen.insert(*target) {
                open.push(target);
            }
        }
    }
    seen
}

fn manifest_problems(metadata: &Value) -> Vec<String> {
    let mut problems = Vec::new();
    let root = fs::read_to_string(process::root().join("Cargo.toml")).unwrap_or_default();
    for package in packages(metadata) {
        let name = package["name"].as_str().unwrap_or_default();
        if package["publish"] != Value::Array(Vec::new()) {
            problems.push(format!("{name}: `publish.workspace = true` is missing"));
        }
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let text = fs::read_to_string(manifest).unwrap_or_default();
        if !text.contains("[lints]\nworkspace = true") {
            problems.push(format!("{name}: `[lints] workspace = true` is missing"));
        }
        if !root.contains(&format!("\n{name} = {{ opt-level")) {
            problems.push(format!("{name}: not in the root's `[profile.dev.package]`"));
        }
    }
    problems
}

fn source_problems() -> Vec<String> {
    let sources = rust_sources();
    let mut problems = Vec::new();
    for (path, text) in &sources {
        let shown = path.display();
        let lines = text.lines().count();
        if lines > LINES_MAX {
            problems.push(format!("{shown}: {lines} lines; which noun is missing?"));
        }
        for marker in MARKERS {
            if let Some(index) = text.lines().position(|line| line.contains(marker)) {
                problems.push(format!("{shown}:{}: `{marker}`", index + 1));
            }
        }
        let mut names = path.iter().map(|part| part.to_string_lossy());
        if let Some(name) = names.find(|name| EMPTY_NAMES.contains(&name.trim_end_matches(".rs"))) {
            problems.push(format!("{shown}: `{name}` says nothing; name what it does"));
        }
        problems.extend(wall_between_ingest_and_egress(path, text));
    }
    problems.extend(dead_files(&sources));
    problems
}

/// `ingest` and `egress` meet in the hub only.
fn wall_between_ingest_and_egress(path: &Path, text: &str) -> Option<String> {
    let other = if path.starts_with("crates/server/src/ingest") {
        "crate::egress"
    } else if path.starts_with("crates/server/src/egress") {
        "crate::ingest"
    } else {
        return None;
    };
    text.contains(other)
        .then(|| format!("{}: must not know `{other}`", path.display()))
}

/// Source files of crates that no `mod` line reaches.
fn dead_files(sources: &BTreeMap<PathBuf, String>) -> Vec<String> {
    let is_root = |name: &str| matches!(name, "lib.rs" | "main.rs");
    let mut problems = Vec::new();
    for path in sources.keys() {
        let inside_source = path.iter().any(|part| part == "src");
        let in_binaries = path.iter().any(|part| part == "bin");
        let file = path.file_name().unwrap_or_default().to_string_lossy();
        if !inside_source || in_binaries || is_root(&file) {
            continue;
        }
        let (module, folder) = match &*file {
            "mod.rs" => (path.parent(), path.parent().and_then(Path::parent)),
            _ => (Some(path.as_path()), path.parent()),
        };
        let (Some(module), Some(folder)) = (module.and_then(Path::file_stem), folder) else {
            continue;
        };
        let line = format!("mod {};", module.to_string_lossy());
        let path_attribute = format!("path = \"{file}\"");
        let parents = [
            folder.join("lib.rs"),
            folder.join("main.rs"),
            folder.join("mod.rs"),
            folder.with_extension("rs"),
        ];
        let is_reached = parents
            .iter()
            .filter_map(|parent| sources.get(parent))
            .any(|text| text.contains(&line) || text.contains(&path_attribute));
        if !is_reached {
            problems.push(format!("{}: no `{line}` reaches it", path.display()));
        }
    }
    problems
}

/// Path from the root of the checkout → text.
fn rust_sources() -> BTreeMap<PathBuf, String> {
    let root = process::root();
    let mut sources = BTreeMap::new();
    let mut open = ["crates", "fuzz", "src", "tests", "xtask"]
        .map(|name| root.join(name))
        .to_vec();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let path = entry.path();
            let is_built = entry.file_name() == "target";
            if path.is_dir() && !is_built {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs")
                && let (Ok(text), Ok(short)) = (fs::read_to_string(&path), path.strip_prefix(root))
            {
                sources.insert(short.to_owned(), text);
            }
        }
    }
    sources
}

fn packages(metadata: &Value) -> impl Iterator<Item = &Value> {
    metadata["packages"].as_array().into_iter().flatten()
}

/// The package's name without our prefix.
fn short_name(package: &Value) -> &str {
    package["name"]
        .as_str()
        .unwrap_or_default()
        .trim_start_matches("glassline-")
}

/// Name and kind (`normal`, `dev` or `build`) of each dependency.
fn dependencies(package: &Value) -> impl Iterator<Item = (&str, &str)> {
    let dependencies = package["dependencies"].as_array().into_iter().flatten();
    dependencies.map(|dependency| {
        let name = dependency["name"].as_str().unwrap_or_default();
        (name, dependency["kind"].as_str().unwrap_or("normal"))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &Value) -> Value {
        json!({"packages": [{"name": name, "dependencies": dependencies}]})
    }

    #[test]
    fn crate_arrows_go_down_only() {
        let metadata = process::workspace_metadata().expect("manifests are readable");
        assert_eq!(arrow_problems(&metadata), Vec::<String>::new());
    }

    #[test]
    fn manifests_keep_the_house_rules() {
        let metadata = process::workspace_metadata().expect("manifests are readable");
        assert_eq!(manifest_problems(&metadata), Vec::<String>::new());
    }

    #[test]
    fn sources_are_tidy() {
        assert_eq!(source_problems(), Vec::<String>::new());
    }

    #[test]
    fn an_arrow_upwards_is_refused() {
        let upwards = package(
            "glassline-hub",
            &json!([{"name": "glassline-rtp", "kind": null}]),
        );
        assert_eq!(arrow_problems(&upwards), ["`hub` must not know `rtp`"]);
        let through = package(
            "glassline-webrtc",
            &json!([{"name": "glassline-media", "kind": null}]),
        );
        assert_eq!(arrow_problems(&through), Vec::<String>::new());
    }

    #[test]
    fn a_core_with_a_runtime_is_refused() {
        let dependency = |kind| json!([{"name": "tokio", "kind": kind}]);
        assert_eq!(
            arrow_problems(&package("glassline-rtp", &dependency(Value::Null))),
            ["`rtp` is a core and must not use `tokio`"]
        );
        let in_tests = package("glassline-rtp", &dependency(json!("dev")));
        assert_eq!(arrow_problems(&in_tests), Vec::<String>::new());
    }

    #[test]
    fn the_wall_between_ingest_and_egress_holds() {
        let path = Path::new("crates/server/src/ingest/rtsp.rs");
        assert!(wall_between_ingest_and_egress(path, "use crate::egress::whep;").is_some());
        assert!(wall_between_ingest_and_egress(path, "use crate::hub;").is_none());
    }

    #[test]
    fn a_file_without_a_mod_line_is_dead() {
        let sources = BTreeMap::from([
            (PathBuf::from("crates/a/src/lib.rs"), "mod b;".to_owned()),
            (PathBuf::from("crates/a/src/b.rs"), "mod c;".to_owned()),
            (PathBuf::from("crates/a/src/b/c.rs"), String::new()),
            (PathBuf::from("crates/a/src/d.rs"), String::new()),
        ]);
        assert_eq!(
            dead_files(&sources),
            ["crates/a/src/d.rs: no `mod d;` reaches it"]
        );
    }
}
