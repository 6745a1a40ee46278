//! What a binary needs of the system that it is installed on.

use std::path::Path;
use std::process::Command;

use crate::{install, process};

/// Shared libraries that the program may need, with Debian's package of each.
const LIBRARIES: [(&str, &str); 7] = [
    ("libasound.so.2", "libasound2 | libasound2t64"),
    ("libc.so.6", "libc6"),
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libm.so.6", "libc6"),
    ("libstdc++.so.6", "libstdc++6"),
    ("ld-linux-aarch64.so.1", "libc6"),
    ("ld-linux-x86-64.so.2", "libc6"),
];

/// The dependencies of `program` on Debian, as in its field `Depends`; empty for a static program.
///
/// # Errors
/// The program needs a library that this list does not know.
pub(crate) fn of_debian(program: &Path) -> Result<String, String> {
    depends(&headers(program)?)
}

/// The names of the shared libraries of `program`, and the oldest glibc that has all symbols it uses.
///
/// # Errors
/// The program cannot be read.
pub(crate) fn libraries(program: &Path) -> Result<Libraries, String> {
    let headers = headers(program)?;
    let names = needed(&headers).map(str::to_owned).collect();
    Ok(Libraries {
        names,
        glibc: glibc(&headers),
    })
}

/// The libraries of the system that a program needs.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Libraries {
    /// Names of shared libraries; none for a static program.
    pub(crate) names: Vec<String>,
    /// Version of glibc, like `2.35`.
    pub(crate) glibc: String,
}

fn headers(program: &Path) -> Result<String, String> {
    install::tool("objdump", &["binutils"])?;
    let mut command = Command::new("objdump");
    command.arg("-p").arg(program);
    process::output_of(&mut command).ok_or_else(|| format!("{} failed", process::line(&command)))
}

fn needed(headers: &str) -> impl Iterator<Item = &str> {
    headers.lines().filter_map(|line| {
        let (key, library) = line.trim().split_once(' ')?;
        (key == "NEEDED").then_some(library.trim())
    })
}

/// Reads the private headers that `objdump -p` prints.
fn depends(headers: &str) -> Result<String, String> {
    let mut packages = Vec::new();
    for library in needed(headers) {
        let known = LIBRARIES.iter().find(|(name, _)| *name == library);
        let (_, package) = known.ok_or_else(|| format!("no package is known of {library}"))?;
        let package = match *package {
            "libc6" => format!("libc6 (>= {})", glibc(headers)),
            other => other.to_owned(),
        };
        packages.push(package);
    }
    packages.sort_unstable();
    packages.dedup();
    Ok(packages.join(", "))
}

/// The newest version of glibc whose symbols are used, like `2.34`.
fn glibc(headers: &str) -> String {
    let words = headers.split_whitespace();
    let versions = words.filter_map(|word| word.strip_prefix("GLIBC_"));
    let numbers = versions.filter_map(|version| {
        let numbers: Option<Vec<u32>> = version.split('.').map(|it| it.parse().ok()).collect();
        numbers
    });
    let newest = numbers.max().unwrap_or_else(|| vec![2]);
    let newest: Vec<String> = newest.iter().map(ToString::to_string).collect();
    newest.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADERS: &str = "\
Dynamic Section:
  NEEDED               libstdc++.so.6
  NEEDED               libm.so.6
  NEEDED               libc.so.6
  INIT                 0x0000000000050000

Version References:
  required from libm.so.6:
    0x06969189 0x00 08 GLIBC_2.29
  required from libc.so.6:
    0x069691b4 0x00 12 GLIBC_2.34
    0x09691972 0x00 13 GLIBC_2.3.4
    0x09691a75 0x00 02 GLIBC_2.2.5
";

    #[test]
    fn the_newest_symbol_says_which_glibc_is_needed() {
        let found = depends(HEADERS).expect("known libraries");
        assert_eq!(found, "libc6 (>= 2.34), libstdc++6");
        assert_eq!(depends("Dynamic Section:\n").expect("none"), "");
    }

    #[test]
    fn an_unknown_library_is_an_error() {
        let unknown = depends("  NEEDED  libavcodec.so.60\n");
        assert!(unknown.is_err_and(|error| error.contains("libavcodec.so.60")));
    }
}
