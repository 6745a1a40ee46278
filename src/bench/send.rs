//! Flags of `bench send`, and the writing of its report.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use glassline_lab::send::{self, Experiment, Method, Position, Report, Watcher};
use indicatif::ProgressBar;

use super::files::{OutputPaths, Outputs};
use super::{interrupt, quantity, terminal};
use crate::exit::{Failure, INTERRUPTED};

#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Number of connections.
    #[arg(long, default_value_t = 100, value_name = "N")]
    clients: usize,
    /// Bitrate that each client is sent.
    #[arg(long, default_value = "3M", value_name = "BITS", value_parser = quantity::bitrate)]
    bitrate: u64,
    /// Frame rate of the stream, in frames per second.
    #[arg(long, default_value_t = 30, value_name = "N")]
    fps: u32,
    /// Bytes of a packet with its interleaving header.
    #[arg(long, default_value_t = 1140, value_name = "BYTES")]
    packet: usize,
    /// Time of each method in each round.
    #[arg(long, default_value = "2s", value_name = "TIME", value_parser = turn_time)]
    duration: Duration,
    /// Number of rounds; medians are shown.
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1000))]
    rounds: u16,
    /// Methods to measure, in this order [default: all].
    #[arg(long, value_name = "A,B,…", value_delimiter = ',')]
    methods: Vec<Method>,
    #[command(flatten)]
    files: OutputPaths,
}

pub(crate) fn run(options: &Options, quiet: bool) -> Result<ExitCode, Failure> {
    let experiment = options.experiment();
    experiment.check().map_err(Failure::usage)?;
    let mut outputs = Outputs::open(&options.files)?;
    let stop = interrupt::listen()?;
    let mut progress = Progress::new(quiet);
    let outcome = send::run(&experiment, &mut progress, &stop);
    progress.end();
    let report = outcome.map_err(Failure::runtime)?;
    if !quiet {
        outputs.print(|_| text(&report))?;
    }
    outputs.write(
        || report.to_json(),
        || report.to_csv(),
        || send::draw(&report),
    )?;
    Ok(if interrupt::is_stopped(&stop) {
        ExitCode::from(INTERRUPTED)
    } else {
        ExitCode::SUCCESS
    })
}

/// The table, then one sentence for each method.
fn text(report: &Report) -> String {
    let lines = report.methods.iter().map(send::line);
    let verdicts = report.methods.iter().map(|figures| {
        format!(
            "{} ({}): {}",
            figures.method, figures.description, figures.verdict
        )
    });
    let lines: Vec<String> = std::iter::once(send::head(report)).chain(lines).collect();
    let verdicts: Vec<String> = verdicts.collect();
    format!("{}\n\n{}\n", lines.join("\n"), verdicts.join("\n"))
}

/// Parses the time that a method is measured for, from 100 ms (a few frames) to 1 h.
fn turn_time(text: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(3600);
    let time = quantity::time(text)?;
    if range.contains(&time) {
        Ok(time)
    } else {
        Err("a method is measured for a time between 100ms and 1h".to_owned())
    }
}

impl Options {
    fn experiment(&self) -> Experiment {
        let methods = match self.methods.as_slice() {
            [] => Method::ALL.to_vec(),
            some => some.to_vec(),
        };
        Experiment {
            clients: self.clients,
            bitrate_bps: self.bitrate,
            fps: self.fps,
            packet_bytes: self.packet,
            duration: self.duration,
            rounds: self.rounds.into(),
            methods,
        }
    }
}

/// Progress bar on stderr; `None` where stderr is no terminal.
struct Progress(Option<ProgressBar>);

impl Progress {
    fn new(quiet: bool) -> Self {
        Self(terminal::bar(quiet))
    }

    fn end(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

impl Watcher for Progress {
    fn begins(&mut self, method: Method, turn: Position) {
        let Some(bar) = &self.0 else { return };
        bar.set_length(turn.all as u64);
        bar.set_position(turn.done as u64);
        let left = turn.takes.as_secs() * (turn.all - turn.done) as u64;
        bar.set_message(format!(
            "{method}, round {}, about {}:{:02} left",
            turn.round + 1,
            left / 60,
            left % 60
        ));
    }

    fn skipped(&mut self, method: Method, reason: &str) {
        let say = || tracing::warn!("{method} is not measured: {reason}");
        match &self.0 {
            Some(bar) => bar.suspend(say),
            None => say(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_flags;

    fn parse(flags: &[&str]) -> Result<Experiment, String> {
        test_flags::parse(flags).map(|options: Options| options.experiment())
    }

    #[test]
    fn the_defaults_are_the_stream_of_the_reference() {
        let experiment = parse(&[]).expect("defaults");
        experiment.check().expect("it fits every machine");
        assert_eq!(
            (experiment.clients, experiment.packets_per_frame()),
            (100, 11)
        );
        assert_eq!(experiment.methods, Method::ALL);
    }

    #[test]
    fn methods_are_chosen_by_name_and_quantities_have_units() {
        let flags = [
            "--methods",
            "send-frame,cork",
            "--bitrate",
            "500k",
            "--duration",
            "250ms",
        ];
        let experiment = parse(&flags).expect("flags that clap takes");
        assert_eq!(experiment.methods, [Method::SendFrame, Method::Cork]);
        assert_eq!(experiment.bitrate_bps, 500_000);
        assert_eq!(experiment.duration, Duration::from_millis(250));
        let cases: [(&[&str], &str); 4] = [
            (&["--methods", "x"], "no method to send is called 'x'"),
            (&["--duration", "1ms"], "between 100ms"),
            (&["--bitrate", "fast"], "like 3M"),
            (&["--rounds", "0"], "rounds"),
        ];
        for (flags, wanted) in cases {
            let error = parse(flags).expect_err("a usage error");
            assert!(error.contains(wanted), "{error}");
        }
    }
}
