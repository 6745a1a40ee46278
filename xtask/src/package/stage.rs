//! The tree of files as it is installed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use super::{Program, Release, at, fresh, read, write};
use crate::architecture::Architecture;
use crate::{install, process};

/// Files of the checkout, and where they are installed.
const FILES: [(&str, &str); 4] = [
    (
        "packaging/glassline.service",
        "usr/lib/systemd/system/glassline.service",
    ),
    (
        "packaging/glassline.sysusers",
        "usr/lib/sysusers.d/glassline.conf",
    ),
    ("README.md", "usr/share/doc/glassline/README.md"),
    ("CHANGELOG.md", "usr/share/doc/glassline/CHANGELOG.md"),
];

/// Shells with their scripts of completions.
const COMPLETIONS: [(&str, &str); 4] = [
    ("bash", "usr/share/bash-completion/completions/glassline"),
    ("zsh", "usr/share/zsh/site-functions/_glassline"),
    // Debian's zsh looks here.
    ("zsh", "usr/share/zsh/vendor-completions/_glassline"),
    ("fish", "usr/share/fish/vendor_completions.d/glassline.fish"),
];

/// The program as it is installed, below the stage.
pub(super) const PROGRAM: &str = "usr/bin/glassline";

/// Writes all files below the stage of `release`.
pub(super) fn fill(release: &Release) -> Result<(), String> {
    let (stage, packed) = (&release.stage, &release.program);
    fresh(stage)?;
    let program = stage.join(PROGRAM);
    parents(&program)?;
    strip(packed, &program)?;
    let binary = &packed.runs_here;
    for (from, to) in FILES {
        put(stage, to, &read(&process::root().join(from))?)?;
    }
    put(stage, "etc/glassline/glassline.yml", &configuration()?)?;
    let licences = ["LICENSE-MIT", "LICENSE-APACHE"].map(|it| read(&process::root().join(it)));
    let [mit, apache] = licences;
    let text = format!(
        "Glassline may be used under one of these two licences, at your choice.\n\n{}\n\n{}\n",
        mit?, apache?
    );
    put(stage, "usr/share/doc/glassline/copyright", &text)?;
    for name in ["glassline.cdx.json", "third-party-licences.txt"] {
        let text = read(&release.scratch.join(name))?;
        put(stage, &format!("usr/share/doc/glassline/{name}"), &text)?;
    }
    for (shell, to) in COMPLETIONS {
        let mut command = Command::new(binary);
        command.args(["completions", shell]);
        let script = process::output_of(&mut command);
        let script = script.ok_or_else(|| format!("{} failed", process::line(&command)))?;
        put(stage, to, &script)?;
    }
    manual(stage, binary)?;
    set_modes(stage)
}

/// Copies the program without its symbols.
fn strip(packed: &Program, to: &Path) -> Result<(), String> {
    let is_from_here = Architecture::here() == Ok(packed.architecture);
    let tools = packed.architecture.gnu();
    let (tool, package) = match is_from_here {
        true => ("strip".to_owned(), "binutils".to_owned()),
        // Debian's package has the machine's name with a dash.
        false => (
            format!("{tools}-strip"),
            format!("binutils-{}", tools.replace('_', "-")),
        ),
    };
    install::tool(&tool, &[package.as_str()])?;
    let mut strip = Command::new(tool);
    process::run(strip.arg("-o").arg(to).arg(&packed.binary))
}

/// The default configuration: the example with all keys, which says where it is.
fn configuration() -> Result<String, String> {
    let text = read(&process::root().join("examples/glassline.yml"))?;
    Ok(text.replace("examples/glassline.yml", "/etc/glassline/glassline.yml"))
}

fn manual(stage: &Path, binary: &Path) -> Result<(), String> {
    let folder = stage.join("usr/share/man/man1");
    fs::create_dir_all(&folder).map_err(|error| at(&folder, &error))?;
    process::run(Command::new(binary).arg("manual").arg(&folder))?;
    let pages = fs::read_dir(&folder).map_err(|error| at(&folder, &error))?;
    let mut gzip = Command::new("gzip");
    // Without the time, which would be the build's.
    gzip.args(["--best", "--no-name"]);
    gzip.args(pages.filter_map(|page| Some(page.ok()?.path())));
    process::run_quietly(&mut gzip)
}

fn put(stage: &Path, to: &str, text: &str) -> Result<(), String> {
    let path = stage.join(to);
    parents(&path)?;
    write(&path, text)
}

fn parents(path: &Path) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| at(folder, &error))
}

/// Gives every file and folder the mode that it is installed with, whatever the umask is here.
fn set_modes(folder: &Path) -> Result<(), String> {
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))
            .map_err(|error| at(path, &error))
    };
    set(folder, 0o755)?;
    for entry in fs::read_dir(folder).map_err(|error| at(folder, &error))? {
        let path = entry.map_err(|error| at(folder, &error))?.path();
        if path.is_dir() {
            set_modes(&path)?;
        } else if path.ends_with(PROGRAM) {
            set(&path, 0o755)?;
        } else {
            set(&path, 0o644)?;
        }
    }
    Ok(())
}
