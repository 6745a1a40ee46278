//! Tables of results that a run adds rows to, as CSV, which the next run reads.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::process;

/// Where a table stands, and its columns, the first of which names a row.
#[derive(Debug)]
pub(crate) struct Page {
    /// Name of the page and of the file in `docs/benchmarks`, without extension.
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
}

/// Rows by their first cell.
#[derive(Debug)]
pub(crate) struct Table {
    page: &'static Page,
    rows: BTreeMap<String, Vec<String>>,
}

impl Page {
    fn path(&self) -> PathBuf {
        let file = format!("docs/benchmarks/{}.csv", self.name);
        process::root().join(file)
    }
}

impl Table {
    /// Reads the table of earlier runs; empty if there was none.
    ///
    /// # Errors A line of the file is not one that [`Self::write`] writes.
    pub(crate) fn read(page: &'static Page) -> Result<Table, String> {
        let text = fs::read_to_string(page.path()).unwrap_or_default();
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

    /// Writes the table to its CSV file, below a line with the names of the columns.
    ///
    /// # Errors The file cannot be written.
    pub(crate) fn write(&self) -> Result<(), String> {
        let path = self.page.path();
        fs::write(&path, self.csv()).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn csv(&self) -> String {
        let mut out = format!("{}\n", self.page.columns.join(","));
        for row in self.rows.values() {
            let _ = writeln!(out, "{}", row.join(","));
        }
        out
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
    fn a_terminal_gets_aligned_columns() {
        let text = table(&[row("sdp", 600)]).text();
        assert_eq!(text.lines().count(), 2);
        assert!(text.lines().all(|line| line == line.trim_end()), "{text}");
    }

    #[test]
    fn the_tables_of_the_checkout_can_be_read() {
        for page in [&crate::fuzz::PAGE, &crate::mutants::PAGE] {
            let table = Table::read(page).expect("what a run wrote");
            assert!(!table.rows.is_empty(), "{}", page.name);
        }
    }
}
