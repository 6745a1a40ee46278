//! The path below which a proxy offers the server.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Longest base path in bytes.
const BYTES_MAX: usize = 256;

/// A path like `/media`, or nothing for the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct BasePath(String);

/// A text is not a [`BasePath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{text}' is no base path: write it with a slash in front, of letters, digits and -._~, like /media"
)]
pub struct BasePathError {
    /// Text that is no base path.
    pub text: String,
}

impl BasePath {
    /// Returns the path without a slash at its end; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for BasePath {
    type Error = BasePathError;

    fn try_from(text: String) -> Result<Self, BasePathError> {
        let path = text.trim_end_matches('/');
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-._~".contains(c);
        let is_segment =
            |it: &str| !it.is_empty() && it != "." && it != ".." && it.chars().all(is_allowed);
        let is_path = match path.strip_prefix('/') {
            Some(segments) => segments.split('/').all(is_segment),
            None => path.is_empty(),
        };
        match is_path && path.len() <= BYTES_MAX {
            true => Ok(Self(path.to_owned())),
            false => Err(BasePathError { text }),
        }
    }
}

impl From<BasePath> for String {
    fn from(path: BasePath) -> Self {
        path.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_path_is_safe_in_headers_and_pages() {
        let path = |text: &str| BasePath::try_from(text.to_owned());
        for (text, kept) in [
            ("", ""),
            ("/", ""),
            ("/media", "/media"),
            ("/a/b-1._~/", "/a/b-1._~"),
        ] {
            assert_eq!(path(text).expect(text).as_str(), kept);
        }
        for bad in [
            "media",
            "//evil.example",
            "/a//b",
            "/a\"b",
            "/a b",
            "/..",
            "/a/../b",
            "/ä",
            "/a?b",
            "https://x",
        ] {
            assert!(path(bad).is_err(), "{bad}");
        }
        assert!(path(&format!("/{}", "a".repeat(BYTES_MAX))).is_err());
    }
}
