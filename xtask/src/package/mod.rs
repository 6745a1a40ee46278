//! `cargo xtask package`: what operators install, from one binary.
//!
//! ```text
//!            ┌► stage: the tree of files as installed ─► deb, rpm, tar.gz ─┐
//! binary ────┤                                                            ├► folder, SHA256SUMS
//! cargo ─────┴► contents: bill of materials, texts of licences ───────────┘
//! ```
//!
//! The formats are written by the distributions' own tools: `dpkg-deb`, `rpmbuild` and `tar`. Times
//! in the packages are those of the commit, so that the same commit and compiler give the same files.

mod archive;
mod contents;
mod deb;
pub(crate) mod needs;
mod rpm;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::architecture::Architecture;
use crate::{Failure, install, process};

/// The request of the command line.
struct Request {
    /// A binary that is packed as it is; `None` builds one.
    binary: Option<PathBuf>,
    /// Folder for the packages.
    folder: PathBuf,
    /// Number of this packaging of one version, from 1.
    revision: u32,
    /// Which kinds are made; empty for all.
    only: Vec<String>,
    /// Whether the packages are compressed. Tests do without, because it takes most of the time.
    is_compressed: bool,
    /// Whether the program that is built needs no library of the system.
    is_static: bool,
}

/// A program that is packed.
pub(crate) struct Program {
    pub(crate) binary: PathBuf,
    pub(crate) architecture: Architecture,
    /// Whether the program needs no library of the system.
    pub(crate) is_static: bool,
    /// The program for this machine, which writes its own manual.
    pub(crate) runs_here: PathBuf,
}

/// The facts that every kind of package needs.
pub(crate) struct Release {
    /// Version of the program, as in `Cargo.toml`.
    version: String,
    /// Commit with `-modified` if files differ from it, or `unknown`.
    commit: String,
    /// Seconds since 1970 of the commit; 0 without a repository.
    commit_time: u64,
    revision: u32,
    is_compressed: bool,
    program: Program,
    /// Name of the bill of materials, without its suffix.
    bill: String,
    /// Folder with the files as they are installed.
    stage: PathBuf,
    /// Folder for what is made on the way.
    scratch: PathBuf,
    /// Folder for the packages.
    folder: PathBuf,
}

const KINDS: [&str; 4] = ["deb", "rpm", "tar", "contents"];

/// Makes the packages that `arguments` ask for.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let request = parse(arguments)?;
    let commit = commit();
    let binary = match &request.binary {
        Some(binary) => binary.clone(),
        None => build(&commit, request.is_static)?,
    };
    let architecture = Architecture::here()?;
    if request.is_static {
        let needed = needs::of_debian(&binary)?;
        if !needed.is_empty() {
            let text = format!("{} is not static: it needs {needed}", binary.display());
            return Err(text.into());
        }
    }
    let program = Program {
        runs_here: binary.clone(),
        binary,
        architecture,
        is_static: request.is_static,
    };
    let mut release = Release::of(program, &request.folder);
    release.revision = request.revision;
    release.is_compressed = request.is_compressed;
    let made = release.pack(&request.only)?;
    let sums = write_sums(&release.folder, &made)?;
    println!("commit {}", release.commit);
    for path in made.iter().chain([&sums]) {
        println!("wrote {}", path.display());
    }
    Ok(())
}

impl Release {
    /// Creates the description of the packages of `program` that are made in `folder`.
    pub(crate) fn of(program: Program, folder: &Path) -> Self {
        let version = env!("CARGO_PKG_VERSION").to_owned();
        Self {
            bill: format!("glassline-{version}"),
            version,
            commit_time: commit_time(),
            commit: commit(),
            revision: 1,
            is_compressed: true,
            program,
            stage: folder.join("stage"),
            scratch: folder.join("scratch"),
            folder: folder.to_owned(),
        }
    }

    /// Names the processor in the bill of materials, beside that of another one.
    pub(crate) fn with_processor_in_bill(mut self) -> Self {
        let machine = self.program.architecture.machine();
        self.bill = format!("glassline-{}-linux-{machine}", self.version);
        self
    }

