//! Flags of `bench viewers`, and the writing of its report.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use glassline_lab::viewers::error::Error;
use glassline_lab::viewers::plan::{
    Endpoint, FloorSource, IceTransport, Plan, RtspTransport, Trust,
};
use glassline_lab::viewers::ramp::Ramp;
use glassline_lab::viewers::report::{Report, svg};
use glassline_lab::viewers::run;
use glassline_lab::viewers::threshold::Threshold;
use glassline_lab::viewers::trouble::Trouble;
use glassline_runtime::small_file;

use super::files::{OutputPaths, Outputs};
use super::interrupt;
use super::quantity;
use super::report_to::ReportTo;
use super::terminal::Terminal;
use crate::exit::{Failure, INTERRUPTED, THRESHOLD_MISSED};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// URL of the stream: WHEP, /doSignaling, rtsp://…, rtsps://…, or a playlist of HLS (….m3u8).
    #[arg(value_name = "URL")]
    url: String,
    /// Number of viewers: START:END:STEP, or one number.
    #[arg(long, default_value = "0:100:25", value_name = "START:END:STEP")]
    ramp: Ramp,
    /// Time that each step is measured for.
    #[arg(long, default_value = "5s", value_name = "TIME", value_parser = measuring_time)]
    every: Duration,
    /// Time that the last step is measured for.
    #[arg(long, default_value = "10s", value_name = "TIME", value_parser = measuring_time)]
    hold: Duration,
    /// End the ramp after a step with the whole machine busier than this; 100 never does.
    #[arg(long, default_value = "90", value_name = "PERCENT", value_parser = quantity::percentage)]
    max_cpu: f64,
    /// Process id of the server on this machine, to measure its processor time and memory with all
    /// children.
    #[arg(long, value_name = "PID")]
    server_pid: Option<u32>,
    /// Number of viewers that decrypt whole frames; the others count packets.
    #[arg(long, default_value_t = 5, value_name = "N")]
    verify: usize,
    /// Add clients that stall, vanish or send garbage, in percent of the viewers.
    #[arg(long, default_value = "0%", value_name = "PERCENT", value_parser = quantity::percentage)]
    bad_clients: f64,
    /// Measure each step again with N more clients that stop reading after 2 s.
    #[arg(long, default_value_t = 0, value_name = "N")]
    stall: usize,
    /// Measure each step again with N more clients over TCP that stop reading, beside viewers over
    /// UDP (WHEP).
    #[arg(long, default_value_t = 0, value_name = "N")]
    stall_tcp: usize,
    /// Measure each step again with N more clients that read at RATE, like 1:100kB/s (RTSP over
    /// TCP).
    #[arg(long, value_name = "N:RATE", value_parser = slow_clients)]
    slow: Option<(usize, u64)>,
    /// Measure each step again with N more clients with a receive buffer of 4096 bytes (RTSP over
    /// TCP).
    #[arg(long, default_value_t = 0, value_name = "N")]
    tiny_window: usize,
    /// Let viewers report each frame, about once a second, as the player page does (WHEP only).
    #[arg(long)]
    reports: bool,
    /// Send the RTSP server ten DESCRIBE requests a second, and report their times.
    #[arg(long)]
    describe_probe: bool,
    /// Transport of the media [default: tcp for RTSP, udp for WHEP]. `http` is for RTSP only.
    #[arg(
        long,
        value_enum,
        value_name = "tcp|udp|http",
        hide_possible_values = true
    )]
    transport: Option<Transport>,
    /// Read token of the server.
    #[arg(
        long,
        value_name = "TOKEN",
        env = "GLASSLINE_READ_TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
    /// Accept any certificate.
    #[arg(long)]
    insecure: bool,
    /// Let the kernel merge packets on arrival (GRO), which flatters the server.
    #[arg(long)]
    gro: bool,
    /// Exit with 3 if a step meets this condition, like 'loss>0.1%', with names of the JSON report.
    /// Repeatable.
    #[arg(long, value_name = "CONDITION")]
    fail_if: Vec<Threshold>,
    /// Also measure the least that sending these packets costs here, or those of the files.
    #[arg(
        long,
        value_name = "FILE,FILE",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "",
        hide_default_value = true
    )]
    floor: Option<String>,
    /// Name of this run in charts [default: host and path].
    #[arg(long, value_name = "NAME")]
    label: Option<String>,
    /// Draw another run's JSON report, too. Repeatable.
    #[arg(long, value_name = "OTHER.json", requires = "svg")]
    overlay: Vec<PathBuf>,
    #[command(flatten)]
    report_to: ReportTo,
    #[command(flatten)]
    files: OutputPaths,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Transport {
    Tcp,
    Udp,
    Http,
}

