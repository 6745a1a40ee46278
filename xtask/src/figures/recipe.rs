//! What a recipe is: a command, the values that its report has, and what it needs.

use serde::{Deserialize, Serialize};

/// One measurement of `docs/benchmarks` that a machine can repeat alone.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Recipe {
    /// Name on the command line and in stored results.
    pub(super) name: &'static str,
    /// Page of `docs/benchmarks` that says what the values mean, without extension.
    pub(super) page: &'static str,
    /// Question that the recipe answers, in a few words.
    pub(super) about: &'static str,
    pub(super) work: Work,
    /// Shorter work for `--quick`; `None` where the recipe has no short form.
    pub(super) quick: Option<Work>,
    /// Expected minutes of one turn, without building; the second for `--quick`.
    #[serde(default = "a_minute")]
    pub(super) minutes: (f64, f64),
    /// How many times the work is done; values are medians. A quick run does it once.
    #[serde(default = "once")]
    pub(super) turns: usize,
    #[serde(default = "quiet_cores")]
    pub(super) needs: Vec<Need>,
    /// Values in a JSON report; empty where the program prints [lines of figures](super::report).
    #[serde(default)]
    pub(super) values: Vec<Value>,
    /// Tolerance of figures that are printed as lines.
    #[serde(default = "tenth")]
    pub(super) noise: Tolerance,
    /// Whether wide AES decides the values, so that a second run without it says something.
    #[serde(default)]
    pub(super) is_crypto: bool,
    /// Parts of the names of the values that have a row on the page; empty for all values. Stored results
    /// have all of them.
    #[serde(default)]
    pub(super) on_page: Vec<&'static str>,
}

fn a_minute() -> (f64, f64) {
    (1.0, 1.0)
}

fn once() -> usize {
    1
}

fn quiet_cores() -> Vec<Need> {
    vec![Need::Quiet, Need::TwoCores]
}

fn tenth() -> Tolerance {
    TENTH
}

/// How a recipe is performed.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Work {
    /// `glassline` with these arguments and `--json`.
    Program(&'static str),
    /// A benchmark of `benches/lab`, which writes `target/bench/NAME.json`.
    Lab(&'static str),
    /// A bench target with these arguments; it prints lines of figures.
    Bench {
        package: &'static str,
        target: &'static str,
        arguments: &'static str,
    },
    /// Ignored tests of a package's test target `tests` by their filter; they print lines of figures.
    Test {
        package: &'static str,
        filter: &'static str,
    },
    /// A [scene](super::scene) by name.
    Scene(&'static str),
    /// `cargo xtask bench-peers` with these arguments; the named reports of `target/bench/peers`
    /// become one object, with the name of the file as key.
    Peers {
        arguments: &'static str,
        reports: Vec<&'static str>,
    },
}

/// The needs of a recipe on the machine.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Need {
    /// Values mean nothing while other programs run.
    Quiet,
    /// A peer that `cargo xtask test` installs, by its name there.
    Peer(&'static str),
    /// Peers without which the recipe has fewer values; it tries to get them, which takes the network.
    Network,
    /// A peer that is built from source.
    BuiltPeer(BuiltPeer),
    /// At least two cores.
    TwoCores,
}

/// A peer that is built from source, before the first measurement.
#[derive(Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BuiltPeer {
    Pion,
    Live555,
    MediaMtx,
    Nats,
}

/// Which direction of a value is an improvement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Better {
    #[default]
    Less,
    More,
    /// Neither: the value describes the run.
    Neither,
}

/// Differences up to the larger of both parts are noise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Tolerance {
    /// Part of the earlier value, 0–1.
    pub(super) relative: f64,
    /// In the unit of the value.
    pub(super) absolute: f64,
}

