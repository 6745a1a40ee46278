//! Packages for operators, made from the binary under test: installed, started, queried, upgraded and
//! removed in a copy of this system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use libtest_mimic::Failed;

use crate::peers::{self, Peer, Test};
use crate::process::{Running, output_folder};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&are_installed_upgraded_and_removed).needs(&[Peer::Packaging]),
    Test::of(&the_service_lives_under_systemd).needs(&[Peer::Packaging, Peer::Systemd]),
];

/// Long, for a busy machine on which `xtask` is compiled first.
const PATIENCE: Duration = Duration::from_secs(300);

fn are_installed_upgraded_and_removed() -> Result<(), Failed> {
    in_a_folder("packages", |folder| {
        let debian = make(&folder.join("1"), "1", "deb")?;
        let newer = make(&folder.join("2"), "2", "deb,rpm")?;
        fs::rename(only(&debian, "deb")?, folder.join("old.deb"))?;
        fs::rename(only(&newer, "deb")?, folder.join("new.deb"))?;
        fs::rename(only(&newer, "rpm")?, folder.join("new.rpm"))?;
        let unshare = ["unshare", "--mount", "--net", "--pid", "--fork"];
        let steps = ["installed", "upgraded", "removed", "rpm"];
        try_packages("packages.sh", &unshare, folder, &steps)
    })
}

fn the_service_lives_under_systemd() -> Result<(), Failed> {
    in_a_folder("service", |folder| {
        let debian = make(&folder.join("1"), "1", "deb")?;
        fs::rename(only(&debian, "deb")?, folder.join("old.deb"))?;
        let steps = ["installed", "reloaded", "restarted", "upgraded", "removed"];
        try_packages("packages_systemd.sh", &[], folder, &steps)
    })
}

/// Runs `body` with a folder for packages, which have 80 MB each of a debug build.
fn in_a_folder(name: &str, body: impl FnOnce(&Path) -> Result<(), Failed>) -> Result<(), Failed> {
    let folder = output_folder().join(format!("{name}-{}", std::process::id()));
    let outcome = body(&folder);
    let _ = fs::remove_dir_all(&folder);
    outcome
}

/// Runs a script of this folder as root, behind `unshare`, and expects a line for each of `steps`.
fn try_packages(
    script: &str,
    unshare: &[&str],
    folder: &Path,
    steps: &[&str],
) -> Result<(), Failed> {
    let prefix = superuser().ok_or("no right to mount")?;
    let words: Vec<&str> = [prefix, unshare, &["sh"]].concat();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(path_of(script)).arg(folder);
    let mut running = Running::start("packages", command)?;
    let status = running.wait(PATIENCE)?;
    let printed = running.printed();
    let has = |step: &&str| printed.lines().any(|line| line == *step);
    match status.success() && steps.iter().all(has) {
        true => Ok(()),
        false => Err(format!("{status}\n{printed}").into()),
    }
}

fn path_of(script: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("tests").join(script)
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
        false => Err(format!("{status}").into()),
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

/// Prefix of a command that mounts in a namespace of its own: nothing for root, `sudo` where it asks
/// for no password.
pub(crate) fn superuser() -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&[], &["sudo", "-n"]];
    let works = |way: &&'static [&'static str]| {
        let words: Vec<&str> = way.iter().chain(&["unshare", "--mount"]).copied().collect();
        let mut command = Command::new(words[0]);
        let command = command.args(&words[1..]);
        let output = command
            .args(["mount", "-t", "tmpfs", "tmpfs", "/mnt"])
            .output();
        output.is_ok_and(|output| output.status.success())
    };
    WAYS.into_iter().find(works)
}

/// Checks that the programs are there which make packages.
pub(crate) fn tools() -> Result<(), String> {
    for program in ["dpkg-deb", "rpmbuild", "ip", "strip", "objdump"] {
        peers::find(program).ok_or_else(|| format!("{program} is not on the PATH"))?;
    }
    Ok(())
}

/// Checks that systemd can be the first process of a copy of this system.
pub(crate) fn systemd() -> Result<(), String> {
    let prefix = superuser().ok_or("no right to mount a copy of this system")?;
    let words: Vec<&str> = [prefix, &["sh"]].concat();
    let mut probe = Command::new(words[0]);
    let probe = probe.args(&words[1..]).arg(path_of("packages_systemd.sh"));
    let output = probe.arg("--probe").output();
    let output = output.map_err(|error| format!("sh: {error}"))?;
    let reason = String::from_utf8_lossy(&output.stderr);
    let works = output.status.success().then_some(());
    works.ok_or_else(|| {
        format!(
            "systemd cannot be the first process here: {}",
            reason.trim()
        )
    })
}
