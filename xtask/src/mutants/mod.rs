//! `cargo xtask mutants`: puts faults into the code and counts those that the tests notice.
//!
//! cargo-mutants replaces functions and operators, one at a time, and runs the tests of the crate.
//! A mutant that no test notices is a line whose result nothing holds. All mutants of a large crate
//! take hours, so a run draws a sample from a seed; the same seed draws the same mutants as long as
//! the code is the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::result_table::{Page, Table, commit, today};
use crate::{Failure, install, process};

/// Exit code if the tests of a part notice less than they have to.
const EXIT_BELOW: u8 = 3;

/// Number of mutants of a part that a run tests, unless the command line has another.
const SAMPLE: usize = 60;

/// Least percentage of mutants that the tests of a core must notice.
const CORES: u32 = 92;
/// Least percentage for the modules of the server that touch every packet.
const HOT_PATHS: u32 = 85;

/// Formatting for people who debug is no behavior.
const EXCLUDED: &str = "impl (fmt::)?Debug for";

/// A crate, or a module of one, whose tests are measured.
struct Part {
    name: &'static str,
    package: &'static str,
    /// Files of the module; `None` for the whole crate.
    files: Option<&'static str>,
    /// Least percentage of mutants that tests must notice.
    least: u32,
}

const fn core(name: &'static str, package: &'static str) -> Part {
    Part {
        name,
        package,
        files: None,
        least: CORES,
    }
}

const fn hot_path(name: &'static str, files: &'static str) -> Part {
    Part {
        name,
        package: "glassline-server",
        files: Some(files),
        least: HOT_PATHS,
    }
}

const PARTS: [Part; 15] = [
    core("hub", "glassline-hub"),
    core("media", "glassline-media"),
    core("rtp", "glassline-rtp"),
    core("rtsp", "glassline-rtsp"),
    core("demux", "glassline-demux"),
    core("webrtc", "glassline-webrtc"),
    core("sctp", "glassline-sctp"),
    core("congestion", "glassline-congestion"),
    core("voice", "glassline-voice"),
    core("sim", "glassline-sim"),
    hot_path("server/egress/webrtc", "crates/server/src/egress/webrtc/**"),
    hot_path("server/egress/rtsp", "crates/server/src/egress/rtsp/**"),
    hot_path(
        "server/sessions/shard",
        "crates/server/src/sessions/shard/**",
    ),
    hot_path("server/runtime", "crates/server/src/runtime/**"),
    hot_path(
        "server/ingest/assembler",
        "crates/server/src/ingest/assembler/**",
    ),
];

/// Table of the last runs.
pub(crate) static PAGE: Page = Page {
    name: "mutants",
    columns: &[
        "part", "mutants", "sample", "seed", "caught", "missed", "unviable", "ratio", "least",
        "date", "commit",
    ],
};

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Request {
    /// Names of parts; empty for all.
    wanted: Vec<String>,
    seed: u64,
    sample: usize,
}

impl Request {
    fn parse(arguments: &[String]) -> Result<Request, Failure> {
        let mut request = Request {
            wanted: Vec::new(),
            seed: 1,
            sample: SAMPLE,
        };
        let mut words = arguments.iter();
        while let Some(word) = words.next() {
            let mut number = || {
                let value = words.next().and_then(|value| value.parse::<u64>().ok());
                value.ok_or_else(|| Failure::usage(format!("{word} takes a whole number")))
            };
            match word.as_str() {
                "--seed" => request.seed = number()?,
                "--sample" => request.sample = usize::try_from(number()?).unwrap_or(usize::MAX),
                option if option.starts_with('-') => {
                    return Err(Failure::usage(format!("mutants takes no `{option}`")));
                }
                part if PARTS.iter().any(|it| it.name == part) => {
                    request.wanted.push(part.to_owned());
                }
                unknown => {
                    let known = PARTS.map(|it| it.name).join(", ");
                    return Err(Failure::usage(format!(
                        "no part `{unknown}`; there are: {known}"
                    )));
                }
            }
        }
        if request.sample == 0 {
            return Err(Failure::usage("--sample takes a whole number from 1"));
        }
        Ok(request)
    }
}

