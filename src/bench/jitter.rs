//! Flags of `bench jitter`, and the writing of its report.

use std::io::ErrorKind;
use std::path::Path;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use glassline_lab::condition::Condition;
use glassline_lab::jitter::report::svg;
use glassline_lab::jitter::{Comparison, ComparisonResult, Ours, Pace, Stream};
use glassline_runtime::small_file;
use glassline_sim::{Delays, Family};
use serde::Serialize;

use super::files::{OutputPaths, Outputs};
use super::jitter_quality::{Judgement, QualityOptions};
use super::{interrupt, quantity, terminal};
use crate::exit::{Failure, INTERRUPTED, THRESHOLD_MISSED};

/// Most traces of one run of --quality.
const TRACES_MAX: usize = 100;

/// Largest trace file that is read, in bytes.
const TRACE_BYTES_MAX: u64 = 100 << 20;

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// File of delays, or a family (ar98, ar90, mixed, iid, clean, spikes) with a seed or not, as
    /// ar98:7. Several with --quality.
    #[arg(value_name = "FILE|FAMILY[:SEED]", required = true, num_args = 1..=TRACES_MAX)]
    traces: Vec<String>,
    /// Number of packets to draw from a family.
    #[arg(long, default_value_t = 30_000, value_name = "N", value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    packets: u32,
    /// Duration of each packet's audio.
    #[arg(long, default_value = "20ms", value_name = "TIME", value_parser = packet_time)]
    interval: Duration,
    /// Time between two pulls of the sound device; for our buffer only.
    #[arg(long, default_value = "2.5ms", value_name = "TIME", value_parser = pull_time)]
    pull: Duration,
    /// Further share of lost packets.
    #[arg(long, default_value = "0%", value_name = "PERCENT", value_parser = quantity::percentage)]
    loss: f64,
    /// Pace of our buffer: swift waits least, steady changes the audio least, even is between.
    #[arg(long, default_value = "even", value_name = "swift|even|steady", value_parser = Pace::from_str)]
    pace: Pace,
    /// Largest share of time that our buffer conceals late packets.
    #[arg(long, default_value = "0.055%", value_name = "PERCENT", value_parser = late_share)]
    late_share: f64,
    /// Let the speaker never pause.
    #[arg(long)]
    no_pauses: bool,
    #[command(flatten)]
    quality: QualityOptions,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    files: OutputPaths,
    /// Exit with 3 if a figure of the JSON report meets this condition, as wait_ms.mean>30.
    /// Repeatable.
    #[arg(long, value_name = "PATH>VALUE")]
    fail_if: Vec<Condition>,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    if options.quality.is_wanted() {
        return judge(options, quiet);
    }
    let [trace] = options.traces.as_slice() else {
        return Err(Failure::usage("several traces need --quality"));
    };
    let delays = options.delays(trace)?;
    let mut outputs = Outputs::open(&options.files)?;
    let stop = interrupt::listen()?;
    let comparison = options.comparison(trace, &delays);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.map_or(cores, usize::from);
    let bar = terminal::bar(quiet);
    let found = comparison.run(jobs, &stop, |done, all| {
        terminal::show_runs(bar.as_ref(), done, all);
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let Some((report, timelines)): Option<ComparisonResult> = found else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if !quiet {
        outputs.print(|color| report.to_table(color))?;
    }
    outputs.write(
        || report.to_json(),
        || report.to_csv(),
        || svg::draw(&report, &timelines),
    )?;
    Ok(options.exit_code(&report))
}

/// Runs `--quality`.
fn judge(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let traces = options.traces.iter();
    let traces = traces.map(|trace| Ok((trace.as_str(), options.delays(trace)?)));
    let traces = traces.collect::<Result<Vec<_>, Failure>>()?;
    let mut outputs = Outputs::open(&options.files)?;
    let stop = interrupt::listen()?;
    let judgement = Judgement {
        traces: &traces,
        interval: options.interval,
        ours: options.ours(),
        options: &options.quality,
    };
    let bar = terminal::bar(quiet);
    let found = judgement.run(&stop, |done, all, what| {
        if let Some(bar) = &bar {
            bar.set_length(all as u64);
            bar.set_position(done as u64);
            bar.set_message(what.to_owned());
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    let Some(report) = found? else {
        return Ok(ExitCode::from(INTERRUPTED));
    };
    if !quiet {
        outputs.print(|color| report.to_table(color))?;
    }
    outputs.write(|| report.to_json(), || report.to_csv(), || report.to_svg())?;
    Ok(options.exit_code(&report))
}

impl Options {
    /// Prints the conditions that `report` meets.
    fn exit_code(&self, report: &impl Serialize) -> ExitCode {
        let misses = self.fail_if.iter().filter_map(|it| it.miss(report));
        let misses: Vec<String> = misses.collect();
        for miss in &misses {
            eprintln!("{miss}");
        }
        match misses.as_slice() {
            [] => ExitCode::SUCCESS,
            _ => ExitCode::from(THRESHOLD_MISSED),
        }
    }

    /// Delays of a trace that was asked for. The name of a family comes before a file of the
    /// same name; `./ar98` is the file.
    fn delays(&self, trace: &str) -> Result<Delays, Failure> {
        let (name, seed) = match trace.split_once(':') {
            Some((name, seed)) => (name, seed.parse::<u64>().ok()),
            None => (trace, Some(1)),
        };
        let delays = match (name.parse::<Family>(), seed) {
            (Ok(family), Some(seed)) => {
                Delays::of_family(family, seed, self.packets as usize, self.interval)
            }
            (Ok(family), None) => {
                return Err(Failure::usage(format_args!(
                    "'{trace}': give the seed as a number, like {family}:7"
                )));
            }
            (Err(unknown), _) => file(trace, &unknown)?,
        };
        let seed = seed.unwrap_or(1);
        Ok(match self.loss {
            0.0 => delays,
            percent => delays.losing(percent / 100.0, seed),
        })
    }

    fn ours(&self) -> Ours {
        let mut ours = Ours {
            pull: self.pull,
            has_pauses: !self.no_pauses,
            ..Ours::default()
        };
        ours.config.pace = self.pace;
        ours.config.late_share = self.late_share;
        ours
    }

    fn comparison<'a>(&self, trace: &str, delays: &'a Delays) -> Comparison<'a> {
        Comparison {
            trace: trace.to_owned(),
            stream: Stream {
                delays,
                interval: self.interval,
            },
            ours: self.ours(),
            has_curves: self.files.svg.is_some(),
        }
    }
}

/// Reads a file of delays; `unknown` says why `trace` is no family.
fn file(trace: &str, unknown: &dyn std::fmt::Display) -> Result<Delays, Failure> {
    let path = Path::new(trace);
    let text = small_file::read_text_or_pipe(path, TRACE_BYTES_MAX).map_err(|error| {
        let named = format_args!("{}: {error}", path.display()).to_string();
        match error.kind() {
            ErrorKind::NotFound => Failure::usage(format_args!("{named}; {unknown}")),
            ErrorKind::InvalidData => Failure::usage(format_args!(
                "{named}; a trace is a text of at most 100 MiB"
            )),
            _ => Failure::runtime(named),
        }
    })?;
    Delays::parse(&text)
        .map_err(|error| Failure::usage(format_args!("{}: {error}", path.display())))
}

fn packet_time(text: &str) -> Result<Duration, String> {
    within(text, 2.5..=120.0, "a packet lasts 2.5ms to 120ms")
}

fn pull_time(text: &str) -> Result<Duration, String> {
    within(text, 2.5..=40.0, "a device pulls every 2.5ms to 40ms")
}

fn within(
    text: &str,
    range: std::ops::RangeInclusive<f64>,
    wrong: &str,
) -> Result<Duration, String> {
    let time = quantity::time(text)?;
    match range.contains(&(time.as_secs_f64() * 1e3)) {
        true => Ok(time),
        false => Err(wrong.to_owned()),
    }
}

/// Parses a percentage of at most 10 % into a ratio.
fn late_share(text: &str) -> Result<f64, String> {
    match quantity::percentage(text)? / 100.0 {
        share if share <= 0.1 => Ok(share),
        _ => Err("at most 10%".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    fn delays(flags: &[&str]) -> Result<(Delays, Options), String> {
        let options: Options = test_flags::parse(flags)?;
        let delays = options.delays(&options.traces[0]);
        let delays = delays.map_err(|failure| failure.to_string())?;
        Ok((delays, options))
    }

    #[test]
    fn a_family_needs_no_more_than_its_name() {
        let (first, options) = delays(&["ar98"]).expect("a family");
        assert_eq!(first.packets().len(), 30_000);
        assert_eq!(options.ours().pull.as_micros(), 2_500);
        let (same, _) = delays(&["ar98:1"]).expect("with its seed");
        let (other, _) = delays(&["ar98:2", "--loss", "1%"]).expect("another");
        assert_eq!(first, same);
        assert_ne!(first, other);
        let lost = other.packets().iter().filter(|it| it.is_none()).count();
        assert!((200..400).contains(&lost), "{lost}");
    }

    #[test]
    fn the_default_share_is_the_buffers_own() {
        let (_, options) = delays(&["clean"]).expect("a family");
        assert_eq!(options.ours().config, Ours::default().config);
    }

    #[test]
    fn several_traces_are_played_with_quality_only() {
        let options: Options = test_flags::parse(&["ar98:1", "mixed:2"]).expect("flags");
        assert_eq!(options.traces, ["ar98:1", "mixed:2"]);
        let failure = run(&options, true).expect_err("one table shows one trace");
        assert!(failure.to_string().contains("--quality"), "{failure}");
        let options = ["ar98:1", "nowhere:2", "--quality"];
        let options: Options = test_flags::parse(&options).expect("flags");
        let failure = run(&options, true).expect_err("there is no such trace");
        assert!(failure.to_string().contains("nowhere:2"), "{failure}");
    }

    #[test]
    fn what_cannot_be_run_is_named() {
        let cases: [(&[&str], &str); 10] = [
            (&[], "FILE|FAMILY"),
            (&["clean", "--python", "python3"], "--quality"),
            (&["clean", "--quality", "--coding", "g711"], "voip"),
            (&["ar99"], "choose one of ar98"),
            (&["ar98:x"], "ar98:7"),
            (&["clean", "--pull", "1ms"], "every 2.5ms"),
            (&["clean", "--interval", "1s"], "2.5ms to 120ms"),
            (&["clean", "--loss", "101%"], "percentage"),
            (&["clean", "--late-share", "20%"], "at most 10%"),
            (&["clean", "--fail-if", "wait"], "is no condition"),
        ];
        for (flags, reason) in cases {
            let error = delays(flags).expect_err("wrong flags");
            assert!(error.contains(reason), "{flags:?}: {error}");
        }
    }
}
