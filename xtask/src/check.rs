//! `cargo xtask check`: what can be said without running the product.

use crate::summary::{Outcome, Summary};
use crate::{Failure, process, tidy};

/// Formatting, lints and tidiness; or the tables of tidiness as the code is.
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

pub(crate) fn lints(summary: &mut Summary) {
    let all = ["--all-targets", "--features", "glassline-fuzz/targets"];
    summary.step("clippy", |_| clippy(&all).into());
}

/// Lints what `more` selects of the workspace. Always of all of it: a crate alone would
/// have its dependencies compiled again, with the features that it needs itself.
///
/// # Errors
/// There was a warning, or something does not compile.
pub(crate) fn clippy(more: &[&str]) -> Result<(), String> {
    let arguments = [&["clippy", "--workspace"], more, &["--", "-D", "warnings"]].concat();
    process::run(&mut process::cargo(&arguments))
}
