//! The constants of Glide, each with a name, so that a laboratory can vary one of them.
//!
//! ```
//! use glassline_congestion::glide::Constants;
//!
//! let mut constants = Constants::DEFAULT;
//! constants.set("queue.least_window", "15000ms").expect("a constant and its value");
//! assert!(constants.set("queue.least_window", "15").is_err(), "a time has a unit");
//! ```
//!
//! Bounds of memory and what follows from a datagram's size are no constants of the law;
//! they stand beside the code.

/// Declares a group of constants: a struct, its default values, and access by name.
macro_rules! group {
    (
        $(#[$doc:meta])*
        $group:ident {
            $($(#[$field_doc:meta])* $field:ident: $kind:ty = $value:expr,)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $group {
            $($(#[$field_doc])* pub $field: $kind,)*
        }

        impl $group {
            /// The values that Glide uses.
            pub const DEFAULT: Self = Self { $($field: $value,)* };

            /// Calls `visit` with the name and a reference to each constant.
            pub(super) fn visit(&mut self, visit: &mut Visit<'_>) {
                $(visit(stringify!($field), ConstantRef::from(&mut self.$field));)*
            }
        }
    };
}

mod competition;
mod cross_traffic;
mod loss;
mod path;
mod value;

use std::fmt;

pub use competition::Competition;
pub use cross_traffic::CrossTraffic;
pub use loss::{LossTest, Policed, RandomLoss};
pub use path::{Delivery, Queue, Window};
pub use value::Value;
use value::{ConstantRef, Visit};

/// Largest factor by which a constant may differ from its default: enough to see what it
/// does, and no value with which the law loses its meaning.
const FACTOR_MAX: f64 = 10.0;

/// All constants of the law, by what they belong to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constants {
    /// Constants of window and pacing.
    pub window: Window,
    /// Constants of the queue's measurement.
    pub queue: Queue,
    /// Constants of the measurement of rates.
    pub delivery: Delivery,
    /// Constants of what the spacing of packets tells of other flows.
    pub cross_traffic: CrossTraffic,
    /// Constants of the competition with other flows.
    pub competition: Competition,
    /// Constants of the test whether a loss is a policer's.
    pub test: LossTest,
    /// Constants of the time behind a policer.
    pub policed: Policed,
    /// Constants of random loss.
    pub random: RandomLoss,
}

/// The reason why a constant cannot be set; the user's mistake.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ConstantError {
    /// There is no constant of this name.
    Unknown {
        /// Name that was given.
        name: String,
        /// Names of all constants.
        known: String,
    },
    /// The text is no value of this constant, or too far from its default.
    Value {
        /// Name of the constant.
        name: String,
        /// Text that was given.
        text: String,
        /// Value that Glide uses.
        default: Value,
    },
}

impl fmt::Display for ConstantError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown { name, known } => {
                write!(f, "'{name}' is no constant of Glide; choose one of {known}")
            }
            Self::Value {
                name,
                text,
                default,
            } => write!(
                f,
                "{name}: '{text}' is no value; give {default}, or up to ten times less or more"
            ),
        }
    }
}

impl std::error::Error for ConstantError {}

impl Constants {
    /// The values that Glide uses.
    pub const DEFAULT: Self = Self {
        window: Window::DEFAULT,
        queue: Queue::DEFAULT,
        delivery: Delivery::DEFAULT,
        cross_traffic: CrossTraffic::DEFAULT,
        competition: Competition::DEFAULT,
        test: LossTest::DEFAULT,
        policed: Policed::DEFAULT,
        random: RandomLoss::DEFAULT,
    };

    /// Returns name and value of every constant. Names are group and field, as
    /// `queue.least_window`.
    pub fn values(mut self) -> Vec<(String, Value)> {
        let mut values = Vec::new();
        self.visit(&mut |name, place| values.push((name.to_owned(), place.get())));
        values
    }