    /// Leaves out the compression, which takes most of the time.
    pub(crate) const fn uncompressed(mut self, is_uncompressed: bool) -> Self {
        self.is_compressed = !is_uncompressed;
        self
    }

    /// Makes the packages of these kinds, or of all; returns their paths.
    ///
    /// # Errors
    /// A tool is missing or failed, or a file cannot be written.
    pub(crate) fn pack(&self, only: &[String]) -> Result<Vec<PathBuf>, String> {
        let is_wanted = |kind: &str| only.is_empty() || only.iter().any(|it| it == kind);
        fresh(&self.scratch)?;
        let bill = contents::write(self)?;
        stage::fill(self)?;
        let mut made = Vec::new();
        if is_wanted("contents") {
            made.push(bill);
        }
        if is_wanted("deb") {
            made.push(deb::write(self)?);
        }
        if is_wanted("rpm") {
            install::tool("rpmbuild", &["rpm"])?;
            made.push(rpm::write(self)?);
        }
        if is_wanted("tar") {
            made.push(archive::write(self)?);
        }
        for folder in [&self.stage, &self.scratch] {
            std::fs::remove_dir_all(folder).map_err(|error| at(folder, &error))?;
        }
        Ok(made)
    }
}

/// Writes the sums of `files`, which are in `folder`; returns the path.
///
/// # Errors
/// A file cannot be read, or the sums cannot be written.
pub(crate) fn write_sums(folder: &Path, files: &[PathBuf]) -> Result<PathBuf, String> {
    let sums = folder.join("SHA256SUMS");
    write(&sums, &sha256_of(folder, files)?)?;
    Ok(sums)
}

fn parse(arguments: &[String]) -> Result<Request, Failure> {
    let mut request = Request {
        binary: None,
        folder: process::target_directory().join("packages"),
        revision: 1,
        only: Vec::new(),
        is_compressed: true,
        is_static: false,
    };
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let missing = || Failure::usage(format!("{argument} needs a value"));
            arguments.next().cloned().ok_or_else(missing)
        };
        match argument.as_str() {
            "--binary" => request.binary = Some(value()?.into()),
            "--out" => request.folder = value()?.into(),
            "--revision" => {
                let text = value()?;
                let number = text.parse().ok().filter(|it| *it > 0);
                let wrong = || Failure::usage(format!("--revision {text}: a number from 1 on"));
                request.revision = number.ok_or_else(wrong)?;
            }
            "--only" => {
                let kinds = value()?;
                for kind in kinds.split(',') {
                    if !KINDS.contains(&kind) {
                        let known = KINDS.join(", ");
                        return Err(Failure::usage(format!("--only {kind}: there are {known}")));
                    }
                    request.only.push(kind.to_owned());
                }
            }
            "--uncompressed" => request.is_compressed = false,
            "--static" => request.is_static = true,
            other => return Err(Failure::usage(format!("package takes no `{other}`"))),
        }
    }
    // The tools run elsewhere.
    request.folder = std::path::absolute(&request.folder).map_err(|error| error.to_string())?;
    Ok(request)
}

/// Builds the optimized binary, which says that it is built from `commit`.
fn build(commit: &str, is_static: bool) -> Result<PathBuf, Failure> {
    install::build_tools()?;
    let built = process::target_directory();
    if !is_static {
        let mut cargo = process::cargo(&["build", "--release", "--package", "glassline"]);
        process::run(cargo.env("GLASSLINE_COMMIT", commit))?;
        return Ok(built.join("release/glassline"));
    }
    let target = format!("{}-unknown-linux-musl", Architecture::here()?.machine());
    process::run(Command::new("rustup").args(["target", "add", &target]))?;
    let tools = install::zigbuild()?;
    let mut cargo = process::cargo(&["zigbuild", "--release", "--package", "glassline"]);
    cargo.args(["--target", &target]);
    // The compiler is found beside its Python, the command beside cargo's others.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = std::env::join_paths([tools].into_iter().chain(std::env::split_paths(&path)));
    cargo.env("PATH", path.map_err(|error| error.to_string())?);
    process::run(cargo.env("GLASSLINE_COMMIT", commit))?;
    Ok(built.join(target).join("release/glassline"))
}

