//! Benchmarks of the built product.
//!
//! ```text
//! cargo xtask bench NAME ─► lab NAME ─┬─ glassline (release), serving
//! ```
//!
//! `glassline bench viewers` measures the cost of viewers; these benchmarks measure the rest.

#![expect(
    clippy::disallowed_methods,
    reason = "benchmarks measure real time, with real sockets"
)]

mod churn;
mod first_frame;
mod generator;
mod join;
mod machine;
mod media;
mod publish;
mod report;
mod seal;
mod server;

// The tests use the same programs.
#[path = "../../tests/guest.rs"]
mod guest;
#[path = "../../tests/http.rs"]
mod http;
#[path = "../../tests/namespace.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod namespace;
#[path = "../../tests/packages.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod packages;
#[path = "../pair.rs"]
mod pair;
#[path = "../../tests/peers.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod peers;
#[path = "../../tests/process.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod process;
#[path = "../../tests/sharing.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod sharing;
#[path = "../../tests/webdriver.rs"]
#[expect(dead_code, reason = "shared with the tests, which use more of it")]
mod webdriver;

use std::process::ExitCode;

/// A benchmark by name.
struct Recipe {
    name: &'static str,
    run: fn() -> Result<(), String>,
}

const RECIPES: [Recipe; 5] = [
    Recipe {
        name: "seal",
        run: seal::run,
    },
    Recipe {
        name: "join",
        run: join::run,
    },
    Recipe {
        name: "churn",
        run: churn::run,
    },
    Recipe {
        name: "first_frame",
        run: first_frame::run,
    },
    Recipe {
        name: "publish",
        run: publish::run,
    },
];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match arguments.split_first() {
        Some((first, rest)) if first.starts_with("--role=") => play(first, rest),
        // `cargo test --all-targets` starts benchmarks, too, but without `--bench`.
        _ if !arguments.iter().any(|argument| argument == "--bench") => {
            println!("nothing is measured without --bench; see `cargo xtask bench`");
            Ok(())
        }
        _ => run(&arguments),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("lab: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the recipes that are named, or all.
fn run(arguments: &[String]) -> Result<(), String> {
    let names = arguments
        .iter()
        .filter(|argument| !argument.starts_with("--"));
    let mut chosen = Vec::new();
    for name in names {
        let found = RECIPES.iter().find(|recipe| recipe.name == name);
        chosen.push(found.ok_or_else(|| format!("no benchmark `{name}`"))?);
    }
    if chosen.is_empty() {
        chosen.extend(&RECIPES);
    }
    for recipe in chosen {
        println!("\n== {}: {}", recipe.name, machine::line());
        (recipe.run)()?;
    }
    Ok(())
}

/// Runs this program in a child role.
fn play(role: &str, arguments: &[String]) -> Result<(), String> {
    match role {
        "--role=joins" => generator::join_and_leave(arguments),
        other => Err(format!("no role {other}")),
    }
}