    /// Sets the constant `name` to the value that `text` says: a number, or a time in ms.
    ///
    /// # Errors
    ///
    /// There is no such constant, or the text is not a value between a tenth of its default
    /// and ten times the default.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), ConstantError> {
        let known = Self::DEFAULT.values();
        let default = known.iter().find(|(known, _)| known == name);
        let Some((_, default)) = default else {
            let known: Vec<String> = known.into_iter().map(|(name, _)| name).collect();
            return Err(ConstantError::Unknown {
                name: name.to_owned(),
                known: known.join(", "),
            });
        };
        let value = default.parse_alike(text);
        let value = value.filter(|value| value.is_within(*default, FACTOR_MAX));
        let value = value.ok_or_else(|| ConstantError::Value {
            name: name.to_owned(),
            text: text.to_owned(),
            default: *default,
        })?;
        self.visit(&mut |found, mut place| {
            if found == name {
                place.set(value);
            }
        });
        Ok(())
    }

    /// Calls `visit` with the name and a reference to every constant.
    fn visit(&mut self, visit: &mut Visit<'_>) {
        let mut group = |group: &str, fields: &mut dyn FnMut(&mut Visit<'_>)| {
            fields(&mut |field, place| visit(&format!("{group}.{field}"), place));
        };
        group("window", &mut |visit| self.window.visit(visit));
        group("queue", &mut |visit| self.queue.visit(visit));
        group("delivery", &mut |visit| self.delivery.visit(visit));
        group("cross_traffic", &mut |visit| {
            self.cross_traffic.visit(visit);
        });
        group("competition", &mut |visit| self.competition.visit(visit));
        group("test", &mut |visit| self.test.visit(visit));
        group("policed", &mut |visit| self.policed.visit(visit));
        group("random", &mut |visit| self.random.visit(visit));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_constant_has_a_name_of_its_own_and_takes_half_and_more() {
        let known = Constants::DEFAULT.values();
        assert!(known.len() > 70, "{}", known.len());
        for (place, (name, value)) in known.iter().enumerate() {
            for factor in [0.5, 1.5] {
                let scaled = value.scaled(factor);
                let mut constants = Constants::DEFAULT;
                let set = constants.set(name, &scaled.to_string());
                assert_eq!(set, Ok(()), "{name} {scaled}");
                let differing: Vec<_> = constants
                    .values()
                    .into_iter()
                    .zip(&known)
                    .filter(|(now, before)| now != *before)
                    .map(|(now, _)| now)
                    .collect();
                let expected = vec![(name.clone(), scaled)];
                let is_same = scaled == *value;
                assert!(is_same || differing == expected, "{differing:?}");
            }
            assert!(known[..place].iter().all(|(other, _)| other != name));
        }
    }

    #[test]
    fn what_is_no_constant_or_no_value_is_named() {
        let told = |name: &str, text: &str| {
            let mut constants = Constants::DEFAULT;
            let error = constants.set(name, text).expect_err("it is wrong");
            assert_eq!(constants, Constants::DEFAULT);
            error.to_string()
        };
        let unknown = told("queue.most", "1");
        assert!(
            unknown.contains("'queue.most'") && unknown.contains("queue.least_window"),
            "{unknown}"
        );
        for text in [
            "", "0ms", "-1ms", "1e99ms", "NaNms", "10000", "10s", "900ms",
        ] {
            let error = told("queue.least_window", text);
            assert!(error.contains("queue.least_window"), "{error}");
            assert!(error.contains("give 10000ms"), "{error}");
        }
        for text in ["0", "2.5", "51", "x", "5ms", "inf"] {
            assert!(told("competition.full_rounds", text).contains("give 5"));
        }
        for text in ["0", "NaN", "inf", "-0.5", "7.1", "0.06", "1ms"] {
            assert!(told("competition.ours", text).contains("give 0.7"));
        }
    }

    #[test]
    fn a_time_of_less_than_a_ms_has_a_fraction() {
        let value = Value::Time(Duration::from_millis(3)).scaled(0.5);
        assert_eq!(value.to_string(), "1.5ms");
        assert_eq!(value.parse_alike("1.5ms"), Some(value));
    }
}
