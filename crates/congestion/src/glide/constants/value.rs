use std::fmt;
use std::time::Duration;

/// Value of a constant, by its kind.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value {
    /// A share, a factor, or a size.
    Number(f64),
    /// A number of things, at least 1.
    Count(u32),
    /// A length of time.
    Time(Duration),
}

/// Where a constant is kept.
#[derive(Debug)]
pub(super) enum ConstantRef<'a> {
    /// ConstantRef of a share, a factor, or a size.
    Number(&'a mut f64),
    /// ConstantRef of a number of things.
    Count(&'a mut u32),
    /// ConstantRef of a length of time.
    Time(&'a mut Duration),
}

/// Receives the name and a reference to each constant.
pub(super) type Visit<'a> = dyn FnMut(&str, ConstantRef<'_>) + 'a;

/// Decimals that a scaled number keeps, as a power of ten: 0.2 · 1.5 is to be 0.3.
const PRECISION: f64 = 1e9;

impl Value {
    /// Returns the value times `factor`. A count is rounded, and stays at least 1.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "counts are small, and the conversion saturates"
    )]
    pub fn scaled(self, factor: f64) -> Self {
        match self {
            Self::Number(number) => Self::Number((number * factor * PRECISION).round() / PRECISION),
            Self::Count(count) => Self::Count((f64::from(count) * factor).round().max(1.0) as u32),
            Self::Time(time) => Self::Time(time.mul_f64(factor)),
        }
    }

    /// Parses a value of the same kind as this one.
    pub(super) fn parse_alike(self, text: &str) -> Option<Self> {
        match self {
            Self::Number(_) => text.parse().ok().map(Self::Number),
            Self::Count(_) => text.parse().ok().map(Self::Count),
            Self::Time(_) => {
                let millis: f64 = text.strip_suffix("ms")?.parse().ok()?;
                let time = Duration::try_from_secs_f64(millis / 1000.0);
                time.ok().map(Self::Time)
            }
        }
    }

    /// Whether the value is at most `factor` times smaller or larger than `default`, and
    /// above zero.
    pub(super) fn is_within(self, default: Self, factor: f64) -> bool {
        let number = |value: Self| match value {
            Self::Number(number) => number,
            Self::Count(count) => f64::from(count),
            Self::Time(time) => time.as_secs_f64(),
        };
        let ratio = number(self) / number(default);
        (1.0 / factor..=factor).contains(&ratio)
    }
}

impl fmt::Display for Value {
    /// Writes a number, or a time as `1500ms`.
    #[expect(clippy::cast_precision_loss, reason = "constants are below 2^52 ns")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Count(count) => write!(f, "{count}"),
            Self::Time(time) => write!(f, "{}ms", time.as_nanos() as f64 / 1e6),
        }
    }
}

impl ConstantRef<'_> {
    /// Returns the value that is kept.
    pub(super) fn get(&self) -> Value {
        match self {
            Self::Number(number) => Value::Number(**number),
            Self::Count(count) => Value::Count(**count),
            Self::Time(time) => Value::Time(**time),
        }
    }

    /// Keeps a value of the same kind; any other is ignored.
    pub(super) fn set(&mut self, value: Value) {
        match (self, value) {
            (Self::Number(kept), Value::Number(number)) => **kept = number,
            (Self::Count(kept), Value::Count(count)) => **kept = count,
            (Self::Time(kept), Value::Time(time)) => **kept = time,
            _ => debug_assert!(false, "a value was parsed as another kind: {value:?}"),
        }
    }
}

impl<'a> From<&'a mut f64> for ConstantRef<'a> {
    fn from(place: &'a mut f64) -> Self {
        Self::Number(place)
    }
}

impl<'a> From<&'a mut u32> for ConstantRef<'a> {
    fn from(place: &'a mut u32) -> Self {
        Self::Count(place)
    }
}

impl<'a> From<&'a mut Duration> for ConstantRef<'a> {
    fn from(place: &'a mut Duration) -> Self {
        Self::Time(place)
    }
}
