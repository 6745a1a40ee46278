//! One night: what is left to measure, what was measured, and what moved.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use super::build::{self, Built};
use super::comparison::Column;
use super::machine::{Kind, Machine};
use super::page;
use super::perform::Stage;
use super::recipe::Recipe;
use super::record::{FORMAT, Load, Outcome, Run, State};
use super::request::Request;
use super::store::{self, Store};
use crate::{Failure, process};

/// The paths that figures depend on: a commit that changes none of it gives the same figures.
const MEASURED: [&str; 10] = [
    "Cargo.lock",
    "Cargo.toml",
    "assets",
    "benches",
    "build.rs",
    "crates",
    "examples",
    "peers",
    "src",
    "tests",
];

/// Runs of one night: that of this processor, and the one without wide AES.
pub(super) struct Night {
    runs: Vec<Run>,
    is_quick: bool,
    is_busy: bool,
    /// The tasks, in order: recipe, and index of the run.
    tasks: Vec<(&'static Recipe, usize)>,
    /// Minutes that recipes took before, by index of the run and name.
    took: BTreeMap<(usize, &'static str), f64>,
    failed: Vec<String>,
    skipped: Vec<String>,
}

impl Night {
    pub(super) fn plan(request: &Request, recipes: &[&'static Recipe], stored: &[Run]) -> Self {
        Self::of(request, recipes, stored, &Kind::here(), &Now::here())
    }

    /// Continues the stored runs of `kind` where that is right, and lists what is left.
    fn of(
        request: &Request,
        recipes: &[&'static Recipe],
        stored: &[Run],
        kind: &Kind,
        now: &Now,
    ) -> Self {
        let masked = kind.masked().filter(|_| !request.no_mask);
        let kinds = [Some(kind.clone()), masked];
        let mut night = Self {
            runs: Vec::new(),
            is_quick: request.is_quick,
            is_busy: request.busy,
            tasks: Vec::new(),
            took: BTreeMap::new(),
            failed: Vec::new(),
            skipped: Vec::new(),
        };
        for (index, kind) in kinds.into_iter().flatten().enumerate() {
            let earlier = store::unfinished(stored, &kind, &now.commit, now.seconds);
            let run = match earlier {
                Some(run) if !request.is_new => run.clone(),
                _ => now.begin(kind.clone()),
            };
            for recipe in recipes.iter().filter(|it| index == 0 || it.is_crypto) {
                let command = recipe.command(request.is_quick);
                let before = stored.iter().rev().filter(|it| it.kind == kind);
                let before = before.filter(|it| it.has(recipe.name, &command));
                let took = before
                    .filter_map(|it| it.measured(recipe.name))
                    .map(|it| it.seconds);
                if let Some(seconds) = took.into_iter().find(|it| *it > 0.0) {
                    night.took.insert((index, recipe.name), seconds / 60.0);
                }
                if request.again || !run.is_done(recipe.name, &command) {
                    night.tasks.push((recipe, index));
                }
            }
            night.runs.push(run);
        }
        night
    }

    pub(super) fn is_done(&self) -> bool {
        self.tasks.is_empty()
    }

    pub(super) fn left(&self) -> impl Iterator<Item = (&'static Recipe, usize)> {
        self.tasks.iter().copied()
    }

    /// Installs what recipes need. A recipe that cannot run here is skipped by name.
    pub(super) fn prepare(&mut self) -> Result<(), String> {
        let mut tasks = Vec::new();
        for (recipe, index) in std::mem::take(&mut self.tasks) {
            match build::provide(recipe) {
                Ok(()) => tasks.push((recipe, index)),
                Err(reason) => {
                    println!("skipped {}: {reason}", recipe.name);
                    self.skipped.push(recipe.name.to_owned());
                    let outcome = Outcome {
                        command: recipe.command(self.is_quick),
                        state: State::Skipped,
                        reason: Some(reason),
                        started: utc(),
                        seconds: 0.0,
                        load: Load::default(),
                        values: Vec::new(),
                    };
                    self.runs[index]
                        .recipes
                        .insert(recipe.name.to_owned(), outcome);
                }
            }
        }
        self.tasks = tasks;
        let folder = folder();
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let copied = fs::copy(&program, own());
        copied
            .map(drop)
            .map_err(|error| format!("{}: {error}", program.display()))
    }

    /// Performs all tasks, and stores the run after each.
    pub(super) fn perform(&mut self, built: &Built, store: &Store) -> Result<(), String> {
        let tasks = std::mem::take(&mut self.tasks);
        let count = tasks.len();
        for (number, (recipe, index)) in tasks.iter().copied().enumerate() {
            let left = tasks[number..].iter();
            let left: f64 = left
                .map(|(recipe, index)| self.minutes(recipe, *index))
                .sum();
            let masked = if index == 1 { ", without wide AES" } else { "" };
            println!(
                "[{}/{count}] {}{masked}: {} ({} UTC, about {left:.0} min left)",
                number + 1,
                recipe.name,
                recipe.about,
                utc()
            );
            let stage = Stage {
                built,
                is_quick: self.is_quick,
                is_masked: index == 1,
                is_busy: self.is_busy,
                own: own(),
                folder: folder(),
            };
            let outcome = stage.perform(recipe, utc());
            print(&outcome);
            if outcome.state != State::Measured {
                self.failed.push(format!("{}{masked}", recipe.name));
            }
            let run = &mut self.runs[index];
            let name = recipe.name.to_owned();
            // A value that was measured is not lost by a later failure.
            let keeps = outcome.state == State::Failed && run.measured(recipe.name).is_some();
            if !keeps {
                run.recipes.insert(name, outcome);
            }
            store.write(run)?;
        }
        Ok(())
    }

    /// Expected minutes of a task: those of the last time, or those that the recipe says.
    fn minutes(&self, recipe: &'static Recipe, index: usize) -> f64 {
        let before = self.took.get(&(index, recipe.name)).copied();
        before.unwrap_or_else(|| recipe.expected_minutes(self.is_quick))
    }

    /// Prints what moved.
    ///
    /// # Errors Names the recipes that failed.
    pub(super) fn finish(&self, stored: &[Run]) -> Result<(), Failure> {
        for column in Column::all(stored) {
            if !self.runs.iter().any(|it| it.kind == column.runs[0].kind) {
                continue;
            }
            println!("\n── {}", column.runs[0].kind.words());
            let changes = page::all_of(&column)
                .filter_map(|(recipe, name, latest)| page::line_of_change(&latest, recipe, &name));
            let changes: Vec<String> = changes.collect();
            match changes.is_empty() {
                true => println!("nothing moved beyond the noise since the run before"),
                false => println!("{}", changes.join("\n")),
            }
        }
        if !self.skipped.is_empty() {
            println!("\nskipped: {}", self.skipped.join(", "));
        }
        match self.failed.is_empty() {
            true => Ok(()),
            false => Err(format!("failed, or not whole: {}", self.failed.join(", ")).into()),
        }
    }
}

/// The moment at which a run begins, and the code that it measures.
struct Now {
    time: String,
    seconds: u64,
    commit: String,
    is_modified: bool,
}

impl Now {
    fn here() -> Self {
        let git = |words: &[&str]| {
            let mut command = Command::new("git");
            command.current_dir(process::root()).args(words);
            let output = process::output_of(command.arg("--").args(MEASURED));
            output.map(|it| it.trim().to_owned())
        };
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            time: utc(),
            seconds: since.map_or(0, |it| it.as_secs()),
            commit: git(&["log", "-1", "--format=%h"]).unwrap_or_else(|| "unknown".to_owned()),
            is_modified: git(&["status", "--porcelain"]).is_none_or(|it| !it.is_empty()),
        }
    }

    fn begin(&self, kind: Kind) -> Run {
        Run {
            format: FORMAT,
            kind,
            machine: Machine::here(),
            started: self.time.clone(),
            started_s: self.seconds,
            commit: self.commit.clone(),
            is_modified: self.is_modified,
            versions: versions(),
            recipes: BTreeMap::new(),
        }
    }
}

/// Versions of what is not in the checkout.
fn versions() -> BTreeMap<String, String> {
    let programs = [
        ("rustc", "--version"),
        ("cc", "--version"),
        ("chromium", "--version"),
        ("ffmpeg", "-version"),
    ];
    let mut versions = BTreeMap::new();
    for (program, flag) in programs {
        let said = process::output_of(Command::new(program).arg(flag));
        if let Some(line) = said.as_deref().and_then(|it| it.lines().next()) {
            versions.insert(program.to_owned(), line.trim().to_owned());
        }
    }
    versions
}

/// Folder of logs and reports of single turns.
fn folder() -> PathBuf {
    process::target_directory().join("figures")
}

/// Copy of this program in that folder.
fn own() -> PathBuf {
    folder().join("xtask")
}

/// Date and time in UTC, as in `2026-11-27 16:20`.
fn utc() -> String {
    let date = process::output_of(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M"]));
    date.map_or_else(|| "unknown".to_owned(), |it| it.trim().to_owned())
}

fn print(outcome: &Outcome) {
    if let Some(reason) = &outcome.reason {
        println!("    {:?}: {reason}", outcome.state);
    }
    for value in &outcome.values {
        let beside = value
            .beside
            .as_ref()
            .map_or_else(String::new, |it| format!(", {:.2} × {}", it.ratio, it.name));
        let number = page::number(value.value);
        println!("    {}: {number} {}{beside}", value.name, value.unit);
    }
    if outcome.load.is_disturbed {
        let load = &outcome.load;
        println!(
            "    disturbed: others used {:.2} cores before and {:.2} beside it, the host {:.2}",
            load.cores_before, load.cores_beside, load.cores_stolen
        );
    }
}

#[cfg(test)]
mod tests;
