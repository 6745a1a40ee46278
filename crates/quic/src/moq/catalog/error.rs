use super::rendition::LeftOut;

/// Bytes of the document, or of one patch.
pub(in crate::moq) const BYTES_MAX: usize = 256 << 10;

/// Ways in which video and audio may be offered, together.
pub(super) const RENDITIONS_MAX: usize = 64;

/// Why a catalog is refused. Its publisher's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CatalogError {
    /// Longer than any list of tracks.
    #[error("the catalog has {bytes} bytes, at most {BYTES_MAX} are read")]
    Long {
        /// Length found.
        bytes: usize,
    },
    /// No JSON, or not of this form.
    #[error("the catalog is none: {0}")]
    Malformed(String),
    /// More than anybody chooses from.
    #[error("the catalog offers {count} renditions, at most {RENDITIONS_MAX} are read")]
    Many {
        /// How many.
        count: usize,
    },
    /// A rendition that cannot be what it says.
    #[error("rendition `{name}`: {field} cannot be {value}")]
    Nonsense {
        /// Which.
        name: String,
        /// What of it.
        field: &'static str,
        /// As it stands there, shortened.
        value: String,
    },
    /// Nothing in it is of use.
    #[error("nothing in the catalog can be carried{}", list(.left_out))]
    Nothing {
        /// What there is, and why not.
        left_out: Vec<(String, LeftOut)>,
    },
}

fn list(left_out: &[(String, LeftOut)]) -> String {
    let told = left_out.iter().take(4);
    told.map(|(name, why)| format!("; `{name}`: {why}"))
        .collect()
}
