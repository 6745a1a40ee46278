use std::fmt;
use std::io;

/// Kind of a loss, by which it is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum FailureKind {
    /// The disk took less than came.
    Slow,
    /// The disk is full, or its user's share is.
    Full,
    /// The disk may be read alone.
    ReadOnly,
    /// The folder or its disk is away.
    Away,
    /// Another error of the disk.
    Error,
    /// The thread that reads the stream came too late.
    Late,
}

impl FailureKind {
    /// Returns the name in the API and in metrics.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Slow => "slow_disk",
            Self::Full => "disk_full",
            Self::ReadOnly => "read_only",
            Self::Away => "disk_away",
            Self::Error => "disk_error",
            Self::Late => "late",
        }
    }
}

/// Reason why something was not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// The reason as people read it, to follow the word "because".
    pub(crate) text: String,
}

impl Failure {
    /// Returns the reason for which a disk refused.
    pub(crate) fn of(error: &io::Error) -> Self {
        let (kind, text) = match error.kind() {
            io::ErrorKind::StorageFull => (FailureKind::Full, "the disk is full"),
            io::ErrorKind::QuotaExceeded => {
                (FailureKind::Full, "the server's user has no space left")
            }
            io::ErrorKind::ReadOnlyFilesystem => {
                (FailureKind::ReadOnly, "the disk can be read alone")
            }
            io::ErrorKind::PermissionDenied => (
                FailureKind::ReadOnly,
                "the server's user may not write there",
            ),
            io::ErrorKind::NotFound
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::StaleNetworkFileHandle
            | io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkDown => (FailureKind::Away, "the folder is away"),
            _ => (FailureKind::Error, "the disk failed"),
        };
        Self {
            kind,
            text: format!("{text} ({error})"),
        }
    }

    /// Returns whether the disk refuses, and has nothing of what waits for it.
    pub(crate) const fn is_refusal(&self) -> bool {
        !matches!(self.kind, FailureKind::Slow | FailureKind::Late)
    }

    /// Returns the reason of a disk that takes less than comes.
    pub(crate) fn slow() -> Self {
        Self {
            kind: FailureKind::Slow,
            text: "the disk is too slow".to_owned(),
        }
    }

    /// Returns the reason of a thread that came too late.
    pub(crate) fn late() -> Self {
        Self {
            kind: FailureKind::Late,
            text: "the server was too busy to read the stream".to_owned(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
