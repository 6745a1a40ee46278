//! `cargo xtask bench-peers --data`: bulk transfer over one data channel, with Glassline and
//! other implementations.
//!
//! ```text
//! sender process ─ UDP over loopback, DTLS, SCTP ─► receiver process    each with itself
//! glassline bench data serve ◄──────────────────► Chromium              cost of a browser
//! ```
//!
//! Runs follow each other, with the same implementation at both ends; messages of 64 KiB, ordered
//! and reliable. Processor time is each process's own, including kernel time; that of a browser
//! includes all its processes.

mod browser;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::document;
use super::place::Cores;
use super::running::{self, Running};
use crate::{install, process, versions};

const BEGIN: &str = "<!-- written by `cargo xtask bench-peers --data`: begin -->";
const END: &str = "<!-- written by `cargo xtask bench-peers --data`: end -->";

/// Message size that browsers and peers accept and that their own tests use.
const MESSAGE_BYTES: usize = 64 << 10;

/// Time in addition to the measured seconds: start, connecting, goodbyes.
const MARGIN: Duration = Duration::from_secs(40);

/// Implementations that are compared, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pairing {
    Pion,
    Libdatachannel,
    Chromium,
    Ours,
    ToChromium,
    FromChromium,
}

/// Speed and cost of a run; `None` for unknown figures.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Goodput {
    mbps: f64,
    /// Processor seconds per gigabit of the sender.
    sender: Option<f64>,
    receiver: Option<f64>,
    /// Processor seconds per gigabit of both ends, where they share processes.
    both: Option<f64>,
}

/// Figures that a peer's program prints.
struct PeerFigures {
    bytes: f64,
    seconds: f64,
    cpu_s: f64,
}

/// Folders of reports and logs, and the parameters of the measurement.
struct Bench {
    folder: PathBuf,
    glassline: PathBuf,
    hold: Duration,
}

/// Compares the implementations; prints a table, writes `data.json` and, with `writes`, the table
/// into docs/benchmarks/data-channels.md.
pub(super) fn run(
    hold: Duration,
    writes: bool,
    binary: Option<&Path>,
    circumstances: &str,
) -> Result<(), String> {
    if binary.is_none() {
        let build = ["build", "--release", "--package", "glassline"];
        process::run(&mut process::cargo(&build))?;
    }
    let built = process::target_directory().join("release/glassline");
    let folder = process::target_directory().join("bench/peers");
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let bench = Bench {
        folder,
        glassline: binary.map_or(built, Path::to_owned),
        hold,
    };
    let mut outcomes = Vec::new();
    for way in Pairing::ALL {
        println!("\n-- {}", way.name());
        let outcome = way.prepare().and_then(|()| bench.measure(way));
        match &outcome {
            Ok(goodput) => println!("{goodput:?}"),
            Err(reason) => println!("skipped {}: {reason}", way.name()),
        }
        outcomes.push((way, outcome));
    }
    let rows = table(&outcomes);
    println!("\n{}", document::aligned(&rows));
    let report = outcomes
        .iter()
        .map(|(way, outcome)| described(*way, outcome));
    let report: Vec<Value> = report.collect();
    write(
        &bench.folder.join("data.json"),
        &format!("{:#}\n", json!(report)),
    )?;
    if !writes {
        return Ok(());
    }
    let path = process::root().join("docs/benchmarks/data-channels.md");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let section = format!("{circumstances}{}{}", head(hold), document::markdown(&rows));
    let text = document::replaced_between([BEGIN, END], &text, &section)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    write(&path, &text)?;
    println!("written: {}", path.display());
    Ok(())
}

fn write(path: &Path, text: &str) -> Result<(), String> {
    fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))
}

fn head(hold: Duration) -> String {
    let version = |peer: &str, key: &str| versions::of(peer, key).unwrap_or_default();
    let browser = process::output_of(Command::new("chromium").arg("--version"));
    let browser = browser.unwrap_or_else(|| "Chromium".to_owned());
    format!(
        "Pion {} (8 MiB receive buffer, zero checksum, water marks 8 and 2 MiB), libdatachannel by \
         node-datachannel {}, {}. One ordered channel, messages of {} KiB, {} s after a second of \
         warming up; both ends on this machine, a process each; both of Chromium's in one page.\n\n",
        version("pion", "version"),
        version("libdatachannel", "version"),
        browser.split(" built").next().unwrap_or_default().trim(),
        MESSAGE_BYTES >> 10,
        hold.as_secs(),
    )
}

impl Pairing {
    const ALL: [Pairing; 6] = [
        Pairing::Pion,
        Pairing::Libdatachannel,
        Pairing::Chromium,
        Pairing::Ours,
        Pairing::ToChromium,
        Pairing::FromChromium,
    ];

