use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

const BYTES_MAX: usize = 256;

/// The streams that a right is for.
///
/// | pattern | names |
/// |---|---|
/// | `door` | this one |
/// | `cam*`, `site/cam*`, `*` | those that go on with anything but a `/`, or with nothing |
/// | `site/**`, `**` | all below a folder, and all |
///
/// A `*` stops at a `/`, so that a right to `site/*` says nothing of folders that come later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema, derive_more::Display)]
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
        let name = match text.strip_suffix("**") {
            Some(folder) if folder.is_empty() || folder.ends_with('/') => folder,
            _ => text.strip_suffix('*').unwrap_or(text),
        };
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
        if let Some(folder) = self.0.strip_suffix("**") {
            return stream.starts_with(folder);
        }
        match self.0.strip_suffix('*') {
            Some(beginning) => stream
                .strip_prefix(beginning)
                .is_some_and(|rest| !rest.contains('/')),
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

/// The reason why a text is not a [`Pattern`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// The pattern is empty or too long.
    #[error(
        "a pattern of streams has 1 to {BYTES_MAX} bytes, this one has {bytes}: write '**' for all"
    )]
    Length {
        /// Length found, in bytes.
        bytes: usize,
    },
    /// The pattern has a star before its end, or two that are no part of their own.
    #[error(
        "'{0}': a '*' is allowed only at the end of a pattern, like 'cam*', and '**' only as its last \
         part, like 'site/**'"
    )]
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
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, stream: &str) -> bool {
        let pattern = Pattern::parse(pattern).expect("a good pattern");
        pattern.matches(stream)
    }

    proptest! {
        /// Names had no folders when these patterns were written.
        #[test]
        fn a_pattern_matches_names_without_folders_as_it_always_did(
            name in "[a-c~.]{0,6}", beginning in "[a-c~.]{1,4}", star in any::<bool>(),
        ) {
            let pattern = format!("{beginning}{}", if star { "*" } else { "" });
            let before = match star {
                true => name.starts_with(&beginning),
                false => name == beginning,
            };
            prop_assert_eq!(matches(&pattern, &name), before);
            prop_assert!(matches("*", &name));
        }

        #[test]
        fn one_star_never_crosses_a_folder_and_two_do(
            name in "[ab]{1,2}(/[ab]{1,2}){0,3}", beginning in "([ab]{1,2}/){0,2}[ab]{0,2}",
        ) {
            let pattern = format!("{beginning}*");
            let slashes = |text: &str| text.matches('/').count();
            let is_matched = matches(&pattern, &name);
            prop_assert!(!is_matched || slashes(&name) == slashes(&beginning));
            prop_assert!(!is_matched || name.starts_with(&beginning));
            let folder = beginning.rfind('/').map_or("", |at| &beginning[..=at]);
            let below = matches(&format!("{folder}**"), &name);
            prop_assert_eq!(below, name.starts_with(folder));
            prop_assert!(below || !is_matched);
        }
    }

    #[test]
    fn patterns_are_names_beginnings_or_all() {
        assert!(matches("**", "anything/at all.mkv") && !matches("*", "anything/at all.mkv"));
        assert!(matches("site/**", "site/a/b") && !matches("site/**", "site"));
        assert!(!matches("site*", "site/a") && !matches("site/**", "sites/a"));
        assert!(matches("cam/*", "cam/1") && !matches("cam/*", "cam"));
        assert!(matches("cam*", "camera") && !matches("cam*", "xcam"));
        assert!(matches("hall", "hall") && !matches("hall", "hall2"));
    }

    #[test]
    fn patterns_that_match_nothing_are_refused() {
        for bad in [
            "",
            "/cam",
            "a*b",
            "cam**",
            "***",
            "a/**/b",
            "a\nb",
            &"x".repeat(257),
        ] {
            assert!(Pattern::parse(bad).is_err(), "{bad}");
        }
    }
}
