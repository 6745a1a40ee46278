//! Flags of `bench data`, and the writing of its report.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use glassline_client::impairment::Impairment;
use glassline_client::trust::Trust;
use glassline_lab::data::report::{svg, table};
use glassline_lab::data::staircase;
use glassline_lab::data::sweep::{self, Sweep};
use glassline_lab::data::{
    Dial, DialError, Direction, EndError, Host, Plan, Relays, Report, Sample, Server, Unattended,
    measure, turn,
};
use parking_lot::Mutex;
use url::Url;

use super::files::{Output, OutputPaths, Outputs};
use super::{interrupt, quantity};
use crate::exit::{Failure, INTERRUPTED};
use crate::output;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// URL that `serve` printed, or `serve` to be that server. Without either, both ends run here.
    #[arg(value_name = "URL|serve")]
    target: Option<String>,
    /// Address that `serve` listens on.
    #[arg(long, default_value = "127.0.0.1:8890", value_name = "IP:PORT")]
    listen: SocketAddr,
    /// Direction of the messages, as the client sees it.
    #[arg(long, default_value_t = Direction::Up, value_name = "up|down|both")]
    direction: Direction,
    /// Duration of the transfer.
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = quantity::time)]
    time: Duration,
    /// Time between two samples of the figures.
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = quantity::time)]
    interval: Duration,
    /// Bytes of each message, like 16K, 64K or 256K.
    #[arg(long, default_value = "64K", value_name = "SIZE", value_parser = bytes)]
    message_size: usize,
    /// Waiting bytes at which a sender pauses.
    #[arg(long, default_value = "1M", value_name = "SIZE", value_parser = bytes)]
    high_water: usize,
    /// Waiting bytes at which a paused sender resumes.
    #[arg(long, default_value = "256K", value_name = "SIZE", value_parser = bytes)]
    low_water: usize,
    /// Size of SCTP's receive window [default: it grows with the path].
    #[arg(long, value_name = "SIZE", value_parser = bytes)]
    window: Option<usize>,
    /// Number of data channels that send in parallel.
    #[arg(long, default_value_t = 1, value_name = "N")]
    channels: u16,
    /// Let messages of a channel overtake each other (unordered channels).
    #[arg(long)]
    unordered: bool,
    /// Give a message up after N retransmissions.
    #[arg(long, value_name = "N", conflicts_with = "max_lifetime")]
    max_retransmits: Option<u32>,
    /// Give a message up after this time.
    #[arg(long, value_name = "TIME", value_parser = quantity::time)]
    max_lifetime: Option<Duration>,
    /// Cipher of DTLS: aes-128-gcm, aes-256-gcm or chacha20-poly1305 [default: the fastest here].
    #[arg(long, value_name = "NAME")]
    cipher: Option<String>,
    /// Congestion control: standard (RFC 9260), cubic, bbr, copa, glide and others [default:
    /// bbr-loss-tolerant].
    #[arg(long, value_name = "NAME")]
    congestion: Option<String>,
    /// Buffer size of each UDP socket; 0 leaves the system's.
    #[arg(long, default_value = "4M", value_name = "SIZE", value_parser = bytes)]
    udp_buffer: usize,
    /// Use neither GSO nor GRO.
    #[arg(long)]
    no_offload: bool,
    /// Impair the network in both directions, as 'rtt=20ms loss=1% rate=1gbit'. Also delay, jitter,
    /// queue, reorder, seed.
    #[arg(long, value_name = "NAME=VALUE…")]
    impair: Option<Impairment>,
    /// Run every combination, as message-size=16K,64K,window=256K,4M,rtt=0,20ms. Also high-water,
    /// low-water, udp-buffer, channels, loss, rate. The first name is the chart's horizontal axis.
    #[arg(long, value_name = "NAME=A,B,…", conflicts_with = "staircase")]
    sweep: Option<Sweep>,
    /// Start with usual defaults, and show the gain of each better setting.
    #[arg(long)]
    staircase: bool,
    /// TURN server for paths without a direct one: turn:HOST, turn:HOST?transport=tcp or
    /// turns:HOST. Repeatable, in order.
    #[arg(long, value_name = "URI")]
    turn: Vec<turn::Server>,
    /// User name and password for the TURN servers.
    #[arg(
        long,
        value_name = "USER:PASSWORD",
        env = "GLASSLINE_TURN_USER",
        hide_env_values = true,
        default_value = "",
        hide_default_value = true
    )]
    turn_user: String,
    /// Always go through the TURN server.
    #[arg(long, requires = "turn")]
    relayed: bool,
    /// Accept any certificate; whoever is on the path can then read and change the traffic.
    #[arg(long)]
    insecure: bool,
    /// Name of this run in charts [default: the URL].
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    #[command(flatten)]
    files: OutputPaths,
}