pub(crate) fn commit() -> String {
    let git = |arguments: &[&str]| {
        process::output_of(
            Command::new("git")
                .args(arguments)
                .current_dir(process::root()),
        )
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return std::env::var("GLASSLINE_COMMIT").unwrap_or_else(|_| "unknown".to_owned());
    };
    let is_same = git(&["status", "--porcelain", "--untracked-files=no"]);
    let mark = match is_same.is_some_and(|it| it.is_empty()) {
        true => "",
        false => "-modified",
    };
    format!("{}{mark}", commit.trim())
}

pub(crate) fn commit_time() -> u64 {
    let mut git = Command::new("git");
    git.args(["log", "-1", "--format=%ct"]);
    let printed = process::output_of(git.current_dir(process::root()));
    printed.and_then(|it| it.trim().parse().ok()).unwrap_or(0)
}

/// One line for each file of `folder`, as `sha256sum --check` reads it.
fn sha256_of(folder: &Path, files: &[PathBuf]) -> Result<String, String> {
    let names = files.iter().filter_map(|path| path.file_name());
    let mut command = Command::new("sha256sum");
    command.args(names).current_dir(folder);
    process::output_of(&mut command).ok_or_else(|| format!("{} failed", process::line(&command)))
}

/// Makes `folder` anew.
pub(crate) fn fresh(folder: &Path) -> Result<(), String> {
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(|error| at(folder, &error))?;
    }
    std::fs::create_dir_all(folder).map_err(|error| at(folder, &error))
}

/// A file of `packaging/`, with the scripts that both kinds of packages share put in.
fn template(name: &str) -> Result<String, String> {
    let mut text = read(&process::root().join("packaging").join(name))?;
    for (mark, script) in [
        ("@ADD_USER@", "add-user.sh"),
        ("@OWN_CONFIGURATION@", "own-configuration.sh"),
    ] {
        let script = read(&process::root().join("packaging").join(script))?;
        text = text.replace(mark, script.trim_end());
    }
    Ok(text)
}

pub(crate) fn read(path: &Path) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|error| at(path, &error))
}

pub(crate) fn write(path: &Path, text: impl AsRef<[u8]>) -> Result<(), String> {
    std::fs::write(path, text).map_err(|error| at(path, &error))
}

pub(crate) fn at(path: &Path, error: &std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_request_is_a_usage_error() {
        let failure = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
            parse(&words).err().map(|it| it.exit_code)
        };
        assert_eq!(failure(&["--only", "deb,rpm", "--revision", "2"]), None);
        assert_eq!(failure(&["--only", "deb,msi"]), Some(2));
        assert_eq!(failure(&["--revision", "0"]), Some(2));
        assert_eq!(failure(&["--binary"]), Some(2));
        assert_eq!(failure(&["--colour"]), Some(2));
    }

    #[test]
    fn results_of_builds_are_not_copied_into_the_image() {
        let lines = |name: &str| {
            let text = read(&process::root().join(name)).expect("a list");
            let lines = text.lines().filter(|line| !line.starts_with('#'));
            let names = lines.map(|line| line.trim_matches('/').to_owned());
            names.collect::<Vec<_>>()
        };
        let left_out = lines(".dockerignore");
        for name in lines(".gitignore") {
            let is_left_out = left_out
                .iter()
                .any(|it| it.trim_start_matches("**/") == name);
            assert!(is_left_out, "{name} is copied by `docker build`");
        }
    }

    #[test]
    fn every_script_has_the_shared_parts_and_no_mark_left() {
        for name in ["deb/postinst", "glassline.spec"] {
            let text = template(name).expect("a template");
            assert!(text.contains("useradd --system"), "{text}");
            assert!(text.contains("chmod 0640"), "{text}");
            assert!(!text.contains("@ADD"), "{text}");
        }
    }
}
