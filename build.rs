//! Notes the commit that the program is built from, for `glassline --version`.
//!
//! `GLASSLINE_COMMIT` comes before what git says, for sources without a repository.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-env-changed=GLASSLINE_COMMIT");
    println!("cargo::rerun-if-changed=build.rs");
    let commit = std::env::var("GLASSLINE_COMMIT").ok().or_else(of_git);
    let commit = commit.unwrap_or_else(|| "unknown".to_owned());
    println!("cargo::rustc-env=GLASSLINE_COMMIT={commit}");
}

/// The commit of the repository around this package; `None` without git or repository.
///
/// Whether files differ from the commit is not said: it would have to be asked at every build.
fn of_git() -> Option<String> {
    for name in ["HEAD", "logs/HEAD"] {
        let path = git(&["rev-parse", "--git-path", name])?;
        // A path that does not exist would run this script at every build.
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    git(&["rev-parse", "--short=12", "HEAD"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
