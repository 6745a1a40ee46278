use super::limits::{ATTRIBUTES_MAX, BYTES_MAX, LINES_MAX, MEDIA_MAX};

/// The reason why a description could not be parsed, and on which line. The sender is at fault: answer
/// with HTTP 400.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SDP line {line}: {reason}")]
pub struct Error {
    /// Number of the offending line, from 1.
    pub line: usize,
    /// The fault of the line.
    pub reason: Reason,
}

impl Error {
    pub(super) const fn at(line: usize, reason: Reason) -> Self {
        Self { line, reason }
    }
}

/// The fault of a line of a description.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Reason {
    /// The text is longer than [`BYTES_MAX`]; the line is the one in which the limit falls.
    #[error("the description is larger than {BYTES_MAX} bytes")]
    TooLarge,
    /// There are more than [`LINES_MAX`] lines.
    #[error("more than {LINES_MAX} lines")]
    TooManyLines,
    /// There are more than [`MEDIA_MAX`] `m=` lines.
    #[error("more than {MEDIA_MAX} m= lines")]
    TooManyMedia,
    /// There are more than [`ATTRIBUTES_MAX`] lines in one section.
    #[error("more than {ATTRIBUTES_MAX} lines in one section")]
    TooManyAttributes,
    /// The line does not have the form `x=…`.
    #[error("a line is one lower-case letter, `=` and a value")]
    NotALine,
    /// The line contains a control character, or a carriage return that does not end it.
    #[error("control character in the line")]
    ControlCharacter,
    /// A line that must be here is missing (RFC 8866 §5 specifies the order).
    #[error("expected a line `{0}=` here")]
    Expected(char),
    /// The line type is a letter that RFC 8866 does not define.
    #[error("line type `{0}=` is not one of RFC 8866's")]
    UnknownType(char),
    /// The line may occur only once, or only in the session section.
    #[error("line `{0}=` may not stand here")]
    Misplaced(char),
    /// `v=` is not 0.
    #[error("version is not 0")]
    Version,
    /// A field of a line other than `a=` is invalid.
    #[error("`{kind}=`: {problem}")]
    Field {
        /// Letter of the line.
        kind: char,
        /// The fault of the field.
        problem: &'static str,
    },
    /// The value of a known attribute is invalid.
    #[error("`a={name}`: {problem}")]
    Attribute {
        /// Name of the attribute.
        name: &'static str,
        /// The fault of its value.
        problem: &'static str,
    },
    /// Two `m=` sections have the same identification tag (RFC 5888 §8.1).
    #[error("a=mid repeats the tag of an earlier m= line")]
    DuplicateMid,
}
