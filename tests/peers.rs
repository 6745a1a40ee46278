//! Peers that are installed, and the tests without their peer: skipped by name on a laptop,
//! failed where `CI=true`.

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use libtest_mimic::{Failed, Trial};

use crate::packages::{self, superuser};
use crate::{namespace, process, sharing};

/// A program of another project that tests need.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Peer {
    /// Chromium and its WebDriver server.
    Chromium,
    /// GStreamer: its RTSP server, through `peers/rtsp-server.py`, and `gst-launch-1.0`.
    RtspServer,
    /// live555's media server. Debian 12 has no package of it, so it may always be missing.
    Live555,
    /// aiortc, a WebRTC stack in Python, through the programs `peers/aiortc_*.py`.
    Aiortc,
    /// Schemathesis, which compares an API with its OpenAPI document.
    Schemathesis,
    /// ffmpeg, to make files.
    Ffmpeg,
    /// Pion's file server in `peers/pion`, which Go builds; it may be missing on a machine
    /// without Go.
    Pion,
    /// Pion's data channels in `peers/channels`, which Go builds.
    PionChannels,
    /// Pion's WHIP publisher in `peers/whip`, which Go builds.
    PionWhip,
    /// Pion's WHIP server in `peers/whipserver`, which Go builds.
    PionWhipServer,
    /// FFmpeg's WHIP muxer, through `peers/ffmpeg_whip.py`; aiortc comes with that FFmpeg.
    FfmpegWhip,
    /// FFmpeg 8.0.1 with its WHIP muxer, from Maven.
    Ffmpeg80,
    /// GStreamer's webrtcbin, through `peers/gstreamer_whip.py`.
    GstreamerWhip,
    /// Network namespaces, two of them, and what changes an interface.
    Namespaces,
    /// The tools that make and install packages, and the right to mount a copy of this system.
    Packaging,
    /// The right to start systemd as the first process of a copy of this system.
    Systemd,
    /// Firefox, in a network namespace.
    Firefox,
    /// libdatachannel, which OBS publishes with, through `peers/obs_whip.js`.
    Datachannel,
    /// axe-core, which checks pages for people who use a keyboard or a screen reader.
    Axe,
    /// `nats-server`, which Go builds.
    Nats,
    /// versitygw, a server of S3, which Go builds.
    Versitygw,
    /// NSS's `certutil`, which adds certificates to those that Chromium trusts.
    Certutil,
    /// Pebble, the ACME server that Let's Encrypt tests clients with, which Go builds.
    Pebble,
    /// coturn, the TURN server of Debian.
    Coturn,
    /// PulseAudio, its tools, and its ALSA plugin; only where the program under test supports
    /// sound devices.
    PulseAudio,
    /// nginx, as a cache.
    Nginx,
    /// Network interfaces of a program, `/dev/net/tun`, which a container may lack.
    Tun,
    /// IPv6, at least of this machine with itself, which no installation brings.
    Ipv6,
}

/// A test, named after its function and the file of that, with the peers that it needs.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    needs: &'static [Peer],
    function: &'static (dyn Fn() -> Result<(), Failed> + Sync),
    /// Path of the function, such as `tests::whip::pion_publishes`.
    path: fn() -> &'static str,
    /// Start of the name, such as `alone::`.
    group: &'static str,
    /// Longest time of the test in a network namespace of its own, where it has one.
    in_namespace: Option<Duration>,
}

