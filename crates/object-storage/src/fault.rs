use std::io;
use std::path::{Path, PathBuf};

use object_store::Error;

/// The reason why a file was not copied, read or deleted.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The configuration describes no storage.
    #[error("the object storage cannot be used: {0}")]
    Settings(String),
    /// The local file cannot be read.
    #[error("{}: {source}", path.display())]
    Local {
        /// Path of the local file.
        path: PathBuf,
        /// The error of reading.
        source: io::Error,
    },
    /// The local file changed its length during the copy.
    #[error("{} changed while it was copied; only closed files are copied", path.display())]
    Changed {
        /// Path of the local file.
        path: PathBuf,
    },
    /// The storage does not accept the key, or the key may not do what was asked.
    #[error(
        "{storage} refuses the access key: {text}; check key, secret and the rights of the key"
    )]
    Refused {
        /// The storage, as bucket and endpoint.
        storage: String,
        /// The answer of the storage.
        text: String,
    },
    /// There is no such object or no such bucket.
    #[error("{storage} has no {key}")]
    Missing {
        /// The storage, as bucket and endpoint.
        storage: String,
        /// The key of the object.
        key: String,
    },
    /// The storage holds another length than the file has.
    #[error("{storage} holds {held} bytes of {key}, which has {bytes}; the file is copied again")]
    Incomplete {
        /// The storage, as bucket and endpoint.
        storage: String,
        /// The key of the object.
        key: String,
        /// Length of the local file in bytes.
        bytes: u64,
        /// Length of the object in bytes.
        held: u64,
    },
    /// The storage does not answer, or answers with an error of its own.
    #[error("{storage} does not do as asked: {text}")]
    Storage {
        /// The storage, as bucket and endpoint.
        storage: String,
        /// The first cause.
        text: String,
    },
}

impl CopyError {
    /// Returns whether the file itself is at fault, so that another attempt cannot help.
    pub fn is_of_the_file(&self) -> bool {
        matches!(self, Self::Local { .. } | Self::Changed { .. })
    }

    pub(crate) fn local(path: &Path, source: io::Error) -> Self {
        Self::Local {
            path: path.to_owned(),
            source,
        }
    }

    /// Reads an error of `object_store` about the object `key` of `storage`.
    pub(crate) fn of_store(storage: &str, key: &str, error: &Error) -> Self {
        let storage = storage.to_owned();
        match error {
            Error::NotFound { .. } => Self::Missing {
                storage,
                key: key.to_owned(),
            },
            Error::PermissionDenied { source, .. } | Error::Unauthenticated { source, .. } => {
                Self::Refused {
                    storage,
                    text: first_cause(&**source),
                }
            }
            other => Self::Storage {
                storage,
                text: first_cause(other),
            },
        }
    }
}

/// Longest text of a storage that is told, in characters.
const TEXT_MAX: usize = 200;

/// Returns the text of the innermost error: the outer ones repeat it beside words of their libraries.
/// Of an answer in XML, code and message remain.
fn first_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    let text = cause.to_string();
    let told = match (element(&text, "Code"), element(&text, "Message")) {
        (Some(code), Some(message)) => format!("{code}: {}", message.trim_end_matches('.')),
        (Some(code), None) => code.to_owned(),
        (None, _) => text,
    };
    told.chars().take(TEXT_MAX).collect()
}

/// Returns the text of the first element `name` of an XML document.
fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_xml_is_told_by_code_and_message() {
        let told = |text: String| first_cause(&io::Error::other(text));
        let xml = "403: <Error><Code>SignatureDoesNotMatch</Code><Message>Check your key.</Message>\
                   <StringToSign>AWS4</StringToSign></Error>";
        assert_eq!(
            told(xml.to_owned()),
            "SignatureDoesNotMatch: Check your key"
        );
        assert_eq!(told("connection refused".to_owned()), "connection refused");
        assert_eq!(told("<Code>SlowDown</Code>".to_owned()), "SlowDown");
        assert_eq!(told("é".repeat(1_000)).chars().count(), TEXT_MAX);
    }
}
