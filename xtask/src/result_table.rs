//! Tables of results that a run adds rows to: CSV, which the next run reads, and a page's Markdown.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::process;

/// Where a table stands, and its columns, the first of which names a row.
#[derive(Debug)]
pub(crate) struct Page {
    /// Name of the files in `docs/benchmarks`, without extension.
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    /// Columns that the CSV file alone has.
    pub(crate) off_page: &'static [&'static str],
}

/// Rows by their first cell.
#[derive(Debug)]
pub(crate) struct Table {
    page: &'static Page,
    rows: BTreeMap<String, Vec<String>>,
}

/// Lines of the page between which the table stands.
const MARKS: [&str; 2] = ["<!-- table: begin -->", "<!-- table: end -->"];

impl Page {
    fn path(&self, extension: &str) -> PathBuf {
        let file = format!("docs/benchmarks/{}.{extension}", self.name);
        process::root().join(file)
    }

    /// The cells of a row that stand on the page.
    fn shown<'a>(&self, cells: impl Iterator<Item = &'a str>) -> impl Iterator<Item = &'a str> {
        let columns = self.columns.iter();
        let shown = columns.map(|column| !self.off_page.contains(column));
        cells
            .zip(shown)
            .filter_map(|(cell, is_shown)| is_shown.then_some(cell))
    }
}

impl Table {
    /// Reads the table of earlier runs; empty if there was none.
    ///
    /// # Errors A line of the file is not one that [`Self::write`] writes.
    pub(crate) fn read(page: &'static Page) -> Result<Table, String> {
        let text = fs::read_to_string(page.path("csv")).unwrap_or_default();
        Table::parse(page, &text)
    }

    fn parse(page: &'static Page, text: &str) -> Result<Table, String> {
        let mut table = Table {
            page,
            rows: BTreeMap::new(),
        };
        for (number, line) in text.lines().enumerate().skip(1) {
            let cells: Vec<_> = line.split(',').map(str::to_owned).collect();
            if cells.len() != page.columns.len() {
                let place = format!("{}.csv:{}", page.name, number + 1);
                return Err(format!("{place}: {} cells: {line}", cells.len()));
            }
            table.put(cells);
        }
        Ok(table)
    }

