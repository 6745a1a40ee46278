//! `cargo xtask bench`: named benchmarks, each a recipe that anyone can run again.

use crate::{Failure, process};

/// A benchmark by name; its command line is what a report cites.
struct Recipe {
    name: String,
    cargo_arguments: Vec<String>,
}

/// Runs the named benchmarks, or all; `--list` only names them.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let recipes = recipes()?;
    if arguments.iter().any(|argument| argument == "--list") {
        for recipe in &recipes {
            println!(
                "{:<24} cargo {}",
                recipe.name,
                recipe.cargo_arguments.join(" ")
            );
        }
        return Ok(());
    }
    let mut chosen = Vec::new();
    for name in arguments {
        let found = recipes.iter().find(|recipe| recipe.name == *name);
        chosen.push(found.ok_or_else(|| {
            Failure::usage(format!("no benchmark `{name}`; `--list` names them"))
        })?);
    }
    if chosen.is_empty() {
        chosen.extend(&recipes);
    }
    if chosen.is_empty() {
        println!("no benchmarks yet");
    }
    for recipe in chosen {
        let words: Vec<&str> = recipe.cargo_arguments.iter().map(String::as_str).collect();
        process::run(&mut process::cargo(&words))?;
    }
    Ok(())
}

/// Every bench target of the workspace, `PACKAGE/TARGET` without our prefix.
fn recipes() -> Result<Vec<Recipe>, Failure> {
    let metadata = process::workspace_metadata()?;
    let mut recipes = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let package_name = package["name"].as_str().unwrap_or_default();
        for target in package["targets"].as_array().into_iter().flatten() {
            if target["kind"][0] != "bench" {
                continue;
            }
            let target_name = target["name"].as_str().unwrap_or_default();
            let short = package_name.trim_start_matches("glassline-");
            let words = ["bench", "--package", package_name, "--bench", target_name];
            recipes.push(Recipe {
                name: format!("{short}/{target_name}"),
                cargo_arguments: words.map(str::to_owned).to_vec(),
            });
        }
    }
    Ok(recipes)
}
