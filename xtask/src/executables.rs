//! Test and bench programs that cargo builds.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::process;

/// A test or bench program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Executable {
    pub(crate) package: String,
    /// Name of the target in its package.
    pub(crate) target: String,
    /// Whether this is a bench, which a run of the tests compiles only.
    pub(crate) is_bench: bool,
    /// Whether these are the tests beside the code of a library or program.
    pub(crate) is_unit: bool,
    pub(crate) path: PathBuf,
    /// Folder of its package, in which cargo runs it.
    pub(crate) folder: PathBuf,
}

/// Runs cargo with `arguments`, which build and do not run; returns what it built, in its order.
///
/// # Errors Something does not compile; cargo has printed what.
pub(crate) fn build(arguments: &[&str]) -> Result<Vec<Executable>, String> {
    let mut cargo = process::cargo(arguments);
    cargo.arg("--message-format=json-render-diagnostics");
    println!("$ {}", process::line(&cargo));
    let output = cargo
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!(
            "{} ended with {}",
            process::line(&cargo),
            output.status
        ));
    }
    Ok(parse(&String::from_utf8_lossy(&output.stdout)))
}

/// Parses cargo's messages, a JSON object a line.
fn parse(messages: &str) -> Vec<Executable> {
    messages.lines().filter_map(parse_line).collect()
}

/// Parses one of cargo's messages; `None` if the message is about something else than a test or bench
/// program.
pub(crate) fn parse_line(line: &str) -> Option<Executable> {
    let message: Value = serde_json::from_str(line).ok()?;
    let target = &message["target"];
    let is = |kind: &str| target["kind"][0] == kind;
    let is_program = is("bench") || is("test");
    let is_unit = !is_program && message["profile"]["test"] == true;
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let executable = Executable {
        package: package(message["package_id"].as_str()?),
        target: target["name"].as_str()?.to_owned(),
        is_bench: is("bench"),
        is_unit,
        path: message["executable"].as_str().map(PathBuf::from)?,
        folder: manifest.parent()?.to_owned(),
    };
    (is_program || is_unit).then_some(executable)
}

/// Name of a package in an id such as `path+file:///checkout/crates/webrtc#glassline-webrtc@0.1.0`;
/// the name is left out where the folder has it.
fn package(id: &str) -> String {
    let (address, fragment) = id.rsplit_once('#').unwrap_or((id, ""));
    match fragment.split_once('@') {
        Some((name, _)) => name.to_owned(),
        None => address.rsplit('/').next().unwrap_or(address).to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_known_by_their_ids() {
        let id = "path+file:///a/crates/webrtc#glassline-webrtc@0.1.0";
        assert_eq!(package(id), "glassline-webrtc");
        assert_eq!(package("path+file:///a/glassline#0.1.0"), "glassline");
    }

    #[test]
    fn test_and_bench_programs_are_found_in_cargos_messages() {
        let artifact = |kind: &str, name: &str, is_test: bool| {
            format!(
                "{{\"reason\":\"compiler-artifact\",\"package_id\":\"path+file:///a#glassline@0.1.0\",\
                 \"manifest_path\":\"/a/Cargo.toml\",\"target\":{{\"kind\":[\"{kind}\"],\
                 \"name\":\"{name}\"}},\"profile\":{{\"test\":{is_test}}},\
                 \"executable\":\"/t/{name}-1\"}}\n"
            )
        };
        let messages = [
            artifact("bench", "lab", true),
            artifact("bin", "glassline", false),
            "no JSON\n".to_owned(),
            artifact("bin", "glassline", true),
            "{\"reason\":\"build-finished\",\"success\":true}\n".to_owned(),
        ];
        let found = parse(&messages.concat());
        let named = |target: &str, is_unit| Executable {
            package: "glassline".to_owned(),
            target: target.to_owned(),
            is_bench: target == "lab",
            is_unit,
            path: format!("/t/{target}-1").into(),
            folder: "/a".into(),
        };
        assert_eq!(
            found,
            [named("lab", false), named("glassline", true)],
            "the program itself is no test"
        );
    }
}