/// Where a value stands in a JSON report (paths: [`super::report::select`]), and how it is read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Value {
    pub(super) name: &'static str,
    pub(super) path: &'static str,
    pub(super) unit: &'static str,
    #[serde(default)]
    pub(super) better: Better,
    /// Multiplies what the report has, to reach the unit.
    #[serde(default = "unscaled")]
    pub(super) scale: f64,
    /// The divisor of the value: its name, and its path in the same report.
    #[serde(default)]
    pub(super) beside: Option<(&'static str, &'static str)>,
    /// Whether a report may lack what the value is divided by: a peer that is not installed.
    #[serde(default)]
    pub(super) may_stand_alone: bool,
    #[serde(default = "tenth")]
    pub(super) tolerance: Tolerance,
    /// Paths of shares of the stream that must have arrived for the value to count; see
    /// [`DELIVERED_MIN`].
    #[serde(default)]
    pub(super) delivered: Vec<&'static str>,
}

fn unscaled() -> f64 {
    1.0
}

/// Costs are those of the load only where at least this share of the stream arrived.
pub(super) const DELIVERED_MIN: f64 = 0.99;

/// Tolerance of values that say nothing else: a tenth.
pub(super) const TENTH: Tolerance = Tolerance {
    relative: 0.1,
    absolute: 0.0,
};

impl Recipe {
    /// Returns whether the value called `name` has a row on the page.
    pub(super) fn shows(&self, name: &str) -> bool {
        self.on_page.is_empty() || self.on_page.iter().any(|part| name.contains(part))
    }

    /// Command as a person would type it, for pages and for noticing that a recipe has changed.
    pub(super) fn command(&self, is_quick: bool) -> String {
        let work = self.work(is_quick);
        match work {
            Work::Program(arguments) => format!("glassline {arguments}"),
            Work::Lab(name) => format!("cargo xtask bench {name}"),
            Work::Scene(name) => format!("cargo xtask figures --scene {name} --json FILE"),
            Work::Bench {
                package,
                target,
                arguments,
            } => {
                let all = format!("cargo bench -p {package} --bench {target} -- {arguments}");
                all.trim_end_matches(" -- ").to_owned()
            }
            Work::Test { package, filter } => format!(
                "cargo test -p {package} --test tests -- --ignored --nocapture --test-threads 1 \
                 {filter}"
            ),
            Work::Peers { arguments, .. } => {
                format!("cargo xtask bench-peers {arguments}")
            }
        }
    }

    /// The work of a full or of a quick run.
    pub(super) fn work(&self, is_quick: bool) -> &Work {
        match &self.quick {
            Some(quick) if is_quick => quick,
            _ => &self.work,
        }
    }

    /// Expected minutes of all turns.
    pub(super) fn expected_minutes(&self, is_quick: bool) -> f64 {
        match is_quick {
            true => self.minutes.1,
            false => self.minutes.0 * self.turns as f64,
        }
    }
}

impl Need {
    /// The need in a word or two.
    pub(super) fn words(&self) -> String {
        match self {
            Self::Quiet => "quiet".to_owned(),
            Self::Peer(name) => (*name).to_owned(),
            Self::Network => "network".to_owned(),
            Self::TwoCores => "two cores".to_owned(),
            Self::BuiltPeer(BuiltPeer::Pion) => "Pion".to_owned(),
            Self::BuiltPeer(BuiltPeer::Live555) => "live555".to_owned(),
            Self::BuiltPeer(BuiltPeer::MediaMtx) => "MediaMTX".to_owned(),
            Self::BuiltPeer(BuiltPeer::Nats) => "nats-server".to_owned(),
        }
    }
}

/// The words of a command line; those with spaces stand in single quotes.
pub(super) fn words(line: &str) -> Vec<&str> {
    let parts = line.split('\'').enumerate();
    parts
        .flat_map(|(index, part)| match index % 2 {
            0 => part.split_whitespace().collect(),
            _ => vec![part],
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_spaces_stand_in_quotes() {
        assert_eq!(
            words("a 'rtt=20ms loss=1%' b"),
            ["a", "rtt=20ms loss=1%", "b"]
        );
        assert_eq!(words(""), [""; 0]);
    }
}
