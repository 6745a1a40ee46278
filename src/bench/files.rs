//! Files that reports and figures are written to.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use glassline_runtime::escaped_json;

use crate::exit::Failure;
use crate::{logging, output};

/// A file that can be written, or stdout.
///
/// The file is opened before the run, so that no figures are lost because a folder is missing. It
/// is emptied only when there is something to write, so that a run that fails leaves the figures
/// of the run before.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    /// The open file; `None` for stdout.
    file: Option<File>,
    is_new: bool,
    is_written: bool,
}

impl Output {
    /// Opens `path` for writing; `-` is stdout. A file that does not exist is made.
    pub(crate) fn open(path: &Path) -> Result<Self, Failure> {
        let mut output = Self {
            path: path.to_owned(),
            file: None,
            is_new: false,
            is_written: false,
        };
        if !is_stdout(path) {
            output.is_new = !path.exists();
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false);
            let file = options.open(path).map_err(|error| output.failure(&error))?;
            output.file = Some(file);
        }
        Ok(output)
    }

    pub(crate) const fn is_stdout(&self) -> bool {
        self.file.is_none()
    }

    /// Appends `text` to what this run has written before; the first call replaces the file's old
    /// content.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        let is_first = !std::mem::replace(&mut self.is_written, true);
        let Some(file) = &mut self.file else {
            return output::print(text);
        };
        let written = match is_first {
            // Pipes and devices cannot be emptied, and do not need it.
            true if file.metadata().is_ok_and(|data| data.is_file()) => file.set_len(0),
            _ => Ok(()),
        };
        written
            .and_then(|()| file.write_all(text.as_bytes()))
            .map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &std::io::Error) -> Failure {
        Failure::runtime(format_args!("{}: {error}", self.path.display()))
    }
}

impl Drop for Output {
    /// Removes the file if this run made it and wrote nothing.
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            // The file is empty. If somebody has removed it already, nothing is lost.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Flags that name the files of a report.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct OutputPaths {
    /// Write the report as JSON to this file; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report's figures as CSV to this file; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Draw the report's charts as SVG to this file; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
}

impl OutputPaths {
    /// Returns the paths that are given.
    pub(crate) fn given(&self) -> impl Iterator<Item = &Path> {
        let all = [&self.json, &self.csv, &self.svg];
        all.into_iter().flatten().map(PathBuf::as_path)
    }
}

/// The files that a command writes: one for each form that was asked for.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) json: Option<Output>,
    pub(crate) csv: Option<Output>,
    pub(crate) svg: Option<Output>,
}

impl Outputs {
    /// Opens the files that are named. At most one of them may be stdout, since two forms mixed
    /// on it could not be read.
    pub(crate) fn open(paths: &OutputPaths) -> Result<Self, Failure> {
        if paths.given().filter(|path| is_stdout(path)).count() > 1 {
            return Err(Failure::usage(
                "only one of --json, --csv and --svg can be `-`",
            ));
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Self {
            json: open(&paths.json)?,
            csv: open(&paths.csv)?,
            svg: open(&paths.svg)?,
        })
    }

    /// Whether one of the files is stdout.
    pub(crate) fn takes_stdout(&self) -> bool {
        let all = [&self.json, &self.csv, &self.svg];
        all.into_iter().flatten().any(Output::is_stdout)
    }

    /// Prints a table for people: to stderr where one of the files is stdout, else to stdout. The
    /// argument of `table` says whether to use colors.
    pub(crate) fn print(&self, table: impl FnOnce(bool) -> String) -> Result<(), Failure> {
        if self.takes_stdout() {
            let text = table(logging::color(&std::io::stderr()));
            eprint!("{}", output::styled(&text));
            return Ok(());
        }
        output::print_styled(&table(logging::color(&std::io::stdout())))
    }

    /// Writes each form that was asked for.
    pub(crate) fn write(
        &mut self,
        json: impl FnOnce() -> String,
        csv: impl FnOnce() -> String,
        svg: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        put(&mut self.json, || escaped_json(&json()).into_owned())?;
        put(&mut self.csv, csv)?;
        put(&mut self.svg, svg)
    }
}

fn put(file: &mut Option<Output>, text: impl FnOnce() -> String) -> Result<(), Failure> {
    file.as_mut().map_or(Ok(()), |file| file.write(&text()))
}

fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_fails_leaves_what_was_there() {
        let folder = std::env::temp_dir().join(format!("glassline-files-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("a.json");
        drop(Output::open(&path).expect("it can be written"));
        assert!(!path.exists(), "nothing was written");
        std::fs::write(&path, "the last run's figures").expect("it can be written");
        drop(Output::open(&path).expect("it can be written"));
        assert_eq!(
            std::fs::read_to_string(&path).expect("kept"),
            "the last run's figures"
        );
        let mut output = Output::open(&path).expect("it can be written");
        output.write("new ").expect("it can be written");
        output.write("ones").expect("it can be written");
        drop(output);
        assert_eq!(std::fs::read_to_string(&path).expect("written"), "new ones");
        std::fs::remove_dir_all(&folder).expect("ours");
    }

    #[test]
    fn a_folder_that_is_missing_is_named() {
        let Err(Failure::Runtime(text)) = Output::open(Path::new("/nowhere/x/a.csv")) else {
            panic!("there is no such folder");
        };
        assert!(text.starts_with("/nowhere/x/a.csv: "), "{text}");
    }

    #[test]
    fn stdout_is_given_once() {
        let dash = Some(PathBuf::from("-"));
        let mut paths = OutputPaths {
            json: dash.clone(),
            ..OutputPaths::default()
        };
        let one = Outputs::open(&paths).expect("one");
        assert!(one.takes_stdout());
        paths.csv = dash;
        assert!(Outputs::open(&paths).is_err());
        let none = Outputs::open(&OutputPaths::default()).expect("none");
        assert!(!none.takes_stdout());
    }
}
