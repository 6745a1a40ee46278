//! `cargo xtask check`: what can be said without running the product.

use crate::summary::{Outcome, Summary};
use crate::{Failure, process, tidy};

/// Formatting, lints and tidiness.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::usage(format!("check takes no `{unknown}`")));
    }
    let mut summary = Summary::start();
    formatting(&mut summary);
    lints(&mut summary);
    summary.step("tidy", |_| {
        let problems = tidy::problems();
        if problems.is_empty() {
            Outcome::Passed
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