/// Shortest time of a step. In a shorter one, single packets would decide the figures.
const MEASURING_MIN: Duration = Duration::from_secs(1);

/// Longest time of a step: a day.
const MEASURING_MAX: Duration = Duration::from_secs(86_400);

/// Most bytes of a JSON report of another run.
const REPORT_BYTES_MAX: u64 = 64 << 20;

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let plan = options.plan()?;
    let overlays = options.overlays()?;
    let mut outputs = Outputs::open(&options.files)?;
    let warnings = plan.check().map_err(failure)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    options.report_to.check()?;
    let stop = interrupt::listen()?;
    let mut terminal = Terminal::new(quiet, outputs.takes_stdout(), outputs.csv.take());
    terminal.begin(&plan);
    let outcome = run::run(&plan, &mut terminal, &stop);
    terminal.end();
    let report = outcome.map_err(failure)?;
    terminal.conclude(&report);
    let runs: Vec<&Report> = std::iter::once(&report).chain(&overlays).collect();
    // The CSV rows were written as the steps ended.
    outputs.write(|| report.to_json(), String::new, || svg::draw(&runs))?;
    terminal.into_result()?;
    options.report_to.send(&report)?;
    if interrupt::is_stopped(&stop) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let misses: Vec<_> = options
        .fail_if
        .iter()
        .flat_map(|threshold| threshold.misses(&report.steps))
        .collect();
    for miss in &misses {
        eprintln!("glassline: --fail-if {miss}");
    }
    Ok(if misses.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(THRESHOLD_MISSED)
    })
}

/// Exit code by fault: settings that cannot work are the user's, everything else is the run's.
fn failure(error: Error) -> Failure {
    match error {
        Error::Descriptors { .. } | Error::Server(_) | Error::Trouble(_) => Failure::usage(error),
        error => Failure::runtime(error),
    }
}

impl Options {
    fn plan(&self) -> Result<Plan, Failure> {
        let mut endpoint = Endpoint::parse(&self.url).map_err(Failure::usage)?;
        if let Some(wanted) = self.transport {
            let secure = endpoint.is_secure();
            match &mut endpoint {
                Endpoint::Rtsp { .. } if secure && !matches!(wanted, Transport::Tcp) => {
                    let text = "--transport udp and http are for rtsp:// only; rtsps:// sends everything inside TLS";
                    return Err(Failure::usage(text));
                }
                Endpoint::Rtsp { transport, .. } => {
                    *transport = match wanted {
                        Transport::Tcp => RtspTransport::Tcp,
                        Transport::Udp => RtspTransport::Udp,
                        Transport::Http => RtspTransport::Http,
                    };
                }
                Endpoint::Whep { transport, .. } => {
                    *transport = match wanted {
                        Transport::Tcp => IceTransport::Tcp,
                        Transport::Udp => IceTransport::Udp,
                        Transport::Http => {
                            let text = "--transport http is for rtsp:// only; WHEP has udp and tcp";
                            return Err(Failure::usage(text));
                        }
                    };
                }
                Endpoint::DoSignaling(_) | Endpoint::Hls(_) => {
                    let text = "--transport is for rtsp:// and WHEP only";
                    return Err(Failure::usage(text));
                }
            }
        }
        let needs_server = self
            .fail_if
            .iter()
            .find(|threshold| threshold.needs_server());
        if let (Some(threshold), None) = (needs_server, self.server_pid) {
            let text =
                format!("--fail-if {threshold} is a figure of the server: give its --server-pid");
            return Err(Failure::Usage(text));
        }
        Ok(Plan {
            endpoint,
            ramp: self.ramp,
            every: self.every,
            hold: self.hold,
            cpu_max_percent: self.max_cpu,
            server: self.server_pid,
            verify: self.verify,
            bad_percent: self.bad_clients,
            trouble: self.trouble(),
            reports: self.reports,
            describe_probe: self.describe_probe,
            token: self.token.clone(),
            gro: self.gro,
            trust: if self.insecure {
                Trust::Anyone
            } else {
                Trust::System
            },
            floor: self.floor.as_deref().map(floor_source),
            label: self.label.clone(),
        })
    }

