//! `cargo xtask test`: all checks that must pass before a change is merged. `repeat` runs one of the
//! tests many times under load, and `soak` the long forms.

mod build;
mod change;
mod load;
mod peers;
mod program;
mod repeat;
pub(crate) mod report;
mod soak;
mod suite;

use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use self::build::{Built, TestBuild};
use self::change::Change;
use self::load::Load;
use self::peers::Installing;
use self::program::Conditions;
pub(crate) use self::repeat::run as repeat;
pub(crate) use self::soak::run as soak;
use crate::summary::{Outcome, Summary};
use crate::{Failure, chaos, check, install, process};

/// Installs peers, beside formatting and the build, which lints; then runs licenses and advisories, and
/// all tests, and prints the summary.
///
/// A missing peer is skipped by name on a laptop, and a failure where `CI=true`.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let request = Request::parse(arguments)?;
    let mut summary = Summary::start();
    summary.step("build tools", |_| install::fuzz_tools().into());
    let with_sound = sound_library(&mut summary);
    let installing = request.with_peers.then(Installing::begin);
    check::formatting(&mut summary);
    let build = TestBuild::new(with_sound)?;
    let built = compile(&mut summary, &build);
    summary.step("peers", |_| {
        let Some(installing) = installing else {
            return Outcome::Skipped("--no-peers".to_owned());
        };
        match installing.and_then(Installing::end) {
            Err(reason) if !process::on_build_server() => Outcome::Skipped(reason),
            result => result.into(),
        }
    });
    dependencies(&mut summary);
    if let Some(built) = built {
        let _load = Load::start(request.load);
        summary.step("tests", |tests| {
            println!("property tests draw with seed {}", request.seed);
            let change = Change::read();
            let conditions = request.conditions();
            suite::run(&build, &built.programs, conditions, &change, tests).into()
        });
        // Alone: the attacks watch delivery, which other tests would disturb.
        summary.step("chaos", |_| chaos::short().into());
    }
    Ok(summary.finish()?)
}

/// Arguments of `cargo xtask test`.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    with_peers: bool,
    seed: u64,
    /// Number of busy loops beside the tests.
    load: u32,
}

impl Request {
    fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut request = Self {
            with_peers: true,
            seed: drawn_seed(),
            load: 0,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--no-peers" => request.with_peers = false,
                "--seed" => request.seed = number(word, words.next())?,
                "--load" => request.load = number(word, words.next())?,
                other => return Err(Failure::usage(format!("test takes no `{other}`"))),
            }
        }
        Ok(request)
    }

    const fn conditions(&self) -> Conditions {
        Conditions {
            with_peers: self.with_peers,
            seed: self.seed,
        }
    }
}

/// A seed that nobody asked for.
fn drawn_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_millis() as u64
}

/// The number after an option.
///
/// # Errors There is none.
fn number<T: std::str::FromStr>(option: &str, value: Option<&String>) -> Result<T, Failure> {
    let number = value.and_then(|it| it.parse().ok());
    number.ok_or_else(|| Failure::usage(format!("{option} takes a number")))
}

/// Builds and lints everything; returns the programs, if all of them compile.
fn compile(summary: &mut Summary, build: &TestBuild) -> Option<Built> {
    let mut built = None;
    summary.step("build and lints", |_| match build.compile() {
        Err(reason) => Outcome::Failed(reason),
        Ok(done) => {
            let warnings = done.warnings.len();
            built = Some(done);
            match warnings {
                0 => Outcome::Passed,
                count => Outcome::Failed(format!("{count} warnings, printed above")),
            }
        }
    });
    built
}

/// Installs the sound library, which code of a feature of its own needs. Returns whether it is there.
fn sound_library(summary: &mut Summary) -> bool {
    let mut is_there = true;
    summary.step("sound library", |_| match install::audio() {
        Ok(()) => Outcome::Passed,
        Err(reason) => {
            is_there = false;
            match process::on_build_server() {
                true => Outcome::Failed(reason),
                false => Outcome::Skipped(reason),
            }
        }
    });
    is_there
}

/// Licenses, bans and sources of all packages in the lock file; security advisories where their
/// database can be fetched.
fn dependencies(summary: &mut Summary) {
    let deny = install::cargo_deny();
    summary.step("dependencies", |_| match &deny {
        Ok(program) => {
            process::run(&mut cargo_deny(program, &["bans", "licenses", "sources"])).into()
        }
        Err(reason) if process::on_build_server() => Outcome::Failed(reason.clone()),
        Err(reason) => Outcome::Skipped(reason.clone()),
    });
    summary.step("advisories", |_| {
        let Ok(program) = &deny else {
            return Outcome::Skipped("there is no cargo-deny".to_owned());
        };
        match process::run_quietly(&mut cargo_deny(program, &["advisories"])) {
            Err(reason) if reason.contains("failed to fetch advisory database") => {
                let unchecked = "the database of advisories cannot be reached: none was checked";
                Outcome::Skipped(unchecked.to_owned())
            }
            result => result.into(),
        }
    });
}

/// A run of cargo-deny for `what` of the checkout's `deny.toml`. Crates in two versions are
/// allowed and not printed.
fn cargo_deny(program: &Path, what: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.current_dir(process::root());
    command.args(["--log-level", "error", "--locked", "check"]);
    command.arg("--hide-inclusion-graph").args(what);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Option<Request> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words).ok()
    }

    #[test]
    fn a_run_is_asked_for_with_seed_and_load() {
        let usual = parse("").expect("nothing is needed");
        assert_eq!((usual.with_peers, usual.load), (true, 0));
        let asked = Request {
            with_peers: false,
            seed: 7,
            load: 4,
        };
        assert_eq!(parse("--load 4 --no-peers --seed 7"), Some(asked));
        for wrong in ["--seed", "--load many", "--peers"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }
}