impl Test {
    pub(crate) const fn of<F>(function: &'static F) -> Self
    where
        F: Fn() -> Result<(), Failed> + Sync,
    {
        Self {
            needs: &[],
            function,
            path: std::any::type_name::<F>,
            group: "",
            in_namespace: None,
        }
    }

    pub(crate) const fn needs(mut self, peers: &'static [Peer]) -> Self {
        self.needs = peers;
        self
    }

    /// The test has the machine for itself, as [`sharing`] says.
    pub(crate) const fn alone(mut self) -> Self {
        self.group = sharing::ALONE;
        self
    }

    /// The test runs in `cargo xtask soak` only.
    pub(crate) const fn soak(mut self) -> Self {
        self.group = SOAK;
        self
    }

    /// The test runs in a network namespace of its own, for `patience` at the longest.
    pub(crate) const fn in_namespace(mut self, patience: Duration) -> Self {
        self.in_namespace = Some(patience);
        self
    }

    pub(crate) fn name(&self) -> String {
        let path = (self.path)();
        let name = path.split_once("::").map_or(path, |it| it.1);
        format!("{}{name}", self.group)
    }

    pub(crate) fn run(&self) -> Result<(), Failed> {
        match self.in_namespace {
            Some(patience) => namespace::inside(&self.name(), patience, self.function),
            None => (self.function)(),
        }
    }
}

/// Module of the long forms of tests.
const SOAK: &str = "soak::";

/// Variable by which `cargo xtask test --no-peers` leaves all peers out.
const NO_PEERS: &str = "GLASSLINE_TEST_NO_PEERS";

/// Makes trials of the tests; with `announce`, prints the reason for each skipped one.
pub(crate) fn trials(tests: &[Test], announce: bool) -> Vec<Trial> {
    let trials = tests.iter().map(|test| trial(test, announce));
    trials.collect()
}

fn trial(test: &Test, announce: bool) -> Trial {
    let test = *test;
    let missing = test
        .needs
        .iter()
        .find_map(|peer| Some((peer.absence()?, peer.may_be_missing() || is_skip())));
    match missing {
        None => {
            let run = move || sharing::run(test).map_err(|failed| point_to_logs(&failed));
            Trial::test(test.name(), run).with_ignored_flag(test.group == SOAK)
        }
        Some((reason, true)) => {
            if announce {
                println!("skipped {}: {reason}", test.name());
            }
            Trial::test(test.name(), move || test.run()).with_ignored_flag(true)
        }
        Some((reason, false)) => Trial::test(test.name(), move || Err(reason.into())),
    }
}

pub(crate) fn point_to_logs(failed: &Failed) -> Failed {
    let reason = failed.message().unwrap_or("no reason given");
    let (printed, folder) = (process::take_printed(), process::output_folder());
    let folder = folder.display();
    format!("{reason}{printed}\nwhat the programs printed is in {folder}").into()
}

/// Whether `cargo xtask test --no-peers` asks for skips even on a build server.
pub(crate) fn is_skip() -> bool {
    std::env::var_os(NO_PEERS).is_some()
        || !std::env::var("CI").is_ok_and(|value| value == "true" || value == "1")
}

impl Peer {
    /// Whether `cargo xtask test` may not be able to install the peer.
    fn may_be_missing(self) -> bool {
        match self {
            Peer::Live555 | Peer::Systemd => true,
            _ if !self.go_programs().is_empty() => find("go").is_none(),
            Peer::Datachannel | Peer::Axe => find("npm").is_none(),
            Peer::Ffmpeg80 => find("mvn").is_none(),
            Peer::Packaging => find("dpkg").is_none() || superuser().is_none(),
            // A step of its own builds the program with sound devices.
            Peer::PulseAudio => !HAS_DEVICES,
            Peer::Ipv6 | Peer::Tun => true,
            _ => false,
        }
    }

    /// The programs of a peer that Go builds.
    fn go_programs(self) -> &'static [&'static str] {
        match self {
            Peer::Pion => &["pion"],
            Peer::PionChannels => &["channels"],
            Peer::PionWhip => &["whip"],
            Peer::PionWhipServer => &["whipserver"],
            Peer::Pebble => &["pebble", "pebble-challtestsrv"],
            Peer::Versitygw => &["versitygw"],
            Peer::Nats => &["nats-server"],
            _ => &[],
        }
    }

