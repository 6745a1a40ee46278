//! Machine that the figures were measured on.

use std::process::Command;

use serde_json::{Value, json};

/// Processor model, cores, kernel and load, on one line.
pub(crate) fn line() -> String {
    let machine = describe();
    let text = |key: &str| machine[key].as_str().unwrap_or("?").to_owned();
    format!(
        "{}, {} cores, {}, load {}",
        text("cpu"),
        machine["cores"],
        text("kernel"),
        machine["load_1m"],
    )
}

/// The machine as JSON for a report; `load_1m` is the load before the run.
pub(crate) fn describe() -> Value {
    json!(glassline_lab::machine::describe())
}

/// Time, source revision and versions of peers.
pub(crate) fn circumstances() -> Value {
    let modified = output("git", &["status", "--porcelain", "--", "crates", "src"]);
    json!({
        "date": output("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
        "commit": output("git", &["rev-parse", "--short", "HEAD"]),
        "modified": modified.is_none_or(|files| !files.is_empty()),
        "version": env!("CARGO_PKG_VERSION"),
        "rustc": output("rustc", &["--version"]),
    })
}

/// The output of a program, trimmed; `None` if it fails.
pub(crate) fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    output.status.success().then_some(text)
}
