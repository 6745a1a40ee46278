use std::fmt;
use std::time::Duration;

use glassline_hub::StreamName;

use super::{SpecError, seconds, switch};

/// What receivers get while a source is away.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Away {
    /// Stream whose units are published instead.
    pub fallback: Option<StreamName>,
    /// Whether the source's last keyframe is shown, if there is no fallback or it is away, too.
    pub placeholder: bool,
    /// Time after which a source counts as away.
    pub after: Duration,
}

/// Options of [`Away`].
pub(super) const OPTIONS: [&str; 3] = ["fallback", "placeholder", "after_s"];

/// Time after which a source counts as away, unless the source says otherwise: a camera that was
/// reached again at the first attempts is not.
const AFTER: Duration = Duration::from_secs(2);

impl Default for Away {
    fn default() -> Self {
        Self {
            fallback: None,
            placeholder: false,
            after: AFTER,
        }
    }
}

impl Away {
    /// Whether anything is published while the source is away.
    pub fn is_used(&self) -> bool {
        self.fallback.is_some() || self.placeholder
    }

    /// Takes an option. Returns false if there is none of this name.
    pub(super) fn take(&mut self, key: &str, value: &str) -> Result<bool, SpecError> {
        match key {
            "fallback" => self.fallback = Some(StreamName::parse(value).map_err(SpecError::Name)?),
            "placeholder" => self.placeholder = switch("placeholder", value)?,
            "after_s" => self.after = seconds("after_s", value)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes the options that differ from the defaults, with `separator` before the first.
    pub(super) fn write(&self, f: &mut fmt::Formatter<'_>, mut separator: char) -> fmt::Result {
        if let Some(fallback) = &self.fallback {
            write!(f, "{separator}fallback={fallback}")?;
            separator = '&';
        }
        if self.placeholder {
            write!(f, "{separator}placeholder")?;
            separator = '&';
        }
        if self.after != AFTER {
            write!(f, "{separator}after_s={}", self.after.as_secs_f64())?;
        }
        Ok(())
    }
}
