//! `docs/benchmarks/machines.md`: stored results with a column for each kind of processor.

use std::fmt::Write as _;

use super::comparison::{Change, Column, Latest};
use super::recipe::Recipe;
use super::recipes::RECIPES;
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

The command writes this page from the files in `docs/benchmarks/results`, and a test holds both \
together: [how to run it](README.md#all-figures-anew).
";

/// Meaning of the signs in tables.
const SIGNS: &str = "\
In parentheses: ratio to a floor or a peer, measured in the same run. Of some recipes only the main \
values have a row; `docs/benchmarks/results` has all.

- ▲ improved, ▼ worsened, ◆ moved where no direction is better, since the run before on the same kind \
of processor: medians further apart than the tolerance (a tenth, unless the recipe says otherwise), \
with ranges of turns that do not overlap.
- \\* other programs, or the hypervisor, used the cores.
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
        page += &unmeasured(&columns);
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
    for recipe in RECIPES.iter() {
        match pages.iter_mut().find(|it| it.0 == recipe.page) {
            Some((_, recipes)) => recipes.push(recipe),
            None => pages.push((recipe.page, vec![recipe])),
        }
    }
    pages
}

/// The kinds of processor, and when they were measured.
fn machines(columns: &[Column<'_>]) -> String {
    let mut text = "\n## Processors\n\n| | processor | last run | commit |\n\
        |---|---|---|---|\n"
        .to_owned();
    for (index, column) in columns.iter().enumerate() {
        let Some(run) = column.runs.last() else {
            continue;
        };
        let modified = if run.is_modified { ", modified" } else { "" };
        let _ = writeln!(
            text,
            "| {} | {} | {} UTC | {}{modified} |",
            letter(index),
            run.kind.words(),
            run.started,
            run.commit,
        );
    }
    for (index, column) in columns.iter().enumerate() {
        let letter = letter(index);
        if column.runs[0].kind.is_masked {
            let _ = writeln!(
                text,
                "\n{letter} is no other processor: wide AES was kept from our cipher library \
                 (`OPENSSL_ia32cap`), for recipes that ciphers decide."
            );
        }
    }
    text
}

/// Tables of the recipes that one page describes.
fn section(page: &str, recipes: &[&Recipe], columns: &[Column<'_>]) -> String {
    let mut text = String::new();
    for recipe in recipes {
        let table = Table::of(recipe, columns);
        if table.rows.is_empty() {
            continue;
        }
        if text.is_empty() {
            let _ = write!(text, "\n## {page}\n\n[Meaning]({page}.md).\n");
        }
        text += &table.markdown();
    }
    text
}

/// The values of one recipe, a row each, with a cell for each processor.
struct Table<'a> {
    recipe: &'static str,
    about: &'static str,
    rows: Vec<Row<'a>>,
}

struct Row<'a> {
    name: String,
    unit: &'a str,
    beside: Option<&'a str>,
    cells: Vec<Option<Latest<'a>>>,
}

impl<'a> Table<'a> {
    fn of(recipe: &Recipe, columns: &[Column<'a>]) -> Table<'a> {
        let row = |name: String| {
            let cells: Vec<Option<Latest<'a>>> = columns
                .iter()
                .map(|column| column.latest(recipe.name, &name))
                .collect();
            let mut values = cells.iter().flatten().map(|it| it.value);
            let unit = values.next()?.unit.as_str();
            let mut values = cells.iter().flatten().map(|it| it.value);
            let beside = values.find_map(|it| it.beside.as_ref());
            let beside = beside.map(|it| it.name.as_str());
            Some(Row {
                name,
                unit,
                beside,
                cells,
            })
        };
        Table {
            recipe: recipe.name,
            about: recipe.about,
            rows: names(recipe, columns)
                .into_iter()
                .filter(|name| recipe.shows(name))
                .filter_map(row)
                .collect(),
        }
    }

    /// The table below its caption, which has the unit and the reference of all rows where they
    /// agree. Processors without values have no column, and those with equal values, as in virtual
    /// time, have one.
    fn markdown(&self) -> String {
        let unit = the_only(self.rows.iter().map(|it| it.unit));
        let beside = the_only(self.rows.iter().filter_map(|it| it.beside));
        let of_all: Vec<String> = unit
            .map(str::to_owned)
            .into_iter()
            .chain(beside.map(|it| format!("ratio to {it}")))
            .collect();
        let of_all = match of_all.is_empty() {
            true => String::new(),
            false => format!(" ({})", of_all.join("; ")),
        };
        let (recipe, about) = (self.recipe, self.about);
        let mut text = format!("\n`{recipe}`: {about}{of_all}.\n\n| |");
        let columns = self.columns();
        for (letters, _) in &columns {
            let _ = write!(text, " {letters} |");
        }
        let _ = writeln!(text, "\n|---|{}", "---|".repeat(columns.len()));
        for (index, row) in self.rows.iter().enumerate() {
            let _ = write!(text, "| {}", row.name);
            if unit.is_none() {
                let _ = write!(text, ", {}", row.unit);
            }
            if let (None, Some(reference)) = (beside, row.beside) {
                let _ = write!(text, ", beside {reference}");
            }
            text += " |";
            for (_, cells) in &columns {
                let _ = write!(text, " {} |", cells[index]);
            }
            text.push('\n');
        }
        text
    }

    /// Letters and cells of each column.
    fn columns(&self) -> Vec<(String, Vec<String>)> {
        let mut columns: Vec<(String, Vec<String>)> = Vec::new();
        for column in 0..self.rows[0].cells.len() {
            let cells = self.rows.iter().map(|row| row.cells[column].as_ref());
            if cells.clone().all(|it| it.is_none()) {
                continue;
            }
            let shown = |it| shown(it, self.recipe);
            let cells = cells.map(|it| it.map_or_else(|| "–".to_owned(), shown));
            let cells: Vec<String> = cells.collect();
            let letter = letter(column);
            match columns.iter_mut().find(|it| it.1 == cells) {
                Some((letters, _)) => *letters += &format!(", {letter}"),
                None => columns.push((letter.to_string(), cells)),
            }
        }
        columns
    }
}

/// The text that all of `texts` are; `None` if they differ, or if there are none.
fn the_only<'a>(mut texts: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let first = texts.next()?;
    texts.all(|it| it == first).then_some(first)
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

/// Every value of a column with its comparison.
pub(super) fn all_of<'a>(
    column: &Column<'a>,
) -> impl Iterator<Item = (&'static str, String, Latest<'a>)> {
    let mut all = Vec::new();
    for recipe in RECIPES.iter() {
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
            run("Wider", 2, vec![seal(300.0, 200.0)]),
            run("Widest", 2, vec![seal(300.0, 200.0)]),
            disturbed,
        ];
        let page = page(&runs);
        assert!(
            page.contains("| A | Narrow, 2 cores, no wide AES | 2026-11-27 03:00 UTC |"),
            "{page}"
        );
        assert!(
            page.contains("(ns; ratio to floor).\n\n| | A | B | C, D |\n"),
            "{page}"
        );
        assert!(
            page.contains("| seal | 900 (1.12) \\* | 500 (1.25) ▼ | 300 (1.50) |"),
            "{page}"
        );
        let columns = Column::all(&runs);
        let moved: Vec<String> = all_of(&columns[1])
            .filter_map(|(recipe, name, latest)| line_of_change(&latest, recipe, &name))
            .collect();
        assert_eq!(moved, ["▼ `seal`: seal: 500 ns, 1.25 of before"]);
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
