//! Checks of a file's values, whose errors name the stratum and the key.

use std::ops::RangeInclusive;

use super::PopulationError;
use super::distribution::Distribution;

/// Name of the stratum that an error belongs to, or `the file`.
pub(super) struct ErrorContext<'a>(pub(super) &'a str);

impl ErrorContext<'_> {
    /// Returns an error about a key.
    pub(super) fn value(&self, key: &str, reason: String) -> PopulationError {
        PopulationError::Value {
            place: self.0.to_owned(),
            key: key.to_owned(),
            reason,
        }
    }

    /// Checks that a number is in a range.
    pub(super) fn number(
        &self,
        key: &str,
        value: f64,
        allowed: RangeInclusive<f64>,
    ) -> Result<(), PopulationError> {
        if allowed.contains(&value) {
            return Ok(());
        }
        let (low, high) = allowed.into_inner();
        Err(self.value(key, format!("{value} is not within {low} to {high}")))
    }

    /// Checks that a distribution is in a range.
    pub(super) fn within(
        &self,
        key: &str,
        distribution: &Distribution,
        allowed: RangeInclusive<f64>,
    ) -> Result<(), PopulationError> {
        let range = distribution.range();
        let [least, most] = range.map_err(|reason| self.value(key, reason.to_owned()))?;
        if allowed.contains(&least) && allowed.contains(&most) {
            return Ok(());
        }
        let (low, high) = allowed.into_inner();
        let reason = format!(
            "its values go from {least:.4} to {most:.4}, but {low} to {high} is allowed; narrow it, a log_normal by min and max"
        );
        Err(self.value(key, reason))
    }
}
