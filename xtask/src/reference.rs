//! `cargo xtask reference`: renews the generated parts of `docs/reference/`.

use crate::{Failure, process};

/// Environment variable with which the tests of `src/reference/` write the pages instead of
/// comparing them.
const RENEW: &str = "GLASSLINE_RENEW_REFERENCE";

/// Runs the tests that compare the pages with the program, with the variable set.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(unknown) = arguments.first() {
        return Err(Failure::usage(format!("reference takes no `{unknown}`")));
    }
    let mut cargo = process::cargo(&["test", "--package", "glassline", "--bin", "glassline"]);
    cargo.args(["reference::"]).env(RENEW, "1");
    Ok(process::run(&mut cargo)?)
}
