//! `glassline recordings`: lists, checks and repairs folders of recordings.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::{Args, Subcommand};
use glassline_lab::timestamp::rfc3339;
use glassline_recording::{Catalogue, Findings, Folder, StreamName, TimeRange, check};
use serde_json::{Value, json};

use crate::exit::{CHECK_FAILED, Failure};
use crate::output;
use crate::recordings_export::Export;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the streams of folders of recordings, or the files of one stream.
    List(List),
    /// Save a part of what a running server has recorded as one MP4 file.
    Export(Export),
    /// Compare the index of folders with their files; exit code 3 if something is wrong.
    ///
    /// A server may record into the folders meanwhile.
    Check {
        /// Folders that servers record into.
        #[arg(required = true, value_name = "FOLDER")]
        folders: Vec<PathBuf>,
    },
    /// Make the index of folders anew from their files. No server may record into them meanwhile.
    Repair {
        /// Folders that servers record into.
        #[arg(required = true, value_name = "FOLDER")]
        folders: Vec<PathBuf>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct List {
    /// Folders that servers record into.
    #[arg(required = true, value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Stream whose files are listed.
    #[arg(long, value_name = "NAME")]
    stream: Option<String>,
    /// Print JSON in place of text.
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(action: &Action, quiet: bool) -> Result<ExitCode, Failure> {
    match action {
        Action::List(list) => list.run(),
        Action::Export(export) => export.run(quiet),
        Action::Check { folders } => {
            let look = |folder: &PathBuf| check(folder).map_err(Failure::runtime);
            report(folders, quiet, look)
        }
        Action::Repair { folders } => report(folders, quiet, |path| {
            let folder = Folder::open(path, None).map_err(Failure::runtime)?;
            Catalogue::repair(&folder).map_err(Failure::runtime)
        }),
    }
}

/// Prints what `look` finds in each folder.
fn report(
    folders: &[PathBuf],
    quiet: bool,
    look: impl Fn(&PathBuf) -> Result<Findings, Failure>,
) -> Result<ExitCode, Failure> {
    let mut is_well = true;
    for folder in folders {
        let findings = look(folder)?;
        is_well &= findings.problems.is_empty();
        let mut text = String::new();
        for problem in &findings.problems {
            let _ = writeln!(text, "{problem}");
        }
        if !quiet {
            let (files, open) = (findings.files, findings.open);
            let problems = findings.problems.len();
            let folder = folder.display();
            let remote = match findings.remote {
                0 => String::new(),
                remote => format!(", {remote} as copies alone"),
            };
            let _ = writeln!(
                text,
                "{folder}: {files} files, {open} being written, {problems} with a problem{remote}"
            );
        }
        output::print(&text)?;
    }
    Ok(match is_well {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(CHECK_FAILED),
    })
}

impl List {
    fn run(&self) -> Result<ExitCode, Failure> {
        let catalogue = Catalogue::default();
        for folder in &self.folders {
            let added = catalogue.add_for_reading(folder);
            added.map_err(Failure::runtime)?;
        }
        let rows = match &self.stream {
            Some(name) => files(&catalogue, name)?,
            None => streams(&catalogue)?,
        };
        if self.json {
            output::print(&format!("{}\n", output::json(&rows)))?;
            return Ok(ExitCode::SUCCESS);
        }
        let mut text = String::new();
        for row in &rows {
            let shown = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
            let bytes = row["bytes"].as_u64().unwrap_or(0);
            let mib = bytes >> 20;
            let (from, to) = (shown("from"), shown("to"));
            let name = shown(if self.stream.is_some() {
                "path"
            } else {
                "stream"
            });
            let copy = match row["copy"].as_str() {
                Some("copied") => "  (copied)",
                Some("alone") => "  (copy alone)",
                _ => "",
            };
            let _ = writeln!(text, "{from}  {to}  {mib:>8} MiB  {name}{copy}");
        }
        output::print(&text)?;
        Ok(ExitCode::SUCCESS)
    }
}

fn streams(catalogue: &Catalogue) -> Result<Vec<Value>, Failure> {
    let streams = catalogue.streams().map_err(Failure::runtime)?;
    let rows = streams.into_iter().map(|it| {
        json!({
            "stream": it.name.as_str(),
            "from": time(it.first),
            "to": time(it.last),
            "files": it.files,
            "bytes": it.bytes,
        })
    });
    Ok(rows.collect())
}

fn files(catalogue: &Catalogue, stream: &str) -> Result<Vec<Value>, Failure> {
    let stream = StreamName::parse(stream).map_err(Failure::usage)?;
    let all = TimeRange {
        from: UNIX_EPOCH,
        // The year 5138, which the index can say.
        to: UNIX_EPOCH + Duration::from_secs(100_000_000_000),
    };
    let files = catalogue.files(&stream, all).map_err(Failure::runtime)?;
    let rows = files.into_iter().map(|it| {
        json!({
            "path": it.path.display().to_string(),
            "layer": it.layer,
            "from": time(it.start),
            "to": time(it.end()),
            "duration_s": it.duration.as_secs_f64(),
            "bytes": it.bytes,
            "closed": it.is_closed,
            "copy": it.copy.as_str(),
            "lost_before": it.beginning.loss().map(|(reason, _)| reason),
        })
    });
    Ok(rows.collect())
}

fn time(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    rfc3339(since.as_secs())
}
