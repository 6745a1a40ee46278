//! Programs that need the C library alone, for this processor and for another.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::architecture::Architecture;
use crate::package::needs::Libraries;
use crate::package::{self, at, commit};
use crate::{install, process};

/// Profile of `Cargo.toml` for programs that are given away.
const PROFILE: &str = "dist";

/// Libraries of GCC that become part of the program. What Rust and C++ ask the linker for has a name
/// of a shared library, which here is a script that names the archive.
const WITHIN: [(&str, &str); 2] = [
    ("libgcc_s.so", "libgcc_eh.a"),
    ("libstdc++.so", "libstdc++.a"),
];

/// Builds the program for a processor; returns its path.
///
/// # Errors
/// A tool is missing, which the text names with its package, or cargo fails.
pub(super) fn program(architecture: Architecture) -> Result<PathBuf, String> {
    install::build_tools()?;
    let (target, gnu) = (architecture.target(), architecture.gnu());
    let is_from_here = Architecture::here() == Ok(architecture);
    let (cc, cxx) = match is_from_here {
        true => ("cc".to_owned(), "c++".to_owned()),
        false => {
            let names = (format!("{gnu}-gcc"), format!("{gnu}-g++"));
            install::tool(&names.0, &[format!("gcc-{gnu}").as_str()])?;
            install::tool(&names.1, &[format!("g++-{gnu}").as_str()])?;
            names
        }
    };
    process::run(Command::new("rustup").args(["target", "add", target]))?;
    let scripts = process::target_directory().join("link").join(target);
    write_scripts(&scripts, &cxx)?;
    let mut cargo = process::cargo(&["build", "--profile", PROFILE, "--package", "glassline"]);
    cargo.args(["--target", target]);
    let variable = |name: &str| format!("{name}_{}", target.replace('-', "_"));
    let upper = target.replace('-', "_").to_uppercase();
    cargo.env(variable("CC"), &cc).env(variable("CXX"), &cxx);
    cargo.env(format!("CARGO_TARGET_{upper}_LINKER"), &cc);
    let flags = format!("-L native={}", scripts.display());
    cargo.env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), flags);
    process::run(cargo.env("GLASSLINE_COMMIT", commit()))?;
    let built = process::target_directory().join(target).join(PROFILE);
    Ok(built.join("glassline"))
}

fn write_scripts(folder: &Path, compiler: &str) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|error| at(folder, &error))?;
    for (asked, archive) in WITHIN {
        let path = file_of(compiler, archive)?;
        let script = format!("INPUT({})\n", path.display());
        package::write(&folder.join(asked), script)?;
    }
    Ok(())
}

/// Returns the path of a library that `compiler` links.
///
/// # Errors
/// The compiler has no such file.
pub(super) fn file_of(compiler: &str, name: &str) -> Result<PathBuf, String> {
    let mut command = Command::new(compiler);
    command.arg(format!("-print-file-name={name}"));
    let printed = process::output_of(&mut command);
    let printed = printed.ok_or_else(|| format!("{} failed", process::line(&command)))?;
    let path = PathBuf::from(printed.trim());
    match path.is_absolute() {
        true => Ok(path),
        false => Err(format!("{compiler} has no {name}")),
    }
}

/// Checks that a program is one to give away.
///
/// # Errors
/// The program needs another library than that of C, or is too large.
pub(super) fn check(libraries: &Libraries, bytes: u64, bytes_max: u64) -> Result<(), String> {
    let is_of_libc = |it: &&String| {
        it.starts_with("libc.") || it.starts_with("libm.") || it.starts_with("ld-linux")
    };
    let others: Vec<_> = libraries
        .names
        .iter()
        .filter(|it| !is_of_libc(it))
        .cloned()
        .collect();
    if !others.is_empty() {
        return Err(format!(
            "the program needs {} beside glibc",
            others.join(", ")
        ));
    }
    if bytes > bytes_max {
        let (mib, max) = (bytes >> 20, bytes_max >> 20);
        return Err(format!(
            "the program has {mib} MiB, and may have {max}: is it stripped?"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_needs_more_than_glibc_or_has_symbols_is_refused() {
        let of = |names: &[&str]| Libraries {
            names: names.iter().map(|it| (*it).to_owned()).collect(),
            glibc: "2.35".to_owned(),
        };
        let own = of(&["libc.so.6", "libm.so.6", "ld-linux-x86-64.so.2"]);
        assert_eq!(check(&own, 10, 20), Ok(()));
        let error = check(&of(&["libc.so.6", "libstdc++.so.6"]), 10, 20);
        assert!(error.expect_err("C++").contains("libstdc++.so.6"));
        assert!(check(&own, 21, 20).expect_err("large").contains("stripped"));
    }
}
