use std::borrow::Borrow;

/// Maximum length of a stream name in bytes.
const BYTES_MAX: usize = 128;

/// Most components of a name: folders, and what is in the last one.
const COMPONENTS_MAX: usize = 8;

/// The name of a stream: 1 to 128 characters of `A–Z a–z 0–9 . _ ~ -`, in 1 to 8 components with a
/// `/` between two of them, like `site/cam1`. No component begins with `.` or `-`.
///
/// Within a component these are the unreserved characters of RFC 3986 §2.3, so a name needs no
/// escaping in a URL or a metric label. A component is never `..`, so a name that is used as a path
/// leads downwards only.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Display)]
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
        let name = || text.to_owned();
        let allowed = |c: char| c.is_ascii_alphanumeric() || "._~-/".contains(c);
        if let Some(found) = text.chars().find(|c| !allowed(*c)) {
            let name = name();
            return Err(NameError::Character { name, found });
        }
        let components = text.split('/');
        if components.clone().any(str::is_empty) {
            return Err(NameError::Empty { name: name() });
        }
        if components.clone().any(|it| it.starts_with(['.', '-'])) {
            return Err(NameError::Start { name: name() });
        }
        match components.count() {
            found if found > COMPONENTS_MAX => Err(NameError::Components { found }),
            _ => Ok(Self(name())),
        }
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

/// The reason why a text is not a valid stream name.
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
    #[error(
        "'{}' in stream name '{}': use letters, digits, '.', '_', '~', '-', and '/' between folders",
        found.escape_debug(),
        name.escape_debug()
    )]
    Character {
        /// The whole name that was checked.
        name: String,
        /// First character that is not allowed.
        found: char,
    },
    /// A component of the name has no characters.
    #[error("stream name '{name}' has a '/' at its beginning or end, or two in a row: remove it")]
    Empty {
        /// The whole name that was checked.
        name: String,
    },
    /// The name or one of its components begins with a dot or a dash.
    #[error(
        "stream name '{name}': no part of it begins with '.' or '-'; begin with a letter, digit, '_' \
         or '~'"
    )]
    Start {
        /// The whole name that was checked.
        name: String,
    },
    /// The name has too many components.
    #[error("a stream's name has at most {COMPONENTS_MAX} parts between '/', this one has {found}")]
    Components {
        /// Number of components of the name.
        found: usize,
    },
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_stand_in_urls_as_they_are() {
        for good in [
            "demo",
            "cam-1",
            "Hall_2.main",
            "a",
            "~x",
            "site/cam1",
            "a/b/c/d/e/f/g/h",
        ] {
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
        for character in ["a b", "😀", "a\nb", "a\\b", "a%2Fb", "a?b", "a#b", "cam*"] {
            let refused = StreamName::parse(character);
            assert!(
                matches!(refused, Err(NameError::Character { .. })),
                "{character}"
            );
        }
        for empty in ["/", "/a", "a/", "a//b"] {
            let refused = StreamName::parse(empty);
            assert!(matches!(refused, Err(NameError::Empty { .. })), "{empty}");
        }
        for start in [".hidden", "-option", "-", "../etc", "a/../b", "a/.", "a/-b"] {
            let refused = StreamName::parse(start);
            assert!(matches!(refused, Err(NameError::Start { .. })), "{start}");
        }
        assert!(matches!(
            StreamName::parse("a/b/c/d/e/f/g/h/i"),
            Err(NameError::Components { found: 9 })
        ));
    }

    proptest! {
        /// Every name is harmless as a path below a folder, and in a line of a log.
        #[test]
        fn no_name_leads_out_of_a_folder(text in "\\PC{0,40}|[a.~/-]{1,20}") {
            match StreamName::parse(&text) {
                Ok(name) => {
                    let path = std::path::Path::new(name.as_str());
                    let is_plain = |it| matches!(it, std::path::Component::Normal(_));
                    prop_assert!(path.components().all(is_plain));
                    prop_assert_eq!(path.components().count(), name.as_str().split('/').count());
                }
                Err(error) => prop_assert!(!error.to_string().contains(char::is_control)),
            }
        }
    }
}
