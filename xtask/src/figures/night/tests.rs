//! What is left of a night, with made-up results.

use super::*;
use crate::figures::machine::Aes;
use crate::figures::recipes::RECIPES;
use crate::figures::record::made_up;

const COMMIT: &str = "0123abcd";

fn wide() -> Kind {
    Kind {
        aes: Aes::Wide,
        ..made_up::kind("Wide")
    }
}

fn now(hours: u64) -> Now {
    Now {
        time: "2026-11-27 20:00".to_owned(),
        seconds: 1_795_000_000 + hours * 3600,
        commit: COMMIT.to_owned(),
        is_modified: false,
    }
}

fn recipe(name: &str) -> &'static Recipe {
    RECIPES.iter().find(|it| it.name == name).expect("a recipe")
}

/// A run of `kind` in which `name` has `state`.
fn stored(kind: Kind, name: &str, state: State) -> Run {
    let mut run = made_up::run("", 1, Vec::new());
    let outcome = Outcome {
        command: recipe(name).command(false),
        state,
        ..made_up::outcome(vec![made_up::measurement("a", 1.0)])
    };
    run.kind = kind;
    run.recipes = [(name.to_owned(), outcome)].into();
    run
}

/// Names of what is left, with a star for the run without wide AES.
fn left(request: &Request, stored: &[Run], kind: &Kind) -> Vec<String> {
    let recipes = [recipe("seal"), recipe("join")];
    let night = Night::of(request, &recipes, stored, kind, &now(2));
    let star = |index| if index == 1 { "*" } else { "" };
    let names = night
        .left()
        .map(|(it, index)| format!("{}{}", it.name, star(index)));
    names.collect()
}

#[test]
fn wide_aes_brings_a_second_run_of_what_ciphers_decide() {
    let request = Request::default();
    assert_eq!(left(&request, &[], &wide()), ["seal", "join", "seal*"]);
    let no_mask = Request {
        no_mask: true,
        ..Request::default()
    };
    assert_eq!(left(&no_mask, &[], &wide()), ["seal", "join"]);
    assert_eq!(
        left(&request, &[], &made_up::kind("Narrow")),
        ["seal", "join"]
    );
}

#[test]
fn what_was_measured_is_not_measured_again() {
    let request = Request::default();
    let runs = [stored(wide(), "seal", State::Measured)];
    assert_eq!(left(&request, &runs, &wide()), ["join", "seal*"]);
    for state in [State::Failed, State::Skipped, State::Partial] {
        let runs = [stored(wide(), "seal", state)];
        assert_eq!(left(&request, &runs, &wide()), ["seal", "join", "seal*"]);
    }
    for request in [
        Request {
            again: true,
            ..Request::default()
        },
        Request {
            is_new: true,
            ..Request::default()
        },
    ] {
        assert_eq!(left(&request, &runs, &wide()), ["seal", "join", "seal*"]);
    }
}

#[test]
fn a_recipe_with_another_command_is_measured_again() {
    let mut runs = [stored(wide(), "seal", State::Measured)];
    let outcome = runs[0].recipes.get_mut("seal").expect("there");
    outcome.command = "cargo xtask bench seal --other".to_owned();
    assert_eq!(
        left(&Request::default(), &runs, &wide()),
        ["seal", "join", "seal*"]
    );
}

#[test]
fn results_of_another_processor_do_not_count() {
    let runs = [stored(made_up::kind("Narrow"), "seal", State::Measured)];
    assert_eq!(
        left(&Request::default(), &runs, &wide()),
        ["seal", "join", "seal*"]
    );
}

#[test]
fn the_time_left_is_that_of_the_last_time() {
    let runs = [stored(wide(), "seal", State::Measured)];
    let recipes = [recipe("seal"), recipe("join")];
    let request = Request {
        again: true,
        ..Request::default()
    };
    let night = Night::of(&request, &recipes, &runs, &wide(), &now(2));
    assert_eq!(night.minutes(recipe("seal"), 0), 1.0, "sixty seconds");
    let expected = recipe("join").expected_minutes(false);
    assert_eq!(night.minutes(recipe("join"), 0), expected);
}