fn bytes(text: &str) -> Result<usize, String> {
    sweep::size(text).ok_or_else(|| "give a size like 16K, 4M or 1200".to_owned())
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    if options.target.as_deref() == Some("serve") {
        return serve(options, quiet);
    }
    let plan = options.plan();
    plan.check().map_err(Failure::usage)?;
    let mut outputs = Outputs::open(&options.files)?;
    let stop = interrupt::listen()?;
    // The server must live until the last test has ended.
    let mut here = None;
    let url = match &options.target {
        Some(text) => text.parse::<Url>().map_err(|error| {
            Failure::usage(format_args!("{text}: {error}; give a URL, or serve"))
        })?,
        None => {
            let server = Server::start(([127, 0, 0, 1], 0).into(), Arc::new(Unattended));
            let server = here.insert(server.map_err(Failure::runtime)?);
            server.url().parse().expect("a URL of ours")
        }
    };
    let lines = Lines::new(quiet, outputs.takes_stdout());
    let label = options.label.clone().unwrap_or_else(|| match here {
        Some(_) => "both ends here".to_owned(),
        None => url.to_string(),
    });
    let dial = Dial {
        url,
        trust: match options.insecure {
            true => Trust::Anyone,
            false => Trust::System,
        },
        impairment: options.impair.clone(),
        relays: options.relays(),
        label,
    };
    let one = |plan: &Plan, impairment: Option<&Impairment>, label: &str| {
        if interrupt::is_stopped(&stop) {
            return Ok(None);
        }
        let dial = Dial {
            impairment: impairment.cloned(),
            label: label.to_owned(),
            ..dial.clone()
        };
        measure(&dial, plan, &stop, |_, _| {}).map(Some)
    };
    if let Some(sweep) = &options.sweep {
        lines.print(&format!("{} runs of {:?}", sweep.runs(), plan.time()))?;
        let swept = sweep.run(&plan, options.impair.as_ref(), |plan, impairment, name| {
            let report = one(plan, impairment, name)?;
            if let Some(report) = &report {
                let line = format!("{name:48} {}", report.verdict);
                lines
                    .print(&line)
                    .map_err(|it| DialError::Start(it.to_string()))?;
            }
            Ok::<_, DialError>(report)
        });
        let swept = swept.map_err(failure)?;
        outputs.write(
            || json(&swept),
            || swept.to_csv(),
            || svg::draw_sweep(&swept),
        )?;
    } else if options.staircase {
        lines.print(&format!(
            "{} runs of {:?}",
            staircase::runs(&plan),
            plan.time()
        ))?;
        let climbed =
            staircase::run_steps(&plan, |plan, name| one(plan, options.impair.as_ref(), name));
        let climbed = climbed.map_err(failure)?;
        lines.print(climbed.draw().trim_end())?;
        outputs.write(
            || json(&climbed),
            || climbed.to_csv(),
            || svg::draw_staircase(&climbed),
        )?;
    } else {
        lines.print(&format!(
            "{}: {} for {:?}, messages of {} bytes{}",
            dial.label,
            plan.direction,
            plan.time(),
            plan.message_size,
            dial.impairment
                .as_ref()
                .map(|it| format!(", {it}"))
                .unwrap_or_default(),
        ))?;
        let report = measure(&dial, &plan, &stop, |_, _| {}).map_err(failure)?;
        lines.print(table::draw(&report).trim_end())?;
        outputs.write(
            || report.to_json(),
            || report.to_csv(),
            || svg::draw(&report),
        )?;
    }
    Ok(match interrupt::is_stopped(&stop) {
        true => ExitCode::from(INTERRUPTED),
        false => ExitCode::SUCCESS,
    })
}

/// Exit code by fault: a plan that cannot work is the user's, everything else is the run's.
fn failure(error: DialError) -> Failure {
    match error {
        DialError::Plan(_) => Failure::usage(error),
        error => Failure::runtime(error),
    }
}