/// Tests a sample of the mutants of each part that `arguments` name, or of all parts.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let request = Request::parse(arguments)?;
    install::build_tools()?;
    let program = install::cargo_mutants()?;
    let mut table = Table::read(&PAGE)?;
    table.keep(&PARTS.map(|it| it.name.to_owned()));
    let mut below = Vec::new();
    for part in &PARTS {
        let is_wanted = request.wanted.iter().any(|name| name == part.name);
        if !is_wanted && !request.wanted.is_empty() {
            continue;
        }
        let result = part.measure(&program, &request)?;
        result.print(part);
        if result.per_mille().is_some_and(|it| it < 10 * part.least) {
            below.push(part.name);
        }
        table.put(result.row(part, &request));
        table.write()?;
    }
    print!("\n{}", table.text());
    if below.is_empty() {
        return Ok(());
    }
    Err(Failure {
        text: format!("tests notice too little of: {}", below.join(", ")),
        exit_code: EXIT_BELOW,
    })
}

/// How the tests took the mutants of a sample.
#[derive(Debug, Default, PartialEq, Eq)]
struct Measured {
    /// Mutants that the part has.
    all: usize,
    /// Outcome of each mutant of the sample: `caught`, `missed`, `timeout` or `unviable`.
    outcomes: BTreeMap<String, &'static str>,
}

/// Outcomes by the files of cargo-mutants that list them.
const OUTCOMES: [&str; 4] = ["caught", "missed", "timeout", "unviable"];

impl Part {
    fn measure(&self, program: &Path, request: &Request) -> Result<Measured, Failure> {
        let all = self.mutants(program)?;
        let sample = sample(&all, request.seed, request.sample);
        println!(
            "\n── {}: {} of {} mutants",
            self.name,
            sample.len(),
            all.len()
        );
        let folder = process::target_directory()
            .join("mutants")
            .join(self.name.replace('/', "-"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut command = self.command(program);
        for mutant in &sample {
            command.arg("--re").arg(format!("^{}$", escape(mutant)));
        }
        command
            .arg("--output")
            .arg(&folder)
            .args(["--colors", "never", "--no-shuffle"])
            // A build of dependencies that every run shares.
            .env(
                "CARGO_TARGET_DIR",
                process::target_directory().join("mutants/build"),
            );
        let ended = process::run(&mut command);
        let measured = Measured {
            all: all.len(),
            outcomes: outcomes(&folder.join("mutants.out"))?,
        };
        // A run that missed mutants ends without success, as one does that could not build.
        match ended {
            Err(error) if measured.outcomes.is_empty() => Err(Failure::from(error)),
            _ => Ok(measured),
        }
    }

    /// Names of all mutants of the part: file, line, column, and the change.
    fn mutants(&self, program: &Path) -> Result<Vec<String>, String> {
        let mut command = self.command(program);
        command.arg("--list");
        let listed = process::output_of(&mut command)
            .ok_or_else(|| format!("{} failed", process::line(&command)))?;
        Ok(listed.lines().map(str::to_owned).collect())
    }

    fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(process::root())
            .args(["mutants", "--package", self.package])
            .args(["--exclude-re", EXCLUDED]);
        if let Some(files) = self.files {
            command.args(["--file", files]);
        }
        command
    }
}

impl Measured {
    fn count(&self, outcome: &str) -> u32 {
        let matching = self.outcomes.values().filter(|it| **it == outcome);
        u32::try_from(matching.count()).unwrap_or(u32::MAX)
    }

    /// Mutants that the tests noticed. Tests that run into their deadline notice it too.
    fn caught(&self) -> u32 {
        self.count("caught") + self.count("timeout")
    }

    /// Caught mutants of those that compile, in thousandths; `None` if none compiles.
    fn per_mille(&self) -> Option<u32> {
        let viable = self.caught() + self.count("missed");
        (self.caught() * 1_000).checked_div(viable)
    }

    fn ratio(&self) -> String {
        let ratio = self.per_mille();
        ratio.map_or_else(|| "-".to_owned(), |it| format!("{}.{} %", it / 10, it % 10))
    }

    fn print(&self, part: &Part) {
        println!("outcome,mutant");
        for (mutant, outcome) in &self.outcomes {
            println!("{outcome},{mutant:?}");
        }
        let (caught, missed) = (self.caught(), self.count("missed"));
        println!(
            "{}: {caught} caught, {missed} missed, {} unviable: {} (least {} %)",
            part.name,
            self.count("unviable"),
            self.ratio(),
            part.least
        );
    }