    /// Reason why this peer is not available, if it is not.
    pub(crate) fn absence(self) -> Option<String> {
        if std::env::var_os(NO_PEERS).is_some() {
            return Some("run without peers".to_owned());
        }
        let reason = match self {
            Peer::Chromium => chromium().and(chromedriver()).err()?,
            Peer::RtspServer => rtsp_server_check().err()?,
            Peer::Live555 => return installed("live555MediaServer").err(),
            Peer::Schemathesis => schemathesis().err()?,
            Peer::Aiortc | Peer::FfmpegWhip => aiortc_python().err()?,
            Peer::Datachannel if find("npm").is_none() => {
                return Some("npm, which installs libdatachannel, is not on the PATH".to_owned());
            }
            Peer::Datachannel => obs_whip().err()?,
            Peer::Axe if find("npm").is_none() => {
                return Some("npm, which installs axe-core, is not on the PATH".to_owned());
            }
            Peer::Axe => axe().err()?,
            Peer::Ffmpeg80 if find("mvn").is_none() => {
                return Some("mvn, which fetches FFmpeg 8.0, is not on the PATH".to_owned());
            }
            Peer::Ffmpeg80 => ffmpeg_8_0().err()?,
            Peer::GstreamerWhip => gstreamer_whip_check().err()?,
            Peer::Namespaces => return namespaces().err(),
            Peer::Nginx => installed("nginx").err()?,
            Peer::Tun => return tun().err().map(|error| format!("/dev/net/tun: {error}")),
            Peer::Ipv6 => {
                let bound = UdpSocket::bind("[::1]:0");
                format!("this machine has no IPv6: {}", bound.err()?)
            }
            Peer::Packaging if find("dpkg").is_none() => {
                return Some("this is no Debian, whose packages are tried".to_owned());
            }
            Peer::Packaging if superuser().is_none() => {
                return Some("no right to mount a copy of this system".to_owned());
            }
            Peer::Packaging => packages::tools().err()?,
            Peer::Systemd => return packages::systemd().err(),
            Peer::Firefox if namespace().is_none() => {
                return Some("no right to make network namespaces".to_owned());
            }
            Peer::Firefox => firefox().err()?,
            Peer::Ffmpeg => installed("ffmpeg").err()?,
            Peer::Coturn => installed("turnserver").err()?,
            Peer::Certutil => installed("certutil").err()?,
            Peer::PulseAudio if !HAS_DEVICES => {
                return Some("this build has no sound devices (--features devices)".to_owned());
            }
            Peer::PulseAudio => pulseaudio().err()?,
            _ => {
                let programs = self.go_programs();
                if find("go").is_none() {
                    let programs = programs.join(" and ");
                    return Some(format!("go, which builds {programs}, is not on the PATH"));
                }
                programs.iter().find_map(|it| go_binary(it).err())?
            }
        };
        Some(format!("{reason}; `cargo xtask test` installs it"))
    }
}

/// Path of the browser.
pub(crate) fn chromium() -> Result<PathBuf, String> {
    any_of(&["chromium", "chromium-browser", "google-chrome"])
}

pub(crate) fn chromedriver() -> Result<PathBuf, String> {
    installed("chromedriver")
}

/// Command for the camera.
pub(crate) fn rtsp_server() -> Command {
    let mut command = Command::new(system_python());
    command.arg(script("rtsp-server.py"));
    command
}

/// Command for the publisher with OBS's stack.
pub(crate) fn obs_whip() -> Result<Command, String> {
    let modules = target_directory().join("peers/node/node_modules");
    if !modules.join("node-datachannel").is_dir() {
        return Err(format!(
            "there is no node-datachannel in {}",
            modules.display()
        ));
    }
    let mut command = Command::new("node");
    command.arg(script("obs_whip.js")).env("NODE_PATH", modules);
    Ok(command)
}

/// The script of axe-core.
pub(crate) fn axe() -> Result<String, String> {
    let path = target_directory().join("peers/node/node_modules/axe-core/axe.min.js");
    fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))
}

/// Command for FFmpeg 8.0.1.
pub(crate) fn ffmpeg_8_0() -> Result<Command, String> {
    let machine = match std::env::consts::ARCH {
        "aarch64" => "linux-arm64",
        _ => "linux-x86_64",
    };
    let folder = target_directory().join("peers/ffmpeg-8.0/org/bytedeco/ffmpeg");
    let program = folder.join(machine).join("ffmpeg");
    if program.is_file() {
        Ok(Command::new(program))
    } else {
        Err(format!("there is no {}", program.display()))
    }
}

/// Command for the publisher by GStreamer's webrtcbin.
pub(crate) fn gstreamer_whip() -> Command {
    let mut command = Command::new(system_python());
    command.arg(script("gstreamer_whip.py"));
    command
}

fn gstreamer_whip_check() -> Result<(), String> {
    static CHECK: OnceLock<Result<(), String>> = OnceLock::new();
    CHECK
        .get_or_init(|| passes_its_check(gstreamer_whip()))
        .clone()
}

/// Path of Firefox on this machine.
pub(crate) fn firefox() -> Result<PathBuf, String> {
    any_of(&["firefox-esr", "firefox"])
}

/// Returns the arguments by which `unshare` makes a network namespace: as root, or as a user who
/// becomes root inside.
pub(crate) fn namespace() -> Option<&'static [&'static str]> {
    const WAYS: [&[&str]; 2] = [&["--net"], &["--user", "--map-root-user", "--net"]];
    let works = |way: &&'static [&'static str]| {
        let output = Command::new("unshare").args(*way).arg("true").output();
        output.is_ok_and(|output| output.status.success())
    };
    find("ip")?;
    WAYS.into_iter().find(works)
}

