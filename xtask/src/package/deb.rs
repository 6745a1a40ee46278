//! The package for Debian and Ubuntu, by `dpkg-deb`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Command;

use super::{Release, at, fresh, needs, stage, template};
use crate::{install, process};

const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Writes the package; returns its path.
pub(super) fn write(release: &Release) -> Result<PathBuf, String> {
    install::tool("dpkg-deb", &["dpkg"])?;
    let tree = release.scratch.join("deb");
    fresh(&tree)?;
    // Links, not copies: the tree differs by its folder of control files only.
    let mut copy = Command::new("cp");
    copy.args(["--archive", "--link"]);
    copy.arg(release.stage.join(".")).arg(&tree);
    process::run_quietly(&mut copy)?;
    let control = tree.join("DEBIAN");
    fs::create_dir(&control).map_err(|error| at(&control, &error))?;
    super::write(&control.join("control"), control_file(release)?)?;
    super::write(&control.join("conffiles"), "/etc/glassline/glassline.yml\n")?;
    for script in SCRIPTS {
        let path = control.join(script);
        super::write(&path, template(&format!("deb/{script}"))?)?;
        let mode = fs::Permissions::from_mode(0o755);
        fs::set_permissions(&path, mode).map_err(|error| at(&path, &error))?;
    }
    let debian = release.program.architecture.debian();
    let name = format!(
        "glassline_{}-{}_{debian}.deb",
        release.version, release.revision
    );
    let package = release.folder.join(name);
    let compression = if release.is_compressed {
        "-Zxz"
    } else {
        "-Znone"
    };
    let mut build = Command::new("dpkg-deb");
    build.args(["--root-owner-group", compression, "--build"]);
    build.arg(&tree).arg(&package);
    build.env("SOURCE_DATE_EPOCH", release.commit_time.to_string());
    process::run_quietly(&mut build)?;
    Ok(package)
}

fn control_file(release: &Release) -> Result<String, String> {
    let depends = needs::of_debian(&release.stage.join(stage::PROGRAM))?;
    // `postinst` makes a user.
    let depends = match depends.as_str() {
        "" => "passwd".to_owned(),
        libraries => format!("{libraries}, passwd"),
    };
    let mut size = Command::new("du");
    size.args(["--summarize", "--block-size=1K"])
        .arg(&release.stage);
    let printed = process::output_of(&mut size).unwrap_or_default();
    let kib = printed.split_whitespace().next().unwrap_or("0");
    let debian = release.program.architecture.debian();
    let (version, revision, commit) = (&release.version, release.revision, &release.commit);
    Ok(format!(
        "Package: glassline\n\
         Version: {version}-{revision}\n\
         Architecture: {debian}\n\
         Maintainer: The Glassline authors <glassline@localhost>\n\
         Installed-Size: {kib}\n\
         Depends: {depends}\n\
         Section: video\n\
         Priority: optional\n\
         Description: real-time media server that knows where every millisecond goes\n \
         Takes live streams in from cameras, browsers and programs, and delivers them\n \
         to thousands of viewers by WebRTC, RTSP and QUIC. Each frame carries the times\n \
         at which it passed each stage.\n \
         .\n \
         Built from commit {commit}.\n"
    ))
}
