//! The engine against `nats-server`, one process or a cluster of three, started by the tests.
//!
//! `cargo xtask test` builds the server under `target/peers/go`. Without it the tests are skipped by
//! name, and fail where `CI` is `true`. `-- --ignored --nocapture figures` measures.

#![expect(
    clippy::disallowed_methods,
    reason = "these tests run against servers in real time"
)]

mod figures;
mod logins;
mod node;
mod outages;
#[path = "../../../tests/ports.rs"]
mod ports;
mod records;
mod server;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// A test with its name.
type Test = (&'static str, fn() -> Result<(), Failed>);

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let absence = server::absence();
    let is_build_server = std::env::var("CI").is_ok_and(|it| it == "true" || it == "1")
        && std::env::var_os("GLASSLINE_TEST_NO_PEERS").is_none();
    let all = [records::TESTS, outages::TESTS, logins::TESTS].concat();
    let mut trials: Vec<Trial> = Vec::new();
    for (name, run) in all {
        trials.push(match &absence {
            None => Trial::test(name, run),
            Some(reason) if is_build_server => {
                let reason = reason.clone();
                Trial::test(name, move || Err(reason.into()))
            }
            Some(reason) => {
                if !arguments.list {
                    println!("skipped {name}: {reason}");
                }
                Trial::test(name, run).with_ignored_flag(true)
            }
        });
    }
    trials.push(Trial::test("figures", figures::run).with_ignored_flag(true));
    libtest_mimic::run(&arguments, trials).exit_code()
}