/// Whether a program may make two namespaces with rules for packets.
fn namespaces() -> Result<(), String> {
    let way = namespace().ok_or("no right to make network namespaces")?;
    for program in ["nsenter", "setpriv"] {
        find(program).ok_or_else(|| format!("{program} (util-linux) is not on the PATH"))?;
    }
    let lines = "unshare --net true && ip link add test0 type veth peer name test1 && \
                 ip rule add ipproto udp blackhole";
    let mut command = Command::new("unshare");
    let output = command.args(way).args(["sh", "-c", lines]).output();
    let output = output.map_err(|error| format!("unshare: {error}"))?;
    let error = String::from_utf8_lossy(&output.stderr);
    let is_done = output.status.success().then_some(());
    is_done.ok_or_else(|| format!("network namespaces are of no use here: {error}"))
}

/// Whether a program may make network interfaces of its own.
fn tun() -> std::io::Result<fs::File> {
    fs::File::options().write(true).open("/dev/net/tun")
}

/// Command for a program in the Python of aiortc, which the muxer of FFmpeg shares.
pub(crate) fn aiortc(program: &str) -> Result<Command, String> {
    let mut command = Command::new(aiortc_python()?);
    command.arg(script(program));
    Ok(command)
}

/// Command for a program that Go has built.
pub(crate) fn go(program: &str) -> Result<Command, String> {
    go_binary(program).map(Command::new)
}

/// Path of a program that Go has built.
pub(crate) fn go_binary(name: &str) -> Result<PathBuf, String> {
    let binary = target_directory().join("peers/go").join(name);
    let missing = || format!("there is no {}", binary.display());
    binary.is_file().then(|| binary.clone()).ok_or_else(missing)
}

/// Whether the program under test supports the system's sound devices.
const HAS_DEVICES: bool = cfg!(feature = "devices");

fn pulseaudio() -> Result<(), String> {
    let mut programs = ["pulseaudio", "pactl", "paplay", "parec"].into_iter();
    programs.try_for_each(|it| installed(it).map(drop))
}

/// Schemathesis, in a Python environment of its own.
pub(crate) fn schemathesis() -> Result<PathBuf, String> {
    let program = target_directory().join("peers/schemathesis/bin/schemathesis");
    match program.exists() {
        true => Ok(program),
        false => Err(format!("there is no schemathesis at {}", program.display())),
    }
}

fn aiortc_python() -> Result<PathBuf, String> {
    let python = target_directory().join("peers/aiortc/bin/python");
    if python.exists() {
        Ok(python)
    } else {
        Err(format!("there is no aiortc at {}", python.display()))
    }
}

/// Checked once, because it starts a Python and reads GStreamer's registry.
fn rtsp_server_check() -> Result<(), String> {
    static CHECK: OnceLock<Result<(), String>> = OnceLock::new();
    let check = || {
        find("gst-launch-1.0").ok_or("gst-launch-1.0 is not on the PATH")?;
        passes_its_check(rtsp_server())
    };
    CHECK.get_or_init(check).clone()
}

/// Runs a script with `--check`, which tells by its exit code whether all that it needs is there.
fn passes_its_check(mut script: Command) -> Result<(), String> {
    let output = script
        .arg("--check")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("python3: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
    }
}

/// The Python that Debian's packages belong to; one earlier on the PATH may be another, which
/// does not see them.
pub(crate) fn system_python() -> &'static Path {
    let debian = Path::new("/usr/bin/python3");
    if debian.is_file() {
        debian
    } else {
        Path::new("python3")
    }
}

pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("peers")
        .join(name)
}

/// Cargo's target directory: the folder above that of the profile of the binary under test.
pub(crate) fn target_directory() -> PathBuf {
    let binary = Path::new(env!("CARGO_BIN_EXE_glassline"));
    let profile = binary.parent().unwrap_or(binary);
    profile.parent().unwrap_or(profile).to_owned()
}

/// Path of a program.
pub(crate) fn installed(program: &str) -> Result<PathBuf, String> {
    any_of(&[program])
}

fn any_of(programs: &[&str]) -> Result<PathBuf, String> {
    let found = programs.iter().find_map(|it| find(it));
    found.ok_or_else(|| format!("{} is not on the PATH", programs[0]))
}

pub(crate) fn find(program: &str) -> Option<PathBuf> {
    // Servers lie where a user's PATH may not lead.
    std::env::split_paths(&std::env::var_os("PATH")?)
        .chain(["/usr/sbin".into()])
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
}
