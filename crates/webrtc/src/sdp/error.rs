use super::limits::{ATTRIBUTES_MAX, BYTES_MAX, LINES_MAX, MEDIA_MAX};

/// Why a description could not be read, and where. The sender's fault: answer 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SDP line {line}: {reason}")]
pub struct Error {
    /// The offending line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub reason: Reason,
}

impl Error {
    pub(super) const fn at(line: usize, reason: Reason) -> Self {
        Self { line, reason }
    }
}

/// What is wrong with a line of a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The whole text is over [`BYTES_MAX`]; the line is where the bound falls.
    #[error("the description is larger than {BYTES_MAX} bytes")]
    TooLarge,
    /// More than [`LINES_MAX`] lines.
    #[error("more than {LINES_MAX} lines")]
    TooManyLines,
    /// More than [`MEDIA_MAX`] `m=` lines.
    #[error("more than {MEDIA_MAX} m= lines")]
    TooManyMedia,
    /// More than [`ATTRIBUTES_MAX`] lines in one section.
    #[error("more than {ATTRIBUTES_MAX} lines in one section")]
    TooManyAttributes,
    /// Not of the form `x=…`.
    #[error("a line is one lower-case letter, `=` and a value")]
    NotALine,
    /// A control character, or a carriage return that does not end the line.
    #[error("control character in the line")]
    ControlCharacter,
    /// A line that must stand here is missing (RFC 8866 §5 fixes the order).
    #[error("expected a line `{0}=` here")]
    Expected(char),
    /// A letter that RFC 8866 does not define.
    #[error("line type `{0}=` is not one of RFC 8866's")]
    UnknownType(char),
    /// A line that may stand only once, or only at session level.
    #[error("line `{0}=` may not stand here")]
    Misplaced(char),
    /// `v=` is not 0.
    #[error("version is not 0")]
    Version,
    /// The fields of a line other than `a=`.
    #[error("`{kind}=`: {problem}")]
    Field {
        /// The letter of the line.
        kind: char,
        /// What is wrong.
        problem: &'static str,
    },
    /// The value of a known attribute.
    #[error("`a={name}`: {problem}")]
    Attribute {
        /// The attribute's name.
        name: &'static str,
        /// What is wrong with its value.
        problem: &'static str,
    },
    /// Two `m=` sections with one identification tag (RFC 5888 §8.1).
    #[error("a=mid repeats the tag of an earlier m= line")]
    DuplicateMid,
}
