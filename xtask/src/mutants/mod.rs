//! `cargo xtask mutants`: puts faults into the code and counts those that the tests notice.
//!
//! cargo-mutants lists the faults: functions and operators that are replaced, one at a time. A
//! mutant that no test notices is a line whose result nothing holds. All mutants of a large crate
//! take hours, so a run draws a sample from a seed; the same seed draws the same mutants as long as
//! the code is the same.
//!
//! ```text
//! listed ─► sample ─► built: one build, each mutant behind a switch ─► tested: with each switch
//!                        └► a mutant that takes no switch: cargo-mutants builds it alone
//! ```

mod built;
mod listed;
mod part;
mod request;
mod switched;
mod tested;
mod tree;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, TryLockError};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::result_table::{Page, Table, commit, today};
use crate::{Failure, install, process};
use listed::Mutant;
use part::{PARTS, Part};
use request::Request;
use tested::{Baseline, Taken};
use tree::Tree;

/// Exit code if the tests of a part notice less than they have to.
const EXIT_BELOW: u8 = 3;

/// Formatting for people who debug is no behavior.
const EXCLUDED: &str = "impl (fmt::)?Debug for";

/// Drivers of fuzz targets and servers that only they and tests start: those are tests
/// themselves, and are in no build of the server.
const DRIVERS: [&str; 3] = ["**/fuzzing/**", "**/fuzzing.rs", "**/test_server.rs"];

/// Table of the last runs.
pub(crate) static PAGE: Page = Page {
    name: "mutants",
    columns: &[
        "part", "mutants", "sample", "seed", "caught", "missed", "unviable", "ratio", "least",
        "date", "commit",
    ],
};

/// Tests a sample of the mutants of each part that `arguments` name, or of all parts.
pub(crate) fn run(arguments: &[String]) -> Result<(), Failure> {
    let request = Request::parse(arguments)?;
    let _tree = alone()?;
    install::build_tools()?;
    let program = install::cargo_mutants()?;
    let mut table = Table::read(&PAGE)?;
    table.keep(&PARTS.map(|it| it.name.to_owned()));
    let mut below = Vec::new();
    let is_wanted = |part: &&Part| request.wanted.is_empty() || request.wants(part.name);
    let wanted: Vec<&Part> = PARTS.iter().filter(is_wanted).collect();
    for parts in wanted.chunk_by(|one, other| one.package == other.package) {
        let results = measure(parts, &program, &request)?;
        for (part, result) in parts.iter().zip(results) {
            result.print(part);
            if request.only.is_some() || request.unit {
                continue;
            }
            if result.per_mille().is_some_and(|it| it < 10 * part.least) {
                below.push(part.name);
            }
            table.put(result.row(part, &request));
            table.write()?;
        }
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

/// Takes the tree and the builds for this run, until the file is closed.
///
/// # Errors
/// Another run of this checkout has them, whose faults would come into this run's code.
fn alone() -> Result<File, Failure> {
    let folder = process::target_directory().join("mutants");
    let path = folder.join("lock");
    let opened = fs::create_dir_all(&folder).and_then(|()| File::create(&path));
    let file = opened.map_err(|error| format!("{}: {error}", path.display()))?;
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            "another run of mutants is under way in this checkout: wait for its end, or use a checkout of its own"
                .to_owned()
        }
        TryLockError::Error(error) => format!("{}: {error}", path.display()),
    })?;
    Ok(file)
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

/// Folder of the builds with faults in them, which every run shares.
fn build_directory() -> PathBuf {
    process::target_directory().join("mutants/build")
}

/// The mutants of a part that are tested.
struct Drawn {
    /// Mutants that the part has.
    all: usize,
    /// Places of those that are tested, among the mutants of all parts of a build.
    numbers: Range<usize>,
}

/// Measures parts of one package. Their mutants share a build, which takes far longer than the
/// tests of a part.
fn measure(parts: &[&Part], program: &Path, request: &Request) -> Result<Vec<Measured>, Failure> {
    let Some(package) = parts.first().map(|part| part.package) else {
        return Ok(Vec::new());
    };
    let tree = Tree::at(process::target_directory().join("mutants/tree"))?;
    let mut mutants = Vec::new();
    let mut drawn = Vec::new();
    for part in parts {
        let all = part.mutants(program, &tree)?;
        let count = all.len();
        let first = mutants.len();
        mutants.extend(draw(all, request));
        let numbers = first..mutants.len();
        println!("\n── {}: {} of {count} mutants", part.name, numbers.len());
        drawn.push(Drawn {
            all: count,
            numbers,
        });
    }
    let mut targets = vec!["--lib"];
    let needs_integration = |part: &&Part| !part.integration(request).is_empty();
    if let Some(part) = parts.iter().find(|part| needs_integration(part)) {
        targets.extend(["--package", part.tested_by, "--test", "tests"]);
    }
    let built = built::build(&tree, package, &targets, &mutants)?;
    let folder_of = |package: &str| {
        let short = package.trim_start_matches("glassline-");
        tree.path(&format!("crates/{short}"))
    };
    let mut unit = None;
    let mut results = Vec::new();
    for (part, drawn) in parts.iter().zip(drawn) {
        let is_part = |number: &u32| drawn.numbers.contains(&(*number as usize));
        let named = |number: &u32| &mutants[*number as usize];
        let mut outcomes = BTreeMap::new();
        let mut open: Vec<_> = built.switched.iter().copied().filter(is_part).collect();
        for test_program in &built.programs {
            let integration = part.integration(request);
            if open.is_empty() || !test_program.is_unit && integration.is_empty() {
                continue;
            }
            // All parts share the tests beside the code, of which only those that reach a mutant
            // run again.
            let baseline = match &mut unit {
                Some(known) if test_program.is_unit => known,
                unit if test_program.is_unit => {
                    unit.insert(Baseline::run(test_program, &folder_of(package), &[])?)
                }
                _ => &mut Baseline::run(test_program, &folder_of(part.tested_by), integration)?,
            };
            open = test(baseline, &mutants, open, &mut outcomes)?;
        }
        for number in built.unviable.iter().filter(|it| is_part(it)) {
            outcomes.insert(named(number).name.clone(), "unviable");
        }
        let alone: Vec<_> = built.unswitched.iter().filter(|it| is_part(it)).collect();
        let alone: Vec<_> = alone.into_iter().map(named).collect();
        if request.switched {
            for mutant in &alone {
                println!("left out,{:?}", mutant.name);
            }
        } else if !alone.is_empty() {
            outcomes.extend(part.build_alone(program, part.integration(request), &alone)?);
        }
        results.push(Measured {
            all: drawn.all,
            outcomes,
        });
    }
    Ok(results)
}

