//! The archive for every other Linux: the same files, to be unpacked anywhere.

use std::path::PathBuf;
use std::process::Command;

use super::Release;
use crate::process;

/// Writes the archive; returns its path.
pub(super) fn write(release: &Release) -> Result<PathBuf, String> {
    let machine = release.program.architecture.machine();
    let (version, time) = (&release.version, release.commit_time);
    let kind = if release.program.is_static {
        "-static"
    } else {
        ""
    };
    let top = format!("glassline-{version}-linux-{machine}{kind}");
    let (suffix, compression) = match release.is_compressed {
        true => ("tar.gz", "--gzip"),
        false => ("tar", "--no-auto-compress"),
    };
    let archive = release.folder.join(format!("{top}.{suffix}"));
    let mut tar = Command::new("tar");
    tar.args(["--create", compression, "--sort=name", "--numeric-owner"]);
    tar.args(["--owner=0", "--group=0"]);
    tar.arg(format!("--mtime=@{time}"));
    tar.arg(format!("--transform=s,^\\.,{top},"));
    tar.arg("--file").arg(&archive);
    tar.arg("--directory").arg(&release.stage).arg(".");
    // `gzip` writes no time where it reads from a pipe.
    process::run_quietly(&mut tar)?;
    Ok(archive)
}
