//! `cargo xtask check`: checks that need no running product.

use crate::summary::{Outcome, Summary};
use crate::{Failure, process, tidy};

/// Checks formatting, lints, documentation and tidiness; with `--tables`, prints the tables of tidiness as
/// the code is.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    match arguments.first().map(String::as_str) {
        None => {}
        Some("--tables") => {
            print!("{}", tidy::tables()?);
            return Ok(());
        }
        Some(unknown) => return Err(Failure::usage(format!("check takes no `{unknown}`"))),
    }
    let mut summary = Summary::start();
    formatting(&mut summary);
    lints(&mut summary, &[]);
    summary.step("documentation", |_| {
        let mut cargo = process::cargo(&["doc", "--workspace", "--no-deps"]);
        cargo.env("RUSTDOCFLAGS", "-D warnings");
        process::run(&mut cargo).into()
    });
    summary.step("tidy", |_| {
        let problems = tidy::problems();
        if problems.is_empty() {
            Outcome::PassedWith(tidy::counts())
        } else {
            Outcome::Failed(problems.join("\n    "))
        }
    });
    Ok(summary.finish()?)
}

pub(crate) fn formatting(summary: &mut Summary) {
    summary.step("formatting", |_| {
        process::run(&mut process::cargo(&["fmt", "--all", "--check"])).into()
    });
}

/// Lints all targets with the features that `more` selects, and what users build, which has none.
pub(crate) fn lints(summary: &mut Summary, more: &[&str]) {
    let all = ["--all-targets", "--features", "glassline-fuzz/targets"];
    summary.step("clippy", |_| clippy(&[&all[..], more].concat()).into());
    if !more.is_empty() {
        // The same feature of the fuzz targets, so that only what depends on `more` is built again.
        summary.step("clippy, no features", |_| clippy(&all[1..]).into());
    }
}

/// Lints the targets of the workspace that `more` selects. Always the whole workspace: for a
/// crate alone, its dependencies would be compiled again with other features.
///
/// # Errors There was a warning, or something does not compile.
fn clippy(more: &[&str]) -> Result<(), String> {
    let arguments = [&["clippy", "--workspace"], more, &["--", "-D", "warnings"]].concat();
    process::run(&mut process::cargo(&arguments))
}
