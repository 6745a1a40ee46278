//! `cargo xtask reference`: the generated parts of `docs/reference/`, written anew.

use crate::{Failure, process};

/// Environment variable by which the tests of `src/reference/` write instead of compare.
const RENEW: &str = "GLASSLINE_RENEW_REFERENCE";

/// Runs the tests that hold the pages to the program, with leave to write.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::usage(format!("reference takes no `{unknown}`")));
    }
    let mut cargo = process::cargo(&["test", "--package", "glassline", "--bin", "glassline"]);
    cargo.args(["reference::"]).env(RENEW, "1");
    Ok(process::run(&mut cargo)?)
}
