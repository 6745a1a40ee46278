//! `cargo xtask soak`: the long forms of tests, one at a time, and ten minutes of attacks.

use super::build::TestBuild;
use super::drawn_seed;
use super::peers::Installing;
use super::program::{self, Conditions};
use super::report::{Verdict, is_long};
use crate::executables::Executable;
use crate::summary::{Outcome, Summary, Tests};
use crate::{Failure, chaos, install};

/// Runs the long forms whose names contain one of `arguments`, or all of them, and then the attacks.
/// Prints a summary with a step for each program.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if let Some(option) = arguments.iter().find(|it| it.starts_with('-')) {
        return Err(Failure::usage(format!("soak takes no `{option}`")));
    }
    install::build_tools()?;
    let installing = Installing::begin()?;
    let build = TestBuild::new(install::audio().is_ok())?;
    let built = build.compile()?;
    installing.end()?;
    if let Err(reason) = install::mediamtx() {
        println!("figures beside MediaMTX are left out: {reason}");
    }
    let is_wanted =
        |name: &str| arguments.is_empty() || arguments.iter().any(|it| name.contains(it.as_str()));
    let conditions = Conditions {
        with_peers: true,
        seed: drawn_seed(),
    };
    let mut summary = Summary::start();
    for program in built.programs.iter().filter(|it| !it.is_bench) {
        let mut long: Vec<String> = program::list(program, &["--ignored"])?
            .into_iter()
            .collect();
        long.retain(|it| is_long(it) && is_wanted(it));
        if long.is_empty() {
            continue;
        }
        summary.step(&program::name(program), |tests| {
            one_by_one(program, &long, conditions, tests)
        });
    }
    if is_wanted("chaos") {
        summary.step("chaos", |_| {
            chaos::run(&[]).map_err(|failure| failure.text).into()
        });
    }
    Ok(summary.finish()?)
}

/// Runs each long form alone on the machine, and counts it.
fn one_by_one(
    program: &Executable,
    long: &[String],
    conditions: Conditions,
    tests: &mut Tests,
) -> Outcome {
    let mut failed = Vec::new();
    for name in long {
        println!("{name}");
        let arguments = [name.as_str(), "--exact", "--ignored"];
        let command = program::command(program, &arguments, conditions);
        let ran = program::run(command, |line| println!("{line}"));
        tests.add(&ran.report);
        if ran.report.verdicts.get(name) != Some(&Verdict::Passed) {
            tests.fail(name.clone());
            failed.push(name.as_str());
        }
    }
    match failed.is_empty() {
        true => Outcome::Passed,
        false => Outcome::Failed(failed.join("\n    ")),
    }
}
