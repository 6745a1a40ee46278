use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const BYTES_MAX: usize = 256;

/// The streams that a right is for: a name, all names with a prefix (`cam/*`), or all (`*`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Pattern(String);

impl Pattern {
    /// Checks `text`.
    ///
    /// # Errors
    /// Returns [`PatternError`] with the rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        if text.is_empty() || text.len() > BYTES_MAX {
            return Err(PatternError::Length { bytes: text.len() });
        }
        let name = text.strip_suffix('*').unwrap_or(text);
        if name.contains('*') {
            return Err(PatternError::Star(text.to_owned()));
        }
        // Stream names do not begin with a slash, so such a pattern would match nothing.
        if name.starts_with('/') {
            return Err(PatternError::Slash(text.to_owned()));
        }
        if name.contains(char::is_control) {
            return Err(PatternError::Character(text.escape_debug().to_string()));
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns whether the pattern matches `stream`.
    pub fn matches(&self, stream: &str) -> bool {
        match self.0.strip_suffix('*') {
            Some(prefix) => stream.starts_with(prefix),
            None => stream == self.0,
        }
    }
}

impl TryFrom<String> for Pattern {
    type Error = PatternError;

    fn try_from(text: String) -> Result<Self, PatternError> {
        Self::parse(&text)
    }
}

impl std::str::FromStr for Pattern {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        Self::parse(text)
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a text is not a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is empty or too long.
    #[error(
        "a pattern of streams has 1 to {BYTES_MAX} bytes, this one has {bytes}: write '*' for all"
    )]
    Length {
        /// Length found, in bytes.
        bytes: usize,
    },
    /// The pattern has a star before its end.
    #[error("'{0}': a '*' is allowed only at the end of a pattern, like 'cam/*'")]
    Star(String),
    /// The pattern begins with a slash.
    #[error("'{0}' begins with '/': write the stream's name without it")]
    Slash(String),
    /// The pattern has a control character, such as a line end.
    #[error("pattern '{0}' has a control character: remove it")]
    Character(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_names_beginnings_or_all() {
        let matches = |pattern: &str, stream: &str| {
            let pattern = Pattern::parse(pattern).expect("a good pattern");
            pattern.matches(stream)
        };
        assert!(matches("*", "anything/at all.mkv"));
        assert!(matches("cam/*", "cam/1") && !matches("cam/*", "cam"));
        assert!(matches("cam*", "camera") && !matches("cam*", "xcam"));
        assert!(matches("hall", "hall") && !matches("hall", "hall2"));
    }

    #[test]
    fn patterns_that_match_nothing_are_refused() {
        for bad in ["", "/cam", "a*b", "**", "a\nb", &"x".repeat(257)] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