    fn name(self) -> &'static str {
        match self {
            Pairing::Pion => "Pion",
            Pairing::Libdatachannel => "libdatachannel",
            Pairing::Chromium => "Chromium",
            Pairing::Ours => "Glassline",
            Pairing::ToChromium => "Glassline → Chromium",
            Pairing::FromChromium => "Chromium → Glassline",
        }
    }

    fn prepare(self) -> Result<(), String> {
        match self {
            Pairing::Pion => install::go_peers(),
            Pairing::Libdatachannel => install::libdatachannel().map(drop),
            Pairing::Chromium | Pairing::ToChromium | Pairing::FromChromium => {
                install::peer("Chromium")
            }
            Pairing::Ours => Ok(()),
        }
    }
}

impl Bench {
    fn measure(&self, way: Pairing) -> Result<Goodput, String> {
        match way {
            Pairing::Pion => self.pair("pion", || Ok(Command::new(install::go_peer("goodput")))),
            Pairing::Libdatachannel => self.pair("libdatachannel", || {
                let modules = install::libdatachannel()?;
                let mut command = Command::new("env");
                command.arg(format!("NODE_PATH={}", modules.display()));
                command
                    .arg("node")
                    .arg(install::peers_folder().join("goodput.js"));
                Ok(command)
            }),
            Pairing::Ours => self.ours(),
            Pairing::Chromium => browser::with_itself(self),
            Pairing::ToChromium => browser::with_ours(self, "down"),
            Pairing::FromChromium => browser::with_ours(self, "up"),
        }
    }

    /// Runs two processes of a peer's program, and exchanges their descriptions.
    fn pair(
        &self,
        name: &str,
        program: impl Fn() -> Result<Command, String>,
    ) -> Result<Goodput, String> {
        let seconds = self.hold.as_secs().to_string();
        let start = |role: &str| {
            let folder = self.folder.join(format!("{name}-{role}"));
            // Files of an earlier run.
            let _ = fs::remove_dir_all(&folder);
            fs::create_dir_all(&folder)
                .map_err(|error| format!("{}: {error}", folder.display()))?;
            let mut command = program()?;
            command.arg(&folder).args([role, &seconds]);
            command.arg(MESSAGE_BYTES.to_string());
            let log = self.folder.join(format!("data-{name}-{role}.log"));
            Running::start(&command, &Cores::any(), &log).map(|it| (it, folder))
        };
        let (sender, offers) = start("send")?;
        let (receiver, answers) = start("receive")?;
        carry(&offers, &answers)?;
        carry(&answers, &offers)?;
        let told = |end: &Running| PeerFigures::parse(&end.wait_for("{", self.patience())?);
        let (received, sent) = (told(&receiver)?, told(&sender)?);
        Ok(Goodput {
            mbps: received.bytes * 8e-6 / received.seconds,
            sender: Some(sent.cost()),
            receiver: Some(received.cost()),
            both: None,
        })
    }

    /// Runs a server and a client of ours.
    fn ours(&self) -> Result<Goodput, String> {
        let (_serving, url) = self.serve(None)?;
        let report = self.folder.join("data-glassline.json");
        // A report of an earlier run must not be read as this run's.
        let _ = fs::remove_file(&report);
        let mut client = Command::new(&self.glassline);
        client.args(["bench", "data", &url, "--quiet", "--time"]);
        client.arg(format!("{}s", self.hold.as_secs()));
        client.args(["--message-size", &MESSAGE_BYTES.to_string(), "--json"]);
        client.arg(&report);
        running::run_in_view(&client, &Cores::any(), self.patience())?;
        let text = fs::read_to_string(&report)
            .map_err(|error| format!("{}: {error}", report.display()))?;
        measured(&text)
    }

    /// Starts `bench data serve`; returns its URL. Reports go to `json`, one per line.
    fn serve(&self, json: Option<&Path>) -> Result<(Running, String), String> {
        let mut command = Command::new(&self.glassline);
        command.args(["bench", "data", "serve", "--listen", "127.0.0.1:0"]);
        if let Some(json) = json {
            command.arg("--json").arg(json);
        }
        let log = self.folder.join("data-serve.log");
        let running = Running::start(&command, &Cores::any(), &log)?;
        let rest = running.wait_for("http://", self.patience())?;
        Ok((running, format!("http://{rest}")))
    }

    fn patience(&self) -> Duration {
        self.hold + MARGIN
    }
}

/// Parses the report of `bench data --json`.
fn measured(text: &str) -> Result<Goodput, String> {
    let report: Value = serde_json::from_str(text).map_err(|error| format!("{error}: {text}"))?;
    let mbps = report["goodput_mbps"].as_f64();
    let cost = &report["cpu_s_per_gbit"];
    Ok(Goodput {
        mbps: mbps.ok_or_else(|| format!("no goodput in {text}"))?,
        sender: cost["sender"].as_f64(),
        receiver: cost["receiver"].as_f64(),
        both: None,
    })
}

