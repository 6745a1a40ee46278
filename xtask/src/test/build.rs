//! Compiles all tests, and lints the checkout in the same pass.
//!
//! Clippy's driver is the compiler with more lints. In the place of the compiler, for the workspace's
//! own crates, it gives the programs and the warnings at once: nothing is parsed and typed twice, and
//! dependencies are not checked beside being compiled.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::executables::{self, Executable};
use crate::process;

/// Arguments that compile in support for microphones and loudspeakers.
const DEVICES: &[&str] = &["--features", "glassline/devices"];

/// Builds of the tests, all with the same features.
#[derive(Clone, Debug)]
pub(super) struct TestBuild {
    driver: PathBuf,
    features: &'static [&'static str],
}

/// The programs of a build.
#[derive(Debug, Default)]
pub(super) struct Built {
    pub(super) programs: Vec<Executable>,
    /// Warnings of the compiler and of clippy, as printed; each once.
    pub(super) warnings: BTreeSet<String>,
}

impl TestBuild {
    /// Prepares a build, with support for sound devices or without.
    ///
    /// # Errors Clippy is not installed.
    pub(super) fn new(with_devices: bool) -> Result<Self, String> {
        let features = if with_devices { DEVICES } else { &[] };
        let driver = driver()?;
        Ok(Self { driver, features })
    }

    /// Returns cargo with `arguments`, which uses what this build has compiled.
    pub(super) fn cargo(&self, arguments: &[&str]) -> Command {
        let mut cargo = process::cargo(&[arguments, self.features].concat());
        cargo.env("RUSTC_WORKSPACE_WRAPPER", &self.driver);
        cargo
    }

    /// Compiles every target of the workspace, benches included.
    ///
    /// # Errors Something does not compile; the error has been printed.
    pub(super) fn compile(&self) -> Result<Built, String> {
        let everything = ["test", "--workspace", "--all-targets", "--no-run"];
        let mut built = read(&mut self.cargo(&everything))?;
        if !self.features.is_empty() {
            // Users' builds: without the feature, only the crate that has it is another one.
            let without = Self {
                features: &[],
                driver: self.driver.clone(),
            };
            let libraries = ["test", "--workspace", "--lib", "--no-run"];
            let users = read(&mut without.cargo(&libraries))?;
            built.warnings.extend(users.warnings);
        }
        Ok(built)
    }
}

/// Path of clippy's driver, which stands beside the compiler.
fn driver() -> Result<PathBuf, String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let sysroot = process::output_of(Command::new(rustc).args(["--print", "sysroot"]));
    let beside = sysroot.map(|it| Path::new(it.trim()).join("bin/clippy-driver"));
    let beside = beside.filter(|it| it.is_file());
    let found = beside.or_else(|| process::find("clippy-driver"));
    found.ok_or_else(|| "clippy is missing: rustup component add clippy".to_owned())
}

/// Runs a build, prints its diagnostics, and returns what it made.
fn read(cargo: &mut Command) -> Result<Built, String> {
    cargo.arg("--message-format=json-diagnostic-rendered-ansi");
    let line = process::line(cargo);
    println!("$ {line}");
    let cannot = |error: std::io::Error| format!("cannot run {line}: {error}");
    let child = cargo.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(cannot)?;
    let mut built = Built::default();
    let messages = child.stdout.take().expect("standard output is piped");
    for message in BufReader::new(messages).lines() {
        let message = message.map_err(cannot)?;
        if let Some(program) = executables::parse_line(&message) {
            built.programs.push(program);
        } else if let Some(diagnostic) = diagnostic(&message)
            && built.warnings.insert(diagnostic.clone())
        {
            eprint!("{diagnostic}");
        }
    }
    let status = child.wait().map_err(cannot)?;
    match status.success() {
        true => Ok(built),
        false => Err(format!("{line} ended with {status}")),
    }
}

/// Text of a warning or error about a place in the code. Sums of them, which have no place, are left
/// out.
fn diagnostic(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    let inner = &message["message"];
    let is_placed = inner["spans"].as_array().is_some_and(|it| !it.is_empty());
    let is_meant =
        message["reason"] == "compiler-message" && (is_placed || inner["level"] == "error");
    is_meant.then(|| inner["rendered"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_diagnostic_has_a_place_and_its_text() {
        let message = |level: &str, spans: Value| {
            let inner = json!({"level": level, "spans": spans, "rendered": "text"});
            json!({"reason": "compiler-message", "message": inner}).to_string()
        };
        let placed = json!([{"file_name": "src/lib.rs"}]);
        assert_eq!(
            diagnostic(&message("warning", placed)).as_deref(),
            Some("text")
        );
        assert_eq!(
            diagnostic(&message("error", json!([]))).as_deref(),
            Some("text")
        );
        assert_eq!(diagnostic(&message("warning", json!([]))), None);
        assert_eq!(diagnostic("no JSON"), None);
        assert_eq!(diagnostic("{\"reason\":\"build-finished\"}"), None);
    }
}
