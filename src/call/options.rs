//! Flags of `glassline call`.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use glassline_client::call::{
    Bitrate, Config, Format, Stamps, Timing, jitter, jitter::Pace, opus, preprocess,
};
use glassline_client::impairment::Impairment;
use glassline_client::trust::Trust;
use glassline_lab::condition::Condition;
use url::Url;

use crate::bench::files::OutputPaths;
use crate::bench::quantity;
use crate::exit::Failure;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// Other end: the URL that `glassline call listen` printed, a room
    /// (http://HOST:8889/call/ROOM), or a stream by WHEP; `listen` waits for calls. Without either,
    /// both ends run here, and all stages are measured.
    #[arg(value_name = "URL|listen")]
    target: Option<String>,
    /// Address of `listen`; a browser finds a page there.
    #[arg(long, default_value = "127.0.0.1:8891", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Name that the others in a room see.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End `listen` after one call.
    #[arg(long)]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) audio: AudioOptions,
    #[command(flatten)]
    voice: VoiceOptions,
    /// Hang up after this time.
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    pub(super) time: Option<Duration>,
    /// Impair the network in both directions: 'delay=40ms jitter=ar98 loss=1%'. Jitter is a time or
    /// a family (ar98, ar90, mixed, iid, clean, spikes). Also rate, queue, reorder, seed.
    #[arg(long, value_name = "NAME=VALUE…")]
    pub(super) impair: Option<Impairment>,
    /// Accept any certificate; whoever is on the path can then listen and speak in your place.
    #[arg(long)]
    insecure: bool,
    /// Token of the server: for a stream to read, for a room to publish.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_TOKEN",
        hide_env_values = true
    )]
    pub(super) token: Option<String>,
    #[command(flatten)]
    pub(super) tables: TableOptions,
}

// Microphone and loudspeaker. (A doc comment here would replace the command's help.)
#[derive(Debug, Args)]
pub(super) struct AudioOptions {
    /// List microphones and loudspeakers, and do nothing else.
    #[arg(long)]
    devices: bool,
    /// Microphone [default: the system's].
    #[arg(long, value_name = "NAME", conflicts_with = "wav_in")]
    pub(super) microphone: Option<String>,
    /// Loudspeaker [default: the system's].
    #[arg(long, value_name = "NAME", conflicts_with = "wav_out")]
    pub(super) loudspeaker: Option<String>,
    /// Use no sound device: send silence and play nothing.
    #[arg(long, conflicts_with_all = ["microphone", "loudspeaker"])]
    pub(super) silent: bool,
    /// Send a WAV file (8 to 48 kHz, mono or stereo), then silence, instead of a microphone.
    #[arg(long, value_name = "FILE")]
    pub(super) wav_in: Option<PathBuf>,
    /// Write the played audio to a WAV file.
    #[arg(long, value_name = "FILE")]
    pub(super) wav_out: Option<PathBuf>,
    /// Samples per second of --wav-out.
    #[arg(long, default_value_t = 48_000, value_name = "HZ", value_parser = rate)]
    rate: u32,
    /// Samples per turn of a WAV file, 120 to 1,024, or up to 200 ms.
    #[arg(long, default_value_t = 120, value_name = "SAMPLES")]
    period: usize,
    /// Drift of the WAV file's clock against real time, in parts per million.
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "PPM",
        allow_negative_numbers = true
    )]
    drift: f64,
    /// Longest random delay of a WAV file's turns.
    #[arg(long, default_value = "0ms", value_name = "TIME", value_parser = quantity::time)]
    device_jitter: Duration,
}

// Processing, encoding and sending of the voice.
#[derive(Debug, Args)]
struct VoiceOptions {
    /// Start muted. On a terminal, m mutes and unmutes, q hangs up.
    #[arg(long)]
    mute: bool,
    /// Duration of the audio in each packet.
    #[arg(long, default_value = "10ms", value_name = "10ms|20ms", value_parser = packet)]
    packet: opus::Frame,
    /// Encode for few bits and many losses, for 4 ms more; --fec and --dtx imply this.
    #[arg(long)]
    voip: bool,
    /// Encode for the least delay, which is the default.
    #[arg(long, hide = true, conflicts_with_all = ["voip", "fec", "dtx"])]
    low_delay: bool,
    /// Do not remove the echo.
    #[arg(long)]
    no_aec: bool,
    /// Do not remove the noise.
    #[arg(long)]
    no_ns: bool,
    /// Do not adjust the level.
    #[arg(long)]
    no_agc: bool,
    /// Bitrate of the voice [default: 48k, with --voip 32k].
    #[arg(long, value_name = "RATE", value_parser = quantity::bitrate)]
    bitrate: Option<u64>,
    /// Add a coarse copy of each packet to the next one (in-band FEC) while losses are reported.
    #[arg(long)]
    fec: bool,
    /// Add a whole copy of each packet to the next one (RFC 2198).
    #[arg(long)]
    red: bool,
    /// Send almost nothing while nobody speaks (DTX).
    #[arg(long)]
    dtx: bool,
    /// Pace of the jitter buffer: swift waits least, steady sounds best, even is between.
    #[arg(long, default_value = "even", value_name = "swift|even|steady", value_parser = Pace::from_str)]
    pace: Pace,
}