/// Copies one end's description to the other, as soon as it exists.
fn carry(from: &Path, to: &Path) -> Result<(), String> {
    let source = from.join("local.sdp");
    let deadline = Instant::now() + MARGIN;
    while !source.is_file() {
        if Instant::now() > deadline {
            return Err(format!("there is no {}", source.display()));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let part = to.join("remote.part");
    fs::copy(&source, &part)
        .and_then(|_| fs::rename(&part, to.join("remote.sdp")))
        .map_err(|error| format!("{}: {error}", part.display()))
}

impl PeerFigures {
    /// Parses the figures after the first brace of a line.
    fn parse(rest: &str) -> Result<PeerFigures, String> {
        let text = format!("{{{rest}");
        let value: Value = serde_json::from_str(&text).map_err(|it| format!("{it}: {text}"))?;
        let field = |name: &str| {
            let found = value[name].as_f64();
            found.ok_or_else(|| format!("no `{name}` in {text}"))
        };
        Ok(PeerFigures {
            bytes: field("bytes")?,
            seconds: field("seconds")?,
            cpu_s: field("cpu_s")?,
        })
    }

    fn cost(&self) -> f64 {
        self.cpu_s / (self.bytes * 8e-9)
    }
}

fn described(way: Pairing, outcome: &Result<Goodput, String>) -> Value {
    match outcome {
        Err(reason) => json!({"way": way.name(), "skipped": reason}),
        Ok(it) => json!({
            "way": way.name(),
            "goodput_mbps": it.mbps,
            "cpu_s_per_gbit": {
                "sender": it.sender, "receiver": it.receiver, "both": it.both,
            },
        }),
    }
}

fn table(outcomes: &[(Pairing, Result<Goodput, String>)]) -> Vec<Vec<String>> {
    let heads = [
        "from → to",
        "Mbit/s",
        "CPU s/Gbit sending",
        "receiving",
        "Glassline's goodput, times",
        "its CPU, a part of",
    ];
    let ours = outcomes.iter().find(|it| it.0 == Pairing::Ours);
    let ours = ours.and_then(|it| it.1.as_ref().ok());
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    for (way, outcome) in outcomes {
        let mut row = vec![way.name().to_owned()];
        match outcome {
            Ok(found) => row.extend(cells(*way, found, ours)),
            Err(reason) => {
                row.push(reason.lines().next().unwrap_or_default().to_owned());
                row.resize(heads.len(), String::new());
            }
        }
        rows.push(row);
    }
    rows
}

fn cells(way: Pairing, found: &Goodput, ours: Option<&Goodput>) -> [String; 5] {
    let figure = |value: Option<f64>| {
        let text = value.map(|value| format!("{value:.3}"));
        text.unwrap_or_else(|| "–".to_owned())
    };
    let compared = ours.filter(|_| {
        matches!(
            way,
            Pairing::Pion | Pairing::Libdatachannel | Pairing::Chromium
        )
    });
    let ratio = |value: Option<f64>| {
        let text = value.map(|value| format!("{value:.1}"));
        text.unwrap_or_else(|| "–".to_owned())
    };
    let all = |it: &Goodput| it.both.or_else(|| Some(it.sender? + it.receiver?));
    let sending = match found.both {
        Some(both) => format!("{both:.3} both"),
        None => figure(found.sender),
    };
    [
        format!("{:.0}", found.mbps),
        sending,
        figure(found.receiver),
        ratio(compared.map(|ours| ours.mbps / found.mbps)),
        match compared.and_then(|ours| Some(all(found)? / all(ours)?)) {
            Some(times) => format!("1/{times:.1}"),
            None => "–".to_owned(),
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_programs_print_is_read() {
        let told = PeerFigures::parse("\"bytes\":125000000,\"seconds\":2.0,\"cpu_s\":1.5}");
        let told = told.expect("an object");
        assert!((told.cost() - 1.5).abs() < 1e-9);
        assert!(PeerFigures::parse("\"bytes\":1}").is_err());
        assert!(PeerFigures::parse("panic").is_err());
    }

    #[test]
    fn a_report_of_ours_with_a_browser_knows_one_side() {
        let text =
            r#"{"goodput_mbps": 160.5, "cpu_s_per_gbit": {"sender": 0.2, "receiver": null}}"#;
        let found = measured(text).expect("a report");
        assert_eq!((found.sender, found.receiver), (Some(0.2), None));
        assert!(measured("{}").is_err());
    }

    #[test]
    fn ratios_are_to_ours_and_of_makes_with_themselves() {
        let of = |mbps, sender, receiver| {
            Ok(Goodput {
                mbps,
                sender: Some(sender),
                receiver: Some(receiver),
                both: None,
            })
        };
        let rows = table(&[
            (Pairing::Pion, of(400.0, 2.0, 1.0)),
            (Pairing::Libdatachannel, Err("no node".to_owned())),
            (Pairing::Ours, of(6000.0, 0.15, 0.15)),
            (Pairing::ToChromium, of(160.0, 0.2, 0.0)),
        ]);
        assert_eq!(rows[1][4..], ["15.0", "1/10.0"]);
        assert_eq!(rows[2][1], "no node");
        assert_eq!(rows[4][4..], ["–", "–"]);
        assert!(rows.iter().all(|row| row.len() == rows[0].len()));
    }
}