    fn trouble(&self) -> Trouble {
        let (slow, slow_bytes_per_second) = self.slow.unwrap_or_default();
        Trouble {
            stalled: self.stall,
            stalled_over_tcp: self.stall_tcp,
            slow,
            slow_bytes_per_second,
            tiny_window: self.tiny_window,
        }
    }

    /// Reads the reports of other runs before the load starts, so that a wrong file is found
    /// early.
    fn overlays(&self) -> Result<Vec<Report>, Failure> {
        if self.overlay.len() >= svg::RUNS_MAX {
            let text = format!("a chart has room for {} runs", svg::RUNS_MAX);
            return Err(Failure::Usage(text));
        }
        let read = |path: &PathBuf| {
            let named = |reason: &dyn std::fmt::Display| {
                Failure::usage(format_args!("--overlay {}: {reason}", path.display()))
            };
            let text = small_file::read_text_or_pipe(path, REPORT_BYTES_MAX);
            let text = text.map_err(|error| named(&error))?;
            Report::from_json(&text).map_err(|error| named(&error))
        };
        self.overlay.iter().map(read).collect()
    }
}

fn floor_source(files: &str) -> FloorSource {
    if files.is_empty() {
        FloorSource::Run
    } else {
        FloorSource::Files(files.split(',').map(PathBuf::from).collect())
    }
}

/// Parses `N:RATE`, like `1:100kB/s`, into a number of clients and bytes per second.
fn slow_clients(text: &str) -> Result<(usize, u64), String> {
    let shape = "give how many clients read how fast, like 1:100kB/s";
    let (count, rate) = text.split_once(':').ok_or(shape)?;
    let count = count.trim().parse().map_err(|_| shape)?;
    Ok((count, quantity::byte_rate(rate)?))
}

