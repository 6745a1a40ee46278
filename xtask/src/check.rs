//! `cargo xtask check`: what can be said without running the product.

use crate::summary::{Outcome, Summary};
use crate::{Failure, process, tidy};

/// Fuzz targets are a workspace of their own, and rot unless they are built.
const FUZZ: &str = "fuzz/Cargo.toml";

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
        let product = process::run(&mut process::cargo(&["fmt", "--all", "--check"]));
        let mut fuzz = process::cargo(&["fmt", "--check", "--manifest-path", FUZZ]);
        product.and(process::run(&mut fuzz)).into()
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
    summary.step("fuzz targets", |_| {
        let arguments = [
            "clippy",
            "--no-deps",
            "--manifest-path",
            FUZZ,
            "--",
            "-D",
            "warnings",
        ];
        process::run(&mut process::cargo(&arguments)).into()
    });
}
