//! `cargo xtask figures`: the figures of `docs/benchmarks` anew, on whatever processor this is.
//!
//! ```text
//! recipes ─► build once ─► perform, one after another ─► record ─► store: docs/benchmarks/results/KIND/*.json
//! (list)                   turns, deadline, load           │
//!                                                          └► comparison ─► page, chart: machines.md, machines.svg
//! ```
//!
//! A run is stored after each recipe, so an interrupted night goes on where it stopped. A recipe that
//! fails is named, and the others go on.

mod build;
mod chart;
mod comparison;
mod machine;
mod night;
mod page;
mod perform;
mod quiet;
mod recipe;
mod recipes;
mod record;
mod report;
mod request;
mod scene;
mod store;

use std::fs;

use build::Built;
use night::Night;
use recipe::{Need, Recipe};
use record::Run;
use request::Request;
use store::Store;

use crate::{Failure, process};

/// Measures, stores, compares and writes the pages; `arguments` as in the usage text.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let request = Request::parse(arguments).map_err(Failure::usage)?;
    let recipes = request.recipes();
    if request.lists {
        list(&recipes, request.is_quick);
        return Ok(());
    }
    if request.pages_only {
        return Ok(write_pages()?);
    }
    if let (Some(scene), Some(json)) = (&request.scene, &request.json) {
        let built = process::target_directory().join("release/glassline");
        let program = request.binary.as_deref().unwrap_or(&built);
        return Ok(scene::run(scene, program, json)?);
    }
    let store = match request.is_quick {
        true => Store::of_quick_runs(),
        false => Store::of_docs(),
    };
    // Before anything is measured: a file that cannot be read would lose the night.
    let stored = store.read()?;
    let mut night = Night::plan(&request, &recipes, &stored);
    if night.is_done() {
        println!("everything is measured; --again measures anew, --new begins another run");
    } else {
        demand_quiet(request.busy)?;
        night.prepare()?;
        let to_build: Vec<&Recipe> = night.left().map(|it| it.0).collect();
        let built = Built::of(&to_build, request.is_quick, request.binary.as_deref())?;
        night.perform(&built, &store)?;
    }
    let runs = store.read()?;
    if !request.is_quick {
        write_pages()?;
    }
    night.finish(&runs)
}

/// Files of the pages with their texts, for `runs`.
fn pages(runs: &[Run]) -> [(&'static str, String); 2] {
    [
        ("machines.md", page::page(runs)),
        (page::CHART, chart::draw(runs)),
    ]
}

fn write_pages() -> Result<(), String> {
    let runs = Store::of_docs().read()?;
    for (name, text) in pages(&runs) {
        let path = process::root().join("docs/benchmarks").join(name);
        fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("written: {}", path.display());
    }
    Ok(())
}

fn list(recipes: &[&Recipe], is_quick: bool) {
    println!("{:<16} {:>7}  {:<24} what", "recipe", "minutes", "needs");
    for recipe in recipes {
        let needs: Vec<String> = recipe.needs.iter().map(Need::words).collect();
        let minutes = recipe.expected_minutes(is_quick);
        println!(
            "{:<16} {minutes:>7.1}  {:<24} {}",
            recipe.name,
            needs.join(", "),
            recipe.about
        );
        println!("{:<50} $ {}", "", recipe.command(is_quick));
    }
    let all: f64 = recipes.iter().map(|it| it.expected_minutes(is_quick)).sum();
    let crypto = recipes.iter().filter(|it| it.is_crypto);
    let masked: f64 = crypto.map(|it| it.expected_minutes(is_quick)).sum();
    println!(
        "\n{all:.0} minutes, and {masked:.0} more without wide AES where the processor has it"
    );
    println!("\nnot by this command:");
    for (page, how) in recipes::ELSEWHERE {
        println!("{page:<16} {how}");
    }
}

/// Refuses a machine with other work, unless `busy`.
fn demand_quiet(busy: bool) -> Result<(), String> {
    let cores = quiet::cores_in_use();
    if quiet::is_quiet(cores) {
        return Ok(());
    }
    let text = format!(
        "other programs use {cores:.2} cores (load average {:.1})",
        quiet::load_average()
    );
    match busy {
        true => {
            println!("{text}: values are going to be marked");
            Ok(())
        }
        false => Err(format!(
            "{text}: figures would be theirs. Stop them, or measure nevertheless and mark the \
             values by --busy"
        )),
    }
}