// Output of the delay tables.
#[derive(Debug, Args)]
pub(super) struct TableOptions {
    /// Print a table of delays by stage and direction; those of the other end only if it is
    /// glassline.
    #[arg(long)]
    pub(super) report: bool,
    #[command(flatten)]
    pub(super) files: OutputPaths,
    /// Exit with 3 if a stage meets this condition, as 'mouth_to_ear.p50_ms>35'. Repeatable.
    #[arg(long, value_name = "STAGE.FIGURE>LIMIT")]
    pub(super) fail_if: Vec<Condition>,
}

const EXAMPLES: &str = "\
Examples:
  glassline call listen --listen 10.0.0.1:8891
  glassline call http://10.0.0.1:8891/call
  glassline call URL --wav-in question.wav --wav-out answer.wav --time 30s
  glassline call URL --time 60s --report --json call.json
  glassline call URL --impair 'delay=40ms jitter=ar98 loss=1%' --red
  glassline call http://10.0.0.1:8889/call/standup --name Ann
  glassline call http://127.0.0.1:8889/demo/whep --wav-out heard.wav --time 10s
  glassline call --time 10m --report --svg call.svg --fail-if 'mouth_to_ear.p50_ms>35'

Exit codes: 0 the call is over, 1 failed, 2 wrong usage, 3 a --fail-if condition was met,
130 interrupted.";

/// The target that the first argument names.
pub(super) enum Target {
    /// Both ends run in this process.
    Loopback,
    Listen(SocketAddr),
    /// Call another end, or listen to a stream.
    Url(Url),
    /// Join a room of a server.
    Room(Url),
}

/// Whether the URL is that of a room: `…/call/ROOM`.
fn is_room(url: &Url) -> bool {
    let path = url.path_segments().map(Iterator::collect::<Vec<_>>);
    matches!(path.as_deref(), Some(["call", room]) if !room.is_empty())
}

fn rate(text: &str) -> Result<u32, String> {
    let rate = text.parse().ok();
    rate.filter(|rate| Format::new(*rate, 1).is_some())
        .ok_or_else(|| "give 8000 to 48000".to_owned())
}

fn packet(text: &str) -> Result<opus::Frame, String> {
    match text {
        "10ms" | "10" => Ok(opus::Frame::Ms10),
        "20ms" | "20" => Ok(opus::Frame::Ms20),
        _ => Err("give 10ms or 20ms".to_owned()),
    }
}

impl Options {
    pub(super) const fn lists_devices(&self) -> bool {
        self.audio.devices
    }

    pub(super) fn target(&self) -> Result<Target, Failure> {
        match self.target.as_deref() {
            None => Ok(Target::Loopback),
            Some("listen") => Ok(Target::Listen(self.listen)),
            Some(text) => {
                let url = text.parse::<Url>().map_err(|error| {
                    Failure::usage(format_args!("{text}: {error}; give a URL, or listen"))
                })?;
                match is_room(&url) {
                    false => Ok(Target::Url(url)),
                    true => Ok(Target::Room(self.named(url))),
                }
            }
        }
    }

    /// The room's URL with our name in its query.
    fn named(&self, mut url: Url) -> Url {
        if let Some(name) = &self.name {
            url.query_pairs_mut().append_pair("name", name);
        }
        url
    }

    pub(super) fn wants_tables(&self) -> bool {
        let tables = &self.tables;
        tables.report || !tables.fail_if.is_empty() || tables.files.given().next().is_some()
    }

    pub(super) fn trust(&self) -> Trust {
        match self.insecure {
            true => Trust::Anyone,
            false => Trust::System,
        }
    }

