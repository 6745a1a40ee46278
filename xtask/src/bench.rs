//! `cargo xtask bench`: named benchmarks, each a recipe that anyone can run again.

use crate::{Failure, install, process};

/// A benchmark of `benches/lab`; its command line is what a report cites.
struct Recipe {
    name: &'static str,
    about: &'static str,
}

const RECIPES: [Recipe; 4] = [
    Recipe {
        name: "seal",
        about: "nanoseconds per packet: sealing and sending, beside cipher and kernel alone",
    },
    Recipe {
        name: "join",
        about: "server's processor time per join, and how long joins take",
    },
    Recipe {
        name: "viewers",
        about: "what 1 to 300 viewers cost the server, beside the least it could be",
    },
    Recipe {
        name: "first_frame",
        about: "Chromium: navigation to first picture, and delay from source to screen",
    },
];

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
    // Built before anything is measured, server included: it is a binary of the
    // same package.
    let lab = ["bench", "--package", "glassline", "--bench", "lab"];
    process::run(&mut process::cargo(&[&lab[..], &["--no-run"]].concat()))?;
    let mut cargo = process::cargo(&lab);
    cargo.arg("--").args(arguments);
    Ok(process::run(&mut cargo)?)
}
