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

use crate::bench::quantity;
use crate::exit::Failure;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Options {
    /// The URL that `glassline call listen` printed; that of a room of a server,
    /// `http://HOST:8889/call/ROOM`, or of a stream by WHEP, which is then heard; or
    /// `listen` to be called. Without either, both ends run in this
    /// process, on loopback, and every millisecond is accounted for.
    #[arg(value_name = "URL|listen")]
    target: Option<String>,
    /// Where `listen` takes calls; a browser finds a page there.
    #[arg(long, default_value = "127.0.0.1:8891", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// What to be called by others in a room.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// End `listen` after one call.
    #[arg(long)]
    pub(super) once: bool,
    #[command(flatten)]
    pub(super) audio: AudioOptions,
    #[command(flatten)]
    voice: VoiceOptions,
    /// Hang up after so long.
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    pub(super) time: Option<Duration>,
    /// Put a network between the ends, the same each way, as 'delay=40ms jitter=ar98
    /// loss=1%'; jitter is a time, or a family of delays: ar98, ar90, mixed, iid, clean,
    /// spikes. Also rate, queue, reorder, seed.
    #[arg(long, value_name = "NAME=VALUE…")]
    pub(super) impair: Option<Impairment>,
    /// Take any certificate of an https:// server.
    #[arg(long)]
    insecure: bool,
    /// What a server wants of those who listen, or its publish token for a room. Better given by the environment, since
    /// other users see command lines.
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

// What is spoken into and played on. (A doc comment here would replace the command's.)
#[derive(Debug, Args)]
pub(super) struct AudioOptions {
    /// List microphones and loudspeakers, and do nothing else.
    #[arg(long)]
    devices: bool,
    /// Speak with a microphone of this name [default: the system's].
    #[arg(long, value_name = "NAME", conflicts_with = "wav_in")]
    pub(super) microphone: Option<String>,
    /// Listen with a loudspeaker of this name [default: the system's].
    #[arg(long, value_name = "NAME", conflicts_with = "wav_out")]
    pub(super) loudspeaker: Option<String>,
    /// Say what is in a WAV file (8 to 48 kHz, mono or stereo), then nothing.
    #[arg(long, value_name = "FILE")]
    pub(super) wav_in: Option<PathBuf>,
    /// Write what is heard to a WAV file.
    #[arg(long, value_name = "FILE")]
    pub(super) wav_out: Option<PathBuf>,
    /// Samples a second of --wav-out.
    #[arg(long, default_value_t = 48_000, value_name = "HZ", value_parser = rate)]
    rate: u32,
    /// Samples in each call of a device that is a file: 120 to 1,024 as sound cards have,
    /// or the 200 ms of some telephones.
    #[arg(long, default_value_t = 120, value_name = "SAMPLES")]
    period: usize,
    /// By how much the clock of a device that is a file runs fast, in parts per million.
    #[arg(
        long,
        default_value_t = 0.0,
        value_name = "PPM",
        allow_negative_numbers = true
    )]
    drift: f64,
    /// By how much calls of a device that is a file come late at the most.
    #[arg(long, default_value = "0ms", value_name = "TIME", value_parser = quantity::time)]
    device_jitter: Duration,
}

// What is done to the voice, and how it is sent.
#[derive(Debug, Args)]
struct VoiceOptions {
    /// Begin muted; on a terminal, m mutes and unmutes, q hangs up.
    #[arg(long)]
    mute: bool,
    /// How much audio a packet holds.
    #[arg(long, default_value = "10ms", value_name = "10ms|20ms", value_parser = packet)]
    packet: opus::Frame,
    /// Encode for few bits and many losses instead of for the least delay: 4 ms more.
    /// --fec and --dtx need it, and bring it along.
    #[arg(long)]
    voip: bool,
    /// What is the default.
    #[arg(long, hide = true, conflicts_with_all = ["voip", "fec", "dtx"])]
    low_delay: bool,
    /// Leave the echo in.
    #[arg(long)]
    no_aec: bool,
    /// Leave the noise in.
    #[arg(long)]
    no_ns: bool,
    /// Leave the level as it is.
    #[arg(long)]
    no_agc: bool,
    /// Of the voice, without headers [default: 48k, with --voip 32k].
    #[arg(long, value_name = "RATE", value_parser = quantity::bitrate)]
    bitrate: Option<u64>,
    /// Put a coarse copy of each packet into the next, where the other end reports losses.
    #[arg(long)]
    fec: bool,
    /// Put a whole copy of each packet into the next (RFC 2198).
    #[arg(long)]
    red: bool,
    /// Send next to nothing while nobody speaks.
    #[arg(long)]
    dtx: bool,
    /// How voices wait on a path that swings: swift waits least, steady sounds best.
    #[arg(long, default_value = "even", value_name = "swift|even|steady", value_parser = Pace::from_str)]
    pace: Pace,
}

// What becomes of the stages' tables.
#[derive(Debug, Args)]
pub(super) struct TableOptions {
    /// Print the table of every stage, of both directions; in a room, with each of the
    /// others. The other end's stages and the network are in it if that end is glassline,
    /// too; without a URL both are here.
    #[arg(long)]
    pub(super) report: bool,
    /// Write the tables as JSON; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    pub(super) json: Option<PathBuf>,
    /// Write the tables as CSV; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    pub(super) csv: Option<PathBuf>,
    /// Draw waterfall and histograms; `-` for stdout.
    #[arg(long, value_name = "FILE")]
    pub(super) svg: Option<PathBuf>,
    /// Exit with 3 if a stage's figure is beyond this, as 'mouth_to_ear.p50_ms>35'.
    /// Repeatable.
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

/// What is to be done.
pub(super) enum Target {
    /// Both ends.
    Here,
    Listen(SocketAddr),
    /// Another end, or a stream.
    Url(Url),
    /// A room of a server.
    Room(Url),
}

/// `…/call/ROOM`
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
            None => Ok(Target::Here),
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

    /// A room's URL with what we want to be called.
    fn named(&self, mut url: Url) -> Url {
        if let Some(name) = &self.name {
            url.query_pairs_mut().append_pair("name", name);
        }
        url
    }

    pub(super) fn wants_tables(&self) -> bool {
        let files = [&self.tables.json, &self.tables.csv, &self.tables.svg];
        self.tables.report || !self.tables.fail_if.is_empty() || files.iter().any(|it| it.is_some())
    }

    pub(super) fn trust(&self) -> Trust {
        match self.insecure {
            true => Trust::Anybody,
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

    /// Of a loudspeaker that is a file.
    pub(super) fn format(&self) -> Format {
        Format::new(self.audio.rate, 1).expect("the flag was checked")
    }

    pub(super) fn config(&self) -> Config {
        // The transform alone knows neither redundancy nor silence.
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
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn parse(flags: &[&str]) -> Result<Options, String> {
        let line = Line::try_parse_from(std::iter::once(&"call").chain(flags));
        line.map(|line| line.options)
            .map_err(|error| error.to_string())
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
        assert!(matches!(here.target(), Ok(Target::Here)));
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
