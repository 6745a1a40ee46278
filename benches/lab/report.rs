//! Tables for people, JSON for tools.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::{machine, peers};

/// A table with aligned columns; the first one to the left, the others to the right.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Starts a table with `heads`; column widths follow from all rows.
    pub(crate) fn new(heads: &[&str]) -> Self {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        Self { rows: vec![heads] }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn print(&self) {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                if column == 0 {
                    line += &format!("{cell:<width$}");
                } else {
                    line += &format!("  {cell:>width$}");
                }
            }
            println!("{}", line.trim_end());
        }
    }
}

/// Folder of reports and cached media: `target/bench`.
pub(crate) fn folder() -> Result<PathBuf, String> {
    let folder = peers::target_directory().join("bench");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Writes `target/bench/NAME.json` with the circumstances and `results`. `machine` must be
/// described before the run, so that its load is not the run's own.
pub(crate) fn write(name: &str, machine: &Value, results: &Value) -> Result<(), String> {
    let report = json!({
        "benchmark": name,
        "command": format!("cargo xtask bench {name}"),
        "circumstances": machine::circumstances(),
        "machine": machine,
        "results": results,
    });
    let path = folder()?.join(format!("{name}.json"));
    let text = format!("{report:#}\n");
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("report: {}", path.display());
    Ok(())
}

/// The value that `share` (0–1) of `values` do not exceed, nearest rank.
pub(crate) fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (sorted.len() as f64 * share).ceil().max(1.0);
    sorted.get(rank as usize - 1).copied()
}

/// A figure with `digits` behind the point, or a dash.
pub(crate) fn figure(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "–".to_owned(), |value| format!("{value:.digits$}"))
}
