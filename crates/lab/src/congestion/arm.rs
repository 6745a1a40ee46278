//! Arms of a comparison by their names on the command line.

use std::str::FromStr as _;
use std::time::Duration;

use glassline_congestion::Algorithm;
use glassline_congestion::copa::{self, Copa};
use glassline_congestion::glide::{self, Glide};
use thiserror::Error;

use super::session::Arm;

/// Range of Copa's delta: from one that fills a queue to one that starves.
const DELTAS: std::ops::RangeInclusive<f64> = 0.02..=2.0;

/// Deltas of `--dial`, each about twice the one before.
pub const DIAL: [f64; 8] = [0.02, 0.04, 0.08, 0.15, 0.3, 0.5, 1.0, 2.0];

/// Name of the arm that knows the path.
const ORACLE: &str = "oracle";

/// Suffix of an arm whose encoder follows the controller.
const COUPLED: &str = "-coupled";

/// Error for a text that is no arm.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ArmError {
    /// There is no controller of this name.
    #[error(
        "{0}, or oracle; behind any of them -coupled, behind copa's :DELTA, behind glide's :MSms \
         or :CONSTANT=VALUE"
    )]
    Algorithm(#[from] glassline_congestion::UnknownAlgorithm),
    /// The delta is no number, or is out of range.
    #[error("'{0}' is no delta: give 0.02 to 2, as in copa:0.1")]
    Delta(String),
    /// The queueing delay is no time, or is out of range.
    #[error("'{0}' is no queue to aim at: give 10ms to 400ms, as in glide:20ms")]
    Queue(String),
    /// The constant of Glide does not exist, or cannot have the value.
    #[error(transparent)]
    Constant(#[from] glide::constants::ConstantError),
    /// The arm takes no setting; only Copa and Glide do.
    #[error("'{0}' takes nothing behind a colon: only copa, copa-competitive and glide do")]
    NoSetting(String),
}

/// The arm called `name`: the name of a controller, or `oracle`; `-coupled` behind it lets the
/// encoder follow the controller instead of the study's rule; `:DELTA` behind a Copa name sets
/// its delta; `:20ms` behind a Glide name sets the queueing delay that it aims at, and
/// `:CONSTANT=VALUE` one of its constants, several of them with `+` between. `delta` is Copa's
/// where the name has none.
pub fn arm(name: &str, delta: Option<f64>) -> Result<Arm, ArmError> {
    let (left, told) = match name.split_once(':') {
        Some((left, told)) => (left, Some(told)),
        None => (name, None),
    };
    let (controller, is_coupled) = match left.strip_suffix(COUPLED) {
        Some(controller) => (controller, true),
        None => (left, false),
    };
    let mut arm = match controller {
        ORACLE if told.is_some() => return Err(ArmError::NoSetting(left.to_owned())),
        ORACLE => Arm::oracle(),
        _ => controlled(controller, told, delta)?,
    };
    if is_coupled {
        arm = arm.coupled();
    }
    name.clone_into(&mut arm.name);
    Ok(arm)
}

/// The arm of a controller that can be used outside of a laboratory.
fn controlled(name: &str, told: Option<&str>, delta: Option<f64>) -> Result<Arm, ArmError> {
    let algorithm = Algorithm::from_str(name)?;
    let copa = |config: copa::Config| -> Result<Arm, ArmError> {
        let told = told.map(parse_delta).transpose()?;
        let delta = told.or(delta).unwrap_or(config.delta);
        Ok(with_delta(delta, config))
    };
    match (algorithm, told) {
        (Algorithm::Copa, _) => copa(copa::Config::default()),
        (Algorithm::CopaCompetitive, _) => copa(copa::Config::competitive()),
        (Algorithm::Glide, Some(told)) => Ok(with_config(parse_config(told)?)),
        (_, Some(_)) => Err(ArmError::NoSetting(name.to_owned())),
        (algorithm, None) => Ok(Arm::new(algorithm)),
    }
}

/// Parses a delta from 0.02 to 2.
pub fn parse_delta(text: &str) -> Result<f64, ArmError> {
    let delta = text.parse().ok().filter(|delta| DELTAS.contains(delta));
    delta.ok_or_else(|| ArmError::Delta(text.to_owned()))
}

fn parse_queue(text: &str) -> Result<Duration, ArmError> {
    let allowed = glide::Config::TARGET_QUEUE_MIN..=glide::Config::TARGET_QUEUE_MAX;
    let millis = text.strip_suffix("ms").and_then(|text| text.parse().ok());
    let queue = millis.map(Duration::from_millis);
    let queue = queue.filter(|queue| allowed.contains(queue));
    queue.ok_or_else(|| ArmError::Queue(text.to_owned()))
}

/// Parses settings of Glide with `+` between: the queue to aim at, or a constant and its value.
fn parse_config(text: &str) -> Result<glide::Config, ArmError> {
    let mut config = glide::Config::default();
    for setting in text.split('+') {
        match setting.split_once('=') {
            Some((name, value)) => config.constants.set(name, value)?,
            None => config.target_queue = parse_queue(setting)?,
        }
    }
    Ok(config)
}

fn with_config(config: glide::Config) -> Arm {
    Arm::with("glide", move |mtu| Box::new(Glide::new(config, mtu)))
}

fn with_delta(delta: f64, config: copa::Config) -> Arm {
    Arm::with("copa", move |mtu| {
        Box::new(Copa::new(copa::Config { delta, ..config }, mtu))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::congestion::oracle::Foresight;
    use crate::congestion::session::Scenario;
    use glassline_congestion::adaptation::Rule;
    use std::time::Instant;

    /// The arm's controller, as it describes itself.
    fn made(arm: &Arm) -> String {
        let foresight = Foresight::new(&Scenario::default(), Instant::now());
        format!("{:?}", (arm.controller)(1200, &foresight))
    }

    #[test]
    fn arms_are_called_as_on_the_command_line() {
        for algorithm in Algorithm::ALL {
            let found = arm(algorithm.as_str(), None).expect("a controller");
            assert_eq!(
                (found.name.as_str(), found.rule),
                (algorithm.as_str(), Rule::Study)
            );
        }
        let found = arm("copa-coupled:0.1", None).expect("an arm");
        assert_eq!(
            (found.name.as_str(), found.rule),
            ("copa-coupled:0.1", Rule::Coupled)
        );
        assert!(made(&found).contains("delta: 0.1"));
        let found = arm("oracle-coupled", None).expect("an arm");
        assert_eq!(found.rule, Rule::Coupled);
        assert!(made(&found).starts_with("Oracle"));
        let found = arm("copa-competitive", Some(0.3)).expect("an arm");
        assert!(made(&found).contains("delta: 0.3"));
    }

    #[test]
    fn glide_aims_at_the_queue_that_is_told() {
        let found = arm("glide:10ms", Some(0.3)).expect("an arm");
        let glide = made(&found);
        assert!(glide.contains("target_queue: 10ms"), "{glide}");
    }

    #[test]
    fn constants_of_glide_are_set_by_name() {
        let name = "glide-coupled:80ms+queue.least_window=20000ms+competition.full_rounds=3";
        let found = arm(name, None).expect("an arm");
        assert_eq!((found.name.as_str(), found.rule), (name, Rule::Coupled));
        let glide = made(&found);
        for part in ["target_queue: 80ms", "least_window: 20s", "full_rounds: 3"] {
            assert!(glide.contains(part), "{part}: {glide}");
        }
        let told = |name| arm(name, None).expect_err("no arm").to_string();
        assert!(told("glide:moon=1").contains("'moon' is no constant"));
        assert!(told("glide:competition.fair=9").contains("competition.fair: '9'"));
        assert!(told("glide:20ms+").contains("'' is no queue"));
    }

    #[test]
    fn what_is_no_arm_is_told() {
        let told = |name| arm(name, None).expect_err("no arm").to_string();
        assert!(told("reno").contains("'reno'") && told("reno").contains("cubic"));
        assert!(told("copa:9").contains("'9' is no delta"));
        assert!(told("copa:x").contains("'x' is no delta"));
        assert!(told("cubic:0.1").contains("'cubic' takes nothing"));
        assert!(told("oracle:0.1").contains("'oracle' takes nothing"));
        assert!(told("glide:5ms").contains("'5ms' is no queue"));
        assert!(told("glide:20").contains("'20' is no queue"));
    }
}
