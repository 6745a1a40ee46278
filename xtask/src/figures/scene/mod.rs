//! Measurements that need a running server and somebody who does things to it meanwhile.
//!
//! `cargo xtask figures --scene NAME --binary PROGRAM --json FILE` runs one alone. The report is an
//! object of numbers; names carry their units.

mod reload;
mod serving;
mod snapshots;
mod tcp_viewers;
mod transcoded;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value as Json;

use crate::process;

/// A scene by name.
struct Scene {
    name: &'static str,
    run: fn(&Setting) -> Result<Json, String>,
}

const SCENES: [Scene; 4] = [
    Scene {
        name: "reload",
        run: reload::run,
    },
    Scene {
        name: "snapshots",
        run: snapshots::run,
    },
    Scene {
        name: "tcp-viewers",
        run: tcp_viewers::run,
    },
    Scene {
        name: "transcoded",
        run: transcoded::run,
    },
];

/// Program and folder of a scene.
struct Setting {
    glassline: PathBuf,
    folder: PathBuf,
}

/// Runs a scene with `glassline`, and writes its report to `json`.
///
/// # Errors There is no such scene, or something did not do what it should; the text says what.
pub(super) fn run(name: &str, glassline: &Path, json: &Path) -> Result<(), String> {
    let names = SCENES.map(|it| it.name).join(", ");
    let scene = SCENES.iter().find(|it| it.name == name);
    let scene = scene.ok_or_else(|| format!("no scene `{name}`; there are {names}"))?;
    let folder = process::target_directory().join("figures/scenes");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let setting = Setting {
        glassline: glassline.to_owned(),
        folder,
    };
    let report = (scene.run)(&setting)?;
    let text = format!("{report:#}\n");
    print!("{text}");
    fs::write(json, text).map_err(|error| format!("{}: {error}", json.display()))
}

impl Setting {
    /// Runs `glassline bench viewers` with `arguments` on the last core; returns its report.
    fn viewers(&self, arguments: &[&str]) -> Result<Json, String> {
        let report = self.folder.join("viewers.json");
        // A report of an earlier run must not be read as this run's.
        let _ = fs::remove_file(&report);
        let mut command = self.generator(arguments, &report);
        process::run(&mut command)?;
        read(&report)
    }

    fn generator(&self, arguments: &[&str], report: &Path) -> Command {
        let mut command = serving::pinned(&self.glassline, false);
        command.args(["bench", "viewers"]).args(arguments);
        command.args(["--max-cpu", "100", "--quiet", "--json"]);
        command.arg(report).stdin(Stdio::null());
        command
    }
}

fn read(path: &Path) -> Result<Json, String> {
    let at = |error: String| format!("{}: {error}", path.display());
    let text = fs::read_to_string(path).map_err(|error| at(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| at(error.to_string()))
}

/// A number of a report.
fn number(report: &Json, path: &str) -> Result<f64, String> {
    let found = super::report::select(report, path).and_then(Json::as_f64);
    found.ok_or_else(|| format!("no number at {path} of {report}"))
}

/// Middle of the values, or the mean of both middle ones.
fn median(values: &[f64]) -> f64 {
    super::record::median(values.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_that_there_is_not_is_an_error() {
        let error = run("circus", Path::new("glassline"), Path::new("x.json"));
        let error = error.expect_err("no such scene");
        assert!(
            error.contains("circus") && error.contains("reload"),
            "{error}"
        );
    }
}
