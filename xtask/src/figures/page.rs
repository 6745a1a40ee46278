//! `docs/benchmarks/machines.md`: stored results with a column for each kind of processor.

use std::fmt::Write as _;

use super::comparison::{Change, Column, Latest};
use super::recipe::Recipe;
use super::recipes::{ELSEWHERE, RECIPES};
use super::record::{Outcome, Run};

/// Name of the chart in the folder of the page.
pub(super) const CHART: &str = "machines.svg";

/// Head of the page. Everything below comes from the results.
const HEAD: &str = "\
# The same figures on several processors

```console
$ cargo xtask figures            # all of it, over a night
$ cargo xtask figures --pages    # this page from the stored results
```

The command writes this page from the files in `docs/benchmarks/results`; a test holds both together. \
What the values mean and what was tuned: the page above each table. How to run the command, and how \
to add a machine: [README](README.md#all-figures-anew).
";

/// Meaning of the signs in tables.
const SIGNS: &str = "\
Behind a value stands its ratio to what was measured beside it in the same run: a floor or a peer. \
The signs compare with the run before on the same kind of processor:

- ▲ improved, ▼ worsened: the medians are further apart than the tolerance (a tenth, unless the \
recipe says otherwise), and the ranges of the turns do not overlap.
- ◆ moved, where no direction is better.
- \\* other programs, or the hypervisor, used the cores: the value may be theirs.
";

/// The page for `runs`.
pub(super) fn page(runs: &[Run]) -> String {
    let columns = Column::all(runs);
    let mut page = HEAD.to_owned();
    if columns.is_empty() {
        page += "\nNo run is stored yet.\n";
    } else {
        let _ = write!(page, "\n{SIGNS}\n![Ratios of all processors]({CHART})\n");
        page += &machines(&columns);
        for (name, recipes) in by_page() {
            page += &section(name, &recipes, &columns);
        }
        page += &moved(&columns);
        page += &unmeasured(&columns);
    }
    page += "\n## Measured in another way\n\n";
    for (name, how) in ELSEWHERE {
        let _ = writeln!(page, "- [{name}]({name}.md): {how}.");
    }
    page
}

/// Letter of a column.
pub(super) fn letter(index: usize) -> char {
    char::from(b'A' + u8::try_from(index % 26).unwrap_or(0))
}

/// Recipes by the page that describes them, in order of the first recipe.
fn by_page() -> Vec<(&'static str, Vec<&'static Recipe>)> {
    let mut pages: Vec<(&str, Vec<&Recipe>)> = Vec::new();
    for recipe in &RECIPES {
        match pages.iter_mut().find(|it| it.0 == recipe.page) {
            Some((_, recipes)) => recipes.push(recipe),
            None => pages.push((recipe.page, vec![recipe])),
        }
    }
    pages
}

/// The kinds of processor, and when they were measured.
fn machines(columns: &[Column<'_>]) -> String {
    let mut text = "\n## Processors\n\n| | processor | last run | commit | kernel | runs |\n\
        |---|---|---|---|---|---|\n"
        .to_owned();
    for (index, column) in columns.iter().enumerate() {
        let Some(run) = column.runs.last() else {
            continue;
        };
        let kernel = run.machine.as_ref().map_or("–", |it| it.kernel.as_str());
        let modified = if run.is_modified { ", modified" } else { "" };
        let _ = writeln!(
            text,
            "| {} | {} | {} UTC | {}{modified} | {kernel} | {} |",
            letter(index),
            run.kind.words(),
            run.started,
            run.commit,
            column.runs.len(),
        );
    }
    for (index, column) in columns.iter().enumerate() {
        let letter = letter(index);
        if column.runs[0].kind.is_masked {
            let _ = writeln!(
                text,
                "\n{letter} is no other processor: wide AES was kept from our cipher library by \
                 its environment (`OPENSSL_ia32cap`). Only recipes that ciphers decide have values."
            );
        }
        let origins = column.runs.iter().filter_map(|it| it.origin.as_ref());
        for origin in origins {
            let _ = writeln!(text, "\n{letter}: {origin}");
        }
    }
    text
}

/// Tables of the recipes that one page describes.
fn section(page: &str, recipes: &[&Recipe], columns: &[Column<'_>]) -> String {
    let mut text = String::new();
    for recipe in recipes {
        let rows = rows(recipe, columns);
        if rows.is_empty() {
            continue;
        }
        if text.is_empty() {
            let _ = write!(text, "\n## {page}\n\nMeaning: [{page}]({page}.md).\n");
        }
        let _ = write!(text, "\n`{}`: {}.\n\n", recipe.name, recipe.about);
        let heads: String = (0..columns.len())
            .map(|it| format!(" {} |", letter(it)))
            .collect();
        let _ = writeln!(text, "| | unit | beside |{heads}");
        let _ = writeln!(text, "|---|---|---|{}", "---|".repeat(columns.len()));
        text += &rows;
    }
    text
}

fn rows(recipe: &Recipe, columns: &[Column<'_>]) -> String {
    let mut text = String::new();
    for name in names(recipe, columns) {
        let cells: Vec<Option<Latest<'_>>> = columns
            .iter()
            .map(|column| column.latest(recipe.name, &name))
            .collect();
        let Some(any) = cells.iter().flatten().next() else {
            continue;
        };
        let beside = cells
            .iter()
            .flatten()
            .find_map(|it| it.value.beside.as_ref());
        let beside = beside.map_or("–", |it| it.name.as_str());
        let _ = write!(text, "| {name} | {} | {beside} |", any.value.unit);
        for cell in &cells {
            let shown = cell
                .as_ref()
                .map_or_else(|| "–".to_owned(), |it| shown(it, recipe.name));
            let _ = write!(text, " {shown} |");
        }
        text.push('\n');
    }
    text
}

/// Names of a recipe's values on any of the processors, in the order in which they were measured.
pub(super) fn names(recipe: &Recipe, columns: &[Column<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for column in columns {
        let run = column.latest_run(recipe.name);
        let outcome = run.and_then(|it| it.measured(recipe.name));
        for value in outcome.into_iter().flat_map(|it| &it.values) {
            if !names.contains(&value.name) {
                names.push(value.name.clone());
            }
        }
    }
    names
}

/// A value with its ratio and signs.
fn shown(latest: &Latest<'_>, recipe: &str) -> String {
    let mut text = number(latest.value.value);
    if let Some(beside) = &latest.value.beside {
        let _ = write!(text, " ({:.2})", beside.ratio);
    }
    let change = latest.comparison.map_or(Change::Same, |it| it.change);
    if change != Change::Same {
        let _ = write!(text, " {}", change.sign());
    }
    let is_disturbed = |it: &Outcome| it.load.is_disturbed;
    if latest.run.measured(recipe).is_some_and(is_disturbed) {
        text += " \\*";
    }
    text
}

/// A number with three or four digits that mean something.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.5}"),
    }
}

/// What moved, as a list.
fn moved(columns: &[Column<'_>]) -> String {
    let mut lines = Vec::new();
    for (index, column) in columns.iter().enumerate() {
        for (recipe, name, latest) in all_of(column) {
            lines.extend(
                line_of_change(&latest, recipe, &name)
                    .map(|line| format!("- {} {line}", letter(index))),
            );
        }
    }
    match lines.is_empty() {
        true => "\n## What moved\n\nNothing beyond the noise since the runs before.\n".to_owned(),
        false => format!("\n## What moved\n\n{}\n", lines.join("\n")),
    }
}

/// Every value of a column with its comparison.
pub(super) fn all_of<'a>(
    column: &Column<'a>,
) -> impl Iterator<Item = (&'static str, String, Latest<'a>)> {
    let mut all = Vec::new();
    for recipe in &RECIPES {
        let outcome = column.latest_run(recipe.name);
        let outcome = outcome.and_then(|it| it.measured(recipe.name));
        for value in outcome.into_iter().flat_map(|it| &it.values) {
            if let Some(latest) = column.latest(recipe.name, &value.name) {
                all.push((recipe.name, value.name.clone(), latest));
            }
        }
    }
    all.into_iter()
}

/// The change of a value in words; `None` if it did not move.
pub(super) fn line_of_change(latest: &Latest<'_>, recipe: &str, name: &str) -> Option<String> {
    let comparison = latest.comparison?;
    if comparison.change == Change::Same {
        return None;
    }
    let ratio = comparison
        .ratio
        .map_or_else(String::new, |it| format!(", {it:.2} of before"));
    let value = number(latest.value.value);
    let unit = &latest.value.unit;
    let sign = comparison.change.sign();
    let is_disturbed = |it: &Outcome| it.load.is_disturbed;
    let mark = match latest.run.measured(recipe).is_some_and(is_disturbed) {
        true => ", disturbed",
        false => "",
    };
    Some(format!(
        "{sign} `{recipe}`: {name}: {value} {unit}{ratio}{mark}"
    ))
}

/// Recipes that no processor has measured.
fn unmeasured(columns: &[Column<'_>]) -> String {
    let has_none = |it: &&Recipe| {
        columns
            .iter()
            .all(|column| column.latest_run(it.name).is_none())
    };
    let missing: Vec<String> = RECIPES
        .iter()
        .filter(has_none)
        .map(|it| format!("`{}`", it.name))
        .collect();
    match missing.is_empty() {
        true => String::new(),
        false => format!("\n## Not measured yet\n\n{}.\n", missing.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::record::made_up::{measurement, run};
    use crate::figures::record::{Measurement, Reference};
    use crate::figures::store::Store;
    use crate::figures::{chart, pages};
    use crate::process;

    fn seal(value: f64, floor: f64) -> Measurement {
        Measurement {
            beside: Some(Reference {
                name: "floor".to_owned(),
                value: floor,
                ratio: value / floor,
            }),
            ..measurement("seal", value)
        }
    }

    #[test]
    fn each_kind_of_processor_has_a_column() {
        let mut disturbed = run("Narrow", 3, vec![seal(900.0, 800.0)]);
        let outcome = disturbed.recipes.get_mut("seal").expect("there");
        outcome.load.is_disturbed = true;
        let runs = [
            run("Wide", 1, vec![seal(400.0, 380.0)]),
            run("Wide", 2, vec![seal(500.0, 400.0)]),
            disturbed,
        ];
        let page = page(&runs);
        assert!(
            page.contains("| A | Narrow, 2 cores, no wide AES | 2026-11-27 03:00 UTC |"),
            "{page}"
        );
        assert!(
            page.contains("| seal | ns | floor | 900 (1.12) \\* | 500 (1.25) ▼ |"),
            "{page}"
        );
        assert!(
            page.contains("- B ▼ `seal`: seal: 500 ns, 1.25 of before"),
            "{page}"
        );
        assert!(page.contains("## Not measured yet"), "{page}");
    }

    #[test]
    fn a_masked_run_says_that_it_is_no_other_processor() {
        let mut masked = run("Wide", 1, vec![seal(900.0, 800.0)]);
        masked.kind.aes = crate::figures::machine::Aes::Wide;
        masked.kind.is_masked = true;
        let page = page(&[masked]);
        assert!(page.contains("wide AES masked |"), "{page}");
        assert!(page.contains("A is no other processor"), "{page}");
    }

    #[test]
    fn numbers_have_the_digits_that_mean_something() {
        let shown = [0.0, 12345.6, 99.96, 1.234, 0.9996, 0.00012].map(number);
        assert_eq!(shown, ["0", "12346", "100.0", "1.23", "1.000", "0.00012"]);
    }

    /// The page in the checkout cannot drift from the results beside it.
    #[test]
    fn the_pages_are_those_of_the_stored_results() {
        let runs = Store::of_docs().read().expect("results of this version");
        let stale = "is not what the results say: run `cargo xtask figures --pages`";
        for (name, text) in pages(&runs) {
            let path = process::root().join("docs/benchmarks").join(name);
            let kept = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(kept == text, "{} {stale}", path.display());
        }
        // Without results there is a chart, too.
        assert!(chart::draw(&[]).starts_with("<svg"));
    }
}
