use std::borrow::Borrow;
use std::fmt;

/// Maximum length of a stream name in bytes.
const BYTES_MAX: usize = 128;

/// The name of a stream: 1 to 128 characters of `A–Z a–z 0–9 . _ ~ -`, of which the first is
/// neither `.` nor `-`.
///
/// These are the unreserved characters of RFC 3986 §2.3, so a name needs no escaping in a URL,
/// a file name or a metric label.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StreamName(String);

/// Beginning of the names of streams that a check publishes to see whether a server works.
pub const CHECK_PREFIX: &str = "glassline-doctor-";

impl StreamName {
    /// Checks that `text` is a valid name and returns it as one.
    ///
    /// # Errors
    /// [`NameError`] names the rule that `text` breaks.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        if text.is_empty() || text.len() > BYTES_MAX {
            return Err(NameError::Length { bytes: text.len() });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._~-".contains(c);
        if let Some(found) = text.chars().find(|c| !allowed(*c)) {
            return Err(NameError::Character {
                name: text.to_owned(),
                found,
            });
        }
        if text.starts_with(['.', '-']) {
            return Err(NameError::Start {
                name: text.to_owned(),
            });
        }
        Ok(Self(text.to_owned()))
    }

    /// Returns whether the stream is one of a check: such a stream is removed when its publisher
    /// leaves.
    pub fn is_of_check(&self) -> bool {
        self.0.starts_with(CHECK_PREFIX)
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for StreamName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a text is not a valid stream name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// The name is empty or longer than 128 bytes.
    #[error("a stream's name has 1 to {BYTES_MAX} characters, this one has {bytes}")]
    Length {
        /// Number of bytes of the name.
        bytes: usize,
    },
    /// The name contains a character that is not allowed.
    #[error("'{found}' in stream name '{name}': use letters, digits, '.', '_', '~' and '-'")]
    Character {
        /// The whole name that was checked.
        name: String,
        /// First character that is not allowed.
        found: char,
    },
    /// The name begins with a dot or a dash.
    #[error("stream name '{name}' begins with '.' or '-': begin with a letter, digit, '_' or '~'")]
    Start {
        /// The whole name that was checked.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_in_urls_as_they_are() {
        for good in ["demo", "cam-1", "Hall_2.main", "a", "~x"] {
            assert_eq!(
                StreamName::parse(good).map(|n| n.to_string()).as_deref(),
                Ok(good)
            );
        }
        assert!(matches!(
            StreamName::parse(""),
            Err(NameError::Length { bytes: 0 })
        ));
        assert!(matches!(
            StreamName::parse(&"x".repeat(129)),
            Err(NameError::Length { bytes: 129 })
        ));
        let longest = StreamName::parse(&"x".repeat(128)).expect("128 bytes");
        assert_eq!(longest.as_str().len(), 128);
        for start in [".hidden", "-option"] {
            let refused = StreamName::parse(start);
            assert!(matches!(refused, Err(NameError::Start { .. })), "{start}");
        }
        assert!(matches!(
            StreamName::parse("a/b"),
            Err(NameError::Character { found: '/', .. })
        ));
        assert!(matches!(
            StreamName::parse("../etc"),
            Err(NameError::Character { .. })
        ));
        assert!(matches!(
            StreamName::parse("-"),
            Err(NameError::Start { .. })
        ));
    }
}