/// Returns those of a part's mutants that the request asks for.
fn draw(all: Vec<Mutant>, request: &Request) -> Vec<Mutant> {
    let names: Vec<_> = all.iter().map(|it| it.name.clone()).collect();
    let drawn: Vec<_> = match &request.only {
        Some(text) => names.into_iter().filter(|it| it.contains(text)).collect(),
        None => sample(&names, request.seed, request.sample),
    };
    let is_drawn = |mutant: &Mutant| drawn.contains(&mutant.name);
    all.into_iter().filter(is_drawn).collect()
}

/// Runs the tests of `baseline` with each of the mutants `open` switched on. Returns those that
/// the tests missed.
fn test(
    baseline: &Baseline,
    mutants: &[Mutant],
    open: Vec<u32>,
    outcomes: &mut BTreeMap<String, &'static str>,
) -> Result<Vec<u32>, Failure> {
    let mut missed = Vec::new();
    for number in open {
        let name = &mutants[number as usize].name;
        let outcome = match baseline.test(number)? {
            Taken::Caught(by) => {
                println!("caught,{name:?},by {by}");
                "caught"
            }
            Taken::Hung => {
                println!("timeout,{name:?}");
                "timeout"
            }
            taken => {
                println!("missed,{name:?},{taken:?}");
                missed.push(number);
                "missed"
            }
        };
        outcomes.insert(name.clone(), outcome);
    }
    Ok(missed)
}

impl Part {
    /// Integration tests that run where the tests beside the code notice nothing.
    fn integration(&self, request: &Request) -> &'static [&'static str] {
        if request.unit { &[] } else { self.integration }
    }

    /// Lets cargo-mutants build and test each of `mutants`.
    fn build_alone(
        &self,
        program: &Path,
        integration: &[&str],
        mutants: &[&Mutant],
    ) -> Result<BTreeMap<String, &'static str>, Failure> {
        // Without the switches of others.
        let tree = Tree::at(process::target_directory().join("mutants/tree"))?;
        let folder = process::target_directory()
            .join("mutants")
            .join(self.name.replace('/', "-"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        // cargo-mutants takes all fields of these files, whatever the names that are asked for.
        let files: BTreeSet<_> = mutants.iter().map(|it| it.file.as_str()).collect();
        let mut command = self.command(program, &tree, files);
        for mutant in mutants {
            command
                .arg("--re")
                .arg(format!("^{}$", escape(&mutant.name)));
        }
        command
            .arg("--in-place")
            .arg("--output")
            .arg(&folder)
            .args(["--colors", "never", "--no-shuffle"])
            // Generous, so that a busy machine lets no mutant look caught.
            .args(["--timeout-multiplier", "10"])
            .args(["--minimum-test-timeout", "120"])
            .env("CARGO_TARGET_DIR", build_directory())
            .args(["--", "--lib"]);
        if !integration.is_empty() {
            command.args(["--package", self.tested_by, "--test", "tests", "--"]);
            command.args(integration);
        }
        let ended = process::run(&mut command);
        let mut outcomes = outcomes(&folder.join("mutants.out"))?;
        outcomes.retain(|name, _| mutants.iter().any(|it| it.name == *name));
        // A run that missed mutants ends without success, as one does that could not build.
        match ended {
            Err(error) if outcomes.is_empty() => Err(Failure::from(error)),
            _ => Ok(outcomes),
        }
    }

    /// All mutants of the part.
    fn mutants(&self, program: &Path, tree: &Tree) -> Result<Vec<Mutant>, String> {
        let mut command = self.command(program, tree, self.files);
        command.args(["--list", "--json"]);
        let listed = process::output_of(&mut command)
            .ok_or_else(|| format!("{} failed", process::line(&command)))?;
        listed::parse(&listed)
    }

    /// Calls cargo-mutants for `files`; for the whole package if there are none.
    fn command<'a>(
        &self,
        program: &Path,
        tree: &Tree,
        files: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(tree.root())
            .args(["mutants", "--package", self.package])
            .args(["--exclude-re", EXCLUDED]);
        for driver in DRIVERS {
            command.args(["--exclude", driver]);
        }
        for file in files {
            command.args(["--file", file]);
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
}
