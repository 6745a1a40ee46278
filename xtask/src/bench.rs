//! `cargo xtask bench`: named benchmarks, each a recipe that anyone can run again.

use crate::{Failure, install, process};

/// A benchmark of `benches/lab`, or one with a program of its own (see [`INSTRUCTIONS`]). Reports
/// cite its command line.
struct Recipe {
    name: &'static str,
    about: &'static str,
}

const RECIPES: [Recipe; 6] = [
    Recipe {
        name: "seal",
        about: "nanoseconds per packet: sealing and sending, beside cipher and kernel alone",
    },
    Recipe {
        name: "join",
        about: "server's processor time per join, and how long joins take",
    },
    Recipe {
        name: "churn",
        about: "ten thousand viewers come and go in every way: what is left behind",
    },
    Recipe {
        name: "first_frame",
        about: "Chromium: navigation to first frame, and delay from source to screen",
    },
    Recipe {
        name: PUBLISH,
        about: "Chromium publishes and Chromium watches: delay by stage, beside MediaMTX",
    },
    Recipe {
        name: INSTRUCTIONS,
        about: "instructions of packets, reports and data channels, against the kept ones (valgrind)",
    },
];

/// A benchmark apart from the laboratory: it compares counts and runs itself under callgrind.
const INSTRUCTIONS: &str = "instructions";

/// The benchmark that compares with MediaMTX.
const PUBLISH: &str = "publish";

/// Runs the named benchmarks, or all; `--list` only names them.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    if arguments.iter().any(|argument| argument == "--list") {
        for recipe in &RECIPES {
            println!("{:<14} {}", recipe.name, recipe.about);
        }
        return Ok(());
    }
    for name in arguments {
        if !RECIPES.iter().any(|recipe| recipe.name == *name) {
            let text = format!("no benchmark `{name}`; `--list` names them");
            return Err(Failure::usage(text));
        }
    }
    install::build_tools()?;
    let is_counted = |name: &String| name == INSTRUCTIONS;
    if arguments.is_empty() || arguments.iter().any(is_counted) {
        // Each counts in a process of its own and fails by itself; the first takes a minute.
        for package in [
            "glassline-rtp",
            "glassline-hub",
            "glassline-sctp",
            "glassline",
        ] {
            let bench = ["bench", "--package", package, "--bench", INSTRUCTIONS];
            process::run(&mut process::cargo(&bench))?;
        }
    }
    let measured: Vec<&String> = arguments.iter().filter(|name| !is_counted(name)).collect();
    if measured.is_empty() && !arguments.is_empty() {
        return Ok(());
    }
    // Everything is built before the first measurement, including the server, which is a binary
    // of the same package.
    let lab = ["bench", "--package", "glassline", "--bench", "lab"];
    process::run(&mut process::cargo(&[&lab[..], &["--no-run"]].concat()))?;
    let mut cargo = process::cargo(&lab);
    if measured.is_empty() || measured.iter().any(|name| *name == PUBLISH) {
        match install::mediamtx() {
            Ok(program) => {
                cargo.env("MEDIAMTX", program);
            }
            Err(reason) => println!("without MediaMTX: {reason}"),
        }
    }
    cargo.arg("--").args(measured);
    Ok(process::run(&mut cargo)?)
}
