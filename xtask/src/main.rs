//! The project's tasks: `cargo xtask demo|cluster-demo|test|repeat|soak|peers|check|count|reference|package|release|fuzz|mutants|
//! chaos|bench|bench-peers|figures|voice-quality`.
//!
//! Every recipe for people and for build servers is here, so that both run the same. A recipe
//! first installs what it needs (`install`), then runs cargo (`process`); `test` ends with a
//! summary of everything it ran.
//!
//! Exit codes: 0 success, 1 something failed, 2 wrong command line, 3 the tests of a crate notice
//! too few mutants.

#![expect(
    clippy::disallowed_methods,
    reason = "recipes run in real time and print how long they took"
)]

mod architecture;
mod bench;
mod bench_peers;
mod chaos;
mod check;
mod clip;
mod cluster_demo;
mod demo;
mod executables;
mod figures;
mod fuzz;
mod install;
mod mutants;
mod package;
mod process;
mod reference;
mod release;
mod result_table;
mod summary;
mod test;
mod tidy;
mod versions;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask RECIPE

  demo [ARGUMENT…]                 build the binary quickly and run `glassline demo`
  cluster-demo [--tour] [--binary PATH]
                                   three servers and three of NATS on this machine, and
                                   commands that kill parts of them; --tour runs such commands
  test [--no-peers] [--seed N] [--load 0]
                                   everything: formatting, lints, tests against real peers;
                                   --load runs busy loops beside the tests
  repeat TEST [--times 100] [--load 8] [--seed N] [--package PART]
                                   run the tests of a name many times beside busy loops, and
                                   print the output of each run that fails
  soak [PART…]                     the long forms of tests, one after another, and ten minutes
                                   of attacks; before a release
  peers                            install the peers of the tests
  check [--tables]                 formatting, lints, docs, tidiness only; --tables prints
                                   what tidiness is measured by, as the code is
  count [--list]                   figures of the code and of its documentation, without what
                                   only tests compile: lines of the function that starts a
                                   server, with its head; matches, comparisons and `if let` in
                                   `server` by variants of Input or by a literal name of a
                                   protocol (whep, rtsp, moq, …); functions with a parameter
                                   that is a tuple or a reference to one; lines that are
                                   neither blank nor comments; circles as `check` has them;
                                   words between spaces in the pages of the root and of docs/;
                                   --list prints file and line of each of these functions and
                                   matches instead
  reference                        write the generated parts of docs/reference anew
  package [--only deb,rpm,tar,contents] [--revision 1] [--out FOLDER]
          [--static] [--binary PATH] [--uncompressed]
                                   packages for operators, with a bill of materials;
                                   --static makes them need no library of the system,
                                   --binary packs a program that is built already
  release [--only amd64,arm64] [--out FOLDER] [--binary PROCESSOR=PATH] [--untried]
          [--uncompressed]         what the page of a release has: packages and archives for
                                   both processors, an OCI image, bills of materials, notes and
                                   sums; --binary packs a program that is built already,
                                   --untried does not start it
  fuzz [TARGET…] [--seconds 60]    run fuzz targets on stable Rust
  fuzz --long [TARGET…] [--minutes 10]
                                   two targets at a time, with a smaller corpus and a table in
                                   docs/benchmarks/fuzzing.csv afterwards
  mutants [PART…] [--seed 1] [--sample 60]
                                   put faults into crates and count what their tests notice;
                                   exit code 3 where that is too little
  chaos [--seed 1] [--minutes 10] [--smoke] [--only ACTION]
                                   attack a server, and report what its viewers lose;
                                   `glassline bench chaos --help` says more
  bench [RECIPE…]                  run benchmarks, or list them with --list
  bench-peers [--servers A,B] [--layouts pinned,shared] [--ramp 0:300:25]
              [--every 5s] [--hold 10s] [--quick] [--binary PATH]
                                   the same load on Glassline and on other servers;
                                   --quick only prints; otherwise
                                   docs/benchmarks/other-servers.md is written
  bench-peers --moq [--readers 10] [--hold 20s] [--layouts pinned]
                                   one upload over QUIC to many readers: ours beside the
                                   relay of the MoQ project, with its publisher and readers
  bench-peers --whip [--hold 20s] [--layouts pinned] [--binary PATH]
                                   publishers by WHIP: ours beside MediaMTX, in turns
  bench-peers --record [--hold 20s] [--layouts pinned] [--binary PATH]
                                   recordings of a hundred cameras: ours beside MediaMTX, in
                                   turns, and beside equal writes
  bench-peers --hls [--hold 10s] [--layouts pinned] [--quick] [--binary PATH]
                                   viewers of HLS: ours beside MediaMTX and nginx with files,
                                   in turns; without --quick writes docs/benchmarks/hls.md
  bench-peers --data [--hold 10s] [--quick]
                                   bulk over a data channel: ours beside Pion, libdatachannel
                                   and Chromium, and between ours and Chromium
  figures [--only NAME…] [--list] [--quick] [--again] [--new] [--busy] [--no-mask]
          [--binary PATH] [--pages] [--scene NAME --json FILE]
                                   measure what docs/benchmarks has, one recipe after another,
                                   over a night, and mark what moved since the last run on this
                                   kind of processor; goes on where it was interrupted
  voice-quality                    install PESQ, PLCMOS and espeak-ng for
                                   `glassline bench jitter --quality`; prints their Python";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((recipe, rest)) = arguments.split_first() else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // The demonstration hands its arguments on, and the program has a help of its own.
    if recipe != "demo"
        && let [word] = rest
        && matches!(word.as_str(), "--help" | "-h")
        && let Some(usage) = usage_of(recipe)
    {
        println!("{usage}");
        return ExitCode::SUCCESS;
    }
    let outcome = match recipe.as_str() {
        "demo" => demo::run(rest),
        "cluster-demo" => cluster_demo::run(rest),
        "clip" => clip::run(rest).map_err(Failure::from),
        "test" => test::run(rest),
        "repeat" => test::repeat(rest),
        "soak" => test::soak(rest),
        "check" => check::run(rest),
        "count" => {
            let counted = match rest {
                [] => tidy::figures().map_err(Failure::from),
                [list] if list == "--list" => tidy::counted_places().map_err(Failure::from),
                [unknown, ..] => Err(Failure::usage(format!("count takes no `{unknown}`"))),
            };
            counted.map(|lines| print!("{lines}"))
        }
        "peers" => install::peers().map_err(Failure::from),
        "reference" => reference::run(rest),
        "package" => package::run(rest),
        "release" => release::run(rest),
        "fuzz" => fuzz::run(rest),
        "chaos" => chaos::run(rest),
        "mutants" => mutants::run(rest),
        "bench" => bench::run(rest),
        "bench-peers" => bench_peers::run(rest),
        "figures" => figures::run(rest),
        "voice-quality" => install::voice_quality()
            .map(|python| println!("{}", python.display()))
            .map_err(Failure::from),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => Err(Failure::usage(format!("no recipe `{other}`\n\n{USAGE}"))),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("xtask: {}", failure.text);
            ExitCode::from(failure.exit_code)
        }
    }
}

