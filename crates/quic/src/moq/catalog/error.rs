use super::rendition::UnsupportedRendition;

/// Longest document or patch that is read, in bytes.
pub(in crate::moq) const BYTES_MAX: usize = 256 << 10;

/// Most renditions of video and audio together.
pub(super) const RENDITIONS_MAX: usize = 64;

/// The reason why a catalog is refused. The publisher is at fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// The document or a patch is too long.
    #[error("the catalog has {bytes} bytes, at most {BYTES_MAX} are read")]
    Long {
        /// Its length in bytes.
        bytes: usize,
    },
    /// The document is not JSON, or lacks the form of a catalog.
    #[error("the catalog is malformed: {0}")]
    Malformed(String),
    /// The catalog has too many renditions.
    #[error("the catalog offers {count} renditions, at most {RENDITIONS_MAX} are read")]
    Many {
        /// Number of renditions in the catalog.
        count: usize,
    },
    /// A field of a rendition has an impossible value.
    #[error("rendition `{name}`: {field} cannot be {value}")]
    InvalidField {
        /// Name of the rendition.
        name: String,
        /// Name of the field.
        field: &'static str,
        /// Value of the field, shortened.
        value: String,
    },
    /// The catalog has no rendition that can be received.
    #[error("no rendition in the catalog can be received{}", list(.unsupported))]
    Nothing {
        /// The renditions, and why each of them cannot be received.
        unsupported: Vec<(String, UnsupportedRendition)>,
    },
}

fn list(unsupported: &[(String, UnsupportedRendition)]) -> String {
    let listed = unsupported.iter().take(4);
    listed
        .map(|(name, why)| format!("; `{name}`: {why}"))
        .collect()
}