    pub(super) fn timing(&self) -> Timing {
        Timing {
            period: self.audio.period,
            drift_ppm: self.audio.drift,
            jitter: self.audio.device_jitter,
            ..Timing::default()
        }
    }

    /// Format of a loudspeaker that is a WAV file.
    pub(super) fn format(&self) -> Format {
        Format::new(self.audio.rate, 1).expect("the flag was checked")
    }

    pub(super) fn config(&self) -> Config {
        // The low-delay mode of Opus (CELT alone) supports neither FEC nor DTX.
        let (purpose, bitrate) = match self.voice.voip || self.voice.fec || self.voice.dtx {
            true => (opus::Purpose::Voip, 32_000),
            false => (opus::Purpose::LowDelay, 48_000),
        };
        Config {
            preprocess: preprocess::Config {
                echo: !self.voice.no_aec,
                noise: !self.voice.no_ns,
                gain: !self.voice.no_agc,
            },
            opus: opus::Config {
                frame: self.voice.packet,
                purpose,
                bitrate: Bitrate::from_bps(self.voice.bitrate.unwrap_or(bitrate)),
                dtx: self.voice.dtx,
                fec: self.voice.fec,
                ..opus::Config::default()
            },
            redundancy: self.voice.red,
            jitter: jitter::Config {
                pace: self.voice.pace,
                ..jitter::Config::default()
            },
            muted: self.voice.mute,
            stamps: match self.wants_tables() {
                true => Stamps::Exchange,
                false => Stamps::Send,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    fn parse(flags: &[&str]) -> Result<Options, String> {
        test_flags::parse(flags)
    }

    #[test]
    fn flags_become_a_configuration() {
        let flags = [
            "http://127.0.0.1:8891/call",
            "--packet",
            "20ms",
            "--no-aec",
            "--red",
            "--bitrate",
            "24k",
            "--drift",
            "-50",
            "--device-jitter",
            "4ms",
            "--pace",
            "steady",
        ];
        let options = parse(&flags).expect("flags that clap takes");
        let config = options.config();
        assert!(!config.preprocess.echo && config.preprocess.noise && config.redundancy);
        assert!(!config.opus.fec && !config.opus.dtx && !config.muted);
        assert_eq!(config.opus.frame, opus::Frame::Ms20);
        assert_eq!(config.opus.bitrate.bps(), 24_000);
        assert!((options.timing().drift_ppm + 50.0).abs() < 1e-9);
        assert!(matches!(options.target(), Ok(Target::Url(_))));
        assert_eq!(config.opus.purpose, opus::Purpose::LowDelay);
        assert_eq!(config.jitter.pace, Pace::Steady);
        let listening = parse(&["listen"]).expect("no flags");
        assert_eq!(listening.config().jitter, jitter::Config::default());
        assert_eq!(listening.config().opus.bitrate.bps(), 48_000);
        let redundant = parse(&["listen", "--fec"]).expect("a flag");
        let redundant = redundant.config().opus;
        assert_eq!(redundant.purpose, opus::Purpose::Voip);
        assert_eq!(redundant.bitrate.bps(), 32_000);
        assert!(matches!(listening.target(), Ok(Target::Listen(_))));
        assert!(parse(&["--devices"]).is_ok_and(|it| it.lists_devices()));
        let here = parse(&["--report", "--fail-if", "send.p99_ms>0.5"]).expect("no target");
        assert!(matches!(here.target(), Ok(Target::Loopback)));
        let one = parse(&["listen", "--report"]).expect("flags that clap takes");
        assert!(matches!(one.target(), Ok(Target::Listen(_))));
        assert_eq!(one.config().stamps, Stamps::Exchange);
        assert_eq!(listening.config().stamps, Stamps::Send);
    }

    #[test]
    fn wrong_flags_are_said() {
        let cases: [(&[&str], &str); 7] = [
            (&["--pace", "slow"], "none of swift, even, steady"),
            (&["--fail-if", "send"], "is no condition"),
            (&["listen", "--packet", "30ms"], "10ms or 20ms"),
            (&["listen", "--rate", "96000"], "8000 to 48000"),
            (&["listen", "--impair", "jitter=ar99"], "as ar98"),
            (&["listen", "--bitrate", "much"], "like 3M"),
            (
                &["listen", "--microphone", "a", "--wav-in", "b"],
                "cannot be used with",
            ),
        ];
        for (flags, wanted) in cases {
            let error = parse(flags).expect_err("a usage error");
            assert!(error.contains(wanted), "{error}");
        }
    }
}