    /// Adds a row, in the place of an earlier one with the same first cell.
    ///
    /// # Panics The row has another number of cells than the page has columns.
    pub(crate) fn put(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.page.columns.len(), "{cells:?}");
        self.rows.insert(cells[0].clone(), cells);
    }

    /// Removes the rows whose first cell is not in `names`.
    pub(crate) fn keep(&mut self, names: &[String]) {
        self.rows.retain(|name, _| names.contains(name));
    }

    /// Writes CSV and page.
    ///
    /// # Errors A file cannot be written, or the page has no place for the table.
    pub(crate) fn write(&self) -> Result<(), String> {
        let path = self.page.path("md");
        let page =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let page = self.placed_in(&page)?;
        for (path, text) in [(path, page), (self.page.path("csv"), self.csv())] {
            fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    fn csv(&self) -> String {
        let mut out = format!("{}\n", self.page.columns.join(","));
        for row in self.rows.values() {
            let _ = writeln!(out, "{}", row.join(","));
        }
        out
    }

    fn markdown(&self) -> String {
        let page = self.page;
        let head: Vec<&str> = page.shown(page.columns.iter().copied()).collect();
        let line = "---|".repeat(head.len());
        let mut out = format!("| {} |\n|{line}\n", head.join(" | "));
        for row in self.rows.values() {
            let cells: Vec<&str> = page.shown(row.iter().map(String::as_str)).collect();
            let _ = writeln!(out, "| {} |", cells.join(" | "));
        }
        out
    }

    fn placed_in(&self, page: &str) -> Result<String, String> {
        let missing = || format!("{}.md has no line `{}`", self.page.name, MARKS[0]);
        let (before, rest) = page.split_once(MARKS[0]).ok_or_else(missing)?;
        let (_, after) = rest.split_once(MARKS[1]).ok_or_else(missing)?;
        let table = self.markdown();
        let [begin, end] = MARKS;
        Ok(format!("{before}{begin}\n\n{table}\n{end}{after}"))
    }

    /// The table in columns, for a terminal.
    pub(crate) fn text(&self) -> String {
        let head: Vec<_> = self.page.columns.iter().map(|&it| it.to_owned()).collect();
        let lines: Vec<_> = std::iter::once(&head).chain(self.rows.values()).collect();
        let width = |column: usize| lines.iter().map(|line| line[column].len()).max();
        let widths: Vec<_> = (0..head.len())
            .map(|column| width(column).unwrap_or(0))
            .collect();
        let mut out = String::new();
        for line in &lines {
            for (cell, width) in line.iter().zip(&widths) {
                let _ = write!(out, "{cell:<width$}  ");
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out
    }
}

/// Today's date in UTC.
pub(crate) fn today() -> String {
    let date = process::output_of(Command::new("date").args(["-u", "+%Y-%m-%d"]));
    date.map_or_else(|| "unknown".to_owned(), |it| it.trim().to_owned())
}

/// Abbreviated commit of the checkout.
pub(crate) fn commit() -> String {
    let mut git = Command::new("git");
    git.current_dir(process::root())
        .args(["rev-parse", "--short=8", "HEAD"]);
    let commit = process::output_of(&mut git);
    commit.map_or_else(|| "unknown".to_owned(), |it| it.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    static PAGE: Page = Page {
        name: "toys",
        columns: &["toy", "count", "color", "day"],
        off_page: &["color"],
    };

    fn row(name: &str, count: u32) -> Vec<String> {
        let cells = [name, &count.to_string(), "red", "2026-11-22"];
        cells.map(str::to_owned).to_vec()
    }

    fn table(rows: &[Vec<String>]) -> Table {
        let mut table = Table::parse(&PAGE, "").expect("empty");
        rows.iter().cloned().for_each(|row| table.put(row));
        table
    }

    #[test]
    fn rows_that_were_not_run_stay_and_those_that_are_gone_do_not() {
        let before = table(&[row("sdp", 600), row("old", 1)]);
        let mut table = Table::parse(&PAGE, &before.csv()).expect("what we wrote");
        table.put(row("rtp", 1_200));
        table.put(row("sdp", 6_000));
        table.keep(&["rtp".to_owned(), "sdp".to_owned()]);
        let rows: Vec<_> = table.rows.into_values().collect();
        assert_eq!(rows, [row("rtp", 1_200), row("sdp", 6_000)]);
        assert!(Table::parse(&PAGE, "head\nsdp,1\n").is_err());
    }

    #[test]
    fn the_page_around_the_table_stays() {
        let table = table(&[row("sdp", 600)]);
        let page = format!("before\n{}\nold\n{}\nafter\n", MARKS[0], MARKS[1]);
        let once = table.placed_in(&page).expect("marks");
        assert!(
            once.starts_with("before\n") && once.ends_with("\nafter\n"),
            "{once}"
        );
        assert!(once.contains("| sdp | 600 | 2026-11-22 |"), "{once}");
        assert!(!once.contains("old"), "{once}");
        assert_eq!(table.placed_in(&once), Ok(once.clone()), "written twice");
        assert!(table.placed_in("no marks").is_err());
        let text = table.text();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }

    #[test]
    fn the_pages_of_the_checkout_have_a_place_for_their_tables() {
        let hls = &crate::bench_peers::hls::PAGE;
        for page in [&crate::fuzz::PAGE, &crate::mutants::PAGE, hls] {
            let text = fs::read_to_string(page.path("md"));
            let text = text.expect("the page is part of the checkout");
            let table = Table::read(page).expect("what a run wrote");
            assert!(table.placed_in(&text).is_ok(), "{}", page.name);
        }
    }
}
