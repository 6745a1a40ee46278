//! `glassline call` with the system's sound devices: a PulseAudio server of the test's
//! own, whose null sinks stand for microphone and loudspeaker.
//!
//! ```text
//! paplay ─► sink "spoken" ─ monitor ─► ALSA ─► call listen ═══ call, with WAV files
//! parec ◄── monitor ─ sink "heard" ◄── ALSA ◄───┘
//! ```

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use libtest_mimic::Failed;

use crate::call::{LIGHT, OURS, PATIENCE, RATE, THEIRS, ensure_found, heard, marks_file, out};
use crate::peers::{Peer, Test};
use crate::process::{Running, eventually};
use crate::server::{glassline, unique};

pub(crate) const TESTS: &[Test] = &[
    Test::of(&are_listed_heard_and_played_on).needs(&[Peer::PulseAudio]),
    Test::of(&unplugged_and_back_they_go_on).needs(&[Peer::PulseAudio]),
];

/// A sound server of the test's own. Dropping it ends it.
struct SoundServer {
    folder: PathBuf,
    _running: Running,
}

/// ALSA's configuration: defaults for both directions, and the microphone by its name.
const ALSA: &str = "\
</usr/share/alsa/alsa.conf>
pcm.!default { type pulse }
ctl.!default { type pulse }
pcm.spoken {
  type pulse
  device \"spoken.monitor\"
  hint { show on description \"What the test says\" }
}
";

const SINKS: [&str; 2] = ["spoken", "heard"];

impl SoundServer {
    fn start() -> Result<Self, String> {
        let name = unique(&format!("glassline-pulse-{}", std::process::id()));
        let folder = std::env::temp_dir().join(name);
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        // Files of an earlier test.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(failed)?;
        fs::write(folder.join("asound.conf"), ALSA).map_err(failed)?;
        let socket = folder.join("native");
        let script = format!(
            "load-module module-native-protocol-unix socket={} auth-anonymous=1\n",
            socket.display()
        );
        fs::write(folder.join("start.pa"), script).map_err(failed)?;
        let mut command = Command::new("pulseaudio");
        command
            .args([
                "--daemonize=no",
                "-n",
                "--exit-idle-time=-1",
                "--realtime=no",
                "-F",
            ])
            .arg(folder.join("start.pa"));
        surround(&mut command, &folder);
        // The server must not look for itself there.
        command.env_remove("PULSE_SERVER");
        let server = Self {
            _running: Running::start("pulseaudio", command)?,
            folder,
        };
        eventually(PATIENCE, || server.control(&["info"]).map(drop))?;
        server.plug_in("rate=48000")?;
        Ok(server)
    }

    /// Command for `program`, connected to this server.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        surround(&mut command, &self.folder);
        command
    }

    fn control(&self, arguments: &[&str]) -> Result<String, String> {
        let output = self.command("pactl").args(arguments).output();
        let output = output.map_err(|error| format!("pactl: {error}"))?;
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    fn plug_in(&self, rate: &str) -> Result<(), String> {
        for sink in SINKS {
            let name = format!("sink_name={sink}");
            self.control(&["load-module", "module-null-sink", &name, rate])?;
        }
        self.control(&["set-default-sink", "heard"])?;
        self.control(&["set-default-source", "spoken.monitor"])?;
        Ok(())
    }

    fn unplug(&self) -> Result<(), String> {
        self.control(&["unload-module", "module-null-sink"])
            .map(drop)
    }

    /// Plays `wav` into the microphone until the result is dropped.
    fn say(&self, wav: &str) -> Result<Running, String> {
        let mut command = self.command("paplay");
        command.args(["--device=spoken", "--latency-msec=50", wav]);
        Running::start("paplay", command)
    }

    /// Records the loudspeaker until the result is dropped.
    fn record(&self, raw: &str) -> Result<Running, String> {
        let mut command = self.command("parec");
        let rate = format!("--rate={RATE}");
        command.args(["--device=heard.monitor", "--format=s16le", "--channels=1"]);
        command.args([&rate, "--latency-msec=50", raw]);
        Running::start("parec", command)
    }
}

impl Drop for SoundServer {
    fn drop(&mut self) {
        // The next test has a folder of its own.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn surround(command: &mut Command, folder: &Path) {
    command
        .env("HOME", folder)
        .env("XDG_RUNTIME_DIR", folder)
        .env("PULSE_RUNTIME_PATH", folder)
        .env("PULSE_STATE_PATH", folder)
        .env(
            "PULSE_SERVER",
            format!("unix:{}", folder.join("native").display()),
        )
        .env("ALSA_CONFIG_PATH", folder.join("asound.conf"));
}

/// The samples that `parec` wrote.
fn recorded(path: &Path) -> Result<Vec<f32>, String> {
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let samples = bytes.as_chunks::<2>().0.iter();
    Ok(samples
        .map(|it| f32::from(i16::from_le_bytes(*it)) / 32_768.0)
        .collect())
}

/// Two ends of a call: one with the server's devices, one with files.
struct Ends {
    with_cards: Running,
    with_files: Running,
    /// WAV file of the second end's output.
    far: PathBuf,
}

impl Ends {
    fn start(server: &SoundServer, flags: &[&str]) -> Result<Self, String> {
        let says = marks_file("cards-theirs.wav", THEIRS, Duration::from_secs(120))?;
        let (file, far) = out("cards-far.wav")?;
        let mut arguments = vec!["call", "listen", "--listen", "127.0.0.1:0", "--once"];
        arguments.extend(LIGHT);
        arguments.extend(flags);
        let mut command = glassline(&arguments);
        surround(&mut command, &server.folder);
        let with_cards = Running::start("call listen", command)?;
        let url = with_cards.wait_for_line(PATIENCE, |line| {
            line.ends_with("/call").then(|| line.to_owned())
        })?;
        let mut arguments = vec!["call", &url, "--wav-in", &says, "--wav-out", &file];
        arguments.extend(LIGHT);
        arguments.extend(["--time", "120s"]);
        let with_files = Running::start("call", glassline(&arguments))?;
        with_cards.wait_for_line(PATIENCE, |line| line.starts_with("connected").then_some(()))?;
        Ok(Self {
            with_cards,
            with_files,
            far,
        })
    }

    /// Hangs up; returns the output of the end with files.
    fn end(mut self) -> Result<Vec<f32>, Failed> {
        self.with_files.signal("-INT")?;
        self.with_files.wait(PATIENCE)?;
        let status = self.with_cards.wait(PATIENCE)?;
        let printed = self.with_cards.printed();
        println!("{printed}");
        match status.success() {
            true => Ok(heard(&self.far)?),
            false => Err(printed.into()),
        }
    }
}

/// Long enough for three undamaged chirps, also on a machine that is so busy that a device fails
/// for seconds.
const LISTEN: Duration = Duration::from_secs(14);

fn last(samples: &[f32], time: Duration) -> &[f32] {
    let count = (time.as_secs_f64() * f64::from(RATE)) as usize;
    &samples[samples.len().saturating_sub(count)..]
}

fn are_listed_heard_and_played_on() -> Result<(), Failed> {
    let server = SoundServer::start()?;
    let says = marks_file("cards-ours.wav", OURS, Duration::from_secs(120))?;
    let mut list = glassline(&["call", "--devices"]);
    surround(&mut list, &server.folder);
    let listed = list.output().map_err(|error| error.to_string())?;
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    println!("{listed}");
    if !listed.contains("What the test says [spoken]") || !listed.contains("[default]") {
        return Err(listed.into());
    }
    let ends = Ends::start(&server, &["--microphone", "test says"])?;
    let (raw, record) = out("cards-heard.raw")?;
    let _saying = server.say(&says)?;
    let _recording = server.record(&raw)?;
    std::thread::sleep(LISTEN);
    let far = ends.end()?;
    ensure_found("through the microphone", OURS, &far, RATE)?;
    ensure_found("through the loudspeaker", THEIRS, &recorded(&record)?, RATE)
}

fn unplugged_and_back_they_go_on() -> Result<(), Failed> {
    let server = SoundServer::start()?;
    let says = marks_file("cards-ours.wav", OURS, Duration::from_secs(120))?;
    let ends = Ends::start(&server, &[])?;
    let gone = |count: usize| {
        let lines = ends.with_cards.printed();
        let lines = lines
            .lines()
            .filter(|it| it.contains("sound device is gone"));
        (lines.count() >= count).then_some(())
    };
    std::thread::sleep(Duration::from_secs(2));
    server.unplug()?;
    eventually(PATIENCE, || {
        gone(2).ok_or_else(|| "nobody noticed".to_owned())
    })?;
    std::thread::sleep(Duration::from_secs(1));
    let back = Instant::now();
    // For the call, this is another sound card.
    server.plug_in("rate=44100")?;
    let again = |line: &str| line.contains("sound device is back").then_some(());
    ends.with_cards.wait_for_line(PATIENCE, again)?;
    println!("opened {:?} after the devices were back", back.elapsed());
    let (raw, record) = out("cards-heard-again.raw")?;
    let _saying = server.say(&says)?;
    let _recording = server.record(&raw)?;
    std::thread::sleep(LISTEN);
    let far = ends.end()?;
    let samples = last(&far, LISTEN);
    ensure_found("through the microphone that came back", OURS, samples, RATE)?;
    let played = recorded(&record)?;
    ensure_found(
        "through the loudspeaker that came back",
        THEIRS,
        &played,
        RATE,
    )
}