/// Returns the part of the usage text that is about a recipe; `None` if there is no such recipe.
fn usage_of(recipe: &str) -> Option<String> {
    let is_heading = |line: &str| line.starts_with("  ") && !line.starts_with("   ");
    let mut is_meant = false;
    let lines: Vec<&str> = USAGE
        .lines()
        .filter(|line| {
            if is_heading(line) {
                is_meant = line.split_whitespace().next() == Some(recipe);
            }
            is_meant
        })
        .collect();
    (!lines.is_empty()).then(|| format!("usage: cargo xtask RECIPE\n\n{}", lines.join("\n")))
}

/// Error that stops a recipe, with its exit code.
struct Failure {
    text: String,
    exit_code: u8,
}

impl Failure {
    fn usage(text: impl Into<String>) -> Failure {
        Failure {
            text: text.into(),
            exit_code: 2,
        }
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure { text, exit_code: 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_a_recipe_is_its_part_of_the_usage() {
        let usage = usage_of("figures").expect("a recipe");
        assert!(usage.contains("--no-mask") && usage.contains("goes on where"));
        assert!(!usage.contains("voice-quality") && !usage.contains("bench-peers"));
        let usage = usage_of("fuzz").expect("a recipe");
        assert!(usage.contains("--seconds") && usage.contains("--long"));
        assert_eq!(usage_of("figure"), None);
        assert_eq!(usage_of(""), None);
    }
}
