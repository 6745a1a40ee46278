//! The files of the image: the program, the C library that it needs, and nothing else that runs.
//!
//! | file | from |
//! |---|---|
//! | `usr/bin/glassline` | the build |
//! | glibc: the loader, `libc.so.6`, `libm.so.6` | the compiler's, for each processor; its licence beside it |
//! | `etc/ssl/certs/ca-certificates.crt` | this machine (package `ca-certificates`) |
//! | `etc/passwd`, `etc/group`, `etc/nsswitch.conf` | here: root, and a user without rights |
//! | `etc/glassline/glassline.yml` | `packaging/container.yml` |

use std::path::Path;

use super::build;
use super::tar::Entry;
use crate::architecture::Architecture;
use crate::package::needs::Libraries;
use crate::package::{at, read};
use crate::{install, process};

/// Number of the user and group that the program runs as.
pub(super) const USER: u32 = 65_532;

/// Where authorities are on this machine and in the image.
const AUTHORITIES: &str = "etc/ssl/certs/ca-certificates.crt";

/// Files of one image: those that stay from release to release, and the program's.
pub(super) struct RootFiles {
    pub(super) base: Vec<Entry>,
    pub(super) program: Vec<Entry>,
}

/// Returns the files of the image for a processor.
///
/// # Errors
/// A file of this machine is missing; the text names its package.
pub(super) fn of(
    architecture: Architecture,
    binary: &Path,
    libraries: &Libraries,
) -> Result<RootFiles, String> {
    let mut base = accounts();
    base.push(authorities()?);
    base.extend(glibc(architecture, libraries)?);
    Ok(RootFiles {
        base,
        program: program(binary)?,
    })
}

fn accounts() -> Vec<Entry> {
    let passwd = format!(
        "root:x:0:0:root:/:/sbin/nologin\nglassline:x:{USER}:{USER}:glassline:/var/lib/glassline:/sbin/nologin\n"
    );
    let group = format!("root:x:0:\nglassline:x:{USER}:\n");
    let text = |path: &str, text: &str| Entry::file(path, text.as_bytes().to_vec());
    let state = Entry {
        owner: USER,
        mode: 0o750,
        ..Entry::folder("var/lib/glassline")
    };
    let folders = [
        "etc",
        "etc/ssl",
        "etc/ssl/certs",
        "usr",
        "usr/bin",
        "usr/share",
        "usr/share/doc",
    ];
    let mut entries: Vec<Entry> = folders.into_iter().map(Entry::folder).collect();
    entries.extend([
        text("etc/passwd", &passwd),
        text("etc/group", &group),
        // Names of hosts: glibc has both within.
        text("etc/nsswitch.conf", "hosts: files dns\n"),
        Entry {
            mode: 0o1777,
            ..Entry::folder("tmp")
        },
        Entry::folder("var"),
        Entry::folder("var/lib"),
        state,
    ]);
    entries
}

fn authorities() -> Result<Entry, String> {
    let path = Path::new("/").join(AUTHORITIES);
    if !path.is_file() {
        install::tool("update-ca-certificates", &["ca-certificates"])?;
    }
    let bytes = std::fs::read(&path).map_err(|error| at(&path, &error))?;
    Ok(Entry::file(AUTHORITIES, bytes))
}

/// The C library as the compiler for the processor has it; none for a static program.
fn glibc(architecture: Architecture, libraries: &Libraries) -> Result<Vec<Entry>, String> {
    if libraries.names.is_empty() {
        return Ok(Vec::new());
    }
    let compiler = match Architecture::here() == Ok(architecture) {
        true => "cc".to_owned(),
        false => format!("{}-gcc", architecture.gnu()),
    };
    let (loader, folder) = match architecture {
        Architecture::Amd64 => ("ld-linux-x86-64.so.2", "lib64"),
        Architecture::Arm64 => ("ld-linux-aarch64.so.1", "lib"),
    };
    let own = format!("lib/{}", architecture.gnu());
    let mut entries = vec![Entry::folder("lib")];
    if folder != "lib" {
        entries.push(Entry::folder(folder));
    }
    entries.push(Entry::folder(&own));
    for name in &libraries.names {
        let path = build::file_of(&compiler, name)?;
        let bytes = std::fs::read(&path).map_err(|error| at(&path, &error))?;
        let below = if name == loader { folder } else { &own };
        entries.push(Entry::program(&format!("{below}/{name}"), bytes));
    }
    if !libraries.names.iter().any(|it| it == loader) {
        let path = build::file_of(&compiler, loader)?;
        let bytes = std::fs::read(&path).map_err(|error| at(&path, &error))?;
        entries.push(Entry::program(&format!("{folder}/{loader}"), bytes));
    }
    let licence = Path::new("/usr/share/doc/libc6/copyright");
    if let Ok(text) = std::fs::read(licence) {
        entries.push(Entry::folder("usr/share/doc/libc6"));
        entries.push(Entry::file("usr/share/doc/libc6/copyright", text));
    }
    Ok(entries)
}

fn program(binary: &Path) -> Result<Vec<Entry>, String> {
    let bytes = std::fs::read(binary).map_err(|error| at(binary, &error))?;
    let configuration = read(&process::root().join("packaging/container.yml"))?;
    Ok(vec![
        Entry::program("usr/bin/glassline", bytes),
        Entry::folder("etc/glassline"),
        Entry::file("etc/glassline/glassline.yml", configuration.into_bytes()),
    ])
}