    fn row(&self, part: &Part, request: &Request) -> Vec<String> {
        vec![
            part.name.to_owned(),
            self.all.to_string(),
            self.outcomes.len().to_string(),
            request.seed.to_string(),
            self.caught().to_string(),
            self.count("missed").to_string(),
            self.count("unviable").to_string(),
            self.ratio(),
            format!("{} %", part.least),
            today(),
            commit(),
        ]
    }
}

/// Reads the outcomes of a run from the lists that cargo-mutants wrote to `folder`.
fn outcomes(folder: &Path) -> Result<BTreeMap<String, &'static str>, String> {
    let mut outcomes = BTreeMap::new();
    for outcome in OUTCOMES {
        let path: PathBuf = folder.join(format!("{outcome}.txt"));
        let text =
            fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        outcomes.extend(text.lines().map(|line| (line.to_owned(), outcome)));
    }
    Ok(outcomes)
}

/// Draws `count` of `all` by `seed`: those with the least hashes.
fn sample(all: &[String], seed: u64, count: usize) -> Vec<String> {
    let mut drawn: Vec<_> = all.iter().map(|it| (hash(seed, it), it)).collect();
    drawn.sort_unstable();
    let drawn = drawn.into_iter().take(count);
    drawn.map(|(_, it)| it.clone()).collect()
}

/// FNV-1a of the text, started with the seed and mixed once more, since its low bits are weak.
fn hash(seed: u64, text: &str) -> u64 {
    const PRIME: u64 = 0x0100_0000_01b3;
    let start = 0xcbf2_9ce4_8422_2325 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let folded = text.bytes().fold(start, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(PRIME)
    });
    (folded ^ (folded >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Escapes what is special in a regular expression.
fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(2 * text.len());
    for character in text.chars() {
        if r"\.+*?()|[]{}^$&-~#".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, u8> {
        let words: Vec<_> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words).map_err(|failure| failure.exit_code)
    }

    #[test]
    fn parts_seed_and_sample_come_in_any_order() {
        let usual = Request {
            wanted: Vec::new(),
            seed: 1,
            sample: SAMPLE,
        };
        assert_eq!(parse(""), Ok(usual));
        let asked = Request {
            wanted: vec!["hub".to_owned(), "server/runtime".to_owned()],
            seed: 7,
            sample: 5,
        };
        assert_eq!(parse("--seed 7 hub --sample 5 server/runtime"), Ok(asked));
        for wrong in ["--seed x", "--sample 0", "nothing", "--jobs 2"] {
            assert_eq!(parse(wrong), Err(2), "{wrong}");
        }
    }

    #[test]
    fn a_seed_draws_the_same_sample_again_and_another_seed_another_one() {
        let all: Vec<_> = (0..500)
            .map(|it| format!("file.rs:{it}:1: change"))
            .collect();
        let first = sample(&all, 1, 60);
        assert_eq!(first.len(), 60);
        assert_eq!(first, sample(&all, 1, 60));
        let mut others = all.clone();
        others.reverse();
        assert_eq!(first, sample(&others, 1, 60), "whatever the order");
        let second = sample(&all, 2, 60);
        let both = second.iter().filter(|it| first.contains(it)).count();
        assert!(both < 20, "{both} of 60 in both");
        assert_eq!(sample(&all, 1, 1_000).len(), 500);
        // Mutants of the whole file, and not of its beginning only.
        assert!(first.iter().any(|it| it.starts_with("file.rs:4")));
    }

    #[test]
    fn unviable_mutants_do_not_count_and_time_outs_are_caught() {
        let outcomes = ["caught", "caught", "timeout", "missed", "unviable"];
        let outcomes = outcomes.into_iter().enumerate();
        let measured = Measured {
            all: 5,
            outcomes: outcomes.map(|(at, it)| (at.to_string(), it)).collect(),
        };
        assert_eq!(measured.caught(), 3);
        assert_eq!(measured.per_mille(), Some(750));
        assert_eq!(measured.ratio(), "75.0 %");
        assert_eq!(Measured::default().per_mille(), None);
        assert_eq!(Measured::default().ratio(), "-");
    }

    #[test]
    fn names_of_mutants_are_no_patterns() {
        let name = "a.rs:1:2: replace <impl A>::b -> [u8; 2] with (0 * 1)";
        let escaped = escape(name);
        assert!(escaped.contains(r"a\.rs:1:2"), "{escaped}");
        assert!(escaped.contains(r"\[u8; 2\] with \(0 \* 1\)"), "{escaped}");
    }

    #[test]
    fn every_module_that_is_measured_exists() {
        for part in &PARTS {
            let folder = match part.files {
                Some(files) => files.trim_end_matches("/**").to_owned(),
                None => format!("crates/{}", part.name),
            };
            assert!(process::root().join(&folder).is_dir(), "{folder}");
        }
    }
}
