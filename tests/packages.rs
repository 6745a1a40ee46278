//! Packages for operators, made from the binary under test: installed, started, queried, upgraded and
//! removed in a copy of this system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::peers::{self, Peer, Test};
use crate::process::{Running, output_folder};

pub(crate) const TESTS: &[Test] = &[Test {
    name: "packages::are_installed_upgraded_and_removed",
    needs: &[Peer::Packaging],
    run: are_installed_upgraded_and_removed,
}];

/// Long, for a busy machine on which `xtask` is compiled first.
const PATIENCE: Duration = Duration::from_secs(300);

fn are_installed_upgraded_and_removed() -> Result<(), Failed> {
    let folder = output_folder().join(format!("packages-{}", std::process::id()));
    let outcome = run(&folder);
    // The packages of a debug build have 80 MB each.
    let _ = fs::remove_dir_all(&folder);
    outcome
}

fn run(folder: &Path) -> Result<(), Failed> {
    let debian = make(&folder.join("1"), "1", "deb")?;
    let newer = make(&folder.join("2"), "2", "deb,rpm")?;
    for (from, to) in [
        (only(&debian, "deb")?, "old.deb"),
        (only(&newer, "deb")?, "new.deb"),
        (only(&newer, "rpm")?, "new.rpm"),
    ] {
        fs::rename(from, folder.join(to))?;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/packages.sh");
    let prefix = peers::superuser().ok_or("no right to mount")?;
    let words = prefix.iter().copied();
    let unshare = ["unshare", "--mount", "--net", "--pid", "--fork", "sh"];
    let words: Vec<&str> = words.chain(unshare).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(script).arg(folder);
    let mut running = Running::start("packages", command)?;
    let status = running.wait(PATIENCE)?;
    let printed = running.printed();
    let steps = ["installed", "upgraded", "removed", "rpm"];
    let has = |step: &&str| printed.lines().any(|line| line == *step);
    match status.success() && steps.iter().all(has) {
        true => Ok(()),
        false => Err(format!("{status}\n{printed}").into()),
    }
}

/// Makes packages of the `kinds` in `folder`, from the binary under test; returns the folder.
fn make(folder: &Path, revision: &str, kinds: &str) -> Result<PathBuf, Failed> {
    let mut command = Command::new(env!("CARGO"));
    command.current_dir(env!("CARGO_MANIFEST_DIR"));
    command.args(["run", "--quiet", "--package", "xtask", "--", "package"]);
    command.args(["--uncompressed", "--revision", revision, "--only", kinds]);
    command.args(["--binary", env!("CARGO_BIN_EXE_glassline"), "--out"]);
    command.arg(folder);
    let mut running = Running::start("package", command)?;
    let status = running.wait(PATIENCE)?;
    match status.success() {
        true => Ok(folder.to_owned()),
        false => Err(format!("{status}\n{}", running.printed()).into()),
    }
}

/// The one file of `folder` whose name ends with `extension`.
fn only(folder: &Path, extension: &str) -> Result<PathBuf, Failed> {
    let files = fs::read_dir(folder)?.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files = files.filter(|path| path.extension().is_some_and(|it| it == extension));
    match (files.next(), files.next()) {
        (Some(file), None) => Ok(file),
        _ => Err(format!("not one .{extension} in {}", folder.display()).into()),
    }
}
