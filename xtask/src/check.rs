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
    lints(&mut summary);
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

/// Lints the whole workspace: for a crate alone, its dependencies would be compiled again with other
/// features.
fn lints(summary: &mut Summary) {
    summary.step("clippy", |_| {
        let arguments = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        process::run(&mut process::cargo(&arguments)).into()
    });
}
