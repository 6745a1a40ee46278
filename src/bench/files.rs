//! Where figures are written.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::{logging, output};

/// A file that can be written, or stdout.
///
/// Opened early, so that a run's figures are not lost for want of a folder;
/// emptied only when there is something to write, so that a run that fails leaves
/// the last one's figures.
#[derive(Debug)]
pub(crate) struct Output {
    path: PathBuf,
    /// `None` is stdout.
    file: Option<File>,
    is_new: bool,
    is_written: bool,
}

impl Output {
    /// `-` is stdout.
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

    /// Appends `text` to what was written before in this run.
    pub(crate) fn write(&mut self, text: &str) -> Result<(), Failure> {
        let is_first = !std::mem::replace(&mut self.is_written, true);
        let Some(file) = &mut self.file else {
            return output::print(text);
        };
        let written = match is_first {
            // Pipes and devices cannot be emptied, and need not be.
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
    /// Leaves no empty file where there was none.
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            // It is empty; should it be gone already, that is as well.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// What a command writes, each form where it was asked for.
#[derive(Debug)]
pub(crate) struct Outputs {
    pub(crate) json: Option<Output>,
    pub(crate) csv: Option<Output>,
    pub(crate) svg: Option<Output>,
}

impl Outputs {
    /// Opens what is named; two of them on stdout would be neither.
    pub(crate) fn open(
        json: &Option<PathBuf>,
        csv: &Option<PathBuf>,
        svg: &Option<PathBuf>,
    ) -> Result<Self, Failure> {
        let to_stdout = [json, csv, svg].into_iter().flatten();
        if to_stdout.filter(|path| is_stdout(path)).count() > 1 {
            return Err(Failure::usage(
                "only one of --json, --csv and --svg can be `-`",
            ));
        }
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Self {
            json: open(json)?,
            csv: open(csv)?,
            svg: open(svg)?,
        })
    }

    /// Whether stdout belongs to one of them.
    pub(crate) fn takes_stdout(&self) -> bool {
        let all = [&self.json, &self.csv, &self.svg];
        all.into_iter().flatten().any(Output::is_stdout)
    }

    /// Prints a table for people: to stderr where stdout belongs to one of the files.
    /// `table` is asked whether to use colours.
    pub(crate) fn print(&self, table: impl FnOnce(bool) -> String) -> Result<(), Failure> {
        if self.takes_stdout() {
            eprint!("{}", table(logging::colour(&std::io::stderr())));
            return Ok(());
        }
        output::print(&table(logging::colour(&std::io::stdout())))
    }

    /// Writes the figures, as far as they were asked for.
    pub(crate) fn write(
        &mut self,
        json: impl FnOnce() -> String,
        csv: impl FnOnce() -> String,
        svg: impl FnOnce() -> String,
    ) -> Result<(), Failure> {
        put(&mut self.json, json)?;
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
        let one = Outputs::open(&dash, &None, &None).expect("one");
        assert!(one.takes_stdout());
        assert!(Outputs::open(&dash, &dash, &None).is_err());
        let none = Outputs::open(&None, &None, &None).expect("none");
        assert!(!none.takes_stdout());
    }
}