/// Parses the time that a step is measured for, from 1 s to 24 h.
fn measuring_time(text: &str) -> Result<Duration, String> {
    let time = quantity::time(text)?;
    if (MEASURING_MIN..=MEASURING_MAX).contains(&time) {
        Ok(time)
    } else {
        Err("a step is measured for a time between 1s and 24h".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    fn parse(flags: &[&str]) -> Options {
        test_flags::parse(flags).expect("flags that clap takes")
    }

    fn plan(flags: &[&str]) -> Plan {
        parse(flags).plan().expect("a plan")
    }

    const WHEP: &str = "http://127.0.0.1:8889/demo/whep";

    #[test]
    fn the_defaults_are_a_gentle_ramp() {
        let plan = plan(&[WHEP]);
        assert_eq!(plan.ramp.steps(), [25, 50, 75, 100]);
        assert_eq!((plan.every.as_secs(), plan.hold.as_secs()), (5, 10));
        assert_eq!(
            (plan.verify, plan.bad_percent, plan.cpu_max_percent),
            (5, 0.0, 90.0)
        );
        assert!(!plan.gro && plan.floor.is_none() && plan.server.is_none());
    }

    #[test]
    fn the_flags_reach_the_plan() {
        let plan = plan(&[
            "rtsp://h/s",
            "--ramp",
            "0:6:3",
            "--every",
            "1500ms",
            "--hold",
            "2m",
            "--verify",
            "0",
            "--bad-clients",
            "20%",
            "--transport",
            "udp",
            "--gro",
            "--insecure",
            "--floor",
            "--label",
            "me",
            "--max-cpu",
            "100",
            "--server-pid",
            "7",
            "--stall",
            "2",
            "--stall-tcp",
            "5",
            "--slow",
            "3:100kB/s",
            "--tiny-window",
            "4",
            "--describe-probe",
        ]);
        let trouble = Trouble {
            stalled: 2,
            stalled_over_tcp: 5,
            slow: 3,
            slow_bytes_per_second: 100_000,
            tiny_window: 4,
        };
        assert_eq!((plan.trouble, plan.describe_probe), (trouble, true));
        assert_eq!((plan.protocol(), plan.trust), ("rtsp/udp", Trust::Anyone));
        assert_eq!(plan.every, Duration::from_millis(1500));
        assert_eq!(plan.hold, Duration::from_secs(120));
        assert_eq!((plan.verify, plan.bad_percent), (0, 20.0));
        assert_eq!(plan.floor, Some(FloorSource::Run));
        assert_eq!((plan.server, plan.label.as_deref()), (Some(7), Some("me")));
        let files = parse(&[WHEP, "--floor=a.h264,b.ogg"])
            .plan()
            .expect("a plan");
        let wanted = ["a.h264", "b.ogg"].map(PathBuf::from).to_vec();
        assert_eq!(files.floor, Some(FloorSource::Files(wanted)));
    }

    #[test]
    fn what_clap_refuses_says_why() {
        let cases: [(&[&str], &str); 12] = [
            (&[WHEP, "--slow", "100kB/s"], "like 1:100kB/s"),
            (&[WHEP, "--slow", "1:100"], "like 100kB/s"),
            (&[], "URL"),
            (&[WHEP, "--ramp", "9:1:1"], "goes up"),
            (&[WHEP, "--every", "fast"], "a time like 5s"),
            (&[WHEP, "--every", "10ms"], "between 1s"),
            (&[WHEP, "--every", "-5s"], ""),
            (&[WHEP, "--bad-clients", "120%"], "0 to 100"),
            (&[WHEP, "--fail-if", "speed>1"], "there is no figure"),
            (&[WHEP, "--overlay", "x.json"], "--svg"),
            (&[WHEP, "--transport", "sctp"], "sctp"),
            (&[WHEP, "--report-to", "http://h:9997"], "--server-pid"),
        ];
        for (flags, wanted) in cases {
            let parsed: Result<Options, String> = test_flags::parse(flags);
            let error = parsed.expect_err("a usage error");
            assert!(error.contains(wanted), "{flags:?}: {error}");
        }
    }

    #[test]
    fn what_fits_clap_but_not_together_is_a_usage_error() {
        let cases: [(&[&str], &str); 5] = [
            (&[WHEP, "--transport", "http"], "rtsp:// only"),
            (&["rtsps://h/x", "--transport", "http"], "inside TLS"),
            (&[WHEP, "--fail-if", "cpu>35%"], "--server-pid"),
            (&["ftp://h/x"], "ftp"),
            (&["nonsense"], "nonsense"),
        ];
        for (flags, wanted) in cases {
            match parse(flags).plan() {
                Err(Failure::Usage(text)) => assert!(text.contains(wanted), "{flags:?}: {text}"),
                other => panic!("{flags:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn an_overlay_that_is_none_is_named() {
        let options = parse(&[WHEP, "--svg", "x.svg", "--overlay", "/nowhere/a.json"]);
        let Err(Failure::Usage(text)) = options.overlays() else {
            panic!("it is not there");
        };
        assert!(text.contains("/nowhere/a.json"), "{text}");
    }

    #[test]
    fn a_step_is_watched_for_a_second_at_least() {
        assert_eq!(measuring_time("0.5m"), Ok(Duration::from_secs(30)));
        for text in ["999ms", "25h", "x"] {
            assert!(measuring_time(text).is_err(), "{text}");
        }
    }
}