/// Answers the tests of other ends until Ctrl-C.
#[expect(clippy::disallowed_methods, reason = "a command may wait")]
fn serve(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let stop = interrupt::listen()?;
    let host = Arc::new(TestReporter {
        quiet,
        json: Mutex::new(
            options
                .files
                .json
                .as_deref()
                .map(Output::open)
                .transpose()?,
        ),
    });
    let server = Server::start(options.listen, host).map_err(Failure::runtime)?;
    output::print(&format!("{}\n", server.url()))?;
    if !quiet {
        let url = server.url();
        eprintln!(
            "start a test with `glassline bench data {url}`, or open the URL in a browser; Ctrl-C ends this command"
        );
    }
    while !interrupt::is_stopped(&stop) {
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(server);
    Ok(ExitCode::from(INTERRUPTED))
}

/// Destination of the lines for people: stdout, stderr where stdout carries a file, or nowhere.
#[derive(Clone, Copy, Debug)]
struct Lines {
    quiet: bool,
    stderr: bool,
}

impl Lines {
    const fn new(quiet: bool, stderr: bool) -> Self {
        Self { quiet, stderr }
    }

    fn print(&self, text: &str) -> Result<(), Failure> {
        match (self.quiet, self.stderr) {
            (true, _) => Ok(()),
            (false, true) => {
                eprintln!("{text}");
                Ok(())
            }
            (false, false) => output::print(&format!("{text}\n")),
        }
    }
}

/// Reports tests that other ends started, on stderr and in the JSON file.
struct TestReporter {
    quiet: bool,
    /// File that gets one line of JSON for each test.
    json: Mutex<Option<Output>>,
}

impl Host for TestReporter {
    fn begun(&self, peer: SocketAddr, plan: &Plan) {
        if !self.quiet {
            eprintln!("{peer}: {} for {:?}", plan.direction, plan.time());
        }
    }

    fn sampled(&self, _: SocketAddr, _: &Sample) {}

    fn ended(&self, peer: SocketAddr, report: Result<Report, EndError>) {
        let report = match report {
            Ok(report) => report,
            Err(error) => {
                tracing::warn!(%peer, %error, "a test failed");
                return;
            }
        };
        if !self.quiet {
            eprintln!("{peer}: {}", table::summary(&report));
        }
        let line = serde_json::to_string(&report).expect("plain data") + "\n";
        let mut json = self.json.lock();
        if let Some(json) = json.as_mut()
            && let Err(failure) = json.write(&line)
        {
            tracing::warn!(%peer, %failure, "cannot write the report of a test to the --json file");
        }
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string_pretty(value).expect("plain data") + "\n"
}

impl Options {
    fn relays(&self) -> Relays {
        let (username, password) = self.turn_user.split_once(':').unwrap_or_default();
        Relays {
            servers: self.turn.clone(),
            credentials: turn::Credentials {
                username: username.to_owned(),
                password: password.to_owned(),
            },
            only: self.relayed,
        }
    }

    fn plan(&self) -> Plan {
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Plan {
            direction: self.direction,
            time_ms: ms(self.time),
            interval_ms: ms(self.interval),
            message_size: self.message_size,
            high_water: self.high_water,
            low_water: self.low_water.min(self.high_water),
            window: self.window.map(|it| u32::try_from(it).unwrap_or(u32::MAX)),
            channels: self.channels,
            unordered: self.unordered,
            max_retransmits: self.max_retransmits,
            max_lifetime_ms: self.max_lifetime.map(ms),
            cipher: self.cipher.clone(),
            congestion: self.congestion.clone(),
            udp_buffer: (self.udp_buffer > 0).then_some(self.udp_buffer),
            no_offload: self.no_offload,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    fn parse(flags: &[&str]) -> Result<Plan, String> {
        test_flags::parse(flags).map(|options: Options| options.plan())
    }

    #[test]
    fn the_defaults_are_the_plan_s_own() {
        assert_eq!(parse(&[]), Ok(Plan::default()));
    }

    #[test]
    fn flags_become_a_plan_and_wrong_ones_are_said() {
        let flags = [
            "serve",
            "--direction",
            "both",
            "--message-size",
            "256K",
            "--window",
            "4M",
            "--udp-buffer",
            "0",
            "--max-lifetime",
            "150ms",
        ];
        let plan = parse(&flags).expect("flags that clap takes");
        assert_eq!(plan.direction, Direction::Both);
        assert_eq!((plan.message_size, plan.window), (256 << 10, Some(4 << 20)));
        assert_eq!((plan.udp_buffer, plan.max_lifetime_ms), (None, Some(150)));
        let cases: [(&[&str], &str); 5] = [
            (&["--direction", "left"], "up, down or both"),
            (&["--message-size", "big"], "like 16K"),
            (&["--impair", "speed=1"], "none of delay"),
            (&["--sweep", "mood=1"], "none of message-size"),
            (
                &["--max-retransmits", "1", "--max-lifetime", "1s"],
                "cannot be used with",
            ),
        ];
        for (flags, wanted) in cases {
            let error = parse(flags).expect_err("a usage error");
            assert!(error.contains(wanted), "{error}");
        }
    }
}
