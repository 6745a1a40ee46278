//! The package for Fedora and its relatives, by `rpmbuild`, which finds the libraries that the program
//! needs itself.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Release, fresh, template};
use crate::process;

/// Writes the package; returns its path.
pub(super) fn write(release: &Release) -> Result<PathBuf, String> {
    let top = release.scratch.join("rpm");
    fresh(&top)?;
    let recipe = top.join("glassline.spec");
    super::write(&recipe, template("glassline.spec")?)?;
    let files = top.join("files");
    super::write(&files, files_of(&release.stage)?)?;
    let payload = if release.is_compressed {
        "w6.xzdio"
    } else {
        "w.ufdio"
    };
    let machine = release.program.architecture.machine();
    let definitions = [
        ("_topdir", top.display().to_string()),
        ("_rpmdir", release.folder.display().to_string()),
        (
            "_rpmfilename",
            format!("%{{name}}-%{{version}}-%{{release}}.{machine}.rpm"),
        ),
        ("_binary_payload", payload.to_owned()),
        ("list_of_files", files.display().to_string()),
        ("stage", release.stage.display().to_string()),
        ("of_version", release.version.clone()),
        ("of_revision", release.revision.to_string()),
        ("use_source_date_epoch_as_buildtime", "1".to_owned()),
        ("clamp_mtime_to_source_date_epoch", "1".to_owned()),
        ("_buildhost", "glassline".to_owned()),
    ];
    let mut build = Command::new("rpmbuild");
    build.args(["-bb", "--target", machine]);
    for (name, value) in definitions {
        build.arg("--define").arg(format!("{name} {value}"));
    }
    build.arg(&recipe);
    build.env("SOURCE_DATE_EPOCH", release.commit_time.to_string());
    process::run_quietly(&mut build)?;
    let (version, revision) = (&release.version, release.revision);
    let name = format!("glassline-{version}-{revision}.{machine}.rpm");
    let package = release.folder.join(name);
    match package.is_file() {
        true => Ok(package),
        false => Err(format!("rpmbuild wrote no {}", package.display())),
    }
}

/// The files below `stage` as they are installed, one a line. Folders that other packages own, and the
/// configuration, which the recipe names itself, are left out.
fn files_of(stage: &Path) -> Result<String, String> {
    let mut find = Command::new("find");
    find.arg(stage.join("usr")).args(["-type", "f", "-printf"]);
    find.arg("/usr/%P\n");
    let files = process::output_of(&mut find);
    files.ok_or_else(|| format!("{} failed", process::line(&find)))
}
